package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
)

// again makes an exchange until it is answered, as a gateway does.
func again(t testing.TB, l limit.Ledger, id limit.ExchangeID, claims ...limit.Claim) []limit.Answer {
	t.Helper()
	var answers []limit.Answer
	gatewaytest.Eventually(t, "an exchange is answered", func() bool {
		var err error
		answers, err = l.Exchange(t.Context(), id, claims)
		return err == nil
	})
	return answers
}

// wantBooked wants counters to have taken and used as much together.
func wantBooked(t testing.TB, dsn string, taken, used int64) {
	t.Helper()
	gotTaken := count(t, dsn, "SELECT sum(taken)::bigint FROM cadenza.limit_windows")
	gotUsed := count(t, dsn, "SELECT sum(used)::bigint FROM cadenza.limit_windows")
	if gotTaken != taken || gotUsed != used {
		t.Errorf("%d are taken and %d used, want %d and %d", gotTaken, gotUsed, taken, used)
	}
}

// testLedgerAgain: an exchange that is made again is booked once, and grants the same
// amounts, also after others have taken from the counters. One that comes after a
// later one of its process is not booked.
func testLedgerAgain(t *testing.T, dsn string) {
	ledger, other := openLedger(t, dsn), openLedger(t, dsn)
	defer closeLedger(t, ledger)
	defer closeLedger(t, other)
	first, second := claimOf("first", time.Hour), claimOf("second", time.Hour)
	first.Used, first.Owed, second.Used, second.Lease = 7, 7, 11, 20
	for i, known := range []bool{false, true} {
		first.Known, second.Known = known, known
		id := limit.ExchangeID{Process: "p", Number: 5 + int64(i)}
		got := again(t, ledger, id, first, second)
		if got[0].Granted != 50 || got[1].Granted != 20 {
			t.Fatalf("%+v", got)
		}
		full := claimOf("first", time.Hour)
		full.Start, full.End, full.Owed, full.Least, full.Used = first.Start, first.End, 100, 0, 1
		exchange(t, other, full)
		for range 2 {
			repeated := again(t, ledger, id, first, second)
			want := slices.Clone(got)
			want[0].Taken, want[0].Used = want[0].Taken+100, want[0].Used+1
			if !slices.Equal(repeated, want) {
				t.Errorf("%+v, want %+v", repeated, want)
			}
		}
	}
	wantBooked(t, dsn, 2*(50+7+20+100), 2*(7+11+1))
	for _, late := range []int64{5, 4} {
		if _, err := ledger.Exchange(t.Context(), limit.ExchangeID{Process: "p", Number: late}, []limit.Claim{first, second}); err == nil {
			t.Errorf("exchange %d is answered after number 6", late)
		}
	}
	wantBooked(t, dsn, 2*(50+7+20+100), 2*(7+11+1))

	// Each process has one row, as long as it comes once a day.
	exec(t, dsn, "UPDATE cadenza.limit_exchanges SET time = time - interval '23 hours'; INSERT INTO cadenza.limit_exchanges VALUES ('w', 'gone', 3, now() - interval '25 hours', '{1}')")
	third := openLedger(t, dsn)
	defer closeLedger(t, third)
	again(t, third, limit.ExchangeID{Process: "third", Number: 1}, second)
	var processes string
	queryRow(t, dsn, "SELECT string_agg(process || ' ' || number, ', ' ORDER BY process) FROM cadenza.limit_exchanges WHERE process IN ('p', 'third', 'gone')", &processes)
	if processes != "p 6, third 1" {
		t.Errorf("%s are there", processes)
	}
	again(t, ledger, limit.ExchangeID{Process: "p", Number: 7}, second)
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.limit_exchanges WHERE process = 'p' AND time > now() - interval '1 hour'"); n != 1 {
		t.Error("a process that has come does not count as there")
	}
}

// testLedgerAgainAtTheSameTime: the first sending of an exchange, whose caller has
// gone, is still held up in the database when the second comes: only one of them is
// booked.
func testLedgerAgainAtTheSameTime(t *testing.T, dsn string) {
	claim := claimOf("l", time.Hour)
	claim.Used = 7
	ledger := openLedger(t, dsn)
	defer closeLedger(t, ledger)
	exchange(t, ledger, claim)
	claim.Known = true
	id := limit.ExchangeID{Process: "slow", Number: 1}

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "BEGIN; UPDATE cadenza.limit_windows SET taken = taken"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	const sendings = 3
	for range sendings {
		l := openLedger(t, dsn)
		defer closeLedger(t, l)
		go func() {
			_, err := l.Exchange(context.Background(), id, []limit.Claim{claim})
			done <- err
		}()
	}
	gatewaytest.Eventually(t, "the exchanges wait for the row", func() bool {
		return count(t, dsn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") >= sendings
	})
	if _, err := conn.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	booked := 0
	for range sendings {
		if err := <-done; err == nil {
			booked++
		}
	}
	if booked != 1 {
		t.Errorf("%d of %d are booked", booked, sendings)
	}
	if got := again(t, ledger, id, claim); got[0].Granted != 50 {
		t.Errorf("%+v", got)
	}
	wantBooked(t, dsn, 2*50, 2*7)
}

// The ledger works in each mode that a pooler may need.
func testLedgerModes(t *testing.T, dsn string) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		ledger := openLedger(t, dsn+"&default_query_exec_mode="+mode)
		claim := claimOf(mode, time.Hour)
		claim.Used = 7
		for i, known := range []bool{false, true} {
			claim.Known = known
			id := limit.ExchangeID{Process: mode, Number: int64(i)}
			for range 2 {
				want := limit.Answer{Granted: 50, Taken: 50 * int64(i+1), Used: 7 * int64(i+1)}
				if got := again(t, ledger, id, claim); got[0] != want {
					t.Errorf("%s: %+v, want %+v", mode, got[0], want)
				}
			}
		}
		closeLedger(t, ledger)
	}
}

// testLedgerForgottenCounters: a database that has lost counters, because a backup was
// restored or they were deleted, gets them again. An exchange is booked whole or not at
// all.
func testLedgerForgottenCounters(t *testing.T, dsn string) {
	ledger := openLedger(t, dsn)
	defer closeLedger(t, ledger)
	there, gone := claimOf("there", time.Hour), claimOf("gone", time.Hour)
	there.Used, gone.Used = 7, 7
	id := limit.ExchangeID{Process: "p", Number: 1}
	again(t, ledger, id, there, gone)
	there.Known, gone.Known = true, true
	exec(t, dsn, "DELETE FROM cadenza.limit_windows WHERE limit_name = 'gone'")
	// The answer that the gateway missed is in the database.
	if got := again(t, ledger, id, there, gone); got[0].Granted != 50 || got[1].Granted != 50 {
		t.Errorf("%+v", got)
	}
	// Of another exchange a counter is missing.
	exec(t, dsn, "DELETE FROM cadenza.limit_windows WHERE limit_name = 'gone'")
	id.Number++
	if got := again(t, ledger, id, there, gone); got[0].Taken != 100 || got[1].Taken != 50 {
		t.Errorf("%+v", got)
	}
	wantBooked(t, dsn, 150, 21)
	// A backup from before the exchange does not have it.
	exec(t, dsn, "DELETE FROM cadenza.limit_windows; DELETE FROM cadenza.limit_exchanges")
	if got := again(t, ledger, id, there, gone); got[0].Taken != 50 || got[1].Taken != 50 {
		t.Errorf("%+v", got)
	}
	wantBooked(t, dsn, 100, 14)
}

// The connection breaks after the database has booked an exchange, and before the
// gateway has the answer.
func TestLedgerAnswersThatAreLost(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	p := newProxy(t, server.Address())
	ledger := openLedger(t, p.dsn())
	defer closeLedger(t, ledger)
	claim := claimOf("l", time.Hour)
	claim.Most, claim.Used, claim.Owed = 10_000, 7, 3
	again(t, ledger, nextID(), claim) // a connection may take a second at most
	for round := range int64(4) {
		id := limit.ExchangeID{Process: "p", Number: 1 + round}
		claim.Known = round%2 == 0
		for lost := range 2 { // also the answer to the second sending
			p.deaf.Store(true)
			done := make(chan error)
			go func() {
				_, err := ledger.Exchange(context.Background(), id, []limit.Claim{claim})
				done <- err
			}()
			if lost == 0 {
				gatewaytest.Eventually(t, "it is booked", func() bool {
					return count(t, server.DSN(), "SELECT sum(used)::bigint FROM cadenza.limit_windows") >= 7*(2+round)
				})
			}
			p.cut()
			err := <-done
			p.deaf.Store(false)
			if lost == 0 && !errors.Is(err, limit.ErrInDoubt) || err == nil {
				t.Errorf("round %d: %v: want a doubt", round, err)
			}
		}
		want := limit.Answer{Granted: 50, Taken: 53 * (2 + round), Used: 7 * (2 + round)}
		if got := again(t, ledger, id, claim); got[0] != want {
			t.Errorf("round %d: %+v, want %+v", round, got[0], want)
		}
	}
	wantBooked(t, server.DSN(), 5*53, 5*7)
}

// An error by which a server ends the connection may come after it has committed: here
// the commit waits for a standby that there is not.
func TestLedgerThatIsEndedAfterItsCommit(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "synchronous_standby_names=nobody")
	local := server.DSN() + "&options=" + "-c%20synchronous_commit%3Dlocal"
	if !strings.Contains(server.DSN(), "?") {
		t.Fatal(server.DSN())
	}
	first := openLedger(t, local)
	defer closeLedger(t, first)
	claim := claimOf("l", time.Hour)
	claim.Used = 7
	exchange(t, first, claim)
	id := limit.ExchangeID{Process: "p", Number: 1}
	ledger := openLedger(t, server.DSN())
	defer closeLedger(t, ledger)
	done := make(chan error)
	go func() {
		_, err := ledger.Exchange(context.Background(), id, []limit.Claim{claim})
		done <- err
	}()
	gatewaytest.Eventually(t, "the commit waits", func() bool {
		return count(t, local, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") > 0
	})
	if err := <-done; !errors.Is(err, limit.ErrInDoubt) {
		t.Errorf("%v: want a doubt", err)
	}
	if got := again(t, first, id, claim); got[0] != (limit.Answer{Granted: 50, Taken: 100, Used: 14}) {
		t.Errorf("%+v", got)
	}
	wantBooked(t, local, 100, 14)
}
