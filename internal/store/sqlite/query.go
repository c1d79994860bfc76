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

// scanRecord reads a row of the columns of first and of shortList or, if whole, of
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
	completeSplits(&rec)
	quoteInvalid(&rec)
	return &rec, nil
}

// quoteInvalid makes what a decision rests on, where it is no JSON because somebody
// changed the database, a JSON string of its text. Else no answer that has the trace could
// be read, and no proof of it be tried.
func quoteInvalid(r *trace.Record) {
	for _, text := range [...]*[]byte{&r.Splits, &r.Read, &r.Inputs} {
		if len(*text) > 0 && !json.Valid(*text) {
			*text = jsontext.AppendString(nil, string(*text))
		}
	}
}

// clauses are conditions that all have to hold, and the values of their
// parameters.
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

// and is "a AND b", "1" for none.
func (c *clauses) and() string {
	if len(c.text) == 0 {
		return "1"
	}
	return strings.Join(c.text, " AND ")
}

// failures is the condition of the index traces_failed, to the letter: SQLite
// uses the index of a query that says the same.
const failures = "(code IS NOT NULL OR state = 'interrupted' OR status >= 400)"

// cutAnswers is the condition of the index traces_cut, to the letter.
const cutAnswers = "finish_reason NOT IN ('stop', 'tool_calls')"

// fellBack is the condition on calls that went beyond their first target. A
// target that is left out makes no attempt, but a note.
const fellBack = `(EXISTS (
	SELECT 1 FROM json_each(notes) WHERE substr(value, 1, 8) = 'skipped '
) OR EXISTS (
	SELECT 1 FROM json_each(attempts) AS a WHERE a.value ->> 'provider' IS NOT attempts ->> '$[0].provider' OR a.value ->> 'model' IS NOT attempts ->> '$[0].model'
))`

// conditions are those of a filter on a row of traces, but for its times.
func conditions(f *trace.Filter) (clauses, error) {
	var c clauses
	kind := f.Kind
	if kind == 0 && (f.Attempts > 0 || f.Fallback) {
		kind = trace.KindEndpoint // no other makes attempts
	}
	if kind != 0 {
		// The id holds the kind, and so does every index.
		low, high := kind.IDBytes()
		c.add("substr(id, 7, 1) IN (?, ?)", []byte{low}, []byte{high})
		c.equal("kind", kind.String())
	}
	c.equal("workspace", f.Workspace)
	c.equal("key", f.Key)
	c.equal("api_key", f.APIKey)
	c.equal("provider", f.Provider)
	c.equal("model", f.Model)
	c.equal("code", f.Code)
	c.equal("finish_reason", f.FinishReason)
	if f.Version != "" {
		c.add("(version = ? OR prompt_version = ?)", f.Version, f.Version)
	}
	c.equal("revision", f.Revision)
	c.equal("variant", f.Variant)
	if f.Slower > 0 {
		c.add("latency_us >= ?", f.Slower.Microseconds())
	}
	if f.Attempts > 0 {
		c.add("json_array_length(attempts) >= ?", f.Attempts)
	}
	if f.Fallback {
		c.add(fellBack)
	}
	if f.State != nil {
		c.equal("state", f.State.String())
	}
	if f.Status != 0 {
		c.add("status = ?", f.Status)
	}
	switch f.Outcome {
	case trace.OK:
		c.add("code IS NULL AND state = 'ended'")
	case trace.Failed:
		c.add("(code IS NOT NULL OR state = 'interrupted')")
	}
	c.equal("arm", f.Arm)
	if !f.Decision.IsZero() {
		c.add("decision_id = ?", f.Decision[:])
	}
	for _, named := range namedBy(f) {
		if err := c.named(named); err != nil {
			return c, err
		}
	}
	if f.Score != nil {
		c.add(lastReport("score")+" BETWEEN ? AND ?", f.Score.Least, f.Score.Most)
	}
	return c, c.metadata(shownMetadata, f.Metadata)
}

// lastReport is a column of the last report on a trace that has a score.
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
func namedBy(f *trace.Filter) (all []naming) {
	if f.ConversationID != "" {
		all = append(all, naming{"conversation_id", f.ConversationID})
	}
	if f.ChainID != "" {
		all = append(all, naming{"chain_id", f.ChainID})
	}
	return all
}

// match is the member of the trace's own metadata.
func (n naming) match() (trace.MetadataMatch, error) {
	value, err := json.Marshal(n.value)
	return trace.MetadataMatch{Name: n.column, Value: string(value)}, err
}

// own is the condition on the trace's own metadata.
func (n naming) own() (c clauses, err error) {
	match, err := n.match()
	if err != nil {
		return c, err
	}
	return c, c.metadata(shownMetadata, []trace.MetadataMatch{match})
}

// reports is the index of the reports with the name.
func (n naming) reports() source {
	s := source{table: "metrics", id: "trace_id", index: "metrics_" + n.column}
	s.equal(n.column, n.value)
	return s
}

// named adds that the metadata of the trace has the name, or a report on it, or on
// its decision if its kind takes the name.
func (c *clauses) named(n naming) error {
	own, err := n.own()
	if err != nil {
		return err
	}
	const reported = "EXISTS (SELECT 1 FROM metrics AS m WHERE m.trace_id = traces.%s AND m.workspace = traces.workspace AND m.%s = ?)"
	c.add(fmt.Sprintf("(%s OR "+reported+" OR %s AND "+reported+")", own.and(), "id", n.column, takes(n.column), "decision_id", n.column),
		slices.Concat(own.args, []any{n.value, n.value})...)
	return nil
}

// takes is the condition that a trace is of a kind that takes a member of metrics.
func takes(member string) string {
	var names []string
	for kind := trace.KindPrompt; kind <= trace.KindMetrics; kind++ {
		if kind.Takes(member) {
			names = append(names, "'"+kind.String()+"'")
		}
	}
	return "kind IN (" + strings.Join(names, ", ") + ")"
}

// metadata adds what the expression of metadata has to match.
func (c *clauses) metadata(metadata string, matches []trace.MetadataMatch) error {
	for _, match := range matches {
		value, err := match.Scalar()
		if err != nil {
			return err
		}
		var is string
		var args []any
		contains := match.Name
		switch value := value.(type) {
		case string:
			contains = value // fewer have it than its name
			is, args = "type = 'text' AND value = ?", []any{value}
		case json.Number:
			is, args = "type IN ('integer', 'real') AND value = ?", []any{number(value)}
		case bool:
			is = fmt.Sprintf("type = '%t'", value)
		default:
			is = "type = 'null'"
		}
		// Reading JSON is dear, looking for text is not: without a backslash, JSON
		// has a string as it is.
		if strings.ContainsFunc(contains, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) {
			c.add("instr(" + metadata + `, '\')`)
		} else {
			c.add(fmt.Sprintf(`(instr(%[1]s, ?) OR instr(%[1]s, '\'))`, metadata), contains)
		}
		if match.OrText {
			is, args = "("+is+" OR type = 'text' AND value = ?)", append(args, match.Value)
		}
		c.add(fmt.Sprintf("EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(%[1]s) THEN %[1]s ELSE '{}' END) WHERE key = ? AND %[2]s)", metadata, is),
			append([]any{match.Name}, args...)...)
	}
	return nil
}

// number is n as SQLite reads it in JSON.
func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, _ := n.Float64() // an overflow is an infinity, as it is there
	return f
}

// source is where the ids of a query come from: an index that holds them in
// order under some equality, so that a range of ids is a range of the index.
// The index is named in the query. SQLite has no statistics to choose by, and a
// wrong choice takes seconds.
type source struct {
	table, id, index string
	clauses          // on the columns of the index, or of table
}

// some reports whether the source leaves anything out.
func (s *source) some() bool { return len(s.text) > 0 }

// sourceOf chooses the index that leaves the least to look at.
func sourceOf(f *trace.Filter) source {
	s := source{table: "traces", id: "id", index: "sqlite_autoindex_traces_1"}
	switch {
	case f.State != nil && *f.State == trace.StateStarted:
		s.index = "traces_interrupted" // the store has none: this has the fewest to look at
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

// sort sorts ids as they are read, and drops those that are there twice.
func (d direction) sort(ids []trace.ID) []trace.ID {
	slices.SortFunc(ids, d.compare)
	return slices.Compact(ids)
}

// known is how many of the sorted ids are read before edge is.
func (d direction) known(ids []trace.ID, edge trace.ID) int {
	n, _ := slices.BinarySearchFunc(ids, edge, d.compare)
	return n
}

// next is the id that is read after another, and previous the one before.
func (d direction) next(id trace.ID) trace.ID {
	if d == newestFirst {
		return before(id)
	}
	return after(id)
}

func (d direction) previous(id trace.ID) trace.ID {
	if d == newestFirst {
		return after(id)
	}
	return before(id)
}

func compareIDs(a, b trace.ID) int { return bytes.Compare(a[:], b[:]) }

var (
	newestFirst = direction{"<", ">=", "DESC"}
	oldestFirst = direction{">", "<=", "ASC"}
)

// window finds where the next count ids of the source after from end: at its
// last id, or at limit with more false.
func (s *source) window(ctx context.Context, on querier, d direction, from, limit trace.ID, count int) (end trace.ID, more bool, err error) {
	query := fmt.Sprintf("SELECT %[1]s FROM %[2]s INDEXED BY %[3]s WHERE %[4]s AND %[1]s %[5]s ? AND %[1]s %[6]s ? ORDER BY %[1]s %[7]s LIMIT 1 OFFSET ?",
		s.id, s.table, s.index, s.and(), d.after, d.until, d.order)
	var raw []byte
	err = on.QueryRowContext(ctx, query, slices.Concat(s.args, []any{from[:], limit[:], count - 1})...).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return limit, false, nil
	}
	copy(end[:], raw)
	return end, true, err
}

// read returns the query of the columns of the traces of a window that meet the
// conditions, and its arguments.
func (s *source) read(columns string, d direction, from, end trace.ID, where clauses, limit int) (string, []any) {
	inWindow := fmt.Sprintf("%[1]s AND %[2]s %[3]s ? AND %[2]s %[4]s ?", s.and(), s.id, d.after, d.until)
	query := fmt.Sprintf("SELECT %s FROM traces INDEXED BY %s WHERE %s AND %s ORDER BY id %s LIMIT ?", columns, s.index, inWindow, where.and(), d.order)
	return query, slices.Concat(s.args, []any{from[:], end[:]}, where.args, []any{limit})
}

// querier is what queries many rows: a connection, a transaction or a pool.
type querier interface {
	queryer
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, on querier, scan func(func(...any) error) (T, error), query string, args ...any) (all []T, err error) {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		one, err := scan(rows.Scan)
		if errors.Is(err, errEnough) {
			return append(all, one), err
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// errEnough ends a collect after the row that was scanned, with all it has.
var errEnough = errors.New("enough rows")

// answerBytes is about how much of traces one answer holds: what they show may be
// megabytes each.
const answerBytes = 4 << 20

// shortWithin scans records without their content, until they are larger
// together than what is left of room.
func shortWithin(room *int) func(scan func(...any) error, first ...any) (*trace.Record, error) {
	return func(scan func(...any) error, first ...any) (*trace.Record, error) {
		record, err := scanRecord(scan, false, first...)
		if err != nil {
			return nil, err
		}
		if *room -= record.Size(); *room <= 0 {
			return record, errEnough
		}
		return record, nil
	}
}
