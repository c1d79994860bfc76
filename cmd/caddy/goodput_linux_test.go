package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// goodputEnv is the environment variable that makes TestGoodput measure more loads,
// with and without ceilings. Its value is the duration of each load, whose rate is
// sixteen times the default:
//
//	CADENZA_GOODPUT=10s go test ./cmd/caddy -run TestGoodput -v
//
// It needs an idle machine, and even there only the ratios are meaningful.
const goodputEnv = "CADENZA_GOODPUT"

// The upstream of TestGoodput answers a fixed number of concurrent calls, each after
// upstreamTime. Further calls wait there.
const (
	upstreamPlaces = 5
	upstreamTime   = 100 * time.Millisecond
	// patience is the maximum wait of a caller.
	patience = 2 * time.Second
)

// serveUpstream answers chat completions, up to places of them concurrently.
func serveUpstream(t *testing.T, places int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	place := make(chan struct{}, places)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case place <- struct{}{}:
			defer func() { <-place }()
		case <-r.Context().Done():
			return
		}
		time.Sleep(upstreamTime)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Fine."},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String() + "/v1"
}

// yield has the results of the callers of a load.
type yield struct {
	rate     float64 // of answers, a second
	answered int
	refused  int // callers refused with a Retry-After
	timedOut int
	failed   int
	refusal  []time.Duration // the wait of each refused caller
}

func (y *yield) String() string {
	line := fmt.Sprintf("%.0f/s answered (%d), %d told to come back, %d timed out, %d failed", y.rate, y.answered, y.refused, y.timedOut, y.failed)
	if len(y.refusal) > 0 {
		slices.Sort(y.refusal)
		line += fmt.Sprintf("; told within %s (median), %s (99 %%)", y.refusal[len(y.refusal)/2], y.refusal[len(y.refusal)*99/100])
	}
	return line
}

// arrive starts callers at a fixed rate, whether or not earlier ones are answered,
// and counts the answers after the first quarter of the time.
func arrive(ctx context.Context, url string, rate float64, length time.Duration) *yield {
	transport := &http.Transport{MaxIdleConnsPerHost: 1024}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	y := new(yield)
	var mu sync.Mutex
	var group sync.WaitGroup
	began := time.Now()
	counted := began.Add(length / 4)
	end := began.Add(length)
	for n := 0; ; n++ {
		at := began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		if at.After(end) {
			break
		}
		time.Sleep(time.Until(at))
		group.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			sent := time.Now()
			status, _, _, err := post(ctx, client, url+"/v1/endpoints", `{"key":"hang"}`)
			now := time.Now()
			mu.Lock()
			defer mu.Unlock()
			if now.Before(counted) || now.After(end) {
				return
			}
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				y.timedOut++
			case err == nil && status == http.StatusOK:
				y.answered++
			case err == nil && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable):
				y.refused++
				y.refusal = append(y.refusal, now.Sub(sent))
			default:
				y.failed++
			}
		})
	}
	group.Wait()
	y.rate = float64(y.answered) / end.Sub(counted).Seconds()
	return y
}

// TestGoodput sends three times the load that an upstream can take. As many calls
// as the upstream can take must be answered and the others refused.
// Without ceilings all would wait in one queue until they time out.
func TestGoodput(t *testing.T) {
	places, length := upstreamPlaces, 2*time.Second
	full := os.Getenv(goodputEnv)
	if full != "" {
		var err error
		if length, err = time.ParseDuration(full); err != nil {
			t.Fatal(err)
		}
		places *= 16
	}
	capacity := float64(places) / upstreamTime.Seconds()
	measure := func(t *testing.T, options string, times float64) *yield {
		p := startHanging(t, 0, serveUpstream(t, places), options)
		defer p.kill()
		before := cpu(p)
		y := arrive(t.Context(), p.url, capacity*times, length)
		t.Logf("%.1f times the load: %s; %s of CPU", times, y, cpu(p)-before)
		return y
	}
	bounded := fmt.Sprintf("in_flight {\nhost %d\n}\n", places)
	if full != "" {
		for _, times := range []float64{0.5, 0.9, 1.1, 2, 3, 4} {
			measure(t, bounded, times)
		}
		t.Log("without a ceiling:")
		for _, times := range []float64{0.9, 1.1, 3} {
			measure(t, "in_flight {\nprocess 100000\nworkspace 100000\nkey 100000\nhost 100000\n}\n", times)
		}
	}
	// Other work on the machine can only reduce the number of answers, so the
	// best of some rounds counts.
	var ratio float64
	for try := 0; try < 8 && ratio < 0.9; try++ {
		just := measure(t, bounded, 1.1)
		over := measure(t, bounded, 3)
		ratio = over.rate / max(just.rate, over.rate)
		if over.refused == 0 {
			t.Error("nobody is told that there is no place")
		}
	}
	t.Logf("goodput at three times the load is %.2f of the most", ratio)
	if ratio < 0.9 {
		t.Errorf("goodput falls to %.2f", ratio)
	}
}

// cpu returns the CPU time of a process.
func cpu(p *process) time.Duration {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.command.Process.Pid), "stat"))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, i := range []int{11, 12} { // user and system, in hundredths of a second
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
