package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // for a lock on the store's file

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// weighInto is the environment variable that names the page into which TestMemoryTable
// writes its table:
//
//	CADENZA_MEMORY_TABLE=docs/ceilings.md go test ./cmd/caddy -run TestMemoryTable -v -timeout 20m
const weighInto = "CADENZA_MEMORY_TABLE"

// A load is connections, calls, definitions or records that need memory of a gateway.
type load struct {
	name        string
	definitions func() map[string]string
	// hold starts the load, and returns the function that ends it.
	hold func(*testing.T, *siege) (release func())
}

var loads = []load{
	{name: "nothing", hold: func(*testing.T, *siege) func() { return nil }},
	{name: "1,000 connections that are idle", hold: idleConnections},
	{name: "1,000 calls that wait for whole answers", hold: waitingCalls(`{"key":"hang"}`)},
	{name: "1,000 streams that wait for their next piece", hold: waitingCalls(`{"key":"hang_in_stream","stream":true}`)},
	{name: "10,000 definitions: configurations of one row each", definitions: tenThousand, hold: func(*testing.T, *siege) func() { return nil }},
	{name: "a store that takes nothing, and a full queue", hold: fullQueue},
	{name: "caches of evaluations and of models' answers, full", definitions: remembering, hold: fullCaches},
}

// light returns definitions that take little memory.
func light() map[string]string {
	files := map[string]string{"context.yaml": "fields: { s: { type: string } }\n"}
	for _, model := range []string{"hang", "hang_in_stream"} {
		files["prompts/p_"+model+".yaml"] = "provider: hostile\nmodel: " + model + "\nmessages: [ { role: user, content: hello } ]\n"
		files["endpoints/"+model+".yaml"] = "prompt: p_" + model + "\nmax_attempts: 1\ntimeout: { total: 10m, first_token: 10m, idle: 10m }\n"
	}
	for i := range hundred {
		files[fmt.Sprintf("remoteconfigs/small%02d.yaml", i)] = "type: string\ndefault: a\n"
	}
	return files
}

func tenThousand() map[string]string {
	files := light()
	for i := range 10_000 {
		files[fmt.Sprintf("remoteconfigs/c%04d.yaml", i)] = "type: number\ndefault: 1\ncolumns: [ s, value ]\nmatrix:\n  - [ x, 2 ]\n"
	}
	return files
}

func remembering() map[string]string {
	files := light()
	for i := range hundred {
		text := "type: string\ndefault: a\nrules:\n"
		for j := range 10 {
			text += fmt.Sprintf("  - { when: { s: { matches: 'x+y%d[a-z]+z$' } }, value: b }\n", j)
		}
		files[fmt.Sprintf("remoteconfigs/small%02d.yaml", i)] = text
	}
	files["prompts/p_large.yaml"] = "provider: hostile\nmodel: large\nvariables: { text: { default: x } }\nmessages: [ { role: user, content: '{{text}}' } ]\n"
	files["endpoints/large.yaml"] = "prompt: p_large\ncache: { ttl: 1h }\nlog: none\n"
	return files
}

// crowd sends n concurrent requests that wait until release.
func crowd(t *testing.T, s *siege, n int, body string, held func() bool) (release func()) {
	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{}}
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/endpoints", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer "+attackerKey)
			response, err := client.Do(request)
			if err != nil {
				return
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("a call that should be held: %s", response.Status)
			}
			<-ctx.Done()
		})
	}
	if err := until(gatewaytest.Patience, held); err != nil {
		t.Errorf("%d calls are not held: %v", n, err)
	}
	return func() { cancel(); wait.Wait() }
}

func waitingCalls(body string) func(*testing.T, *siege) func() {
	return func(t *testing.T, s *siege) func() {
		return crowd(t, s, 1000, body, func() bool { return s.upstream.hanging.Load() == 1000 })
	}
}

func idleConnections(t *testing.T, s *siege) func() {
	transport := &http.Transport{MaxIdleConnsPerHost: 1000, MaxConnsPerHost: 1000}
	client := &http.Client{Transport: transport}
	var wait sync.WaitGroup
	var begun sync.WaitGroup
	begun.Add(1000)
	for range 1000 {
		wait.Go(func() {
			request, err := http.NewRequest(http.MethodPost, s.url+"/v1/remoteconfigs", strings.NewReader(`{"keys":["small00"]}`))
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer "+attackerKey)
			response, err := client.Do(request)
			begun.Done()
			if err != nil {
				t.Error(err)
				return
			}
			begun.Wait() // so that each has its own connection
			response.Body.Close()
		})
	}
	wait.Wait()
	return transport.CloseIdleConnections
}

// fullQueue locks the store's file, and sends requests until records are dropped.
func fullQueue(t *testing.T, s *siege) func() {
	db, err := sql.Open("sqlite", filepath.Join(s.data, "cadenza.db"))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if err := until(gatewaytest.Patience, func() bool {
		if s.metric(t, "cadenza_store_up") != 1 {
			return false // the file does not exist yet
		}
		_, err = db.Exec("BEGIN IMMEDIATE")
		return err == nil
	}); err != nil {
		t.Fatal(err)
	}
	body := `{"keys":` + keysOf("small", hundred) + `,"context":{"s":"` + strings.Repeat("c", 8<<10) + `"},"metadata":{"m":"` + strings.Repeat("m", 8<<10) + `"}}`
	for i := 0; s.metric(t, "cadenza_store_dropped_total", `reason="queue_full"`) == 0; i++ {
		if r := s.ask(t, attackerKey, "/v1/remoteconfigs", body); r.status != http.StatusOK || i > 2000 {
			t.Fatalf("the queue is not full after %d requests: %s", i, r)
		}
	}
	return func() {
		_, _ = db.Exec("ROLLBACK")
		db.Close()
	}
}

// fullCaches makes more requests than the caches can store.
func fullCaches(t *testing.T, s *siege) func() {
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for i := range 200 {
				body := fmt.Sprintf(`{"keys":%s,"context":{"s":"%d %d"}}`, keysOf("small", hundred), worker, i)
				if r, err := s.send(t.Context(), attackerKey, "/v1/remoteconfigs", strings.NewReader(body), "Cadenza-Log", "none"); err != nil || r.status != http.StatusOK {
					t.Errorf("configurations: %v %s", err, r)
					return
				}
				if i%10 > 0 {
					continue
				}
				body = fmt.Sprintf(`{"key":"large","variables":{"text":"%d %d"}}`, worker, i)
				if r, err := s.send(t.Context(), attackerKey, "/v1/endpoints", strings.NewReader(body)); err != nil || r.status != http.StatusOK {
					t.Errorf("an answer: %v %s", err, r)
					return
				}
			}
		})
	}
	wait.Wait()
	return nil
}

// TestMemoryTable measures the memory of the gateway under each kind of load and
// writes a table of it into a page. It asserts nothing, and is run by hand.
func TestMemoryTable(t *testing.T) {
	page := os.Getenv(weighInto)
	if page == "" {
		t.Skip("set " + weighInto + " to the page to write")
	}
	var table strings.Builder
	table.WriteString("| held | resident at rest | at most, until then |\n|---|---|---|\n")
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) {
			definitions := light
			if l.definitions != nil {
				definitions = l.definitions
			}
			s := newSiege(t, definitions())
			s.begin(t, gatewayBinary(t), "")
			release := l.hold(t, s)
			time.Sleep(5 * time.Second) // until running work has ended
			// Go collects garbage every two minutes at least; here it must do so at once.
			if status, _ := s.get(t, "/debug/pprof/heap?gc=1"); status != http.StatusOK {
				t.Errorf("asking for a collection: %d", status)
			}
			time.Sleep(2 * time.Second)
			rest, err := memory(s.command.Process.Pid, "VmRSS")
			if err != nil {
				t.Fatal(err)
			}
			peak, err := memory(s.command.Process.Pid, "VmHWM")
			if err != nil {
				t.Fatal(err)
			}
			if release != nil {
				release()
			}
			rounded := func(bytes int64) int64 { return (bytes + 5e6) / 10e6 * 10 }
			fmt.Fprintf(&table, "| %s | %d MB | %d MB |\n", l.name, rounded(rest), rounded(peak))
		})
	}
	t.Log("\n" + table.String())
	if !filepath.IsAbs(page) {
		page = filepath.Join("..", "..", page)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- memory: begin -->\n", "<!-- memory: end -->"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no table between its markers", page)
	}
	if t.Failed() {
		return
	}
	if err := os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
