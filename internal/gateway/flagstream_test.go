package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// flagAddress returns the address in eventStreams of an answer to a request to this path.
func flagAddress(t *testing.T, g *gateway, path string, began time.Time) string {
	t.Helper()
	text := g.current.Load().EventStreams(httptest.NewRequest(http.MethodPost, path, nil), "default", "test", began)
	var member struct {
		EventStreams []struct {
			Type               string
			Endpoint           map[string]string
			InactivityDelaySec int
		}
	}
	decoder := json.NewDecoder(strings.NewReader("{" + text + "}"))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&member); err != nil || len(member.EventStreams) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	s := member.EventStreams[0]
	if s.Type != "sse" || s.InactivityDelaySec != 120 || len(s.Endpoint) != 1 {
		t.Errorf("%s", text)
	}
	return s.Endpoint["requestUri"]
}

// TestEventStreams checks the address in answers with flags: that it opens a stream that
// holds nothing, where a site serves it, and for how long it stays the same.
func TestEventStreams(t *testing.T) {
	g := startGateway(t, workspace, with(func(c *gw.WorkspaceConfig) { c.MaxFlagStreams = 1 }))
	noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const flags = "/ofrep/v1/evaluate/flags"
	address := flagAddress(t, g, flags, time.Now())
	for path, before := range map[string]string{
		flags:                         "",
		flags + "?flagConfigEtag=a":   "",
		"/below" + flags:              "/below",
		"/a%2Fb%20%22" + flags:        "/a%2Fb%20%22",
		"//elsewhere.example" + flags: "", // an address of another host
		"/flags":                      "",
	} {
		if got := flagAddress(t, g, path, noon); !strings.HasPrefix(got, before+"/ofrep/v1/events?token=") {
			t.Errorf("%s: %s", path, got)
		}
	}
	same, next := flagAddress(t, g, flags, noon.Add(11*time.Hour)), flagAddress(t, g, flags, noon.Add(12*time.Hour))
	if first := flagAddress(t, g, flags, noon); first != same || first == next {
		t.Errorf("%s, on the same day %s, on the next %s", first, same, next)
	}

	open := func(address string) *http.Response {
		t.Helper()
		response, err := g.client.Get("http://gateway" + address)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
	stream := open(address)
	defer stream.Body.Close()
	start := make([]byte, 200)
	n, err := stream.Body.Read(start)
	u, _ := url.Parse(address)
	if text := string(start[:n]); err != nil || stream.StatusCode != http.StatusOK || !strings.HasSuffix(text, "\nid: "+u.Query().Get("since")+"\n\n") || strings.Contains(text, "data:") {
		t.Fatalf("%d %q, %v: the client asked a moment ago", stream.StatusCode, text, err)
	}
	if leases := g.store.Leases() + g.memory["default"].Leases(); leases != 0 {
		t.Errorf("the stream holds %d leases", leases)
	}
	refused := open(address)
	body, _ := io.ReadAll(refused.Body)
	refused.Body.Close()
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("beyond the ceiling: %d %s", refused.StatusCode, body)
	}
	if _, opens := g.current.Load().Session(u.Query().Get("token"), time.Now()); opens {
		t.Error("the token opens the console")
	}
}
