package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

// measured is a decision whose record is measured.
type measured struct {
	name  string
	table *Table
}

// recordedDecisions are decisions of tables of usual sizes.
func recordedDecisions(tb testing.TB) (*Model, []measured) {
	tb.Helper()
	m := model(tb, benchModel, "rollout.remoteconfigs/flag/guarded")
	var hundred strings.Builder
	hundred.WriteString("rules:\n")
	for i := range 100 {
		fmt.Fprintf(&hundred, "  - { id: r%d, when: { environment: production, locale: [l%d, l%d], plan: pro, seats: %d.., beta: true }, ", i, i%30, 27*(1-min(i%10, 1)), i)
		if i%10 == 0 {
			hundred.WriteString("split: { by: customer_id, of: [ { value: y, share: 1% } ] } }\n")
		} else {
			hundred.WriteString("value: x }\n")
		}
	}
	flag := named(tb, m, "remoteconfigs/flag", "rules: [{ id: half, when: { environment: production }, split: { by: customer_id, of: [{ value: on, share: 100% }] } }]")
	return m, []measured{
		{"2fields", table(tb, m, "rules: [{ when: { environment: production, plan: pro }, value: x }]")},
		{"split", table(tb, m, "rules: [{ id: a, split: { by: customer_id, of: [{ value: x, share: 1% }] } }, { id: b, when: { plan: pro }, split: { by: customer_id, of: [{ value: x, share: 100% }] } }]")},
		{"guard", table(tb, m, "rules: [{ id: guarded, split: { by: customer_id, guard: { new: x, control: y } } }]")},
		{"rows=100", table(tb, m, hundred.String())},
		{"prerequisites", named(tb, m, "remoteconfigs/top", "rules: [{ when: { plan: free, config: { remoteconfigs/flag: off } }, value: x }, { when: { plan: pro, config: { remoteconfigs/flag: on } }, value: y }]", flag)},
	}
}

// recording makes a trace's record of one decision, again for each call as if it
// were another request's.
func recording(tb testing.TB, m *Model, tab *Table, hash HashFunc) func() (splits, inputs []byte) {
	tb.Helper()
	b := bind(tb, m, recordedContext)
	b.SetGateway(&fakeGateway{rollouts: map[string]int{"remoteconfigs/flag/guarded": 1000}})
	tab.Evaluate(b)
	buf := len(b.buf)
	var (
		trail          Trail
		splits, inputs []byte
	)
	return func() ([]byte, []byte) {
		b.buf, b.hashes = b.buf[:buf], b.hashes[:0]
		trail.Reset()
		if tab.HasTrail() {
			tab.AppendTrail(&trail, b)
		}
		trail.Rest(b)
		splits = trail.AppendSplits(splits[:0], b, hash)
		inputs = tab.AppendInputs(inputs[:0], b, trail.Asked, hash)
		return splits, inputs
	}
}

// BenchmarkRecord is all that the record of a decision takes of this package.
func BenchmarkRecord(b *testing.B) {
	m, decisions := recordedDecisions(b)
	for _, r := range decisions {
		b.Run(r.name, func(b *testing.B) {
			record := recording(b, m, r.table, newHash(b))
			b.ReportAllocs()
			for b.Loop() {
				record()
			}
		})
	}
}

// BenchmarkTrail is going through the rows again.
func BenchmarkTrail(b *testing.B) {
	m, decisions := recordedDecisions(b)
	for _, r := range decisions {
		if !r.table.HasTrail() {
			continue
		}
		b.Run(r.name, func(b *testing.B) {
			binding := bind(b, m, recordedContext)
			r.table.Evaluate(binding)
			var trail Trail
			b.ReportAllocs()
			for b.Loop() {
				trail.Reset()
				r.table.AppendTrail(&trail, binding)
			}
		})
	}
}

// TestRecordDoesNotAllocate checks that recording a decision makes no garbage.
func TestRecordDoesNotAllocate(t *testing.T) {
	m, decisions := recordedDecisions(t)
	for _, r := range decisions {
		record := recording(t, m, r.table, fixedHash)
		splits, inputs := record()
		if len(inputs) == 0 || (len(splits) > 0) != r.table.HasTrail() {
			t.Errorf("%s: %s, %s", r.name, splits, inputs)
		}
		if n := testing.AllocsPerRun(100, func() { record() }); n != 0 {
			t.Errorf("%s: %v allocations", r.name, n)
		}
	}
}

const recordedContext = `{"environment":"production","locale":"l27","plan":"pro","seats":42,"beta":true,"customer_id":"0191e6f2-8c1d-7a3b-9c4e-5f6a7b8c9d0e"}`

func newHash(tb testing.TB) HashFunc {
	tb.Helper()
	h, err := trace.NewHasher([]byte("0123456789abcdef"), "default")
	if err != nil {
		tb.Fatal(err)
	}
	return h.Append
}
