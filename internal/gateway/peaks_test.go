package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// TestPeaksOfLimits has the shares of the fullest subjects stored, but those of no subject
// that an erasure could not find.
func TestPeaksOfLimits(t *testing.T) {
	t.Parallel()
	customers := &limit.Limit{Name: "customers", By: limit.ByMetadata, Member: "customer", Routes: []string{"prompts"}, Ceilings: []limit.Ceiling{yearly(limit.Requests, 10)}}
	g := startGateway(t, single(), withLimits(customers))
	w := g.current.Load().Workspace("default")
	ask := func(customer string) {
		g.post("/v1/prompts", `{"keys":["hello"],"metadata":{"customer":"`+customer+`"}}`).ok(t, customer)
	}
	now := time.Now()
	ask("acme")
	ask(strings.Repeat("long", 20))
	w.RecordPeaks(now)
	ask("acme")
	w.RecordPeaks(now)
	if err := w.Store.Recorder.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader, err := sqlite.OpenReader(t.Context(), w.Store.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	rows, err := reader.Peaks(t.Context(), sqlite.PeakQuery{Workspace: "default"})
	if err != nil {
		t.Fatal(err)
	}
	want := sqlite.PeakRow{Limit: "customers", Subject: "acme", Hour: now.UTC().Truncate(time.Hour), Percent: 20, Measure: "requests", Ceiling: "10/366d", Used: 2}
	if len(rows) != 1 || rows[0] != want {
		t.Errorf("%+v", rows)
	}
}
