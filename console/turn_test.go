package console

import (
	"context"
	"net/http/httptest"
	"testing"
)

// TestPagesTakeTurns asks for a page while another one is being made, and has left: the page
// is never begun.
func TestPagesTakeTurns(t *testing.T) {
	pageTurn <- struct{}{}
	defer func() { <-pageTurn }()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	new(Handler).takeTurn(w, httptest.NewRequestWithContext(ctx, "GET", "/console/", nil), nil)
	if w.Body.Len() > 0 || len(w.Header()) > 0 {
		t.Errorf("the answer is %v %s", w.Header(), w.Body)
	}
}
