package rules

import "time"

const (
	// maxExamples is how many contexts are tried for one finding.
	maxExamples = 200
	// exampleCost is what trying one takes, in steps.
	exampleCost = 30
)

// context is a context with a value of each class, and the instant for it.
func (z *analyser) context(tuple []*class) (string, time.Time) {
	m := z.t.model
	now := z.a.Now
	members := make([]string, m.declared)
	for i, c := range tuple {
		switch slot := z.axes[i].slot; {
		case slot == m.nowSlot():
			if t, err := time.Parse(time.RFC3339Nano, c.witness); err == nil {
				now = t
			}
		case c.known && int(slot) < m.declared:
			members[slot] = c.witness
		}
	}
	z.solver.complete(members)
	return m.ContextJSON(members), now
}
