package sqlite

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
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

// add takes a row. args is i.args with the values of the row appended.
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

// recordInserter inserts records by answerFields, evaluationFields or
// traceFields.
type recordInserter struct {
	answer, evaluation, whole inserter
	rest                      []any // of a record, beyond answerFields
}

func (i *recordInserter) all() [3]*inserter {
	return [...]*inserter{&i.answer, &i.evaluation, &i.whole}
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
		{&s.starts.whole, "INSERT OR IGNORE", "traces", columnsOf(traceFields)},
		{&s.starts.evaluation, "INSERT OR IGNORE", "traces", columnsOf(evaluationFields)},
		{&s.starts.answer, "INSERT OR IGNORE", "traces", columnsOf(answerFields)},
		{&s.records.whole, "INSERT OR REPLACE", "traces", columnsOf(traceFields)},
		{&s.records.evaluation, "INSERT OR REPLACE", "traces", columnsOf(evaluationFields)},
		{&s.records.answer, "INSERT OR REPLACE", "traces", columnsOf(answerFields)},
		{&s.metrics, "INSERT", "metrics", columnsOf(trace.MetricsFields)},
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

// add inserts a record by the shortest list that has all of it.
func (i *recordInserter) add(ctx context.Context, r *trace.Record) (err error) {
	row := len(i.answer.args)
	if i.answer.args, err = bindAll(i.answer.args, answerFields, r); err != nil {
		return err
	}
	if i.rest, err = bindAll(i.rest[:0], traceFields[len(answerFields):], r); err != nil {
		return err
	}
	rest := len(i.rest)
	for rest > 0 && i.rest[rest-1] == nil {
		rest--
	}
	if rest == 0 {
		return i.answer.add(ctx, i.answer.args)
	}
	into := &i.evaluation
	if len(answerFields)+rest > into.columns {
		into = &i.whole
	}
	answer := i.answer.args[row:]
	args := append(append(into.args, answer...), i.rest[:into.columns-len(answer)]...)
	clear(answer)
	i.answer.args = i.answer.args[:row]
	return into.add(ctx, args)
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
			requestID(s.uuids[size*n:][:size], m.Reply)
		}
		row := len(s.metrics.args)
		args, err := bindAll(s.metrics.args, trace.MetricsFields, m)
		if err != nil {
			return err
		}
		args[row] = s.uuids[size*n:][:size] // its id, which comes first
		if args[row+1] == nil {             // on a decision, which is in the place of its trace: see isDecision
			args[row+1] = m.Decision[:]
		}
		if err := s.metrics.add(ctx, args); err != nil {
			return err
		}
	}
	return s.metrics.flush(ctx)
}

// requestID fills in the id of a report whose request has an idempotency key. It is
// the same on each gateway of a fleet: a place where their rows come together has
// the report once, also if its caller sent it again and met another gateway.
func requestID(id []byte, r *trace.Reply) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %x", r.Workspace, r.Key, r.Digest))
	copy(id, sum[:])
}
