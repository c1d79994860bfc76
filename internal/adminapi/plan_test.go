package adminapi

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestUntar reads what a tar may have besides files, and what would take more memory than it
// has bytes.
func TestUntar(t *testing.T) {
	pack := func(headers ...*tar.Header) io.Reader {
		var packed bytes.Buffer
		archive := tar.NewWriter(&packed)
		for _, h := range headers {
			if err := archive.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if h.Typeflag == tar.TypeReg && h.Size < 100 {
				if _, err := archive.Write(bytes.Repeat([]byte{'x'}, int(h.Size))); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = archive.Flush() // a file that is not whole is the test's
		packed.Write(make([]byte, 1024))
		return &packed
	}
	file := func(name string, size int64) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
	}
	folder := &tar.Header{Typeflag: tar.TypeDir, Name: "./prompts/", Mode: 0o755}
	git := &tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "0123"}}
	next, against, err := untar(pack(git, folder, file("./prompts/a.yaml", 3), file("new.yaml", 1)))
	if err != nil || against != nil || len(next) != 2 || next[0] != (trace.File{Path: "prompts/a.yaml", Content: "xxx"}) || next[1].Path != "new.yaml" {
		t.Errorf("%v, %v, %v", next, against, err)
	}
	next, against, err = untar(pack(file("against/context.yaml", 1), file("new/prompts/new/a.yaml", 1)))
	if err != nil || len(next) != 1 || next[0].Path != "prompts/new/a.yaml" || len(against) != 1 || against[0].Path != "context.yaml" {
		t.Errorf("%v, %v, %v", next, against, err)
	}
	for name, headers := range map[string][]*tar.Header{
		"a link":                {{Typeflag: tar.TypeSymlink, Name: "context.yaml", Linkname: "/etc/passwd"}},
		"an absolute path":      {file("/context.yaml", 1)},
		"a path out":            {file("prompts/../../a.yaml", 1)},
		"files of two kinds":    {file("new/a.yaml", 1), file("against/a.yaml", 1), file("context.yaml", 1)},
		"against without a new": {file("against/a.yaml", 1)},
	} {
		if next, _, err := untar(pack(headers...)); err == nil {
			t.Errorf("%s: %v", name, next)
		}
	}
	if _, _, err := untar(pack(file("context.yaml", maxPlan+1))); !isTooLarge(err) {
		t.Errorf("more than may be: %v", err)
	}
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReplayedSplits decodes splits as the type says, but for the shares of arms, which no plan
// needs.
func TestReplayedSplits(t *testing.T) {
	text := []byte(`[{"experiment":{"definition":"remoteconfigs/c","rule":"ramp","salt":"s"},"bucket":7,"arm":"nl","share":0.25,"unit":"0123456789abcdef"},
		{"experiment":{"definition":"prompts/p","rule":"r","salt":"r"},"arm":"1","share":1}, {"experiment":{},"bucket":0,"arm":"","share":0},
		{"experiment":{"definition":"prompts/p","rule":"r","salt":"r"},"bucket":9,"consulted":false,"unit":"0123456789abcdef"}]`)
	var want []inspect.TracedSplit
	must(t, json.Unmarshal(text, &want))
	got, err := (&replayedBatch{hasKeyOf: ownKey}).with().splits(text)
	must(t, err)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\n%+v", got, want)
	}
	for _, text := range []string{`{"bucket":1}`, `"text"`, `[`} {
		if splits, err := (&replayedBatch{hasKeyOf: ownKey}).with().splits([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, splits)
		}
	}
}

// with returns the batch, ready for what it keeps.
func (b *replayedBatch) with() *replayedBatch {
	b.add(new(sqlite.RecordedDecision))
	return b
}

// planned has a store with decisions, and two sets of definitions.
func planned(t testing.TB, count, distinct int) (path string, old, next *definition.Snapshot) {
	load := func(share string) *definition.Snapshot {
		dir := t.TempDir()
		must(t, os.Mkdir(filepath.Join(dir, "remoteconfigs"), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "context.yaml"), []byte("fields: { plan: { type: string, values: [free, pro] }, id: string }\n"), 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "remoteconfigs/c.yaml"), []byte("type: number\ndefault: 0\nrules: [ { id: ramp, when: { plan: pro }, split: { by: id, of: [ { value: 1, share: "+share+" } ] } } ]\n"), 0o600))
		s, err := definition.Load(dir)
		must(t, err)
		return s
	}
	old, next = load("20%"), load("50%")
	path = filepath.Join(t.TempDir(), "a.db")
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	must(t, err)
	authority, err := trace.NewAuthority(bytes.Repeat([]byte{7}, 32), "default")
	must(t, err)
	now := time.Now()
	for i := 0; i < count; i += 500 {
		var batch recorder.Batch
		for j := range min(500, count-i) {
			n := (i + j) % distinct
			r := &trace.Record{Time: now.Add(time.Duration(i+j-count) * time.Millisecond), Workspace: "default", APIKey: "app", Kind: trace.KindRemoteConfig, Key: "c", Version: old.RemoteConfigs["c"].Version,
				Revision: old.Revision, Reason: "default", Status: 200, Latency: 40 * time.Microsecond, Notes: []string{"asked as c"}, Read: []byte(`{"remoteconfigs/d":"0123456789ab"}`)}
			arm, bucket := "none", 20_000+n%80_000
			if n%5 == 0 {
				r.Reason, r.Row, r.Arm, arm, bucket = "split", "ramp", "1", "1", n%20_000
			}
			r.Splits = fmt.Appendf(nil, `[{"experiment":{"definition":"remoteconfigs/c","rule":"ramp","salt":"ramp"},"bucket":%d,"arm":%q,"share":0.2,"unit":"%016x"}]`, bucket, arm, n)
			r.Inputs = fmt.Appendf(nil, `{"plan":"pro","id":{"hash":"%016x"}}`, n)
			d := authority.Decide(r.Time, 1)
			r.ID, r.Decision = d.Trace(r.Kind, 0), d.ID()
			batch.Records = append(batch.Records, r)
		}
		must(t, store.Commit(t.Context(), &batch))
	}
	must(t, store.Close())
	return path, old, next
}

func ownKey(trace.ID) bool { return true }

// replayAll plans over a store.
func replayAll(t testing.TB, path string, old, next *definition.Snapshot) *inspect.Plan {
	reader, err := sqlite.OpenReader(t.Context(), path)
	must(t, err)
	defer reader.Close()
	recorded, err := reader.Recorded(t.Context(), "default", time.Time{})
	must(t, err)
	planner := inspect.NewPlanner(func(string) (*definition.Snapshot, error) { return old, nil }, nil, next, inspect.PlanOptions{})
	batch := replayedBatch{hasKeyOf: ownKey}
	for more := true; more; {
		more, err = recorded.Next(t.Context(), batch.add)
		must(t, err)
		must(t, batch.replay(planner))
	}
	return planner.Report()
}

// TestReplayedBatch plans over more decisions than one read takes, of which each has another
// unit.
func TestReplayedBatch(t *testing.T) {
	const count = 5000
	path, old, next := planned(t, count, count)
	plan := replayAll(t, path, old, next)
	if plan.Decisions != count || plan.NotDecided != 0 || plan.Changed == 0 {
		t.Fatalf("%+v", plan.PlanCounts)
	}
	if c := plan.Definitions[0].Changes[0]; c.Count != plan.Changed || !strings.Contains(string(c.Witnesses[0].Inputs), `"plan":"pro"`) || string(c.Witnesses[0].Inputs) == string(c.Witnesses[1].Inputs) {
		t.Errorf("%+v", c)
	}
	if k := plan.APIKeys[0]; k.APIKey != "app" || k.Total != count {
		t.Errorf("%+v", k)
	}
}

// TestPlanEnds makes a plan to its end, and has it end before because the caller left, the
// configuration is stopped or the store can't be read.
func TestPlanEnds(t *testing.T) {
	defer func(usual time.Duration) { planStep = usual }(planStep)
	planStep = 0
	const count = 5000
	path, old, next := planned(t, count, 100)
	store := gateway.NewProcess().NewStore(path, slog.New(slog.DiscardHandler))
	defer store.Close()
	left, leave := context.WithCancel(t.Context())
	leave()
	stopped := make(chan struct{})
	close(stopped)
	for name, test := range map[string]struct {
		ctx      context.Context
		stopping chan struct{}
		markdown bool
		lines    int
		err      string
	}{
		"whole":        {ctx: t.Context(), lines: 2},
		"as Markdown":  {ctx: t.Context(), markdown: true},
		"left":         {ctx: left, err: "canceled"},
		"stopped":      {ctx: t.Context(), stopping: stopped, err: "the gateway loads another configuration or stops"},
		"without rows": {ctx: t.Context(), err: "the traces can't be read"},
	} {
		reader, err := sqlite.OpenReader(t.Context(), path)
		must(t, err)
		if name == "without rows" {
			must(t, reader.Close())
		}
		w := &Workspace{Workspace: &gateway.Workspace{WorkspaceConfig: gateway.WorkspaceConfig{Name: "default", Store: store}}, Stopping: test.stopping}
		answer := httptest.NewRecorder()
		p := &planAnswer{w: answer, control: http.NewResponseController(answer), markdown: test.markdown}
		plan, err := w.replay(test.ctx, reader, inspect.NewPlanner(func(string) (*definition.Snapshot, error) { return old, nil }, nil, next, inspect.PlanOptions{}), ownKey, time.Time{}, p)
		if _ = reader.Close(); test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || plan != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		must(t, err)
		if plan.Decisions != count {
			t.Errorf("%s: %+v", name, plan.PlanCounts)
		}
		var seen []int64
		for line := range strings.Lines(answer.Body.String()) {
			var l PlanLine
			must(t, json.Unmarshal([]byte(line), &l))
			if l.Progress.Of != count || l.Plan.Decisions != l.Progress.Seen {
				t.Errorf("%s: %s", name, line)
			}
			seen = append(seen, l.Progress.Seen)
		}
		if len(seen) != test.lines || !slices.IsSorted(seen) {
			t.Errorf("%s: %d lines, seen %v", name, len(seen), seen)
		}
	}
}

// TestOnePlanAtATime asks for a plan while another one is being made, and thereafter.
func TestOnePlanAtATime(t *testing.T) {
	path, old, next := planned(t, 10, 10)
	store := gateway.NewProcess().NewStore(path, slog.New(slog.DiscardHandler))
	defer store.Close()
	w := &Workspace{Workspace: &gateway.Workspace{WorkspaceConfig: gateway.WorkspaceConfig{Name: "default", Store: store}}}
	answer := httptest.NewRecorder()
	p := &planAnswer{w: answer, control: http.NewResponseController(answer)}
	var within error
	wrong := errors.New("a mistake of the definitions")
	_, err := w.planOne(t.Context(), p, false, time.Time{}, func() (*definition.Snapshot, *definition.Snapshot, error) {
		_, within = w.planOne(t.Context(), p, false, time.Time{}, func() (*definition.Snapshot, *definition.Snapshot, error) { return old, next, nil })
		return nil, nil, wrong
	})
	if !errors.Is(err, wrong) || within == nil || !strings.Contains(within.Error(), "a plan of this workspace is being made") {
		t.Errorf("%v, within it %v", err, within)
	}
	if _, err := w.planOne(t.Context(), p, false, time.Time{}, func() (*definition.Snapshot, *definition.Snapshot, error) { return nil, nil, wrong }); !errors.Is(err, wrong) {
		t.Errorf("the next one: %v", err)
	}
}

// BenchmarkPlan shows what a decision of a store takes in a plan: one as another before it,
// and one of a unit of its own.
func BenchmarkPlan(b *testing.B) {
	const count = 100_000
	for _, distinct := range []int{1000, count} {
		b.Run(fmt.Sprintf("distinct=%d", distinct), func(b *testing.B) {
			path, old, next := planned(b, count, distinct)
			b.ReportAllocs()
			for b.Loop() {
				if plan := replayAll(b, path, old, next); plan.Decisions != count {
					b.Fatal(plan.Decisions)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/decision")
		})
	}
}
