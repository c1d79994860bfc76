package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// buttonStart is when the experiments of tests start.
var buttonStart = time.UnixMilli(1790000000000).UTC()

// buttonPlan is an experiment with all ways of metrics.
func buttonPlan() experiment.Plan {
	return experiment.Plan{
		Name: "button", On: "remoteconfigs/button", Rule: "colours", Salt: "colours", Arms: []string{"blue", "green"}, Control: "blue", Unit: "customer_id",
		Attribution: 2 * time.Hour, Start: buttonStart, End: buttonStart.Add(24 * time.Hour),
		Metrics: []experiment.Metric{
			{Name: "resolved", Role: experiment.Primary, Value: "resolved", As: experiment.Rate, Up: true, Smallest: 0.02},
			{Name: "minutes", Role: experiment.Other, Value: "minutes", As: experiment.Mean, Smallest: 1},
			{Name: "spent", Role: experiment.Other, Value: "minutes", As: experiment.Total, Smallest: 1},
			{Name: "cost", Role: experiment.Other, Measure: experiment.Cost, As: experiment.Total, Smallest: 1},
			{Name: "tokens", Role: experiment.Other, Measure: experiment.Tokens, As: experiment.Ratio, Smallest: 1},
			{Name: "error", Role: experiment.Guardrail, Measure: experiment.Error, As: experiment.Ratio, Smallest: 1},
			{Name: "fallback", Role: experiment.Guardrail, Measure: experiment.Fallback, As: experiment.Rate, Smallest: 1},
			{Name: "latency", Role: experiment.Guardrail, Measure: experiment.Latency, As: experiment.Ratio, Smallest: 1},
			{Name: "slow", Role: experiment.Guardrail, Measure: experiment.Latency, Over: 300 * time.Millisecond, As: experiment.Rate, Smallest: 1},
			{Name: "score", Role: experiment.Other, Measure: experiment.Score, As: experiment.Mean, Up: true, Smallest: 1},
		},
	}
}

// world makes the rows of a random history.
type world struct {
	*rand.Rand
	t         testing.TB
	store     *Store
	authority *trace.Authority
	now       time.Time
	versions  int
	version   string
	blue      float64
	traces    []*trace.Record
	waiting   []*trace.Record
	red       string // what the default answers with
	quiet     bool   // the split answers nothing before the start
}

func newWorld(t testing.TB, s *Store, seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 32)), t: t, store: s, authority: mustAuthority(t), now: buttonStart.Add(-20 * 24 * time.Hour), blue: 0.5, red: "#f00"}
	w.edit("#00f", 0.5)
	return w
}

// edit serves another version of the definition.
func (w *world) edit(answer string, blue float64) {
	w.versions++
	w.version, w.blue = fmt.Sprintf("v%d", w.versions), blue
	mustCommit(w.t, w.store, recorder.Batch{Versions: []trace.Version{{
		Workspace: "default", Kind: trace.KindRemoteConfig, Key: "button", Version: w.version, Time: w.now,
		Content: fmt.Appendf(nil, `{"type":"string","default":%q,"rules":[{"id":"colours","split":{"by":"customer_id","of":[{"name":"blue","value":%q,"share":"%v"},{"name":"green","value":"#0f0","share":"%v"}]}}]}`, w.red, answer, blue, 1-blue),
	}}})
}

func (w *world) unit() string { return fmt.Sprintf("unit%012d", w.IntN(12)) }

// answer returns a trace of an endpoint that reads the configuration, or of the configuration.
func (w *world) answer(unit string) *trace.Record {
	r := &trace.Record{Time: w.now, Workspace: "default", Kind: trace.KindRemoteConfig, Key: "button", Version: w.version, Status: 200, Latency: 100 * time.Microsecond}
	if w.IntN(3) > 0 {
		r.Kind, r.Key, r.Version, r.Read = trace.KindEndpoint, "chat", "e1", fmt.Appendf(nil, `{"remoteconfigs/other":"x","remoteconfigs/button":%q}`, w.version)
		r.Latency, r.Cost = time.Duration(1+w.IntN(500))*time.Millisecond, float64(w.IntN(4))
		r.HasUsage, r.TotalTokens = true, int64(w.IntN(90))
		r.Attempts = []trace.Attempt{{Provider: "p", Model: "m"}}
		if w.IntN(8) == 0 {
			r.Attempts = []trace.Attempt{{Provider: "p", Model: "m", Code: "timeout"}, {Provider: "q", Model: "m"}}
		}
	}
	r.Decision = w.authority.New(trace.KindDecision, w.now)
	if n := len(w.traces); n > 0 && w.traces[n-1].Time.Equal(w.now) {
		r.Decision = w.traces[n-1].Decision
	}
	r.ID = w.authority.New(r.Kind, w.now)
	if w.IntN(10) == 0 {
		r.Code = "upstream_failed"
	}
	if w.IntN(30) == 0 {
		r.APIKey = trace.ConsoleKey + "ada"
	}
	arm, salted := "green", float64(unit[len(unit)-1]-'0')/10+float64(w.versions%2)/40
	if salted < w.blue {
		arm = "blue"
	}
	outcome := fmt.Sprintf(`"arm":%q,"share":%v,"arms":{"blue":%v,"green":%v}`, arm, 0.5, w.blue, 1-w.blue)
	switch w.IntN(12) {
	case 0:
		outcome = `"consulted":false,"arms":{"blue":0.5,"green":0.5}`
	case 1:
		outcome = `"share":1` // passed on
	case 2:
		outcome = `"compared":false,` + outcome
	}
	if w.IntN(15) > 0 {
		outcome += fmt.Sprintf(`,"unit":%q`, unit)
	}
	r.Splits = fmt.Appendf(nil, `[{"experiment":{"definition":"prompts/x","rule":"colours","salt":"s"},"bucket":1,"arm":"z","unit":"other"},{"experiment":{"definition":"remoteconfigs/button","rule":"colours","salt":"s"},"bucket":7,%s}]`, outcome)
	if w.quiet && w.now.Before(buttonStart) {
		r.Splits = []byte(`[{"experiment":{"definition":"prompts/x","rule":"colours","salt":"s"},"bucket":1,"arm":"z","unit":"other"}]`)
	}
	w.traces = append(w.traces, r)
	return r
}

func (w *world) values() []byte {
	return fmt.Appendf(nil, `{"resolved":%d,"minutes":%d,"unknown":1}`, w.IntN(2), w.IntN(9))
}

// report returns a report on a trace that is stored, or will be, on a decision, or on a unit.
func (w *world) report() *trace.Metrics {
	m := &trace.Metrics{Workspace: "default", Time: w.now, Values: w.values()}
	if n := len(w.traces); n > 0 && w.IntN(3) > 0 {
		r := w.traces[max(n-1-w.IntN(30), 0)]
		if m.TraceID = r.ID; w.IntN(3) == 0 {
			m.TraceID, m.Decision = trace.ID{}, r.Decision
		}
		if w.IntN(3) == 0 {
			m.Score = new(float64(w.IntN(100)))
		}
		return m
	}
	m.TraceID, m.UnitField, m.Unit = w.authority.New(trace.KindMetrics, w.now), "customer_id", w.unit()
	if w.IntN(10) == 0 {
		m.UnitField = "other"
	}
	m.Happened = w.now.Add(-time.Duration(w.IntN(5)) * time.Hour)
	if w.IntN(4) == 0 {
		m.Happened = w.now.Add(-time.Duration(w.IntN(15*24)) * time.Hour)
	}
	return m
}

// commit stores some rows. Some traces come later, some reports before their trace.
func (w *world) commit(rows int) {
	var batch recorder.Batch
	for range rows {
		if w.IntN(4) > 0 { // several answers of one decision
			step := time.Duration(w.IntN(40)) * time.Minute
			if w.now.Before(buttonStart.Add(-time.Hour)) {
				step *= 12
			}
			w.now = w.now.Add(step)
		}
		switch w.IntN(5) {
		case 0, 1, 2:
			w.waiting = append(w.waiting, w.answer(w.unit()))
		default:
			batch.Metrics = append(batch.Metrics, w.report())
		}
		for len(w.waiting) > 0 && w.IntN(3) > 0 {
			n := w.IntN(len(w.waiting))
			if w.now.Sub(w.waiting[0].Time) > 2*time.Hour {
				n = 0
			}
			batch.Records = append(batch.Records, w.waiting[n])
			w.waiting = append(w.waiting[:n], w.waiting[n+1:]...)
		}
	}
	mustCommit(w.t, w.store, batch)
}

// settle stores the traces that wait.
func (w *world) settle() {
	mustCommit(w.t, w.store, recorder.Batch{Records: w.waiting})
	w.waiting = nil
}

func serve(t testing.TB, s *Store, at time.Time, plans ...experiment.Plan) {
	t.Helper()
	mustCommit(t, s, recorder.Batch{Experiments: []*recorder.Experiments{{Workspace: "default", Time: at, Plans: plans}}})
}

// mustCountExperiments opens a keeper on a store that does not count itself.
func mustCountExperiments(t testing.TB, s *Store) *experimentKeeper {
	t.Helper()
	if s.stop(); true {
		s.background.Wait()
	}
	k, err := openExperimentKeeper(s.path, ofBoth)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.close)
	return k
}

// pastUnits counts the units with a past, once in each metric.
func pastUnits(d experiment.Data) (n int64) {
	for _, s := range d.Strata {
		for _, a := range s.Arms {
			for i := range a.Decided {
				n += a.Decided[i].H
			}
		}
	}
	return n
}

var errKilled = errors.New("killed")

// lookUntilKilled looks with small steps, and is killed after some transactions: what it had
// in memory is gone.
func lookUntilKilled(t testing.TB, s *Store, now time.Time, random *rand.Rand, transactions int) {
	t.Helper()
	k := mustCountExperiments(t, s)
	k.stepEvents, k.stepUnits = 1<<random.IntN(10), 1+random.IntN(4)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	err := k.look(ctx, now, func() {
		if transactions--; transactions == 0 {
			cancel(errKilled)
		}
	})
	if err != nil && !errors.Is(context.Cause(ctx), errKilled) {
		t.Fatal(err)
	}
	k.close()
}

// TestMustHoldExperimentsCountOnce: whatever happens in whatever order, and wherever the
// counting is broken off, the sums are those that the raw rows give.
func TestMustHoldExperimentsCountOnce(t *testing.T) {
	t.Parallel()
	seeds := uint64(8)
	if os.Getenv("CADENZA_FULL") != "" {
		seeds = 300
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
			w := newWorld(t, s, seed)
			w.quiet = seed/2%2 == 0
			p := buttonPlan()
			if seed%3 == 0 {
				p.Attribution = 0
			}
			if seed%4 == 0 {
				p.Control = experiment.PassedOn
			}
			if seed%2 == 0 {
				serve(t, s, w.now, p)
			}
			for w.now.Before(p.End.Add(4 * time.Hour)) {
				w.commit(1 + w.IntN(40))
				if w.now.Before(p.Start) {
					if w.IntN(3) == 0 {
						lookUntilKilled(t, s, w.now, w.Rand, 1+w.IntN(9))
					}
					continue
				}
				if seed%2 == 1 {
					serve(t, s, w.now, p)
				}
				switch w.IntN(12) {
				case 0:
					w.edit("#00f", float64(1+w.IntN(9))/10)
				case 1:
					w.edit(fmt.Sprintf("#00%d", w.IntN(3)), w.blue)
				case 2:
					p.Metrics[0].Smallest++ // nothing that counts
					p.Hypothesis = fmt.Sprint(w.now)
					serve(t, s, w.now, p)
				case 3, 4, 5, 6:
					lookUntilKilled(t, s, w.now, w.Rand, 1+w.IntN(20))
				}
			}
			w.settle()
			k := mustCountExperiments(t, s)
			k.stepEvents, k.stepUnits = 1<<w.IntN(10), 1+w.IntN(8)
			if err := k.look(t.Context(), w.now, func() {}); err != nil {
				t.Fatal(err)
			}
			got := wantBrute(t, s, "default", "button")
			if got.Pending != 0 || len(got.Strata) == 0 {
				t.Errorf("%d rows are pending, %d strata", got.Pending, len(got.Strata))
			}
			if n := pastUnits(got); n > 0 != w.quiet {
				t.Errorf("%d units have a past", n)
			}
		})
	}
}
