package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// repeater is an http.RoundTripper that repeats a request which got no answer,
// within the budget of attempts in its context. An answer of any status
// is handed up: the loop above knows what it means.
type repeater struct {
	http *http.Client
}

func newRepeater(transport *http.Transport) *repeater {
	return &repeater{&http.Client{Transport: limiter{transport}, CheckRedirect: noRedirect}}
}

// RoundTrip sends the request. A failure is a *providers.ConnectError, or the
// context's error.
func (r *repeater) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	repeated, err := repeatable(req)
	if err != nil {
		return nil, &providers.ConnectError{Permanent: true, Err: err}
	}
	p := policy{ctx: ctx, budget: providers.BudgetFrom(ctx)}
	client := retryablehttp.Client{
		HTTPClient: r.http,
		// The budget is the bound.
		RetryMax:     math.MaxInt,
		CheckRetry:   p.checkRetry,
		Backoff:      p.backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	resp, err := client.Do(repeated)
	if err == nil {
		return resp, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, &providers.ConnectError{Permanent: permanent(err), Err: withoutURL(err)}
}

// repeatable makes a request whose body is sent again, byte for byte, with each
// attempt.
func repeatable(req *http.Request) (*retryablehttp.Request, error) {
	shallow := *req
	body := req.Body
	shallow.Body = nil
	repeated, err := retryablehttp.FromRequest(&shallow)
	if err != nil || body == nil || body == http.NoBody {
		return repeated, err
	}
	// A RoundTripper closes the body it was given; the copies are read.
	defer body.Close()
	if req.GetBody != nil {
		err = repeated.SetBody(retryablehttp.ReaderFunc(func() (io.Reader, error) { return req.GetBody() }))
		// SetBody finds no length in a body made by GetBody.
		repeated.ContentLength = req.ContentLength
		return repeated, err
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	return repeated, repeated.SetBody(content)
}

// policy decides on repeats of one request.
type policy struct {
	ctx    context.Context
	budget providers.Budget
	wait   time.Duration
}

func (p *policy) checkRetry(_ context.Context, _ *http.Response, err error) (bool, error) {
	if err == nil || p.ctx.Err() != nil || p.budget == nil || permanent(err) {
		return false, nil
	}
	var again bool
	p.wait, again = p.budget.Repeat(p.ctx, &providers.ConnectError{Err: withoutURL(err)})
	return again, nil
}

// backoff returns the wait that the budget set; it has seen to its limit.
func (p *policy) backoff(time.Duration, time.Duration, int, *http.Response) time.Duration {
	return p.wait
}

// permanent reports whether another try must fail alike.
func permanent(err error) bool {
	if _, ok := errors.AsType[*AddressError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// withoutURL strips the wrapping that names the URL.
func withoutURL(err error) error {
	for {
		wrapped, ok := errors.AsType[*url.Error](err)
		if !ok {
			return err
		}
		err = wrapped.Err
	}
}

// limiter bounds the bodies of responses: in size, and in time by the request's
// context, for every status and every reader. It hides the
// transport's CloseIdleConnections: go-retryablehttp calls it after each
// failure, which would cut the connections kept for all other calls.
type limiter struct {
	transport http.RoundTripper
}

func (l limiter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// No provider is asked to. What would follow is the bare connection,
		// which net/http leaves to its caller, beyond all deadlines.
		resp.Body.Close()
		resp.Body = http.NoBody
		return resp, nil
	}
	body := &limitedBody{body: resp.Body, left: MaxStream}
	if resp.StatusCode != http.StatusOK {
		body.left, body.quiet = MaxErrorBody, true
	}
	// net/http promises that of its own bodies only.
	body.untie = context.AfterFunc(req.Context(), func() { _ = body.body.Close() })
	resp.Body = body
	return resp, nil
}

// limitedBody ends at the limit: quietly, or with ErrTooLarge. It ends with the
// request's context, too.
type limitedBody struct {
	body  io.ReadCloser
	left  int64
	quiet bool
	untie func() bool // from the context
	held  providers.Held
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if b.quiet {
			return 0, io.EOF
		}
		// The limit itself is allowed: only one byte more is too many.
		var one [1]byte
		n, err := b.body.Read(one[:])
		if n > 0 {
			return 0, ErrTooLarge
		}
		return 0, err
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.body.Read(p)
	b.left -= int64(n)
	return n, err
}

// Hold counts what is held of the answer until Close.
func (b *limitedBody) Hold(bytes int) error { return b.held.Take(bytes) }

func (b *limitedBody) Close() error {
	b.untie()
	b.held.Release()
	return b.body.Close()
}
