// Package cadenza is a client of the Cadenza gateway: values, prompts and reports. The
// page docs/clients.md says what it does when the gateway is away.
package cadenza

import (
	"bufio"
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	evaluate = "/ofrep/v1/evaluate/flags"
	maxKept  = 1000             // answers
	patience = 10 * time.Second // for a report, for all flags, and for a stream to open
	silence  = 90 * time.Second // after which a stream counts as dead
)

// Object is a context, variables, metadata or a record.
type Object = map[string]any

// Config says where the gateway is, and how a [Client] speaks to it.
type Config struct {
	URL, Key  string
	Context   Object        // fields of every request's context
	Timeout   time.Duration // of a value or a prompt, 1 s where it is 0
	Spool     string        // the file in which reports wait, of this client alone; in memory where it is empty
	SpoolSize int           // bytes of reports that may wait, 16 MiB where it is 0
	OnError   func(error)   // hears of every error, covered or not, maybe of several at once, and may call the client; nil logs them
	Transport http.RoundTripper
}

// A Client asks a gateway. It is safe for concurrent use.
type Client struct {
	Config
	http        http.Client
	closing     context.Context
	end         context.CancelFunc
	mu          sync.Mutex
	kept        map[string]good // the last good answers by their requests
	pausedUntil time.Time       // not zero while the gateway is away

	sending  sync.Mutex
	failed   int       // reports in a row
	retryAt  time.Time // after them
	lost     atomic.Int64
	spooling sync.Mutex
	queue    []string // each is its Idempotency-Key, a space, and what is sent: a line of the spool
	size     int      // bytes of them
}

type good struct {
	text []byte
	etag []string
}

// New returns a client, which sends what is left in its spool.
func New(config Config) (*Client, error) {
	c := &Client{Config: config, kept: make(map[string]good)}
	c.URL = strings.TrimRight(c.URL, "/")
	c.Timeout, c.SpoolSize = cmp.Or(c.Timeout, time.Second), cmp.Or(c.SpoolSize, 16<<20)
	if c.URL == "" || c.Key == "" {
		return nil, errors.New("cadenza: a client needs a URL and a key")
	}
	if c.OnError == nil {
		c.OnError = func(err error) { slog.Warn(err.Error()) }
	}
	c.http = http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	c.closing, c.end = context.WithCancel(context.Background())
	return c, c.open()
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

// Evaluate returns what the gateway says, else what it said last for the same key and context, else the fallback.
func Evaluate[T any](ctx context.Context, c *Client, key string, fallback T, in Object) Details[T] {
	body, valid := Object{"context": merge(c.Context, in)}, func(f flag) bool { return f.Key != "" }
	f, stale, err := ask(ctx, c, c.Timeout, evaluate+"/"+url.PathEscape(key), body, nil, valid)
	return read(c, f, fallback, stale, err)
}

// Prompt asks for a prompt with its variables filled in, in the same way. Metadata are kept
// with its trace. Where there is no prompt, its value is nil.
func (c *Client) Prompt(ctx context.Context, key string, in, variables, metadata Object) Details[Object] {
	type prompt struct {
		Value   Object
		TraceID string `json:"trace_id"`
	}
	body := Object{"keys": []string{key}, "context": merge(c.Context, in), "variables": variables}
	valid := func(all map[string]prompt) bool { return all[key].Value != nil }
	all, stale, err := ask(ctx, c, c.Timeout, "/v1/prompts", body, Object{"metadata": metadata}, valid)
	return Details[Object]{Value: all[key].Value, TraceID: all[key].TraceID, Stale: stale, Err: err}
}

// ask returns the answer to a request, or the last good one to it, whatever more it says.
// While the gateway is away one call at a time tries, and the others need not wait.
func ask[A any](ctx context.Context, c *Client, timeout time.Duration, path string, body, more Object, valid func(A) bool) (answer A, stale bool, err error) {
	same, err := json.Marshal(body)
	text, err2 := json.Marshal(merge(body, more))
	if err = cmp.Or(err, err2); err != nil {
		return answer, false, fmt.Errorf("cadenza: %s: %w", path, err)
	}
	id, now := path+string(same), time.Now()
	c.mu.Lock()
	last, paused := c.kept[id], now.Before(c.pausedUntil)
	if !paused && !c.pausedUntil.IsZero() {
		c.pausedUntil = now.Add(timeout)
	}
	c.mu.Unlock()
	if answer = decode[A](last.text); paused {
		return answer, valid(answer), fmt.Errorf("cadenza: %s: %w", path, ErrAway)
	}
	header := http.Header{"Idempotency-Key": nil, "If-None-Match": last.etag} // the first so that the transport may repeat it
	found, next, err := post(ctx, c, timeout, path, text, header, valid)
	e, _ := errors.AsType[Error](err)
	if e.Status == http.StatusNotModified && valid(answer) {
		found, next, err = answer, last, nil
	}
	defer c.tell(err) // last: the app may ask again then
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.kept[id], answer = next, found
	} else if e.refused() {
		delete(c.kept, id)
		answer = *new(A)
	}
	maps.DeleteFunc(c.kept, func(other string, _ good) bool { return len(c.kept) > maxKept && other != id })
	if ctx.Err() == nil { // else its caller left
		c.pausedUntil = time.Time{}
	}
	if ctx.Err() == nil && (errors.Is(err, ErrAway) || e.Status >= http.StatusBadGateway) {
		c.pausedUntil = time.Now().Add(max(e.RetryAfter, backoff(2)))
	}
	return answer, err != nil && valid(answer), err
}

// An Error is an answer of the gateway, or of what is in its place.
type Error struct {
	Status        int
	Code, Message string
	RetryAfter    time.Duration
}

func (e Error) Error() string { return fmt.Sprintf("cadenza: %s (%d %s)", e.Message, e.Status, e.Code) }

// Errors that are no answers.
var (
	ErrAway = errors.New("the gateway is away")
	ErrType = errors.New("the value has another type")
	ErrLost = errors.New("a report is lost")
)

// refused reports whether another try is useless, and what the gateway said before no longer holds.
func (e Error) refused() bool {
	if e.Status == http.StatusNotFound {
		return slices.Contains([]string{"FLAG_NOT_FOUND", "unknown_key", "unknown_trace"}, e.Code)
	}
	return e.Status/100 == 4 && !slices.Contains([]int{401, 403, 405, 407, 408, 409, 425, 429}, e.Status)
}

// post returns a valid 200, decoded and as it came, and an error for all else, which may be a proxy's.
func post[A any](ctx context.Context, c *Client, timeout time.Duration, path string, body []byte, header http.Header, valid func(A) bool) (answer A, found good, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return answer, good{}, fmt.Errorf("cadenza: %w", err)
	}
	request.Header = header
	header.Set("Authorization", "Bearer "+c.Key)
	header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err == nil {
		defer response.Body.Close()
		found.text, err = io.ReadAll(response.Body)
	}
	if err != nil {
		return answer, good{}, fmt.Errorf("cadenza: %w: %w", ErrAway, err)
	}
	said := decode[struct {
		ErrorCode, ErrorDetails string
		Error                   struct{ Code, Message string }
	}](found.text)
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	message := cmp.Or(said.ErrorDetails, said.Error.Message, fmt.Sprintf("%s: no answer of a gateway: %.80s", path, found.text))
	found.etag = response.Header["Etag"]
	if answer = decode[A](found.text); response.StatusCode != http.StatusOK || !valid(answer) {
		err = Error{response.StatusCode, cmp.Or(said.ErrorCode, said.Error.Code), message, time.Duration(seconds) * time.Second}
	}
	return answer, found, err
}

type flag struct {
	Key                     string
	Value                   json.RawMessage
	Reason, Variant         string
	Metadata                Object
	ErrorCode, ErrorDetails string
}

// read returns what an answer about a flag says: the fallback where it has no value, or one of another type.
func read[T any](c *Client, f flag, fallback T, stale bool, err error) Details[T] {
	found := Details[T]{Value: fallback, Reason: "ERROR", Stale: stale, Err: err}
	value := decode[*T](f.Value)
	switch {
	case f.Key == "":
		return found
	case f.ErrorCode != "":
		found.Err = Error{Status: http.StatusNotFound, Code: f.ErrorCode, Message: f.ErrorDetails}
	case value == nil && f.Value != nil && string(f.Value) != "null":
		found.Err = fmt.Errorf("cadenza: %s is no %T: %w", f.Key, fallback, ErrType)
	default:
		found.Reason, found.Variant, found.Metadata = f.Reason, f.Variant, f.Metadata
		found.TraceID, _ = f.Metadata["trace_id"].(string)
		found.Value = *cmp.Or(value, &fallback)
		return found
	}
	c.OnError(found.Err)
	return found
}

// Flags are the values of all flags for one context, kept fresh by events.
type Flags struct {
	c        *Client
	body     Object
	onChange func(keys []string)
	stream   string // the address of the events

	mu      sync.Mutex
	flags   map[string]flag
	failure error
}

// Follow returns the flags for a context after a first try. They stay fresh until ctx ends,
// or the client is closed. The function, where it is not nil, is called with the keys whose
// values have changed.
func (c *Client) Follow(ctx context.Context, in Object, onChange func(keys []string)) *Flags {
	f := &Flags{c: c, body: Object{"context": merge(c.Context, in)}, onChange: onChange}
	f.refresh(ctx)
	go f.run(ctx)
	return f
}

// Lookup returns a flag's value, the last good one while the gateway is away, or the fallback.
func Lookup[T any](f *Flags, key string, fallback T) Details[T] {
	f.mu.Lock()
	found, arrived, failure := f.flags[key], f.flags != nil, f.failure
	f.mu.Unlock()
	if arrived && found.Key == "" {
		found = flag{Key: key, ErrorCode: "FLAG_NOT_FOUND", ErrorDetails: "there is no flag " + key}
	}
	return read(f.c, found, fallback, arrived && failure != nil, failure)
}

func (f *Flags) run(ctx context.Context) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(f.c.closing, end)()
	for failures := 0; ; f.refresh(ctx) {
		began := time.Now()
		if f.failure == nil && f.stream != "" {
			f.listen(ctx)
		}
		if failures++; time.Since(began) > silence {
			failures = 1
		}
		e, _ := errors.AsType[Error](f.failure)
		if !sleep(ctx, max(e.RetryAfter, backoff(failures))) {
			return
		}
	}
}

// refresh asks for all flags, and says which have changed.
func (f *Flags) refresh(ctx context.Context) {
	type all struct {
		Flags        []flag
		EventStreams []struct {
			Type, URL string
			Endpoint  struct{ Origin, RequestURI string }
		}
	}
	answer, _, err := ask(ctx, f.c, max(patience, f.c.Timeout), evaluate, f.body, nil, func(a all) bool { return a.Flags != nil })
	if err != nil {
		f.set(f.flags, err)
		return
	}
	f.stream = ""
	base, _ := url.Parse(f.c.URL) // it has just been asked
	for _, s := range answer.EventStreams {
		address, err := base.Parse(cmp.Or(s.URL, s.Endpoint.Origin+s.Endpoint.RequestURI))
		if err == nil && s.Type == "sse" {
			f.stream = address.String()
		}
	}
	before, now, changed := f.flags, make(map[string]flag), []string(nil)
	for _, one := range answer.Flags {
		now[one.Key] = one
	}
	for key := range merge(before, now) {
		if string(before[key].Value) != string(now[key].Value) {
			changed = append(changed, key)
		}
	}
	if f.set(now, nil); f.onChange != nil && before != nil && changed != nil {
		f.onChange(changed)
	}
}

func (f *Flags) set(flags map[string]flag, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flags, f.failure = flags, err
}

// listen refreshes at each event until the stream ends. The stream's address has a token
// of its own: the API key is not sent there.
func (f *Flags) listen(following context.Context) {
	ctx, cancel := context.WithCancelCause(following)
	defer cancel(nil)
	dead := time.AfterFunc(patience, func() { cancel(errors.New("it is silent")) })
	defer dead.Stop()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.stream, nil) // an address, as refresh has seen
	request.Header.Set("Accept", "text/event-stream")
	response, err := f.c.http.Do(request)
	if err == nil {
		defer response.Body.Close()
		if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") || response.StatusCode != http.StatusOK {
			body, _ := json.Marshal(f.body)
			f.c.mu.Lock()
			delete(f.c.kept, evaluate+string(body)) // the next answer is whole, and has an address that may be new
			f.c.mu.Unlock()
			err = Error{Status: response.StatusCode, Message: "no stream"}
		}
	}
	if err == nil {
		dead.Reset(silence)
		lines := bufio.NewScanner(response.Body) // lines of 64 KiB at most, and an event of the gateway is one
		for f.refresh(ctx); f.failure == nil && lines.Scan(); dead.Reset(silence) {
			data, _ := strings.CutPrefix(lines.Text(), "data:")
			if decode[struct{ Type string }]([]byte(data)).Type == "refetchEvaluation" {
				f.refresh(ctx)
			}
		}
		err = lines.Err()
	}
	if err = cmp.Or(context.Cause(ctx), err); err != nil && following.Err() == nil {
		err = fmt.Errorf("cadenza: the stream of events: %w", err)
		f.set(f.flags, err)
		f.c.OnError(err)
	}
}

func (c *Client) tell(err error) {
	if err != nil {
		c.OnError(err)
	}
}

// decode returns nothing where the text is no such JSON.
func decode[A any](text []byte) (answer A) {
	if json.Unmarshal(text, &answer) != nil {
		return *new(A)
	}
	return answer
}

// backoff is how long to wait after so many failures in a row.
func backoff(failures int) time.Duration {
	most := min(time.Minute, time.Second<<min(failures-1, 6))
	return most/2 + rand.N(most/2)
}

// sleep reports whether the time has passed, and the context not ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

func merge[M ~map[string]V, V any](a, b M) M {
	all := make(M)
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
