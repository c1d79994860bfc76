package anthropic

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "sk-ant-api03-0123456789abcdef"

// client makes a client of a test's upstream.
func client(t testing.TB, base string, change ...func(*Config)) *Client {
	t.Helper()
	u, err := url.Parse(base + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Key: testKey, Upstream: upstream.Config{BaseURL: u}}
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

// subject is the client as the checks of its wire format see it.
var subject = pt.Subject{
	Name:    "anthropic",
	Connect: func(t testing.TB, base string) providers.Provider { return client(t, base) },
	Open: func(body io.ReadCloser) providers.Stream {
		return newStream(call{&Client{name: "anthropic"}, testKey}, body, nil)
	},
	Request: providers.Request{Model: "m", Messages: hello},
}

var hello = []providers.Message{{Role: "user", Content: "Hello"}}

func TestContract(t *testing.T) {
	pt.Run(t, func(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
		up := pt.NewUpstream(t)
		up.Play(b, func(r pt.Request) pt.Reply {
			return behave(b, strings.Contains(r.Body, `"stream":true`))
		})
		if b.Key != "" {
			m := &Module{Options: httpmodule.Options{APIKey: b.Key, BaseURL: up.URL + "/v1"}}
			if err := provision(t, m); err != nil {
				t.Fatal(err)
			}
			return m
		}
		return client(t, up.URL)
	})
}

// stopReason is why an answer without tool calls ends.
func stopReason(b pt.Behaviour) string {
	switch b.Finish {
	case "", providers.FinishStop:
		return "end_turn"
	case providers.FinishLength:
		return "max_tokens"
	case providers.FinishContentFilter:
		return "refusal"
	}
	return string(b.Finish)
}

// behave speaks the contract's behaviours in the Messages API's wire format.
func behave(b pt.Behaviour, stream bool) pt.Reply {
	if b.Status != 0 {
		r := pt.JSON(b.Status, errorBody(b.Code, "Slow down."))
		r.Header["Retry-After"] = fmt.Sprint(int(b.RetryAfter / time.Second))
		return r
	}
	if !stream {
		r := answer(strings.Join(b.Words, ""), stopReason(b), len(b.Words))
		if len(b.Tools) > 0 {
			r = toolAnswer(strings.Join(b.Words, ""), b.Tools)
		}
		switch b.Fail {
		case pt.Stops:
			r.Body[0], r.End = r.Body[0][:len(r.Body[0])/2], pt.Cut
		case pt.Stalls:
			r.Body[0], r.End = r.Body[0][:len(r.Body[0])/2], pt.Hang
		case pt.Reported:
			r = pt.JSON(200, errorBody("api_error", "It broke."))
		}
		return r
	}
	r := sse(opening(), deltas(b.Words...))
	r.Delay = b.Pace
	stop := stopReason(b)
	if len(b.Tools) > 0 {
		stop = "tool_use"
		r.Body = append(r.Body, blockStop)
		for i, c := range b.Tools {
			r.Body = append(r.Body, toolBlock(1+i, c)...)
		}
	}
	switch b.Fail {
	case pt.None:
		r.Body = append(r.Body, closing(stop, len(b.Words))...)
	case pt.Stops:
		r.End = pt.Cut
	case pt.Stalls:
		r.End = pt.Hang
	case pt.Reported:
		r.Body = append(r.Body, errorEvent("overloaded_error", "Overloaded"))
	}
	return r
}
