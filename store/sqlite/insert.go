package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

var (
	// What every answer may have; the rest comes from an upstream call. Binding
	// is a quarter of an insert's cost, and evaluations bind only these.
	answerColumns = []string{
		"id", "time_ms", "workspace", "kind", "key", "state", "api_key", "version", "revision", "matched_row", "variant",
		"status", "latency_us", "notes", "metadata", "context", "variables", "messages", "response",
	}
	upstreamColumns = []string{
		"provider", "model", "attempts", "code", "first_token_us", "prompt_tokens", "completion_tokens",
		"total_tokens", "cost", "cached", "tool_calls",
	}
	traceColumns = slices.Concat(answerColumns, upstreamColumns)

	metricsColumns = []string{
		"trace_id", "time_ms", "workspace", "api_key", "score", "latency_ms", "roundtrip_time_ms", "llm_response",
		"chain_id", "conversation_id", "prompt_tokens", "completion_tokens", "total_tokens", "metadata",
	}
)

// insertSQL is "INSERT INTO table (columns) VALUES (?, …)".
func insertSQL(verb, table string, columns []string) string {
	return fmt.Sprintf("%s INTO %s (%s) VALUES (%s)", verb, table,
		strings.Join(columns, ", "), strings.Join(slices.Repeat([]string{"?"}, len(columns)), ", "))
}

const versionSQL = `
INSERT INTO versions (workspace, kind, key, version, ordinal, first_seen_ms, content)
VALUES (?1, ?2, ?3, ?4, 1 + (
	SELECT count(*) FROM versions WHERE workspace = ?1 AND kind = ?2 AND key = ?3
), ?5, ?6)
ON CONFLICT DO NOTHING`

// statements are the writer's, prepared once. args is reused for each row.
type statements struct {
	begin, commit, rollback     *sql.Stmt
	start, startAnswer          *sql.Stmt
	record, recordAnswer        *sql.Stmt
	metrics, version            *sql.Stmt
	keep, kept                  *sql.Stmt
	deleteTraces, deleteMetrics *sql.Stmt
	deleteReplies               *sql.Stmt
	prepared                    []*sql.Stmt
	args                        []any
}

func (s *statements) prepare(ctx context.Context, conn *sql.Conn) error {
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.commit, "COMMIT"},
		{&s.rollback, "ROLLBACK"},
		{&s.start, insertSQL("INSERT OR IGNORE", "traces", traceColumns)},
		{&s.startAnswer, insertSQL("INSERT OR IGNORE", "traces", answerColumns)},
		{&s.record, insertSQL("INSERT OR REPLACE", "traces", traceColumns)},
		{&s.recordAnswer, insertSQL("INSERT OR REPLACE", "traces", answerColumns)},
		{&s.metrics, insertSQL("INSERT", "metrics", metricsColumns)},
		{&s.version, versionSQL},
		{&s.keep, keepReplySQL},
		{&s.kept, selectReply},
		{&s.deleteTraces, "DELETE FROM traces WHERE seq IN (SELECT seq FROM traces WHERE id < ? ORDER BY id LIMIT ?)"},
		{&s.deleteMetrics, "DELETE FROM metrics WHERE seq IN (SELECT seq FROM metrics WHERE trace_id < ? ORDER BY trace_id LIMIT ?)"},
		{&s.deleteReplies, "DELETE FROM replies WHERE seq IN (SELECT seq FROM replies WHERE time_ms <= ? ORDER BY time_ms LIMIT ?)"},
	} {
		stmt, err := conn.PrepareContext(ctx, p.text)
		if err != nil {
			return err
		}
		*p.stmt = stmt
		s.prepared = append(s.prepared, stmt)
	}
	return nil
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range s.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}

// batch inserts all of b.
func (s *statements) batch(ctx context.Context, b *trace.Batch) error {
	for _, r := range b.Starts {
		if err := s.insertRecord(ctx, s.start, s.startAnswer, r); err != nil {
			return err
		}
	}
	for _, r := range b.Records {
		if err := s.insertRecord(ctx, s.record, s.recordAnswer, r); err != nil {
			return err
		}
	}
	for _, m := range b.Metrics {
		if m.Reply != nil {
			if err := s.keepReply(ctx, m.Reply); err != nil {
				return err
			}
			if m.Reply.Earlier != nil {
				continue
			}
		}
		if err := s.insertMetrics(ctx, m); err != nil {
			return err
		}
	}
	for _, r := range b.Replies {
		if err := s.keepReply(ctx, r); err != nil {
			return err
		}
	}
	for i := range b.Versions {
		v := &b.Versions[i]
		content := v.Content
		if content == nil {
			content = []byte{}
		}
		if _, err := s.version.ExecContext(ctx, v.Workspace, v.Kind.String(), v.Key, v.Version, v.Time.UnixMilli(), content); err != nil {
			return err
		}
	}
	return nil
}

// insertRecord inserts a row by whole, or by answer if that holds all of r.
func (s *statements) insertRecord(ctx context.Context, whole, answer *sql.Stmt, r *trace.Record) error {
	notes, err := jsonArray(r.Notes)
	if err != nil {
		return err
	}
	s.args = append(s.args[:0],
		r.ID[:], r.Time.UnixMilli(), r.Workspace, r.Kind.String(), r.Key, r.State.String(), text(r.APIKey),
		text(r.Version), text(r.Revision), text(r.Row), text(r.Variant), integer(int64(r.Status)), micros(r.Latency),
		notes, content(r.Metadata), content(r.Context), content(r.Variables), content(r.Messages), content(r.Response),
	)
	stmt := answer
	if hasUpstream(r) {
		stmt = whole
		attempts, err := jsonArray(r.Attempts)
		if err != nil {
			return err
		}
		s.args = append(s.args,
			text(r.Provider), text(r.Model), attempts, text(r.Code), micros(r.FirstToken),
			usage(r, r.PromptTokens), usage(r, r.CompletionTokens), usage(r, r.TotalTokens), cost(r.Cost), flag(r.Cached),
			content(r.ToolCalls),
		)
	}
	_, err = stmt.ExecContext(ctx, s.args...)
	clear(s.args)
	return err
}

// hasUpstream tells whether a member of r stands in upstreamColumns.
func hasUpstream(r *trace.Record) bool {
	return r.Provider != "" || r.Model != "" || len(r.Attempts) > 0 || r.Code != "" || r.FirstToken != 0 ||
		r.HasUsage || r.Cost != 0 || r.Cached || len(r.ToolCalls) > 0
}

func (s *statements) insertMetrics(ctx context.Context, m *trace.Metrics) error {
	s.args = append(s.args[:0],
		m.TraceID[:], m.Time.UnixMilli(), m.Workspace, text(m.APIKey),
		optional(m.Score), optional(m.Latency), optional(m.RoundtripTime),
		optional(m.LLMResponse), optional(m.ChainID), optional(m.ConversationID),
		optional(m.PromptTokens), optional(m.CompletionTokens), optional(m.TotalTokens), content(m.Metadata),
	)
	_, err := s.metrics.ExecContext(ctx, s.args...)
	clear(s.args)
	return err
}

// What is absent is stored as NULL. The values have the types that the driver
// takes as they are.

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// content is text that came as bytes; as bytes it would be stored as a BLOB,
// which SQLite's JSON functions refuse.
func content(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return string(b)
}

func integer(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

func micros(d time.Duration) any { return integer(d.Microseconds()) }

func usage(r *trace.Record, tokens int64) any {
	if !r.HasUsage {
		return nil
	}
	return tokens
}

func cost(dollars float64) any {
	if dollars == 0 {
		return nil
	}
	return dollars
}

func flag(set bool) any {
	if !set {
		return nil
	}
	return int64(1)
}

func optional[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// jsonArray is the JSON of a list, nil for an empty one.
func jsonArray[T any](list []T) (any, error) {
	if len(list) == 0 {
		return nil, nil
	}
	encoded, err := json.Marshal(list)
	return string(encoded), err
}
