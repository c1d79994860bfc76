package invoke

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

func TestBrief(t *testing.T) {
	const said = "the PROMPT said by the caller"
	for _, test := range []struct {
		err  error
		want string
	}{
		{&providers.Error{Provider: "openai", Status: 400, Type: "invalid_request_error", Code: "context_length_exceeded", Message: said}, "context_length: openai/m: status 400 invalid_request_error context_length_exceeded"},
		{&providers.Error{Provider: "openai", Status: 400, Code: "unsupported_value", Param: "tools[0].type", Message: said}, "rejected: openai/m: status 400 unsupported_value (tools[0].type)"},
		{&providers.Error{Provider: "openai", Status: 400, Param: said}, "rejected: openai/m: status 400"},
		{&providers.Error{Provider: "openai", Status: 401, Code: said}, "credential: openai/m: status 401"},
		{&providers.Error{Provider: "openai", Status: 500, Type: strings.Repeat("x", 65)}, "transient: openai/m: status 500"},
		{&providers.Error{Provider: "openai", Kind: providers.Invalid, Status: 200, Reason: "not JSON", Message: said}, "invalid: openai/m: invalid 200: not JSON"},
		{&providers.Error{Provider: "openai", Kind: providers.Truncated, Status: 200, Err: io.ErrUnexpectedEOF}, "invalid: openai/m: truncated 200: unexpected EOF"},
		{&providers.ConnectError{Err: &net.DNSError{Err: "no such host", Name: "api.example"}}, "connect: openai/m: no answer (DNS): lookup api.example: no such host"},
		{&providers.ConnectError{Err: fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", fmt.Errorf("malformed HTTP status code %q", said))}, "connect: openai/m: no answer: net/http: HTTP/1.x transport connection broken: malformed answer"},
		{errFirstToken, "slow: openai/m: no first token in time"},
		{context.DeadlineExceeded, "slow: openai/m: context deadline exceeded"},
		{errors.New(said), "unknown: openai/m: an error of the type *errors.errorString"},
	} {
		k := &call{Call: &Call{Targets: []Target{{Name: "openai", Model: "m"}}, Messages: []providers.Message{{Content: said}}}, usable: []usable{{}}}
		named := func(err error) error {
			return k.named(failed{err: err, brief: k.explain(err, Classify(err))})
		}
		e := &Error{Code: wire.UpstreamError, Attempts: 2, Err: errors.Join(named(test.err), named(errTotal))}
		if got, want := e.Brief(), wire.UpstreamError.Name+": "+test.want+"\ndeadline: openai/m: the endpoint's total time is used up"; got != want {
			t.Errorf("%v:\n%q, want\n%q", test.err, got, want)
		}
		if e.Err = named(test.err); strings.Contains(e.Brief(), "PROMPT") || e.Brief() != wire.UpstreamError.Name+": "+test.want {
			t.Errorf("alone: %q", e.Brief())
		}
	}
	e := &Error{Code: wire.UpstreamUnavailable, Err: fmt.Errorf("openai: %w", &LeftAlone{State: TargetEjected})}
	if e.Brief() != e.Error() {
		t.Errorf("nothing tried: %q", e.Brief())
	}
}

// TestWordsOfAProvider checks which words of a provider are kept, and that words
// that quote a prompt are not.
func TestWordsOfAProvider(t *testing.T) {
	const said = "Where is order 4711 of Ada Lovelace?"
	for name, test := range map[string]struct {
		status  int
		message string
		terse   bool
		system  string
		kept    bool
	}{
		"a key":               {401, "Incorrect API key provided", false, "", true},
		"a quota":             {402, "You exceeded your current quota", false, "", true},
		"a rate":              {429, "Limit 500, used 500", false, "", true},
		"a model":             {404, "The model gpt-5o does not exist", false, "", true},
		"a request":           {400, "Unsupported value: temperature", false, "", false},
		"a failure":           {500, "worker 7 died", false, "", false},
		"no words at all":     {401, "Incorrect API key provided", true, "", false},
		"a quotation":         {401, "No key for: order 4711 of Ada Lovelace?", false, "", false},
		"a part of one":       {401, "order 4711 o...", false, "", false},
		"less than a part":    {401, "order 4711 ", false, "", true},
		"a short message":     {401, "You said: Hi Bob.", false, "Hi Bob.", false},
		"messages of 65 kB":   {401, "Incorrect API key provided", false, strings.Repeat("x", maxQuotable), false},
		"a text without runs": {401, "no key", false, "", true},
	} {
		k := &call{Call: &Call{Messages: []providers.Message{{Content: providers.Escape(test.system)}, {Content: said}}, Terse: test.terse}}
		err := &providers.Error{Provider: "openai", Status: test.status, Message: test.message}
		want := fmt.Sprintf("status %d", test.status)
		full := (&Attempt{Err: err}).Text()
		if full != want+": "+test.message {
			t.Errorf("%s: all is %q", name, full)
		}
		if test.kept {
			want = full
		}
		if got := k.explain(err, Classify(err)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if text := new(Attempt).Text(); text != "" {
		t.Errorf("no failure: %q", text)
	}
}
