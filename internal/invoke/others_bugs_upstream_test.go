package invoke_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// Bugs of other gateways, each with its name, over real connections.

func TestRetryAfterOfEveryForm(t *testing.T) {
	for name, test := range map[string]struct {
		header, value string
		waits         bool // and does not leave the target at once
		atLeast       time.Duration
	}{
		"0":                       {"Retry-After", "0", false, 0},
		"negative":                {"Retry-After", "-30", false, 0},
		"a date in the past":      {"Retry-After", "Sat, 21 Nov 2015 12:00:00 GMT", false, 0},
		"no number":               {"Retry-After", "soon", false, 0},
		"beyond any number":       {"Retry-After", "1e12", false, 0},
		"more digits than fit":    {"Retry-After", strings.Repeat("9", 40), false, 0},
		"infinite":                {"Retry-After", "inf", false, 0},
		"a date in the future":    {"Retry-After", "Mon, 21 Nov 2089 12:00:00 GMT", false, 0},
		"longer than it is worth": {"Retry-After", "9", false, 0},
		"decimal":                 {"Retry-After", "0.25", true, 250 * time.Millisecond},
		"milliseconds":            {"Retry-After-Ms", "200", true, 200 * time.Millisecond},
		"Azure's milliseconds":    {"X-Ms-Retry-After-Ms", "200", true, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limited := pt.OpenAIError(429, "requests", "rate_limit_exceeded", "Slow down.")
			limited.Header[test.header] = test.value
			up := pt.NewUpstream(t).Then(limited).Always(pt.OpenAIAnswer("fine", 1))
			began := time.Now()
			o := call(t, invoke.NewEngine(), false, provider(t, up), backup)
			took := time.Since(began)
			want, requests := "from the fallback", 1
			if test.waits {
				want, requests = "fine", 2
			}
			if o.err != nil || o.text != want || len(up.Requests()) != requests || took < test.atLeast || took > test.atLeast+5*time.Second {
				t.Errorf("error %v, answer %q after %d requests and %s", o.err, o.text, len(up.Requests()), took)
			}
		})
	}
}

func TestWhatTheStatusDoesNotSay(t *testing.T) {
	for name, test := range map[string]struct {
		reply    pt.Reply
		class    invoke.Class
		code     wire.Code
		requests int
	}{
		"a 400 that is Gemini's for a bad key": {
			pt.JSON(400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`),
			invoke.Credential, wire.UpstreamCredentials, 1,
		},
		"a 404 that is Azure's for a missing deployment": {
			pt.JSON(404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`),
			invoke.Model, wire.UpstreamRejected, 1,
		},
		"a 429 that is a spent quota": {
			pt.OpenAIError(429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota"),
			invoke.Quota, wire.UpstreamCredentials, 1,
		},
		"a 529": {
			pt.JSON(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			invoke.Transient, wire.UpstreamError, 3,
		},
		"a 200 that is an error": {
			pt.OpenAIError(200, "server_error", "", "boom"),
			invoke.Transient, wire.UpstreamError, 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := pt.NewUpstream(t).Always(test.reply)
			o := call(t, invoke.NewEngine(), false, provider(t, up))
			if o.err == nil || o.err.Class != test.class || o.err.Code != test.code || len(up.Requests()) != test.requests {
				t.Errorf("%+v after %d requests", o.err, len(up.Requests()))
			}
		})
	}
}

func TestAnEventOfAnotherProtocolBeforeTheErrorIsNoAnswer(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.SSE(
		pt.Event(`{"type":"response.created","response":{"status":"in_progress"}}`), pt.Event(pt.ErrorObject("server_error", "", "boom")),
	))
	if o := call(t, invoke.NewEngine(), true, provider(t, up), backup); o.err != nil || o.text != "from the fallback" {
		t.Errorf("error %v, answer %q", o.err, o.text)
	}
}

func TestOddStreamsAreReadToTheirEnd(t *testing.T) {
	words := []string{"wörld ", "🌍"}
	stream := strings.Join(pt.OpenAIStream(words...).Body, "")
	role, a, b, finish, sum := pt.RoleChunk(), pt.ContentChunk(words[0]), pt.ContentChunk(words[1]), pt.FinishChunk("stop"), pt.UsageChunk(9, 2)
	split := strings.Index(stream, "🌍") + 2
	megabyte := strings.Repeat("x", 1<<20)
	for name, test := range map[string]struct {
		body []string
		want string
	}{
		"CRLF":               {[]string{strings.ReplaceAll(stream, "\n", "\r\n")}, "wörld 🌍"},
		"CR":                 {[]string{strings.ReplaceAll(stream, "\n", "\r")}, "wörld 🌍"},
		"byte by byte":       {strings.Split(stream, ""), "wörld 🌍"},
		"split UTF-8":        {[]string{stream[:split], stream[split:]}, "wörld 🌍"},
		"comments":           {[]string{": hello\n\n", strings.ReplaceAll(stream, "data: ", ": keep-alive\ndata: ")}, "wörld 🌍"},
		"byte order mark":    {[]string{"\xef\xbb\xbf", stream}, "wörld 🌍"},
		"multi-line data":    {[]string{strings.ReplaceAll(stream, `,"choices"`, ",\ndata: \"choices\"")}, "wörld 🌍"},
		"no space":           {[]string{strings.ReplaceAll(stream, "data: ", "data:")}, "wörld 🌍"},
		"an event of 1 MB":   {[]string{role, pt.ContentChunk(megabyte), finish, sum, pt.Done}, megabyte},
		"no usage":           {[]string{role, a, b, finish, pt.Done}, "wörld 🌍"},
		"usage twice":        {[]string{role, a, b, finish, sum, sum, pt.Done}, "wörld 🌍"},
		"usage first":        {[]string{sum, role, a, b, finish, pt.Done}, "wörld 🌍"},
		"choices, but empty": {[]string{pt.Event(`{"id":"x","choices":[]}`), role, a, b, finish, pt.Done}, "wörld 🌍"},
	} {
		t.Run(name, func(t *testing.T) {
			reply := pt.SSE(test.body...)
			if len(test.body) == 2 {
				reply.Delay = 5 * time.Millisecond // so that the pieces arrive apart
			}
			up := pt.NewUpstream(t).Always(reply)
			o := call(t, invoke.NewEngine(), true, provider(t, up))
			if o.err != nil || o.text != test.want || o.result.FinishReason != "stop" {
				t.Errorf("error %v, answer of %d bytes, result %+v", o.err, len(o.text), o.result)
			}
		})
	}
}

func TestAnEventBeyondTheLimitIsNoAnswer(t *testing.T) {
	huge := pt.SSE(pt.RoleChunk(), pt.ContentChunk(strings.Repeat("x", 3<<20)), pt.FinishChunk("stop"), pt.Done)
	up := pt.NewUpstream(t).Always(huge)
	if o := call(t, invoke.NewEngine(), true, provider(t, up), backup); o.err != nil || o.text != "from the fallback" {
		t.Errorf("error %v, answer of %d bytes", o.err, len(o.text))
	}
}
