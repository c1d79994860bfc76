package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Service is the half that the clients of all services share: the name in
// errors, the secret of each call, and the connection. A client embeds it.
type Service struct {
	// Name is the provider's name in errors.
	Name string
	// HTTP sends the requests. Tests replace its Transport.
	HTTP *Client
	// Header is that of each request, without its secret and Accept. Requests share
	// its values: a request's own header replaces them and does not add to them.
	Header http.Header
	// RejectionCode is the service's code of a request that it rejects; empty: none.
	RejectionCode string

	secret func() (string, error)
}

// NewService makes the half of a client. Errors have the name. The secret of each
// call is the result of the function, or key if it is nil; empty sends
// none. NewService connects to nothing: its errors are mistakes of key and of the
// configuration.
func NewService(name, key string, secret func() (string, error), config Config) (Service, error) {
	if !ValidHeaderValue(key) {
		return Service{}, errBadKey
	}
	if secret == nil {
		secret = func() (string, error) { return key, nil }
	}
	client, err := NewClient(config)
	if err != nil {
		return Service{}, err
	}
	header := http.Header{}
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", UserAgent)
	return Service{Name: name, HTTP: client, Header: header, secret: secret}, nil
}

var errBadKey = errors.New("the API key has a character that a header cannot carry")

// Close closes the connections that no call uses.
func (s *Service) Close() { s.HTTP.Close() }

// Host is the host and port that requests are sent to, see providers.Host.
func (s *Service) Host() string { return s.HTTP.Host() }

// Begin begins a call with the secret that it sends. The error is a
// *providers.ConnectError.
func (s *Service) Begin() (Call, error) {
	secret, err := s.secret()
	if err == nil && !ValidHeaderValue(secret) {
		err = errBadKey
	}
	if err != nil {
		return Call{}, &providers.ConnectError{Permanent: true, Err: err}
	}
	return Call{Provider: s.Name, Secrets: [2]string{secret}}, nil
}

var acceptJSON, acceptEvents = []string{"application/json"}, []string{"text/event-stream"}

// Request makes the request of a call, which posts a JSON body and accepts JSON,
// or server-sent events for a stream. Its URL is not changed: all calls may share it.
func (s *Service) Request(ctx context.Context, to *url.URL, body []byte, stream bool) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "", bytes.NewReader(body))
	if err != nil {
		return nil, Unanswered(ctx, err)
	}
	if to.Path != "" && to.Path[0] != '/' {
		// JoinPath leaves out the slash below a host without a path.
		rooted := *to
		if rooted.Path = "/" + to.Path; to.RawPath != "" {
			rooted.RawPath = "/" + to.RawPath
		}
		to = &rooted
	}
	r.URL, r.Host = to, to.Host
	r.Header = make(http.Header, len(s.Header)+2) // Accept and a secret
	maps.Copy(r.Header, s.Header)
	r.Header["Accept"] = acceptJSON
	if stream {
		r.Header["Accept"] = acceptEvents
	}
	return r, nil
}

// Send sends the request of a call. It returns the body of an answer of status
// 200 once the headers are there; other answers are a *providers.Error, of which
// describe reads the body.
func (s *Service) Send(k Call, r *http.Request, describe Describe) (io.ReadCloser, error) {
	resp, err := s.HTTP.Do(r)
	if err != nil {
		return nil, k.Unanswered(r.Context(), err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, k.StatusError(resp, describe)
	}
	return resp.Body, nil
}

// Unsendable is the error of a request that the service would reject, or
// misunderstand. It is made before anything is sent.
func (s *Service) Unsendable(format string, args ...any) *providers.Error {
	return &providers.Error{
		Provider: s.Name, Kind: providers.Status, Status: http.StatusBadRequest, Code: s.RejectionCode,
		Reason: fmt.Sprintf(format, args...),
	}
}

// LacksParameter returns the error for a parameter, by its name in definitions, that the
// service does not have, or not as it is asked for.
func (s *Service) LacksParameter(name, format string, args ...any) *providers.Error {
	e := s.Unsendable(format, args...)
	e.Param, e.Lacks = name, name
	return e
}

// Call is one call of a service. It makes the errors of the call: they name the
// provider, and hold no secret.
type Call struct {
	// Provider is the provider's name.
	Provider string
	// Secrets are texts that the call sends and the log must not show, at most
	// two.
	Secrets [2]string
}

// Describe copies the JSON body of an error into e, and reports whether it
// found anything. The texts must be fit for the log: see Call.Text.
type Describe func(k Call, e *providers.Error, v *fastjson.Value) bool

// Redact makes a text of the service fit for the log.
func (k Call) Redact(text string) string { return Redact(text, k.Secrets[:]...) }

// Excerpt is the beginning of a body, fit for the log.
func (k Call) Excerpt(body []byte) string { return Excerpt(body, k.Secrets[:]...) }

// Text is a string in JSON, fit for the log. It is empty where v is not a string.
func (k Call) Text(v *fastjson.Value) string {
	if v == nil || v.Type() != fastjson.TypeString {
		return ""
	}
	return k.Redact(string(v.GetStringBytes()))
}

// Unanswered explains a call without a response, see the function Unanswered.
func (k Call) Unanswered(ctx context.Context, err error) error {
	return Unanswered(ctx, err, k.Secrets[:]...)
}

// StatusError is the error of a response of another status than 200, whose body
// it reads.
func (k Call) StatusError(resp *http.Response, describe Describe) *providers.Error {
	// A body that breaks off says less, but there is the status.
	body, _ := io.ReadAll(resp.Body)
	e := &providers.Error{Provider: k.Provider, Kind: providers.Status, Status: resp.StatusCode, Advice: Advice(resp.Header)}
	k.Describe(e, body, describe)
	if wait := RetryAfter(resp.Header, time.Now()); wait > 0 {
		e.RetryAfter = wait
	}
	return e
}

// Describe copies the body of an error, JSON or not, into e.
func (k Call) Describe(e *providers.Error, body []byte, describe Describe) {
	var parser fastjson.Parser
	if v, err := parser.ParseBytes(body); err == nil && describe(k, e, v) {
		return
	}
	e.Message = k.Redact(string(body))
}

// Error is an error inside an answer of status 200.
func (k Call) Error(kind providers.ErrorKind) *providers.Error {
	return &providers.Error{Provider: k.Provider, Kind: kind, Status: http.StatusOK}
}

// Invalid is the error of an answer that is not a completion. The reason is in the
// gateway's own words. The service's own words must be fit for the log.
func (k Call) Invalid(reason string, said ...string) *providers.Error {
	e := k.Error(providers.Invalid)
	e.Reason, e.Message = reason, strings.Join(said, "")
	return e
}

// Refused is the error of an answer that the provider withholds, with its code
// for why.
func (k Call) Refused(code string) *providers.Error {
	e := k.Error(providers.Refused)
	e.Code = code
	return e
}

// Cut is the error of an answer that cannot be read to its end. Empty means
// that nothing of it came. An error of the call itself stays as it is.
func (k Call) Cut(err error, empty bool) *providers.Error {
	if e, ok := errors.AsType[*providers.Error](err); ok {
		return e
	}
	if errors.Is(err, ErrTooLarge) {
		return k.Invalid("the answer is larger than the limit")
	}
	if errors.Is(err, io.EOF) {
		if err = nil; empty {
			return k.Invalid("an empty answer")
		}
	}
	e := k.Error(providers.Truncated)
	e.Err = err
	return e
}
