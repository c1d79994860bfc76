package definition

import (
	"maps"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// variantsOf holds the variants of a prompt or of an endpoint while they are
// decoded.
type variantsOf[T any] struct {
	list  []*T
	byKey map[string]*T
}

// names returns the variants' keys for messages.
func (s variantsOf[T]) names() string {
	return strings.Join(slices.Sorted(maps.Keys(s.byKey)), ", ")
}

// find resolves the name of a variant.
func (s variantsOf[T]) find(n *document.Node, errs *document.Errors) *T {
	if n == nil || n.Shape != document.Scalar || n.IsNull() {
		errs.Add(n, "the name of a variant is expected (known: %s)", s.names())
		return nil
	}
	v := s.byKey[n.Text]
	if v == nil && len(s.byKey) > 0 {
		errs.Report("unknown-variant", n.Pos, "there is no variant %q%s", n.Text, document.DidYouMean(n.Text, slices.Sorted(maps.Keys(s.byKey))))
	}
	return v
}

// findDefault resolves the variant that answers if no row does. It returns nil
// after it has reported why there is none.
func (s variantsOf[T]) findDefault(def *document.Node, errs *document.Errors) *T {
	n := def.Get("default")
	switch {
	case n != nil:
		return s.find(n, errs)
	case len(s.list) == 1:
		return s.list[0]
	case len(s.list) > 1:
		errs.Add(def, "default is missing: it names the variant that answers when no row does (known: %s)", s.names())
	}
	return nil
}

// inheritance reads variants, each after the one that it extends.
type inheritance[T any] struct {
	nodes map[string]*document.Node
	wrong map[string]bool // variants with unknown members
	done  map[string]*T   // nil while a variant is being read
	errs  *document.Errors
	// decode reads a variant over base, which is nil if it extends none. sound
	// reports whether it has no mistake so far.
	decode func(key string, n *document.Node, base *T, sound bool) *T
}

// newInheritance checks the names of the variants in n, and by check the members of
// each. It returns nil if there are no variants.
func newInheritance[T any](n *document.Node, check func(*document.Node) bool, errs *document.Errors) *inheritance[T] {
	if n.IsNull() || n.Shape != document.Mapping || len(n.Members) == 0 {
		errs.Add(n, "variants must be a mapping of names to variants, with one at least")
		return nil
	}
	r := &inheritance[T]{nodes: make(map[string]*document.Node), wrong: make(map[string]bool), done: make(map[string]*T), errs: errs}
	for _, m := range n.Members {
		if !ValidKey(m.Key.Text) {
			errs.Add(m.Key, "%q can't be the name of a variant: 1 to 256 letters, digits and . _ : / -", m.Key.Text)
		}
		before := errs.Len()
		if check(m.Value) {
			r.nodes[m.Key.Text] = m.Value
		}
		r.wrong[m.Key.Text] = errs.Len() > before
	}
	return r
}

// variant reads a variant after the one that it extends. It returns nil after it
// has reported why the variant can't be read.
func (r *inheritance[T]) variant(key string) *T {
	if v, ok := r.done[key]; ok {
		return v
	}
	n, ok := r.nodes[key]
	if !ok {
		return nil
	}
	r.done[key] = nil
	before := r.errs.Len()
	var base *T
	if e := n.Get("extends"); e != nil {
		base = r.extended(e)
	}
	v := r.decode(key, n, base, r.errs.Len() == before && !r.wrong[key])
	r.done[key] = v
	return v
}

// extended returns the variant that the member extends names.
func (r *inheritance[T]) extended(e *document.Node) *T {
	name, ok := e.ReadString(r.errs, "extends")
	if !ok {
		return nil
	}
	if _, ok := r.nodes[name]; !ok {
		r.errs.Report("unknown-variant", e.Pos, "there is no variant %q to extend%s", name, document.DidYouMean(name, slices.Sorted(maps.Keys(r.nodes))))
		return nil
	}
	if v, started := r.done[name]; started && v == nil {
		r.errs.Add(e, "the variant %s extends itself by way of this one", name)
		return nil
	}
	return r.variant(name)
}
