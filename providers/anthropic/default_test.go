package anthropic

import (
	"errors"
	"net/http"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// sniffer keeps the URL of the request that it would send.
type sniffer struct{ url string }

func (s *sniffer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.url = r.URL.String()
	return nil, errors.New("not sent")
}

// TestWhereACallGoes holds where a client calls that is given nothing but a key.
func TestWhereACallGoes(t *testing.T) {
	c, err := New(Config{Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	var sent sniffer
	c.http.Transport = &sent
	if _, err := c.Invoke(t.Context(), &providers.Request{Model: "claude-sonnet-4-6", Messages: hello}); err == nil {
		t.Fatal("answered")
	}
	if sent.url != "https://api.anthropic.com/v1/messages" {
		t.Errorf("sent to %s", sent.url)
	}
}
