package acme

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

func TestContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T, b providertest.Behaviour, _ *providers.Request) providers.Provider {
		if b.Thought != nil {
			return nil // Acme says nothing of what its models think
		}
		up := providertest.NewUpstream(t).Play(b, func(r providertest.Request) providertest.Reply {
			return behave(b, strings.Contains(r.Body, `"stream":true`))
		})
		base, err := url.Parse(up.URL)
		if err != nil {
			t.Fatal(err)
		}
		key := func() (string, error) { return "a-key", nil }
		if b.Key != "" {
			key = b.Key.Rotating(upstream.CheckKey).Value
		}
		c, err := New(upstream.Config{BaseURL: base}, key)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	})
}

// behave speaks the contract's behaviours in Acme's wire format.
func behave(b providertest.Behaviour, stream bool) providertest.Reply {
	if b.Status != 0 {
		return b.Rejection(fmt.Sprintf(`{"code":%q,"message":"Slow down."}`, b.Code))
	}
	words := b.Words
	if !stream && len(words) > 0 {
		words = []string{strings.Join(words, "")}
	}
	r := providertest.SSE()
	for _, w := range words {
		r.Body = append(r.Body, providertest.Event(`{"text":`+providertest.Quote(w)+`}`))
	}
	end := fmt.Sprintf(`{"done":%q,"in":9,"out":%d}`, b.Reason("stop", "limit", "policy"), max(1, len(b.Words)))
	return b.Streamed(r, providertest.Event(`{"error":"broken"}`), providertest.Event(end))
}
