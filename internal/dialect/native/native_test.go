package native_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/native"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

const traceID = "0193c1a0-7b00-8223-a456-0123456789ab"

// wireLog is a response writer that records writes and flushes.
type wireLog struct {
	header http.Header
	log    []string
	fail   error // of every write
}

func (w *wireLog) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *wireLog) WriteHeader(status int) { w.log = append(w.log, "status "+http.StatusText(status)) }

func (w *wireLog) Write(p []byte) (int, error) {
	if w.fail != nil {
		return 0, w.fail
	}
	w.log = append(w.log, string(p))
	return len(p), nil
}

func (w *wireLog) FlushError() error { w.log = append(w.log, "flush"); return nil }

func event(content string, final bool) string {
	text, _ := json.Marshal(final)
	return `data: {"trace_id":"` + traceID + `","content":"` + content + `","is_final":` + string(text) + "}\n\n"
}

const done = "data: [DONE]\n\n"

// parsed returns the writer of a request.
func parsed(t testing.TB) dialect.Writer {
	t.Helper()
	r := wire.AcquireRequest()
	defer r.Release()
	request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"key":"a"}`))
	if err := r.ReadBody(nil, request, 1<<20, 0, 0, nil); err != nil {
		t.Fatal(err)
	}
	_, w, err := dialect.Parse(native.Dialect, r)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// stream is a stream of our own API, and the answer that it sends.
type stream struct {
	*dialect.Stream
	dialect.Answer
}

func newStream(t testing.TB, w http.ResponseWriter) *stream {
	s := &stream{Answer: dialect.Answer{TraceID: traceID}}
	s.Stream = dialect.NewStream(w, parsed(t), &s.Answer)
	t.Cleanup(s.Close)
	return s
}

func (s *stream) say(content string) error {
	return s.Delta(providers.Delta{Content: content}, true)
}

// contents decodes a stream as a client does.
func contents(t testing.TB, log []string) string {
	t.Helper()
	var all strings.Builder
	for _, entry := range log {
		if !strings.HasPrefix(entry, "data: ") {
			continue
		}
		events, whole := strings.CutSuffix(entry, "\n\n")
		if !whole {
			t.Errorf("%q does not end with an event", entry)
		}
		for _, text := range strings.Split(events, "\n\n") {
			data, ok := strings.CutPrefix(text, "data: ")
			if !ok || strings.Contains(data, "\n") {
				t.Errorf("%q is not one event", text)
			}
			if data == "[DONE]" {
				continue
			}
			var e struct {
				Content string `json:"content"`
			}
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			all.WriteString(e.Content)
		}
	}
	return all.String()
}

func TestStreamGolden(t *testing.T) {
	w := new(wireLog)
	s := newStream(t, w)
	for _, content := range []string{"", "Hel", "", "lo \"you\"\n"} {
		if err := s.say(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Finish(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"status OK",
		event("Hel", false), "flush",
		event(`lo \"you\"\n`, false), "flush",
		event("", true) + done, "flush",
	}
	if diff := cmp.Diff(want, w.log); diff != "" {
		t.Error(diff)
	}
	if s.say("late") == nil || s.Finish() == nil {
		t.Error("a stream goes on after its end")
	}
}

func TestHeartbeatGolden(t *testing.T) {
	got := string(parsed(t).Heartbeat(nil, &dialect.Answer{TraceID: traceID}))
	if want := event("", false); got != want {
		t.Errorf("%q", got)
	}
}

func TestSplitRunes(t *testing.T) {
	for name, deltas := range map[string][]string{
		"two bytes":          {"caf\xc3", "\xa9"},
		"three bytes":        {"\xe2", "\x82", "\xac!"},
		"four bytes":         {"a\xf0\x9f", "\x99\x82b"},
		"never completed":    {"a\xe2\x82"},
		"completed by other": {"a\xe2\x82", "b"},
		"other rune begins":  {"\xe2", "é"},
		"two begin":          {"\xe2", "\xe2\x82", "\xac"},
		"invalid second":     {"\xe0", "\x80", "x"},
		"only continuation":  {"\x80", "\x80\x80\x80\x80"},
		"never a rune":       {"\xff", "\xc0\x80", "\xf5"},
	} {
		w := new(wireLog)
		s := newStream(t, w)
		for _, delta := range deltas {
			_ = s.say(delta)
		}
		_ = s.Finish()
		if got, want := contents(t, w.log), string([]rune(strings.Join(deltas, ""))); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// However an answer is cut into deltas, the client reads the same text.
func FuzzStream(f *testing.F) {
	f.Add("Hello, é世🙂\n\ndata: [DONE]\n\n", uint64(0x123456789))
	f.Add("\xe2\xe2\x82\xff\u2028", uint64(1))
	f.Fuzz(func(t *testing.T, text string, cuts uint64) {
		w := new(wireLog)
		s := newStream(t, w)
		rest := text
		for rest != "" {
			n := min(1+int(cuts&3), len(rest))
			cuts = cuts>>2 | cuts<<62
			if err := s.Delta(providers.Delta{Content: rest[:n]}, cuts&4 == 0); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := s.Finish(); err != nil {
			t.Fatal(err)
		}
		if got, want := contents(t, w.log), string([]rune(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestStreamFailsBeforeContent(t *testing.T) {
	w := new(wireLog)
	s := newStream(t, w)
	s.Extra = func([]byte) []byte { panic("asked") }
	_ = s.say("\xc3") // held back: no event
	s.Fail(wire.Errorf(wire.UpstreamTimeout, "", "The provider took too long."))
	if s.Started() || len(w.log) > 0 || s.say("a") == nil {
		t.Errorf("%q", w.log)
	}
}

func TestStreamFailsAfterContent(t *testing.T) {
	w := new(wireLog)
	s := newStream(t, w)
	_ = s.say("Hel\xe2")
	_ = s.Delta(providers.Delta{Content: "b"}, false)
	for range 2 {
		s.Fail(wire.Errorf(wire.UpstreamTimeout, "ignored", "The provider stopped."))
	}
	want := []string{
		"status OK", event("Hel", false), "flush",
		event("\uFFFDb", false) +
			"event: error\ndata: {\"trace_id\":\"" + traceID + `","content":"","is_final":false,"error":{"message":"The provider stopped.","type":"server_error","param":null,"code":"upstream_interrupted"}}` + "\n\n",
		"flush",
	}
	if diff := cmp.Diff(want, w.log); diff != "" || !s.Started() {
		t.Error(diff)
	}
}

// calls are two tool calls, and list what callers get of them.
var calls = []providers.ToolCall{
	{ID: "call_1", Name: "find", Arguments: `{"id": "\u00fc\n"}`},
	{ID: "call_2", Name: "stop", Arguments: "{}"},
}

const list = `[{"id":"call_1","name":"find","arguments":"{\"id\": \"\\u00fc\\n\"}"},{"id":"call_2","name":"stop","arguments":"{}"}]`

func TestStreamedToolCalls(t *testing.T) {
	called := `data: {"trace_id":"` + traceID + `","content":"","is_final":false,"tool_calls":` + list + "}\n\n"
	end := event("", true) + done
	for _, test := range []struct {
		name    string
		content []string
		calls   []providers.ToolCall
		want    []string
	}{
		{"alone", nil, calls, []string{"status OK", called + end, "flush"}},
		{"after content", []string{"a"}, calls, []string{"status OK", event("a", false), "flush", called + end, "flush"}},
		{"after half a rune", []string{"\xf0\x9f"}, calls, []string{"status OK", event("\uFFFD\uFFFD", false) + called + end, "flush"}},
		{"none", []string{"a"}, nil, []string{"status OK", event("a", false), "flush", end, "flush"}},
	} {
		w := new(wireLog)
		s := newStream(t, w)
		for _, content := range test.content {
			if err := s.say(content); err != nil {
				t.Fatal(err)
			}
		}
		s.ToolCalls = test.calls
		if err := s.Finish(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, w.log); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestStreamSaysHowItEnded in its last event, and in no other.
func TestStreamSaysHowItEnded(t *testing.T) {
	w := new(wireLog)
	s := newStream(t, w)
	err := s.say("a")
	s.ToolCalls, s.FinishReason = calls, providers.FinishLength
	s.Usage = providers.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}
	if err := errors.Join(err, s.Finish()); err != nil {
		t.Fatal(err)
	}
	start := `data: {"trace_id":"` + traceID + `","content":"`
	want := []string{
		"status OK",
		event("a", false), "flush",
		start + `","is_final":false,"tool_calls":` + list + "}\n\n" +
			start + `","is_final":true,"finish_reason":"length","usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}` + "\n\n" + done, "flush",
	}
	if diff := cmp.Diff(want, w.log); diff != "" {
		t.Error(diff)
	}
}

func extra(dst []byte) []byte { return append(wire.AppendConfigsStart(dst), '}') }

// TestExtra: the extra members are in a whole answer and in a stream's first event
// alone, whichever event that is.
func TestExtra(t *testing.T) {
	a := &dialect.Answer{TraceID: "t", Content: "x", FinishReason: "stop", Extra: extra}
	if got := string(parsed(t).Answer(nil, a)); got != `{"trace_id":"t","content":"x","is_final":true,"finish_reason":"stop","remoteconfigs":{}}` {
		t.Error(got)
	}
	with := func(event string) string { return strings.Replace(event, "}\n\n", `,"remoteconfigs":{}}`+"\n\n", 1) }
	end := event("", true) + done
	for name, test := range map[string]struct {
		send func(*stream)
		want []string
	}{
		"content": {
			func(s *stream) { _ = s.say("a"); _ = s.say("b") },
			[]string{"status OK", with(event("a", false)), "flush", event("b", false), "flush", end, "flush"},
		},
		"a rune that was held": {
			func(s *stream) { _ = s.say("\xc3") },
			[]string{"status OK", with(event("\uFFFD", false)) + end, "flush"},
		},
		"tool calls": {
			func(s *stream) { s.ToolCalls = calls },
			[]string{"status OK", `data: {"trace_id":"` + traceID + `","content":"","is_final":false,"tool_calls":` + list + `,"remoteconfigs":{}}` + "\n\n" + end, "flush"},
		},
		"nothing": {
			func(s *stream) { s.FinishReason = "stop" },
			[]string{"status OK", strings.Replace(with(event("", true)), `true,`, `true,"finish_reason":"stop",`, 1) + done, "flush"},
		},
	} {
		w := new(wireLog)
		s := newStream(t, w)
		calls := 0
		s.Extra = func(dst []byte) []byte { calls++; return extra(dst) }
		test.send(s)
		_ = s.Finish()
		if diff := cmp.Diff(test.want, w.log); diff != "" || calls != 1 {
			t.Errorf("%s: called %d times: %s", name, calls, diff)
		}
	}
}

// TestBesideAFailure: a stream that fails in its first event has asked once.
func TestExtraAndAFailure(t *testing.T) {
	s := newStream(t, &wireLog{fail: errors.New("gone")})
	asked := 0
	s.Extra = func(dst []byte) []byte { asked++; return extra(dst) }
	for range 2 {
		if s.say("a") == nil {
			t.Error("the client is gone")
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

func TestAnswerGolden(t *testing.T) {
	start := `{"trace_id":"` + traceID + `","content":`
	usage := providers.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}
	for want, a := range map[string]dialect.Answer{
		start + `"Grüß \"dich\"\n\u2028","is_final":true}`:      {Content: "Grüß \"dich\"\n\u2028"},
		start + `"","is_final":true,"tool_calls":` + list + `}`: {ToolCalls: calls},
		start + `"x","is_final":true,"finish_reason":"stop","usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`: {
			Content: "x", FinishReason: "stop", Usage: usage,
		},
		start + `"","is_final":true,"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":3}}`: {Usage: providers.Usage{TotalTokens: 3}},
		start + `"","is_final":true,"finish_reason":"\"\n"}`:                                             {FinishReason: "\"\n"},
		start + `"","is_final":true,"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"estimated":true}}`: {
			Usage: usage, Estimated: true,
		},
		start + `"","is_final":true,"tool_calls":[{"id":"c","name":"n","arguments":"{}"}],"reasoning_content":"Hm.","reasoning_details":[{"type":"reasoning.text","text":"Hm.","signature":"s","format":"cadenza","index":0},{"type":"reasoning.encrypted","id":"c","data":"o","format":"cadenza","index":1}]}`: {
			Thoughts: []providers.Thought{{Text: "Hm.", Opaque: "s"}}, ToolCalls: []providers.ToolCall{{ID: "c", Name: "n", Arguments: "{}", Opaque: "o"}},
		},
	} {
		a.TraceID = traceID
		w := parsed(t)
		got := w.Answer([]byte("before"), &a)
		if diff := cmp.Diff("before"+want, string(got)); diff != "" {
			t.Error(diff)
		}
		if !json.Valid([]byte(want)) {
			t.Errorf("not JSON: %s", want)
		}
	}
}

func TestErrorGolden(t *testing.T) {
	e := wire.Errorf(wire.UnknownEndpoint, "key", "There is none.")
	e.TraceID = traceID
	const want = `{"error":{"message":"There is none.","type":"not_found_error","param":"key","code":"unknown_endpoint"},` +
		`"name":"unknown_endpoint","message":"There is none.","error_code":"unknown_endpoint","trace_id":"` + traceID + `"}`
	if got := string(native.Dialect.AppendError(nil, e)); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func BenchmarkAnswer(b *testing.B) {
	w := parsed(b)
	a := &dialect.Answer{
		TraceID: traceID, Content: strings.Repeat("An answer of some length, \"quoted\" here and there.\n", 32), FinishReason: "stop",
		Usage: providers.Usage{PromptTokens: 1201, CompletionTokens: 340, TotalTokens: 1541},
	}
	var dst []byte
	b.ReportAllocs()
	b.SetBytes(int64(len(a.Content)))
	for b.Loop() {
		dst = w.Answer(dst[:0], a)
	}
}

// discard is a connection that takes everything.
type discard struct{ header http.Header }

func (w discard) Header() http.Header         { return w.header }
func (w discard) WriteHeader(int)             {}
func (w discard) Write(p []byte) (int, error) { return len(p), nil }
func (w discard) FlushError() error           { return nil }

func BenchmarkDelta(b *testing.B) {
	s := newStream(b, discard{http.Header{}})
	b.ReportAllocs()
	for b.Loop() {
		if err := s.say(" token"); err != nil {
			b.Fatal(err)
		}
	}
}
