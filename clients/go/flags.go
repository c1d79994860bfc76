package cadenza

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const silence = 90 * time.Second // after which a stream counts as dead

type flag struct {
	Key                     string
	Value                   json.RawMessage
	Reason, Variant         string
	Metadata                Object
	ErrorCode, ErrorDetails string
}

// read returns what an answer about a flag says: the fallback where it has no value, or
// one of another type.
func read[T any](c *Client, f *flag, fallback T, stale bool, err error) Details[T] {
	found := Details[T]{Value: fallback, Reason: "ERROR", Stale: stale, Err: err}
	if f == nil {
		return found
	}
	value, none := new(T), len(f.Value) == 0 || string(f.Value) == "null"
	if f.ErrorCode != "" {
		found.Err = &Error{Status: http.StatusNotFound, Code: f.ErrorCode, Message: f.ErrorDetails}
	} else if !none && json.Unmarshal(f.Value, value) != nil {
		found.Err = fmt.Errorf("cadenza: %s is no %T: %w", f.Key, *value, ErrType)
	} else {
		found.Reason, found.Variant, found.Metadata = f.Reason, f.Variant, f.Metadata
		found.TraceID, _ = f.Metadata["trace_id"].(string)
		if !none {
			found.Value = *value
		}
		return found
	}
	c.OnError(found.Err)
	return found
}

// Flags are the values of all flags for one context, kept fresh by events.
type Flags struct {
	c        *Client
	body     Object
	ctx      context.Context
	end      context.CancelFunc
	onChange func(keys []string)
	stream   string // the address of the events

	mu      sync.Mutex
	flags   map[string]*flag
	failure error
}

// Follow returns the flags for a context after a first try, or when ctx ends. They stay
// fresh until they, or the client, are closed. The function, where it is not nil, is called
// with the keys whose values have changed.
func (c *Client) Follow(ctx context.Context, in Object, onChange func(keys []string)) *Flags {
	f := &Flags{c: c, body: Object{"context": merge(c.Context, in)}, onChange: onChange, failure: fmt.Errorf("cadenza: the flags have not arrived yet: %w", ErrAway)}
	f.ctx, f.end = context.WithCancel(c.closing)
	tried := make(chan struct{})
	go f.run(sync.OnceFunc(func() { close(tried) }))
	select {
	case <-tried:
	case <-ctx.Done():
	}
	return f
}

// Close ends what keeps the flags fresh.
func (f *Flags) Close() { f.end() }

// Get returns a flag's value, the last good one while the gateway is away, or the fallback.
func Get[T any](f *Flags, key string, fallback T) T { return Lookup(f, key, fallback).Value }

// Lookup is as [Get], and says where the value comes from.
func Lookup[T any](f *Flags, key string, fallback T) Details[T] {
	f.mu.Lock()
	found, arrived, failure := f.flags[key], f.flags != nil, f.failure
	f.mu.Unlock()
	if arrived && found == nil {
		found = &flag{ErrorCode: "FLAG_NOT_FOUND", ErrorDetails: "there is no flag " + key}
	}
	return read(f.c, found, fallback, arrived && failure != nil, failure)
}

func (f *Flags) run(tried func()) {
	for failures := 0; ; {
		began := time.Now()
		err := f.refresh()
		tried()
		if err == nil && f.stream != "" {
			err = f.listen()
		}
		if f.ctx.Err() != nil {
			return
		}
		if failures++; time.Since(began) > silence {
			failures = 1
		}
		wait := max(retryAfter(err), backoff(failures))
		if err != nil {
			f.set(nil, err)
		} else if f.stream == "" {
			failures, wait = 0, f.c.Poll
		}
		if !sleep(f.ctx, wait) {
			return
		}
	}
}

// set sets the flags, where there are some, and the error, and returns the flags of before.
func (f *Flags) set(flags map[string]*flag, err error) (before map[string]*flag) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, f.failure = f.flags, err
	if flags != nil {
		f.flags = flags
	}
	return before
}

// refresh asks for all flags, and says which have changed.
func (f *Flags) refresh() error {
	type all struct {
		Flags        []*flag
		EventStreams []struct {
			Type, URL string
			Endpoint  struct{ Origin, RequestURI string }
		}
	}
	answer, _, err := ask(f.ctx, f.c, max(patience, f.c.Timeout), evaluate, f.body, nil, func(a *all) bool { return a.Flags != nil })
	if err != nil {
		return err
	}
	f.stream = ""
	for _, s := range answer.EventStreams {
		// The path is that of the whole address, also where the gateway is below one.
		if base, err := url.Parse(cmp.Or(s.Endpoint.Origin, f.c.URL)); err == nil && s.Type == "sse" && f.stream == "" {
			if address, err := base.Parse(cmp.Or(s.URL, s.Endpoint.RequestURI)); err == nil {
				f.stream = address.String()
			}
		}
	}
	now, changed := make(map[string]*flag), []string(nil)
	for _, one := range answer.Flags {
		now[one.Key] = one
	}
	before := f.set(now, nil)
	for key := range merge(before, now) {
		if was, is := before[key], now[key]; was == nil || is == nil || !bytes.Equal(was.Value, is.Value) {
			changed = append(changed, key)
		}
	}
	if f.onChange != nil && before != nil && changed != nil {
		f.onChange(changed)
	}
	return nil
}

// listen refreshes at each event until the stream ends. The stream's address has a token
// of its own: the API key is not sent there.
func (f *Flags) listen() (err error) {
	ctx, cancel := context.WithCancelCause(f.ctx)
	dead := time.AfterFunc(patience, func() { cancel(errors.New("it is silent")) })
	asked := error(nil) // what a refresh ended with, which told of it
	defer func() {
		if err = cmp.Or(asked, err); err != nil && asked == nil && f.ctx.Err() == nil {
			err = fmt.Errorf("cadenza: the stream of events: %w", cmp.Or(context.Cause(ctx), err))
			f.c.OnError(err)
		}
		dead.Stop()
		cancel(nil)
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.stream, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := f.c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		body, _ := json.Marshal(f.body)
		f.c.learn(evaluate+string(body), good{}, nil) // the next answer is whole, and has an address that may be new
		return failed(response, nil)
	}
	dead.Reset(silence)
	if asked = f.refresh(); asked != nil { // what changed before it was open
		return nil
	}
	data := ""
	for lines := bufio.NewScanner(response.Body); ; { // lines of 64 KiB at most
		if !lines.Scan() {
			return lines.Err()
		}
		dead.Reset(silence)
		if text, ok := strings.CutPrefix(lines.Text(), "data:"); ok {
			data = text // an event of the gateway is one line
		} else if lines.Text() == "" && data != "" {
			event := decode[struct{ Type string }]([]byte(data))
			if data = ""; event != nil && event.Type == "refetchEvaluation" {
				if asked = f.refresh(); asked != nil {
					return nil
				}
			}
		}
	}
}
