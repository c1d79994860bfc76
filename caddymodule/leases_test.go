package caddymodule_test

import (
	"bufio"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cadenza-gateway/cadenza/caddymodule"
)

// TestLeases has a reload close nothing under a request, and everything behind
// it: each request holds its workspace's store and memory as long as it runs,
// and no longer.
func TestLeases(t *testing.T) {
	next := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(next) })
	defer letGo()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chunk("before", ""))
		w.(http.Flusher).Flush()
		<-next
		io.WriteString(w, chunk(" after", "stop")+"data: [DONE]\n\n")
	})
	g := startGateway(t, single(), fakeProvider(u.URL))
	ofStore, ofMemory := caddymodule.CountLeases()
	response, err := g.send(t.Context(), "POST", "/v1/endpoints", `{"key":"chat","stream":true,`+question+`}`, bearer(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	reader := bufio.NewReader(response.Body)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "before") {
		t.Fatalf("%q, %v", line, err)
	}
	if s, m := ofStore(), ofMemory(); s != 1 || m != 1 {
		t.Errorf("a stream holds %d leases of the store and %d of the memory", s, m)
	}
	id := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	for path, body := range map[string]string{
		"/v1/remoteconfigs": `{"keys":["checkout"]}`,
		"/v1/metrics":       `{"trace_id":"` + id + `","score":1}`,
		"/v1/prompts":       `not JSON`,
		"/v1/endpoints":     `{"key":"nothing"}`,
	} {
		g.post(path, body)
	}
	letGo()
	events(t, reader)
	eventually(t, "all leases are given back", func() bool { return ofStore() == 0 && ofMemory() == 0 })
}

// TestFormerStoreIsClosed has the store of a former configuration closed as soon
// as its last request has ended.
func TestFormerStoreIsClosed(t *testing.T) {
	g := startGateway(t, workspace, options)
	g.site(options, observed)
	if a := g.post("/v1/prompts", `{"keys":["hello"]}`); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	open := func(name string) bool {
		return strings.Contains(g.scrape(), `cadenza_store_up{store="`+filepath.Join(g.dir, "data", name)+`"} 1`)
	}
	eventually(t, "the store is open", func() bool { return open("cadenza.db") })
	g.site(strings.Replace(options, "cadenza.db", "other.db", 1), observed)
	eventually(t, "the former store is closed", func() bool { return open("other.db") && !open("cadenza.db") })
}
