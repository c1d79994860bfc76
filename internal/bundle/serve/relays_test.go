package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/bundle/download"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// The simulated network: each machine sends 10 Gbit/s, to whom it takes 20 ms. A bundle counts
// as one of 1,000 definitions.
const (
	latency = 20 * time.Millisecond
	sending = 280_000 * 8 * time.Second / 10_000_000_000
)

// machine is a handler that others reach over the simulated network.
type machine struct {
	handler Handler
	mu      sync.Mutex
	free    time.Time // when everything so far has been sent
}

// RoundTrip asks the machine.
func (m *machine) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(latency)
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	arrives := time.Now()
	if w.Code == http.StatusOK {
		m.mu.Lock()
		if m.free.Before(arrives) {
			m.free = arrives
		}
		m.free = m.free.Add(sending)
		arrives = m.free
		m.mu.Unlock()
	}
	time.Sleep(time.Until(arrives) + latency)
	return w.Result(), nil
}

// TestMustHoldRelays has 10,000 gateways follow a bundle through ten relays, in simulated
// time: all have an edit within two seconds.
func TestMustHoldRelays(t *testing.T) {
	// In simulated time, two processors may run timers at once, which the race detector does
	// not survive: https://go.dev/issue/78156.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const relays = 10
	gateways := gatewaytest.Full(10_000)
	s := newSigned(t)
	synctest.Test(t, func(t *testing.T) {
		signer := &Signer{Source: s.source, Key: s.key, Logger: noLog, File: t.TempDir() + "/kept"}
		signer.Start()
		defer signer.Stop()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()

		var all sync.WaitGroup
		var mu sync.Mutex
		served := make(map[int64][]time.Time) // by serial
		follow := func(source *machine, node string, activated func(serial int64)) *download.Downloader {
			d := download.New(download.Config{
				URL: "http://source/bundle.tar.gz", Keys: []bundle.PublicKey{s.key.Public()}, Node: node, Logger: slog.New(slog.DiscardHandler),
				Client: &http.Client{Transport: source},
				Activate: func(b *bundle.Bundle) error {
					activated(b.Serial)
					return nil
				},
			})
			all.Go(func() { d.Run(ctx) })
			return d
		}
		control := &machine{handler: Handler{Latest: &signer.Latest, Open: true, Stopping: ctx.Done()}}
		var middle []*machine
		for i := range relays {
			d := follow(control, fmt.Sprint("relay ", i), func(int64) {})
			middle = append(middle, &machine{handler: Handler{Latest: d.Latest(), Open: true, Stopping: ctx.Done()}})
		}
		for i := range gateways {
			follow(middle[i%relays], fmt.Sprint("gateway ", i), func(serial int64) {
				mu.Lock()
				defer mu.Unlock()
				served[serial] = append(served[serial], time.Now())
			})
		}
		for range 3 {
			time.Sleep(5 * time.Minute) // in which long polls end and begin
			s.changes++
			s.write("flag.yaml", fmt.Sprintf("type: number\ndefault: %d\n", s.changes))
			edited := time.Now()
			if err := s.source.Reload(); err != nil {
				t.Fatal(err)
			}
			b, _ := signer.Latest.Get()
			time.Sleep(time.Minute)
			mu.Lock()
			times := served[b.Serial]
			mu.Unlock()
			if len(times) != gateways {
				t.Fatalf("%d of %d gateways have the edit", len(times), gateways)
			}
			took := slices.MaxFunc(times, time.Time.Compare).Sub(edited)
			t.Logf("%d gateways have an edit after %s of simulated time", gateways, took)
			if took > 2*time.Second {
				t.Errorf("the last gateway has the edit after %s", took)
			}
		}
		stop()
		all.Wait()
	})
}
