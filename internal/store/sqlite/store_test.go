package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

func mustOpen(t testing.TB, config Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustAuthority(t testing.TB) *trace.Authority {
	t.Helper()
	a, err := trace.NewAuthority(bytes.Repeat([]byte{7}, 32), "default")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// fillEvaluation fills a record as the evaluation of a prompt that logs content does.
func fillEvaluation(r *trace.Record, id trace.ID, now time.Time) {
	r.ID, r.Time, r.Workspace, r.APIKey, r.Kind, r.Key = id, now, "default", "app", trace.KindPrompt, "support_reply"
	r.Version, r.Revision, r.Row, r.Variant = "0123456789ab", "ba9876543210", "dutch", "nl"
	r.Status, r.Latency = 200, 40*time.Microsecond
	r.Metadata = append(r.Metadata[:0], `{"session":"0123456789"}`...)
	r.Context = append(r.Context[:0], `{"environment":"production","locale":"nl-BE","plan":"pro","customer_id":"c-4711"}`...)
	r.Variables = append(r.Variables[:0], `{"company":"Acme","question":"Where is my order?"}`...)
}

func fullRecord(id trace.ID, at time.Time) *trace.Record {
	return &trace.Record{
		ID: id, Time: at, Workspace: "default", APIKey: "the key of the app of the support team", Kind: trace.KindEndpoint, Key: "support_chat",
		Version: "0123456789ab", Revision: "ba9876543210", Row: "staff", Variant: "nl",
		Provider: "openai", Model: "gpt-4o-mini",
		Attempts: []trace.Attempt{
			{Provider: "groq", Model: "m", Status: 500, Code: "server", Error: "status 500: \"worker\" died", Latency: 3 * time.Millisecond},
			{Provider: "openai", Model: "gpt-4o-mini", Status: 200, Latency: 5 * time.Millisecond},
		},
		Status: 200, Code: "x", Latency: 1234 * time.Microsecond, FirstToken: 567 * time.Microsecond,
		HasUsage: true, PromptTokens: 10, CompletionTokens: 0, TotalTokens: 10, Cost: 0.0125, Cached: true,
		Notes: []string{"variable extra is not declared"}, Seal: "9c2f1a0b.AAAA",
		Metadata: []byte(`{"a":1}`), Context: []byte(`{"b":"é\u0000"}`), Variables: []byte(`{}`),
		Messages: []byte(`[{"role":"user"}]`), Response: []byte("hello\x00there"),
		ToolCalls: []byte(`[{"id":"call_1","name":"f","arguments":"{}"}]`),
	}
}

// haveEveryField checks that a wanted row has a value in every column.
func haveEveryField[T any](t *testing.T, fields []trace.Field[T], row *T) {
	t.Helper()
	for i := range fields {
		if v, err := valueOf(&fields[i], row); err != nil || v.kind == isNull {
			t.Errorf("nothing is stored of %s (%v)", fields[i].Name, err)
		}
	}
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	at := time.UnixMilli(1790000000123)
	authority := mustAuthority(t)
	full := fullRecord(authority.New(trace.KindEndpoint, at), at)
	full.FinishReason, full.Prompt, full.PromptVersion = "length", "reply", "v"
	full.Decision, full.Reason, full.Arm, full.EndpointVariant, full.EndpointRow = authority.New(trace.KindDecision, at), "split", "b", "fast", "free"
	full.Splits, full.Read, full.Inputs = []byte(`[{"experiment":{"definition":"prompts/reply","rule":"staff","salt":"staff"},"bucket":1,"arm":"b","share":0.5}]`), []byte(`{"remoteconfigs/a":"0123456789ab"}`), []byte(`{"plan":"pro"}`)
	haveEveryField(t, slices.DeleteFunc(slices.Clone(trace.RecordFields), isCounted), full)
	bare := &trace.Record{ID: authority.New(trace.KindPrompt, at), Time: at, Workspace: "w", Kind: trace.KindPrompt, Key: "k"}
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{full, bare}})
	for _, want := range []*trace.Record{full, bare} {
		got, err := s.Trace(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-stored +read):\n%s", want.Key, diff)
		}
	}
	if _, err := s.Trace(t.Context(), authority.New(trace.KindPrompt, at)); !errors.Is(err, ErrNotFound) {
		t.Errorf("an absent trace: %v", err)
	}
}

func TestMetricsComeBackAsTheyWere(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	at := time.UnixMilli(1790000000123)
	id := mustAuthority(t).New(trace.KindPrompt, at)
	decision := mustAuthority(t).New(trace.KindDecision, at)
	want := []trace.Metrics{
		{
			TraceID: id, Decision: decision, Workspace: "default", APIKey: "app", Time: at, Score: new(0.0), Latency: new(12.5),
			RoundtripTime: new(13.5), LLMResponse: new(""), ChainID: new("c"), ConversationID: new("d"),
			PromptTokens: new(int64(1)), CompletionTokens: new(int64(0)), TotalTokens: new(int64(1)),
			Values: []byte(`{"seconds_saved":1.5}`), Metadata: []byte(`{"n":1}`),
			UnitField: "customer_id", Unit: "AbCdEfGhIjKlMnOp", Happened: at.Add(-time.Hour), EventID: "e-1",
		},
		{TraceID: id, Workspace: "default", Time: at.Add(time.Second), Score: new(100.0)},
	}
	haveEveryField(t, trace.MetricsFields[1:], &want[0]) // the store gives it its id
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{&want[0], &want[1]}})
	got, err := s.MetricsFor(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(trace.Metrics{}, "UUID")); diff != "" {
		t.Errorf("(-stored +read):\n%s", diff)
	}
	if got[0].UUID == got[1].UUID || got[0].UUID == ([16]byte{}) {
		t.Errorf("two metrics have the ids %x and %x", got[0].UUID, got[1].UUID)
	}
}

func TestVersionsAreStoredOnce(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	at := time.UnixMilli(1790000000000)
	version := func(key, version string, at time.Time) trace.Version {
		return trace.Version{Workspace: "default", Kind: trace.KindPrompt, Key: key, Version: version, Content: []byte(version), Time: at}
	}
	for _, batch := range [][]trace.Version{
		{version("a", "v1", at), version("b", "v1", at)},
		{version("a", "v2", at.Add(time.Hour))},
		{version("a", "v1", at.Add(2*time.Hour)), version("a", "v3", at.Add(2*time.Hour))},
	} {
		mustCommit(t, s, recorder.Batch{Versions: batch})
	}
	for _, want := range []StoredVersion{
		{Version: version("a", "v1", at), Ordinal: 1},
		{Version: version("a", "v2", at.Add(time.Hour)), Ordinal: 2},
		{Version: version("a", "v3", at.Add(2*time.Hour)), Ordinal: 3},
		{Version: version("b", "v1", at), Ordinal: 1},
	} {
		got, err := s.Version(t.Context(), "default", trace.KindPrompt, want.Key, want.Version.Version)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := s.Version(t.Context(), "other", trace.KindPrompt, "a", "v1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("another workspace's version: %v", err)
	}
}

func TestVersionsAreListed(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	at := time.UnixMilli(1790000000000)
	version := func(key string, number, length int) trace.Version {
		return trace.Version{Workspace: "default", Kind: trace.KindPrompt, Key: key, Version: strconv.Itoa(number), Content: bytes.Repeat([]byte("x"), length), Time: at.Add(time.Duration(number) * time.Hour)}
	}
	batch := []trace.Version{version("b", 1, 1)}
	for number := range listedVersions + 2 {
		batch = append(batch, version("a", number, listedContent+number%2))
	}
	mustCommit(t, s, recorder.Batch{Versions: batch})
	got, err := s.Versions(t.Context(), "default", trace.KindPrompt, "a")
	if err != nil || len(got) != listedVersions {
		t.Fatalf("%d versions, %v", len(got), err)
	}
	for i, v := range got {
		number := listedVersions + 1 - i
		want := StoredVersion{Version: version("a", number, listedContent), Ordinal: int64(number) + 1}
		if number%2 == 1 {
			want.Content = nil // it is too large
		}
		if bytes.Equal(want.Content, v.Content) {
			want.Content, v.Content = nil, nil // the diff would look at each byte
		}
		if diff := cmp.Diff(want, v); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for _, other := range []struct {
		workspace string
		kind      trace.Kind
		key       string
	}{{"other", trace.KindPrompt, "a"}, {"default", trace.KindEndpoint, "a"}, {"default", trace.KindPrompt, "c"}} {
		if got, err := s.Versions(t.Context(), other.workspace, other.kind, other.key); err != nil || len(got) > 0 {
			t.Errorf("%v: %v, %v", other, got, err)
		}
	}
}

// TestInterruptedCalls: a stored end is not replaced, and a late one replaces the
// interruption.
func TestInterruptedCalls(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	at := time.UnixMilli(1790000000000)
	authority := mustAuthority(t)
	interrupted := func(id trace.ID) *trace.Record {
		return &trace.Record{ID: id, Time: at, Workspace: "default", Kind: trace.KindEndpoint, Key: "k", State: trace.StateInterrupted}
	}
	inTurn, reversed, orphan := authority.New(trace.KindEndpoint, at), authority.New(trace.KindEndpoint, at), authority.New(trace.KindEndpoint, at)
	commit := func(batch recorder.Batch) {
		t.Helper()
		mustCommit(t, s, batch)
	}
	commit(recorder.Batch{Interrupted: []*trace.Record{interrupted(inTurn), interrupted(orphan)}})
	commit(recorder.Batch{Records: []*trace.Record{fullRecord(inTurn, at), fullRecord(reversed, at)}})
	commit(recorder.Batch{Interrupted: []*trace.Record{interrupted(reversed)}})
	for id, want := range map[trace.ID]trace.State{
		inTurn: trace.StateEnded, reversed: trace.StateEnded, orphan: trace.StateInterrupted,
	} {
		got, err := s.Trace(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if got.State != want {
			t.Errorf("%s is %s, want %s", id, got.State, want)
		}
	}
	// The call that was thought dead ends after all.
	commit(recorder.Batch{Records: []*trace.Record{fullRecord(orphan, at)}})
	if got, err := s.Trace(t.Context(), orphan); err != nil || got.State != trace.StateEnded {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFileIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	path := filepath.Join(t.TempDir(), "new", "a.db")
	s := mustOpen(t, Config{Path: path})
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{{Workspace: "w"}}})
	for name, want := range map[string]fs.FileMode{
		filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600,
	} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

func TestPathIsTakenLiterally(t *testing.T) {
	for _, name := range []string{"a b.db", "a?mode=memory.db", "a%20b.db", "a#b.db", "ü&;=.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := mustOpen(t, Config{Path: path})
		mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{{Workspace: "w"}}})
		if counts, err := s.Counts(t.Context()); err != nil || counts.Metrics != 1 {
			t.Errorf("%s: %+v, %v", name, counts, err)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), name) {
				t.Errorf("%s made %s", name, entry.Name())
			}
		}
	}
}

func TestPragmas(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	batch := &recorder.Batch{Metrics: []*trace.Metrics{{Workspace: "w"}}}
	check := func(when string, want map[string]int64) {
		t.Helper()
		for pragma, want := range want {
			query, err := s.writer.prepare("PRAGMA " + pragma)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := query.step(); err != nil || query.integer(0) != want {
				t.Errorf("%s: %s is %d (%v), want %d", when, pragma, query.integer(0), err, want)
			}
			query.reset()
		}
	}
	mustCommit(t, s, *batch)
	check("after metrics", map[string]int64{
		"synchronous": 2, "auto_vacuum": 2, "application_id": applicationID, "user_version": format, "busy_timeout": 5000,
	})
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{{Workspace: "w"}}})
	check("after records", map[string]int64{"synchronous": 1})
	mustCommit(t, s, *batch)
	check("after metrics again", map[string]int64{"synchronous": 2})
	if _, err := s.Reader.db.ExecContext(t.Context(), "DELETE FROM metrics"); err == nil {
		t.Error("the reader can write")
	}
}

func TestTraceKeyIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	key, err := s.TraceKey(t.Context())
	if err != nil || len(key) != traceKeyLength {
		t.Fatalf("%x, %v", key, err)
	}
	other := mustOpen(t, Config{Path: path})
	if again, err := other.TraceKey(t.Context()); err != nil || !bytes.Equal(again, key) {
		t.Errorf("another process: %x, %v; want %x", again, err, key)
	}
	if err := errors.Join(s.Close(), other.Close()); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, Config{Path: path})
	if again, err := s.TraceKey(t.Context()); err != nil || !bytes.Equal(again, key) {
		t.Errorf("after a restart: %x, %v; want %x", again, err, key)
	}
}

func TestOpenRefuses(t *testing.T) {
	execute := func(path, script string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.Exec(script); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		prepare func(path string)
		want    string
	}{
		"another application's database": {
			func(path string) { execute(path, "CREATE TABLE t (x)") }, "another application",
		},
		"another application's empty database": {
			func(path string) { execute(path, "PRAGMA application_id = 1") }, "another application",
		},
		"a later format": {
			func(path string) {
				execute(path, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, format+1))
			}, "format 101",
		},
		"an earlier format": {
			func(path string) {
				execute(path, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = 18; CREATE TABLE traces (seq)", applicationID))
			}, "format 18",
		},
		"a directory": {
			func(path string) {
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			}, "a.db",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			test.prepare(path)
			before, _ := os.ReadFile(path)
			_, err := Open(t.Context(), Config{Path: path})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v, want %q and the path", err, test.want)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
	if _, err := Open(t.Context(), Config{}); err == nil {
		t.Error("no path: no error")
	}
}

func TestOpenReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	if _, err := OpenReader(t.Context(), path); err == nil {
		t.Error("a file that does not exist was opened")
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the reader made the file: %v", err)
	}
	s := mustOpen(t, Config{Path: path})
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{{Workspace: "w"}}})
	read := func(when string) {
		t.Helper()
		r, err := OpenReader(t.Context(), path)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer r.Close()
		if counts, err := r.Counts(t.Context()); err != nil || counts != (Counts{Metrics: 1}) {
			t.Errorf("%s: %+v, %v", when, counts, err)
		}
		if err := r.Check(t.Context()); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	read("while it is written")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	read("after it was closed")
}

func TestCommitIsAllOrNothing(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	batch := &recorder.Batch{Metrics: []*trace.Metrics{{Workspace: "w"}}}
	if err := s.Commit(ctx, batch); err == nil {
		t.Error("a cancelled commit succeeded")
	}
	mustCommit(t, s, *batch)
	if counts, err := s.Counts(t.Context()); err != nil || counts.Metrics != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// Counts has the number of rows of each table.
type Counts struct{ Traces, Metrics, Versions int64 }

// Counts counts the rows.
func (r *Reader) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	err := r.db.QueryRowContext(ctx,
		"SELECT (SELECT count(*) FROM traces), (SELECT count(*) FROM metrics), (SELECT count(*) FROM versions)",
	).Scan(&c.Traces, &c.Metrics, &c.Versions)
	return c, err
}

// opener returns the function by which a recorder opens the store.
func opener(config Config) func(context.Context) (recorder.Store, error) {
	return func(ctx context.Context) (recorder.Store, error) { return Open(ctx, config) }
}

// always returns an option that does not change.
func always[T any](value T) func() T { return func() T { return value } }
