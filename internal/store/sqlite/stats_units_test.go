package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// unitSplit is an entry of splits as traces have it.
func unitSplit(definition, rule, arm, unit string) string {
	outcome := `"consulted":false,"arms":{"a":0.5,"b":0.5}`
	if arm != "" {
		outcome = `"arm":"` + arm + `","share":0.5`
	}
	if unit != "" {
		unit = `,"unit":"` + unit + `"`
	}
	return fmt.Sprintf(`{"experiment":{"definition":%q,"rule":%q,"salt":"s"},"bucket":7,%s%s}`, definition, rule, outcome, unit)
}

// unitLines describes the rows of an answer.
func unitLines(rows []StatsRow) string {
	var lines []string
	for _, r := range rows {
		line := fmt.Sprintf("%s %s", r.Kind, r.Key)
		for _, group := range []string{r.Variant, r.Arm, r.Version, r.PromptVersion} {
			if group != "" {
				line += " " + group
			}
		}
		line += fmt.Sprintf(": %d answers, %d units, %d moved, %d unitless, %d reports", r.Traces, r.Units, r.UnitsMoved, r.Unitless, r.Reports)
		if r.ScoreMean != nil {
			line += fmt.Sprintf(", score %v of %d", *r.ScoreMean, r.Scores)
		}
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range r.Values {
				if !yield(name) {
					return
				}
			}
		}) {
			v := r.Values[name]
			line += fmt.Sprintf(", %s %v of %d", name, v.Mean, v.Count)
			if v.Deviation != nil {
				line += fmt.Sprintf(" ± %.4f", *v.Deviation)
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestUnits: each unit counts once, for the first series that answered it, and by the mean of
// what it reported on that series.
func TestUnits(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority := mustAuthority(t)
	at := time.UnixMilli(1790000000000)
	traces := 0
	answer := func(r trace.Record, reports ...string) *trace.Record {
		t.Helper()
		traces++
		r.Time = at.Add(time.Duration(traces) * time.Second)
		if traces != 5 { // an answer of an earlier version
			r.Decision = authority.New(trace.KindDecision, r.Time)
		}
		r.ID = authority.New(r.Kind, r.Time)
		r.Workspace = cmp.Or(r.Workspace, "default")
		batch := recorder.Batch{Records: []*trace.Record{&r}}
		for _, values := range reports {
			m := trace.Metrics{TraceID: r.ID, Workspace: r.Workspace, Time: r.Time, Values: []byte(values)}
			if values, onDecision := strings.CutPrefix(values, "decision "); onDecision {
				m.TraceID, m.Decision, m.Values = trace.ID{}, r.Decision, []byte(values)
				m.Score = new(80.0)
			}
			batch.Metrics = append(batch.Metrics, &m)
		}
		mustCommit(t, s, batch)
		return &r
	}
	prompt := func(arm, version, unit string, reports ...string) {
		answer(trace.Record{
			Kind: trace.KindPrompt, Key: "reply", Version: version, Variant: arm, Arm: arm, Reason: "split", Row: "half",
			Splits: []byte("[" + unitSplit("remoteconfigs/flag", "half", "1", "other") + "," + unitSplit("prompts/reply", "half", arm, unit) + "," + unitSplit("prompts/reply", "below", "", "no") + "]"),
		}, reports...)
	}
	prompt("a", "v1", "ada", `{"ok":1}`)
	prompt("a", "v1", "ada", `{"ok":0}`, `{"ok":0}`, `{"min":3}`)
	prompt("b", "v1", "ada", `{"ok":1}`) // which arm a had
	prompt("b", "v2", "bob", `{"ok":1}`, `decision {"ok":0}`)
	prompt("b", "v1", "bob", `{"ok":1,"min":5}`, `{"min":2}`)
	prompt("b", "v1", "", `{"ok":1}`) // trace: none
	prompt("a", "v1", "cyd")
	answer(trace.Record{Kind: trace.KindPrompt, Key: "reply", Version: "v1", Variant: "a", Arm: "a", Reason: "default", Splits: []byte("[" + unitSplit("prompts/reply", "half", "", "dan") + "]")}, `{"ok":1}`)
	answer(trace.Record{Kind: trace.KindPrompt, Key: "reply", Version: "v1", Variant: "a", Arm: "a", Reason: "split", Row: "half", APIKey: trace.ConsoleKey + "eve", Splits: []byte("[" + unitSplit("prompts/reply", "half", "a", "eve") + "]")})
	answer(trace.Record{Workspace: "other", Kind: trace.KindPrompt, Key: "reply", Version: "v1", Variant: "a", Arm: "a", Reason: "split", Row: "half", Splits: []byte("[" + unitSplit("prompts/reply", "half", "a", "eve") + "]")})
	answer(trace.Record{
		Kind: trace.KindEndpoint, Key: "chat", Version: "e", Prompt: "reply", PromptVersion: "v1", Variant: "a", Arm: "a", Reason: "split", Row: "half",
		Splits: []byte("[" + unitSplit("endpoints/chat", "half", "x", "wrong") + "," + unitSplit("prompts/reply", "half", "a", "ada") + "]"),
	}, `decision {"ok":1}`)
	answer(trace.Record{Kind: trace.KindRemoteConfig, Key: "flag", Version: "f", Arm: "1", Reason: "split", Row: "half", Splits: []byte("[" + unitSplit("remoteconfigs/flag", "half", "1", "ada") + "]")}, `decision {"ok":1}`)
	answer(trace.Record{Kind: trace.KindRemoteConfig, Key: "flag", Version: "f", Arm: "1", Reason: "split", Row: "half", Splits: []byte(`[{"expe`)})

	// Of units: before their first answer, after it, of one that is not known, and elsewhere.
	for _, m := range []*trace.Metrics{
		{Unit: "ada", Happened: at, Values: []byte(`{"paid":9}`)},
		{Unit: "ada", Happened: at.Add(time.Minute), Values: []byte(`{"paid":1,"ok":1}`)},
		{Unit: "ada", Happened: at.Add(2 * time.Minute), Values: []byte(`{"paid":4}`)},
		{Unit: "zoe", Happened: at.Add(time.Minute), Values: []byte(`{"paid":1}`)},
		{Unit: "ada", Happened: at.Add(time.Minute), Values: []byte(`{"paid":7}`), Workspace: "other"},
	} {
		m.TraceID, m.Workspace, m.Time, m.UnitField = authority.New(trace.KindMetrics, at), cmp.Or(m.Workspace, "default"), at.Add(time.Hour), "customer_id"
		mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{m}})
	}

	for name, test := range map[string]struct {
		q    StatsQuery
		want string
	}{
		"arms": {StatsQuery{By: ByArm}, `
endpoint chat a: 1 answers, 1 units, 0 moved, 0 unitless, 3 reports, score 80 of 1, ok 1 of 1, paid 2.5 of 1
prompt reply a: 4 answers, 2 units, 1 moved, 1 unitless, 7 reports, min 3 of 1, ok 0.5 of 1, paid 2.5 of 1
prompt reply b: 4 answers, 1 units, 0 moved, 1 unitless, 6 reports, score 80 of 1, min 3.5 of 1, ok 0.6666666666666666 of 1
remoteconfig flag 1: 2 answers, 1 units, 0 moved, 1 unitless, 3 reports, ok 1 of 1, paid 2.5 of 1`},
		"versions of a key": {StatsQuery{By: ByVersion, Key: "reply", Kind: trace.KindPrompt}, `
prompt reply v1: 7 answers, 2 units, 0 moved, 2 unitless, 11 reports, min 3 of 1, ok 0.6 of 1, paid 2.5 of 1
prompt reply v2: 1 answers, 1 units, 1 moved, 0 unitless, 2 reports, score 80 of 1, ok 0.5 of 1`},
		"rows": {StatsQuery{Kind: trace.KindRemoteConfig}, `
remoteconfig flag half: 2 answers, 1 units, 0 moved, 1 unitless, 3 reports, ok 1 of 1, paid 2.5 of 1`},
		"a time before": {StatsQuery{Until: at.Add(-2 * time.Hour)}, ""},
	} {
		test.q.Workspace, test.q.Units, test.q.Interval = "default", true, Overall
		stats, err := s.Stats(t.Context(), test.q)
		if err != nil {
			t.Fatal(err)
		}
		if got := unitLines(stats.Rows); got != strings.TrimPrefix(test.want, "\n") {
			t.Errorf("%s:\n%s\nwant%s", name, got, test.want)
		}
	}
	if _, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Units: true, Interval: Daily}); err == nil {
		t.Error("units count by the day")
	}
	q := &StatsQuery{Workspace: "default", Interval: Overall, By: ByArm, Key: "reply"}
	for most, want := range map[int]error{2: ErrTooManyUnits, 5: ErrTooManyUnits, 6: nil} { // 3 units have 6 values
		if err := s.countUnits(t.Context(), q, tallies{}, most); !errors.Is(err, want) {
			t.Errorf("at most %d: %v", most, err)
		}
	}
}

// TestUnitsRightError: where units ask often, the deviation of units over the root of their
// number is how far the mean is off, and that of reports is too small.
func TestUnitsRightError(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(31, 1))
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority := mustAuthority(t)
	at := time.UnixMilli(1790000000000)
	const units = 300
	type unit struct {
		rate     float64
		sum, all float64
	}
	var batch recorder.Batch
	drawn := make([]unit, units)
	for i := range drawn {
		drawn[i].rate = float64(i%2)*0.8 + 0.1 // each is mostly helped, or mostly not
	}
	for n := range 12_000 {
		i := r.IntN(units)
		if n < units {
			i = n
		}
		id := authority.New(trace.KindPrompt, at.Add(time.Duration(n)*time.Millisecond))
		ok := 0.0
		if r.Float64() < drawn[i].rate {
			ok = 1
		}
		drawn[i].sum += ok
		drawn[i].all++
		batch.Records = append(batch.Records, &trace.Record{
			ID: id, Time: id.Time(), Workspace: "default", Kind: trace.KindPrompt, Key: "reply", Variant: "a", Arm: "a", Reason: "split", Row: "half",
			Splits: []byte("[" + unitSplit("prompts/reply", "half", "a", fmt.Sprintf("unit-%d", i)) + "]"),
		})
		batch.Metrics = append(batch.Metrics, &trace.Metrics{TraceID: id, Workspace: "default", Time: at, Values: fmt.Appendf(nil, `{"ok":%v}`, ok)})
		if len(batch.Records) == 1000 {
			mustCommit(t, s, batch)
			batch = recorder.Batch{}
		}
	}
	var mean, squares float64
	for _, u := range drawn {
		mean += u.sum / u.all / units
	}
	for _, u := range drawn {
		squares += (u.sum/u.all - mean) * (u.sum/u.all - mean)
	}
	found := tallies{}
	if err := s.countUnits(t.Context(), &StatsQuery{Workspace: "default", Interval: Overall, By: ByArm}, found, maxUnits); err != nil {
		t.Fatal(err)
	}
	rows := rowsOf(found, Overall)
	if len(rows) != 1 || rows[0].Units != units {
		t.Fatalf("%+v", rows)
	}
	v := rows[0].Values["ok"]
	if want := math.Sqrt(squares / (units - 1)); v.Count != units || math.Abs(v.Mean-mean) > 1e-9 || math.Abs(*v.Deviation-want) > 1e-9 {
		t.Errorf("%+v, want the mean %v and the deviation %v", v, mean, want)
	}
	if ofReports := math.Sqrt(mean*(1-mean)) / math.Sqrt(12_000); *v.Deviation/math.Sqrt(units) < 4*ofReports {
		t.Errorf("the error by units is %v, and that by reports %v", *v.Deviation/math.Sqrt(units), ofReports)
	}
}
