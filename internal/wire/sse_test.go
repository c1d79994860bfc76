package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wireLog is a response writer that records writes, flushes and deadlines as a
// connection would see them.
type wireLog struct {
	mu        sync.Mutex
	header    http.Header
	log       []string
	deadlines []time.Time
	fail      error // of every write
	panics    bool
}

func (w *wireLog) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *wireLog) add(entry string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, entry)
}

func (w *wireLog) WriteHeader(status int) { w.add("status " + http.StatusText(status)) }

func (w *wireLog) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.panics {
		panic("broken writer")
	}
	if w.fail != nil {
		return 0, w.fail
	}
	w.log = append(w.log, string(p))
	return len(p), nil
}

// entries are the log so far.
func (w *wireLog) entries() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// breakDown makes every further write fail, or panic where err is nil.
func (w *wireLog) breakDown(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail, w.panics = err, err == nil
}

func (w *wireLog) FlushError() error { w.add("flush"); return nil }

func (w *wireLog) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadlines = append(w.deadlines, t)
	return nil
}

// answer sends the events of an answer, as a dialect does.
type answer struct{ EventStream }

func newAnswer(w http.ResponseWriter) *answer {
	a := new(answer)
	a.Open(w, func(dst []byte) []byte { return append(dst, event("", false)...) })
	return a
}

func (a *answer) Delta(content string, flush bool) error {
	return a.Send(func(dst []byte) []byte {
		if content == "" {
			return dst
		}
		return append(dst, event(content, false)...)
	}, flush)
}

func (a *answer) Finish() error {
	defer a.Close()
	return a.Send(func(dst []byte) []byte { return append(append(dst, event("", true)...), done...) }, true)
}

const done = "data: [DONE]\n\n"

func event(content string, final bool) string {
	text, _ := json.Marshal(final)
	return `data: {"trace_id":"` + traceID + `","content":"` + content + `","is_final":` + string(text) + "}\n\n"
}

func TestStreamGolden(t *testing.T) {
	w := new(wireLog)
	s := newAnswer(w)
	for _, content := range []string{"", "Hel", "", "lo you"} {
		if err := s.Delta(content, true); err != nil {
			t.Fatal(err)
		}
	}
	if !s.Started() {
		t.Error("not started")
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	want := []string{
		"status OK",
		event("Hel", false), "flush",
		event("lo you", false), "flush",
		event("", true) + "data: [DONE]\n\n", "flush",
	}
	if diff := cmp.Diff(want, w.entries()); diff != "" {
		t.Error(diff)
	}
	wantHeader := http.Header{
		"Content-Type":      {"text/event-stream; charset=utf-8"},
		"Cache-Control":     {"no-store, no-transform"},
		"X-Accel-Buffering": {"no"},
	}
	if diff := cmp.Diff(wantHeader, w.header); diff != "" {
		t.Error(diff)
	}
	if err := s.Delta("late", true); err == nil {
		t.Error("a closed stream took a delta")
	}
	if err := s.Finish(); err == nil {
		t.Error("a stream finished twice")
	}
}

// TestStreamSharesFlushes: deltas that are there already are written and flushed
// together, but for the first, with which the answer begins. Whatever ends the stream
// comes after them.
func TestStreamSharesFlushes(t *testing.T) {
	begun := []string{"status OK", event("a", false), event("b", false) + event("c", false), "flush"}
	for name, test := range map[string]struct {
		end  func(*answer)
		want []string
	}{
		"flush":  {func(s *answer) { _ = s.Delta("", true); _ = s.Delta("", true) }, begun},
		"delta":  {func(s *answer) { _ = s.Delta("d", true) }, []string{begun[0], begun[1], begun[2] + event("d", false), "flush"}},
		"finish": {func(s *answer) { _ = s.Finish() }, []string{begun[0], begun[1], begun[2] + event("", true) + "data: [DONE]\n\n", "flush"}},
	} {
		w := new(wireLog)
		s := newAnswer(w)
		for _, content := range []string{"a", "b", "c"} {
			_ = s.Delta(content, false)
		}
		test.end(s)
		s.Close()
		if diff := cmp.Diff(test.want, w.entries()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestStreamWritesLargeBatches: a provider that is always ahead of its flush must not
// make the gateway hold the whole answer.
func TestStreamWritesLargeBatches(t *testing.T) {
	w := new(wireLog)
	s := newAnswer(w)
	defer s.Close()
	text := strings.Repeat("x", 100)
	for range 1000 {
		_ = s.Delta(text, false)
	}
	if s.batch != nil && len(s.batch.events) >= batchSize {
		t.Errorf("%d bytes are held", len(s.batch.events))
	}
	if writes := len(w.entries()); writes < 12 || writes > 14 {
		t.Errorf("%d writes of 200 KB", writes)
	}
}

// TestHeartbeatBehindABatch: what waits for a flush that does not come is sent with
// the heartbeat.
func TestHeartbeatBehindABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(wireLog)
		s := newAnswer(w)
		defer s.Close()
		_ = s.Delta("a", true)
		_ = s.Delta("b", false)
		time.Sleep(heartbeatInterval)
		synctest.Wait()
		want := []string{"status OK", event("a", false), "flush", event("b", false) + event("", false), "flush"}
		if diff := cmp.Diff(want, w.entries()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestStreamOfNothing(t *testing.T) {
	w := new(wireLog)
	s := newAnswer(w)
	w.Header()["Content-Length"] = []string{"5"} // of a whole answer
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	want := []string{"status OK", event("", true) + done, "flush"}
	if diff := cmp.Diff(want, w.entries()); diff != "" {
		t.Error(diff)
	}
	if length, some := w.Header()["Content-Length"]; some {
		t.Errorf("a stream says that it has %s bytes", length)
	}
}

func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(wireLog)
		s := newAnswer(w)
		time.Sleep(time.Hour) // no heartbeat commits the headers
		_ = s.Delta("a", true)
		time.Sleep(14 * time.Second)
		_ = s.Delta("b", true)
		time.Sleep(14 * time.Second) // 28 s after a, 14 s after b
		synctest.Wait()
		before := []string{"status OK", event("a", false), "flush", event("b", false), "flush"}
		if diff := cmp.Diff(before, w.entries()); diff != "" {
			t.Error(diff)
		}
		time.Sleep(32 * time.Second) // 15 s and 30 s after b, and not yet 46 s
		synctest.Wait()
		after := append(before, event("", false), "flush", event("", false), "flush", event("", false), "flush")
		if diff := cmp.Diff(after, w.entries()); diff != "" {
			t.Error(diff)
		}
		s.Close()
		time.Sleep(time.Hour)
		synctest.Wait()
		if late := w.entries()[len(after):]; len(late) > 0 {
			t.Errorf("after Close: %q", late)
		}
	})
}

func TestHeartbeatStopsWhenTheClientLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(wireLog)
		s := newAnswer(w)
		defer s.Close()
		_ = s.Delta("a", true)
		gone := errors.New("broken pipe")
		w.breakDown(gone)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := s.Delta("b", true); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		if err := s.Finish(); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
	})
}

func TestHeartbeatSurvivesAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(wireLog)
		s := newAnswer(w)
		defer s.Close()
		_ = s.Delta("a", true)
		w.breakDown(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := s.Delta("b", true); err == nil {
			t.Error("the stream went on")
		}
	})
}

func TestWriteDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(wireLog)
		s := newAnswer(w)
		for range 40 {
			_ = s.Delta("a", true)
			last := w.deadlines[len(w.deadlines)-1]
			if left := time.Until(last); left < writeTimeout || left > WriteTime(1<<10)+deadlineSlack {
				t.Fatalf("%v to write an event", left)
			}
			time.Sleep(time.Second)
		}
		if set := len(w.deadlines); set > 10 {
			t.Errorf("%d deadlines set for 40 events in 40 s", set)
		}
		s.Close()
		if last := w.deadlines[len(w.deadlines)-1]; !last.IsZero() {
			t.Error("the deadline was left to the next request")
		}
	})
}

// plainWriter can neither flush nor set deadlines.
type plainWriter struct {
	header http.Header
	bytes.Buffer
}

func (w *plainWriter) Header() http.Header { return w.header }
func (w *plainWriter) WriteHeader(int)     {}

func TestStreamWithoutFlush(t *testing.T) {
	w := &plainWriter{header: http.Header{}}
	s := newAnswer(w)
	if err := errors.Join(s.Delta("a", true), s.Delta("b", true), s.Finish()); err != nil {
		t.Fatal(err)
	}
	if want := event("a", false) + event("b", false) + event("", true) + "data: [DONE]\n\n"; w.String() != want {
		t.Errorf("%q", w.String())
	}
}

// Over a real connection a client reads each event before the next is sent,
// and a failed answer ends with an error, not with a clean end.
func TestStreamOverHTTP(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		for _, complete := range []bool{true, false} {
			t.Run(fmt.Sprint(proto, "/complete=", complete), func(t *testing.T) {
				next := make(chan string)
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					s := newAnswer(w)
					defer s.Close()
					for content := range next {
						if err := s.Delta(content, true); err != nil {
							t.Error(err)
						}
					}
					if complete {
						if err := s.Finish(); err != nil {
							t.Error(err)
						}
					} else {
						panic(http.ErrAbortHandler)
					}
				}))
				server.Config.ErrorLog = log.New(io.Discard, "", 0)
				server.EnableHTTP2 = proto == "HTTP/2.0"
				server.StartTLS()
				defer server.Close()

				go func() { next <- "a" }()
				response, err := server.Client().Post(server.URL, "", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if response.Proto != proto || response.StatusCode != 200 {
					t.Fatalf("%s %d", response.Proto, response.StatusCode)
				}
				buffer := make([]byte, len(event("a", false)))
				for _, content := range []string{"a", "b", "c"} {
					if content != "a" {
						next <- content
					}
					if _, err := io.ReadFull(response.Body, buffer); err != nil || string(buffer) != event(content, false) {
						t.Fatalf("%q, %v", buffer, err)
					}
				}
				close(next)
				rest, err := io.ReadAll(response.Body)
				if complete {
					if err != nil || string(rest) != event("", true)+"data: [DONE]\n\n" {
						t.Errorf("%q, %v", rest, err)
					}
					return
				}
				if err == nil {
					t.Error("the cut answer ended cleanly")
				}
				if len(rest) > 0 {
					t.Errorf("%q", rest)
				}
			})
		}
	}
}
