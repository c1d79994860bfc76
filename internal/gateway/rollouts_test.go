package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

// fakeRows is a log of rows, and a fleet.
type fakeRows struct {
	mu      sync.Mutex
	rows    []rollout.Row
	fail    error
	before  func() // is called before a row is added, without the lock
	woken   chan struct{}
	put     map[string]int // units by node
	sums    func(since time.Time) *experiment.Data
	forgot  []time.Time
	reading bool // another gateway reads the numbers
}

func (f *fakeRows) Rows(_ context.Context, known map[string]int64) (rows []rollout.Row, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, row := range f.rows {
		if row.Number > known[row.Rollout] {
			rows = append(rows, row)
		}
	}
	return rows, f.fail
}

func (f *fakeRows) stored(ctx context.Context) ([]rollout.Row, error) { return f.Rows(ctx, nil) }

func (f *fakeRows) Add(_ context.Context, row *rollout.Row) (bool, error) {
	f.mu.Lock()
	before := f.before
	f.before = nil
	f.mu.Unlock()
	if before != nil {
		before()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return false, f.fail
	}
	if slices.ContainsFunc(f.rows, func(r rollout.Row) bool { return r.Rollout == row.Rollout && r.Number == row.Number }) {
		return false, nil
	}
	f.rows = append(f.rows, *row)
	return true, nil
}

func (f *fakeRows) Await(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.woken:
		return nil
	}
}

func (f *fakeRows) Put(_ context.Context, node, _ string, _ time.Time, units []rollout.CountedUnit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put[node] += len(units)
	return f.fail
}

func (f *fakeRows) Sums(_ context.Context, _ *experiment.Plan, _ string, since time.Time) (*experiment.Data, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil || f.reading {
		return nil, false, f.fail
	}
	return f.sums(since), true, nil
}

func (f *fakeRows) Forget(_ context.Context, _ string, since time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot = append(f.forgot, since)
	return nil
}

func (f *fakeRows) Replace(_ context.Context, rows []rollout.Row) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail == nil {
		f.rows = append(f.rows[:rows[0].Number-1:rows[0].Number-1], rows...)
	}
	return f.fail
}

func (f *fakeRows) Close() error { return nil }

func (f *fakeRows) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// said returns the rows in short: kind, share in percent, and edition.
func (f *fakeRows) said() (texts []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, row := range f.rows {
		if row.Number != int64(i)+1 {
			texts = append(texts, fmt.Sprintf("number %d:", row.Number))
		}
		texts = append(texts, fmt.Sprintf("%s %d %s", row.Kind, row.Share/1000, row.Edition))
	}
	return texts
}

func colours(edition string, change ...func(*rollout.Plan)) *definition.Snapshot {
	p := rollout.Plan{
		On: "remoteconfigs/button", Rule: "colours", Salt: "colours", Unit: "customer", New: rollout.New, Control: rollout.Control,
		Steps: []int{1000, 5000, 25_000, rollout.Whole}, Every: time.Hour, Need: 300, Then: rollout.ThenHold, Edition: edition,
		Stops: []rollout.Stop{{Value: "resolved", As: experiment.Rate, Ratio: 1.2}},
	}
	for _, c := range change {
		c(&p)
	}
	return &definition.Snapshot{Revision: edition, Rollouts: []rollout.Plan{p}}
}

const coloursName = "remoteconfigs/button/colours"

// counted are the numbers of units of which as many as given had an event.
func countedUnits(p *experiment.Plan, units, events, controlEvents int64) *experiment.Data {
	arm := func(events int64) *experiment.Arm {
		a := &experiment.Arm{Units: units}
		for range p.Metrics {
			n := float64(events)
			s := experiment.Sums{Sums: sequential.Sums{N: units, Positive: events, Partial: units - events, Y: n, YY: n, D: float64(units), DD: float64(units), YD: n}, Reported: units}
			a.Decided, a.Served = append(a.Decided, s), append(a.Served, s)
		}
		return a
	}
	return &experiment.Data{
		Plans: []experiment.DatedPlan{{Since: p.Start, Plan: *p}}, Anew: []time.Time{p.Start}, Through: time.Now(),
		Strata: []experiment.Stratum{{Begin: p.Start, Shares: map[string]float64{rollout.New: 0.01, rollout.Control: 0.01}, Arms: map[string]*experiment.Arm{rollout.New: arm(events), rollout.Control: arm(controlEvents)}}},
	}
}

// rolling is a workspace's rollouts in a test. Its store has the numbers that units,
// events and controlEvents say.
type rolling struct {
	*rollouts
	t    *testing.T
	stop func()

	mu                           sync.Mutex // of what follows
	units, events, controlEvents int64
	before                       *experiment.Plan // whose numbers the store has, if it is not the plan of now
	unread                       error            // of numbers
	moves                        []string
}

func (r *rolling) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// roll runs rollouts with rows on disk and, unless it is nil, a fleet.
func roll(t *testing.T, disk, fleet *fakeRows, memory *rolloutRows, s *definition.Snapshot) *rolling {
	r := &rolling{t: t, units: 1000}
	store := rolloutStore{disk: disk, stored: disk.stored}
	store.numbers = func(context.Context, string) (*experiment.Data, error) {
		plans, _ := r.counted()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.before != nil {
			plans = []experiment.Plan{*r.before}
		}
		if r.unread != nil || len(plans) == 0 {
			return nil, r.unread
		}
		return countedUnits(&plans[0], r.units, r.events, r.controlEvents), nil
	}
	store.ship = func(_ context.Context, _ string, _ time.Time, put func(string, []rollout.CountedUnit) error) error {
		return put("node", make([]rollout.CountedUnit, 2))
	}
	if fleet != nil {
		store.fleet = fleet
		fleet.sums = func(time.Time) *experiment.Data {
			plans, _ := r.counted()
			r.mu.Lock()
			defer r.mu.Unlock()
			return countedUnits(&plans[0], r.units, r.events, r.controlEvents)
		}
	}
	r.rollouts = newRollouts(store, memory, zap.NewNop())
	r.name = "gateway here"
	r.changed = func() {}
	r.moved = func(row *rollout.Row) {
		r.set(func() { r.moves = append(r.moves, fmt.Sprint(row.Kind, " ", row.Share/1000)) })
	}
	r.follow(s)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.run(ctx) })
	r.stop = func() {
		cancel()
		running.Wait()
	}
	return r
}

func (r *rolling) serves(when string, share int, row int64) {
	r.t.Helper()
	got, number, ok := r.answer(r.snapshot, coloursName)
	if got != share || number != row || ok != (row > 0) {
		r.t.Errorf("%s: %d buckets by row %d (%t), want %d by %d; it says %s", when, got, number, ok, share, row, r.all()[0].Says)
	}
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestRolloutSteps takes the steps by the clock once enough units were seen, and no other.
func TestRolloutSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk fakeRows
		r := roll(t, &disk, nil, new(rolloutRows), colours("a"))
		defer r.stop()
		after(0)
		r.serves("at once", 1000, 1)
		r.set(func() { r.units = 299 })
		after(2 * time.Hour)
		r.serves("without enough units", 1000, 1)
		r.set(func() { r.units = 300 })
		after(2 * rolloutPace)
		r.serves("with enough units", 5000, 2)
		after(time.Hour - 3*rolloutPace)
		r.serves("before its time", 5000, 2)
		r.set(func() { r.unread = errors.New("the disk fails") })
		after(4 * rolloutPace)
		r.serves("without numbers", 5000, 2)
		r.set(func() { r.unread = nil })
		after(2 * rolloutPace)
		r.serves("with numbers", 25_000, 3)
		after(2 * time.Hour)
		r.serves("at the end", rollout.Whole, 4)
		want := []string{"start 1 a", "step 5 a", "step 25 a", "step 100 a"}
		if diff := cmp.Diff(want, disk.said()); diff != "" || !slices.Equal(r.moves, []string{"start 1", "step 5", "step 25", "step 100"}) {
			t.Error(diff, r.moves)
		}
		if plans, _ := r.counted(); len(plans) != 0 || disk.rows[2].By != "gateway here" || disk.rows[2].Evidence == nil {
			t.Errorf("%d plans are counted, %+v", len(plans), disk.rows[2])
		}
	})
}

// TestRolloutStopsAtHarm holds or takes back soon after numbers say so, and a person goes on.
func TestRolloutStopsAtHarm(t *testing.T) {
	for then, want := range map[rollout.Then]int{rollout.ThenHold: 5000, rollout.ThenBack: 0} {
		synctest.Test(t, func(t *testing.T) {
			var disk fakeRows
			r := roll(t, &disk, nil, new(rolloutRows), colours("a", func(p *rollout.Plan) { p.Then = then }))
			defer r.stop()
			after(time.Hour + 2*rolloutPace)
			r.serves("before", 5000, 2)
			if list := r.conditions(); len(list) != 0 {
				t.Error(list)
			}
			r.set(func() { r.events = 500 })
			after(2 * rolloutPace)
			r.serves("harm", want, 3)
			list := r.conditions()
			if len(list) != 1 || list[0].Code != RolloutStopped || list[0].Subject != coloursName || !list[0].Since.Equal(disk.rows[2].Time) || !strings.Contains(list[0].Message, "resolved") {
				t.Errorf("%+v", list)
			}
			after(5 * time.Hour)
			r.serves("hours later", want, 3)
			begun := disk.rows[0].Time
			r.set(func() { r.events = 0 })
			row, err := r.ask(t.Context(), coloursName, rollout.Resume, "ada")
			if err != nil || row.By != "ada" {
				t.Fatal(row, err)
			}
			r.serves("after a resume", row.Share, 4)
			if row.Share != max(want, 1000) || len(r.conditions()) != 0 {
				t.Error(row, r.conditions())
			}
			if all := r.all(); !strings.Contains(all[0].Says, "its numbers are not known yet") || all[0].Evidence != nil {
				t.Errorf("what was said before is shown after a resume: %q, %+v", all[0].Says, all[0].Evidence)
			}
			if plans, since := r.counted(); len(plans) != 1 || !since.Equal(row.Time) || !since.After(begun) || !plans[0].Start.Equal(since) {
				t.Errorf("%v %+v", since, plans)
			}
			if _, err := r.ask(t.Context(), "remoteconfigs/button/colour", rollout.Hold, ""); !errors.Is(err, ErrNoRollout) {
				t.Error(err)
			}
			if _, err := r.ask(t.Context(), coloursName, rollout.Finish, "ada"); err != nil {
				t.Error(err)
			}
			r.serves("finished", rollout.Whole, 5)
			if _, err := r.ask(t.Context(), coloursName, rollout.Hold, "ada"); !errors.Is(err, ErrRolloutConflict) {
				t.Error(err)
			}
		})
	}
}

// TestRolloutIgnoresNumbersOfBefore: what was counted before a resume is no evidence after it.
func TestRolloutIgnoresNumbersOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk fakeRows
		r := roll(t, &disk, nil, new(rolloutRows), colours("a"))
		defer r.stop()
		after(0)
		old, _ := r.counted()
		after(time.Minute)
		r.set(func() { r.before, r.events = &old[0], 500 })
		after(2 * rolloutPace)
		r.serves("harm", 1000, 2)
		if _, err := r.ask(t.Context(), coloursName, rollout.Resume, "ada"); err != nil {
			t.Fatal(err)
		}
		after(3 * time.Hour)
		r.serves("hours after the resume", 1000, 3)
	})
}

// TestRolloutFollowsTheFirst adopts the row of another gateway that had the same number.
func TestRolloutFollowsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk fakeRows
		fleet := fakeRows{woken: make(chan struct{}), put: make(map[string]int)}
		r := roll(t, &disk, &fleet, new(rolloutRows), colours("a"))
		defer r.stop()
		after(time.Minute)
		fleet.set(func() {
			fleet.before = func() {
				fleet.set(func() {
					fleet.rows = append(fleet.rows, rollout.Row{Rollout: coloursName, Number: 2, Time: time.Now(), Kind: rollout.Hold, Share: 1000, Edition: "a", By: "ada"})
				})
			}
		})
		after(time.Hour)
		r.serves("another was first", 1000, 2)
		if diff := cmp.Diff([]string{"start 1 a", "hold 1 a"}, fleet.said()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(fleet.said(), disk.said()); diff != "" {
			t.Error("the copy: ", diff)
		}
		if fleet.put["node"] == 0 || len(fleet.forgot) != 1 || len(r.conditions()) != 0 {
			t.Error(fleet.put, fleet.forgot, r.conditions())
		}
		fleet.set(func() {
			fleet.rows = append(fleet.rows, rollout.Row{Rollout: coloursName, Number: 3, Time: time.Now(), Kind: rollout.Back, Edition: "a", Evidence: &rollout.Evidence{}})
		})
		fleet.woken <- struct{}{}
		after(0)
		r.serves("another took it back", 0, 3)
		if len(r.conditions()) != 1 || r.moves[2] != "back 0" {
			t.Error(r.conditions(), r.moves)
		}
	})
}

// TestRolloutCutOff takes no step while the database is away, and none in addition when it is
// there again.
func TestRolloutCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk fakeRows
		fleet := fakeRows{woken: make(chan struct{}), put: make(map[string]int)}
		r := roll(t, &disk, &fleet, new(rolloutRows), colours("a"))
		defer r.stop()
		after(time.Minute)
		fleet.set(func() { fleet.fail = errors.New("the database is away") })
		after(50 * time.Second)
		if list := r.conditions(); len(list) != 0 {
			t.Error(list)
		}
		if _, err := r.ask(t.Context(), coloursName, rollout.Hold, ""); err == nil || errors.Is(err, ErrRolloutConflict) || errors.Is(err, ErrNoRollout) {
			t.Error(err)
		}
		after(3 * time.Hour)
		r.serves("cut off", 1000, 1)
		if list := r.conditions(); len(list) != 1 || list[0].Code != RolloutUnshared || list[0].Message != "the database is away" || time.Since(list[0].Since) < 3*time.Hour {
			t.Error(list)
		}

		// A start meanwhile serves what the disk has.
		again := roll(t, &disk, &fleet, new(rolloutRows), colours("a"))
		again.serves("after a start", 1000, 1)
		after(time.Hour)
		again.serves("an hour after a start", 1000, 1)
		again.stop()

		fleet.set(func() { fleet.fail = nil })
		after(2 * rolloutPace)
		r.serves("there again", 5000, 2)
		after(time.Minute)
		r.serves("a minute later", 5000, 2)
		if list := r.conditions(); len(list) != 0 {
			t.Error(list)
		}
		fleet.set(func() { fleet.reading = true })
		after(2 * time.Hour)
		r.serves("another reads", 5000, 2)
	})
}

// TestRolloutAfterARestart serves the last row at once, by the disk or, where that fails on a
// reload, by the memory.
func TestRolloutAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk fakeRows
		memory := new(rolloutRows)
		r := roll(t, &disk, nil, memory, colours("a"))
		after(time.Hour + 2*rolloutPace)
		r.stop()
		again := roll(t, &disk, nil, new(rolloutRows), colours("a"))
		again.serves("after a restart", 5000, 2)
		after(time.Second)
		again.stop()
		if len(again.moves) > 0 {
			t.Error("told again: ", again.moves)
		}
		disk.set(func() { disk.fail = errors.New("the disk fails") })
		reloaded := roll(t, &disk, nil, memory, colours("a"))
		reloaded.serves("after a reload", 5000, 2)
		after(3 * time.Hour)
		reloaded.serves("hours after a reload", 5000, 2)
		reloaded.stop()
		disk.set(func() { disk.fail = nil })
		for _, row := range disk.said() {
			if strings.HasPrefix(row, "number") {
				t.Error(disk.said())
			}
		}
	})
}

// TestRolloutEdits: another edition starts anew, also one that was there before, and another
// edit does not.
func TestRolloutEdits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk fakeRows
		r := roll(t, &disk, nil, new(rolloutRows), colours("a"))
		after(time.Hour + 2*rolloutPace)
		edited := colours("a")
		edited.Revision = "another edit"
		r.follow(edited)
		after(time.Minute)
		r.serves("another edit", 5000, 2)
		before := r.snapshot
		b := colours("b")
		if share, _, ok := r.answer(b, coloursName); ok {
			t.Errorf("a new edition that is yet to be followed has %d", share)
		}
		r.follow(b)
		if share, row, ok := r.answer(before, coloursName); share != 5000 || row != 2 || !ok {
			t.Errorf("a request of the set before gets %d by %d", share, row)
		}
		after(time.Second)
		r.serves("another edition", 1000, 3)
		r.follow(&definition.Snapshot{Revision: "none"})
		if _, _, ok := r.answer(r.snapshot, coloursName); ok || len(r.all()) != 0 {
			t.Error("it is gone")
		}
		after(time.Minute)
		r.follow(edited)
		after(time.Second)
		r.serves("back at the first", 1000, 4)
		after(time.Minute)
		r.serves("a minute later", 1000, 4)
		r.stop()
		again := roll(t, &disk, nil, new(rolloutRows), colours("b"))
		defer again.stop()
		after(time.Second)
		again.serves("edited while it was down", 1000, 5)
		if diff := cmp.Diff([]string{"start 1 a", "step 5 a", "start 1 b", "start 1 a", "start 1 b"}, disk.said()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRolloutOvertaken: in a fleet a gateway with older definitions answers by its own last
// row, and takes no step.
func TestRolloutOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fleet := fakeRows{woken: make(chan struct{}), put: make(map[string]int)}
		var disks [2]fakeRows
		old := roll(t, &disks[0], &fleet, new(rolloutRows), colours("a"))
		defer old.stop()
		after(time.Minute)
		newer := roll(t, &disks[1], &fleet, new(rolloutRows), colours("b"))
		defer newer.stop()
		after(3*time.Hour + time.Minute)
		old.serves("overtaken", 1000, 1)
		if got := newer.all()[0]; got.Share != rollout.Whole || got.State != rollout.Finished || !old.all()[0].Overtaken {
			t.Errorf("%+v", got)
		}
		restarted := roll(t, &disks[0], &fleet, new(rolloutRows), colours("a"))
		defer restarted.stop()
		after(time.Hour)
		old.follow(colours("b"))
		old.serves("after the edit", rollout.Whole, 5)
		after(time.Minute)
		if diff := cmp.Diff([]string{"start 1 a", "start 1 b", "step 5 b", "step 25 b", "step 100 b"}, fleet.said()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestRolloutJoinsAFleet: rows from before there was a fleet are copied into it, unless it has
// others.
func TestRolloutJoinsAFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk fakeRows
		r := roll(t, &disk, nil, new(rolloutRows), colours("a"))
		after(time.Hour + 2*rolloutPace)
		r.stop()
		for name, has := range map[string][]rollout.Row{"none": nil, "its first": disk.rows[:1], "others": {{Rollout: coloursName, Number: 1, Time: time.Now(), Kind: rollout.Start, Share: 25_000, Edition: "a"}}} {
			fleet := fakeRows{rows: slices.Clone(has), woken: make(chan struct{}), put: make(map[string]int)}
			copied := fakeRows{rows: slices.Clone(disk.rows)}
			joined := roll(t, &copied, &fleet, new(rolloutRows), colours("a"))
			after(time.Second)
			if name == "others" {
				joined.serves(name, 25_000, 1)
			} else {
				joined.serves(name, 5000, 2)
			}
			joined.stop()
			if want := map[bool]int{true: 1, false: 2}[name == "others"]; len(fleet.rows) != want {
				t.Errorf("%s: %v", name, fleet.said())
			}
			if diff := cmp.Diff(fleet.said(), copied.said()); diff != "" {
				t.Error(name, diff)
			}
		}
	})
}

// TestRolloutOfABundle answers the control where rows would be this gateway's alone.
func TestRolloutOfABundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := fakeRows{rows: []rollout.Row{{Rollout: coloursName, Number: 1, Kind: rollout.Start, Share: 5000, Edition: "a"}}}
		r := newRollouts(rolloutStore{disk: &disk, stored: disk.stored}, new(rolloutRows), zap.NewNop())
		r.alone, r.changed = true, func() {}
		if r.follow(&definition.Snapshot{}); len(r.conditions()) != 0 {
			t.Error(r.conditions())
		}
		r.follow(colours("a"))
		if _, _, ok := r.answer(r.snapshot, coloursName); ok {
			t.Error("it has a share")
		}
		if _, _, ok := r.answer(colours("b"), coloursName); ok {
			t.Error("another set has a share")
		}
		if list := r.conditions(); len(list) != 1 || list[0].Code != RolloutUnshared || !strings.Contains(list[0].Message, "a sink postgres") {
			t.Error(list)
		}
		if _, err := r.ask(t.Context(), coloursName, rollout.Hold, ""); !errors.Is(err, ErrRolloutConflict) {
			t.Error(err)
		}
		r.run(t.Context())
		if len(disk.rows) != 1 {
			t.Error(disk.said())
		}
	})
}

// TestRolloutAnswersAllocateNothing: an answer is on the path of each request.
func TestRolloutAnswersAllocateNothing(t *testing.T) {
	disk := fakeRows{rows: []rollout.Row{{Rollout: coloursName, Number: 1, Kind: rollout.Start, Share: 5000, Edition: "a"}}}
	r := newRollouts(rolloutStore{disk: &disk, stored: disk.stored}, new(rolloutRows), zap.NewNop())
	r.changed = func() {}
	s := colours("a")
	r.follow(s)
	if n := testing.AllocsPerRun(100, func() {
		if share, _, ok := r.answer(s, coloursName); share != 5000 || !ok {
			t.Error(share, ok)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
