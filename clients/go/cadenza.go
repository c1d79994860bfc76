// Package cadenza is a client of the Cadenza gateway: values, prompts and reports. The
// page docs/clients.md says what it does when the gateway is away.
package cadenza

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Object is a context, variables, metadata or a record.
type Object = map[string]any

// Config says where the gateway is, and how a [Client] speaks to it.
type Config struct {
	URL, Key  string
	Context   Object        // fields of every request's context
	Timeout   time.Duration // of a value or a prompt, 1 s where it is 0
	Poll      time.Duration // between requests for followed flags where there are no events, 1 min where it is 0
	Spool     string        // the file in which reports wait, of this client alone; in memory where it is empty
	SpoolSize int           // bytes of reports that may wait, 16 MiB where it is 0
	OnError   func(error)   // hears of every error, covered or not, maybe of several at once; nil logs them
	Transport http.RoundTripper
}

// A Client asks a gateway. It is safe for concurrent use.
type Client struct {
	Config
	http        http.Client
	closing     context.Context
	end         context.CancelFunc
	reports     reports
	mu          sync.Mutex
	kept        map[string]good // the last good answers by their requests
	pausedUntil time.Time       // not zero while the gateway is away
}

type good struct {
	text []byte
	etag string
}

const (
	evaluate = "/ofrep/v1/evaluate/flags"
	maxKept  = 1000             // answers
	patience = 10 * time.Second // for a report, for all flags, and for a stream to open
)

// New returns a client, which sends what is left in its spool.
func New(config Config) (*Client, error) {
	c := &Client{Config: config, kept: make(map[string]good)}
	c.URL = strings.TrimRight(c.URL, "/")
	c.Timeout, c.Poll, c.SpoolSize = cmp.Or(c.Timeout, time.Second), cmp.Or(c.Poll, time.Minute), cmp.Or(c.SpoolSize, 16<<20)
	if c.URL == "" || c.Key == "" {
		return nil, errors.New("cadenza: a client needs a URL and a key")
	}
	if c.OnError == nil {
		c.OnError = func(err error) { slog.Warn(err.Error()) }
	}
	c.http = http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.closing, c.end = context.WithCancel(context.Background())
	return c, c.reports.open(c)
}

// Details are a value and where it comes from.
type Details[T any] struct {
	Value           T
	Reason, Variant string // OFREP's, or ERROR where the fallback is not the gateway's choice
	Metadata        Object
	TraceID         string // to report on; followed flags have none
	Stale           bool   // it is the last good value, because the gateway gave none
	Err             error
}

// Value returns what the gateway says, else what it said last for the same key and
// context, else the fallback.
func Value[T any](ctx context.Context, c *Client, key string, fallback T, in Object) T {
	return Evaluate(ctx, c, key, fallback, in).Value
}

// Evaluate is as [Value], and says where the value comes from.
func Evaluate[T any](ctx context.Context, c *Client, key string, fallback T, in Object) Details[T] {
	valid := func(f *flag) bool { return f.Key != "" }
	f, stale, err := ask(ctx, c, c.Timeout, evaluate+"/"+url.PathEscape(key), Object{"context": merge(c.Context, in)}, nil, valid)
	return read(c, f, fallback, stale, err)
}

// Prompt asks for a prompt with its variables filled in, in the same way. Metadata are kept
// with its trace. Where there is no prompt, its value is nil.
func (c *Client) Prompt(ctx context.Context, key string, in, variables, metadata Object) Details[Object] {
	type prompts map[string]struct {
		Value   Object
		TraceID string `json:"trace_id"`
	}
	body := Object{"keys": []string{key}, "context": merge(c.Context, in), "variables": variables}
	all, stale, err := ask(ctx, c, c.Timeout, "/v1/prompts", body, metadata, func(p *prompts) bool { return (*p)[key].Value != nil })
	if all == nil {
		return Details[Object]{Err: err}
	}
	return Details[Object]{Value: (*all)[key].Value, TraceID: (*all)[key].TraceID, Stale: stale, Err: err}
}

// ask returns the answer to a request, or the last good one. While the gateway is away one
// call at a time tries, and the others need not wait.
func ask[A any](ctx context.Context, c *Client, timeout time.Duration, path string, body, metadata Object, valid func(*A) bool) (answer *A, stale bool, err error) {
	text, err := json.Marshal(body)
	id, now := path+string(text), time.Now()
	if err == nil && metadata != nil {
		text, err = json.Marshal(merge(body, Object{"metadata": metadata}))
	}
	if err != nil {
		return nil, false, fmt.Errorf("cadenza: %s: %w", path, err)
	}
	c.mu.Lock()
	last, paused := c.kept[id], now.Before(c.pausedUntil)
	if !paused && !c.pausedUntil.IsZero() {
		c.pausedUntil = now.Add(timeout)
	}
	c.mu.Unlock()
	if paused {
		answer = decode[A](last.text)
		return answer, answer != nil, fmt.Errorf("cadenza: %s: %w", path, ErrAway)
	}
	header := http.Header{"Idempotency-Key": nil} // so that the transport may repeat it
	if last.etag != "" {
		header.Set("If-None-Match", last.etag)
	}
	etag, text, err := c.post(ctx, timeout, path, text, header)
	if err == nil && text == nil {
		etag, text = last.etag, last.text
	}
	if answer = decode[A](text); err == nil && (answer == nil || !valid(answer)) {
		err = fmt.Errorf("cadenza: %s: no answer of a gateway: %.80s", path, text)
	}
	if err == nil {
		c.learn(id, good{text, etag}, nil)
		return answer, false, nil
	}
	if c.OnError(err); ctx.Err() == nil { // else its caller left
		c.learn(id, good{}, err)
	}
	if answer = decode[A](last.text); answer == nil || refused(err) {
		return nil, false, err
	}
	return answer, true, err
}

// learn notes whether the gateway is away, and the last good answer to a request.
func (c *Client) learn(id string, answer good, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, _ := errors.AsType[*Error](err)
	c.pausedUntil = time.Time{}
	if errors.Is(err, ErrAway) || e != nil && e.Status >= http.StatusBadGateway {
		c.pausedUntil = time.Now().Add(max(retryAfter(err), jitter(2*c.Timeout)))
	}
	if err == nil || refused(err) {
		delete(c.kept, id)
	}
	if answer.text != nil {
		c.kept[id] = answer
	}
	for other := range c.kept { // in no order
		if len(c.kept) > maxKept && other != id {
			delete(c.kept, other)
		}
	}
}

// An Error is an answer of the gateway, or of what is in its place.
type Error struct {
	Status        int
	Code, Message string
	RetryAfter    time.Duration
}

func (e *Error) Error() string {
	return fmt.Sprintf("cadenza: %s (%d %s)", e.Message, e.Status, e.Code)
}

// Errors that are no answers.
var (
	ErrAway = errors.New("the gateway is away")
	ErrType = errors.New("the value has another type")
	ErrLost = errors.New("a report is lost")
)

// refused reports whether the gateway has judged the request itself: another try is
// useless, and what it said before no longer holds.
func refused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Status {
	case 401, 403, 405, 407, 408, 409, 425, 429:
		return false
	case 404:
		return e.Code == "FLAG_NOT_FOUND" || e.Code == "unknown_key" || e.Code == "unknown_trace"
	}
	return e.Status >= 400 && e.Status < 500
}

func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// post returns the text of a 200 and its ETag, no text of a 304, and an error for all else.
func (c *Client) post(ctx context.Context, timeout time.Duration, path string, body []byte, header http.Header) (etag string, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return "", nil, fmt.Errorf("cadenza: %w", err)
	}
	request.Header = merge(header, http.Header{"Authorization": {"Bearer " + c.Key}, "Content-Type": {"application/json"}})
	response, err := c.http.Do(request)
	if err == nil {
		defer response.Body.Close()
		text, err = io.ReadAll(response.Body)
	}
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("cadenza: %w: %w", ErrAway, err)
	case response.StatusCode == http.StatusNotModified:
		return "", nil, nil
	case response.StatusCode != http.StatusOK:
		return "", nil, failed(response, text)
	}
	return response.Header.Get("ETag"), text, nil
}

// failed returns the error that an answer says, which may be a proxy's.
func failed(response *http.Response, text []byte) *Error {
	var said struct {
		ErrorCode, ErrorDetails string
		Error                   struct{ Code, Message string }
	}
	_ = json.Unmarshal(text, &said)
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	message := cmp.Or(said.ErrorDetails, said.Error.Message, fmt.Sprintf("%s: %.200s", response.Request.URL.Path, text))
	return &Error{response.StatusCode, cmp.Or(said.ErrorCode, said.Error.Code), message, time.Duration(seconds) * time.Second}
}

func decode[A any](text []byte) (answer *A) {
	if json.Unmarshal(text, &answer) != nil {
		return nil
	}
	return answer
}

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) }

// backoff is how long to wait after so many failures in a row.
func backoff(failures int) time.Duration {
	return jitter(min(time.Minute, time.Second<<min(failures-1, 6)))
}

// sleep reports whether the time has passed, and the context not ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func merge[M ~map[string]V, V any](a, b M) M {
	all := make(M, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
