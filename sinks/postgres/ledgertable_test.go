package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
	"github.com/cadenza-gateway/cadenza/sinks/postgres"
)

// TestLedger runs the tests that do no harm to their server on the same one, each in its
// own database.
func TestLedger(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, dsn string)
	}{
		{"Cleaning", testLedgerCleaning},
		{"ManyToClean", testLedgerManyToClean},
		{"Overflow", testLedgerOverflow},
		{"Apart", testLedgersApart},
		{"Doubt", testLedgerDoubt},
		{"Answers", testLedgerAnswers},
		{"Subjects", testLedgerSubjects},
		{"Again", testLedgerAgain},
		{"AgainAtTheSameTime", testLedgerAgainAtTheSameTime},
		{"Modes", testLedgerModes},
		{"ForgottenCounters", testLedgerForgottenCounters},
	} {
		dsn := server.NewDatabase("Ledger" + test.name)
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, dsn)
		})
	}
}

// claimOf is a claim of requests in an hour that ends so long from now.
func claimOf(name string, ends time.Duration) limit.Claim {
	end := time.Now().Add(ends).Truncate(time.Second)
	return limit.Claim{Limit: name, Window: limit.Window{Length: time.Hour}, Start: end.Add(-time.Hour), End: end, Most: 1000, Least: 1, Lease: 50}
}

var number atomic.Int64

// nextID returns the id of another exchange.
func nextID() limit.ExchangeID {
	return limit.ExchangeID{Process: "test", Number: number.Add(1)}
}

// exchange books claims, which must succeed.
func exchange(t testing.TB, l limit.Ledger, claims ...limit.Claim) []limit.Answer {
	t.Helper()
	answers, err := l.Exchange(t.Context(), nextID(), claims)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func closeLedger(t testing.TB, l limit.Ledger) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// A gateway deletes the counters of windows that ended an hour ago, when it comes and
// once a minute, and no others.
func testLedgerCleaning(t *testing.T, dsn string) {
	first, second := openLedger(t, dsn), openLedger(t, dsn)
	defer closeLedger(t, first)
	defer closeLedger(t, second)
	now := claimOf("now", time.Hour)
	exchange(t, first, claimOf("old", -61*time.Minute), claimOf("late", -59*time.Minute), now)
	names := func() (names string) {
		queryRow(t, dsn, "SELECT string_agg(limit_name, ' ' ORDER BY limit_name) FROM cadenza.limit_windows", &names)
		return names
	}
	if got := names(); got != "late now old" {
		t.Errorf("%s are there", got)
	}
	exchange(t, second, now)
	if got := names(); got != "late now" {
		t.Errorf("%s are there after another gateway came", got)
	}
	exchange(t, first, claimOf("old", -61*time.Minute))
	exchange(t, first, now)
	if got := names(); got != "late now old" {
		t.Errorf("%s are there: a gateway has cleaned again within a minute", got)
	}
}

// However many windows end, the table does not grow for that: a gateway that has deleted
// as many as it does at a time goes on with its next exchange.
func testLedgerManyToClean(t *testing.T, dsn string) {
	ledger := openLedger(t, dsn)
	defer closeLedger(t, ledger)
	now := claimOf("now", time.Hour)
	exchange(t, ledger, now)
	exec(t, dsn, `INSERT INTO cadenza.limit_windows (workspace, limit_name, subject, measure, window_start, window_end, taken, used)
		SELECT 'w', 'l', 'subject ' || n, 'requests', now() - interval '3 hours', now() - interval '2 hours', 1, 1 FROM generate_series(1, 5000) n`)
	another := openLedger(t, dsn)
	defer closeLedger(t, another)
	var left []int64
	for range 3 {
		exchange(t, another, now)
		left = append(left, count(t, dsn, "SELECT count(*) FROM cadenza.limit_windows"))
	}
	if left[0] != 3001 || left[1] != 1001 || left[2] != 1 {
		t.Errorf("%v counters are left after each exchange", left)
	}
}

// A provider that names mad costs fills the counters that they count in, and no more: the
// others are shared as before.
func testLedgerOverflow(t *testing.T, dsn string) {
	ledger := openLedger(t, dsn)
	defer closeLedger(t, ledger)
	mad := claimOf("mad", time.Hour)
	mad.Owed, mad.Used = math.MaxInt64-10, math.MaxInt64-10
	for range 3 {
		answers := exchange(t, ledger, mad, claimOf("now", time.Hour))
		if a := answers[0]; a.Granted != 0 || a.Taken < math.MaxInt64-10 || a.Used < math.MaxInt64-10 {
			t.Errorf("%+v", a)
		}
		if answers[1].Granted != 50 {
			t.Errorf("%+v: the other counter has room", answers[1])
		}
	}
	mad.Owed, mad.Used, mad.Back = 0, -math.MaxInt64, math.MaxInt64
	if a := exchange(t, ledger, mad)[0]; a.Granted != 50 || a.Taken != 50 || a.Used != 0 {
		t.Errorf("%+v after all was returned", a)
	}
}

// Two fleets with a database share nothing where their schemas differ, or the names of
// their workspaces or limits.
func testLedgersApart(t *testing.T, dsn string) {
	open := func(schema, workspace string) limit.Ledger {
		sink, err := postgres.New(postgres.Config{DSN: func() (string, error) { return dsn, nil }, Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		return sink.Ledger(workspace)
	}
	full := claimOf("l", time.Hour)
	full.Owed = full.Most
	for _, test := range []struct{ schema, workspace, limit string }{{"one", "w", "l"}, {"two", "w", "l"}, {"one", "other", "l"}, {"one", "w", "other"}} {
		ledger := open(test.schema, test.workspace)
		full.Limit = test.limit
		if a := exchange(t, ledger, full)[0]; a.Taken != full.Most {
			t.Errorf("%+v: %d are taken, want what it took alone", test, a.Taken)
		}
		closeLedger(t, ledger)
	}
	ledger := open("one", "w")
	defer closeLedger(t, ledger)
	full.Limit, full.Owed = "l", 0
	if a := exchange(t, ledger, full)[0]; a.Granted != 0 || a.Taken != 1000 {
		t.Errorf("%+v: another gateway of the fleet took it", a)
	}
}

// Only an exchange whose answer was lost is in doubt. One that the server refused, or
// that never reached it, was not booked.
func testLedgerDoubt(t *testing.T, dsn string) {
	ledger := openLedger(t, dsn)
	defer closeLedger(t, ledger)
	exchange(t, ledger, claimOf("now", time.Hour))

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE cadenza.limit_windows"); err != nil {
		t.Fatal(err)
	}
	// It can't end before its time: the other transaction has the table.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := ledger.Exchange(ctx, nextID(), []limit.Claim{claimOf("now", time.Hour)}); !errors.Is(err, limit.ErrInDoubt) {
		t.Errorf("%v: want a doubt", err)
	}
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}

	exchange(t, ledger, claimOf("now", time.Hour)) // it is there again
	exec(t, dsn, "ALTER TABLE cadenza.limit_windows RENAME TO gone")
	if _, err := ledger.Exchange(t.Context(), nextID(), []limit.Claim{claimOf("now", time.Hour)}); err == nil || errors.Is(err, limit.ErrInDoubt) {
		t.Errorf("%v: want a refusal", err)
	}
	exec(t, dsn, "ALTER TABLE cadenza.gone RENAME TO limit_windows")

	away := openLedger(t, "postgres://nobody@127.0.0.1:1/none?connect_timeout=1")
	defer closeLedger(t, away)
	if _, err := away.Exchange(t.Context(), nextID(), []limit.Claim{claimOf("now", time.Hour)}); err == nil || errors.Is(err, limit.ErrInDoubt) {
		t.Errorf("%v: want a failure", err)
	}
}

// The statement does what limit.Claim says, and answers in the order of the claims.
func testLedgerAnswers(t *testing.T, dsn string) {
	ledger := openLedger(t, dsn)
	defer closeLedger(t, ledger)
	claim := func(n int, taken, least, back, owed int64) limit.Claim {
		c := claimOf(fmt.Sprint("limit ", 9-n), time.Hour) // their keys have another order
		c.Least, c.Back, c.Owed = least, back, owed
		first := c
		first.Owed, first.Back, first.Least = taken, 0, 0
		exchange(t, ledger, first)
		return c
	}
	cases := []struct{ taken, least, back, owed int64 }{
		{0, 1, 0, 0}, {600, 1, 0, 0}, {800, 1, 0, 0}, {992, 1, 0, 0}, {800, 60, 0, 0}, {990, 60, 0, 0},
		{1000, 60, 0, 0}, {900, 60, 0, 200}, {900, 0, 300, 0}, {100, 1, 300, 20},
	}
	var claims []limit.Claim
	for i, c := range cases {
		claims = append(claims, claim(i, c.taken, c.least, c.back, c.owed))
	}
	for i, got := range exchange(t, ledger, claims...) {
		before := max(cases[i].taken-cases[i].back, 0) + cases[i].owed
		granted := claims[i].Grant(before)
		if want := (limit.Answer{Granted: granted, Taken: before + granted}); got != want {
			t.Errorf("%+v: %+v, want %+v", cases[i], got, want)
		}
	}
}

// Subjects that differ only in what PostgreSQL can't hold have counters of their own.
func testLedgerSubjects(t *testing.T, dsn string) {
	ledger := openLedger(t, dsn)
	defer closeLedger(t, ledger)
	claim := claimOf("l", time.Hour)
	claim.Owed = 900
	for _, subject := range []string{"a\x00", "a\xff", "a\uFFFD", "a"} {
		claim.Subject = subject
		if a := exchange(t, ledger, claim)[0]; a.Taken > 950 {
			t.Errorf("%q: %+v is of another subject", subject, a)
		}
	}
}
