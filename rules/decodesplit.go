package rules

import (
	"slices"
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// split decodes the answer of a row with a split, a ramp or both, and returns
// its outcomes: the values of the split's shares, or the row's own. Outcomes
// are counted from those the table has.
func (r *tableReader) split(row *rowSource) (*split, []*document.Node) {
	var (
		values    = []*document.Node{row.value}
		arms      = rampArms
		shares    = []share{{from: 0, width: Buckets, outcome: len(r.t.outcomes)}}
		coverage  = uint32(Buckets)
		by, salt  *document.Node
		guard     *document.Node
		what      = "ramp"
		of        = row.split
		hasRamp   = !row.ramp.IsNull()
		reference = row.ramp
	)
	if of != nil {
		what, reference = "split", of
		guard = of.Get("guard")
		if guard != nil {
			r.dividesByItself(row)
		} else if !of.CheckMembers(r.errs, "a split", "by", "of", "guard", "coverage", "salt") {
			return nil, nil
		}
		by, salt = of.Get("by"), of.Get("salt")
		if guard != nil {
			values, shares = r.guard(guard)
			arms, hasRamp = guardArms, false
		} else {
			values, shares, arms = r.shares(of)
		}
		if n := of.Get("coverage"); n != nil && guard == nil {
			if hasRamp {
				r.errs.Add(n, "coverage is given by the ramp already")
			}
			coverage, _ = ReadShare(n, "coverage", r.errs)
		}
	}
	var grows *ramp
	if hasRamp {
		var rampBy *document.Node
		grows, rampBy = r.ramp(row.ramp)
		switch {
		case by == nil:
			by = rampBy
		case rampBy != nil && rampBy.Text != by.Text:
			r.errs.Add(rampBy, "the ramp goes by %q, but the split by %q", shorten(rampBy.Text), shorten(by.Text))
		}
	}
	if row.id == nil {
		r.errs.Add(reference, "a %s needs the id of its row: who falls into it is derived from the id, which therefore must not change", what)
		return nil, values
	}
	seed := row.id.Text
	if salt != nil {
		if text, ok := salt.ReadString(r.errs, "salt"); ok {
			seed = text
		}
	}
	slot, ok := r.unitField(by, reference, what)
	if !ok {
		return nil, values
	}
	s := newSplit(slot, r.key, seed)
	s.shares, s.coverage, s.ramp, s.node = shares, coverage, grows, reference
	s.first, s.arms = len(r.t.outcomes), arms
	if guard != nil {
		s.guarded, s.rollout = true, r.m.rolloutSlot(rolloutField(r.t.name, row.id.Text))
	}
	return s, values
}

// rampArms are the arms of a ramp without a split: it has one.
var rampArms = []string{"1"}

// unitField finds the field whose values are divided.
func (r *tableReader) unitField(by, reference *document.Node, what string) (int32, bool) {
	if by == nil {
		r.errs.Add(reference, "a %s needs by: the field whose values it divides, such as customer_id", what)
		return 0, false
	}
	if by.Shape != document.Scalar {
		r.errs.Add(by, "by must be the name of a field, this is %s", by.Shape)
		return 0, false
	}
	slot, ok := r.m.lookupField(by, nil, r.errs)
	if !ok {
		return 0, false
	}
	if r.m.isGateway(slot) {
		r.errs.Add(by, "by needs a field of the caller: %s is the gateway's", by.Text)
		return 0, false
	}
	if f := &r.m.fields[slot]; !f.broken && f.typ != stringField && f.typ != numberField {
		r.errs.Add(by, "by needs a string or number: %s is %s", f.name, f.kind())
		return 0, false
	}
	return slot, true
}

// shares decodes the outcomes of a split, and their names in traces.
func (r *tableReader) shares(n *document.Node) ([]*document.Node, []share, []string) {
	of := n.Get("of")
	if of == nil || of.Shape != document.Sequence || len(of.Items) == 0 {
		at := of
		if at == nil {
			at = n
		}
		r.errs.Add(at, "a split needs of: a list of {value, share}")
		return nil, nil, nil
	}
	var (
		values []*document.Node
		shares []share
		arms   []string
		sum    uint32
	)
	for i, item := range of.Items {
		if !item.CheckMembers(r.errs, "a share of a split", "value", "share", "name") {
			continue
		}
		arm := r.arm(item.Get("name"), i, arms)
		value, size := item.Get("value"), item.Get("share")
		if value == nil {
			r.errs.Add(item, "a share of a split needs a value")
			continue
		}
		if size == nil {
			r.errs.Add(item, "a share of a split needs a share such as 20%%")
			continue
		}
		width, ok := ReadShare(size, "a share", r.errs)
		if !ok {
			continue
		}
		if sum+width > Buckets {
			r.errs.Add(size, "the shares come to %s with this one, more than 100%%", shareText(sum+width))
			break
		}
		if width > 0 {
			shares = append(shares, share{from: sum, width: width, outcome: len(r.t.outcomes) + len(values)})
		}
		values, arms = append(values, value), append(arms, arm)
		sum += width
	}
	return values, shares, arms
}

// arm returns the name in traces of part i of a split: its name, else its
// number.
func (r *tableReader) arm(name *document.Node, i int, before []string) string {
	number := strconv.Itoa(i + 1)
	if name == nil {
		return number
	}
	arm, ok := name.ReadString(r.errs, "the name of a share")
	switch {
	case !ok:
	case r.variants:
		r.errs.Add(name, "a share of variants has no name: traces call it by the key of its variant")
	case !isName(arm) || isDigits(arm):
		r.errs.Add(name, "%q can't be the name of a share: it must have 1 to %d letters, digits and any of . _ : / -, and not be a number, which traces call the shares without a name by", shorten(arm), maxNameLen)
	case slices.Contains(before, arm):
		r.errs.Add(name, "the name %q is that of another share of the split, too", arm)
	default:
		return arm
	}
	return number
}

// ramp decodes a coverage that grows by schedule, and the node of its by.
func (r *tableReader) ramp(n *document.Node) (*ramp, *document.Node) {
	if !n.CheckMembers(r.errs, "a ramp", "from", "to", "start", "end", "by") {
		return nil, nil
	}
	g := &ramp{to: Buckets}
	if v := n.Get("from"); v != nil {
		g.from, _ = ReadShare(v, "from", r.errs)
	}
	if v := n.Get("to"); v != nil {
		var ok bool
		if g.to, ok = ReadShare(v, "to", r.errs); ok && g.to < g.from {
			r.errs.Add(v, "a ramp goes up, but to is below from")
		}
	}
	start, end := n.Get("start"), n.Get("end")
	if start == nil || end == nil {
		r.errs.Add(n, "a ramp needs a start and an end")
		return g, n.Get("by")
	}
	from, _, okFrom := r.instant(start, "start")
	until, _, okUntil := r.instant(end, "end")
	g.start, g.end = dateKey(from), dateKey(until)
	if okFrom && okUntil && g.end <= g.start {
		r.errs.Add(end, "the end of a ramp must be after its start")
	}
	return g, n.Get("by")
}

// configs decodes a cell that asks for the values of other configurations.
func (r *cellReader) configs(n *document.Node) []atom {
	if n.IsNull() || n.Shape == document.Scalar && (n.Text == anyWord || n.Text == "*") {
		return nil
	}
	if n.Shape != document.Mapping || len(n.Members) == 0 {
		r.errs.Add(n, "config takes a mapping of the key of a configuration to the value it must have")
		return nil
	}
	var atoms []atom
	for _, m := range n.Members {
		if r.config == nil {
			r.errs.Add(m.Key, "config: is not possible here")
			return nil
		}
		p := r.config(m.Key, m.Value, r.errs)
		if p == nil {
			continue
		}
		atoms = append(atoms, atom{op: atomConfig, slot: r.m.nowSlot(), more: &atomMore{config: p}})
	}
	return atoms
}
