package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

var (
	// Binding is a quarter of an insert's cost, so a record is inserted by the
	// first of these that has all of it: what a configuration's evaluation has,
	// what one has beside that of a prompt, or of a request with several keys, and
	// what comes from an upstream call.
	answerColumns = []string{
		"id", "time_ms", "workspace", "kind", "key", "state", "api_key", "version", "revision", "matched_row", "variant",
		"status", "latency_us", "notes", "metadata", "context", "variables", "messages", "response",
	}
	evaluationColumns = slices.Concat(answerColumns, []string{"provider", "model", "decision_id", "shared"})
	traceColumns      = slices.Concat(evaluationColumns, []string{
		"attempts", "code", "first_token_us", "prompt_tokens", "completion_tokens",
		"total_tokens", "cost", "cached", "tool_calls", "finish_reason", "prompt", "prompt_version",
	})

	metricsColumns = []string{
		"id", "trace_id", "time_ms", "workspace", "api_key", "score", "latency_ms", "roundtrip_time_ms", "llm_response",
		"chain_id", "conversation_id", "prompt_tokens", "completion_tokens", "total_tokens", "metadata",
	}
)

// rowsAtOnce is how many rows one statement inserts, where there are as many.
// Half the cost of a row that is inserted alone is that of running a statement;
// from here on it hardly falls.
const rowsAtOnce = 16

// insertSQL is "INSERT INTO table (columns) VALUES (?, …), …".
func insertSQL(verb, table string, columns []string, rows int) string {
	row := "(" + strings.Join(slices.Repeat([]string{"?"}, len(columns)), ", ") + ")"
	return fmt.Sprintf("%s INTO %s (%s) VALUES %s", verb, table,
		strings.Join(columns, ", "), strings.Join(slices.Repeat([]string{row}, rows), ", "))
}

const versionSQL = `
INSERT INTO versions (workspace, kind, key, version, ordinal, first_seen_ms, content)
VALUES (?1, ?2, ?3, ?4, 1 + (
	SELECT count(*) FROM versions WHERE workspace = ?1 AND kind = ?2 AND key = ?3
), ?5, ?6)
ON CONFLICT DO NOTHING`

// inserter gathers rows of the same columns and inserts them a few at a time.
type inserter struct {
	one, many *sql.Stmt
	columns   int
	args      []any // of the rows that wait
}

// add takes a row, whose values stand in args from its length before on.
func (i *inserter) add(ctx context.Context, args []any) error {
	i.args = args
	if len(i.args) < rowsAtOnce*i.columns {
		return nil
	}
	_, err := i.many.ExecContext(ctx, i.args...)
	i.reset()
	return err
}

// flush inserts the rows that wait.
func (i *inserter) flush(ctx context.Context) error {
	defer i.reset()
	for row := range slices.Chunk(i.args, i.columns) {
		if _, err := i.one.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	return nil
}

// reset lets go of the rows that wait.
func (i *inserter) reset() {
	clear(i.args)
	i.args = i.args[:0]
}

// recordInserter inserts records by traceColumns, evaluationColumns or
// answerColumns.
type recordInserter struct{ whole, evaluation, answer inserter }

func (i *recordInserter) all() [3]*inserter {
	return [...]*inserter{&i.whole, &i.evaluation, &i.answer}
}

// statements are the writer's, prepared once. args is reused for each row that
// is inserted alone, uuids for each batch.
type statements struct {
	begin, commit, rollback *sql.Stmt
	starts, records         recordInserter
	metrics                 inserter
	version, decision       *sql.Stmt
	decided                 map[trace.ID]shown // by the batch
	keep, kept              *sql.Stmt
	deleteReplies           *sql.Stmt
	prepared                []*sql.Stmt
	args                    []any
	uuids                   []byte
}

func (s *statements) prepare(ctx context.Context, conn *sql.Conn) error {
	prepare := func(text string) (*sql.Stmt, error) {
		stmt, err := conn.PrepareContext(ctx, text)
		if err == nil {
			s.prepared = append(s.prepared, stmt)
		}
		return stmt, err
	}
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.commit, "COMMIT"},
		{&s.rollback, "ROLLBACK"},
		{&s.version, versionSQL},
		{&s.decision, decisionSQL},
		{&s.keep, keepReplySQL},
		{&s.kept, selectReply},
		{&s.deleteReplies, "DELETE FROM replies WHERE seq IN (SELECT seq FROM replies WHERE time_ms <= ? ORDER BY time_ms LIMIT ?)"},
	} {
		var err error
		if *p.stmt, err = prepare(p.text); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		into        *inserter
		verb, table string
		columns     []string
	}{
		{&s.starts.whole, "INSERT OR IGNORE", "traces", traceColumns},
		{&s.starts.evaluation, "INSERT OR IGNORE", "traces", evaluationColumns},
		{&s.starts.answer, "INSERT OR IGNORE", "traces", answerColumns},
		{&s.records.whole, "INSERT OR REPLACE", "traces", traceColumns},
		{&s.records.evaluation, "INSERT OR REPLACE", "traces", evaluationColumns},
		{&s.records.answer, "INSERT OR REPLACE", "traces", answerColumns},
		{&s.metrics, "INSERT", "metrics", metricsColumns},
	} {
		p.into.columns = len(p.columns)
		var err error
		if p.into.one, err = prepare(insertSQL(p.verb, p.table, p.columns, 1)); err != nil {
			return err
		}
		if p.into.many, err = prepare(insertSQL(p.verb, p.table, p.columns, rowsAtOnce)); err != nil {
			return err
		}
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
func (s *statements) batch(ctx context.Context, b *recorder.Batch) error {
	defer func() { // what an error left behind belongs to no other batch
		for _, records := range []*recordInserter{&s.starts, &s.records} {
			for _, i := range records.all() {
				i.reset()
			}
		}
		s.metrics.reset()
		clear(s.decided)
	}()
	if err := s.allRecords(ctx, &s.starts, b.Starts); err != nil {
		return err
	}
	if err := s.allRecords(ctx, &s.records, b.Records); err != nil {
		return err
	}
	if err := s.allMetrics(ctx, b.Metrics); err != nil {
		return err
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

// allRecords inserts records, after what they share.
func (s *statements) allRecords(ctx context.Context, into *recordInserter, records []*trace.Record) error {
	for _, r := range records {
		if r.Shared != nil {
			if err := s.keepDecision(ctx, r); err != nil {
				return err
			}
		}
		if err := into.add(ctx, r); err != nil {
			return err
		}
	}
	for _, i := range into.all() {
		if err := i.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (i *recordInserter) add(ctx context.Context, r *trace.Record) error {
	notes, err := jsonArray(r.Notes)
	if err != nil {
		return err
	}
	into := &i.answer
	switch {
	case hasCall(r):
		into = &i.whole
	case r.Provider != "" || r.Model != "" || r.Shared != nil || !r.Decision.IsZero():
		into = &i.evaluation
	}
	args := append(into.args,
		r.ID[:], r.Time.UnixMilli(), r.Workspace, r.Kind.String(), r.Key, r.State.String(), text(r.APIKey),
		text(r.Version), text(r.Revision), text(r.Row), text(r.Variant), integer(int64(r.Status)), micros(r.Latency),
		notes, content(r.Metadata), content(r.Context), content(r.Variables), content(r.Messages), content(r.Response),
	)
	if into != &i.answer {
		args = append(args, text(r.Provider), text(r.Model), decisionID(r), shownOf(r))
	}
	if into == &i.whole {
		attempts, err := jsonArray(r.Attempts)
		if err != nil {
			return err
		}
		args = append(args,
			attempts, text(r.Code), micros(r.FirstToken),
			usage(r, r.PromptTokens), usage(r, r.CompletionTokens), usage(r, r.TotalTokens), cost(r.Cost), flag(r.Cached),
			content(r.ToolCalls), text(r.FinishReason), text(r.Prompt), text(r.PromptVersion),
		)
	}
	return into.add(ctx, args)
}

// hasCall reports whether a member of r stands in traceColumns alone.
func hasCall(r *trace.Record) bool {
	return len(r.Attempts) > 0 || r.Code != "" || r.FirstToken != 0 || r.HasUsage || r.Cost != 0 || r.Cached ||
		len(r.ToolCalls) > 0 || r.FinishReason != "" || r.Prompt != "" || r.PromptVersion != ""
}

// allMetrics inserts metrics, but for those that had been stored with an
// earlier reply.
func (s *statements) allMetrics(ctx context.Context, all []*trace.Metrics) error {
	const size = len(trace.Metrics{}.UUID)
	s.uuids = slices.Grow(s.uuids[:0], size*len(all))[:size*len(all)]
	rand.Read(s.uuids)
	for n, m := range all {
		if m.Reply != nil {
			if err := s.keepReply(ctx, m.Reply); err != nil {
				return err
			}
			if m.Reply.Earlier != nil {
				continue
			}
		}
		err := s.metrics.add(ctx, append(s.metrics.args,
			s.uuids[size*n:][:size], m.TraceID[:], m.Time.UnixMilli(), m.Workspace, text(m.APIKey),
			optional(m.Score), optional(m.Latency), optional(m.RoundtripTime),
			optional(m.LLMResponse), optional(m.ChainID), optional(m.ConversationID),
			optional(m.PromptTokens), optional(m.CompletionTokens), optional(m.TotalTokens), content(m.Metadata),
		))
		if err != nil {
			return err
		}
	}
	return s.metrics.flush(ctx)
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
