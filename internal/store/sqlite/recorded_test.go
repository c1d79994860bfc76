package sqlite

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// readRecorded reads all decisions of the default workspace since a time, each as a line.
func readRecorded(t testing.TB, s *Store, since time.Time) (d *Recorded, lines []string) {
	t.Helper()
	r, err := OpenReader(t.Context(), s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if d, err = r.Recorded(t.Context(), "default", since); err != nil {
		t.Fatal(err)
	}
	for more := true; more; {
		if more, err = d.Next(t.Context(), func(one *RecordedDecision) {
			lines = append(lines, fmt.Sprintf("%s %d %d %s %s %s %s %s %s %s %s %s %s %d %s", one.ID, one.Time.UnixMilli(), one.Answers, one.Kind, one.Key, one.APIKey, one.Revision, one.Reason, one.Row, one.Arm, one.Variant,
				one.Splits, one.Inputs, len(one.Context), one.Notes)+string(one.Call))
		}); err != nil {
			t.Fatal(err)
		}
	}
	return d, lines
}

// TestRecorded reads the decisions of a workspace: all that are recorded, newest first, over
// the borders of windows and of what one read takes.
func TestRecorded(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	shared := &trace.Shared{Notes: []string{"asked as old"}, Context: []byte(`{"plan":"pro"}`)}
	large := slices.Concat([]byte(`{"text":"`), bytes.Repeat([]byte{'x'}, maxReplayedContext-len(`{"text":""}`)), []byte(`"}`))
	var batch recorder.Batch
	var want []string
	for i := range 2*recordedWindow + 100 {
		r := new(trace.Record)
		fillEvaluation(r, trace.ID{}, at.Add(time.Duration(i)*time.Millisecond))
		decide(r, authority, r.Time)
		r.Context, r.Variables = nil, nil
		r.Inputs, r.Notes = fmt.Appendf(nil, `{"n":%d}`, i), []string{"own"}
		switch notes := `[["own"] ]`; {
		case i%7 == 1:
			r.Workspace = "other"
		case i%7 == 2:
			r.Reason = "" // no decision
		default:
			size := 0
			switch {
			case i < 200:
				r.Context, size = large, len(large)
			case i < 300:
				r.Context = append(slices.Clone(large), ' ')
			case i%7 == 3:
				r.Shared, r.SharesContent, size = shared, true, len(shared.Context)
				notes = `[["own"] ["asked as old"]]`
			}
			want = append(want, fmt.Sprintf("%s %d 1 prompt support_reply app ba9876543210 split dutch nl nl %s %s %d %s", r.ID, r.Time.UnixMilli(), r.Splits, r.Inputs, size, notes))
		}
		if batch.Records = append(batch.Records, r); len(batch.Records) == 256 {
			mustCommit(t, s, batch)
			batch.Records = nil
		}
	}
	mustCommit(t, s, batch)
	slices.Reverse(want)
	d, got := readRecorded(t, s, time.Time{})
	if !slices.Equal(got, want) {
		t.Errorf("%d decisions, want %d\n%.300s\n%.300s", len(got), len(want), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if d.Of != 2*recordedWindow+100 || d.Seen != d.Of {
		t.Errorf("%d of %d seen", d.Seen, d.Of)
	}
	since := at.Add(4000 * time.Millisecond)
	if d, got := readRecorded(t, s, since); len(got) == 0 || !slices.Equal(got, want[:len(got)]) || d.Of != 196 || d.Seen != 196 {
		t.Errorf("since %s: %d, %d of %d seen", since, len(got), d.Seen, d.Of)
	}
	if d, got := readRecorded(t, s, at.Add(time.Hour)); len(got) != 0 || d.Of != 0 {
		t.Errorf("%d decisions in no time", len(got))
	}
}

// TestRecordedCall reads what a call used, took and cost.
func TestRecordedCall(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	full := &trace.Record{
		ID: authority.New(trace.KindEndpoint, at), Time: at, Workspace: "default", Kind: trace.KindEndpoint, Key: "chat", Reason: "default", Provider: "openai", Model: "m", Status: 200, Latency: 1500 * time.Microsecond,
		HasUsage: true, PromptTokens: 12, CompletionTokens: 34, TotalTokens: 46, Cost: 0.5, Cached: true, Attempts: []trace.Attempt{{Provider: "openai", Model: "m", PromptTokens: 12}},
	}
	bare := &trace.Record{ID: authority.New(trace.KindEndpoint, at.Add(time.Second)), Time: at.Add(time.Second), Workspace: "default", Kind: trace.KindEndpoint, Key: "chat", Reason: "default"}
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{full, bare}})
	_, lines := readRecorded(t, s, at)
	for i, want := range []string{
		`{"provider":null,"model":null,"status":null,"latency_ms":null,"cost_usd":null,"cached":false,"usage":null,"attempts":null}`,
		`{"provider":"openai","model":"m","status":200,"latency_ms":1.5,"cost_usd":0.5,"cached":true,"usage":{"prompt_tokens":12,"completion_tokens":34},"attempts":[{`,
	} {
		if len(lines) != 2 || !strings.Contains(lines[i], want) {
			t.Errorf("%q lacks %s", lines, want)
		}
	}
}

// BenchmarkRecorded shows what reading a decision takes.
func BenchmarkRecorded(b *testing.B) {
	s := mustOpen(b, Config{Path: filepath.Join(b.TempDir(), "a.db")})
	authority, at := mustAuthority(b), time.UnixMilli(1790000000123)
	const count = 100_000
	for i := 0; i < count; i += 500 {
		var batch recorder.Batch
		for j := range 500 {
			r := new(trace.Record)
			fillEvaluation(r, trace.ID{}, at.Add(time.Duration(i+j)*time.Millisecond))
			decide(r, authority, r.Time)
			r.Context, r.Variables = nil, nil
			batch.Records = append(batch.Records, r)
		}
		mustCommit(b, s, batch)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, got := readRecordedRaw(b, s); got != count {
			b.Fatal(got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/count, "ns/decision")
}

func readRecordedRaw(b *testing.B, s *Store) (*Recorded, int) {
	r, err := OpenReader(b.Context(), s.path)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	d, err := r.Recorded(b.Context(), "default", time.Time{})
	count := 0
	for more := err == nil; more; {
		more, err = d.Next(b.Context(), func(*RecordedDecision) { count++ })
	}
	if err != nil {
		b.Fatal(err)
	}
	return d, count
}
