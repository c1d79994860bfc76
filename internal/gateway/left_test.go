package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// The gateway makes no decision for a caller that has left: the request ends.
func TestWhoHasLeftNeedsNoDecision(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	leave()
	c := callOf(incoming{r: httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/remoteconfigs", nil)})
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("it goes on: %v", p)
		}
	}()
	c.evaluation.decide(nil)
}
