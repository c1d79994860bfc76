package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// slowBrowser notes whether a page holds the turn while its bytes are taken.
type slowBrowser struct {
	*httptest.ResponseRecorder
	held bool
}

func (b *slowBrowser) Write(text []byte) (int, error) {
	b.held = b.held || len(pageTurn) > 0
	return b.ResponseRecorder.Write(text)
}

// TestPagesTakeTurns asks for a page while another one is being made. A visitor who leaves
// gets nothing, and somebody who reads slowly keeps nobody waiting.
func TestPagesTakeTurns(t *testing.T) {
	h := newHandler(t)
	ask := func(ctx context.Context) *slowBrowser {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/console/traces", http.NoBody)
		r.RemoteAddr = "127.0.0.1:1"
		r.AddCookie(&http.Cookie{Name: plainCookie, Value: "sealed"})
		w := &slowBrowser{ResponseRecorder: httptest.NewRecorder()}
		h.servePage(w, r, &page{Path: "traces", template: "message.html", build: func(v *visit) (any, error) { return message{}, nil }})
		return w
	}
	pageTurn <- struct{}{}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if w := ask(ctx); w.Body.Len() > 0 || len(w.Header()) > 0 {
		t.Errorf("the answer is %v %s", w.Header(), w.Body)
	}
	<-pageTurn
	if w := ask(t.Context()); w.Body.Len() == 0 || w.held {
		t.Errorf("%d bytes are sent, held: %v", w.Body.Len(), w.held)
	}
	if len(pageTurn) > 0 {
		t.Error("a page never ends its turn")
	}
}
