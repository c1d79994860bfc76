package bedrock

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "bedrock-api-key-0123456789abcdef"

// client makes a client of a test's upstream.
func client(t testing.TB, base string, change ...func(*Config)) *Client {
	key := func() (string, error) { return testKey, nil }
	return pt.Client(t, New, Config{Region: "eu-central-1", APIKey: key, Upstream: upstream.Config{BaseURL: pt.URL(t, base)}}, change...)
}

// subject is the client as the checks of its wire format see it.
var subject = pt.Subject{
	Name:    "bedrock",
	Connect: func(t testing.TB, base string) providers.Provider { return client(t, base) },
	Open: func(body io.ReadCloser) providers.Stream {
		return newStream(upstream.Call{Provider: "bedrock"}, body, testModel, nil)
	},
	Request: *request(false),
}

func TestContract(t *testing.T) { pt.Run(t, contract) }

func TestTableOfParts(t *testing.T) { pt.CheckTable(t, "bedrock", contract) }

// contract makes providers whose upstream behaves as the contract wants.
func contract(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
	up := upstreamOf(t, b)
	if b.Key != "" {
		return pt.Provisioned(t, &Module{Options: httpmodule.Options{APIKey: b.Key, BaseURL: up.URL}, Region: "eu-central-1"})
	}
	return client(t, up.URL)
}

// The contract holds with signed requests, too. Of the signer only the
// access key's id shows in a request.
func TestContractSigned(t *testing.T) {
	pt.Run(t, func(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
		up := upstreamOf(t, b)
		t.Setenv("BEDROCK_TEST_KEY", "0123456789")
		id := secret.Reference("{env.BEDROCK_TEST_KEY}")
		if b.Key != "" {
			id = b.Key
		}
		return pt.Provisioned(t, &Module{Options: httpmodule.Options{BaseURL: up.URL}, Region: "eu-central-1", AccessKeyID: id, SecretAccessKey: "{env.BEDROCK_TEST_KEY}"})
	})
}

func upstreamOf(t *testing.T, b pt.Behaviour) *pt.Upstream {
	return pt.NewUpstream(t).Play(b, func(r pt.Request) pt.Reply {
		return behave(b, strings.HasSuffix(r.Path, "/converse-stream"))
	})
}

// behave speaks the contract's behaviours in Bedrock's wire format.
func behave(b pt.Behaviour, stream bool) pt.Reply {
	reason := b.Reason("end_turn", "max_tokens", "content_filtered")
	switch {
	case b.Status != 0:
		r := failure(b.Status, b.Code, "Too many requests, please wait before trying again.")
		r.Header["Retry-After"] = fmt.Sprint(int(b.RetryAfter / time.Second))
		return r
	case stream:
		r := streamed(wholeStream(b.Words...)[:1+len(b.Words)]...)
		if b.Thought != nil {
			r.Body = slices.Insert(r.Body, 1, piece(`{"text":`+quote(b.Thought.Text)+`}`), piece(`{"signature":`+quote(b.Thought.Opaque)+`}`), blockStop())
		}
		end := []string{blockStop(), stop(reason), metadata(9, len(b.Words))}
		for i, c := range b.Tools {
			r.Body = append(r.Body, toolBlock(1+i, c)...)
			end = []string{stop("tool_use"), metadata(9, 9)}
		}
		return b.Streamed(r, exception("modelStreamErrorException", `{"message":"It broke.","originalStatusCode":500,"originalMessage":"It broke."}`), end...)
	}
	r := answer(strings.Join(b.Words, ""), reason, 9, len(b.Words))
	if len(b.Tools) > 0 {
		r = toolAnswer(strings.Join(b.Words, ""), b.Tools)
	}
	if b.Thought != nil {
		r.Body[0] = strings.Replace(r.Body[0], `"content":[`, `"content":[{"reasoningContent":{"reasoningText":{"text":`+quote(b.Thought.Text)+`,"signature":`+quote(b.Thought.Opaque)+`}}},`, 1)
	}
	return b.Whole(r, pt.JSON(200, `{"Output":{"__type":"com.amazon.coral.service#InternalFailure"},"Version":"1.0"}`))
}
