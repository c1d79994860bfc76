package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// TestMustHoldUnitsSpreadEvenly is an A/A simulation over 1,000,000 units, or over a
// hundredth of them without CADENZA_FULL=1: no arm differs from its share by more
// than 3 standard deviations, and which arm a unit gets in one experiment says
// nothing of the one it gets in another, neither of another rule nor of another
// definition. The units are fixed: among random ones, one count of 370 is beyond 3
// standard deviations by chance.
func TestMustHoldUnitsSpreadEvenly(t *testing.T) {
	units := 10_000
	if os.Getenv("CADENZA_FULL") != "" {
		units = 1_000_000
	}
	shares := []float64{0.5, 0.3, 0.15, 0.05}
	m := model(t, "fields: { customer_id: string }")
	type experiment struct {
		name   string
		table  *Table
		counts [4]int
	}
	var experiments []*experiment
	for _, e := range [][3]string{{"checkout", "a", ""}, {"checkout", "b", ""}, {"checkout", "a", "again"}, {"search", "a", ""}, {"chec", "kouta", ""}} {
		salt := ""
		if e[2] != "" {
			salt = "salt: " + e[2] + ", "
		}
		tab, err := ParseTable(m, "flag.yaml", fmt.Appendf(nil, "rules: [{ id: %s, split: { by: customer_id, %sof: [{ value: 0, share: 50%% }, { value: 1, share: 30%% }, { value: 2, share: 15%% }, { value: 3, share: 5%% }] } }]", e[1], salt), Options{Key: e[0]})
		if err != nil {
			t.Fatal(err)
		}
		experiments = append(experiments, &experiment{name: fmt.Sprint(e), table: tab})
	}
	var together [5][5][4][4]int // by two experiments and their arms
	var b Binding
	b.reset(m, noon)
	b.hasContext = true
	ids := rand.New(rand.NewPCG(1, 2))
	for range units {
		unit := fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", ids.Uint32(), ids.Uint32N(1<<16), ids.Uint32N(1<<12), 1<<15+ids.Uint32N(1<<14), ids.Uint64N(1<<48))
		b.setText(&m.fields[0], 0, unit)
		var arms [5]int
		for n, e := range experiments {
			d := e.table.Evaluate(&b)
			if d.Row != 0 {
				t.Fatalf("%s: the unit %s got no arm", e.name, unit)
			}
			arms[n] = d.Outcome
			e.counts[d.Outcome]++
		}
		for n := range arms {
			for o := range n {
				together[n][o][arms[n]][arms[o]]++
			}
		}
	}
	for n, e := range experiments {
		for arm, count := range e.counts {
			mean := float64(units) * shares[arm]
			if sigma := math.Sqrt(mean * (1 - shares[arm])); math.Abs(float64(count)-mean) > 3*sigma {
				t.Errorf("%s: arm %d has %d of %d units, %.1f standard deviations from its share", e.name, arm, count, units, (float64(count)-mean)/sigma)
			}
		}
		for o := range n {
			// Pearson's chi squared with (4-1)(4-1) = 9 degrees of freedom: above 27.88
			// once in 1,000 experiments that are independent.
			chi := 0.0
			for i, row := range together[n][o] {
				for j, count := range row {
					expected := float64(e.counts[i]) * float64(experiments[o].counts[j]) / float64(units)
					chi += (float64(count) - expected) * (float64(count) - expected) / expected
				}
			}
			if chi > 27.88 {
				t.Errorf("%s and %s depend on each other: chi squared is %.1f", e.name, experiments[o].name, chi)
			}
		}
	}
}
