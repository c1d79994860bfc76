package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// maxAliases bounds the aliases of one definition, and maxPatterns those of a workspace
// that have a star: a name that is neither a key nor an alias is compared with all of them.
const (
	maxAliases  = 100
	maxPatterns = 100
)

// Endpoint returns the endpoint that has the name as its key or as an alias, or nil.
func (s *Snapshot) Endpoint(name string) *Endpoint {
	if d := s.Named(kind.Endpoint, name); d != nil {
		return s.Endpoints[d.Key]
	}
	return nil
}

// AskedAs returns a name of the definition, its key or an alias, as the definition holds
// it, or a copy of a name that a pattern matches. The given one may be a view of a request,
// which nothing may keep.
func (d *Definition) AskedAs(name string) string {
	if name == d.Key {
		return d.Key
	}
	if i := slices.Index(d.Aliases, name); i >= 0 {
		return d.Aliases[i]
	}
	return strings.Clone(name)
}

// pattern is an alias of an endpoint with a star, which stands for any text.
type pattern struct {
	prefix, suffix string
	endpoint       *Definition
}

// patternOf returns an alias as a pattern. ok is false for one without a star.
func patternOf(alias string) (p pattern, ok bool) {
	p.prefix, p.suffix, ok = strings.Cut(alias, "*")
	return p, ok
}

func (p *pattern) len() int { return len(p.prefix) + len(p.suffix) }

func (p *pattern) matches(name string) bool {
	return len(name) >= p.len() && strings.HasPrefix(name, p.prefix) && strings.HasSuffix(name, p.suffix)
}

// both returns a name that two patterns match, or "". For example, a*b and ab* match abb.
func both(p, q pattern) string {
	longer := func(a, b string) string {
		if len(a) > len(b) {
			return a
		}
		return b
	}
	name := longer(p.prefix, q.prefix) + longer(p.suffix, q.suffix)
	if !p.matches(name) || !q.matches(name) {
		return ""
	}
	return cmp.Or(name, "a")
}

// matching returns the endpoint of the longest pattern that matches a name, or nil.
func (s *Snapshot) matching(name string) *Definition {
	for i := range s.patterns {
		if p := &s.patterns[i]; p.matches(name) && ValidKey(name) {
			return p.endpoint
		}
	}
	return nil
}

// readAliases reads the aliases of all definitions, once all keys are known. A name
// stands for one definition of a kind.
func (l *loader) readAliases() {
	l.aliases = make(map[*kind.Kind]map[string]string)
	var patterns []placedPattern
	for k, docs := range l.docs {
		owners, places := make(map[string]string), make(map[string]document.Position)
		for _, d := range docs {
			for _, n := range d.aliasNodes(l.errs) {
				alias, ok := d.alias(n, l.errs)
				other := l.byKey[k][alias]
				switch owner, taken := owners[alias]; {
				case !ok:
				case k == kind.Endpoint && strings.Contains(alias, "*"):
					patterns = l.readPattern(patterns, d, n, alias)
				case !ValidKey(alias):
					l.errs.Add(n, "%q can't be an alias: 1 to 256 letters, digits and . _ : / -", alias)
				case other == d:
					l.errs.Add(n, "%q is the key of this %s: leave it out of the aliases", alias, k.Noun)
				case other != nil:
					l.errs.Add(n, "the alias %q is taken: %s is the %s %q", alias, other.node.Pos, k.Noun, alias)
				case taken:
					l.errs.Add(n, "the alias %q is taken: %s is an alias of the %s %q too", alias, places[alias], k.Noun, owner)
				default:
					owners[alias], places[alias] = d.key, n.Pos
					d.aliases = append(d.aliases, alias)
				}
			}
			slices.Sort(d.aliases) // their order means nothing
		}
		l.aliases[k] = owners
	}
}

// placedPattern is a pattern, with the endpoint's key and its place.
type placedPattern struct {
	pattern
	text, key string
	at        document.Position
}

// readPattern reads an alias with a star. The longest one that matches a name counts, so
// that no name may match two that are equally long.
func (l *loader) readPattern(before []placedPattern, d *doc, n *document.Node, alias string) []placedPattern {
	if !ValidKey(strings.Replace(alias, "*", "-", 1)) {
		l.errs.Add(n, "%q can't be an alias: 1 to 256 letters, digits and . _ : / - with one star at most", alias)
		return before
	}
	p, _ := patternOf(alias)
	for _, other := range before {
		switch name := both(p, other.pattern); {
		case alias == other.text:
			l.errs.Add(n, "the alias %q is taken: %s is an alias of the endpoint %q too", alias, other.at, other.key)
			return before
		case d.key != other.key && p.len() == other.len() && name != "":
			l.errs.Add(n, "the alias %q clashes with %q of the endpoint %q (%s): both match %q, and neither is longer", alias, other.text, other.key, other.at, name)
			return before
		}
	}
	if len(before) > maxPatterns { // which is reported
		return before
	}
	if len(before) == maxPatterns {
		l.errs.Add(n, "the endpoints have more than %d aliases with a star", maxPatterns)
	}
	d.aliases = append(d.aliases, alias)
	return append(before, placedPattern{p, alias, d.key, n.Pos})
}

// aliasNodes returns the elements of the member aliases.
func (d *doc) aliasNodes(errs *document.Errors) []*document.Node {
	n := d.node.Get("aliases")
	switch {
	case n.IsNull():
	case n.Shape != document.Sequence:
		errs.Add(n, "aliases must be a list of names such as [old/key], this is %s", n.Describe())
	case len(n.Items) > maxAliases:
		errs.Add(n, "the %s %s has %d aliases, at most %d are possible", d.kind.Noun, d.key, len(n.Items), maxAliases)
	default:
		return n.Items
	}
	return nil
}

// promptID is an alias that is the id of a prompt at OpenAI, whose versions are given.
type promptID struct {
	id       string
	versions *document.Node
}

// alias reads an alias. One of an endpoint may be { id: pmpt_1, versions: { "3": en } }.
func (d *doc) alias(n *document.Node, errs *document.Errors) (string, bool) {
	if n.Shape != document.Mapping || d.kind != kind.Endpoint {
		return n.ReadString(errs, "an alias")
	}
	n.CheckMembers(errs, "an alias", "id", "versions")
	if n.Get("id") == nil {
		errs.Add(n, "id is missing: write { id: pmpt_…, versions: { \"3\": VARIANT } }, or the id alone")
		return "", false
	}
	id, ok := n.Get("id").ReadString(errs, "id")
	if strings.Contains(id, "*") {
		errs.Add(n.Get("id"), "%q can't be an id: a star is for aliases that are text", id)
		return "", false
	}
	if ok && n.Get("versions") != nil {
		d.promptIDs = append(d.promptIDs, promptID{id, n.Get("versions")})
	}
	return id, ok
}

// readVersions reads which variants of the endpoint's prompt the versions of OpenAI's
// prompts stand for.
func (e *Endpoint) readVersions(d *doc, errs *document.Errors) {
	var variants []string
	if e.Prompt != nil {
		for _, v := range e.Prompt.variants {
			variants = append(variants, v.Key)
		}
	}
	for _, of := range d.promptIDs {
		if !of.versions.CheckMapping(errs, "versions", `{ "3": VARIANT }`) {
			continue
		}
		if n := len(of.versions.Members); n > maxAliases {
			errs.Add(of.versions, "the alias %s has %d versions, at most %d are possible", of.id, n, maxAliases)
			continue
		}
		versions := make(map[string]string)
		for _, m := range of.versions.Members {
			variant, ok := m.Value.ReadString(errs, "a version's variant")
			switch {
			case !ok:
			case !ValidKey(m.Key.Text):
				errs.Add(m.Key, "%q can't be a version: 1 to 256 letters, digits and . _ : / -", m.Key.Text)
			case e.Prompt != nil && !slices.Contains(variants, variant):
				errs.Add(m.Value, "the prompt %s has no variant %q%s", e.Prompt.Key, variant, document.DidYouMean(variant, variants))
			default:
				versions[m.Key.Text] = variant
			}
		}
		if e.Versions == nil {
			e.Versions = make(map[string]map[string]string)
		}
		e.Versions[of.id] = versions
	}
}

// didYouMean returns the end of the message about a key that no definition of the kind
// has. Definitions name each other by their keys, so that their content is the same
// whatever aliases there are.
func (l *loader) didYouMean(k *kind.Kind, name string) string {
	if key, isAlias := l.aliases[k][name]; isAlias {
		return fmt.Sprintf(": it is an alias, which is for callers only: write the key %q", key)
	}
	return document.DidYouMean(name, l.keys(k))
}
