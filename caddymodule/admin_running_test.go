package caddymodule_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdminShowsRunningCalls asks for a running call in every output of traces, and again
// when it has ended. Each output has it once, with its state.
func TestAdminShowsRunningCalls(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-release
		completion(w, "at last")
	})
	files := map[string]string{"definitions/endpoints/talk.yaml": "prompt: reply\n"}
	for name, content := range workspace {
		files[name] = content
	}
	options := withoutFake + "\nlog content\nprovider fake openai {\nbase_url " + u.URL + "/v1\napi_key {env.CADENZA_TEST_KEY}\n}\n"
	g := startGateway(t, files, options)
	address := adminOf(t, g, options)
	before := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	eventually(t, "the prompt's trace is stored", func() bool { _, ok := g.trace("data/cadenza.db", before); return ok })
	since := lastSeq(t, address)
	done := make(chan string)
	go func() {
		done <- g.post("/v1/endpoints", `{"key":"talk","metadata":{"user":"ada","n":7,"conversation_id":"c-9"},`+question+`}`).header.Get("Cadenza-Trace-Id")
	}()
	<-asked
	_, answer := callAdmin(t, "GET", address, "/cadenza/traces?state=started", "")
	ids := listed(t, answer)
	if len(ids) != 1 {
		t.Fatalf("under way: %v", answer)
	}
	id := ids[0]
	decision := answer["traces"].([]any)[0].(map[string]any)["decision_id"].(string)
	if a := g.post("/v1/metrics", `{"trace_id":"`+id+`","score":40}`); a.status != http.StatusOK {
		t.Fatalf("a report on a call that is under way: %d %s", a.status, a.body)
	}

	check := func(state string, has map[string]bool) {
		t.Helper()
		for query, want := range has {
			_, answer := callAdmin(t, "GET", address, "/cadenza/traces?"+query, "")
			count := 0
			for _, one := range answer["traces"].([]any) {
				if one := one.(map[string]any); one["trace_id"] == id {
					count++
					if one["state"] != state || one["messages"] != nil {
						t.Errorf("%s, %s: %v", state, query, one)
					}
				}
			}
			if count > 1 || want != (count == 1) {
				t.Errorf("%s, %s: %d times", state, query, count)
			}
		}
		for _, path := range []string{id, id[:35], strings.ReplaceAll(id, "-", "")[:31]} {
			_, story := callAdmin(t, "GET", address, "/cadenza/traces/"+path, "")
			one, _ := story["trace"].(map[string]any)
			if one["trace_id"] != id || one["state"] != state || one["messages"] == nil || fmt.Sprint(story["metrics_total"]) != "1" ||
				story["definition"] == nil || story["prompt"] == nil {
				t.Errorf("%s, by %s: %v", state, path, story)
			}
		}
		for _, path := range []string{decision, decision[:35]} {
			_, story := callAdmin(t, "GET", address, "/cadenza/traces/"+path, "")
			if traces, _ := story["traces"].([]any); len(traces) != 1 || traces[0].(map[string]any)["state"] != state {
				t.Errorf("%s, decision %s: %v", state, path, story)
			}
		}
		response, err := http.Get("http://" + address + "/cadenza/export")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var text strings.Builder
		if err := response.Write(&text); err != nil {
			t.Fatal(err)
		}
		if all := text.String(); strings.Count(all, `{"trace":{"trace_id":"`+id+`"`) != 1 || strings.Count(all, `"state":"`+state+`"`) < 1 ||
			strings.Count(all, `"score":40`) != 1 || !strings.Contains(all, `"messages":[`) {
			t.Errorf("%s, exported: %s", state, all)
		}
	}
	filters := map[string]bool{
		"": true, "key=talk": true, "key=hello": false, "kind=endpoint": true, "kind=prompt": false, "metadata.user=ada": true, "metadata.user=bob": false,
		"metadata.n=7": true, "conversation_id=c-9": true, "conversation_id=c-8": false, "api_key=test": true, "decision=" + decision: true, "since=1h": true,
		"until=1h": false, "limit=1": true, "limit=1&before=" + id: false, "workspace=default": true, "follow=" + since: true, "provider=fake": true,
	}
	for query, want := range map[string]bool{"state=started": true, "state=ended": false, "status=ok": false, "status=error": false} {
		filters[query] = want
	}
	check("started", filters)
	// Read page by page, no trace is missing, and none comes twice.
	var pages []string
	for before := ""; ; {
		_, answer := callAdmin(t, "GET", address, "/cadenza/traces?limit=1"+before, "")
		pages = append(pages, listed(t, answer)...)
		next, more := answer["next"].(string)
		if !more {
			break
		}
		before = "&before=" + next
	}
	if fmt.Sprint(pages) != fmt.Sprint([]string{id, before}) {
		t.Errorf("the pages: %q", pages)
	}
	_, answer = callAdmin(t, "GET", address, "/cadenza/traces?follow="+since, "")
	since = fmt.Sprintf("%.0f", answer["follow"])
	if _, answer = callAdmin(t, "GET", address, "/cadenza/traces?follow="+since, ""); len(listed(t, answer)) != 0 {
		t.Errorf("followed twice: %v", answer)
	}

	close(release)
	if got := <-done; got != id {
		t.Fatalf("the answer's id is %s", got)
	}
	eventually(t, "the end is stored", func() bool { _, ok := g.trace("data/cadenza.db", id); return ok })
	// The list of running calls lets go of a call a moment after its end is stored.
	eventually(t, "the call is under way no more", func() bool {
		_, answer := callAdmin(t, "GET", address, "/cadenza/traces?state=started", "")
		return len(listed(t, answer)) == 0
	})
	filters["state=started"], filters["state=ended"], filters["status=ok"] = false, true, true
	check("ended", filters)
	eventually(t, "the start record is cleared", func() bool {
		for _, name := range []string{"data/cadenza.db-calls", "data/cadenza.db-calls-2"} {
			if text, err := os.ReadFile(filepath.Join(g.dir, name)); err != nil || strings.Contains(string(text), "ada") {
				return false
			}
		}
		return true
	})
}
