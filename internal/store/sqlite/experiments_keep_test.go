package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// exposed returns a trace that exposes a unit to an arm.
func (w *world) exposed(unit, arm string, at time.Time) *trace.Record {
	return &trace.Record{
		ID: w.authority.New(trace.KindRemoteConfig, at), Time: at, Workspace: "default", Kind: trace.KindRemoteConfig, Key: "button", Version: w.version, Status: 200,
		Splits: fmt.Appendf(nil, `[{"experiment":{"definition":"remoteconfigs/button","rule":"colours","salt":"s"},"arm":%q,"share":0.5,"arms":{"blue":0.5,"green":0.5},"unit":%q}]`, arm, unit),
	}
}

func mustExperiments(t testing.TB, s *Store, name string) []experiment.Data {
	t.Helper()
	all, err := s.Experiments(t.Context(), "default", name)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func mustLook(t testing.TB, k *experimentKeeper, now time.Time) {
	t.Helper()
	if err := k.look(t.Context(), now, func() {}); err != nil {
		t.Fatal(err)
	}
}

func unitsOf(d experiment.Data) string {
	text := ""
	for _, s := range d.Strata {
		for _, arm := range []string{"blue", "green"} {
			if a := s.Arms[arm]; a != nil {
				text += fmt.Sprintf("%s %d+%d, ", arm, a.Units, a.Moved)
			}
		}
	}
	return text
}

// TestPlansAreKept: each plan that differs from the one before, with its time; the same one
// again is none.
func TestPlansAreKept(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	p, other := buttonPlan(), buttonPlan()
	other.Name, other.Hypothesis = "other", "It's clicked more often."
	at := buttonStart
	serve(t, s, at, p, other)
	serve(t, s, at.Add(time.Hour), p) // the other is gone
	if d := mustExperiments(t, s, "other")[0]; !d.Gone.Equal(at.Add(time.Hour)) || !mustExperiments(t, s, p.Name)[0].Gone.IsZero() {
		t.Errorf("gone since %v", d.Gone)
	}
	changed := p
	changed.Owner = "ada"
	serve(t, s, at.Add(2*time.Hour), changed, other)
	serve(t, s, at.Add(time.Hour), p, other) // the clock went back
	want := []experiment.DatedPlan{{Since: at, Plan: p}, {Since: at.Add(2 * time.Hour), Plan: changed}, {Since: at.Add(2*time.Hour + time.Millisecond), Plan: p}}
	all := mustExperiments(t, s, "")
	if len(all) != 2 {
		t.Fatal(all)
	}
	if diff := cmp.Diff(want, all[0].Plans); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]experiment.DatedPlan{{Since: at, Plan: other}}, all[1].Plans); diff != "" {
		t.Error(diff)
	}
	if all := mustExperiments(t, s, "none"); len(all) != 0 {
		t.Error(all)
	}
}

// maintainAll deletes all that is to be deleted at a time.
func maintainAll(t testing.TB, s *Store, at time.Time) {
	t.Helper()
	s.opened, s.clock = time.Now(), clockGuard{} // a clock that is trusted
	for more := true; more; {
		var err error
		if more, err = s.Maintain(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExperimentsOutliveRetention: what was counted stays when the traces are deleted, for
// their age or for the size, until 30 days after the end; that of a plan that is gone too.
func TestExperimentsOutliveRetention(t *testing.T) {
	size := int64(0)
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db"), CurrentRetention: always(time.Hour), CurrentMaxSize: func() int64 { return size }})
	k, w := mustCountExperiments(t, s), newWorld(t, s, 1)
	p, gone := buttonPlan(), buttonPlan()
	p.Attribution = 0
	gone.Name = "gone"
	serve(t, s, p.Start, p, gone)
	now := p.Start.Add(time.Hour)
	var batch recorder.Batch
	for n := range 100 {
		batch.Records = append(batch.Records, w.exposed(fmt.Sprint("unit", n), []string{"blue", "green"}[n%2], now))
	}
	mustCommit(t, s, batch)
	mustLook(t, k, now)
	serve(t, s, now, p)
	want := "blue 50+0, green 50+0, "
	size = 1 // deletes all that it may
	maintainAll(t, s, now)
	if n, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM traces"); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{w.exposed("unit0", "green", now.Add(time.Minute))}})
	for _, c := range []struct {
		at            time.Time
		button, gones string
	}{
		{now, "blue 49+1, green 50+0, ", want},
		{p.End.Add(experiment.Kept - time.Second), "blue 49+1, green 50+0, ", want},
		{p.End.Add(experiment.Kept), "", "none"},
		{p.End.Add(experiment.Kept + time.Hour), "", "none"},
	} {
		mustLook(t, k, c.at)
		gone := "none"
		if all := mustExperiments(t, s, "gone"); len(all) > 0 {
			gone = unitsOf(all[0])
		}
		if button := mustExperiments(t, s, "button"); len(button) != 1 || unitsOf(button[0]) != c.button || gone != c.gones {
			t.Errorf("%v: %v, %q", c.at, unitsOf(button[0]), gone)
		}
	}
	for _, table := range []string{"units", "arms", "sums", "strata", "metrics", "readouts", "verdicts", "days"} {
		if n, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM experiment_"+table); n != 0 || err != nil {
			t.Errorf("%d rows of experiment_%s are left: %v", n, table, err)
		}
	}
}

// TestReportsAtTheBorderOfAStep: the last report that was counted before its trace came counts
// with the trace, and one that comes with its trace counts once.
func TestReportsAtTheBorderOfAStep(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, w := mustCountExperiments(t, s), newWorld(t, s, 1)
	p := buttonPlan()
	serve(t, s, p.Start, p)
	at := p.Start.Add(time.Minute)
	for n := range 4 {
		r := w.exposed(fmt.Sprint("unit", n), "green", at)
		batch := recorder.Batch{Records: []*trace.Record{r}, Metrics: []*trace.Metrics{{TraceID: r.ID, Workspace: "default", Time: at, Values: []byte(`{"resolved":1,"minutes":3}`)}}}
		if n%2 == 0 {
			mustCommit(t, s, recorder.Batch{Metrics: batch.Metrics})
			mustLook(t, k, at)
			batch.Metrics = nil
		}
		mustCommit(t, s, batch)
		mustLook(t, k, at)
		wantBrute(t, s, "default", "button")
	}
}

// TestErasedUnitsLeaveExperiments: the unit's row goes, and what it adds to the sums, also if
// a step has read its traces, and no byte of it stays.
func TestErasedUnitsLeaveExperiments(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, w := mustCountExperiments(t, s), newWorld(t, s, 1)
	p := buttonPlan()
	serve(t, s, p.Start, p)
	const doomed = "doomed0123456789"
	at := p.Start.Add(time.Minute)
	fill := func(from, to int) {
		t.Helper()
		var batch recorder.Batch
		for n := from; n < to; n++ {
			unit := fmt.Sprintf("unit%012d", n)
			if n%50 == 7 {
				unit = doomed
			}
			r := w.exposed(unit, "green", at)
			batch.Records = append(batch.Records, r)
			batch.Metrics = append(batch.Metrics,
				&trace.Metrics{TraceID: r.ID, Workspace: "default", Time: at, Values: w.values()},
				&trace.Metrics{TraceID: w.authority.New(trace.KindMetrics, at), Workspace: "default", Time: at, UnitField: "customer_id", Unit: unit, Happened: at, Values: w.values()})
		}
		mustCommit(t, s, batch)
	}
	erase := func() {
		t.Helper()
		if _, err := Erase(t.Context(), s.path, trace.Selector{Workspace: "default", UnitField: "customer_id", Unit: doomed, UnitValue: `"c-7"`}); err != nil {
			t.Fatal(err)
		}
	}
	fill(0, 300)
	mustLook(t, k, at)
	if d := wantBrute(t, s, "default", "button"); unitsOf(d) != "green 295+0, " {
		t.Fatal(unitsOf(d))
	}
	erase()
	if d := wantBrute(t, s, "default", "button"); unitsOf(d) != "green 294+0, " {
		t.Error(unitsOf(d))
	}
	fill(300, 400)
	k.stepUnits = 10
	erased := false
	for err := errOvertaken; errors.Is(err, errOvertaken); {
		err = k.look(t.Context(), at, func() {
			if !erased { // between two transactions of a step
				erased = true
				erase()
			}
		})
		if err != nil && !errors.Is(err, errOvertaken) {
			t.Fatal(err)
		}
	}
	if d := wantBrute(t, s, "default", "button"); unitsOf(d) != "green 392+0, " || !erased {
		t.Error(unitsOf(d))
	}
	erase() // the pages that moved meanwhile
	content, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	erasures, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM erasures")
	if n := bytes.Count(content, []byte(doomed)); err != nil || int64(n) != erasures {
		t.Errorf("the file has the unit %d times, and not in its %d erasures alone: %v", n, erasures, err)
	}
}

// TestExperimentsOfTwoProcesses: whichever of two processes writes between what the other
// reads and writes, each row counts once.
func TestExperimentsOfTwoProcesses(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	a, b, w := mustCountExperiments(t, s), mustCountExperiments(t, s), newWorld(t, s, 5)
	w.quiet = true
	p := buttonPlan()
	serve(t, s, w.now, p)
	overtaken := 0
	for w.now.Before(p.End) {
		w.commit(30)
		if w.now.Before(p.Start) {
			continue
		}
		a.stepUnits, b.stepUnits, b.stepEvents = 1+w.IntN(3), 1+w.IntN(6), 1+w.IntN(40)
		writes := w.IntN(6)
		err := a.look(t.Context(), w.now, func() {
			if writes--; writes == 0 {
				mustLook(t, b, w.now)
			}
		})
		if errors.Is(err, errOvertaken) {
			overtaken++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	mustLook(t, a, w.now)
	wantBrute(t, s, "default", "button")
	if overtaken == 0 {
		t.Error("neither process overtook the other")
	}
}

// TestCountingAgain: an edit of what is counted, such as a metric or an end that is over,
// counts the rows that are stored again; an end that is moved before it comes does not.
func TestCountingAgain(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, w := mustCountExperiments(t, s), newWorld(t, s, 9)
	p := buttonPlan()
	p.Metrics, p.End = p.Metrics[:2], p.Start.Add(6*time.Hour)
	serve(t, s, w.now, p)
	readout := func() int64 {
		t.Helper()
		mustLook(t, k, w.now)
		wantBrute(t, s, "default", "button")
		n, err := queryInt(t.Context(), s.conn, "SELECT readout FROM experiments")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for w.now.Before(p.Start.Add(4 * time.Hour)) {
		w.commit(20)
	}
	first := readout()
	p.End, p.Metrics[0].Smallest = p.Start.Add(8*time.Hour), 0.5
	serve(t, s, w.now, p)
	if n := readout(); n != first {
		t.Error("an end that was moved in time began another readout")
	}
	for w.now.Before(p.Start.Add(12 * time.Hour)) {
		w.commit(20)
	}
	readout()
	p.End = p.Start.Add(24 * time.Hour)
	serve(t, s, w.now, p)
	if n := readout(); n == first {
		t.Error("an end that was moved too late began no other readout")
	}
	p.Metrics = buttonPlan().Metrics[1:]
	serve(t, s, w.now, p)
	last := readout()
	units := unitsOf(mustExperiments(t, s, "button")[0])
	p.End = p.Start.Add(2 * time.Hour) // it is over now: what was counted stays
	serve(t, s, w.now, p)
	mustLook(t, k, w.now)
	if n, err := queryInt(t.Context(), s.conn, "SELECT readout FROM experiments"); err != nil || n != last || unitsOf(mustExperiments(t, s, "button")[0]) != units {
		t.Errorf("an end that was moved before what is counted began another readout: %v", err)
	}
}

// TestVerdictsAndDaysAreKept: a verdict with the date from which it holds, also the same one
// after an edit, and the rows of a day as they were last.
func TestVerdictsAndDaysAreKept(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, w := mustCountExperiments(t, s), newWorld(t, s, 1)
	p := buttonPlan()
	serve(t, s, p.Start, p)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{w.exposed("unit", "blue", p.Start)}})
	mustLook(t, k, p.Start)
	keep := func(verdicts []experiment.Verdict, days ...experiment.Day) {
		t.Helper()
		all, err := readTracked(t.Context(), k.db, "", "", ofBoth)
		if err != nil {
			t.Fatal(err)
		}
		d, err := all[0].data(t.Context(), k.db, p.Start)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.keepReadout(t.Context(), all[0], d, verdicts, days); err != nil {
			t.Fatal(err)
		}
	}
	today, verdict := p.Start.Truncate(24*time.Hour), experiment.Verdict{Metric: "resolved", Arm: "green", State: experiment.Better, Time: p.Start, Units: 7}
	day := experiment.Day{Day: today, Metric: "resolved", Arm: "green", Units: 7}
	keep([]experiment.Verdict{verdict}, day)
	again, later := verdict, day
	again.Time, later.Units, later.Difference = p.Start.Add(time.Hour), 9, new(0.25)
	cost := later
	cost.Metric = "cost"
	keep([]experiment.Verdict{again}, later, cost)
	writes := 0
	k.wrote = func() { writes++ }
	keep([]experiment.Verdict{verdict}, later, cost)
	keep([]experiment.Verdict{again}, later, cost)
	if writes > 0 {
		t.Error("what is kept was written again")
	}
	tomorrow := later
	tomorrow.Day = today.Add(24 * time.Hour)
	keep(nil, tomorrow)
	d := mustExperiments(t, s, "button")[0]
	if diff := cmp.Diff([]experiment.Verdict{verdict, again}, d.Verdicts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]experiment.Day{later, cost, tomorrow}, d.Days); diff != "" {
		t.Error(diff)
	}
	w.edit("#f00", 0.5) // another readout says nothing of the one before
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{w.exposed("unit", "blue", p.Start.Add(time.Hour))}})
	mustLook(t, k, p.Start.Add(time.Hour))
	if d := mustExperiments(t, s, "button")[0]; len(d.Verdicts) > 0 || slices.ContainsFunc(d.Days, func(kept experiment.Day) bool { return kept.Units > 1 }) || len(d.Anew) != 2 || unitsOf(d) != "blue 1+0, " {
		t.Errorf("%+v", d)
	}
}

// TestExperimentsOfAnOldFile: a file that was made before there were experiments has none, and
// gets their tables when it is opened.
func TestExperimentsOfAnOldFile(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	for _, table := range []string{"s", "_plans", "_units"} {
		if _, err := s.conn.ExecContext(context.Background(), "DROP TABLE experiment"+table); err != nil {
			t.Fatal(err)
		}
	}
	if all := mustExperiments(t, s, ""); all != nil {
		t.Error(all)
	}
	reopened := mustOpen(t, Config{Path: s.path})
	serve(t, reopened, buttonStart, buttonPlan())
	if all := mustExperiments(t, reopened, ""); len(all) != 1 {
		t.Error(all)
	}
}

// TestExperimentsOfASplitThatRanBefore: what units reported while the split answered before the
// start may be what its arms did, and is no past by which their difference is corrected.
func TestExperimentsOfASplitThatRanBefore(t *testing.T) {
	for before, outcome := range map[string]string{
		"no answer": "", "an answer": `"arm":"green"`, "an answer of the rows below": `"share":1`, "an answer that did not come to it": `"consulted":false`,
	} {
		t.Run(before, func(t *testing.T) {
			s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
			k, w := mustCountExperiments(t, s), newWorld(t, s, 1)
			p := buttonPlan()
			p.Metrics = p.Metrics[1:2]
			serve(t, s, p.Start, p)
			at := p.Start.Add(-2 * time.Hour)
			var batch recorder.Batch
			if outcome != "" {
				r := w.exposed("another", "green", at)
				r.Splits = fmt.Appendf(nil, `[{"experiment":{"definition":"remoteconfigs/button","rule":"colours","salt":"s"},%s}]`, outcome)
				batch.Records = append(batch.Records, r)
			}
			for n := range 800 {
				unit, arm, minutes := fmt.Sprintf("unit%012d", n), "blue", 1+w.IntN(5)
				if n%2 == 1 {
					arm, minutes = "green", minutes+2
				}
				for _, at := range []time.Time{at, p.Start.Add(time.Minute)} {
					batch.Metrics = append(batch.Metrics, &trace.Metrics{TraceID: w.authority.New(trace.KindMetrics, at), Workspace: "default", Time: at,
						UnitField: "customer_id", Unit: unit, Happened: at, Values: fmt.Appendf(nil, `{"minutes":%d}`, minutes)})
				}
				batch.Records = append(batch.Records, w.exposed(unit, arm, p.Start))
			}
			mustCommit(t, s, batch)
			now := p.Start.Add(time.Hour)
			mustLook(t, k, now)
			d := wantBrute(t, s, "default", "button")
			difference, past := experiment.Read(&d, now).Metrics[0].Comparisons[0].Absolute, pastUnits(d)
			if difference == nil {
				t.Fatal("no difference is said")
			}
			clean := before == "no answer" || before == "an answer that did not come to it"
			if clean && (past != 800 || math.Abs(difference.Difference) > 0.1) || !clean && (past != 0 || math.Abs(difference.Difference-2) > 0.5) {
				t.Errorf("the difference is %v, %d units have a past", difference.Difference, past)
			}
		})
	}
}

// TestExperimentsKeepUnitsThatMoveLate: a unit that another arm answers stays while that is
// after its attribution, and leaves where it is not.
func TestExperimentsKeepUnitsThatMoveLate(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, w := mustCountExperiments(t, s), newWorld(t, s, 1)
	p := buttonPlan()
	serve(t, s, p.Start, p)
	end := p.Start.Add(p.Attribution)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{
		w.exposed("early", "blue", p.Start), w.exposed("early", "green", end.Add(-time.Millisecond)),
		w.exposed("late", "blue", p.Start), w.exposed("late", "green", end),
	}})
	mustLook(t, k, end)
	if d := wantBrute(t, s, "default", "button"); unitsOf(d) != "blue 1+1, " {
		t.Error(unitsOf(d))
	}
}

// TestExperimentsOfThoseBelow: an edit of the default begins the numbers anew where the units
// that the split leaves to it are the control, and nowhere else.
func TestExperimentsOfThoseBelow(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, w := mustCountExperiments(t, s), newWorld(t, s, 1)
	p, rest := buttonPlan(), buttonPlan()
	rest.Name, rest.Control = "rest", experiment.PassedOn
	serve(t, s, p.Start, p, rest)
	first := w.exposed("unit", "blue", p.Start)
	w.red = "#e00"
	w.edit("#00f", 0.5)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{first, w.exposed("unit", "blue", p.Start.Add(time.Minute))}})
	mustLook(t, k, p.Start.Add(time.Minute))
	for name, readouts := range map[string]int{"button": 1, "rest": 2} {
		if d := wantBrute(t, s, "default", name); len(d.Anew) != readouts {
			t.Errorf("%s: %v", name, d.Anew)
		}
	}
}

// TestCountingAgainAfterRetention: where the traces since the start are not all there any more,
// counting again begins with those that are, says so, and knows nothing of the past.
func TestCountingAgainAfterRetention(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db"), CurrentRetention: always(time.Hour)})
	k, w := mustCountExperiments(t, s), newWorld(t, s, 1)
	p := buttonPlan()
	at := func(hours int) time.Time { return p.Start.Add(time.Duration(hours) * time.Hour) }
	serve(t, s, at(0), p)
	batch := recorder.Batch{Records: []*trace.Record{w.exposed("early", "blue", at(1)), w.exposed("early", "blue", at(5).Add(-time.Minute)), w.exposed("late", "green", at(5))}}
	batch.Records[1].Workspace = "other"
	for _, unit := range []string{"early", "late"} {
		batch.Metrics = append(batch.Metrics, &trace.Metrics{TraceID: w.authority.New(trace.KindMetrics, at(5)), Workspace: "default", Time: at(5),
			UnitField: "customer_id", Unit: unit, Happened: at(-1), Values: w.values()})
	}
	mustCommit(t, s, batch)
	for _, c := range []struct {
		what          string
		delete, begun time.Time
		units         string
		past          bool
	}{
		{"all traces", time.Time{}, at(0), "blue 1+0, green 1+0, ", true},
		{"all traces again", time.Time{}, at(0), "blue 1+0, green 1+0, ", true},
		{"what is left", at(5), at(5), "green 1+0, ", false},
		{"no trace", at(9), at(10), "", false},
	} {
		if !c.delete.IsZero() {
			maintainAll(t, s, c.delete)
		}
		p.Metrics = append(p.Metrics, experiment.Metric{Name: c.what, Value: c.what, As: experiment.Rate, Smallest: 1})
		serve(t, s, at(6), p)
		mustLook(t, k, at(10))
		d := mustExperiments(t, s, "button")[0]
		if begun := experiment.Read(&d, at(10)).Begun; !begun.Equal(c.begun) || len(d.Anew) != 1 || unitsOf(d) != c.units || pastUnits(d) > 0 != c.past {
			t.Errorf("%s: begun %v, %v, %s, %d units have a past", c.what, begun, d.Anew, unitsOf(d), pastUnits(d))
		}
	}
}

// TestNoSumsOfAnotherPlan: from an edit of what is counted until all is counted anew, nothing
// is shown of the plan before, and the readout says that it is being counted.
func TestNoSumsOfAnotherPlan(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, w := mustCountExperiments(t, s), newWorld(t, s, 9)
	for w.now.Before(buttonStart.Add(4 * time.Hour)) {
		w.commit(20)
	}
	started := buttonPlan()
	edited, resumed := started, rolloutPlan(buttonStart.Add(time.Hour))
	edited.Attribution = time.Hour
	serve(t, s, w.now, started, rolloutPlan(buttonStart))
	for _, of := range []which{ofDefinitions, ofRollouts} {
		k.which, k.readAt = of, time.Time{}
		mustLook(t, k, w.now)
	}
	serve(t, s, w.now, edited, resumed)
	for _, c := range []struct {
		plan experiment.Plan
		of   which
	}{{edited, ofDefinitions}, {resumed, ofRollouts}} {
		k.which = c.of
		for uncounted := 0; ; {
			all, err := readTracked(t.Context(), s.Reader.db, "default", c.plan.Name, c.of)
			if err != nil || len(all) != 1 {
				t.Fatal(len(all), err)
			}
			d, err := all[0].data(t.Context(), s.Reader.db, w.now)
			if err != nil {
				t.Fatal(err)
			}
			readout := experiment.Read(d, w.now)
			what, err := json.Marshal(countsOf(&c.plan))
			if err != nil {
				t.Fatal(err)
			}
			if all[0].what == string(what) {
				if uncounted < 2 {
					t.Errorf("%s: it was seen %d times before it was counted", c.plan.Name, uncounted)
				}
				break
			}
			if uncounted++; len(d.Strata) > 0 || len(d.Days) > 0 || d.Unitless > 0 || d.Pending == 0 || !strings.Contains(readout.Says, "are being counted") {
				t.Fatalf("%s: %s, %d days, %d without unit, %d pending: %s", c.plan.Name, unitsOf(*d), len(d.Days), d.Unitless, d.Pending, readout.Says)
			}
			if _, err := k.step(t.Context(), w.now); err != nil {
				t.Fatal(err)
			}
		}
		mustLook(t, k, w.now)
		wantBrute(t, s, "default", c.plan.Name)
	}
}
