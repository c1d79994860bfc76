package sqlite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/trace"
)

const buttonRollout = "remoteconfigs/button/colours"

// rolloutPlan is what is counted for a rollout of the button.
func rolloutPlan(start time.Time) experiment.Plan {
	p := buttonPlan()
	p.Name, p.Rollout, p.Attribution, p.Start, p.End = "rollout "+buttonRollout, true, 0, start, start.AddDate(1, 0, 0)
	return p
}

// fleet has units as a fleet was given them.
type fleet map[string]rollout.CountedUnit

// give gives the fleet units, a few at a time. Meanwhile is called before the store knows, which
// it may never do.
func (f fleet) give(t testing.TB, l *Rollouts, random *rand.Rand, meanwhile func() (killed bool)) {
	t.Helper()
	for {
		found, err := l.Unshared(t.Context(), "rollout "+buttonRollout, 1+random.IntN(4))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range found.Units {
			f[u.Unit] = u
		}
		if len(found.Units) == 0 || meanwhile != nil && meanwhile() {
			return
		}
		if err := l.Share(t.Context(), found); err != nil {
			t.Fatal(err)
		}
	}
}

// wantAll compares what the fleet has with the units of the readout.
func (f fleet) wantAll(t testing.TB, s *Store) {
	t.Helper()
	all, err := readTracked(t.Context(), s.Reader.db, "", "", ofRollouts)
	if err != nil || len(all) != 1 {
		t.Fatal(len(all), err)
	}
	x, units := all[0], 0
	for _, m := range x.plan().Metrics {
		if x.placeOf(&m) < 0 {
			t.Fatalf("%s is not counted", m.Name)
		}
	}
	if _, err := collect(t.Context(), s.Reader.db, func(scan func(...any) error) (_ struct{}, err error) {
		var u unit
		var name string
		if err := u.scan(scan, &name, map[string]string{}); err != nil {
			return struct{}{}, err
		}
		units++
		want := rollout.CountedUnit{Unit: name, Arm: u.arm, First: time.UnixMilli(u.first).UTC(), Moved: u.moved}
		for _, m := range x.plan().Metrics {
			n := u.numbers[x.placeOf(&m)*perNumber:]
			want.Numbers = append(want.Numbers, n[0], n[1], n[2])
		}
		if diff := cmp.Diff(want, f[name]); diff != "" {
			t.Errorf("the fleet has another unit: %s", diff)
		}
		return struct{}{}, nil
	}, "SELECT "+unitColumns+" FROM experiment_units AS u WHERE u.experiment = ? AND u.readout = ?", x.id, x.readout); err != nil {
		t.Fatal(err)
	}
	if units == 0 {
		t.Error("no units are counted")
	}
}

// TestMustHoldRolloutsCountOnce: whatever happens in whatever order, and wherever the counting
// or the giving is broken off, the sums are those that the raw rows give, up to the row that
// ends the comparison, and the fleet has each unit as it was counted last.
func TestMustHoldRolloutsCountOnce(t *testing.T) {
	t.Parallel()
	seeds := uint64(6)
	if os.Getenv("CADENZA_FULL") != "" {
		seeds = 200
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
			w, l, has, rows := newWorld(t, s, seed), mustRollouts(t, s.path, "default"), fleet{}, int64(0)
			w.now = buttonStart.Add(-24 * time.Hour)
			p := rolloutPlan(buttonStart)
			if p.Shared = seed%3 > 0; seed%2 == 0 {
				serve(t, s, w.now, p, buttonPlan())
			}
			for w.now.Before(buttonStart.Add(24 * time.Hour)) {
				w.commit(1 + w.IntN(40))
				if seed%2 == 1 {
					serve(t, s, w.now, p)
				}
				switch w.IntN(12) {
				case 0:
					w.edit("#00f", float64(1+w.IntN(9))/10)
				case 1:
					w.edit(fmt.Sprintf("#00%d", w.IntN(3)), w.blue)
				case 2, 10:
					if w.now.Before(p.Start) {
						break
					}
					rows++
					row := rolloutRow(buttonRollout, rows, rollout.Step)
					row.Time, row.Share = w.now.Add(time.Millisecond), []int{0, 5000, rollout.Whole}[w.IntN(3)]
					mustAdd(t, l, row)
				case 3:
					if w.IntN(3) > 0 || w.now.Before(p.Start) || w.now.After(buttonStart.Add(12*time.Hour)) {
						break
					}
					p.Start, p.End = w.now, w.now.AddDate(1, 0, 0) // resumed
					serve(t, s, w.now, p, buttonPlan())
				case 4, 5, 6, 7:
					lookUntilKilled(t, s, w.now, w.Rand, 1+w.IntN(20))
				case 8, 9:
					has.give(t, l, w.Rand, func() bool {
						if w.IntN(3) == 0 {
							w.commit(10)
							lookUntilKilled(t, s, w.now, w.Rand, 20)
						}
						return w.IntN(4) == 0
					})
				}
			}
			w.settle()
			k := mustCountExperiments(t, s)
			k.stepEvents, k.stepUnits = 1<<w.IntN(10), 1+w.IntN(8)
			if err := k.look(t.Context(), w.now, func() {}); err != nil {
				t.Fatal(err)
			}
			if got := wantBrute(t, s, "default", p.Name); pastUnits(got) > 0 {
				t.Errorf("%d units have a past", pastUnits(got))
			}
			if seed%2 == 0 {
				wantBrute(t, s, "default", "button")
			}
			if has.give(t, l, w.Rand, nil); p.Shared {
				has.wantAll(t, s)
			} else if len(has) > 0 {
				t.Errorf("%d units wait for no fleet", len(has))
			}
		})
	}
}

// TestRolloutsAreCountedForThemselves: lists of experiments leave them out, they keep no days,
// and are deleted as soon as they are gone, with all that was counted; their rows stay for 30
// days, unless a definition has them again.
func TestRolloutsAreCountedForThemselves(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, w, l := mustCountExperiments(t, s), newWorld(t, s, 1), mustRollouts(t, s.path, "default")
	k.which = ofRollouts
	p, now := rolloutPlan(buttonStart), buttonStart.Add(time.Hour)
	p.Shared = true
	row := rolloutRow(buttonRollout, 1, rollout.Start)
	mustAdd(t, l, row)
	serves := func(at time.Time, rollouts []string, plans ...experiment.Plan) {
		t.Helper()
		mustCommit(t, s, recorder.Batch{Experiments: []*recorder.Experiments{{Workspace: "default", Time: at, Plans: plans, Rollouts: rollouts}}})
		mustLook(t, k, at)
	}
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{w.exposed("unit", "green", buttonStart), w.exposed("unit", "blue", buttonStart.Add(-time.Minute))}})
	serves(now, []string{buttonRollout}, p)
	if got := unitsOf(mustExperiments(t, s, p.Name)[0]); got != "green 1+0, " {
		t.Error(got)
	}
	if all := mustExperiments(t, s, ""); len(all) > 0 {
		t.Error("a list of experiments has the rollout")
	}
	other := buttonPlan()
	serves(now, []string{}, other)
	if all := mustExperiments(t, s, p.Name); len(all) > 0 {
		t.Error("a rollout that is gone is counted")
	}
	for _, table := range []string{"units", "arms", "sums", "strata", "metrics", "readouts", "verdicts", "days", "outbox"} {
		if n, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM experiment_"+table); n != 0 || err != nil {
			t.Errorf("%d rows of experiment_%s are left: %v", n, table, err)
		}
	}
	for _, c := range []struct {
		after    time.Duration
		rollouts []string
		rows     int
	}{
		{rolloutsKept - time.Hour, nil, 1}, // not known
		{rolloutsKept - time.Hour, []string{buttonRollout}, 1},
		{rolloutsKept + time.Hour, []string{}, 1}, // it is gone since now
		{2 * rolloutsKept, []string{}, 1},
		{2*rolloutsKept + time.Hour, nil, 0},
	} {
		serves(now.Add(c.after), c.rollouts, other)
		if rows, err := StoredRollouts(t.Context(), s.path, "default"); len(rows) != c.rows || err != nil {
			t.Errorf("after %v: %d rows, %v", c.after, len(rows), err)
		}
	}
}

// TestErasedUnitsLeaveRollouts: a unit is neither counted nor given to a fleet after its
// erasure, and no byte of it stays.
func TestErasedUnitsLeaveRollouts(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, w, has := mustCountExperiments(t, s), newWorld(t, s, 1), fleet{}
	p := rolloutPlan(buttonStart)
	p.Shared = true
	serve(t, s, p.Start, p)
	const doomed = "doomed0123456789"
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{w.exposed(doomed, "green", p.Start), w.exposed("other", "blue", p.Start)}})
	mustLook(t, k, p.Start)
	if _, err := Erase(t.Context(), s.path, trace.Selector{Workspace: "default", UnitField: "customer_id", Unit: doomed, UnitValue: `"c-7"`}); err != nil {
		t.Fatal(err)
	}
	if d := wantBrute(t, s, "default", p.Name); unitsOf(d) != "blue 1+0, " {
		t.Error(unitsOf(d))
	}
	has.give(t, mustRollouts(t, s.path, "default"), w.Rand, nil)
	if has.wantAll(t, s); len(has) != 1 {
		t.Errorf("the fleet has %v", has)
	}
	content, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(content, []byte(doomed)); n != 1 {
		t.Errorf("the file has the unit %d times, and not in the erasure alone", n)
	}
}

// TestMustHoldRolloutsAreCountedSoon: while an experiment is counted for the first time, which
// takes minutes, rollouts are counted, by the store itself; and a look without new rows writes
// nothing.
func TestMustHoldRolloutsAreCountedSoon(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	w, p := newWorld(t, s, 1), rolloutPlan(buttonStart)
	// The keeper of experiments is in the middle of a step as long as this test is.
	experiments, err := openExperimentKeeper(s.path, ofDefinitions)
	if err != nil {
		t.Fatal(err)
	}
	defer experiments.close()
	serve(t, s, p.Start, p, buttonPlan())
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{w.exposed("unit", "green", p.Start)}})
	counted := false
	if err := experiments.look(t.Context(), p.Start, func() {
		for deadline := time.Now().Add(time.Minute); !counted && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			counted = unitsOf(mustExperiments(t, s, p.Name)[0]) == "green 1+0, "
		}
	}); err != nil || !counted {
		t.Error("the rollout waits for the experiment", err)
	}
	s.stop()
	s.background.Wait()
	k, err := openExperimentKeeper(s.path, ofRollouts)
	if err != nil {
		t.Fatal(err)
	}
	defer k.close()
	mustLook(t, k, p.Start)
	before, err := os.Stat(s.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	mustLook(t, k, p.Start.Add(time.Second))
	if after, err := os.Stat(s.path + "-wal"); err != nil || !after.ModTime().Equal(before.ModTime()) || after.Size() != before.Size() {
		t.Error("a look at nothing new wrote", err)
	}
}

// BenchmarkLookAtRollouts shows what a look at ten rollouts costs when nothing is new, beside
// a hundred thousand units.
func BenchmarkLookAtRollouts(b *testing.B) {
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	k, w := mustCountExperiments(b, s), newWorld(b, s, 1)
	k.which = ofRollouts
	var plans []experiment.Plan
	for n := range 10 {
		p := rolloutPlan(buttonStart)
		p.Name = fmt.Sprint(p.Name, n)
		if n > 0 {
			p.Rule = fmt.Sprint(n)
		}
		plans = append(plans, p)
	}
	serve(b, s, buttonStart, plans...)
	manyExposures(b, s, w, buttonStart, time.Hour, 100_000)
	now := buttonStart.Add(time.Hour)
	if err := k.look(b.Context(), now, func() {}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := k.look(b.Context(), now, func() {}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestUnitsAreGivenAgain: a unit that is counted further while it is given is given again, by
// the same name of the store; one that is not is given once.
func TestUnitsAreGivenAgain(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	k, w, l := mustCountExperiments(t, s), newWorld(t, s, 1), mustRollouts(t, s.path, "default")
	p := rolloutPlan(buttonStart)
	p.Shared = true
	serve(t, s, p.Start, p)
	given := func(want ...string) *Unshared {
		t.Helper()
		found, err := l.Unshared(t.Context(), p.Name, 10)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, u := range found.Units {
			names = append(names, fmt.Sprint(u.Unit, " ", u.Moved))
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Error(diff)
		}
		return found
	}
	if early := given(); len(early.Node) != 32 || !early.Since.IsZero() {
		t.Errorf("%+v of a plan that is not counted yet", early)
	}
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{w.exposed("a", "green", p.Start), w.exposed("b", "green", p.Start)}})
	mustLook(t, k, p.Start)
	first := given("a false", "b false")
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{w.exposed("a", "blue", p.Start.Add(time.Second))}})
	mustLook(t, k, p.Start)
	if err := l.Share(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	again := given("a true")
	if again.Node != first.Node || !again.Since.Equal(p.Start) {
		t.Errorf("%s since %v, before %s", again.Node, again.Since, first.Node)
	}
	if err := l.Share(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	given()
	serve(t, s, p.Start, rolloutPlan(p.Start.Add(-time.Second))) // it is to be counted anew
	given()
}
