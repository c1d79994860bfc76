package bedrock

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "bedrock-api-key-0123456789abcdef"

// client makes a client of a test's upstream.
func client(t testing.TB, base string, change ...func(*Config)) *Client {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		Region:   "eu-central-1",
		APIKey:   func() (string, error) { return testKey, nil },
		Upstream: upstream.Config{BaseURL: u},
	}
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
	pt.Run(t, func(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
		up := pt.NewUpstream(t)
		up.Choose(func(r pt.Request) pt.Reply {
			return behave(b, strings.HasSuffix(r.Path, "/converse-stream"))
		})
		return client(t, up.URL)
	})
}

// behave speaks the contract's behaviours in Bedrock's wire format.
func behave(b pt.Behaviour, stream bool) pt.Reply {
	if b.Status != 0 {
		r := failure(b.Status, b.Code, "Too many requests, please wait before trying again.")
		r.Header["Retry-After"] = fmt.Sprint(int(b.RetryAfter / time.Second))
		return r
	}
	if !stream {
		r := answer(strings.Join(b.Words, ""), "end_turn", 9, len(b.Words))
		if len(b.Tools) > 0 {
			r = toolAnswer(strings.Join(b.Words, ""), b.Tools)
		}
		switch b.Fail {
		case pt.Stops:
			r.Body[0], r.End = r.Body[0][:len(r.Body[0])/2], pt.Cut
		case pt.Stalls:
			r.Body[0], r.End = r.Body[0][:len(r.Body[0])/2], pt.Hang
		case pt.Reported:
			r = pt.JSON(200, `{"Output":{"__type":"com.amazon.coral.service#InternalFailure"},"Version":"1.0"}`)
		}
		return r
	}
	r := streamed(wholeStream(b.Words...)...)
	r.Delay = b.Pace
	if b.Fail != pt.None || len(b.Tools) > 0 {
		r.Body = r.Body[:1+len(b.Words)]
	}
	for i, c := range b.Tools {
		r.Body = append(r.Body, toolBlock(1+i, c)...)
	}
	if len(b.Tools) > 0 && b.Fail == pt.None {
		r.Body = append(r.Body, stop("tool_use"), metadata(9, 9))
	}
	switch b.Fail {
	case pt.Stops:
		r.End = pt.Cut
	case pt.Stalls:
		r.End = pt.Hang
	case pt.Reported:
		r.Body = append(r.Body, exception("modelStreamErrorException", `{"message":"It broke.","originalStatusCode":500,"originalMessage":"It broke."}`))
	}
	return r
}
