package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestStageOfAnotherFormat delivers over a session in which a gateway of another
// format has left its stages, as a pooler hands it on.
func TestStageOfAnotherFormat(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Start(t).NewDatabase("Stage")
	s, err := New(Config{DSN: func() (string, error) { return dsn, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Resume(t.Context(), sinks.Source{Workspace: "w", Sink: "s"}, trace.Position{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.conn.Exec(context.WithoutCancel(t.Context()), `
CREATE TEMPORARY TABLE cadenza_traces_6 (LIKE cadenza.traces) ON COMMIT DELETE ROWS; ALTER TABLE cadenza_traces_6 DROP COLUMN arm;
CREATE TEMPORARY TABLE cadenza_metrics_6 (LIKE cadenza.metrics) ON COMMIT DELETE ROWS; ALTER TABLE cadenza_metrics_6 ALTER COLUMN trace_id SET NOT NULL`); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), &trace.Delivery{
		Records: []*trace.Record{{ID: trace.ID{1}, Time: time.Now(), Workspace: "w", Arm: "b"}},
		Metrics: []*trace.Metrics{{UUID: [16]byte{2}, Decision: trace.ID{3}, Time: time.Now(), Workspace: "w"}},
	}); err != nil {
		t.Error(err)
	}
}
