package definition

import (
	"cmp"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
)

// decodeVariants reads the variants of an endpoint and the table that picks one.
// outside are the members next to variants, which each variant inherits.
func (e *Endpoint) decodeVariants(l *loader, d *doc, r *policyReader, outside *writtenPolicy) {
	set := r.variants(d.node.Get("variants"), outside)
	e.policies = set.list
	e.fallback = set.findDefault(d.node, r.errs)
	before := r.errs.Len()
	e.table = l.table(d, r.errs)
	used := map[*Policy]bool{e.fallback: true}
	for _, value := range e.table.Outcomes() {
		p := set.find(value, r.errs)
		e.byOutcome = append(e.byOutcome, p)
		used[p] = true
	}
	e.answer = func(d rules.Decision) []byte { return []byte(quoted(e.Policy(d).Key)) }
	e.same = func(a, b int) bool { return e.byOutcome[a] == e.byOutcome[b] }
	if e.fallback == nil {
		e.fallback = &Policy{}
	} else if r.errs.Len() == before { // a mistake in the table may be why one seems unused
		e.warnUnused(l, d.node.Get("variants"), used)
	}
}

// warnUnused warns of variants that no row picks, which are neither the default nor
// extended by another.
func (e *Endpoint) warnUnused(l *loader, variants *document.Node, used map[*Policy]bool) {
	extended := make(map[string]bool)
	for _, m := range variants.Members {
		if n := m.Value.Get("extends"); n != nil {
			extended[n.Text] = true
		}
	}
	for i, p := range e.policies { // in the order of the file
		if !used[p] && !extended[p.Key] {
			l.warnAt("unused-variant", variants.Members[i].Key, "the variant %s is never used: no row picks it, no variant extends it, and it is not the default", p.Key)
		}
	}
}

// variants reads the policies of an endpoint's variants.
func (r *policyReader) variants(n *document.Node, outside *writtenPolicy) variantsOf[Policy] {
	set, mistakes := variantsOf[Policy]{byKey: make(map[string]*Policy)}, r.errs.Len()
	i := newInheritance[writtenPolicy](n, r.checkVariant, r.errs)
	if i == nil {
		return set
	}
	i.decode = func(key string, n *document.Node, base *writtenPolicy, sound bool) *writtenPolicy {
		before := r.errs.Len()
		w := r.read(cmp.Or(base, outside), n)
		w.Key = key
		w.broken = w.broken || !sound || r.errs.Len() > before
		return w
	}
	size := 0
	held := make(map[*document.Node]bool) // by a variant
	for _, m := range n.Members {
		p := &Policy{Key: m.Key.Text}
		if w := i.variant(p.Key); w != nil && !w.broken && size <= MaxContent {
			for _, at := range w.places {
				held[at] = true
			}
			p = r.finish(w)
			if size += p.size(); size > MaxContent {
				r.errs.Add(m.Key, "the variants have more than %d MiB together, with what they inherit", MaxContent>>20)
				p.Fallback = nil
			}
		}
		set.list = append(set.list, p)
		set.byKey[p.Key] = p
	}
	if r.errs.Len() == mistakes { // a mistake may be why none seems to have it
		r.warnReplaced(outside, held)
	}
	return set
}

// warnReplaced warns of members next to variants that no variant has. Of timeout
// and retry a variant may have a part.
func (r *policyReader) warnReplaced(outside *writtenPolicy, held map[*document.Node]bool) {
	for name, at := range outside.own {
		if !held[at] && name != "timeout" && name != "retry" {
			r.warnAt("unused-member", at, "%s has no effect: each variant has its own, or none", name)
		}
	}
}

// checkVariant checks the members of a variant. Those of the endpoint and of its
// prompt are not misspelled but in the wrong place.
func (r *policyReader) checkVariant(n *document.Node) bool {
	if n.IsNull() {
		r.errs.Add(n, "a variant must be a mapping, this is empty: {} has nothing of its own")
		return false
	}
	rest := *n
	rest.Members = slices.DeleteFunc(slices.Clone(n.Members), func(m document.Member) bool {
		name := m.Key.Text
		switch {
		case slices.Contains(endpointMembers, name), slices.Contains(commonMembers, name) && name != "description", slices.Contains(rules.TableMembers, name):
			r.errs.Report("unknown-member", m.Key.Pos, "%s holds for the whole endpoint: write it beside variants, not into one", name)
			return true
		case slices.Contains(variantMembers, name):
			r.errs.Report("unknown-member", m.Key.Pos, "%s is no member of an endpoint's variant, which says how to call: write it into the prompt, or into a fallback", name)
			return true
		}
		return false
	})
	return rest.CheckMembers(r.errs, "a variant", append([]string{"extends", "description"}, policyMembers...)...)
}
