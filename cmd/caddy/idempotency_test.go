package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// keyedTransport adds an idempotency key to requests.
type keyedTransport struct {
	http.Transport
	key string
}

func (k *keyedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Idempotency-Key", k.key)
	return k.Transport.RoundTrip(r)
}

// report is a metrics record with its own key.
type report struct {
	number  int64
	traceID string
	answer  string // empty: no answer came
}

func (m *report) send(ctx context.Context, url string, transport *keyedTransport) (status int, header http.Header, answer string, err error) {
	transport.key = strconv.FormatInt(m.number, 10)
	return post(ctx, &http.Client{Transport: transport}, url+"/v1/metrics", fmt.Sprintf(`{"trace_id":%q,"metadata":{"n":%d}}`, m.traceID, m.number))
}

// TestCrashStoresKeyedMetricsOnce kills the gateway while clients report metrics with
// idempotency keys. After each crash they repeat all reports of the round, like a client that
// does not know whether its report was stored. Each record must then be stored exactly once.
func TestCrashStoresKeyedMetricsOnce(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := newProcess(t, data)
	path := filepath.Join(data, "cadenza.db")
	var next atomic.Int64
	var answered, unanswered, replayed atomic.Int64
	p.start()
	rounds := crashRounds(t)
	random := gatewaytest.Random(t)
	for round := range rounds {
		ctx, cancel := context.WithCancel(context.Background())
		var wait sync.WaitGroup
		var mu sync.Mutex
		var reports []*report
		for range crashClients {
			wait.Go(func() {
				transport := new(keyedTransport)
				defer transport.CloseIdleConnections()
				client := &http.Client{Transport: &transport.Transport}
				for ctx.Err() == nil {
					status, header, _, err := post(ctx, client, p.url+"/v1/remoteconfigs", `{"keys":["banner_text"]}`)
					if err != nil || status != http.StatusOK {
						continue // the crash
					}
					m := &report{number: next.Add(1), traceID: header.Get("Cadenza-Trace-Id")}
					status, _, answer, err := m.send(ctx, p.url, transport)
					if err == nil && status == http.StatusOK {
						m.answer = answer
					}
					mu.Lock()
					reports = append(reports, m)
					mu.Unlock()
				}
			})
		}
		time.Sleep(50*time.Millisecond + time.Duration(random.Int64N(int64(250*time.Millisecond))))
		p.kill()
		cancel()
		wait.Wait()

		p.start()
		stored := make(map[int64]string)
		left := make(chan *report, len(reports))
		for _, m := range reports {
			stored[m.number] = m.traceID
			left <- m
		}
		close(left)
		for range crashClients {
			wait.Go(func() {
				transport := new(keyedTransport)
				defer transport.CloseIdleConnections()
				for m := range left {
					status, header, answer, err := m.send(context.Background(), p.url, transport)
					again := header.Get("Idempotent-Replayed") == "true"
					switch {
					case err != nil || status != http.StatusOK:
						t.Errorf("record %d again: %d %s %v", m.number, status, answer, err)
					case m.answer != "" && (!again || answer != m.answer):
						t.Errorf("record %d was answered %s, and now, replayed %t, %s", m.number, m.answer, again, answer)
					case m.answer != "":
						answered.Add(1)
					case again:
						replayed.Add(1)
					default:
						unanswered.Add(1)
					}
				}
			})
		}
		wait.Wait()
		checkStore(t, path, stored)
		if t.Failed() {
			t.Fatalf("in round %d; the gateway's last words:\n%s", round+1, p.output)
		}
	}
	if answered.Load() < int64(10*rounds) || unanswered.Load()+replayed.Load() == 0 {
		t.Fatalf("%d records were answered and %d not in %d rounds", answered.Load(), unanswered.Load()+replayed.Load(), rounds)
	}
	t.Logf("%d rounds: %d records answered, %d stored without an answer, %d not stored before they came again", rounds, answered.Load(), replayed.Load(), unanswered.Load())
}
