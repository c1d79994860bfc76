package providers

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
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
		{&Error{Provider: "openai", Status: 400, Code: "unsupported_value", Param: "temperature", Message: "No."}, "openai: status 400 unsupported_value (temperature): No."},
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

func TestConnectFailuresSayWhatFailed(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "api.example", IsNotFound: true}}, "DNS"},
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, "DNS"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}, "time-out"},
		{context.DeadlineExceeded, "time-out"},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")}, "TLS"},
		{x509.UnknownAuthorityError{}, "TLS"},
		{errors.New("http: server gave HTTP response to HTTPS client"), "TLS"},
		{dial(syscall.ECONNREFUSED), "refused"},
		{errors.New("connectex: No connection could be made because the target machine actively refused it."), "refused"},
		{dial(syscall.ECONNRESET), "reset"},
		{dial(syscall.EPIPE), "reset"},
		{fmt.Errorf("reading the header: %w", io.EOF), "reset"},
		{errors.New("wsarecv: An existing connection was forcibly closed by the remote host."), "reset"},
		{dial(syscall.EHOSTUNREACH), "unreachable"},
		{dial(syscall.ENETUNREACH), "unreachable"},
		{errors.New("connectex: A socket operation was attempted to an unreachable network."), "unreachable"},
		{errors.New("the address 10.0.0.1 is not public"), ""},
	} {
		e := &ConnectError{Err: test.err}
		if got := e.What(); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
		want := "no answer (" + test.want + "): " + test.err.Error()
		if test.want == "" {
			want = "no answer: " + test.err.Error()
		}
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
