package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
)

// TestFleetSharesLimits has three callers at each of two gateways, which share a limit of
// 200 requests through PostgreSQL. One gateway is killed during the test. In the end the
// whole limit is used, and exceeded by a lease of ten for each gateway at most; a gateway
// whose database is unavailable answers no more than that, either.
func TestFleetSharesLimits(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	dir := t.TempDir()
	caddyfile := filepath.Join(dir, "Caddyfile")
	text := strings.Replace(fleetCaddyfile, "	cadenza {\n", `	cadenza {
		limit few {
			routes prompts
			requests 200/366d
		}
`, 1)
	if err := os.WriteFile(caddyfile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(name string) *process {
		p := newProcess(t, filepath.Join(dir, name), "CADENZA_TRACE_KEY=a-key-that-all-of-the-fleet-has", "CADENZA_TEST_DATABASE="+server.DSN())
		p.startWith(caddyfile)
		return p
	}
	var answered, refused atomic.Int64
	call := func(p *process) bool {
		status, header, body, err := post(t.Context(), http.DefaultClient, p.url+"/v1/prompts", `{"keys":["support_reply"],"variables":{"question":"Where is it?"}}`)
		switch {
		case err != nil:
			return false // it was killed
		case status == http.StatusTooManyRequests:
			refused.Add(1)
			if header.Get("Retry-After") == "" || !strings.Contains(body, "few") {
				t.Errorf("%v %s", header, body)
			}
		case status == http.StatusOK:
			answered.Add(1)
		case isStarting(status, body):
		default:
			t.Errorf("%d %s", status, body)
		}
		return true
	}
	nodes := []*process{start("a"), start("b")}
	// Both gateways are called in turns until 60 calls are answered.
	for i := 0; answered.Load() < 60; i++ {
		if !call(nodes[i%2]) {
			t.Fatal("no answer")
		}
		time.Sleep(time.Millisecond)
	}
	// Each gateway knows its own count, and a part of the other's.
	nodes[0].eventually("each knows of the other", func() bool {
		a, b := subjectOf(t, nodes[0], "app"), subjectOf(t, nodes[1], "app")
		return a.Lease.Others != nil && b.Lease.Others != nil && *a.Lease.Others > 0 && *b.Lease.Others > 0 && a.Lease.Used+b.Lease.Used == 60 &&
			*a.Lease.Others <= b.Lease.Used && *b.Lease.Others <= a.Lease.Used && a.Used == a.Lease.Used+*a.Lease.Others && a.Left == 200-a.Used
	})
	nodes[1].kill()
	nodes[1].startWith(caddyfile)
	var callers sync.WaitGroup
	began := time.Now()
	calling := func() bool { // longer on a busy machine
		took := time.Since(began)
		return took < 3*time.Second || answered.Load() < 200-10 && took < time.Minute
	}
	for i := range 6 {
		callers.Go(func() {
			for calling() && call(nodes[i%2]) {
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	callers.Wait()
	if n := answered.Load(); n > 200+2*10 || n < 200-10 {
		t.Errorf("%d of 200 were answered", n)
	}
	t.Logf("%d of 200 were answered, %d refused", answered.Load(), refused.Load())

	server.Stop()
	before := answered.Load()
	third := start("c")
	for range 50 {
		call(third)
	}
	if n := answered.Load() - before; n != 10 {
		t.Errorf("%d were answered without the database, want a lease of 10", n)
	}
	type standing struct {
		Shared    bool      `json:"shared"`
		AwaySince time.Time `json:"away_since"`
	}
	third.eventually("the status says that the limit is shared, and the database away", func() bool {
		var status struct {
			Workspaces map[string]struct {
				Limits []standing `json:"limits"`
			} `json:"workspaces"`
		}
		if err := json.Unmarshal(third.status(), &status); err != nil {
			t.Fatal(err)
		}
		limits := status.Workspaces["default"].Limits
		if len(status.Workspaces) != 1 || len(limits) != 1 || !limits[0].Shared {
			t.Fatalf("status %+v", status)
		}
		return !limits[0].AwaySince.IsZero()
	})
}

// sharedUse is the standing of a subject with a shared ceiling.
type sharedUse struct {
	Used, Left float64
	Lease      struct {
		Used   float64
		Others *float64
	}
}

// subjectOf asks a gateway for the standing of an API key with the only ceiling.
func subjectOf(t *testing.T, p *process, key string) sharedUse {
	t.Helper()
	response, err := http.Get("http://" + p.admin + "/cadenza/limits?subject=" + key)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Workspaces map[string]struct {
			Limits []struct{ Ceilings []sharedUse }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	for _, w := range answer.Workspaces {
		if len(w.Limits) == 1 && len(w.Limits[0].Ceilings) == 1 {
			return w.Limits[0].Ceilings[0]
		}
	}
	t.Fatalf("%+v", answer)
	panic("unreachable")
}

// TestFleetLetsBurstsPass has customers with a limit of ten requests, who send all of them
// at once to one of three gateways, or to all. They are answered; of larger bursts, one
// more for each gateway passes at most. Some are refused if the database takes longer than
// a call waits, as on a busy machine.
func TestFleetLetsBurstsPass(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	dir := t.TempDir()
	caddyfile := filepath.Join(dir, "Caddyfile")
	text := strings.Replace(fleetCaddyfile, "	cadenza {\n", `	cadenza {
		limit few {
			by metadata.customer
			routes prompts
			requests 10/366d
		}
`, 1)
	if err := os.WriteFile(caddyfile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var nodes []*process
	for _, name := range []string{"a", "b", "c"} {
		p := newProcess(t, filepath.Join(dir, name), "CADENZA_TRACE_KEY=a-key-that-all-of-the-fleet-has", "CADENZA_TEST_DATABASE="+server.DSN())
		p.startWith(caddyfile)
		nodes = append(nodes, p)
	}
	burst := func(customer string, calls int, nodes ...*process) (answered int64, took time.Duration) {
		var callers sync.WaitGroup
		var count atomic.Int64
		begun := time.Now()
		for i := range calls {
			callers.Go(func() {
				body := fmt.Sprintf(`{"keys":["support_reply"],"variables":{"question":"Where is it?"},"metadata":{"customer":%q}}`, customer)
				status, _, body, err := post(t.Context(), http.DefaultClient, nodes[i%len(nodes)].url+"/v1/prompts", body)
				switch {
				case err == nil && status == http.StatusOK:
					count.Add(1)
				case err != nil || status != http.StatusTooManyRequests:
					t.Errorf("%d %s %v", status, body, err)
				}
			})
		}
		callers.Wait()
		return count.Load(), time.Since(begun)
	}
	for _, node := range nodes { // the gateway connects to the database
		node.answers("/v1/prompts", `{"keys":["support_reply"],"variables":{"question":"Where is it?"},"metadata":{"customer":"first"}}`, "trace_id")
	}
	var took []time.Duration // by completely answered bursts
	for i := 0; len(took) < 10; i++ {
		customer := fmt.Sprint("of one ", i)
		answered, time := burst(customer, 10, nodes[i%3])
		if answered == 10 {
			took = append(took, time)
		} else if i == 100 {
			t.Fatalf("%d of a burst of 10 were answered, and %d of 100 bursts whole", answered, len(took))
		}
		if more, _ := burst(customer, 20, nodes...); answered+more > 12 {
			t.Errorf("%d of 30 were answered, want 10 and a lease of one for each of the two others", answered+more)
		}
		if answered, _ := burst(fmt.Sprint("of all ", i), 20, nodes...); answered > 13 {
			t.Errorf("%d of 20 were answered, want 10 and a lease of one each at most", answered)
		}
	}
	slices.Sort(took)
	t.Logf("bursts took %s, the slowest %s", took[len(took)/2], took[len(took)-1])
}
