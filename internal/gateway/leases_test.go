package gateway_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestLeases checks that a reload closes nothing that a running request uses, and everything
// afterwards: each request uses its workspace's store and memory until it ends.
func TestLeases(t *testing.T) {
	t.Parallel()
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
	ofStore, ofMemory := g.store.Leases, g.memory["default"].Leases
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
