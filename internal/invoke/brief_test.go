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
		{&providers.Error{Provider: "openai", Status: 400, Type: "invalid_request_error", Code: "context_length_exceeded", Message: said}, "context_length: openai: status 400 invalid_request_error context_length_exceeded"},
		{&providers.Error{Provider: "openai", Status: 401, Code: said}, "credential: openai: status 401"},
		{&providers.Error{Provider: "openai", Status: 500, Type: strings.Repeat("x", 65)}, "transient: openai: status 500"},
		{&providers.Error{Provider: "openai", Kind: providers.Invalid, Status: 200, Reason: "not JSON", Message: said}, "invalid: openai: invalid 200: not JSON"},
		{&providers.Error{Provider: "openai", Kind: providers.Truncated, Status: 200, Err: io.ErrUnexpectedEOF}, "invalid: openai: truncated 200: unexpected EOF"},
		{&providers.ConnectError{Err: &net.DNSError{Err: "no such host", Name: "api.example"}}, "connect: no answer: lookup api.example: no such host"},
		{&providers.ConnectError{Err: fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", fmt.Errorf("malformed HTTP status code %q", said))}, "connect: no answer: net/http: HTTP/1.x transport connection broken: malformed answer"},
		{errFirstToken, "slow: no first token in time"},
		{context.DeadlineExceeded, "slow: context deadline exceeded"},
		{errors.New(said), "unknown: an error of the type *errors.errorString"},
	} {
		e := &Error{Code: wire.UpstreamError, Attempts: 2, Err: errors.Join(test.err, errTotal)}
		if got, want := e.Brief(), wire.UpstreamError.Name+": "+test.want+"\ndeadline: the endpoint's total time is used up"; got != want {
			t.Errorf("%v:\n%q, want\n%q", test.err, got, want)
		}
		if e.Err = test.err; strings.Contains(e.Brief(), "PROMPT") || e.Brief() != wire.UpstreamError.Name+": "+test.want {
			t.Errorf("alone: %q", e.Brief())
		}
	}
	e := &Error{Code: wire.UpstreamUnavailable, Err: fmt.Errorf("openai: %w", errEjected)}
	if e.Brief() != e.Error() {
		t.Errorf("nothing tried: %q", e.Brief())
	}
}
