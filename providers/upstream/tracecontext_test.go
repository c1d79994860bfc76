package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/providertest"
)

// tracedBudget has a trace context for each try.
type tracedBudget struct {
	*providertest.Budget
	state string
}

func (b tracedBudget) TraceContext() (parent, state string) {
	return fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016d-01", b.Tries()), b.state
}

// TestTraceContext: each try of a request has the headers of its own span, and the
// request itself keeps its header.
func TestTraceContext(t *testing.T) {
	for _, state := range []string{"", "vendor=1"} {
		up := providertest.NewUpstream(t).Then(providertest.Reply{Status: -1, End: providertest.Reset}).Always(providertest.JSON(200, "fine"))
		ctx := providers.WithBudget(t.Context(), tracedBudget{providertest.NewBudget(4), state})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, up.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Tracestate", "of=others")
		resp, err := newClient(t, up.URL).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if len(up.Requests()) != 2 || len(req.Header) != 1 {
			t.Fatalf("%d requests, header %v", len(up.Requests()), req.Header)
		}
		for n, r := range up.Requests() {
			if want := fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016d-01", n+1); r.Header.Get("Traceparent") != want || r.Header.Get("Tracestate") != state {
				t.Errorf("try %d has %q and %q", n+1, r.Header.Get("Traceparent"), r.Header.Get("Tracestate"))
			}
		}
	}
	up := providertest.NewUpstream(t).Always(providertest.JSON(200, "fine"))
	ctx, _ := budget(t, 1)
	if _, _, err := post(ctx, newClient(t, up.URL), up.URL, "x"); err != nil || up.Requests()[0].Header.Get("Traceparent") != "" {
		t.Errorf("without tracing: %v, %v", err, up.Requests()[0].Header)
	}
}
