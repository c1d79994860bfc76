package definition

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/valyala/fastjson"
)

// configuredKey names what variables take from remote configurations. All prompts of
// a loading share it.
type configuredKey struct{ config, path string }

// leads is where a path leads in the values of a remote configuration.
type leads struct {
	to   *prompt.Configured // nil where a value has a mistake
	none []int              // the outcomes without the path, -1 for the default

	// Of the values without the path: how many members of it the best of them has,
	// and the members that those have instead of the next.
	depth int
	known map[string]bool
}

// configured resolves the remote configuration of a variable's declaration, for the
// prompt of d.
func (l *loader) configured(d *doc, n *document.Node, errs *document.Errors) *prompt.Configured {
	at := n.Get("config")
	key, ok := at.ReadString(errs, "config")
	if !ok {
		return nil
	}
	path, ok := readPath(n.Get("path"), errs)
	if !ok {
		return nil
	}
	c := l.configs[key]
	l.refer(d, kind.RemoteConfig, at, c != nil)
	if c == nil {
		if l.missing(kind.RemoteConfig, key) {
			l.unknownConfig(at, key, errs)
		}
		return nil
	}
	if d.texts > MaxContent {
		return nil // too large already
	}
	found := l.lead(c, path)
	if found.to == nil {
		return nil // a value has a mistake
	}
	if !d.reads[found.to] {
		if d.reads == nil {
			d.reads = make(map[*prompt.Configured]bool)
		}
		d.reads[found.to] = true
		d.texts += found.to.Size()
	}
	switch {
	case len(found.none) > len(c.values):
		found.report(c, path, n.Get("path"), errs)
	case len(found.none) > 0 && n.Get("default").IsNull():
		first := "the default"
		if i := found.none[0]; i >= 0 {
			first = c.table.Outcomes()[i].Pos.String()
		}
		l.warnAt("open-variable", n.Get("path"), "the remote configuration %s has no %s in %d of its %d values (first: %s): there the variable is the empty string, unless it has a default too",
			key, strings.Join(path, "."), len(found.none), len(c.values)+1, first)
	}
	return found.to
}

// unknownConfig reports a key that no remote configuration has.
func (l *loader) unknownConfig(at *document.Node, key string, errs *document.Errors) {
	hint := l.didYouMean(kind.RemoteConfig, strings.TrimPrefix(key, kind.RemoteConfig.Folder+"/"))
	if config, path, _ := strings.Cut(key, "."); l.byKey[kind.RemoteConfig][config] != nil {
		hint = ": write config: " + config + ", path: " + path
	}
	errs.Report("unknown-config", at.Pos, "there is no remote configuration %q%s", key, hint)
}

// warnDefaults warns of defaults of variables that look like references to look up and
// are not: a configuration within the default, and placeholders.
func (l *loader) warnDefaults(variables *document.Node) {
	if variables == nil {
		return
	}
	for _, m := range variables.Members {
		n := m.Value.Get("default")
		switch {
		case n.IsNull():
		case n.Get("config") != nil:
			l.warnAt("placeholder", n, "the default is sent to the model as it is: write { config: …, path: … } without default for what a configuration answers")
		case n.Shape == document.Scalar && placeholder.MatchString(n.Text):
			l.warnAt("placeholder", n, "%s is sent to the model as it is: a value has no placeholders, a message has", placeholder.FindString(n.Text))
		}
	}
}

// placeholder matches a placeholder in a message.
var placeholder = regexp.MustCompile(`\{\{[ \t]*[A-Za-z_][\w.-]*[ \t]*\}\}`)

// report reports that no value has the path.
func (f *leads) report(c *RemoteConfig, path []string, at *document.Node, errs *document.Errors) {
	whole := strings.Join(path, ".")
	prefix, name, rest := strings.Join(path[:f.depth], "."), path[f.depth], strings.Join(path[f.depth:], ".")
	var known []string // that a path can lead to
	dotted := ""
	for _, member := range slices.Sorted(maps.Keys(f.known)) {
		switch {
		case !strings.Contains(member, "."):
			known = append(known, member)
		case rest == member || strings.HasPrefix(rest, member+"."):
			dotted = member
		}
	}
	switch near := document.Nearest(name, known); {
	case dotted != "":
		errs.Add(at, "no path leads to the member %q of the remote configuration %s, because its name has a dot: rename it, or leave the path out", dotted, c.Key)
	case near != "":
		meant := slices.Clone(path)
		meant[f.depth] = near
		errs.Add(at, "no value of the remote configuration %s has %s: did you mean %q?", c.Key, whole, strings.Join(meant, "."))
	case len(f.known) > 0:
		errs.Add(at, "no value of the remote configuration %s has %s%s", c.Key, whole, document.DidYouMean(name, known))
	case prefix == "":
		errs.Add(at, "the values of the remote configuration %s are of type %s, so no path leads into them: leave it out", c.Key, c.typ)
	default:
		errs.Add(at, "no value of the remote configuration %s has %s: %s has no members", c.Key, whole, prefix)
	}
}

// readPath reads the path to a part of a configuration's value: the names of members
// with dots between them. No node is the path to the whole value.
func readPath(n *document.Node, errs *document.Errors) (path []string, ok bool) {
	if n == nil {
		return nil, true
	}
	text, ok := n.ReadString(errs, "path")
	if !ok {
		return nil, false
	}
	path = strings.Split(text, ".")
	if slices.Contains(path, "") {
		errs.Add(n, "a path must name members with dots between them, such as limits.rpm, this is %q", text)
		return nil, false
	}
	return path, true
}

// lead follows a path in all values of a remote configuration, once for all prompts
// of the loading. It may be called in parallel.
func (l *loader) lead(c *RemoteConfig, path []string) *leads {
	key := configuredKey{c.Key, strings.Join(path, ".")}
	l.mu.Lock()
	follow := l.leads[key]
	if follow == nil {
		if l.leads == nil {
			l.leads = make(map[configuredKey]func() *leads)
		}
		follow = sync.OnceValue(func() *leads { return l.follow(c, path) })
		l.leads[key] = follow
	}
	l.mu.Unlock()
	return follow()
}

func (l *loader) follow(c *RemoteConfig, path []string) *leads {
	found := &leads{known: make(map[string]bool)}
	var parser fastjson.Parser
	texts := make([][]byte, 1+len(c.values)) // that of the default first
	for i, raw := range slices.Concat([][]byte{c.fallback}, c.values) {
		if raw == nil || l.stopped() {
			return &leads{}
		}
		value, err := parser.ParseBytes(raw)
		if err != nil {
			return &leads{} // never: AppendJSON writes JSON, less deep than fastjson takes
		}
		if texts[i] = found.text(value, path); texts[i] == nil {
			found.none = append(found.none, i-1)
		}
	}
	found.to = prompt.NewConfigured(c.Key, strings.Join(path, "."), c.table, texts[1:], texts[0])
	return found
}

// text returns the text that a variable gets from a value, or nil if the value
// has no such path. Null counts as absent, as in a request.
func (f *leads) text(value *fastjson.Value, path []string) []byte {
	for depth, name := range path {
		next := value.Get(name)
		if value.Type() == fastjson.TypeObject && next != nil && next.Type() != fastjson.TypeNull {
			value = next
			continue
		}
		f.miss(value, depth)
		return nil
	}
	if value.Type() == fastjson.TypeString {
		return append([]byte{}, value.GetStringBytes()...)
	}
	return jsontext.AppendValue(nil, value)
}

// miss notes a value that has the members of the path up to depth and not the next.
func (f *leads) miss(value *fastjson.Value, depth int) {
	switch {
	case depth < f.depth:
		return
	case depth > f.depth:
		clear(f.known)
	}
	f.depth = depth
	if value.Type() != fastjson.TypeObject {
		return
	}
	value.GetObject().Visit(func(name []byte, member *fastjson.Value) {
		if member.Type() != fastjson.TypeNull {
			f.known[string(name)] = true
		}
	})
}
