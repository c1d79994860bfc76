package upstream

import (
	"context"
	"crypto/tls"
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
	transport http.RoundTripper
}

// RoundTrip sends the request. A failure is a *providers.ConnectError, or the
// context's error.
func (r *repeater) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.transport.RoundTrip(req)
	if err != nil {
		return r.repeat(req, err)
	}
	return resp, nil
}

// repeat repeats a request that has failed once. Most requests do not fail, so that
// these have nothing to do with go-retryablehttp, which gets the failure as the
// outcome of its own first try.
func (r *repeater) repeat(req *http.Request, failure error) (*http.Response, error) {
	ctx := req.Context()
	if req.GetBody == nil && req.Body != nil && req.Body != http.NoBody {
		// The body is gone. Those of Service.Request can be had again.
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &providers.ConnectError{Permanent: permanent(failure), Err: withoutURL(failure)}
	}
	shallow := *req
	shallow.Body = nil
	repeated, err := retryablehttp.FromRequest(&shallow)
	if err == nil && req.GetBody != nil {
		err = repeated.SetBody(retryablehttp.ReaderFunc(func() (io.Reader, error) { return req.GetBody() }))
		// SetBody finds no length in a body made by GetBody.
		repeated.ContentLength = req.ContentLength
	}
	if err != nil {
		return nil, &providers.ConnectError{Permanent: true, Err: err}
	}
	p := policy{ctx: ctx, budget: providers.BudgetFrom(ctx)}
	client := retryablehttp.Client{
		HTTPClient: r.after(failure),
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

// after returns the client of repeats. Its first try is the one that has failed.
func (r *repeater) after(failure error) *http.Client {
	return &http.Client{Transport: &failedOnce{failure, r.transport}, CheckRedirect: noRedirect}
}

// failedOnce is a transport whose first try is over. It hides the method
// CloseIdleConnections: go-retryablehttp calls it after each failure, which would
// cut the connections kept for all other calls.
type failedOnce struct {
	failure   error // of the first try; nil once it was returned
	transport http.RoundTripper
}

func (f *failedOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := f.failure; err != nil {
		f.failure = nil
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	return f.transport.RoundTrip(req)
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
	// It wraps all errors of a certificate.
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
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
// context, for every status and every reader. It is asked for every try, so it also
// adds the headers of a request that is traced.
type limiter struct {
	transport http.RoundTripper
}

func (l limiter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.transport.RoundTrip(traced(req))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		// No provider is asked to. After it comes the bare connection,
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

// Hold counts the memory of the answer until Close.
func (b *limitedBody) Hold(bytes int) error { return b.held.Take(bytes) }

func (b *limitedBody) Close() error {
	b.untie()
	b.held.Release()
	return b.body.Close()
}
