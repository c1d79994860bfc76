package sqlite

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// rowsAtOnce are how many rows one statement inserts: as many as there are, of these.
// Half the cost of a row that is inserted alone is that of running a statement; from
// 16 on it hardly falls.
var rowsAtOnce = [...]int{64, 16, 4, 1}

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

// inserter inserts rows of the same columns, several by one statement.
type inserter[T any] struct {
	on          *native
	verb, table string
	fields      []trace.Field[T]
	sized       [len(rowsAtOnce)]*statement // prepared when they are first needed
	waiting     []*T
	stored      *seqs // nil: not asked for
}

// seqs are those of the rows of one transaction, after from until until. No other
// connection inserts meanwhile, so they follow each other.
type seqs struct{ from, until int64 }

func (s *seqs) add(rows, last int64) {
	if *s == (seqs{}) {
		s.from = last - rows
	}
	s.until = last
}

// flush inserts the rows that wait.
func (i *inserter[T]) flush() error {
	defer i.reset()
	rest := i.waiting
	for place, count := range rowsAtOnce {
		for len(rest) >= count {
			if err := i.insert(place, rest[:count]); err != nil {
				return err
			}
			rest = rest[count:]
		}
	}
	return nil
}

// insert inserts as many rows as the statement of a place has.
func (i *inserter[T]) insert(place int, rows []*T) (err error) {
	s := i.sized[place]
	if s == nil {
		if s, err = i.on.prepare(insertSQL(i.verb, i.table, columnsOf(i.fields), rowsAtOnce[place])); err != nil {
			return err
		}
		i.sized[place] = s
	}
	i.on.texts.clear()
	parameter := 0
	for _, row := range rows {
		for f := range i.fields {
			v, err := valueOf(&i.fields[f], row)
			if err != nil {
				return err
			}
			parameter++
			if err := s.bind(parameter, v); err != nil {
				return err
			}
		}
	}
	if err := s.runBound(); err != nil {
		return err
	}
	if i.stored != nil {
		i.stored.add(int64(len(rows)), i.on.lastInserted())
	}
	return nil
}

// reset lets go of the rows that wait.
func (i *inserter[T]) reset() {
	clear(i.waiting)
	i.waiting = i.waiting[:0]
}

// recordInserter inserts records by answerFields, evaluationFields or
// traceFields.
type recordInserter struct {
	answer, evaluation, whole inserter[trace.Record]
}

func (i *recordInserter) all() [3]*inserter[trace.Record] {
	return [...]*inserter[trace.Record]{&i.answer, &i.evaluation, &i.whole}
}

// statements are the writer's, prepared once.
type statements struct {
	records           recordInserter
	metrics           inserter[trace.Metrics]
	version, decision *statement
	stored, erased    *statement
	decided           map[trace.ID]shown // by the batch
	keep, kept        *statement
	traces            seqs            // of the batch's Records
	inserted          []*trace.Record // these, in the order of their seqs
	erasures          int64           // of erasedSQL, in the batch's transaction
	rows              []trace.Metrics // of the batch, as they are stored
	uuids             []byte          // of the batch
}

func (s *statements) prepare(on *native) error {
	for _, p := range []struct {
		into **statement
		text string
	}{
		{&s.version, versionSQL},
		{&s.decision, decisionSQL},
		{&s.stored, "SELECT 1 FROM traces WHERE id = ?"},
		{&s.erased, erasedSQL},
		{&s.keep, keepReplySQL},
		{&s.kept, selectReply},
	} {
		var err error
		if *p.into, err = on.prepare(p.text); err != nil {
			return err
		}
	}
	s.records.whole = inserter[trace.Record]{on: on, verb: "INSERT OR REPLACE", table: "traces", fields: traceFields}
	s.records.evaluation = inserter[trace.Record]{on: on, verb: "INSERT OR REPLACE", table: "traces", fields: evaluationFields}
	s.records.answer = inserter[trace.Record]{on: on, verb: "INSERT OR REPLACE", table: "traces", fields: answerFields}
	for _, i := range s.records.all() {
		i.stored = &s.traces
	}
	s.metrics = inserter[trace.Metrics]{on: on, verb: "INSERT", table: "metrics", fields: metricsFields}
	return nil
}

// batch inserts all of b.
func (s *statements) batch(b *recorder.Batch) error {
	defer func() { // what an error left behind belongs to no other batch
		for _, i := range s.records.all() {
			i.reset()
		}
		s.metrics.reset()
		clear(s.rows)
		clear(s.decided)
	}()
	interrupted, err := s.withoutEnd(b.Interrupted)
	if err != nil {
		return err
	}
	if err := s.allRecords(&s.records, interrupted); err != nil {
		return err
	}
	s.inserted, s.traces = s.inserted[:0], seqs{} // the others are few, and the keeper reads them
	if err := s.allRecords(&s.records, b.Records); err != nil {
		return err
	}
	if s.erasures, err = s.erased.one(); err != nil {
		return err
	}
	if err := s.allMetrics(b.Metrics); err != nil {
		return err
	}
	for _, r := range b.Replies {
		if err := s.keepReply(r); err != nil {
			return err
		}
	}
	for i := range b.Versions {
		v := &b.Versions[i]
		if err := s.version.run(textValue(v.Workspace), textValue(v.Kind.String()), textValue(v.Key), textValue(v.Version),
			integerValue(v.Time.UnixMilli()), blobValue(v.Content)); err != nil {
			return err
		}
	}
	return nil
}

// allRecords inserts records, after what they share.
func (s *statements) allRecords(into *recordInserter, records []*trace.Record) error {
	for _, r := range records {
		if r.Shared != nil {
			if err := s.keepDecision(r); err != nil {
				return err
			}
		}
		list, err := into.listOf(r)
		if err != nil {
			return err
		}
		list.waiting = append(list.waiting, r)
	}
	for _, i := range into.all() {
		s.inserted = append(s.inserted, i.waiting...)
		if err := i.flush(); err != nil {
			return err
		}
	}
	return nil
}

// listOf returns the inserter of the shortest list that has all of a record.
func (i *recordInserter) listOf(r *trace.Record) (*inserter[trace.Record], error) {
	for f := len(traceFields) - 1; f >= len(answerFields); f-- {
		v, err := valueOf(&traceFields[f], r)
		switch {
		case err != nil:
			return nil, err
		case v.of == isNull:
		case f >= len(evaluationFields):
			return &i.whole, nil
		default:
			return &i.evaluation, nil
		}
	}
	return &i.answer, nil
}

// allMetrics inserts metrics, but for those that had been stored with an
// earlier reply.
func (s *statements) allMetrics(all []*trace.Metrics) error {
	const size = len(trace.Metrics{}.UUID)
	s.uuids = slices.Grow(s.uuids[:0], size*len(all))[:size*len(all)]
	rand.Read(s.uuids)
	s.rows = slices.Grow(s.rows[:0], len(all))[:0] // which wait by their addresses
	for n, m := range all {
		if m.Reply != nil {
			if err := s.keepReply(m.Reply); err != nil {
				return err
			}
			if m.Reply.Earlier != nil {
				continue
			}
		}
		s.rows = append(s.rows, *m)
		row := &s.rows[len(s.rows)-1]
		row.UUID = [size]byte(s.uuids[size*n:])
		if m.Reply != nil {
			row.UUID = requestID(m.Reply)
		}
		if row.TraceID.IsZero() { // on a decision, which is in the place of its trace: see isDecision
			row.TraceID = row.Decision
		}
		s.metrics.waiting = append(s.metrics.waiting, row)
	}
	return s.metrics.flush()
}

// requestID returns the id of a report whose request has an idempotency key. It is
// the same on each gateway of a fleet: a place where their rows come together has
// the report once, also if its caller sent it again and met another gateway.
func requestID(r *trace.Reply) (id [16]byte) {
	var room [256]byte
	text := append(strconv.AppendQuote(room[:0], r.Workspace), ' ')
	text = append(strconv.AppendQuote(text, r.Key), ' ')
	sum := sha256.Sum256(hex.AppendEncode(text, r.Digest[:]))
	copy(id[:], sum[:])
	return id
}
