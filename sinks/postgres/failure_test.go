package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/sinks/postgres"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Each of these writes to a store while its database is treated badly, and then
// wants every row in it once, with the store's values.

func testDrain(t *testing.T, dsn string) {
	g := newGateway(t, nil)
	g.write(3000)
	d := g.drain(dsn, sinks.Config{})
	stop := g.load(2000)
	time.Sleep(500 * time.Millisecond)
	stop()
	settle(t, d)
	wantSame(t, dsn, g)
	if s := d.Stats(); s.Failures > 0 || s.Refusals != (sinks.Refusals{}) {
		t.Errorf("%+v", s)
	}
}

func TestDatabaseIsKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	server := postgrestest.Start(t)
	g := newGateway(t, nil)
	d := g.drain(server.DSN(), sinks.Config{Batch: 50})
	stop := g.load(1500)
	random := gatewaytest.Random(t)
	for round := range rounds {
		up(t, d)
		time.Sleep(time.Duration(random.Int64N(int64(150 * time.Millisecond))))
		if round%3 == 2 {
			server.Stop()
		} else {
			server.Kill()
		}
		time.Sleep(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
		server.Restart()
	}
	stop()
	settle(t, d)
	wantSame(t, server.DSN(), g)
	if s := d.Stats(); s.Failures < uint64(rounds) {
		t.Errorf("the drain noticed %d failures in %d rounds", s.Failures, rounds)
	}
	t.Logf("%d rows, %d failures", g.written.Load(), d.Stats().Failures)
}

// begun waits until the drain has delivered at least once.
func begun(t *testing.T, d *sinks.Drain) {
	t.Helper()
	gatewaytest.Eventually(t, "something is delivered", func() bool { return d.Stats().Delivered > 0 })
}

// up waits until the drain has delivered something from now on. There must be
// something that comes from now on.
func up(t *testing.T, d *sinks.Drain) {
	t.Helper()
	before := d.Stats().Delivered
	gatewaytest.Eventually(t, "something more is delivered", func() bool {
		s := d.Stats()
		return s.Up && s.Delivered > before
	})
}

func TestBadNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	t.Parallel()
	server := postgrestest.Start(t)
	p := newProxy(t, server.Address())
	g := newGateway(t, nil)
	d := g.drain(p.dsn(), sinks.Config{Batch: 100, Timeout: 700 * time.Millisecond})
	stop := g.load(1000)
	up(t, d)

	t.Log("commits whose answer does not come back")
	const commits = 3
	p.cutCommit.Store(commits)
	gatewaytest.Eventually(t, "the commits are cut", func() bool { return p.commits.Load() >= commits })
	up(t, d)

	t.Log("connections that end anywhere")
	random := gatewaytest.Random(t)
	for range 6 {
		p.cutAfter.Store(1 + random.Int64N(60_000))
		p.cut()
		time.Sleep(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
	}
	p.cutAfter.Store(0)
	up(t, d)

	t.Log("silence")
	p.silent.Store(true)
	time.Sleep(1500 * time.Millisecond)
	p.silent.Store(false) // but the connections have lost bytes, and never work again
	up(t, d)

	t.Log("slowness")
	p.delay.Store(int64(30 * time.Millisecond))
	time.Sleep(time.Second)
	p.delay.Store(0)

	stop()
	settle(t, d)
	wantSame(t, server.DSN(), g)
	t.Logf("%d rows, %d failures", g.written.Load(), d.Stats().Failures)
}

func TestDatabaseIsPaused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes several seconds")
	}
	t.Parallel()
	server := postgrestest.Start(t)
	g := newGateway(t, nil)
	d := g.drain(server.DSN(), sinks.Config{Timeout: 4 * time.Second})
	stop := g.load(1000)
	for range 2 {
		up(t, d)
		server.Pause()
		var s sinks.Stats
		before := d.Stats().Pending
		gatewaytest.Eventually(t, "what waits is counted", func() bool {
			s = d.Stats()
			return !s.Up || s.Pending >= before+100
		})
		if !s.Up {
			t.Errorf("while a delivery hangs: %+v", s)
		}
		gatewaytest.Eventually(t, "the database is down", func() bool {
			s = d.Stats()
			return !s.Up
		})
		if s.Pending == 0 || s.Age < 200*time.Millisecond {
			t.Errorf("while the database is frozen: %+v", s)
		}
		server.Resume()
	}
	up(t, d)
	stop()
	settle(t, d)
	wantSame(t, server.DSN(), g)
}

// TestFailover promotes a standby that lacks the primary's latest commits.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := postgrestest.Start(t)
	standby := postgrestest.StartStandby(t, primary)
	dsn := fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable", primary.Address(), standby.Address())
	g := newGateway(t, nil)
	d := g.drain(dsn, sinks.Config{})
	g.write(500)
	stop := g.load(1000)
	up(t, d)
	standby.Disconnect()
	up(t, d)
	up(t, d)
	primary.Kill()
	lost := g.rows("traces") - int(count(t, standby.DSN(), "SELECT count(*) FROM cadenza.traces"))
	standby.Promote()
	up(t, d)
	stop()
	settle(t, d)
	wantSame(t, standby.DSN(), g)
	if lost < 10 {
		t.Errorf("the standby lacked only %d rows when it was promoted", lost)
	}
	t.Logf("the standby lacked up to %d rows", lost)
}

// testAnotherServerBehindTheSameConnection has a pooler turn to a server that
// is behind: the connection stays, and only its answers show it.
func testAnotherServerBehindTheSameConnection(t *testing.T, dsn string) {
	g := newGateway(t, nil)
	d := g.drain(dsn, sinks.Config{})
	g.write(200)
	g.flush()
	begun(t, d)
	time.Sleep(100 * time.Millisecond)
	exec(t, dsn, "DELETE FROM cadenza.traces WHERE ctid > '(2,0)'")
	exec(t, dsn, "UPDATE cadenza.positions SET traces = 5, metrics = 0")
	g.write(10)
	g.flush()
	settle(t, d)
	wantSame(t, dsn, g)
	if s := d.Stats(); s.Failures != 1 {
		t.Errorf("%+v", s)
	}
}

// testRestoredDatabase has a database lose all, and its schema too.
func testRestoredDatabase(t *testing.T, dsn string) {
	g := newGateway(t, nil)
	d := g.drain(dsn, sinks.Config{})
	g.write(300)
	g.flush()
	settle(t, d)
	exec(t, dsn, "DROP SCHEMA cadenza CASCADE")
	d = g.drain(dsn, sinks.Config{})
	g.write(10)
	g.flush()
	settle(t, d)
	wantSame(t, dsn, g)
}

// testManyGatewaysOneDatabase has gateways start at once, with no schema there.
func testManyGatewaysOneDatabase(t *testing.T, dsn string) {
	key := []byte("0123456789abcdef0123456789abcdef")
	var gateways []*gateway
	for range 4 {
		g := newGateway(t, key)
		g.write(400)
		g.flush()
		gateways = append(gateways, g)
	}
	var work sync.WaitGroup
	for _, g := range gateways {
		d := g.drain(dsn, sinks.Config{Batch: 70})
		work.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
			defer cancel()
			if err := d.Finish(ctx); err != nil {
				t.Error(err)
			}
			if s := d.Stats(); s.Failures > 0 {
				t.Errorf("%+v", s)
			}
		})
	}
	work.Wait()
	wantSame(t, dsn, gateways...)
}

// testTwoSinksOneDatabase has a workspace copied twice to one schema, as while a
// sink is renamed, or by way of two connection strings.
func testTwoSinksOneDatabase(t *testing.T, dsn string) {
	g := newGateway(t, nil)
	drains := []*sinks.Drain{g.drain(dsn, sinks.Config{Name: "one", Batch: 50}), g.drain(dsn, sinks.Config{Name: "other", Batch: 70})}
	stop := g.load(1000)
	time.Sleep(time.Second)
	stop()
	for _, d := range drains {
		settle(t, d)
		if s := d.Stats(); s.Failures > 0 {
			t.Errorf("the sinks disturb each other: %+v", s)
		}
	}
	wantSame(t, dsn, g)
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.positions"); n != 2 {
		t.Errorf("the database keeps %d positions", n)
	}
}

// testSinksThatMeet has two sinks store the same rows at once, in another order:
// the end of a call takes the place of its start, wherever each sink has that.
func testSinksThatMeet(t *testing.T, dsn string) {
	const rows = 3000
	var records []*trace.Record
	for i := range rows {
		records = append(records, &trace.Record{ID: trace.ID{byte(i >> 8), byte(i)}, Time: time.Now(), Workspace: "default"})
	}
	var work sync.WaitGroup
	for _, name := range []string{"one", "other"} {
		own := source
		own.Sink = name
		sink := newSink(t, dsn)
		defer sink.Close()
		if _, err := sink.Resume(t.Context(), own, trace.Position{}); err != nil {
			t.Fatal(err)
		}
		d := &trace.Delivery{Position: trace.Position{Traces: 1}, Records: slices.Clone(records)}
		slices.Reverse(records)
		work.Go(func() {
			if err := sink.Deliver(t.Context(), d); err != nil {
				t.Errorf("sink %s: %v", name, err)
			}
		})
	}
	work.Wait()
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.traces"); n != rows {
		t.Errorf("%d rows, want %d", n, rows)
	}
}

// testStatementTimeout has the database end long statements, as managed ones do,
// and each statement of a delivery take longer.
func testStatementTimeout(t *testing.T, dsn string) {
	first := newSink(t, dsn) // which makes the tables
	defer first.Close()
	resume(t, first, trace.Position{})
	exec(t, dsn, `
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.15); RETURN NULL; END $$;
CREATE TRIGGER slow AFTER INSERT OR DELETE ON cadenza.traces FOR EACH STATEMENT EXECUTE FUNCTION slow();
CREATE TRIGGER slow AFTER UPDATE ON cadenza.positions FOR EACH STATEMENT EXECUTE FUNCTION slow();
ALTER DATABASE "StatementTimeout" SET statement_timeout = '100ms'`)
	sink := newSink(t, dsn)
	defer sink.Close()
	resume(t, sink, trace.Position{})
	at := time.Now()
	deliver(t, sink, &trace.Delivery{Position: trace.Position{Traces: 1}, Records: []*trace.Record{{ID: trace.ID{1}, Time: at, Workspace: "default"}}})
	deliver(t, sink, &trace.Delivery{
		Position: trace.Position{Traces: 1, Erasures: 1},
		Erasures: []trace.Erasure{{Time: at, Selector: trace.Selector{Workspace: "default", ConversationID: "c"}}},
	})
	resume(t, sink, trace.Position{}) // which moves the position back
}

// testInterruptedCalls has a process die during upstream calls: running calls are
// not delivered, interrupted ones are, once they are found.
func testInterruptedCalls(t *testing.T, dsn string) {
	g := newGateway(t, nil)
	d := g.drain(dsn, sinks.Config{})
	var calls []*trace.Record
	for range 3 {
		r := g.answer(trace.KindEndpoint)
		g.recorder.Start(t.Context(), r)
		calls = append(calls, r)
	}
	states := func() string {
		var all []string
		for _, state := range []string{"started", "interrupted", "ended"} {
			all = append(all, fmt.Sprint(count(t, dsn, "SELECT count(*) FROM cadenza.traces WHERE state = $1", state)))
		}
		return strings.Join(all, " ")
	}
	awaitStates := func(want string) {
		t.Helper()
		gatewaytest.Eventually(t, "started, interrupted and ended are "+want, func() bool { return states() == want })
	}
	g.recorder.End(calls[0])
	g.written.Add(int64(len(calls)))
	begun(t, d)
	awaitStates("0 0 1")
	g.close()
	g.open()
	awaitStates("0 2 1")
	settle(t, d)
	wantSame(t, dsn, g)
}

// testALateStartDoesNotReplaceItsEnd delivers twice, and out of order, as two
// drains of one store might.
func testALateStartDoesNotReplaceItsEnd(t *testing.T, dsn string) {
	sink := newSink(t, dsn)
	defer sink.Close()
	id := trace.ID{1}
	var position trace.Position
	for _, state := range []trace.State{trace.StateStarted, trace.StateEnded, trace.StateInterrupted, trace.StateStarted, trace.StateEnded} {
		resume(t, sink, position)
		position.Traces++
		r := &trace.Record{ID: id, Time: time.Now(), Workspace: "default", Key: "k", State: state, Code: state.String()}
		// Twice in one delivery, too: the last one counts.
		deliver(t, sink, &trace.Delivery{Records: []*trace.Record{{ID: id, Time: time.Now(), State: trace.StateEnded, Code: "no"}, r}, Position: position})
	}
	if n := count(t, dsn, "SELECT count(*) FROM cadenza.traces WHERE state = 'ended' AND code = 'ended'"); n != 1 {
		t.Errorf("%d rows are as they should be, want 1", n)
	}
}

// source is the source of deliveries without a store.
var source = sinks.Source{StoreID: [16]byte{9}, Workspace: "default", Sink: "postgres"}

func resume(t *testing.T, sink *postgres.Sink, kept trace.Position) trace.Position {
	t.Helper()
	from, err := sink.Resume(t.Context(), source, kept)
	if err != nil {
		t.Fatal(err)
	}
	return from
}

func deliver(t *testing.T, sink *postgres.Sink, d *trace.Delivery) {
	t.Helper()
	if err := sink.Deliver(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}
