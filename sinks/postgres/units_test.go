package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

// testUnitReports delivers reports on units that two gateways got, to tables that a build
// without such reports made. An event that both got is one.
func testUnitReports(t *testing.T, dsn string) {
	sink := newSink(t, dsn)
	defer sink.Close()
	resume(t, sink, trace.Position{})
	exec(t, dsn, "DROP VIEW cadenza.unit_reports; ALTER TABLE cadenza.metrics DROP COLUMN unit_field, DROP COLUMN unit, DROP COLUMN happened, DROP COLUMN event_id; ALTER TABLE cadenza.traces DROP COLUMN answers; ALTER TABLE cadenza.positions DROP COLUMN exposures")

	key := []byte("0123456789abcdef0123456789abcdef")
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for node := range 2 {
		g := newGateway(t, key)
		for i := range 10 {
			g.report(trace.Metrics{
				TraceID: g.authority.New(trace.KindMetrics, time.Now()), UnitField: "customer_id", Unit: fmt.Sprintf("unit-%d", i), Happened: at,
				EventID: fmt.Sprintf("event-%d", i+5*node),
			}, "c")
		}
		g.report(trace.Metrics{TraceID: g.authority.New(trace.KindPrompt, time.Now())}, "c")
		settle(t, g.drain(dsn, sinks.Config{}))
		if node == 0 {
			wantSame(t, dsn, g)
		}
	}
	for query, want := range map[string]int64{
		"SELECT count(*) FROM cadenza.metrics":      17,
		"SELECT count(*) FROM cadenza.unit_reports": 15,
		"SELECT count(DISTINCT event_id) FROM cadenza.unit_reports WHERE field = 'customer_id' AND time < received AND named_values ->> 'resolved' = '1'": 15,
	} {
		if n := count(t, dsn, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
}
