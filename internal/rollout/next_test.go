package rollout

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// short returns a row as text, such as "2 step 5000".
func (r *Row) short() string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d %s %d", r.Number, r.Kind, r.Share)
}

// rowsOf returns rows of an edition from their texts, a minute apart from began on. A text may
// begin with the name of another edition.
func rowsOf(texts ...string) (rows []Row) {
	for i, text := range texts {
		row := Row{Rollout: "remoteconfigs/button/colours", Number: int64(i + 1), Time: began.Add(time.Duration(i) * time.Minute), Edition: "one"}
		if words := strings.Fields(text); len(words) == 3 {
			row.Edition, text = words[0], words[1]+" "+words[2]
		}
		if _, err := fmt.Sscan(text, &row.Kind, &row.Share); err != nil {
			panic(err)
		}
		rows = append(rows, row)
	}
	return rows
}

// seen returns the evidence of a guard since a minute.
func seen(minute int, units int64, harm bool) *Evidence {
	e := &Evidence{Since: began.Add(time.Duration(minute) * time.Minute), Units: units, Control: units}
	e.Guards = []Guard{{Name: "error", Ratio: 1.2, New: new(0.1), Control: new(0.05), Harm: harm, Says: "new has 0.1"}}
	return e
}

func with(e *Evidence, change func(*Evidence)) *Evidence {
	change(e)
	return e
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		name   string
		rows   []Row
		e      *Evidence
		failed error
		minute int    // of the look
		then   Then   // hold if empty
		want   string // the row
		says   string // a part of the sentence
	}{
		{name: "the first", want: "1 start 1000", says: "the first step is 1 %"},
		{name: "an edit", rows: rowsOf("other start 1000", "other step 5000"), e: seen(0, 500, true), minute: 2, want: "3 start 1000"},
		{name: "too early", rows: rowsOf("start 1000"), e: seen(0, 500, false), minute: 9, says: "the step to 5 % is due at 2026-11-01T09:10:00Z"},
		{name: "too early, and too few", rows: rowsOf("start 1000"), e: seen(0, 299, false), minute: 9, says: "is due at 2026-11-01T09:10:00Z, and needs 300 units of new, there are 299"},
		{name: "due", rows: rowsOf("start 1000"), e: seen(0, 300, false), minute: 10, want: "2 step 5000", says: "no guard sees harm by 300 units of new and 300 of control"},
		{name: "by the row of the share", rows: rowsOf("start 1000", "step 5000"), e: seen(0, 300, false), minute: 10, says: "due at 2026-11-01T09:11:00Z"},
		{name: "too few units", rows: rowsOf("start 1000"), e: seen(0, 299, false), minute: 60, says: "needs 300 units of new, there are 299"},
		{name: "not known yet", rows: rowsOf("start 1000"), minute: 60, says: "it stays at 1 %: its numbers are not known yet"},
		{name: "failed", rows: rowsOf("start 1000"), failed: errors.New("no route"), minute: 60, says: "its numbers are not known: no route"},
		{name: "of earlier", rows: rowsOf("start 1000", "back 0", "resume 1000"), e: seen(0, 500, true), minute: 60, says: "its numbers are those since 2026-11-01T09:00:00Z, and it begins at 2026-11-01T09:02:00Z"},
		{name: "since it was resumed", rows: rowsOf("start 1000", "step 5000", "hold 5000", "resume 5000"), e: seen(3, 300, false), minute: 13, want: "5 step 25000"},
		{name: "mismatch", rows: rowsOf("start 1000"), e: with(seen(0, 500, false), func(e *Evidence) { e.Mismatch = true }), minute: 60, says: "not divided as its shares say"},
		{name: "no number of new", rows: rowsOf("start 1000"), e: with(seen(0, 500, false), func(e *Evidence) { e.Guards[0].New = nil }), minute: 60, says: "it stays at 1 %: error says nothing: new has 0.1"},
		{name: "no number of the control", rows: rowsOf("start 1000"), e: with(seen(0, 500, false), func(e *Evidence) { e.Guards[0].Control = nil }), minute: 60, says: "error says nothing"},
		{name: "harm holds", rows: rowsOf("start 1000", "step 5000"), e: seen(0, 5, true), minute: 3, want: "3 hold 5000", says: "error: new has 0.1"},
		{name: "harm takes back", rows: rowsOf("start 1000", "step 5000"), e: seen(0, 5, true), minute: 3, then: ThenBack, want: "3 back 0", says: "error: new has 0.1"},
		{name: "harm before a step and a mismatch", rows: rowsOf("start 1000"), e: with(seen(0, 500, true), func(e *Evidence) { e.Mismatch = true }), minute: 60, want: "2 hold 1000"},
		{name: "harm while held", rows: rowsOf("start 1000", "hold 1000"), e: seen(0, 500, true), minute: 60, says: "it stays at 1 % until a person resumes: row 2 of a gateway, for no reason"},
		{name: "harm while held, to take back", rows: rowsOf("start 1000", "hold 1000"), e: seen(0, 500, true), minute: 60, then: ThenBack, want: "3 back 0"},
		{name: "harm while returned", rows: rowsOf("start 1000", "back 0"), e: seen(0, 500, true), minute: 60, then: ThenBack, says: "all units are answered as the control until a person resumes"},
		{name: "held", rows: rowsOf("start 1000", "hold 1000"), e: seen(0, 500, false), minute: 60, says: "it stays at 1 % until a person resumes"},
		{name: "the last", rows: rowsOf("start 1000", "step 50000"), e: seen(0, 500, false), minute: 60, want: "3 step 100000"},
		{name: "all", rows: rowsOf("start 1000", "step 100000"), e: seen(0, 500, true), minute: 60, says: "all units get the new answer"},
		{name: "finished by a person", rows: rowsOf("start 1000", "finish 100000"), e: seen(0, 500, true), minute: 60, then: ThenBack, says: "all units get the new answer"},
		{name: "overtaken", rows: rowsOf("start 1000", "other start 1000"), e: seen(0, 500, true), minute: 60, then: ThenBack, says: "row 2 is of other definitions of the rollout"},
		{name: "taken up again", rows: rowsOf("start 1000", "other start 1000", "resume 1000"), e: seen(2, 500, false), minute: 60, want: "4 step 5000"},
		{name: "a clock set back", rows: rowsOf("start 1000"), e: seen(0, 5, true), minute: -30, want: "2 hold 1000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := ramp()
			p.Need, p.Then, p.Steps = 300, ThenHold, []int{1_000, 5_000, 25_000, 50_000, Whole}
			if c.then != "" {
				p.Then = c.then
			}
			before, evidence := slices.Clone(c.rows), fmt.Sprint(c.e)
			now := began.Add(time.Duration(c.minute)*time.Minute + 1234*time.Microsecond)
			row, says := p.Next(c.rows, c.e, c.failed, now)
			if row.short() != c.want || !strings.Contains(says, c.says) {
				t.Errorf("%q, %s; want %q, %s", row.short(), says, c.want, c.says)
			}
			if diff := cmp.Diff(before, c.rows); diff != "" || fmt.Sprint(c.e) != evidence {
				t.Errorf("the arguments are others: %s", diff)
			}
			if row == nil {
				return
			}
			at := now.Truncate(time.Millisecond)
			if n := len(c.rows); n > 0 && !at.After(c.rows[n-1].Time) {
				at = c.rows[n-1].Time.Add(time.Millisecond)
			}
			want := Row{Rollout: "remoteconfigs/button/colours", Number: row.Number, Time: at, Kind: row.Kind, Share: row.Share, Edition: "one", Why: says, Evidence: c.e}
			if row.Kind == Start {
				want.Evidence = nil
			}
			if diff := cmp.Diff(want, *row); diff != "" {
				t.Error(diff)
			}
			if again, _ := p.Next(append(c.rows, *row), c.e, nil, now); again != nil {
				t.Errorf("%q follows at once", again.short())
			}
		})
	}
}

// TestLastStep: a rollout whose steps end below 100 % waits for a person there.
func TestLastStep(t *testing.T) {
	p := ramp()
	if row, says := p.Next(rowsOf("start 1000", "step 50000"), seen(0, 500, false), nil, began.Add(time.Hour)); row != nil || says != "the last step is 50 %: a person finishes it or takes it back" {
		t.Errorf("%q, %s", row.short(), says)
	}
	if row, _ := p.Next(rowsOf("start 1000", "step 50000"), seen(0, 500, true), nil, began.Add(time.Hour)); row.short() != "3 back 0" {
		t.Errorf("%q in spite of harm", row.short())
	}
}

func TestStand(t *testing.T) {
	if s, ok := Stand(rowsOf("other start 1000"), "one"); ok {
		t.Errorf("%+v without a row", s)
	}
	for _, c := range []struct {
		rows      []Row
		state     State
		number    int64
		since     int // minute
		overtaken bool
	}{
		{rowsOf("start 1000"), Running, 1, 0, false},
		{rowsOf("other start 1000", "start 1000", "step 5000"), Running, 3, 1, false},
		{rowsOf("start 1000", "step 5000", "hold 5000"), Held, 3, 0, false},
		{rowsOf("start 1000", "hold 1000", "resume 1000", "step 5000"), Running, 4, 2, false},
		{rowsOf("start 1000", "back 0", "other start 1000"), Returned, 2, 0, true},
		{rowsOf("start 1000", "finish 100000"), Finished, 2, 0, false},
		{rowsOf("start 1000", "step 100000", "other back 0"), Finished, 2, 0, true},
		{rowsOf("start 1000", "finish 100000", "back 0"), Returned, 3, 0, false},
	} {
		s, ok := Stand(c.rows, "one")
		want := Standing{State: c.state, Row: c.rows[c.number-1], Since: began.Add(time.Duration(c.since) * time.Minute), Overtaken: c.overtaken}
		if diff := cmp.Diff(want, s); !ok || diff != "" {
			t.Errorf("%v %s", ok, diff)
		}
	}
}

// TestAnew: the row follows on those of others, also where the clock was set back.
func TestAnew(t *testing.T) {
	rows := rowsOf("start 1000", "other start 1000")
	row := ramp().Anew(rows, began)
	if row.short() != "3 start 1000" || row.Edition != "one" || !row.Time.Equal(rows[1].Time.Add(time.Millisecond)) {
		t.Errorf("%+v", row)
	}
}

func TestAsked(t *testing.T) {
	running, held, back := rowsOf("start 1000", "step 5000"), rowsOf("start 1000", "step 5000", "hold 5000"), rowsOf("start 1000", "step 5000", "back 0")
	finished, overtaken := rowsOf("start 1000", "finish 100000"), rowsOf("start 1000", "step 5000", "other start 1000")
	for _, c := range []struct {
		rows []Row
		kind Kind
		want string // the row, or the error
	}{
		{running, Hold, "3 hold 5000"},
		{running, Back, "3 back 0"},
		{running, Finish, "3 finish 100000"},
		{running, Resume, "the rollout is running: there is nothing to resume"},
		{held, Hold, "the rollout is held: there is nothing to hold"},
		{held, Back, "4 back 0"},
		{held, Finish, "4 finish 100000"},
		{held, Resume, "4 resume 5000"},
		{back, Hold, "the rollout is returned: there is nothing to hold"},
		{back, Back, "the rollout is returned: there is nothing to take back"},
		{back, Finish, "4 finish 100000"},
		{back, Resume, "4 resume 1000"},
		{finished, Hold, "the rollout is finished: there is nothing to hold"},
		{finished, Back, "3 back 0"},
		{finished, Finish, "the rollout is finished: there is nothing to finish"},
		{finished, Resume, "the rollout is finished: there is nothing to resume"},
		{overtaken, Resume, "4 resume 5000"},
		{overtaken, Back, "4 back 0"},
		{overtaken, Finish, "4 finish 100000"},
		{nil, Resume, "the rollout has not started: there is nothing to resume"},
		{rowsOf("other start 1000"), Back, "the rollout has not started: there is nothing to take back"},
		{running, Step, "a rollout can't be asked to step"},
		{nil, Start, "a rollout can't be asked to start"},
	} {
		row, err := ramp().Asked(c.rows, c.kind, "sophie", began.Add(time.Hour))
		if got := row.short(); got != c.want && (err == nil || err.Error() != c.want) {
			t.Errorf("%s: %q, %v; want %s", c.kind, got, err, c.want)
		}
		if row != nil && (row.By != "sophie" || row.Why == "" || row.Edition != "one" || row.Evidence != nil || !row.Time.Equal(began.Add(time.Hour))) {
			t.Errorf("%s: %+v", c.kind, row)
		}
	}
}

// TestAnyRows: of whatever evidence, edits and persons, at whatever times, the share of New
// never falls but by Back or the Start of another edition, no step is taken before its time
// or by less than it needs, and the numbers have no gaps.
func TestAnyRows(t *testing.T) {
	for run := range runs(20_000, 2_000) {
		r := rand.New(rand.NewPCG(7, uint64(run)))
		var plans []*Plan
		for i := range 2 {
			p := ramp()
			p.Edition, p.Every, p.Need = fmt.Sprint(i), time.Duration(1+r.IntN(30))*time.Minute, r.Int64N(500)
			p.Steps = [][]int{{1_000, 5_000, Whole}, {2_000, 50_000}, {100, 1_000, 2_000, 25_000}, {Whole}}[r.IntN(4)]
			p.Then = []Then{ThenHold, ThenBack}[r.IntN(2)]
			plans = append(plans, p)
		}
		var rows []Row
		now := began
		for range 60 {
			now = now.Add(time.Duration(r.IntN(20)-1) * time.Minute) // clocks of gateways differ
			p := plans[r.IntN(2)]
			s, started := Stand(rows, p.Edition)
			var e *Evidence
			if r.IntN(5) > 0 {
				e = seen(0, r.Int64N(1_000), r.IntN(10) == 0)
				if e.Since = s.Since; r.IntN(10) == 0 {
					e.Since = began.Add(-time.Hour)
				}
				e.Mismatch = r.IntN(10) == 0
				if r.IntN(10) == 0 {
					e.Guards[0].New = nil
				}
			}
			row, says := p.Next(rows, e, nil, now)
			person := r.IntN(8) == 0
			if person {
				var err error
				row, err = p.Asked(rows, []Kind{Hold, Back, Resume, Finish}[r.IntN(4)], "sophie", now)
				says = fmt.Sprint(err)
			}
			if says == "" {
				t.Fatalf("run %d: nothing said by %v", run, rows)
			}
			if row == nil {
				continue
			}
			fail := func(what string) { t.Fatalf("run %d: %s: %+v by %+v after %+v", run, what, *row, e, s) }
			if row.Number != int64(len(rows)+1) {
				fail("a gap")
			}
			if len(rows) > 0 && !row.Time.After(rows[len(rows)-1].Time) {
				fail("a time before another")
			}
			if started == (row.Kind == Start) {
				fail("a start of what has started, or another row of what has not")
			}
			if started && s.Overtaken && !person {
				fail("a row of what is overtaken")
			}
			if started && row.Share < s.Row.Share && row.Kind != Back {
				fail("a lower share")
			}
			known := e != nil && e.Since.Equal(s.Since)
			switch row.Kind {
			case Step:
				if now.Before(s.Row.Time.Add(p.Every)) || !known || e.Units < p.Need || e.Mismatch || e.Harm() || e.Guards[0].New == nil || s.State != Running || row.Share <= s.Row.Share || !slices.Contains(p.Steps, row.Share) {
					fail("a step too early")
				}
			case Hold, Back:
				if !person && (!known || !e.Harm() || s.Row.Share == 0 || s.Row.Share == Whole) {
					fail("stopped without harm")
				}
			}
			if known && e.Harm() && s.State == Running && !s.Overtaken && !person && row.Kind == Step {
				fail("a step in spite of harm")
			}
			rows = append(rows, *row)
		}
	}
}
