package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cadenza-gateway/cadenza/internal/exposure"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

// testExposures: answers that are counted on a trace reach its row, and the number never falls.
func testExposures(t *testing.T, dsn string) {
	g := newGateway(t, nil)
	record := g.answer(trace.KindRemoteConfig)
	e := &exposure.Exposure{Trace: record.ID, Request: &exposure.Request{Workspace: "default"}}
	g.recorder.Evaluation(record)
	g.written.Add(1)
	g.flush()
	begun(t, g.drain(dsn, sinks.Config{Batch: 10}))
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	answers := func() (n int) {
		if err := conn.QueryRow(t.Context(), "SELECT coalesce(max(answers), 1) FROM cadenza.traces").Scan(&n); err != nil {
			return 0 // the tables are not made yet
		}
		return n
	}
	for range 3 {
		g.recorder.Counted(e, time.Now())
	}
	gatewaytest.Eventually(t, "the answers are in the database", func() bool { return answers() == 4 })
	g.recorder.Counted(e, time.Now())
	gatewaytest.Eventually(t, "further answers are in the database", func() bool { return answers() == 5 })
}
