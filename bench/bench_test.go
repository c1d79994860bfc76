package bench

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/launchdarkly/go-sdk-common/v3/ldcontext"
)

// sizes are the numbers of rows measured.
var sizes = []int{3, 10, 16, 100, 1000, 10_000}

// paths are the kinds of context: hit, which a row answers, and miss, which no
// row answers, so that a linear evaluator reads the whole table.
var paths = []string{"hit", "miss"}

// pair is one table in both engines.
type pair struct {
	*workload
	ours   *cadenza
	theirs *launchDarkly
}

func newPair(tb testing.TB, rows int) pair {
	tb.Helper()
	w := newWorkload(tb, rows)
	return pair{workload: w, ours: newCadenza(tb, w), theirs: newLaunchDarkly(w)}
}

// TestAgreement checks that both engines answer every context of the benchmarks
// as the plain reading of the table does.
func TestAgreement(t *testing.T) {
	for _, rows := range sizes {
		t.Run(fmt.Sprintf("rows=%d", rows), func(t *testing.T) {
			p := newPair(t, rows)
			server := newCadenzaServer(p.ours)
			answered := make(map[int]bool)
			for _, path := range paths {
				for _, q := range p.contexts(path) {
					row := p.answer(q)
					if hit := row >= 0; hit != (path == "hit") {
						t.Fatalf("%s: %+v is answered by row %d", path, q, row)
					}
					answered[row] = true
					want := value(row)
					if got := p.ours.evaluate(p.ours.bind(t, q)); !sameJSON(t, string(got), want) {
						t.Errorf("%+v: Cadenza answers %s, want %s", q, got, want)
					}
					if got := server.answer(t, cadenzaBody(q)); !sameJSON(t, string(got), want) {
						t.Errorf("%+v: Cadenza answers a body with %s, want %s", q, got, want)
					}
					if got := p.theirs.evaluate(p.theirs.bind(t, q)).JSONString(); !sameJSON(t, got, want) {
						t.Errorf("%+v: LaunchDarkly answers %s, want %s", q, got, want)
					}
				}
			}
			if len(answered) < min(rows, 10) {
				t.Errorf("the contexts reach %d answers only", len(answered))
			}
		})
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatalf("%v in %s", err, a)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return reflect.DeepEqual(x, y)
}

// engine is one of the two engines, ready to answer the contexts of a path.
type engine struct {
	name string
	// evaluate answers the context i. It is bound before, because callers of
	// both engines bind a context once per request.
	evaluate func(i int)
}

// engines are Cadenza and LaunchDarkly, in this order.
func (p pair) engines(tb testing.TB, path string) [2]engine {
	var (
		ours   [contextsPerPath]*rules.Binding
		theirs [contextsPerPath]ldcontext.Context
	)
	for i, q := range p.contexts(path) {
		ours[i] = p.ours.bind(tb, q)
		theirs[i] = p.theirs.bind(tb, q)
	}
	return [2]engine{
		{"cadenza", func(i int) { p.ours.evaluate(ours[i]) }},
		{"launchdarkly", func(i int) { p.theirs.evaluate(theirs[i]) }},
	}
}

// BenchmarkEvaluate measures one evaluation of a context that is bound already.
func BenchmarkEvaluate(b *testing.B) {
	for _, rows := range sizes {
		p := newPair(b, rows)
		for _, path := range paths {
			for _, e := range p.engines(b, path) {
				b.Run(fmt.Sprintf("rows=%d/path=%s/engine=%s", rows, path, e.name), func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						e.evaluate(i % contextsPerPath)
					}
				})
			}
		}
	}
}

// BenchmarkFromJSON measures one evaluation from the bytes that a caller sends.
// Cadenza's part includes reading the body and its strict validation;
// LaunchDarkly's part is the decoding of the context alone.
func BenchmarkFromJSON(b *testing.B) {
	for _, rows := range sizes {
		p := newPair(b, rows)
		for _, path := range paths {
			var ours, theirs [][]byte
			for _, q := range p.contexts(path) {
				ours = append(ours, cadenzaBody(q))
				theirs = append(theirs, launchDarklyJSON(q))
			}
			b.Run(fmt.Sprintf("rows=%d/path=%s/engine=cadenza", rows, path), func(b *testing.B) {
				server := newCadenzaServer(p.ours)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					server.answer(b, ours[i%contextsPerPath])
				}
			})
			b.Run(fmt.Sprintf("rows=%d/path=%s/engine=launchdarkly", rows, path), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					p.theirs.evaluate(parseLaunchDarkly(b, theirs[i%contextsPerPath]))
				}
			})
		}
	}
}
