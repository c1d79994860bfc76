package gemini

import (
	"fmt"
	"io"
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

const testKey = "AIzaSy-test-0123456789abcdef"

// client makes a client of a test's upstream.
func client(t testing.TB, base string, change ...func(*Config)) *Client {
	return pt.Client(t, New, Config{Key: testKey, Upstream: upstream.Config{BaseURL: pt.URL(t, base+"/v1beta")}}, change...)
}

// subject is the client as the checks of its wire format see it.
var subject = pt.Subject{
	Name:    "gemini",
	Connect: func(t testing.TB, base string) providers.Provider { return client(t, base) },
	Open: func(body io.ReadCloser) providers.Stream {
		return newStream(upstream.Call{Provider: "gemini", Secrets: [2]string{testKey}}, body, false, nil)
	},
	Request: providers.Request{Model: "m", Messages: hello},
}

var hello = []providers.Message{{Role: "user", Content: "Hello"}}

func TestContract(t *testing.T) { pt.Run(t, contract) }

func TestTableOfParts(t *testing.T) { pt.CheckTable(t, "gemini", contract) }

// contract makes providers whose upstream behaves as the contract wants.
func contract(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
	up := upstreamOf(t, b)
	if b.Key != "" {
		return pt.Provisioned(t, &Module{Options: httpmodule.Options{APIKey: b.Key, BaseURL: up.URL + "/v1beta"}})
	}
	return client(t, up.URL)
}

// The contract holds with Vertex AI's credentials, too.
func TestContractWithToken(t *testing.T) {
	pt.Run(t, func(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
		up := upstreamOf(t, b)
		if b.Key != "" {
			return pt.Provisioned(t, &Module{Options: httpmodule.Options{BaseURL: up.URL + "/v1beta"}, Token: b.Key})
		}
		return client(t, up.URL, func(c *Config) {
			c.Key, c.Token = "", func() (string, error) { return "ya29.token", nil }
		})
	})
}

func upstreamOf(t *testing.T, b pt.Behaviour) *pt.Upstream {
	return pt.NewUpstream(t).Play(b, func(r pt.Request) pt.Reply {
		return behave(b, strings.HasSuffix(r.Path, ":streamGenerateContent"))
	})
}

// behave speaks the contract's behaviours in Gemini's wire format.
func behave(b pt.Behaviour, stream bool) pt.Reply {
	reason := b.Reason("STOP", "MAX_TOKENS", "SAFETY")
	switch {
	case b.Status != 0:
		return pt.JSON(b.Status, errorBody(b.Status, "RESOURCE_EXHAUSTED", "Slow down.",
			errorInfo(b.Code), retryInfo(fmt.Sprintf("%ds", b.RetryAfter/time.Second))))
	case stream:
		r := pt.SSE(chunks(b.Words...)...)
		for _, c := range b.Tools {
			r.Body = append(r.Body, event(toolAnswer("", c)))
		}
		if b.Thought != nil {
			r.Body[0] = signed(r.Body[0], b.Thought)
			r.Body = append([]string{thoughtChunk(b.Thought.Text)}, r.Body...)
		}
		if b.Fail == pt.Stalls {
			// A model that thinks says so.
			r.Body = append([]string{thoughtChunk("Hm.")}, r.Body...)
		}
		return b.Streamed(r, errorBody(503, "UNAVAILABLE", overloaded), finishChunk(reason, "", max(1, len(b.Words))))
	}
	r := answer(strings.Join(b.Words, ""), reason, len(b.Words))
	if len(b.Tools) > 0 {
		r = pt.JSON(200, toolAnswer(strings.Join(b.Words, ""), b.Tools...))
	}
	if b.Thought != nil {
		thought := `"parts": [{"text": ` + quote(b.Thought.Text) + `,"thought": true},`
		r.Body[0] = strings.Replace(signed(r.Body[0], b.Thought), `"parts": [`, thought, 1)
	}
	return b.Whole(r, pt.JSON(200, errorBody(500, "INTERNAL", "It broke.")))
}

// signed is an answer, or a chunk of one, whose first part has a thought's signature.
func signed(body string, thought *providers.Thought) string {
	return strings.Replace(body, `"text": `, `"thoughtSignature": `+quote(thought.Opaque)+`,"text": `, 1)
}
