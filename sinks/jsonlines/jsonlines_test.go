package jsonlines

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func delivery(n byte) *trace.Delivery {
	at := time.UnixMilli(1_700_000_000_123)
	return &trace.Delivery{
		Records: []*trace.Record{
			{ID: trace.ID{n}, Time: at, Workspace: "default", Kind: trace.KindEndpoint, Key: "k", State: trace.StateStarted},
			{ID: trace.ID{n}, Decision: trace.ID{9}, Time: at, Workspace: "default", Kind: trace.KindEndpoint, Key: "k", Arm: "b", Splits: []byte(`[{"bucket":1}]`), Messages: []byte("[\n{}]"), Response: []byte("a\nb")},
		},
		Metrics: []*trace.Metrics{
			{UUID: [16]byte{1}, TraceID: trace.ID{n}, Time: at, Workspace: "default", Score: new(5.0)},
			{UUID: [16]byte{2}, Decision: trace.ID{9}, Time: at, Workspace: "default", Values: []byte(`{"resolved":1}`)},
		},
		Versions:  []trace.Version{{Workspace: "default", Kind: trace.KindPrompt, Key: "k", Version: "v", Time: at, Content: []byte("<a>\n")}},
		Exposures: []trace.Exposure{{TraceID: trace.ID{n}, Answers: 12}},
		Erasures:  []trace.Erasure{{Time: at, Selector: trace.Selector{Workspace: "default", MetadataName: "user", MetadataValue: `"u"`}, ReportedOn: []trace.ID{{15: 1}, {15: 2}}}},
	}
}

func TestLines(t *testing.T) {
	const want = `{"type":"version","workspace":"default","kind":"prompt","key":"k","version":"v","first_seen":"2023-11-14T22:13:20.123Z","content":"<a>\n"}
{"type":"trace","trace_id":"01000000-0000-0000-0000-000000000000","time":"2023-11-14T22:13:20.123Z","workspace":"default","kind":"endpoint","key":"k","state":"started"}
{"type":"trace","trace_id":"01000000-0000-0000-0000-000000000000","decision_id":"09000000-0000-0000-0000-000000000000","time":"2023-11-14T22:13:20.123Z","workspace":"default","kind":"endpoint","key":"k","state":"ended","arm":"b","splits":[{"bucket":1}],"messages":[{}],"response":"a\nb"}
{"type":"metrics","id":"01000000-0000-0000-0000-000000000000","trace_id":"01000000-0000-0000-0000-000000000000","time":"2023-11-14T22:13:20.123Z","workspace":"default","score":5}
{"type":"metrics","id":"02000000-0000-0000-0000-000000000000","decision_id":"09000000-0000-0000-0000-000000000000","time":"2023-11-14T22:13:20.123Z","workspace":"default","values":{"resolved":1}}
{"type":"answers","trace_id":"01000000-0000-0000-0000-000000000000","answers":12}
{"type":"erasure","time":"2023-11-14T22:13:20.123Z","workspace":"default","metadata_name":"user","metadata_value":"\"u\"","reported_on":["00000000-0000-0000-0000-000000000001","00000000-0000-0000-0000-000000000002"]}
`
	got, err := appendLines(nil, delivery(1))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestVersionIsJSON has the content of a version written as the JSON that it is.
func TestVersionIsJSON(t *testing.T) {
	const definition = `{"key":"k","value":"<a>"}`
	got, err := appendLines(nil, &trace.Delivery{Versions: []trace.Version{{Workspace: "w", Kind: trace.KindPrompt, Key: "k", Version: "v", Content: []byte(definition)}}})
	if err != nil || !strings.Contains(string(got), `"content":`+definition+"}\n") {
		t.Errorf("%s, %v", got, err)
	}
}

func types(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct{ Type string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			line.Type = "broken"
		}
		all = append(all, line.Type)
	}
	return strings.Join(all, " ")
}

const once = "version trace trace metrics metrics answers erasure"

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "traces.jsonl")
	f, err := NewFile(path)
	if err != nil {
		t.Fatal(err)
	}
	deliver := func() {
		t.Helper()
		if err := f.Deliver(t.Context(), delivery(1)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(path, want string) {
		t.Helper()
		if got := types(t, path); got != want {
			t.Errorf("%s has %s, want %s", filepath.Base(path), got, want)
		}
	}
	kept := trace.Position{Traces: 5}
	if from, err := f.Resume(t.Context(), sinks.Source{}, kept); from != kept || err != nil {
		t.Fatal(from, err)
	}
	deliver()
	deliver()
	want(path, once+" "+once)
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %s", info.Mode())
	}

	// Renamed, copied and emptied, and deleted.
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	deliver()
	want(path+".1", once+" "+once)
	want(path, once)
	// As logrotate's "create": another file has the name at once.
	if err := os.Rename(path, path+".2"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	deliver()
	want(path+".2", once)
	want(path, once)
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	deliver()
	want(path, once)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	deliver()
	want(path, once)

	// A process that was killed left half a line.
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{\"type\":\"trace\"}\n{\"type"), 0o600); err != nil {
		t.Fatal(err)
	}
	deliver()
	want(path, "trace broken "+once)

	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f.Shared() {
		t.Error("a file is not shared")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Deliver(cancelled, delivery(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	dir, err := NewFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Deliver(t.Context(), delivery(1)); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("the error is %v", err)
	}
}

// TestFileThatFails has writes fail in the middle.
func TestFileThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	f, err := NewFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Deliver(t.Context(), delivery(1)); err != nil {
		t.Fatal(err)
	}
	f.file.Close() // behind its back
	if err := f.Deliver(t.Context(), delivery(1)); err == nil {
		t.Error("writing to a closed file succeeds")
	}
	if _, err := f.Resume(t.Context(), sinks.Source{}, trace.Position{}); err != nil {
		t.Fatal(err)
	}
	if err := f.Deliver(t.Context(), delivery(1)); err != nil {
		t.Fatal(err)
	}
	if got := types(t, path); got != once+" "+once {
		t.Error(got)
	}
}

// TestStream has a reader that reads too late: a delivery ends all the same, and
// no two are mixed.
func TestStream(t *testing.T) {
	reader, writer := io.Pipe()
	s := NewStream(writer)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := s.Deliver(ctx, delivery(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
	}
	read := make(chan []byte)
	go func() {
		text, _ := io.ReadAll(reader)
		read <- text
	}()
	if err := s.Deliver(t.Context(), delivery(2)); err != nil {
		t.Error(err)
	}
	writer.Close()
	first, _ := appendLines(nil, delivery(1))
	second, _ := appendLines(nil, delivery(2))
	if got := <-read; string(got) != string(first)+string(second) {
		t.Errorf("%s", got)
	}
	if err := s.Deliver(t.Context(), delivery(1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the error is %v", err)
	}
	if s.Shared() || s.Close() != nil {
		t.Error("it is shared, or can't be closed")
	}
}

// TestDrainToFile copies from a real store.
func TestDrainToFile(t *testing.T) {
	dir := t.TempDir()
	db, path := filepath.Join(dir, "traces.db"), filepath.Join(dir, "traces.jsonl")
	writer := recorder.New(recorder.Options{Open: func(ctx context.Context) (recorder.Store, error) { return sqlite.Open(ctx, sqlite.Config{Path: db}) }})
	writer.Open()
	for i := range 1000 {
		r := trace.AcquireRecord()
		r.ID, r.Time, r.Workspace, r.Kind, r.Key = trace.ID{byte(i >> 8), byte(i), 1}, time.Now(), "default", trace.KindPrompt, "k"
		writer.Evaluation(r)
	}
	if err := writer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := NewFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := sinks.Start(sinks.Config{Path: db, Workspace: "default", Name: "file", Sink: f})
	if err := d.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(types(t, path), "trace"); n != 1000 {
		t.Errorf("%d lines", n)
	}
}

func TestModules(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("CADENZA_TEST_DIR", dir)
	type module interface {
		caddyfile.Unmarshaler
		caddy.Provisioner
		sinks.Sink
	}
	for _, c := range []struct {
		name, text string
		module     module
		want       string // JSON, or part of the error
	}{
		{"stdout", "stdout", new(StdoutModule), `{}`},
		{"stdout with an argument", "stdout a", new(StdoutModule), "takes no argument"},
		{"stdout with an option", "stdout {\n a\n}", new(StdoutModule), "there is none"},
		{"file", "file {env.CADENZA_TEST_DIR}/a.jsonl", new(FileModule), `{"path":"{env.CADENZA_TEST_DIR}/a.jsonl"}`},
		{"file without a path", "file", new(FileModule), "needs the path"},
		{"file with an empty path", `file ""`, new(FileModule), "is empty"},
		{"file with two", "file a b", new(FileModule), "takes one path"},
		{"file with an option", "file a {\n roll\n}", new(FileModule), "there is none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.module.UnmarshalCaddyfile(caddyfile.NewTestDispenser(c.text))
			if !strings.HasPrefix(c.want, "{") {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v, want one with %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(c.module); string(got) != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if err := c.module.Provision(caddy.Context{}); err != nil {
				t.Fatal(err)
			}
			if f, ok := c.module.(*FileModule); ok && f.File.path != filepath.Join(dir, "a.jsonl") {
				t.Errorf("the path is %s", f.File.path)
			}
		})
	}
	if err := new(FileModule).Provision(caddy.Context{}); err == nil {
		t.Error("a file without a path is provisioned")
	}
}
