package definition

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/rules"
)

// writeRows writes a workspace of one table of five fields, in one of its layouts.
func writeRows(tb testing.TB, layout string, rows int) (dir string) {
	begin, each, between, end := `{"type":"number","default":0,"columns":["environment","locale","plan","seats","customer_id","value"],"matrix":[`, `["%s","l%d","p%d","%s","customer-%d",%d]`, ",", "]}"
	switch layout {
	case "CSV":
		begin, each, between, end = "environment,locale,plan,seats,customer_id,value\n", "%s,l%d,p%d,%s,customer-%d,%d", "\n", "\n"
	case "rules":
		begin, each = `{"type":"number","default":0,"rules":[`, `{"when":{"environment":"%s","locale":"l%d","plan":"p%d","seats":"%s","customer_id":"customer-%d"},"value":%d}`
	}
	r := rand.New(rand.NewPCG(1, 2))
	list := make([]string, rows)
	for i := range list {
		low := r.IntN(1000)
		list[i] = fmt.Sprintf(each, []string{"production", "staging", "development"}[r.IntN(3)], r.IntN(30), r.IntN(8), fmt.Sprintf("%d..<%d", low, low+1+r.IntN(50)), i%(rows/20), i)
	}
	dir = workspace(tb, map[string]string{"context.yaml": "fields:\n  environment: { type: string }\n  locale: { type: string }\n  plan: { type: string }\n  seats: { type: number }\n  customer_id: { type: string }\n"})
	name := "c.json"
	if layout == "CSV" {
		name = "c.csv"
		write(tb, filepath.Join(dir, "remoteconfigs", "c.yaml"), "type: number\ndefault: 0\nmatrix: c.csv\n")
	}
	write(tb, filepath.Join(dir, "remoteconfigs", name), begin+strings.Join(list, between)+end)
	return dir
}

// TestMostRows loads the largest table in each layout, and the work for a row does
// not grow with their number: ten times the rows take far less than a hundred times
// the time.
func TestMostRows(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("100,000 rows take seconds")
	}
	load := func(layout string, rows int) time.Duration {
		dir := writeRows(t, layout, rows)
		begun := time.Now()
		s := mustLoad(t, dir)
		if got, d := s.RemoteConfigs["c"].Evaluate(bind(t, s, `{"customer_id":"nobody","seats":1}`)); string(got) != "0" {
			t.Errorf("%s: %s by %v", layout, got, d)
		}
		return time.Since(begun)
	}
	few, most := load("matrix", 10_000), load("matrix", 100_000)
	for range 3 { // others may have kept the machine busy
		if most <= 40*few {
			break
		}
		few, most = min(few, load("matrix", 10_000)), min(most, load("matrix", 100_000))
	}
	t.Logf("10,000 rows take %v, 100,000 %v", few, most)
	if most > 40*few {
		t.Errorf("100,000 rows take %v, and a tenth of them %v", most, few)
	}
	load("rules", 100_000)
	load("CSV", 100_000)
}

// BenchmarkLoadRows loads a table of 100,000 rows of five fields.
func BenchmarkLoadRows(b *testing.B) {
	for _, layout := range []string{"matrix", "rules", "CSV"} {
		dir := writeRows(b, layout, 100_000)
		b.Run(layout, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Load(dir); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEvaluateRows evaluates a table of 100,000 rows of five fields, of which one
// is an identifier.
func BenchmarkEvaluateRows(b *testing.B) {
	s := mustLoad(b, writeRows(b, "matrix", 100_000))
	c := s.RemoteConfigs["c"]
	for _, test := range []struct{ name, context string }{
		{"found", `{"environment":"production","locale":"l3","plan":"p4","seats":%d,"customer_id":"customer-%d"}`},
		{"none", `{"environment":"production","locale":"l3","plan":"p4","seats":2%03d,"customer_id":"customer-%d"}`},
		{"unknown", `{"environment":"production","locale":"l3","plan":"p4","seats":%d,"customer_id":"nobody-%d"}`},
	} {
		var bindings []*rules.Binding
		for i := 0; len(bindings) < 64; i++ {
			binding := bind(b, s, fmt.Sprintf(test.context, i%1000, i%5000))
			if _, d := c.Evaluate(binding); (d.Row >= 0) == (test.name == "found") {
				bindings = append(bindings, binding)
			}
		}
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.Evaluate(bindings[i&63])
			}
		})
	}
}
