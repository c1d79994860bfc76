package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// scanRecord reads a row into first and a record, whose columns are shortList or, if whole,
// wholeList.
func scanRecord(scan func(...any) error, whole bool, first ...any) (*trace.Record, error) {
	fields := shortFields
	if whole {
		fields = wholeFields
	}
	var rec trace.Record
	var sharedNotes []byte
	var notes []string
	err := scanFields(scan, fields, &rec, first, &sharedNotes)
	if err == nil && sharedNotes != nil {
		if err = fromJSON(sharedNotes, &notes); err != nil {
			err = fmt.Errorf("notes: %w", err)
		}
		rec.Notes = append(notes, rec.Notes...)
	}
	switch {
	case err != nil && rec.ID.IsZero():
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("trace %s: %w", rec.ID, err)
	}
	quoteInvalid(&rec)
	return &rec, nil
}

// quoteInvalid turns the splits, reads and inputs of a decision into JSON strings if they
// are not JSON, because somebody changed the database. Otherwise no answer with the trace
// could be read, and no proof of it be tried.
func quoteInvalid(r *trace.Record) {
	for _, text := range [...]*[]byte{&r.Splits, &r.Read, &r.Inputs} {
		if len(*text) > 0 && !json.Valid(*text) {
			*text = jsontext.AppendString(nil, string(*text))
		}
	}
}

// clauses are conditions that all have to be true, and the values of their parameters.
type clauses struct {
	text []string
	args []any
}

func (c *clauses) add(text string, args ...any) {
	c.text = append(c.text, text)
	c.args = append(c.args, args...)
}

func (c *clauses) equal(column, value string) {
	if value != "" {
		c.add(column+" = ?", value)
	}
}

// and returns "a AND b", or "1" if there are no conditions.
func (c *clauses) and() string {
	if len(c.text) == 0 {
		return "1"
	}
	return strings.Join(c.text, " AND ")
}

// failures is the condition of the partial index traces_failed, to the letter: SQLite uses
// the index only for a query with it.
// https://www.sqlite.org/partialindex.html#queries_using_partial_indexes
const failures = "(code IS NOT NULL OR state = 'interrupted' OR status >= 400)"

// cutAnswers is the condition of the index traces_cut, to the letter.
const cutAnswers = "finish_reason NOT IN ('stop', 'tool_calls')"

// lastReport returns the expression for a column of the last report with a score on a
// trace.
func lastReport(column string) string {
	return fmt.Sprintf(`(
	SELECT %s FROM metrics INDEXED BY metrics_trace_id
	WHERE trace_id IN (traces.id, CASE WHEN %s THEN traces.decision_id END) AND metrics.workspace = traces.workspace AND score IS NOT NULL
	ORDER BY metrics.seq DESC LIMIT 1
)`, column, takes("score"))
}

// naming is a conversation or a chain that a filter asks for.
type naming struct {
	column string // of metrics, and the member of a trace's metadata
	value  string
}

// namedBy returns the conversation and the chain that the filter asks for.
func namedBy(f *trace.Filter) (names []naming) {
	if f.ConversationID != "" {
		names = append(names, naming{"conversation_id", f.ConversationID})
	}
	if f.ChainID != "" {
		names = append(names, naming{"chain_id", f.ChainID})
	}
	return names
}

// match returns the condition on the trace's own metadata.
func (n naming) match() trace.MetadataMatch {
	return trace.MetadataMatch{Name: n.column, Value: string(jsontext.AppendString(nil, n.value))}
}

// reports returns the source of the reports with the name.
func (n naming) reports() source {
	s := source{table: "metrics", id: "trace_id", index: "metrics_" + n.column}
	s.equal(n.column, n.value)
	return s
}

// named adds the condition that the metadata of the trace has the name, or a report on it,
// or one on its decision if the trace's kind takes the name.
func (c *clauses) named(n naming) {
	var own clauses
	_ = own.metadata(shownMetadata, []trace.MetadataMatch{n.match()}) // it can't fail: the value is JSON
	const reported = "EXISTS (SELECT 1 FROM metrics AS m WHERE m.trace_id = traces.%s AND m.workspace = traces.workspace AND m.%s = ?)"
	c.add(fmt.Sprintf("(%s OR "+reported+" OR %s AND "+reported+")", own.and(), "id", n.column, takes(n.column), "decision_id", n.column),
		slices.Concat(own.args, []any{n.value, n.value})...)
}

// takes returns the condition that a trace is of a kind that takes a member of metrics.
func takes(member string) string {
	var names []string
	for _, kind := range trace.Kinds() {
		if kind.Takes(member) {
			names = append(names, "'"+kind.String()+"'")
		}
	}
	return "kind IN (" + strings.Join(names, ", ") + ")"
}

// metadata adds the conditions that an expression of metadata has to meet.
func (c *clauses) metadata(metadata string, matches []trace.MetadataMatch) error {
	for _, match := range matches {
		value, err := match.Scalar()
		if err != nil {
			return err
		}
		var test string
		var args []any
		contains := match.Name
		switch value := value.(type) {
		case string:
			contains = value // rarer than the name
			test, args = "type = 'text' AND value = ?", []any{value}
		case json.Number:
			test, args = "type IN ('integer', 'real') AND value = ?", []any{number(value)}
		case bool:
			test = fmt.Sprintf("type = '%t'", value)
		default:
			test = "type = 'null'"
		}
		// Parsing JSON is expensive, a search for text is not: JSON without a backslash has
		// a string as it is.
		if strings.ContainsFunc(contains, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
			c.add("instr(" + metadata + `, '\')`)
		} else {
			c.add(fmt.Sprintf(`(instr(%[1]s, ?) OR instr(%[1]s, '\'))`, metadata), contains)
		}
		if match.OrText {
			test, args = "("+test+" OR type = 'text' AND value = ?)", append(args, match.Value)
		}
		c.add(fmt.Sprintf("EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(%[1]s) THEN %[1]s ELSE '{}' END) WHERE key = ? AND %[2]s)", metadata, test),
			append([]any{match.Name}, args...)...)
	}
	return nil
}

// number returns n as SQLite reads it in JSON.
func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, _ := n.Float64() // an overflow is an infinity, as in SQLite
	return f
}

// source is an index from which a query reads ids. The index has them in order for equal
// values of other columns, so that a range of ids is a range of the index. Queries name the
// index: SQLite has no statistics to choose by, and a wrong choice takes seconds.
type source struct {
	table, id, index string
	clauses          // on the columns of the index, or of table
}

// narrows reports whether the source leaves anything out.
func (s *source) narrows() bool { return len(s.text) > 0 }

// sourceOf chooses the index that leaves the fewest traces to look at.
func sourceOf(f *trace.Filter) source {
	s := source{table: "traces", id: "id", index: "sqlite_autoindex_traces_1"}
	switch {
	case f.State != nil && *f.State == trace.StateStarted:
		s.index = "traces_interrupted" // the store has none: this index is the smallest
		s.add("state = 'interrupted'")
	case f.State != nil && *f.State == trace.StateInterrupted:
		s.index = "traces_interrupted"
		s.add("state = 'interrupted'")
	case f.Code != "", f.Outcome == trace.Failed, f.Status >= 400:
		s.index = "traces_failed"
		s.add(failures)
	case f.FinishReason != "" && f.FinishReason != "stop" && f.FinishReason != "tool_calls":
		s.index = "traces_cut"
		s.add(cutAnswers)
		s.equal("finish_reason", f.FinishReason)
	case f.Provider != "":
		s.index = "traces_provider"
		s.equal("provider", f.Provider)
	}
	return s
}

// direction is the order in which ids are read.
type direction struct{ after, until, order string }

// compare orders ids as they are read.
func (d direction) compare(a, b trace.ID) int {
	if d == newestFirst {
		return compareIDs(b, a)
	}
	return compareIDs(a, b)
}

// sort sorts ids as they are read, and drops duplicates.
func (d direction) sort(ids []trace.ID) []trace.ID {
	slices.SortFunc(ids, d.compare)
	return slices.Compact(ids)
}

// next returns the id that is read after another.
func (d direction) next(id trace.ID) trace.ID {
	if d == newestFirst {
		return before(id)
	}
	return after(id)
}

// lastOf returns the id of a millisecond that is read last.
func (d direction) lastOf(millis int64) trace.ID {
	if d == newestFirst {
		return firstOf(millis)
	}
	return before(firstOf(millis + 1))
}

// beforeMillisecond returns an id that is read before all ids of the millisecond of
// another.
func (d direction) beforeMillisecond(id trace.ID) trace.ID {
	millis := id.Time().UnixMilli()
	if d == newestFirst {
		return firstOf(millis + 1)
	}
	return before(firstOf(millis))
}

func compareIDs(a, b trace.ID) int { return bytes.Compare(a[:], b[:]) }

var (
	newestFirst = direction{"<", ">=", "DESC"}
	oldestFirst = direction{">", "<=", "ASC"}
)

// window finds the end of the next count ids of the source after cursor: the last of them,
// or limit and more false.
func (s *source) window(ctx context.Context, db querier, d direction, cursor, limit trace.ID, count int) (end trace.ID, more bool, err error) {
	query := fmt.Sprintf("SELECT %[1]s FROM %[2]s INDEXED BY %[3]s WHERE %[4]s AND %[1]s %[5]s ? AND %[1]s %[6]s ? ORDER BY %[1]s %[7]s LIMIT 1 OFFSET ?",
		s.id, s.table, s.index, s.and(), d.after, d.until, d.order)
	var raw []byte
	err = db.QueryRowContext(ctx, query, slices.Concat(s.args, []any{cursor[:], limit[:], count - 1})...).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return limit, false, nil
	}
	copy(end[:], raw)
	return end, true, err
}

// read returns the query of the columns of the traces of a window that meet the
// conditions, and its arguments.
func (s *source) read(columns string, d direction, cursor, end trace.ID, where clauses, limit int) (string, []any) {
	inWindow := fmt.Sprintf("%[1]s AND %[2]s %[3]s ? AND %[2]s %[4]s ?", s.and(), s.id, d.after, d.until)
	query := fmt.Sprintf("SELECT %s FROM traces INDEXED BY %s WHERE %s AND %s ORDER BY id %s LIMIT ?", columns, s.index, inWindow, where.and(), d.order)
	return query, slices.Concat(s.args, []any{cursor[:], end[:]}, where.args, []any{limit})
}

// querier runs queries for many rows: a connection, a transaction or a pool.
type querier interface {
	queryer
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, db querier, scan func(func(...any) error) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		row, err := scan(rows.Scan)
		if errors.Is(err, errEnough) {
			return append(all, row), err
		}
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// errEnough ends collect after the row that was scanned, with all rows so far.
var errEnough = errors.New("enough rows")

// answerBytes is about how many bytes of traces one answer has: even without content one
// may have megabytes.
const answerBytes = 4 << 20

// shortWithin scans records without their content, until their sizes exceed remaining.
func shortWithin(remaining *int) func(scan func(...any) error, first ...any) (*trace.Record, error) {
	return func(scan func(...any) error, first ...any) (*trace.Record, error) {
		record, err := scanRecord(scan, false, first...)
		if err != nil {
			return nil, err
		}
		if *remaining -= record.Size(); *remaining <= 0 {
			return record, errEnough
		}
		return record, nil
	}
}
