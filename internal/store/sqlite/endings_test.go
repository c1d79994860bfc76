package sqlite

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestHowAnswersEndedIsKept, with the prompt that was sent, also of records that
// have nothing else of an upstream call.
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

// TestCutAnswersAreFoundByTheirIndex, as few as they are.
func TestCutAnswersAreFoundByTheirIndex(t *testing.T) {
	for reason, index := range map[string]string{
		"stop": "sqlite_autoindex_traces_1", "tool_calls": "sqlite_autoindex_traces_1", "length": "traces_cut", "content_filter": "traces_cut",
	} {
		if s := sourceOf(&trace.Filter{Workspace: "default", FinishReason: reason}); s.index != index {
			t.Errorf("%s is looked for in %s", reason, s.index)
		}
	}
}

// TestMigrationOfEndings: calls that were interrupted had a status.
func TestMigrationOfEndings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	var rows []string
	for i, state := range []string{"ended", "interrupted", "started"} {
		rows = append(rows, fmt.Sprintf("INSERT INTO traces (id, time_ms, workspace, kind, key, state, status, provider) VALUES (X'%032d', 12, 'default', 'endpoint', 'k', '%s', 200, 'p')", i, state))
	}
	rows = append(rows,
		"INSERT INTO stats_series (id, workspace, kind, key, variant) VALUES (1, 'default', 'endpoint', 'k', '')",
		"INSERT INTO stats VALUES (1, 24, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL)")
	makeOldFile(t, path, 6, rows...)
	s := mustOpen(t, Config{Path: path})
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for i, want := range []int{200, 0, 0} {
		record, err := s.Trace(t.Context(), trace.ID{15: byte(i)})
		if err != nil || record.Status != want || record.Provider != "p" || record.FinishReason != "" {
			t.Errorf("%+v, %v", record, err)
		}
	}
	page, err := s.Traces(t.Context(), trace.Filter{Workspace: "default", Status: 200}, trace.ID{}, 10, time.Minute)
	if err != nil || len(page.Records) != 1 || page.Records[0].State != trace.StateEnded {
		t.Errorf("with status 200: %+v, %v", page.Records, err)
	}
	stats, err := s.Stats(t.Context(), StatsQuery{Workspace: "default", Interval: Overall})
	if err != nil || !slices.ContainsFunc(stats.Rows, func(r StatsRow) bool { return r.Traces == 8 && r.FinishReasons == FinishReasons{} }) {
		t.Errorf("%+v, %v", stats, err)
	}
}
