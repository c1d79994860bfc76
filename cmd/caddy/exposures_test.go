package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// TestCountsSurviveCrashes kills the gateway again and again while it counts answers on the
// traces of their exposures. All answers from before a report that was acknowledged are in
// the statistics, none is there twice, and each process adds at most one trace for a unit.
func TestCountsSurviveCrashes(t *testing.T) {
	t.Parallel()
	const units, rounds, more = 50, 5, 300
	dir, data := t.TempDir(), t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("definitions/context.yaml", "fields: { customer_id: string }\n")
	write("definitions/remoteconfigs/half.yaml", `type: boolean
default: false
record: exposures
rules:
  - { id: half, split: { by: customer_id, of: [ { value: true, share: 50%, name: on }, { value: false, share: 50%, name: off } ] } }
`)
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	caddyfile := write("Caddyfile", strings.Replace(string(example), "examples/definitions", filepath.Join(dir, "definitions"), 1))
	p := newProcess(t, data)
	stored := int64(0)
	for round := range rounds {
		p.startWith(caddyfile)
		var sent, answered atomic.Int64
		ctx, cancel := context.WithCancel(context.Background())
		var wait sync.WaitGroup
		for worker := range crashClients {
			wait.Go(func() {
				transport := &http.Transport{}
				defer transport.CloseIdleConnections()
				client := &http.Client{Transport: transport}
				for n := worker; ctx.Err() == nil; n += crashClients {
					sent.Add(1)
					status, _, _, err := post(ctx, client, p.url+"/v1/remoteconfigs", fmt.Sprintf(`{"keys":["half"],"context":{"customer_id":"c-%d"}}`, n%units))
					if err == nil && status == http.StatusOK {
						answered.Add(1)
					}
				}
			})
		}
		asked := func(least int64) {
			p.eventually("many are answered", func() bool { return answered.Load() >= least })
		}
		asked(more)
		before := answered.Load()
		status, _, text, err := post(context.Background(), http.DefaultClient, p.url+"/v1/metrics", `{"score":1}`)
		if err != nil || status != http.StatusOK {
			t.Fatal(status, text, err)
		}
		asked(before + more)
		p.kill()
		cancel()
		wait.Wait()
		answers, traces := answersIn(t, filepath.Join(data, "cadenza.db"))
		if answers < stored+before || answers > stored+sent.Load() {
			t.Fatalf("round %d: %d answers are stored, %d of them before it; %d were acknowledged before the last report, and %d asked for",
				round, answers, stored, before, sent.Load())
		}
		// Eight clients may ask for the same unit at the same instant.
		if most := int64((round + 1) * units * crashClients); traces > most {
			t.Errorf("round %d: %d traces", round, traces)
		}
		stored = answers
	}
}

// answersIn returns the answers in the statistics of a store, and its traces.
func answersIn(t *testing.T, path string) (answers, traces int64) {
	t.Helper()
	r, err := sqlite.OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Check(t.Context()); err != nil {
		t.Errorf("the store is damaged: %v", err)
	}
	stats, err := r.Stats(t.Context(), sqlite.StatsQuery{Workspace: "default", Interval: sqlite.Overall})
	if err != nil || stats.Pending > 0 {
		t.Fatal(stats.Pending, err)
	}
	for _, row := range stats.Rows {
		if row.Key == "half" {
			answers += row.Traces
			traces += row.Latency.Count
		}
	}
	return answers, traces
}
