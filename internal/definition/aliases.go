package definition

import (
	"fmt"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// maxAliases bounds the aliases of one definition.
const maxAliases = 100

// Endpoint returns the endpoint that has the name as its key or as an alias, or nil.
func (s *Snapshot) Endpoint(name string) *Endpoint {
	if d := s.Named(kind.Endpoint, name); d != nil {
		return s.Endpoints[d.Key]
	}
	return nil
}

// AskedAs returns a name of the definition, its key or an alias, as the definition holds
// it. The given one may be a view of a request, which nothing may keep.
func (d *Definition) AskedAs(name string) string {
	if name == d.Key {
		return d.Key
	}
	return d.Aliases[slices.Index(d.Aliases, name)]
}

// readAliases reads the aliases of all definitions, once all keys are known. A name
// stands for one definition of a kind.
func (l *loader) readAliases() {
	l.aliases = make(map[*kind.Kind]map[string]string)
	for k, docs := range l.docs {
		owners, places := make(map[string]string), make(map[string]document.Position)
		for _, d := range docs {
			for _, n := range d.aliasNodes(l.errs) {
				alias, ok := n.ReadString(l.errs, "an alias")
				other := l.byKey[k][alias]
				switch owner, taken := owners[alias]; {
				case !ok:
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

// didYouMean returns the end of the message about a key that no definition of the kind
// has. Definitions name each other by their keys, so that their content is the same
// whatever aliases there are.
func (l *loader) didYouMean(k *kind.Kind, name string) string {
	if key, isAlias := l.aliases[k][name]; isAlias {
		return fmt.Sprintf(": it is an alias, which is for callers only: write the key %q", key)
	}
	return document.DidYouMean(name, l.keys(k))
}
