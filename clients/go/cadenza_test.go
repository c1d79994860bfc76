package cadenza

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// asked is a request to the fake gateway.
type asked struct {
	path, body string
	header     http.Header
}

// fake is a gateway in this process, whose answer a test sets.
type fake struct {
	mu       sync.Mutex
	requests []asked
	answer   func(w http.ResponseWriter, r *http.Request)
	stream   func(r *http.Request) *http.Response // of events
	errs     []error
}

var errDown = errors.New("connection refused")

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte(nil)
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	f.mu.Lock()
	f.requests = append(f.requests, asked{r.URL.EscapedPath(), string(body), r.Header.Clone()})
	answer, stream := f.answer, f.stream
	f.mu.Unlock()
	if r.Method == http.MethodGet {
		response := stream(r)
		response.Request = r
		return response, nil
	}
	if answer == nil {
		return nil, errDown
	}
	w := httptest.NewRecorder()
	answer(w, r)
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	response := w.Result()
	response.Request = r
	return response, nil
}

func (f *fake) set(answer func(w http.ResponseWriter, r *http.Request)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// take returns what was asked for, and forgets it.
func (f *fake) take() []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.requests
	f.requests = nil
	return found
}

// errors returns what the client told of, and forgets it.
func (f *fake) errors() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.errs
	f.errs = nil
	return found
}

// connect returns a client of the fake.
func connect(t *testing.T, f *fake, config Config) *Client {
	t.Helper()
	config.URL, config.Key, config.Transport = cmp.Or(config.URL, "http://gateway/"), "key", f
	config.OnError = func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.errs = append(f.errs, err)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ctx)
	})
	return c
}

func value[T any](ctx context.Context, c *Client, key string, fallback T, in Object) T {
	return Evaluate(ctx, c, key, fallback, in).Value
}

func get[T any](f *Flags, key string, fallback T) T { return Lookup(f, key, fallback).Value }

func says(status int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func flagged(value any) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(Object{"key": path.Base(r.URL.Path), "value": value, "reason": "SPLIT", "variant": "b", "metadata": Object{"trace_id": "t1", "version": 3}})
	}
}

func TestValue(t *testing.T) {
	f := &fake{answer: flagged(true)}
	c := connect(t, f, Config{Timeout: time.Minute, Context: Object{"plan": "pro", "seats": 1}})
	found := Evaluate(t.Context(), c, "a/b c", false, Object{"seats": 2})
	if !found.Value || found.Reason != "SPLIT" || found.Variant != "b" || found.TraceID != "t1" || found.Metadata["version"] != 3.0 || found.Stale || found.Err != nil {
		t.Errorf("%+v", found)
	}
	if r := f.take()[0]; r.path != "/ofrep/v1/evaluate/flags/a%2Fb%20c" || r.body != `{"context":{"plan":"pro","seats":2}}` || r.header.Get("Authorization") != "Bearer key" {
		t.Errorf("%+v", r)
	}
	f.set(says(200, `{"key":"a","reason":"DEFAULT"}`))
	if found := Evaluate(t.Context(), c, "a", 7, nil); found.Value != 7 || found.Reason != "DEFAULT" || found.Err != nil {
		t.Errorf("a default of the code: %+v", found)
	}
	type limits struct{ RPM int }
	f.set(flagged(Object{"rpm": 60}))
	if found := value(t.Context(), c, "a", limits{1}, nil); found.RPM != 60 {
		t.Errorf("an object: %+v", found)
	}
	if errs := f.errors(); errs != nil {
		t.Error(errs)
	}
}

func TestWrongType(t *testing.T) {
	f := &fake{answer: flagged(1.5)}
	c := connect(t, f, Config{Timeout: time.Minute})
	check := func(err error, right bool) {
		t.Helper()
		if right == errors.Is(err, ErrType) {
			t.Errorf("%v", err)
		}
	}
	check(Evaluate(t.Context(), c, "a", 0.0, nil).Err, true)
	check(Evaluate[any](t.Context(), c, "a", 0, nil).Err, true)
	check(Evaluate(t.Context(), c, "a", 0, nil).Err, false)
	check(Evaluate(t.Context(), c, "a", "", nil).Err, false)
	check(Evaluate(t.Context(), c, "a", false, nil).Err, false)
	if found := Evaluate(t.Context(), c, "a", []string{"x"}, nil); found.Reason != "ERROR" || !slices.Equal(found.Value, []string{"x"}) {
		t.Errorf("%+v", found)
	}
	if errs := f.errors(); len(errs) != 4 {
		t.Error(errs)
	}
}

func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fake)
		c := connect(t, f, Config{})
		ann := Object{"user": "ann", "locale": "nl"}
		found := Evaluate(t.Context(), c, "a", "default", ann)
		if found.Value != "default" || found.Stale || !errors.Is(found.Err, ErrAway) || !errors.Is(found.Err, errDown) {
			t.Errorf("at the start: %+v", found)
		}
		f.set(flagged("good"))
		if found = Evaluate(t.Context(), c, "a", "default", ann); found.Value != "default" || !errors.Is(found.Err, ErrAway) || len(f.take()) != 1 || len(f.errors()) != 1 {
			t.Errorf("just after: %+v", found)
		}
		time.Sleep(2 * time.Second)
		for range 2 {
			if found := value(t.Context(), c, "a", "default", ann); found != "good" {
				t.Errorf("it is not back: %s", found)
			}
		}
		f.set(nil)
		for range 3 {
			if found = Evaluate(t.Context(), c, "a", "default", ann); found.Value != "good" || !found.Stale || found.TraceID != "t1" || !errors.Is(found.Err, ErrAway) {
				t.Errorf("later: %+v", found)
			}
			time.Sleep(2 * time.Second)
		}
		for _, other := range []Object{{"user": "bob", "locale": "nl"}, nil, {"user": "ann"}} {
			if found := value(t.Context(), c, "a", "default", other); found != "default" {
				t.Errorf("%v gets %s", other, found)
			}
		}
		if found := value(t.Context(), c, "b", "default", ann); found != "default" {
			t.Errorf("b is %s", found)
		}
	})
}

func TestOneCallTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(503)
		}}
		c := connect(t, f, Config{Timeout: time.Minute})
		value(t.Context(), c, "a", 0, nil)
		time.Sleep(2*time.Minute - time.Nanosecond)
		release := make(chan bool)
		f.set(func(w http.ResponseWriter, r *http.Request) { <-release; flagged(1)(w, r) })
		time.Sleep(time.Nanosecond)
		trial := make(chan int)
		go func() { trial <- value(t.Context(), c, "a", 0, nil) }()
		synctest.Wait()
		if found := value(t.Context(), c, "a", 0, nil); found != 0 || len(f.take()) != 2 {
			t.Errorf("another call gets %d", found)
		}
		close(release)
		if found := <-trial; found != 1 {
			t.Errorf("the trial gets %d", found)
		}
		if found := Evaluate(t.Context(), c, "a", 0, nil); found.Value != 1 || found.Stale {
			t.Errorf("after it: %+v", found)
		}
	})
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		c := connect(t, f, Config{})
		began := time.Now()
		found := Evaluate(t.Context(), c, "a", "default", nil)
		if took := time.Since(began); found.Value != "default" || took != time.Second || !errors.Is(found.Err, context.DeadlineExceeded) {
			t.Errorf("%+v in %v", found, took)
		}
		// A caller who leaves says nothing about the gateway.
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		value(ctx, c, "a", "default", nil)
		f.set(flagged("good"))
		time.Sleep(time.Second)
		if found := value(t.Context(), c, "a", "default", nil); found != "good" {
			t.Error(found)
		}
	})
}

func TestAfterGood(t *testing.T) {
	ours := func(code string) string { return fmt.Sprintf(`{"error":{"code":%q,"message":"no"}}`, code) }
	for name, test := range map[string]struct {
		status     int
		body, code string
		keeps      bool
	}{
		"401":            {401, ours("invalid_api_key"), "invalid_api_key", true},
		"403":            {403, ours("key_not_allowed"), "key_not_allowed", true},
		"429":            {429, ours("rate_limited"), "rate_limited", true},
		"500":            {500, ours("internal"), "internal", true},
		"no such path":   {404, ours("not_found"), "not_found", true},
		"a proxy's 404":  {404, "<html>", "", true},
		"a proxy's 200":  {200, "<html>", "", true},
		"another's 200":  {200, "{}", "", true},
		"null":           {200, "null", "", true},
		"a redirection":  {302, "", "", true},
		"400":            {400, `{"errorCode":"INVALID_CONTEXT","errorDetails":"no"}`, "INVALID_CONTEXT", false},
		"404 of the key": {404, `{"key":"a","errorCode":"FLAG_NOT_FOUND"}`, "FLAG_NOT_FOUND", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{answer: flagged("good")}
			c := connect(t, f, Config{})
			value(t.Context(), c, "a", "default", nil)
			f.set(says(test.status, test.body))
			want := map[bool]string{true: "good", false: "default"}[test.keeps]
			for range 2 {
				found := Evaluate(t.Context(), c, "a", "default", nil)
				e, _ := errors.AsType[Error](found.Err)
				if found.Value != want || found.Stale != test.keeps || found.Err == nil || e.Code != test.code {
					t.Errorf("%+v", found)
				}
			}
			if errs, requests := f.errors(), f.take(); len(errs) != 2 || len(requests) != 3 {
				t.Errorf("%v after %d requests", errs, len(requests))
			}
			if len(c.kept) != map[bool]int{true: 1}[test.keeps] {
				t.Errorf("%d are kept", len(c.kept))
			}
		})
	}
}

func TestKeptAreBounded(t *testing.T) {
	f := &fake{answer: flagged("good")}
	c := connect(t, f, Config{Timeout: time.Minute})
	for i := range maxKept + 10 {
		value(t.Context(), c, "a", "", Object{"user": i})
	}
	if len(c.kept) != maxKept {
		t.Errorf("%d are kept", len(c.kept))
	}
	f.set(nil)
	if found := value(t.Context(), c, "a", "", Object{"user": maxKept + 9}); found != "good" {
		t.Error("the last one is not kept")
	}
}

func TestPrompt(t *testing.T) {
	f := &fake{answer: says(200, `{"reply":{"value":{"model":"m"},"trace_id":"t1"}}`)}
	c := connect(t, f, Config{Timeout: time.Minute, Context: Object{"locale": "nl"}})
	ask := func(question string, page int) Details[Object] {
		return c.Prompt(t.Context(), "reply", Object{"plan": "pro"}, Object{"question": question}, Object{"page": page})
	}
	if found := ask("why", 1); found.Value["model"] != "m" || found.TraceID != "t1" || found.Stale || found.Err != nil {
		t.Errorf("%+v", found)
	}
	if r := f.take()[0]; r.path != "/v1/prompts" || r.body != `{"context":{"locale":"nl","plan":"pro"},"keys":["reply"],"metadata":{"page":1},"variables":{"question":"why"}}` {
		t.Errorf("%+v", r)
	}
	f.set(says(401, ""))
	if found := ask("why", 2); found.Value["model"] != "m" || found.TraceID != "t1" || !found.Stale {
		t.Errorf("the last good: %+v", found)
	}
	if found := ask("how", 2); found.Value != nil || found.Stale || found.Err == nil {
		t.Errorf("another question: %+v", found)
	}
}

func TestNew(t *testing.T) {
	for _, config := range []Config{{}, {URL: "http://gateway"}, {Key: "key"}, {URL: "http://gateway:port", Key: "key"}, {URL: "http://gateway", Key: "key", Spool: path.Join(t.TempDir(), "none", "spool")}} {
		if c, err := New(config); err == nil {
			t.Errorf("%+v: %+v", config, c)
		}
	}
}

// gateway is a fake with flags and streams of events.
type gateway struct {
	fake
	values  map[string]any
	more    Object // members of the bulk answer
	streams []*io.PipeWriter
}

func newGateway() *gateway {
	g := &gateway{values: map[string]any{"color": "red", "size": 1}}
	g.more = Object{"eventStreams": []Object{{"type": "other"}, {"type": "sse", "endpoint": Object{"requestUri": "/ofrep/v1/events?token=t1"}}}}
	g.answer = g.usual
	g.stream = func(r *http.Request) *http.Response {
		reader, writer := io.Pipe()
		context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(r.Context().Err()) })
		g.mu.Lock()
		defer g.mu.Unlock()
		g.streams = append(g.streams, writer)
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: reader}
	}
	return g
}

func (g *gateway) usual(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	flags := []Object{}
	for key, value := range g.values {
		flags = append(flags, Object{"key": key, "value": value, "reason": "STATIC"})
	}
	etag := fmt.Sprintf("%q", fmt.Sprint(g.values))
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(304)
		return
	}
	answer := Object{"flags": flags}
	maps.Copy(answer, g.more)
	_ = json.NewEncoder(w).Encode(answer)
}

func (g *gateway) setValues(values map[string]any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.values = values
}

const refetch = "data: {\"type\":\"refetchEvaluation\",\"etag\":\"e2\"}\n\n"

// opened returns the streams that are or were open.
func (g *gateway) opened() []*io.PipeWriter {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.streams)
}

// say writes to the nth stream, and waits until all is quiet.
func (g *gateway) say(t *testing.T, n int, text string) {
	t.Helper()
	streams := g.opened()
	if len(streams) != n {
		t.Fatalf("%d streams are or were open, want %d", len(streams), n)
	}
	if _, err := io.WriteString(streams[n-1], text); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway()
		c := connect(t, &g.fake, Config{Context: Object{"plan": "pro"}})
		var changes [][]string
		f := c.Follow(t.Context(), Object{"user": "ann"}, func(keys []string) { changes = append(changes, slices.Sorted(slices.Values(keys))) })
		if get(f, "color", "") != "red" || get(f, "size", 0) != 1 {
			t.Errorf("%+v", f.now.Load())
		}
		synctest.Wait()
		requests := g.take()
		if len(requests) != 2 || requests[1].path != "/ofrep/v1/events" || requests[1].header.Get("Authorization") != "" || requests[1].header.Get("Accept") != "text/event-stream" {
			t.Errorf("%+v", requests)
		}
		if requests[0].body != `{"context":{"plan":"pro","user":"ann"}}` || requests[0].header.Get("If-None-Match") != "" {
			t.Errorf("%+v", requests)
		}
		g.setValues(map[string]any{"color": "blue", "weight": 2})
		g.say(t, 1, ": hello\r\n\r\nevent: message\r\ndata: {\"type\":\"refetch")
		g.say(t, 1, "Evaluation\"}\r\n\r\ndata: {\"type\":\"other\"}\n\ndata: none\n\n")
		if len(g.take()) != 1 || len(changes) != 1 || !slices.Equal(changes[0], []string{"color", "size", "weight"}) || get(f, "color", "") != "blue" || get(f, "size", 7) != 7 {
			t.Errorf("%v %+v", changes, f.now.Load())
		}
		g.say(t, 1, refetch) // answered 304
		if requests := g.take(); len(requests) != 1 || requests[0].header.Get("If-None-Match") == "" || len(changes) != 1 || get(f, "color", "") != "blue" {
			t.Errorf("%v %+v", changes, f.now.Load())
		}
		if len(g.errors()) != 1 { // size is gone
			t.Error("no error")
		}
		if e, ok := errors.AsType[Error](Lookup(f, "other", 1).Err); !ok || e.Code != "FLAG_NOT_FOUND" {
			t.Errorf("%v", e)
		}
		if found := Lookup(f, "color", true); !found.Value || !errors.Is(found.Err, ErrType) || found.Stale {
			t.Errorf("%+v", found)
		}
		c.end()
		synctest.Wait()
		if _, err := io.WriteString(g.opened()[0], refetch); err == nil {
			t.Error("the stream is still read")
		}
		c.Follow(t.Context(), nil, nil) // does not hang
	})
}

func TestStreamsAddress(t *testing.T) {
	for _, test := range []struct {
		gateway string
		stream  Object
		want    string
	}{
		{"http://gateway/below/", Object{"endpoint": Object{"requestUri": "/below/events?token=t1"}}, "http://gateway/below/events?token=t1"},
		{"https://gateway:1", Object{"endpoint": Object{"requestUri": "/events"}}, "https://gateway:1/events"},
		{"http://gateway", Object{"type": "other", "endpoint": Object{"requestUri": "/events"}}, "<nil>"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGateway()
			g.more = Object{"eventStreams": []Object{merge(Object{"type": "sse"}, test.stream)}}
			c := connect(t, &g.fake, Config{URL: test.gateway})
			f := c.Follow(t.Context(), nil, nil)
			if g.opened(); fmt.Sprint(f.stream) != test.want {
				t.Errorf("%+v: %v", test, f.stream)
			}
		})
	}
}

func TestStreamIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway()
		c := connect(t, &g.fake, Config{})
		f := c.Follow(t.Context(), nil, nil)
		for n := 1; n <= 4; n++ {
			g.say(t, n, ": here\n\n")
			g.setValues(map[string]any{"n": n})
			_ = g.opened()[n-1].CloseWithError(map[bool]error{true: errDown}[n%2 == 0])
			synctest.Wait()
			if errs := g.errors(); len(errs) != (n+1)%2 {
				t.Errorf("cut %d: %v", n, errs)
			}
			time.Sleep(patience/2 - 1)
			if streams := g.opened(); len(streams) != n {
				t.Errorf("after cut %d there are %d streams", n, len(streams))
			}
			time.Sleep(patience/2 + 1)
			synctest.Wait()
			if get(f, "n", 0) != n {
				t.Errorf("cut %d was not noticed", n)
			}
		}
	})
}

func TestSilentStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway()
		c := connect(t, &g.fake, Config{})
		c.Follow(t.Context(), nil, nil)
		for range 3 {
			time.Sleep(silence - 1)
			g.say(t, 1, ": here\n\n")
		}
		time.Sleep(silence)
		synctest.Wait()
		if errs := g.errors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "silent") {
			t.Error(errs)
		}
		time.Sleep(patience)
		g.say(t, 2, ": here\n\n")
		_, _ = io.WriteString(g.opened()[1], "data: "+strings.Repeat("x", 70_000))
		synctest.Wait()
		if errs := g.errors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "too long") {
			t.Error(errs)
		}
	})
}

func TestStreamDoesNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway()
		usual := g.stream
		g.stream = func(r *http.Request) *http.Response {
			<-r.Context().Done()
			return usual(r)
		}
		c := connect(t, &g.fake, Config{})
		c.Follow(t.Context(), nil, nil)
		time.Sleep(patience)
		synctest.Wait()
		if errs := g.errors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "silent") {
			t.Error(errs)
		}
	})
}

func TestEventsAreSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway()
		c := connect(t, &g.fake, Config{})
		f := c.Follow(t.Context(), nil, nil)
		g.say(t, 1, ": here\n\n")
		g.setValues(map[string]any{"color": "blue"})
		g.mu.Lock()
		g.more = nil
		g.mu.Unlock()
		_ = g.opened()[0].Close()
		for _, color := range []string{"blue", "green"} {
			g.setValues(map[string]any{"color": color})
			time.Sleep(patience)
			if streams := g.opened(); len(streams) != 1 || get(f, "color", "") != color {
				t.Errorf("%d streams, and it is not %s", len(streams), color)
			}
		}
	})
}

func TestTokenEnds(t *testing.T) {
	t.Run("401", func(t *testing.T) {
		noStream(t, http.Response{StatusCode: 401, Header: http.Header{"Content-Type": {"text/event-stream"}}})
	})
	t.Run("a proxy's page", func(t *testing.T) { noStream(t, http.Response{StatusCode: 200}) })
}

// noStream has a client follow flags whose first address of events answers something else.
func noStream(t *testing.T, answer http.Response) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGateway()
		usual := g.stream
		g.stream = func(r *http.Request) *http.Response {
			if r.URL.Query().Get("token") == "t1" {
				answer.Body = http.NoBody
				return &answer
			}
			return usual(r)
		}
		c := connect(t, &g.fake, Config{})
		f := c.Follow(t.Context(), nil, func(keys []string) { t.Errorf("%v have changed", keys) })
		synctest.Wait()
		g.mu.Lock()
		g.more = Object{"eventStreams": []Object{{"type": "sse", "url": "http://gateway/ofrep/v1/events?token=t2"}}}
		g.mu.Unlock()
		if found := Lookup(f, "color", ""); found.Value != "red" || !found.Stale || len(g.errors()) != 1 {
			t.Errorf("%+v", found)
		}
		time.Sleep(patience)
		g.say(t, 1, ": here\n\n")
		if requests := g.take(); requests[2].header.Get("If-None-Match") != "" {
			t.Errorf("%+v", requests)
		}
	})
}

func TestFollowAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway()
		g.more = nil
		g.answer = nil
		c := connect(t, &g.fake, Config{})
		ctx, end := context.WithCancel(t.Context())
		defer end()
		f := c.Follow(ctx, nil, nil)
		found := Lookup(f, "color", "default")
		if synctest.Wait(); found.Value != "default" || found.Stale || !errors.Is(found.Err, ErrAway) || len(g.errors()) != 1 {
			t.Errorf("%+v", found)
		}
		g.set(g.usual)
		time.Sleep(patience)
		if get(f, "color", "default") != "red" {
			t.Error("it does not try again")
		}
		g.set(says(401, ""))
		time.Sleep(time.Hour)
		if found := Lookup(f, "color", "default"); found.Value != "red" || !found.Stale || found.Err == nil {
			t.Errorf("%+v", found)
		}
		g.set(g.usual)
		g.setValues(map[string]any{"color": "blue"})
		time.Sleep(2 * time.Minute)
		if found := Lookup(f, "color", "default"); found.Value != "blue" || found.Stale || found.Err != nil {
			t.Errorf("%+v", found)
		}
		g.take()
		end()
		time.Sleep(2 * time.Hour)
		if requests := g.take(); requests != nil {
			t.Errorf("%+v", requests)
		}
	})
}
