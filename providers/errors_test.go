package providers

import (
	"errors"
	"testing"
)

func TestErrorText(t *testing.T) {
	cause := errors.New("connection reset")
	for _, test := range []struct {
		err  error
		want string
	}{
		{&Error{Provider: "openai", Status: 429, Type: "requests", Code: "rate_limit_exceeded", Message: "Slow down."}, "openai: status 429 requests rate_limit_exceeded: Slow down."},
		{&Error{Provider: "openai", Kind: Truncated, Status: 200, Err: cause}, "openai: truncated 200: connection reset"},
		{&Error{Provider: "x", Kind: Refused}, "x: refused"},
		{&ConnectError{Err: cause}, "no answer: connection reset"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
	}
	if !errors.Is(&Error{Err: cause}, cause) || !errors.Is(&ConnectError{Err: cause}, cause) {
		t.Error("the cause is lost")
	}
}
