package rules

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/valyala/fastjson"
)

const benchModel = `
fields:
  environment: { type: string }
  locale:      { type: string }
  plan:        { type: string }
  seats:       { type: number }
  beta:        { type: boolean }
  customer_id: { type: string }
`

var (
	benchEnvironments = []string{"production", "staging", "development"}
	benchPlans        = []string{"free", "starter", "pro", "team", "business", "enterprise", "education", "trial"}
)

// benchTable writes a matrix of five columns: an environment, some of thirty
// locales, a plan, a range of seats and a flag; a tenth of the cells (half of
// the flags) are any. It returns contexts that meet rows drawn at random, and
// contexts that meet none.
func benchTable(tb testing.TB, rows int) (tab *Table, hits, misses []*Binding) {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(1, uint64(rows)))
	m := model(tb, benchModel)
	var text strings.Builder
	text.WriteString("columns: [environment, locale, plan, seats, beta, value]\nmatrix:\n")
	pick := func(values []string) string { return values[rnd.IntN(len(values))] }
	orAny := func(cell string) string {
		if rnd.IntN(10) == 0 {
			return "any"
		}
		return cell
	}
	contexts := make([]string, 0, rows)
	for range rows {
		locale := fmt.Sprintf("l%d", rnd.IntN(30))
		environment, plan, low := pick(benchEnvironments), pick(benchPlans), rnd.IntN(1000)
		beta := "any"
		if rnd.IntN(2) == 0 {
			beta = fmt.Sprint(rnd.IntN(2) == 0)
		}
		fmt.Fprintf(&text, "  - [%s, %s, %s, %s, %s, x]\n", orAny(environment),
			orAny(fmt.Sprintf("[%s, l%d, l%d]", locale, rnd.IntN(30), rnd.IntN(30))), orAny(plan),
			orAny(fmt.Sprintf("%d..<%d", low, low+1+rnd.IntN(50))), beta)
		if beta == "any" {
			beta = "true"
		}
		contexts = append(contexts, fmt.Sprintf(`{"environment":%q,"locale":%q,"plan":%q,"seats":%d,"beta":%s,"customer_id":"c"}`,
			environment, locale, plan, low, beta))
	}
	tab = table(tb, m, text.String())
	const n = 64
	for range n {
		hits = append(hits, bind(tb, m, contexts[rnd.IntN(len(contexts))]))
	}
	for try := 0; len(misses) < n && try < 1_000_000; try++ {
		b := bind(tb, m, fmt.Sprintf(`{"environment":%q,"locale":"l%d","plan":%q,"seats":%d,"beta":true}`,
			pick(benchEnvironments), rnd.IntN(30), pick(benchPlans), 1051+rnd.IntN(100)))
		if tab.Evaluate(b).Row < 0 {
			misses = append(misses, b)
		}
	}
	if len(misses) < n {
		// So many rows leave nothing open: unknown values then.
		for len(misses) < n {
			misses = append(misses, bind(tb, m, `{"environment":"e","locale":"x","plan":"p","seats":2000}`))
		}
	}
	for _, b := range hits {
		if tab.Evaluate(b).Row < 0 {
			tb.Fatal("a context made from a row meets none")
		}
	}
	return tab, hits, misses
}

func BenchmarkEvaluate(b *testing.B) {
	for _, rows := range []int{3, 10, 16, 17, 32, 100, 1000, 10_000, 100_000} {
		tab, hits, misses := benchTable(b, rows)
		for _, c := range []struct {
			name     string
			contexts []*Binding
		}{{"hit", hits}, {"miss", misses}} {
			b.Run(fmt.Sprintf("rows=%d/%s", rows, c.name), func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					tab.Evaluate(c.contexts[i&63])
					i++
				}
			})
		}
	}
}

// BenchmarkScanOrIndex shows where the index begins to pay.
func BenchmarkScanOrIndex(b *testing.B) {
	for _, rows := range []int{4, 8, 16, 32} {
		tab, hits, misses := benchTable(b, rows)
		scan, indexed := *tab, *tab
		scan.index = nil
		indexed.index = newIndex(tab, columnBudget)
		for _, c := range []struct {
			name     string
			table    *Table
			contexts []*Binding
		}{{"scan/hit", &scan, hits}, {"scan/miss", &scan, misses}, {"index/hit", &indexed, hits}, {"index/miss", &indexed, misses}} {
			b.Run(fmt.Sprintf("rows=%d/%s", rows, c.name), func(b *testing.B) {
				i := 0
				for b.Loop() {
					c.table.Evaluate(c.contexts[i&63])
					i++
				}
			})
		}
	}
}

// BenchmarkEvaluateIdentifiers is a large table with a value of its own in
// every row, the worst case for the size of an index.
func BenchmarkEvaluateIdentifiers(b *testing.B) {
	m := model(b, benchModel)
	for _, rows := range []int{1000, 10_000, 100_000} {
		var text bytes.Buffer
		text.WriteString("columns: [environment, customer_id, value]\nmatrix:\n")
		for i := range rows {
			fmt.Fprintf(&text, "  - [any, customer-%d, x]\n", i)
		}
		tab := table(b, m, text.String())
		contexts := make([]*Binding, 64)
		for i := range contexts {
			contexts[i] = bind(b, m, fmt.Sprintf(`{"customer_id":"customer-%d"}`, (i*7919)%(rows+rows/8)))
		}
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				tab.Evaluate(contexts[i&63])
				i++
			}
		})
	}
}

func BenchmarkDecodeTable(b *testing.B) {
	for _, rows := range []int{10, 100, 1000, 10_000, 100_000} {
		var text strings.Builder
		rnd := rand.New(rand.NewPCG(1, 1))
		text.WriteString("columns: [environment, locale, plan, seats, beta, value]\nmatrix:\n")
		for range rows {
			low := rnd.IntN(1000)
			fmt.Fprintf(&text, "  - [%s, [l%d, l%d], %s, %d..<%d, any, x]\n", benchEnvironments[rnd.IntN(3)],
				rnd.IntN(30), rnd.IntN(30), benchPlans[rnd.IntN(8)], low, low+1+rnd.IntN(50))
		}
		m := model(b, benchModel)
		def := parseYAML(b, "flag.yaml", text.String())
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var errs document.Errors
				DecodeTable(m, def, Options{Key: "flag"}, &errs)
			}
		})
	}
}

func BenchmarkBind(b *testing.B) {
	m := model(b, benchModel)
	v := fastjson.MustParse(`{"environment":"production","locale":"nl-BE","plan":"pro","seats":42,"beta":true,"customer_id":"c-123456"}`)
	var binding Binding
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Bind(&binding, v, noon); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	m := model(b, benchModel)
	tab := table(b, m, "rules: [{ id: half, split: { by: customer_id, of: [{ value: x, share: 50% }] } }]")
	binding := bind(b, m, `{"customer_id":"0191e6f2-8c1d-7a3b-9c4e-5f6a7b8c9d0e"}`)
	b.ReportAllocs()
	for b.Loop() {
		tab.Evaluate(binding)
	}
}

func BenchmarkAppendKey(b *testing.B) {
	tab, hits, _ := benchTable(b, 100)
	var key []byte
	b.ReportAllocs()
	for b.Loop() {
		key = tab.AppendKey(key[:0], hits[0])
	}
}

func BenchmarkComputed(b *testing.B) {
	m := model(b, benchModel+"computed:\n  big: seats >= 100 && environment == \"production\"\n")
	tab := table(b, m, "columns: [big, value]\nmatrix: [[true, x]]")
	v := fastjson.MustParse(`{"environment":"production","seats":420}`)
	var binding Binding
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Bind(&binding, v, noon); err != nil {
			b.Fatal(err)
		}
		tab.Evaluate(&binding)
	}
}

// BenchmarkEvaluateEnds are tables of the ends of e-mail addresses.
func BenchmarkEvaluateEnds(b *testing.B) {
	m := model(b, benchModel)
	for _, rows := range []int{10, 100, 1000, 10_000} {
		var text strings.Builder
		text.WriteString("columns: [environment, customer_id, value]\nmatrix:\n")
		for i := range rows {
			fmt.Fprintf(&text, "  - [any, \"*@company-%d.example.com\", x]\n", i)
		}
		tab := table(b, m, text.String())
		contexts := make([]*Binding, 64)
		for i := range contexts {
			contexts[i] = bind(b, m, fmt.Sprintf(`{"customer_id":"first.last@company-%d.example.com"}`, (i*7919)%(rows+rows/8)))
		}
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				tab.Evaluate(contexts[i&63])
				i++
			}
		})
	}
}
