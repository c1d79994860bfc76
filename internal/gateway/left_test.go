package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Nothing is decided for a caller who has left: the request ends.
func TestWhoHasLeftNeedsNoDecision(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	c := &call{r: httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/remoteconfigs", nil)}
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("it goes on: %v", p)
		}
	}()
	c.decide(trace.KindRemoteConfig, nil, nil)
}
