package inspect

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// manyDecisions are recorded decisions of a table, and an edit of it.
type manyDecisions struct {
	name      string
	old, next *definition.Snapshot
	context   func(i int) string
	base      []*Traced
}

// decisionsOfTables are those of 100 rows, of 10,000 rows by several fields and of a list of
// 10,000 customers. n of the decisions differ in their inputs.
func decisionsOfTables(t testing.TB, n int) []*manyDecisions {
	rows := func(count int) string {
		var b strings.Builder
		for i := range count {
			fmt.Fprintf(&b, "- { id: r%d, when: { plan: %s, country: c%d, seats: %d.. }, value: %d }\n", i, []string{"free", "pro", "team"}[i%3], i/3%200, 1+i%50*i%97, i)
		}
		return b.String()
	}
	var customers strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&customers, "- { id: r%d, when: { id: c-%d }, value: %d }\n", i, 3*i, i%7)
	}
	several := func(i int) string {
		return fmt.Sprintf(`{"plan":%q,"country":"c%d","seats":%d,"id":"c-%d"}`, []string{"free", "pro", "team"}[i%3], i%211, i%120, i)
	}
	list := []*manyDecisions{{name: "100 rows", context: several}, {name: "10,000 rows", context: several}, {name: "10,000 customers", context: several}}
	for i, table := range []string{rows(100), rows(10_000), customers.String()} {
		set := func(above, share string) *definition.Snapshot {
			return load(t, workspace(t, "context.yaml", "fields: { plan: { type: string, values: [free, pro, team] }, country: { type: string, trace: value }, seats: number, id: string }\n",
				"remoteconfigs/c.yaml", "type: number\ndefault: -1\nrules:\n"+above+table+"- { id: ramp, ramp: { by: id, from: 0%, to: "+share+", start: 2026-10-01, end: 2027-01-01 }, value: 100 }\n"))
		}
		m := list[i]
		m.old, m.next = set("", "20%"), set("- { id: new, when: { "+[]string{"plan: pro, country: c7", "plan: pro, country: c7", "id: [c-6, c-7]"}[i]+" }, value: -2 }\n", "50%")
		for j := range n {
			a := asked{context: m.context(j), at: now.Add(time.Duration(j) * time.Second)}
			m.base = append(m.base, a.record(t, m.old, kind.RemoteConfig, "c", false))
		}
	}
	return list
}

// decision returns decision i: those with one base have other instants and buckets.
func (m *manyDecisions) decision(i int, into *Traced, splits []TracedSplit) *Traced {
	*into = *m.base[i%len(m.base)]
	into.Time = into.Time.Add(time.Duration(i) * time.Millisecond)
	if len(into.Splits) > 0 {
		splits[0] = into.Splits[0]
		bucket := (*splits[0].Bucket + uint32(i/len(m.base))*7919) % 100_000
		splits[0].Bucket, splits[0].Unit = &bucket, fmt.Sprintf("%016x", i)
		splits[0].Arm, into.Row, into.Arm, into.Reason = "", "", "", "default"
		if bucket < 8_000 { // the ramp has passed more
			splits[0].Arm, into.Row, into.Arm, into.Reason = "100", "ramp", "100", "split"
		}
		into.Splits = splits[:1]
	}
	return into
}

// TestPlanOfManyDecisions adds 10,000 decisions of each table, with CADENZA_FULL a million,
// and holds the memory of a planner. How long they take is a matter of the machine, and
// only told: a million should take 10 seconds on two cores.
func TestPlanOfManyDecisions(t *testing.T) {
	n := 10_000
	if os.Getenv("CADENZA_FULL") != "" {
		n = 1_000_000
	}
	for _, m := range decisionsOfTables(t, n/10) {
		p := planSets(m.old, m.next, PlanOptions{Hash: planHasher.Append})
		for j, traced := range m.base[:500] {
			v := p.verdict(p.definition(traced), traced)
			a := asked{context: m.context(j), at: traced.Time}
			was, _ := a.answerOf(t, m.old, kind.RemoteConfig, "c")
			is, _ := a.answerOf(t, m.next, kind.RemoteConfig, "c")
			if v.class != map[bool]planClass{true: planSame, false: planChanged}[was == is] && v.class != planUndecided {
				t.Fatalf("%s: class %d of %s to %s by %s", m.name, v.class, was, is, traced.Inputs)
			}
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		var into Traced
		splits := make([]TracedSplit, 1)
		for i := range n {
			must(t, p.Add(m.decision(i, &into, splits), 1))
		}
		took := time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		plan := p.Report()
		raw, err := json.Marshal(plan)
		must(t, err)
		t.Logf("%s: %d decisions in %v, %d MB, report of %d bytes, %+v", m.name, n, took, (int64(after.HeapAlloc)-int64(before.HeapAlloc))>>20, len(raw), plan.PlanCounts)
		if plan.Decisions != int64(n) || plan.Changed == 0 || len(p.decided) > maxPlanned/verdictSize {
			t.Errorf("%s: %+v, %d kept", m.name, plan.PlanCounts, len(p.decided))
		}
		runtime.KeepAlive(p)
	}
}

func BenchmarkPlan(b *testing.B) {
	for _, m := range decisionsOfTables(b, 20_000) {
		b.Run(m.name, func(b *testing.B) {
			p := planSets(m.old, m.next, PlanOptions{Hash: planHasher.Append})
			b.ReportAllocs()
			var into Traced
			splits := make([]TracedSplit, 1)
			b.ResetTimer()
			for i := range b.N {
				must(b, p.Add(m.decision(i, &into, splits), 1))
			}
		})
	}
}
