package openai

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client makes a client of a test's upstream.
func client(t testing.TB, base string, change ...func(*Config)) *Client {
	t.Helper()
	u, err := url.Parse(base + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Key: "sk-test-0123456789abcdef", Upstream: upstream.Config{BaseURL: u}}
	for _, f := range change {
		f(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T, b providertest.Behaviour, _ *providers.Request) providers.Provider {
		up := providertest.NewUpstream(t)
		up.Choose(func(r providertest.Request) providertest.Reply {
			return behave(b, strings.Contains(r.Body, `"stream":true`))
		})
		return client(t, up.URL)
	})
}

// behave speaks the contract's behaviours in OpenAI's wire format.
func behave(b providertest.Behaviour, stream bool) providertest.Reply {
	if b.Status != 0 {
		r := providertest.OpenAIError(b.Status, "requests", b.Code, "Slow down.")
		r.Header["Retry-After"] = fmt.Sprint(int(b.RetryAfter / time.Second))
		return r
	}
	if !stream {
		r := providertest.OpenAIAnswer(strings.Join(b.Words, ""), len(b.Words))
		switch b.Fail {
		case providertest.Stops:
			r.Body[0], r.End = r.Body[0][:len(r.Body[0])/2], providertest.Cut
		case providertest.Stalls:
			r.Body[0], r.End = r.Body[0][:len(r.Body[0])/2], providertest.Hang
		case providertest.Reported:
			r = providertest.OpenAIError(200, "server_error", "boom", "It broke.")
		}
		return r
	}
	r := providertest.OpenAIStream(b.Words...)
	r.Delay = b.Pace
	if b.Fail != providertest.None {
		r.Body = r.Body[:1+len(b.Words)]
	}
	switch b.Fail {
	case providertest.Stops:
		r.End = providertest.Cut
	case providertest.Stalls:
		r.End = providertest.Hang
	case providertest.Reported:
		r.Body = append(r.Body, providertest.Event(providertest.ErrorObject("server_error", "boom", "It broke.")))
	}
	return r
}
