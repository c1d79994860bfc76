package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// TestCrashStoresEventsOnce kills the gateway while clients report on units with event ids.
// After each crash they repeat all reports of the round. Each that was answered must have
// been there, and each event is stored once.
func TestCrashStoresEventsOnce(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := newProcess(t, data)
	var next atomic.Int64
	send := func(ctx context.Context, client *http.Client, n int64) (status int, answer string, err error) {
		status, _, answer, err = post(ctx, client, p.url+"/v1/metrics",
			fmt.Sprintf(`{"unit":{"customer_id":"c-%d"},"values":{"n":%d},"event_id":"e-%d"}`, n%50, n, n))
		return status, answer, err
	}
	p.start()
	rounds, answered, random := crashRounds(t), 0, gatewaytest.Random(t)
	for round := range rounds {
		ctx, cancel := context.WithCancel(context.Background())
		var wait sync.WaitGroup
		var mu sync.Mutex
		reports := make(map[int64]bool) // whether the report was answered
		for range crashClients {
			wait.Go(func() {
				transport := &http.Transport{}
				defer transport.CloseIdleConnections()
				client := &http.Client{Transport: transport}
				for ctx.Err() == nil {
					n := next.Add(1)
					status, _, err := send(ctx, client, n)
					mu.Lock()
					reports[n] = err == nil && status == http.StatusOK
					mu.Unlock()
				}
			})
		}
		time.Sleep(50*time.Millisecond + time.Duration(random.Int64N(int64(250*time.Millisecond))))
		p.kill()
		cancel()
		wait.Wait()

		p.start()
		left := make(chan int64, len(reports))
		for n, was := range reports {
			left <- n
			if was {
				answered++
			}
		}
		close(left)
		for range crashClients {
			wait.Go(func() {
				transport := &http.Transport{}
				defer transport.CloseIdleConnections()
				client := &http.Client{Transport: transport}
				for n := range left {
					status, answer, err := send(context.Background(), client, n)
					if was := reports[n]; err != nil || status != http.StatusOK || was && answer != `{"ok":true,"repeated":true}` {
						t.Errorf("report %d again, answered %t: %d %s %v", n, was, status, answer, err)
					}
				}
			})
		}
		wait.Wait()
		if t.Failed() {
			t.Fatalf("in round %d; the gateway's last words:\n%s", round+1, p.output)
		}
	}
	db := gatewaytest.Database(t, filepath.Join(data, "cadenza.db"))
	var rows, events, units int64
	if err := db.QueryRow("SELECT count(*), count(DISTINCT event_id), count(DISTINCT unit) FROM unit_reports").Scan(&rows, &events, &units); err != nil {
		t.Fatal(err)
	}
	if sent := next.Load(); rows != sent || events != sent || units != min(sent, 50) {
		t.Errorf("%d reports of %d events on %d units are stored; %d were sent", rows, events, units, sent)
	}
	if answered == 0 {
		t.Fatalf("no report was answered in %d rounds", rounds)
	}
	t.Logf("%d rounds: %d reports answered of %d", rounds, answered, next.Load())
}
