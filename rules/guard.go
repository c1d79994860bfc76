package rules

import (
	"bytes"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// A guarded split divides its units between a new answer and a control, by the share of a
// rollout, which the gateway knows. With a share of 5,000 buckets
//
//	0..<5000      have the new answer, and are compared with
//	50000..<55000 which have that of the control
//
// and so have all others, which are compared with nothing. A share is at most half of the
// buckets, or all of them: then all units have the new answer.

// half is how many buckets the new answer has at most, unless it has all.
const half = Buckets / 2

// guardArms are the arms of a guard that is of no variants, in the order of its parts.
var guardArms = []string{"new", "control"}

// rolloutSlot returns the slot of the field with the share of a rollout, and -1 for none: then
// the share is not known.
func (m *Model) rolloutSlot(name string) int32 {
	if slot, ok := m.slots[name]; ok && m.fields[slot].typ == numberField {
		return slot
	}
	return -1
}

// rolledOut returns how many buckets have the new answer: none where that is not known.
func (s *split) rolledOut(b *Binding) uint32 {
	if s.rollout < 0 || b.values[s.rollout].state != present {
		return 0
	}
	switch n := numberOf(b.values[s.rollout].key); {
	case n >= Buckets:
		return Buckets
	case n > 0:
		return uint32(min(n, half))
	}
	return 0
}

// guardedPart returns the part of a bucket.
func guardedPart(bucket, share uint32) int {
	if bucket < share {
		return 0
	}
	return 1
}

// guardedShare returns how many buckets of a part are compared.
func guardedShare(part int, share uint32) uint32 {
	if part == 1 && share == Buckets {
		return 0
	}
	return share
}

// isCompared reports whether a guard compares the units of a bucket. Where all have the new
// answer, there is nothing to compare it with.
func isCompared(bucket, share uint32) bool {
	return share < Buckets && (bucket < share || half <= bucket && bucket < half+share)
}

// guardedOutcomes returns the outcomes that units may have by a share.
func (s *split) guardedOutcomes(share uint32, unknown bool) []int {
	switch {
	case unknown || share > 0 && share < Buckets:
		return []int{s.first, s.first + 1}
	case share == 0:
		return []int{s.first + 1}
	}
	return []int{s.first}
}

// Guards returns the rows with a guarded split, of which Divide has the guard. The table
// reads its two answers alone.
func (t *Table) Guards() (rows []int) {
	for _, row := range t.splits {
		if t.answers[row].split.guarded {
			rows = append(rows, row)
		}
	}
	return rows
}

// guard decodes the two answers of a guard.
func (r *tableReader) guard(n *document.Node) ([]*document.Node, []share) {
	if n.Shape != document.Mapping {
		r.errs.Add(n, "a guard must be a mapping such as { new: true, control: false, steps: [1%%, 10%%, 50%%, 100%%], every: 1h, need: 300 units, stop: [ { metric: error, ratio: 1.2 } ] }, this is %s", n.Shape)
		return nil, nil
	}
	fresh, control := n.Get("new"), n.Get("control")
	if fresh == nil || control == nil {
		r.errs.Add(n, "a guard needs new, the answer that more and more units get, and control, that of all others")
		return nil, nil
	}
	same := fresh.Text == control.Text
	if !r.variants {
		a, b := new(document.Errors), new(document.Errors)
		same = bytes.Equal(fresh.AppendJSON(nil, a), control.AppendJSON(nil, b)) && a.Len()+b.Len() == 0
	}
	if same {
		r.errs.Add(control, "new and control are the same answer, so that there is nothing to compare")
	}
	first := len(r.t.outcomes)
	return []*document.Node{fresh, control}, []share{{width: half, outcome: first}, {from: half, width: half, outcome: first + 1}}
}

// dividesByItself reports what is beside a guard that says how units are divided.
func (r *tableReader) dividesByItself(row *rowSource) {
	const message = "a guard divides by itself: leave %s: out and give the shares of its new answer as steps, or write a split of shares without a guard"
	for _, name := range []string{"of", "share", "coverage"} {
		if n := row.split.Get(name); n != nil {
			r.errs.Add(n, message, name)
		}
	}
	if !row.ramp.IsNull() {
		r.errs.Add(row.ramp, message, "ramp")
	}
	row.split.CheckMembers(r.errs, "a split", "by", "guard", "salt", "of", "share", "coverage")
}
