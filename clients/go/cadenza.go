// Package cadenza is a client of the Cadenza gateway: values, prompts and reports. The
// page docs/clients.md says what it does when the gateway is away.
package cadenza

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	evaluate = "/ofrep/v1/evaluate/flags"
	maxKept  = 1000             // answers
	collect  = time.Second      // in which reports gather
	patience = 10 * time.Second // for a report, for all flags, and for a stream to open
	silence  = 90 * time.Second // after which a stream counts as dead
)

// Object is a context, variables, metadata or a record.
type Object = map[string]any

// Config says where the gateway is, and how a [Client] speaks to it.
type Config struct {
	URL, Key  string
	Context   Object            // fields of every request's context
	Timeout   time.Duration     // of a value or a prompt, 1 s where it is 0
	Spool     string            // the file in which reports wait, of this client alone; in memory where it is empty
	SpoolSize int               // bytes of reports that may wait, 16 MiB where it is 0
	OnError   func(error)       // hears of all errors but those of Report, Flush and Close, maybe of several at once; nil logs them
	Transport http.RoundTripper // http.DefaultTransport where it is nil
}

// A Client asks a gateway. It is safe for concurrent use.
type Client struct {
	Config
	closing context.Context
	end     context.CancelFunc

	mu          sync.Mutex
	kept        map[string][]byte // the last good answers by their requests
	pausedUntil time.Time         // not zero while the gateway is away

	sending  sync.Mutex
	spooling sync.Mutex
	queue    []string // each is its Idempotency-Key, a space, and what is sent: a line of the spool
	size     int      // bytes of them
}

// New returns a client, which sends what is left in its spool.
func New(config Config) (*Client, error) {
	c := &Client{Config: config, kept: make(map[string][]byte)}
	c.URL = strings.TrimRight(c.URL, "/")
	c.Timeout, c.SpoolSize = cmp.Or(c.Timeout, time.Second), cmp.Or(c.SpoolSize, 16<<20)
	c.Transport = cmp.Or(c.Transport, http.DefaultTransport)
	if c.OnError == nil {
		c.OnError = func(err error) { slog.Warn(err.Error()) }
	}
	if _, err := url.Parse(c.URL); err != nil || c.URL == "" || c.Key == "" {
		return nil, errors.New("cadenza: a client needs a URL and a key")
	}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("cadenza: %w", err)
	}
	c.closing, c.end = context.WithCancel(context.Background())
	go func() {
		for sleep(c.closing, collect) {
			if err := c.Flush(c.closing); err != nil {
				c.OnError(err)
				sleep(c.closing, wait(err, patience))
			}
		}
	}()
	return c, nil
}

// Details are a value and where it comes from.
type Details[T any] struct {
	Value           T
	Reason, Variant string // OFREP's, or ERROR where the fallback is not the gateway's choice
	Metadata        Object
	TraceID         string // to report on
	Stale           bool   // it is the last good value, because the gateway gave none
	Err             error
}

// Evaluate returns what the gateway says, else what it said last for the same key and
// context, else the fallback.
func Evaluate[T any](ctx context.Context, c *Client, key string, fallback T, in Object) Details[T] {
	answer, err := c.ask(ctx, evaluate+"/"+url.PathEscape(key), "key", Object{"context": merge(c.Context, in)}, nil)
	return read(c, decode[*flag](answer), fallback, err)
}

// Prompt asks for a prompt with its variables filled in, in the same way. Metadata are kept
// with its trace. Where there is no prompt, its value is nil.
func (c *Client) Prompt(ctx context.Context, key string, in, variables, metadata Object) Details[Object] {
	body := Object{"keys": []string{key}, "context": merge(c.Context, in), "variables": variables}
	answer, err := c.ask(ctx, "/v1/prompts", key, body, Object{"metadata": metadata})
	return read(c, decode[map[string]*flag](answer)[key], Object(nil), err)
}

// ask returns the answer to a request, or with an error the last good one to it, whatever
// more it says. While the gateway is away one call at a time tries, and the others need
// not wait.
func (c *Client) ask(ctx context.Context, path, member string, body, more Object) ([]byte, error) {
	same, _ := json.Marshal(body) // post says why it can't be
	id, now := path+string(same), time.Now()
	c.mu.Lock()
	last, paused := c.kept[id], now.Before(c.pausedUntil)
	if !paused && !c.pausedUntil.IsZero() {
		c.pausedUntil = now.Add(c.Timeout)
	}
	c.mu.Unlock()
	if paused {
		return last, fmt.Errorf("%w: %s", ErrAway, path)
	}
	answer, _, err := c.post(ctx, c.Timeout, path, member, merge(body, more), nil)
	if err != nil {
		defer c.OnError(err) // without the lock: the app may ask again then
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, _ := errors.AsType[Error](err)
	if away := errors.Is(err, ErrAway) || e.Status >= http.StatusBadGateway; !away {
		c.pausedUntil = time.Time{}
	} else if ctx.Err() == nil { // else its caller left
		c.pausedUntil = time.Now().Add(wait(err, 2*time.Second))
	}
	if err != nil && !e.refused() {
		return last, err
	}
	c.kept[id] = answer // nil where it was refused
	maps.DeleteFunc(c.kept, func(other string, old []byte) bool { return old == nil || len(c.kept) > maxKept && other != id })
	return answer, err
}

// An Error is an answer of the gateway, or of what is in its place.
type Error struct {
	Status        int
	Code, Message string
	RetryAfter    time.Duration
}

func (e Error) Error() string { return fmt.Sprintf("cadenza: %s (%d %s)", e.Message, e.Status, e.Code) }

// refused reports whether another try is useless, and what the gateway said before no longer holds.
func (e Error) refused() bool {
	unknown := slices.Contains([]string{"FLAG_NOT_FOUND", "unknown_key", "unknown_trace"}, e.Code) // but no path
	return slices.Contains([]int{400, 413, 422}, e.Status) || e.Status == http.StatusNotFound && unknown
}

// Errors that are no answers.
var (
	ErrAway = errors.New("cadenza: the gateway is away")
	ErrType = errors.New("cadenza: the value has another type")
	ErrLost = errors.New("cadenza: a report is lost")
)

// post returns a 200 that has a member, and its ETag, and an error for all else, which may
// be a proxy's.
func (c *Client) post(
	ctx context.Context, timeout time.Duration, path, member string, body any, header http.Header,
) (answer []byte, etag []string, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, nil, fmt.Errorf("cadenza: %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+path, bytes.NewReader(text)) // New has parsed the URL
	// A key that is nil is not sent, but has the transport repeat the request after a lost connection.
	request.Header = http.Header{"Authorization": {"Bearer " + c.Key}, "Content-Type": {"application/json"}, "Idempotency-Key": nil}
	maps.Copy(request.Header, header)
	response, err := c.Transport.RoundTrip(request)
	if err == nil {
		defer response.Body.Close()
		text, err = io.ReadAll(response.Body)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrAway, err)
	}
	members := decode[map[string]json.RawMessage](text)
	if response.StatusCode == http.StatusOK && members[member] != nil {
		return text, response.Header["Etag"], nil
	}
	e := decode[Error](members["error"])
	e.Status, e.Code = response.StatusCode, cmp.Or(decode[string](members["errorCode"]), e.Code)
	e.Message = cmp.Or(e.Message, fmt.Sprintf("%s: no answer of a gateway: %.80s", path, text))
	e.RetryAfter, _ = time.ParseDuration(response.Header.Get("Retry-After") + "s")
	return nil, nil, e
}

// flag is what the gateway says of one, or of a prompt.
type flag struct {
	Key             string
	Value           json.RawMessage
	Reason, Variant string
	Metadata        Object
	TraceID         string `json:"trace_id"`
}

// read returns what an answer says: the fallback where it has no value, or one of another type.
func read[T any](c *Client, f *flag, fallback T, err error) Details[T] {
	found := Details[T]{Value: fallback, Reason: "ERROR", Stale: f != nil && err != nil, Err: err}
	var value *T // stays nil where the answer leaves the value to the fallback
	switch {
	case f == nil:
	case f.Value != nil && json.Unmarshal(f.Value, &value) != nil:
		found.Err = fmt.Errorf("%w: %s is no %T", ErrType, f.Key, fallback)
		c.OnError(found.Err)
	default:
		found.Value = *cmp.Or(value, &fallback)
		found.Reason, found.Variant, found.Metadata = f.Reason, f.Variant, f.Metadata
		traceID, _ := f.Metadata["trace_id"].(string)
		found.TraceID = cmp.Or(f.TraceID, traceID)
	}
	return found
}

// Flags are the values of all flags for one context, kept fresh by events.
type Flags struct {
	c        *Client
	body     Object
	onChange func(keys []string)
	etag     []string
	stream   *url.URL // of events
	now      atomic.Pointer[state]
}

type state struct {
	flags   map[string]*flag // nil before they arrive
	failure error
}

// Follow returns the flags for a context after a first try. They stay fresh until ctx ends,
// or the client is closed. The function, where it is not nil, is called with the keys whose
// values have changed.
func (c *Client) Follow(ctx context.Context, in Object, onChange func(keys []string)) *Flags {
	f := &Flags{c: c, body: Object{"context": merge(c.Context, in)}, onChange: onChange}
	f.now.Store(&state{nil, fmt.Errorf("%w: the flags have not arrived", ErrAway)})
	go f.run(ctx, f.refresh(ctx)) // the first try is made here
	return f
}

// Lookup returns a flag's value, the last good one while the gateway is away, or the fallback.
func Lookup[T any](f *Flags, key string, fallback T) Details[T] {
	now := f.now.Load()
	found, err := now.flags[key], now.failure
	if found == nil && now.flags != nil {
		err = Error{Status: http.StatusNotFound, Code: "FLAG_NOT_FOUND", Message: "there is no flag " + key}
		f.c.OnError(err)
	}
	return read(f.c, found, fallback, err)
}

func (f *Flags) run(ctx context.Context, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(f.c.closing, end)()
	for ; ; err = f.refresh(ctx) {
		if err == nil && f.stream != nil {
			err = f.listen(ctx)
		}
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("cadenza: followed flags: %w", err)
			f.now.Store(&state{f.now.Load().flags, err})
			f.c.OnError(err)
		}
		if !sleep(ctx, wait(err, patience)) {
			return
		}
	}
}

// refresh asks for all flags, and says which have changed.
func (f *Flags) refresh(ctx context.Context) error {
	before := f.now.Load().flags
	answer, etag, err := f.c.post(ctx, max(patience, f.c.Timeout), evaluate, "flags", f.body, http.Header{"If-None-Match": f.etag})
	if e, _ := errors.AsType[Error](err); e.Status == http.StatusNotModified {
		f.now.Store(&state{before, nil})
		return nil
	}
	if err != nil {
		return err
	}
	said := decode[struct {
		Flags        []flag
		EventStreams []struct {
			Type     string
			Endpoint struct{ RequestURI string }
		}
	}](answer)
	f.etag, f.stream = etag, nil
	for _, s := range said.EventStreams {
		if s.Type == "sse" {
			f.stream, _ = url.Parse(f.c.URL)
			f.stream, _ = f.stream.Parse(s.Endpoint.RequestURI)
		}
	}
	now, changed := make(map[string]*flag), []string(nil)
	for _, one := range said.Flags {
		now[one.Key] = &one
	}
	for key := range merge(before, now) {
		if before[key] == nil || now[key] == nil || string(before[key].Value) != string(now[key].Value) {
			changed = append(changed, key)
		}
	}
	f.now.Store(&state{now, nil})
	if f.onChange != nil && before != nil && changed != nil {
		f.onChange(changed)
	}
	return nil
}

// listen refreshes at each event until the stream ends. The stream's address has a token
// of its own: the API key is not sent there.
func (f *Flags) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dead := time.AfterFunc(patience, func() { cancel(errors.New("the stream of events is silent")) })
	defer dead.Stop()
	request := &http.Request{Method: http.MethodGet, URL: f.stream, Header: http.Header{"Accept": {"text/event-stream"}}}
	response, err := f.c.Transport.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		f.etag = nil // the next answer is whole, and has an address that may be new
		return Error{Status: response.StatusCode, Message: "no stream of events"}
	}
	dead.Reset(silence)
	lines := bufio.NewScanner(response.Body) // lines of 64 KiB at most, and an event of the gateway is one
	for ; err == nil && lines.Scan(); dead.Reset(silence) {
		if strings.HasPrefix(lines.Text(), "data:") && strings.Contains(lines.Text(), `"refetchEvaluation"`) {
			err = f.refresh(ctx)
		}
	}
	return cmp.Or(context.Cause(ctx), err, lines.Err())
}

// Report queues a record, whose members docs/http-api.md has, on a trace or, where the
// trace id is empty, on the decision_id in it. When it returns, the record is on the disk.
// [ErrLost] says that there is no room for it.
func (c *Client) Report(traceID string, record Object) error {
	if traceID != "" {
		record = merge(record, Object{"trace_id": traceID})
	}
	body, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("cadenza: %w", err)
	}
	line := rand.Text() + " " + string(body)
	c.spooling.Lock()
	defer c.spooling.Unlock()
	if c.closing.Err() != nil || c.size+len(line) > c.SpoolSize {
		return fmt.Errorf("%w: %d wait already, or the client is closed: %s", ErrLost, len(c.queue), body)
	}
	c.queue, c.size = append(c.queue, line), c.size+len(line)
	// A line begins with the end of the one before, of which a full disk may have left half.
	return c.write(c.Spool, os.O_APPEND, "\n"+line)
}

// Close ends all that runs, and flushes. Reports that are left stay in the spool.
func (c *Client) Close(ctx context.Context) error {
	c.end()
	return c.Flush(ctx)
}

// Flush sends what is queued until one report is not taken, which goes behind the others.
// Its error says what was not sent, and with [ErrLost] which reports the gateway refused.
func (c *Client) Flush(ctx context.Context) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.spooling.Lock()
	batch := c.queue
	c.spooling.Unlock()
	var again []string
	var errs []error
	for i, line := range batch {
		id, body, _ := strings.Cut(line, " ")
		_, _, err := c.post(ctx, max(patience, c.Timeout), "/v1/metrics", "ok", json.RawMessage(body), http.Header{"Idempotency-Key": {id}})
		if e, _ := errors.AsType[Error](err); e.refused() {
			errs = append(errs, fmt.Errorf("%w: %w: %s", ErrLost, err, body))
		} else if err != nil {
			again, errs = slices.Concat(batch[i+1:], batch[i:i+1]), append(errs, err)
			break
		}
	}
	c.spooling.Lock()
	defer c.spooling.Unlock()
	c.queue = append(again, c.queue[len(batch):]...)
	if len(again) < len(batch) { // else only their order is another
		errs = append(errs, c.rewrite())
	}
	return errors.Join(errs...)
}

// load reads what is left in the spool. Half a line is of a report that was not taken.
func (c *Client) load() error {
	text, err := os.ReadFile(c.Spool)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if _, body, _ := strings.Cut(line, " "); json.Valid([]byte(body)) {
			c.queue = append(c.queue, line)
		}
	}
	return c.rewrite()
}

// rewrite writes the spool anew, with what waits.
func (c *Client) rewrite() error {
	text := strings.Join(c.queue, "\n")
	c.size = len(text)
	if err := c.write(c.Spool+".new", os.O_TRUNC, text); err != nil || c.Spool == "" {
		return err
	}
	return os.Rename(c.Spool+".new", c.Spool)
}

// write writes to a file, and has it on the disk, where there is a spool.
func (c *Client) write(name string, how int, text string) error {
	if c.Spool == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|how, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// decode returns what of a text is as expected.
func decode[A any](text []byte) (answer A) {
	_ = json.Unmarshal(text, &answer)
	return answer
}

// wait is a random time of at most so much, or what the gateway asked for.
func wait(err error, most time.Duration) time.Duration {
	e, _ := errors.AsType[Error](err)
	return max(e.RetryAfter, most/2+mathrand.N(most/2))
}

// sleep reports whether the time has passed, and the context not ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer, stop := context.WithTimeout(ctx, d)
	defer stop()
	<-timer.Done()
	return ctx.Err() == nil
}

func merge[M ~map[string]V, V any](a, b M) M {
	all := make(M)
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
