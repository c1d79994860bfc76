package bench

import (
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"text/tabwriter"
)

// atLeast is how many times faster than LaunchDarkly's evaluator Cadenza's must
// be, by the number of rows, for contexts of either path.
var atLeast = map[int]float64{10: 10, 1000: 500}

const (
	// leastRounds is how often each engine is measured at least. Other work on
	// the machine only ever adds time, so the fastest round counts.
	leastRounds = 5
	// mostRounds is after how many rounds a ratio that is too small fails.
	mostRounds = 25
	// slow is the number of nanoseconds for one pass over the contexts from
	// which on two rounds are enough.
	slow = 200e6
)

// TestRatio measures both engines in turn, in one process, and holds the ratios
// of atLeast. The table it logs is the one in README.md; times depend on the
// machine, so read the ratios.
func TestRatio(t *testing.T) {
	switch {
	case testing.Short():
		t.Skip("measuring takes about twenty seconds")
	case raceEnabled:
		t.Skip("the race detector slows the two engines by different factors")
	case testing.CoverMode() != "":
		t.Skip("coverage slows only the engine in which it counts")
	}
	setBenchTime(t, "10ms")
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "rows\tpath\tCadenza\tLaunchDarkly\tratio\trequired\t")
	for _, rows := range sizes {
		p := newPair(t, rows)
		for _, path := range paths {
			required := atLeast[rows]
			ours, theirs := measure(t, p.engines(t, path), required)
			ratio, limit := theirs/ours, "-"
			if required > 0 {
				limit = fmt.Sprintf("%.0f", required)
				if ratio < required {
					t.Errorf("%d rows, %s: %.1f times LaunchDarkly's evaluator, want at least %.0f", rows, path, ratio, required)
				}
			}
			fmt.Fprintf(table, "%d\t%s\t%.0f ns\t%.0f ns\t%.1f\t%s\t\n", rows, path, ours, theirs, ratio, limit)
		}
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Log("nanoseconds per evaluation\n" + text.String())
}

// measure returns the nanoseconds that one evaluation takes in each engine: the
// average over all contexts in the fastest round. It measures both equally
// often, until their ratio is the one required or mostRounds are over.
func measure(t *testing.T, engines [2]engine, required float64) (ours, theirs float64) {
	t.Helper()
	least := [2]float64{math.Inf(1), math.Inf(1)}
	for round := range mostRounds {
		if done := round >= leastRounds || round >= 2 && least[1]*contextsPerPath > slow; done && least[1]/least[0] >= required {
			break
		}
		for i, e := range engines {
			// One operation is a pass over all contexts, so that all of them
			// are measured equally often.
			result := testing.Benchmark(func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					for context := range contextsPerPath {
						e.evaluate(context)
					}
				}
			})
			if result.N == 0 {
				t.Fatalf("%s was not measured", e.name)
			}
			if allocs := result.AllocsPerOp(); i == 0 && allocs != 0 {
				t.Errorf("%s allocates %d times in %d evaluations, want never", e.name, allocs, contextsPerPath)
			}
			least[i] = min(least[i], float64(result.T)/float64(result.N)/contextsPerPath)
		}
	}
	return least[0], least[1]
}

// setBenchTime sets how long testing.Benchmark measures.
func setBenchTime(t *testing.T, d string) {
	t.Helper()
	const name = "test.benchtime"
	was := flag.Lookup(name).Value.String()
	if err := flag.Set(name, d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flag.Set(name, was); err != nil {
			t.Error(err)
		}
	})
}
