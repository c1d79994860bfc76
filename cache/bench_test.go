package cache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
	"github.com/valyala/fastjson"
)

const benchModel = `
fields:
  environment: { type: string }
  locale:      { type: string }
  plan:        { type: string }
  seats:       { type: number }
  email:       { type: string }
`

const benchContext = `{"environment":"production","locale":"nl-BE","plan":"enterprise","seats":250,"email":"someone@customer.example"}`

// matrix writes a table of rows of which only the last meets benchContext. row
// returns the cells of the others.
func matrix(rows int, row func(i int) string) string {
	var b strings.Builder
	b.WriteString("columns: [environment, locale, plan, seats, email, value]\nmatrix:\n")
	for i := range rows - 1 {
		fmt.Fprintf(&b, "  - [%s, %d]\n", row(i), i)
	}
	fmt.Fprintf(&b, "  - [production, nl-BE, enterprise, 10.., any, %d]\n", rows)
	return b.String()
}

func equalities(i int) string {
	return fmt.Sprintf("production, l%d, [pro, enterprise], %d..<%d, any", i%50, i, i+100)
}

func patterns(i int) string {
	return fmt.Sprintf(`production, any, enterprise, 100.., /^(team|unit)-%d@.+$/`, i)
}

// BenchmarkHitOrEvaluate compares a hit, the building of its key included, with
// the evaluation of the same table. Threshold follows from its figures.
func BenchmarkHitOrEvaluate(b *testing.B) {
	for _, bench := range []struct {
		name  string
		table string
	}{
		{"rows=4", matrix(4, equalities)},
		{"rows=32", matrix(32, equalities)},
		{"rows=1000", matrix(1000, equalities)},
		{"patterns=4", matrix(5, patterns)},
		{"patterns=32", matrix(33, patterns)},
	} {
		table, binding := compile(b, bench.table)
		if row := table.Evaluate(binding).Row; row != len(table.Rows())-1 {
			b.Fatalf("%s: row %d of %d answers", bench.name, row, len(table.Rows()))
		}
		cost := float64(table.Cost())
		b.Run(bench.name+"/evaluate", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Evaluate(binding)
			}
			b.ReportMetric(cost, "estimated-ns")
		})
		b.Run(bench.name+"/hit", func(b *testing.B) {
			c := open(b, 1<<20)
			build := func(key []byte) []byte {
				key = AppendKey(key, "default", "0123456789ab", trace.KindRemoteConfig, "model_limits")
				return table.AppendKey(key, binding)
			}
			key := build(nil)
			c.Set(key, Value{Bytes: []byte(`{"rpm":6000,"burst":600}`)})
			c.entries.Wait()
			b.ReportAllocs()
			for b.Loop() {
				key = build(key[:0])
				if _, ok := c.Get(key); !ok {
					b.Fatal("missed")
				}
			}
		})
	}
}

func compile(b *testing.B, text string) (*rules.Table, *rules.Binding) {
	b.Helper()
	model, err := rules.ParseModel("context.yaml", []byte(benchModel))
	if err != nil {
		b.Fatal(err)
	}
	table, err := rules.ParseTable(model, "table.yaml", []byte(text), rules.Options{Key: "model_limits"})
	if err != nil {
		b.Fatal(err)
	}
	context, err := fastjson.Parse(benchContext)
	if err != nil {
		b.Fatal(err)
	}
	binding := new(rules.Binding)
	if err := model.Bind(binding, context, time.Now()); err != nil {
		b.Fatal(err)
	}
	return table, binding
}

// BenchmarkMiss measures the cost of a lookup and a set for an evaluation whose
// decision is not in the cache.
func BenchmarkMiss(b *testing.B) {
	c := open(b, 1<<20)
	key := AppendKey(nil, "default", "0123456789ab", trace.KindPrompt, "support_reply")
	value := Value{Bytes: make([]byte, 512)}
	n := len(key)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		key = AppendText(key[:n], []byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)})
		if _, ok := c.Get(key); !ok {
			c.Set(key, value)
		}
	}
}

func BenchmarkHitParallel(b *testing.B) {
	c := open(b, 1<<20)
	key := AppendKey(nil, "default", "0123456789ab", trace.KindPrompt, "support_reply")
	c.Set(key, Value{Bytes: make([]byte, 512)})
	c.entries.Wait()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, ok := c.Get(key); !ok {
				b.Error("missed")
				return
			}
		}
	})
}
