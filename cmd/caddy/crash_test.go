package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

const crashClients = 8

// crashRounds returns how often the gateway is killed: CADENZA_CRASH_ROUNDS times, default 20.
func crashRounds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("CADENZA_CRASH_ROUNDS")
	if text == "" {
		return 20
	}
	rounds, err := strconv.Atoi(text)
	if err != nil || rounds < 1 {
		t.Fatalf("CADENZA_CRASH_ROUNDS must be a number of rounds, it is %q", text)
	}
	return rounds
}

// TestCrashLosesNoAcknowledgedMetrics repeatedly kills the gateway while clients
// report metrics. Every record that was answered with 200 must be in the store, as
// often as it was answered, and the store must not be damaged.
func TestCrashLosesNoAcknowledgedMetrics(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := newProcess(t, data)
	var next atomic.Int64
	rounds := crashRounds(t)
	all := make(map[int64]string) // the trace by the reported number
	random := gatewaytest.Random(t)
	for round := range rounds {
		p.start()
		ctx, cancel := context.WithCancel(context.Background())
		var wait sync.WaitGroup
		var mu sync.Mutex
		stored := make(map[int64]string)
		for range crashClients {
			wait.Go(func() {
				transport := &http.Transport{}
				defer transport.CloseIdleConnections()
				client := &http.Client{Transport: transport}
				for ctx.Err() == nil {
					status, header, _, err := post(ctx, client, p.url+"/v1/remoteconfigs", `{"keys":["banner_text"]}`)
					if err != nil || status != http.StatusOK {
						continue // the crash
					}
					id, n := header.Get("Cadenza-Trace-Id"), next.Add(1)
					status, _, _, err = post(ctx, client, p.url+"/v1/metrics",
						fmt.Sprintf(`{"trace_id":%q,"metadata":{"n":%d}}`, id, n))
					if err != nil || status != http.StatusOK {
						continue
					}
					mu.Lock()
					stored[n] = id
					mu.Unlock()
				}
			})
		}
		time.Sleep(50*time.Millisecond + time.Duration(random.Int64N(int64(250*time.Millisecond))))
		p.kill()
		cancel()
		wait.Wait()
		maps.Copy(all, stored)
		checkStore(t, filepath.Join(data, "cadenza.db"), stored)
		if t.Failed() {
			t.Fatalf("in round %d; the gateway's last words:\n%s", round+1, p.output)
		}
	}
	// A later crash must not lose rows stored before an earlier one.
	checkStore(t, filepath.Join(data, "cadenza.db"), all)
	if len(all) < 10*rounds {
		t.Fatalf("only %d records were acknowledged in %d rounds", len(all), rounds)
	}
	t.Logf("%d rounds, %d acknowledged, none lost", rounds, len(all))
}

// checkStore checks that each number is stored with its trace.
func checkStore(t *testing.T, path string, want map[int64]string) {
	t.Helper()
	ctx := context.Background()
	reader, err := sqlite.OpenReader(ctx, path)
	if err != nil {
		t.Errorf("opening the store after the crash: %v", err)
		return
	}
	defer reader.Close()
	if err := reader.Check(ctx); err != nil {
		t.Errorf("the store is damaged: %v", err)
	}
	for n, text := range want {
		id, ok := trace.ParseID(text)
		if !ok {
			t.Fatalf("%q is no trace id", text)
		}
		records, err := reader.MetricsFor(ctx, id)
		if err != nil {
			t.Errorf("reading the metrics of %s: %v", id, err)
			continue
		}
		found := 0
		for _, record := range records {
			var metadata struct{ N int64 }
			if err := json.Unmarshal(record.Metadata, &metadata); err != nil {
				t.Errorf("metadata of %s: %v", id, err)
			}
			if metadata.N == n {
				found++
			}
		}
		if found != 1 {
			t.Errorf("the acknowledged record %d of %s is stored %d times", n, id, found)
		}
	}
}
