package gateway_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// TestMetadataCeiling sends metadata at the ceiling and above it, to every route that
// takes it, with the default and with the option.
func TestMetadataCeiling(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	metadata := func(bytes int) string { return `{"n":"` + strings.Repeat("x", bytes-len(`{"n":""}`)) + `"}` }
	id := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
	check := func(limit int) {
		t.Helper()
		for path, body := range map[string]string{
			"/v1/prompts":                    `{"keys":["hello"],"metadata":`,
			"/v1/remoteconfigs":              `{"keys":["limits"],"metadata":`,
			"/v1/endpoints":                  `{"key":"chat","variables":{"question":"?"},"metadata":`,
			"/v1/metrics":                    `{"metadata":`,
			"/v2/prompts/" + id + "/metrics": `{"metadata":`,
		} {
			if a := g.post(path, body+metadata(limit)+"}"); a.status != http.StatusOK {
				t.Errorf("%s at the ceiling of %d: %d %s", path, limit, a.status, a.body)
			}
			a := g.post(path, body+metadata(limit+1)+"}")
			if a.status != http.StatusBadRequest {
				t.Errorf("%s past the ceiling of %d: %d", path, limit, a.status)
			}
			checkError(t, a, "invalid_request", "metadata")
		}
	}
	check(16 << 10)
	g.load(with(func(c *gw.WorkspaceConfig) { c.MaxMetadataSize = 100 }))
	check(100)
}

// TestReplyOfAnAPIKey checks that a reply counts for the API key that got it.
func TestReplyOfAnAPIKey(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	g.keyed("k-1", "/v1/metrics", `{"score":1}`).ok(t)
	var apiKey string
	var bytes int64
	if err := g.database().QueryRow("SELECT api_key, bytes FROM reply_totals").Scan(&apiKey, &bytes); err != nil || apiKey != "test" || bytes == 0 {
		t.Errorf("the replies of %q take %d bytes, %v", apiKey, bytes, err)
	}
}

func TestEvictionsAreCounted(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	g.store.Config().OnEvicted("replies", 3, time.Time{})
	want := fmt.Sprintf(`cadenza_store_evicted_total{store=%q,table="replies"} 3`, filepath.Join(g.dir, "data/cadenza.db"))
	if metrics := g.scrape(); !strings.Contains(metrics, want) {
		t.Errorf("the metrics have no %s", want)
	}
}

// TestWorkspacesShareTheQueue adds and removes workspaces: each has one part of the
// queue while it is configured.
func TestWorkspacesShareTheQueue(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	others := all(withWorkspace("a", map[string]string{"a": keyA}), withWorkspace("b", map[string]string{"b": keyB}))
	for _, step := range []struct {
		options setting
		want    int
	}{
		{options, 1},
		{others, 3},
		{others, 3},
		{options, 1},
	} {
		g.load(step.options)
		eventually(t, "each has its part", func() bool { return g.store.Recorder.Stats().Joined == step.want })
		if got := len(g.store.Recorder.Stats().Workspaces); got < step.want {
			t.Errorf("losses of %d workspaces are counted, want %d", got, step.want)
		}
	}
}
