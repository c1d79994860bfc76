package limit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// noon is the time at which the tests begin.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func opened(t testing.TB, o Options) *Limiter {
	t.Helper()
	l := Open(o)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func limitOf(name string, ceilings ...Ceiling) *Limit { return &Limit{Name: name, Ceilings: ceilings} }

// used returns the use of a ceiling by a subject, as "used+reserved".
func used(l *Limiter, at time.Time, ask Ask, ceiling int) string {
	s := l.AppendStandings(nil, "w", at, ask)[ceiling]
	return fmt.Sprintf("%d+%d", s.Used, s.Reserved)
}

// shareOf returns the largest share of a limit's ceilings, in percent.
func shareOf(l *Limiter, workspace string, at time.Time, ask Ask) (share int) {
	for _, s := range l.AppendStandings(nil, workspace, at, ask) {
		share = max(share, s.Share())
	}
	return share
}

func mustReserve(t testing.TB, l *Limiter, at time.Time, want Amounts, asks ...Ask) *Reservation {
	t.Helper()
	r, refusal := l.Reserve("w", at, asks, want)
	if refusal != nil {
		t.Fatalf("refused: %+v", refusal)
	}
	return r
}

func mustRefuse(t testing.TB, l *Limiter, at time.Time, want Amounts, asks ...Ask) *Refusal {
	t.Helper()
	r, refusal := l.Reserve("w", at, asks, want)
	if refusal == nil || r != nil {
		t.Fatal("there is room")
	}
	return refusal
}

// With 99 percent used, a thousand calls come at once: exactly as many pass as fit.
func TestParallelCallsNeverExceedACeiling(t *testing.T) {
	limit := limitOf("budget", Ceiling{Money, 1000 * Dollar, Window{time.Hour}}, Ceiling{Requests, 5000, Month})
	ask := Ask{limit, "ada"}
	var crossed atomic.Int64
	l := opened(t, Options{Crossed: func(string, Standing, int) { crossed.Add(1) }})
	mustReserve(t, l, noon, Amounts{1, 0, 990 * Dollar}, ask).Settle(noon, Amounts{1, 0, 990 * Dollar})
	var peak atomic.Int64
	var wait, start sync.WaitGroup
	start.Add(1)
	for range 1000 {
		wait.Go(func() {
			start.Wait()
			r, refusal := l.Reserve("w", noon, []Ask{ask}, Amounts{1, 0, Dollar / 2})
			if refusal == nil {
				r.More(noon, Amounts{0, 0, Dollar / 2})
			}
			s := l.AppendStandings(nil, "w", noon, ask)[0]
			for old := peak.Load(); s.Used+s.Reserved > old && !peak.CompareAndSwap(old, s.Used+s.Reserved); {
				old = peak.Load()
			}
			r.Settle(noon, Amounts{1, 0, Dollar / 2})
		})
	}
	start.Done()
	wait.Wait()
	if peak.Load() > 1000*Dollar {
		t.Errorf("%d of 1000 dollars were used or set aside", peak.Load())
	}
	// The scheduler may stop calls while they have amounts set aside. Then other calls are
	// refused, and the ceiling is not full at the end.
	for {
		r, refusal := l.Reserve("w", noon, []Ask{ask}, Amounts{1, 0, Dollar / 2})
		if refusal != nil {
			break
		}
		r.Settle(noon, Amounts{1, 0, Dollar / 2})
	}
	if got := used(l, noon, ask, 0); got != "1000000000000+0" {
		t.Errorf("%s: calls were refused that had room", got)
	}
	if crossed.Load() != 2 {
		t.Errorf("%d levels were crossed, want 80 and 100 percent", crossed.Load())
	}
	if l.Stats().Exceeded != 0 {
		t.Error("a ceiling was exceeded")
	}
}

func TestAllAsksAreTakenOrNone(t *testing.T) {
	l := opened(t, Options{})
	wide, narrow := limitOf("wide", Ceiling{Requests, 10, Window{time.Minute}}), limitOf("narrow", Ceiling{Tokens, 10, Window{time.Minute}}, Ceiling{InFlight, 1, Window{}})
	asks := []Ask{{wide, "a"}, {narrow, "b"}}
	refusal := mustRefuse(t, l, noon, Amounts{1, 11, 0}, asks...)
	if !refusal.Never || refusal.RetryAfter != 0 || refusal.Limit != narrow || refusal.Subject != "b" || refusal.Ceiling != narrow.Ceilings[0] {
		t.Errorf("%+v", refusal)
	}
	r := mustReserve(t, l, noon, Amounts{1, 6, 0}, asks...)
	if refusal := mustRefuse(t, l, noon, Amounts{1, 1, 0}, asks...); refusal.Ceiling.Measure != InFlight || refusal.Never || refusal.RetryAfter != 0 {
		t.Errorf("%+v", refusal)
	}
	if r.More(noon, Amounts{0, 5, 0}) || !r.More(noon, Amounts{0, 4, 0}) {
		t.Error("more is not what is left")
	}
	r.Return(Amounts{0, 3, 0})
	if got := used(l, noon, asks[1], 0); got != "0+7" {
		t.Error(got)
	}
	r.Settle(noon, Amounts{1, 9, 0})
	for i, want := range []string{"1+0", "9+0"} {
		if got := used(l, noon, asks[i], 0); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if got := used(l, noon, asks[1], 1); got != "0+0" {
		t.Errorf("%s in flight", got)
	}
	// The refusal names the ceiling that stays full longest. An amount that is only set
	// aside may be free at any time.
	r = mustReserve(t, l, noon, Amounts{}, asks...)
	if refusal := mustRefuse(t, l, noon.Add(15*time.Second), Amounts{1, 2, 0}, asks...); refusal.RetryAfter != 45*time.Second {
		t.Errorf("%+v", refusal)
	}
	r.Settle(noon, Amounts{})
	held := mustReserve(t, l, noon, Amounts{0, 1, 0}, Ask{narrow, "b"})
	other := limitOf("narrow", narrow.Ceilings[0])
	if refusal := mustRefuse(t, l, noon, Amounts{0, 1, 0}, Ask{other, "b"}); refusal.RetryAfter != 0 || refusal.Never {
		t.Errorf("%+v", refusal)
	}
	held.Settle(noon, Amounts{})
}

// A call that needs nothing of a measure is not refused for it, however full it is.
func TestNothingHasAlwaysRoom(t *testing.T) {
	l := opened(t, Options{})
	ask := Ask{limitOf("tokens", Ceiling{Tokens, 10, Window{time.Minute}}), ""}
	mustReserve(t, l, noon, Amounts{1, 10, 0}, ask).Settle(noon, Amounts{1, 25, 0})
	if s := l.Stats(); s.Exceeded != 1 {
		t.Errorf("%+v", s)
	}
	mustReserve(t, l, noon, Amounts{1, 0, 7}, ask).Settle(noon, Amounts{1, -5, 7})
	mustRefuse(t, l, noon, Amounts{1, 1, 0}, ask)
	if share := shareOf(l, "w", noon, ask); share != 250 {
		t.Errorf("%d %%", share)
	}
	mustReserve(t, l, noon, Amounts{}).Settle(noon, Amounts{})
	var r *Reservation
	r.Settle(noon, Amounts{})
	r.Return(Amounts{})
	if !r.More(noon, Amounts{1, 1, 1}) {
		t.Error("no limit refuses")
	}
}

func TestOneSubjectCountsOnce(t *testing.T) {
	l := opened(t, Options{})
	limit := limitOf("twice", Ceiling{Requests, 10, Window{time.Minute}}, Ceiling{Requests, 8, Window{time.Minute}})
	ask := Ask{limit, "a"}
	r := mustReserve(t, l, noon, Amounts{3, 0, 0}, ask, Ask{limit, "b"}, ask)
	if got := used(l, noon, ask, 1); got != "0+3" {
		t.Error(got)
	}
	mustRefuse(t, l, noon, Amounts{6, 0, 0}, ask)
	r.Settle(noon, Amounts{2, 0, 0})
	if got := used(l, noon, ask, 0); got != "2+0" {
		t.Error(got)
	}
}

func TestWindows(t *testing.T) {
	for _, test := range []struct {
		window           Window
		now, start, ends string
	}{
		{Window{time.Minute}, "2026-11-23T12:34:56.7Z", "2026-11-23T12:34:00Z", "2026-11-23T12:35:00Z"},
		{Window{time.Minute}, "2026-11-23T12:34:00Z", "2026-11-23T12:34:00Z", "2026-11-23T12:35:00Z"},
		{Window{24 * time.Hour}, "2026-11-23T12:34:56Z", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z"},
		{Window{time.Hour}, "1969-12-31T23:30:00Z", "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z"},
		{Month, "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{Month, "2026-12-01T00:30:00+02:00", "2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"},
		{Month, "2026-12-15T00:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
	} {
		l := opened(t, Options{})
		ask := Ask{limitOf("l", Ceiling{Requests, 1, test.window}), "a"}
		now, err := time.Parse(time.RFC3339, test.now)
		if err != nil {
			t.Fatal(err)
		}
		mustReserve(t, l, now, Amounts{1, 0, 0}, ask).Settle(now, Amounts{1, 0, 0})
		s := l.AppendStandings(nil, "w", now, ask)[0]
		if got := s.Resets.UTC().Format(time.RFC3339); got != test.ends {
			t.Errorf("%v at %s ends %s, want %s", test.window, test.now, got, test.ends)
		}
		if refusal := mustRefuse(t, l, now, Amounts{1, 0, 0}, ask); refusal.RetryAfter != s.Resets.Sub(now) {
			t.Errorf("%v at %s: try again in %s", test.window, test.now, refusal.RetryAfter)
		}
		start, err := time.Parse(time.RFC3339, test.start)
		if err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, l, start, Amounts{1, 0, 0}, ask)
		mustReserve(t, l, s.Resets, Amounts{1, 0, 0}, ask).Settle(now, Amounts{})
		if got := used(l, s.Resets.Add(-1), ask, 0); got != "0+0" {
			t.Errorf("%v: %s, and the later window has nothing", test.window, got)
		}
	}
}

// A call that ends in a later window counts in its first window. If it sets more aside in
// a later window, that part counts there.
func TestCallsCountWhereTheyReserve(t *testing.T) {
	l := opened(t, Options{})
	ask := Ask{limitOf("l", Ceiling{Tokens, 100, Window{time.Minute}}), "a"}
	first := mustReserve(t, l, noon, Amounts{1, 90, 0}, ask)
	second := mustReserve(t, l, noon, Amounts{1, 10, 0}, ask)
	later := noon.Add(time.Minute)
	mustReserve(t, l, later, Amounts{1, 30, 0}, ask).Settle(later, Amounts{1, 30, 0})
	first.Settle(later, Amounts{1, 90, 0})
	if got := used(l, later, ask, 0); got != "30+0" {
		t.Error(got)
	}
	if second.More(later, Amounts{0, 71, 0}) || !second.More(later, Amounts{0, 70, 0}) {
		t.Error("the window of an attempt is the one in which it is made")
	}
	second.Settle(later, Amounts{1, 60, 0})
	if got := used(l, later, ask, 0); got != "90+0" {
		t.Error(got)
	}
	third := mustReserve(t, l, later, Amounts{1, 5, 0}, ask)
	third.Return(Amounts{0, 9, 0})
	third.Settle(later.Add(time.Minute), Amounts{1, 3, 0})
	if got := used(l, later, ask, 0); got != "93+0" {
		t.Errorf("%s: no other call began the next window", got)
	}
}

func TestClockThatIsSetBack(t *testing.T) {
	l := opened(t, Options{})
	ask := Ask{limitOf("l", Ceiling{Requests, 2, Window{time.Minute}}), "a"}
	open := mustReserve(t, l, noon, Amounts{1, 0, 0}, ask)
	mustReserve(t, l, noon, Amounts{1, 0, 0}, ask).Settle(noon, Amounts{1, 0, 0})
	for _, back := range []time.Duration{time.Nanosecond, time.Minute} {
		at := noon.Add(-back)
		if refusal := mustRefuse(t, l, at, Amounts{1, 0, 0}, ask); refusal.RetryAfter != 0 && refusal.RetryAfter != time.Minute+back {
			t.Errorf("%s back: try again in %s", back, refusal.RetryAfter)
		}
		if got := used(l, at, ask, 0); got != "1+1" {
			t.Errorf("%s back: %s", back, got)
		}
	}
	// The clock was years ahead. The used amount now counts in the correct window.
	long := noon.AddDate(-3, 0, 0)
	mustRefuse(t, l, long, Amounts{1, 0, 0}, ask)
	if got := used(l, long, ask, 0); got != "2+0" {
		t.Error(got)
	}
	open.Settle(long, Amounts{})
	if got := used(l, long, ask, 0); got != "2+0" {
		t.Error(got)
	}
	mustReserve(t, l, long.Add(time.Minute), Amounts{2, 0, 0}, ask).Settle(long.Add(time.Minute), Amounts{2, 0, 0})
	if got := used(l, noon.Add(-time.Hour), ask, 0); got != "0+0" {
		t.Error(got)
	}
}

// After a change of the configuration, the counts stay.
func TestConfigurationChanges(t *testing.T) {
	l := opened(t, Options{})
	ask := func(ceilings ...Ceiling) Ask { return Ask{limitOf("l", ceilings...), "a"} }
	hour := Window{time.Hour}
	open := mustReserve(t, l, noon, Amounts{1, 40, 0}, ask(Ceiling{Tokens, 100, hour}))
	mustReserve(t, l, noon, Amounts{1, 50, 0}, ask(Ceiling{Tokens, 100, hour})).Settle(noon, Amounts{1, 50, 0})
	for name, test := range map[string]struct {
		ask  Ask
		fits int64
	}{
		"the same":        {ask(Ceiling{Tokens, 100, hour}), 10},
		"raised":          {ask(Ceiling{Tokens, 200, hour}), 110},
		"lowered":         {ask(Ceiling{Tokens, 60, hour}), 0},
		"one more":        {ask(Ceiling{Tokens, 100, hour}, Ceiling{Requests, 1, hour}), 10},
		"a longer window": {ask(Ceiling{Tokens, 200, Window{24 * time.Hour}}), 110},
		"a month":         {ask(Ceiling{Tokens, 95, Month}), 5},
		"a shorter one":   {ask(Ceiling{Tokens, 30, Window{time.Minute}}), 30},
	} {
		if test.fits > 0 {
			mustReserve(t, l, noon, Amounts{0, test.fits, 0}, test.ask).Settle(noon, Amounts{})
		}
		mustRefuse(t, l, noon, Amounts{0, test.fits + 1, 0}, test.ask)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	open.Settle(noon, Amounts{0, 10, 0})
	if got := used(l, noon, ask(Ceiling{Tokens, 100, hour}), 0); got != "60+0" {
		t.Error(got)
	}
}

func TestCrossed(t *testing.T) {
	var reported []string
	var l *Limiter
	ask := Ask{limitOf("l", Ceiling{Money, 100, Window{time.Hour}}, Ceiling{Money, 1000, Month}, Ceiling{InFlight, 1, Window{}}), "a"}
	l = opened(t, Options{Crossed: func(workspace string, at Standing, percent int) {
		shareOf(l, workspace, noon, at.Ask) // no lock is held
		reported = append(reported, fmt.Sprintf("%s %s %s %d: %d of %d", workspace, at.Limit.Name, at.Subject, percent, at.Used, at.Ceiling.Most))
	}})
	spend := func(at time.Time, reserve, used int64, want ...string) {
		t.Helper()
		reported = nil
		mustReserve(t, l, at, Amounts{1, 0, reserve}, ask).Settle(at, Amounts{1, 0, used})
		if !slices.Equal(reported, want) {
			t.Errorf("%q, want %q", reported, want)
		}
	}
	spend(noon, 100, 30) // the amount set aside does not count
	mustRefuse(t, l, noon, Amounts{1, 0, 71}, Ask{limitOf("l", ask.Limit.Ceilings...), "b"}, ask)
	if want := []string{"w l a 100: 30 of 100"}; !slices.Equal(reported, want) {
		t.Errorf("%q, want %q", reported, want)
	}
	spend(noon, 49, 49)
	spend(noon, 1, 1, "w l a 80: 80 of 100")
	spend(noon, 15, 15)
	reported = nil
	mustRefuse(t, l, noon, Amounts{1, 0, 101}, ask)
	if len(reported) > 0 {
		t.Errorf("%q of a call that never has room", reported)
	}
	// With a ceiling of zero calls in flight, no call ever passes.
	for ceiling, never := range map[int64]bool{0: true, 1: false} {
		full := Ask{limitOf("none", Ceiling{Measure: InFlight, Most: ceiling}), "a"}
		if ceiling > 0 {
			defer mustReserve(t, l, noon, Amounts{}, full).Settle(noon, Amounts{})
		}
		if _, refusal := l.Reserve("w", noon, []Ask{full}, Amounts{}); refusal == nil || refusal.Never != never {
			t.Errorf("of %d in flight: %+v, want never %v", ceiling, refusal, never)
		}
	}
	mustRefuse(t, l, noon, Amounts{1, 0, 6}, ask)
	if len(reported) > 0 {
		t.Errorf("%q a second time", reported)
	}
	spend(noon, 5, 5)
	spend(noon.Add(time.Hour), 1, 100, "w l a 80: 100 of 100", "w l a 100: 100 of 100")
}

func TestSubjects(t *testing.T) {
	l := opened(t, Options{})
	limit := limitOf("l", Ceiling{Requests, 1000, Window{time.Hour}}, Ceiling{InFlight, 4, Window{}})
	other := limitOf("other", Ceiling{Requests, 1, Window{time.Hour}})
	for i := range 500 {
		mustReserve(t, l, noon, Amounts{int64(i), 0, 0}, Ask{limit, fmt.Sprint("s", i)}).Settle(noon, Amounts{int64(i), 0, 0})
		mustReserve(t, l, noon, Amounts{1, 0, 0}, Ask{other, fmt.Sprint("s", i)}).Settle(noon, Amounts{1, 0, 0})
	}
	for range 3 {
		defer mustReserve(t, l, noon, Amounts{}, Ask{limit, "s7"}).Settle(noon, Amounts{})
	}
	var got []string
	for _, s := range l.Subjects("w", noon, limit, 4) {
		got = append(got, fmt.Sprintf("%s %d%% of %d", s.Subject, s.Share(), s.Ceiling.Most))
	}
	if want := []string{"s7 75% of 4", "s499 49% of 1000", "s498 49% of 1000", "s497 49% of 1000"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := len(l.Subjects("w", noon, limit, 1000)); got != 499 {
		t.Errorf("%d subjects, want those that use anything", got)
	}
	if len(l.Subjects("w", noon.Add(time.Hour), other, 9)) != 0 || len(l.Subjects("v", noon, other, 9)) != 0 || len(l.Subjects("w", noon, other, 0)) != 0 {
		t.Error("subjects that have used nothing, or not been asked for")
	}
	if share := shareOf(l, "v", noon, Ask{other, "s1"}); share != 0 {
		t.Errorf("another workspace has %d %%", share)
	}
	if share := shareOf(l, "w", noon, Ask{other, "s1"}); share != 100 {
		t.Errorf("%d %%", share)
	}
}

// A limit with many subjects reuses its list of the fullest for a while.
func TestManySubjects(t *testing.T) {
	l := opened(t, Options{})
	limit := limitOf("l", Ceiling{Requests, 10, Month})
	spend := func(subject string, amount int64) {
		mustReserve(t, l, noon, Amounts{amount, 0, 0}, Ask{limit, subject}).Settle(noon, Amounts{amount, 0, 0})
	}
	for i := range manySubjects {
		spend(fmt.Sprint("s", i), 1)
	}
	first := l.Subjects("w", noon, limit, 2)
	l.book("w", "l", false).ranking.until = time.Now().Add(time.Hour)
	spend("another", 5)
	if got := l.Subjects("w", noon, limit, 2); !slices.Equal(got, first) || len(got) != 2 {
		t.Errorf("%+v, and before %+v", got, first)
	}
	if got := l.Subjects("w", noon, limit, 1); !slices.Equal(got, first[:1]) {
		t.Errorf("%+v, and before %+v", got, first)
	}
	if got := l.Subjects("w", noon, limit, 3); len(got) != 3 || got[0].Subject != "another" {
		t.Errorf("%+v: it has to look for more", got)
	}
	if got := l.Subjects("w", noon, limitOf("l", limit.Ceilings...), 1); len(got) != 1 || got[0].Subject != "another" {
		t.Errorf("%+v is of another configuration", got)
	}
	spend("last", 7)
	l.book("w", "l", false).ranking.until = time.Time{}
	if got := l.Subjects("w", noon, limit, 2); len(got) != 2 || got[0].Subject != "last" {
		t.Errorf("%+v: nothing is remembered for ever", got)
	}
}

// Too many invented subjects share one counter, and no limit takes the memory of another.
func TestSubjectsAreBounded(t *testing.T) {
	l := opened(t, Options{MaxMemory: 100 * (accountBytes + cellBytes + 12)})
	limit, other := limitOf("l", Ceiling{Requests, 1, Window{time.Hour}}), limitOf("other", Ceiling{Requests, 1, Window{time.Hour}})
	mustReserve(t, l, noon, Amounts{1, 0, 0}, Ask{other, "first"}).Settle(noon, Amounts{1, 0, 0})
	refused := 0
	for i := range 1000 {
		r, refusal := l.Reserve("w", noon, []Ask{{limit, fmt.Sprintf("made-up-%04d", i)}}, Amounts{1, 0, 0})
		if refusal != nil {
			refused++
		}
		r.Settle(noon, Amounts{1, 0, 0})
	}
	// The limit has 75 subjects and one for the others; the other limit has one.
	if s := l.Stats(); s.Subjects != 77 || refused != 924 || s.Shared != 925 {
		t.Errorf("%d refused, %+v", refused, s)
	}
	if share := shareOf(l, "w", noon, Ask{limit, "another"}); share != 100 {
		t.Errorf("a subject without room has %d %%", share)
	}
	for i := range 24 {
		mustReserve(t, l, noon, Amounts{1, 0, 0}, Ask{other, fmt.Sprint("s", i)}).Settle(noon, Amounts{1, 0, 0})
	}
	// The windows have ended: new subjects replace the old ones.
	later := noon.Add(time.Hour)
	for i := range 1000 {
		r, _ := l.Reserve("w", later.Add(time.Duration(i)*time.Hour), []Ask{{limit, fmt.Sprint("later-", i)}}, Amounts{1, 0, 0})
		if r == nil {
			continue
		}
		r.Settle(later, Amounts{1, 0, 0})
	}
	if s := l.Stats(); s.Subjects > 102 || s.Shared > 1000 {
		t.Errorf("%+v", s)
	}
	if got := shareOf(l, "w", later.Add(999*time.Hour), Ask{limit, "later-999"}); got != 100 {
		t.Errorf("%d %%: the last one was not counted", got)
	}
}

func TestLongSubjects(t *testing.T) {
	l := opened(t, Options{})
	limit := limitOf("l", Ceiling{Requests, 1, Window{time.Hour}})
	long := strings.Repeat("é", 10_000)
	mustReserve(t, l, noon, Amounts{1, 0, 0}, Ask{limit, long + "1"}).Settle(noon, Amounts{1, 0, 0})
	mustReserve(t, l, noon, Amounts{1, 0, 0}, Ask{limit, long + "2"}).Settle(noon, Amounts{1, 0, 0})
	if refusal := mustRefuse(t, l, noon, Amounts{1, 0, 0}, Ask{limit, long + "2"}); refusal.Subject != long+"2" {
		t.Error("the refusal has another subject")
	}
	for _, s := range l.Subjects("w", noon, limit, 9) {
		if len(s.Subject) > longest || strings.ToValidUTF8(s.Subject, "") != s.Subject {
			t.Errorf("%q", s.Subject)
		}
	}
}

// Sums stop at math.MaxInt64. They do not overflow, which would give a new budget.
func TestLargeAmounts(t *testing.T) {
	l := opened(t, Options{})
	ask := Ask{limitOf("l", Ceiling{Tokens, math.MaxInt64, Window{time.Hour}}, Ceiling{Tokens, 5, Month}), "a"}
	open := limitOf("l", Ceiling{Tokens, math.MaxInt64, Window{time.Hour}})
	mustReserve(t, l, noon, Amounts{}, ask).Settle(noon, Amounts{0, math.MaxInt64 - 1, 0})
	mustRefuse(t, l, noon, Amounts{0, 2, 0}, Ask{open, "a"})
	mustReserve(t, l, noon, Amounts{}, ask).Settle(noon, Amounts{0, math.MaxInt64, 0})
	if share := shareOf(l, "w", noon, ask); share != math.MaxInt32 {
		t.Errorf("%d %%", share)
	}
	if got := l.Subjects("w", noon, ask.Limit, 1); len(got) != 1 || got[0].Ceiling.Most != 5 {
		t.Errorf("%+v", got)
	}
	zero := Ask{limitOf("zero", Ceiling{Money, 0, Month}), "a"}
	if refusal := mustRefuse(t, l, noon, Amounts{0, 0, 1}, zero); !refusal.Never {
		t.Errorf("%+v", refusal)
	}
	if share := shareOf(l, "w", noon, zero); share != 100 {
		t.Errorf("a ceiling of nothing has %d %%", share)
	}
}
