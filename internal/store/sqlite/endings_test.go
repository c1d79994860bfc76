package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestHowAnswersEndedIsKept, with the prompt that was sent, also for records without other
// members of an upstream call.
func TestHowAnswersEndedIsKept(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, now := mustAuthority(t), time.Now()
	for _, r := range []trace.Record{
		{FinishReason: "length"}, {FinishReason: "another word"}, {Prompt: "support_reply"}, {PromptVersion: "00aa11bb22cc"}, {},
		{FinishReason: "stop", Prompt: "support_reply", PromptVersion: "00aa11bb22cc", Provider: "openai", Status: 200},
	} {
		r.ID, r.Time, r.Workspace, r.Kind, r.Key = authority.New(trace.KindEndpoint, now), now, "default", trace.KindEndpoint, "chat"
		start := r
		start.State, start.FinishReason, start.Status = trace.StateInterrupted, "", 0
		mustCommit(t, s, recorder.Batch{Interrupted: []*trace.Record{&start}})
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{&r}})
		got, err := s.Trace(t.Context(), r.ID)
		if err != nil || got.FinishReason != r.FinishReason || got.Prompt != r.Prompt || got.PromptVersion != r.PromptVersion || got.Status != r.Status {
			t.Errorf("%+v, %v; want %+v", got, err, r)
		}
	}
	stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Interval: Overall})
	if want := (FinishReasons{Stop: 1, Length: 1}); err != nil || len(stats.Rows) != 1 || stats.Rows[0].FinishReasons != want {
		t.Errorf("%+v, %v", stats, err)
	}
}

// TestCutAnswersAreFoundByTheirIndex, which has only them.
func TestCutAnswersAreFoundByTheirIndex(t *testing.T) {
	for reason, index := range map[string]string{
		"stop": "sqlite_autoindex_traces_1", "tool_calls": "sqlite_autoindex_traces_1", "length": "traces_cut", "content_filter": "traces_cut",
	} {
		if s := sourceOf(&trace.Filter{Workspace: "default", FinishReason: reason}); s.index != index {
			t.Errorf("%s is looked for in %s", reason, s.index)
		}
	}
}
