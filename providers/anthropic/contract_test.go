package anthropic

import (
	"io"
	"slices"
	"strings"
	"testing"

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
	return pt.Client(t, New, Config{Key: testKey, Upstream: upstream.Config{BaseURL: pt.URL(t, base+"/v1")}}, change...)
}

// subject is the client as the checks of its wire format see it.
var subject = pt.Subject{
	Name:    "anthropic",
	Connect: func(t testing.TB, base string) providers.Provider { return client(t, base) },
	Open: func(body io.ReadCloser) providers.Stream {
		return newStream(upstream.Call{Provider: "anthropic", Secrets: [2]string{testKey}}, body, nil)
	},
	Request: providers.Request{Model: "m", Messages: hello},
}

var hello = []providers.Message{{Role: "user", Content: "Hello"}}

func TestContract(t *testing.T) { pt.Run(t, contract) }

func TestTableOfParts(t *testing.T) { pt.CheckTable(t, "anthropic", contract) }

// contract makes providers whose upstream behaves as the contract wants.
func contract(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
	up := pt.NewUpstream(t)
	up.Play(b, func(r pt.Request) pt.Reply {
		return behave(b, strings.Contains(r.Body, `"stream":true`))
	})
	if b.Key != "" {
		return pt.Provisioned(t, &Module{Options: httpmodule.Options{APIKey: b.Key, BaseURL: up.URL + "/v1"}})
	}
	return client(t, up.URL)
}

// behave speaks the contract's behaviours in the Messages API's wire format.
func behave(b pt.Behaviour, stream bool) pt.Reply {
	reason := b.Reason("end_turn", "max_tokens", "refusal")
	switch {
	case b.Status != 0:
		return b.Rejection(errorBody(b.Code, "Slow down."))
	case stream:
		r := sse(opening(), deltas(b.Words...))
		if b.Thought != nil {
			r.Body = slices.Insert(r.Body, 1, thinks(0, b.Thought.Text, b.Thought.Opaque))
		}
		if len(b.Tools) > 0 {
			reason = "tool_use"
			r.Body = append(r.Body, blockStop)
		}
		for i, c := range b.Tools {
			r.Body = append(r.Body, toolBlock(1+i, c)...)
		}
		return b.Streamed(r, errorEvent("overloaded_error", "Overloaded"), closing(reason, len(b.Words))...)
	}
	r := answer(strings.Join(b.Words, ""), reason, len(b.Words))
	if len(b.Tools) > 0 {
		r = toolAnswer(strings.Join(b.Words, ""), b.Tools)
	}
	if b.Thought != nil {
		r.Body[0] = strings.Replace(r.Body[0], `"content":[`, `"content":[{"type":"thinking","thinking":`+quote(b.Thought.Text)+`,"signature":`+quote(b.Thought.Opaque)+`},`, 1)
	}
	return b.Whole(r, pt.JSON(200, errorBody("api_error", "It broke.")))
}
