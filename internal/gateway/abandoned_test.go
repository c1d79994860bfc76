package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// reader is a provider that ignores its context, and reads its request when the call
// has long ended.
type reader struct {
	letGo chan struct{}
	read  chan string
}

func (r reader) Invoke(_ context.Context, request *providers.Request) (providers.Stream, error) {
	if strings.Trim(request.Messages[len(request.Messages)-1].Content, "b") == "" {
		return nil, errors.New("no") // one of those that come after it
	}
	<-r.letGo
	r.read <- request.Messages[len(request.Messages)-1].Content
	return nil, errors.New("too late")
}

// TestAbandonedProvidersKeepTheirRequest: a provider that goes on after its call may
// still read the caller's messages, which are views of the request's buffers. These
// are never used again.
func TestAbandonedProvidersKeepTheirRequest(t *testing.T) {
	t.Parallel()
	r := reader{make(chan struct{}), make(chan string, 1)}
	files := conversation("max_attempts: 1\ntimeout: { total: 1s }\n")
	files["definitions/endpoints/team/talk.yaml"] = strings.ReplaceAll(files["definitions/endpoints/team/talk.yaml"], "fallback: [ { provider: other, model: large } ]\n", "")
	g := startGateway(t, files, withProvider("scripted", r))
	asked := func(text string) answer {
		return g.post("/v1/endpoints", `{"key":"team/talk","messages":[{"role":"user","content":"`+strings.Repeat(text, 200_000)+`"}]}`)
	}
	if a := asked("a"); a.status != http.StatusGatewayTimeout {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for range 20 {
		asked("b")
	}
	close(r.letGo)
	if text := <-r.read; strings.Trim(text, "a") != "" {
		t.Error("another request is in the one that a provider reads")
	}
}
