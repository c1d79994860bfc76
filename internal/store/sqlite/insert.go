package sqlite

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	large "github.com/cadenza-gateway/cadenza/internal/buffers"
	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// rowsAtOnce are the numbers of rows that one statement inserts: 16 as long as so many
// wait. Half the cost of a row that is inserted alone is that of running the statement;
// with more than 16 rows the cost hardly falls.
var rowsAtOnce = [...]int{16, 1}

// insertSQL returns "INSERT INTO table (columns) VALUES (?, …), …".
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
	writer      *native
	verb, table string
	fields      []trace.Field[T]
	sized       [len(rowsAtOnce)]*statement // prepared when they are first needed
	waiting     []*T
}

// flush inserts the rows that wait.
func (i *inserter[T]) flush() error {
	defer i.reset()
	left := i.waiting
	for place, count := range rowsAtOnce {
		for len(left) >= count {
			if err := i.insert(place, left[:count]); err != nil {
				return err
			}
			left = left[count:]
		}
	}
	return nil
}

// insert inserts as many rows as the statement at an index takes.
func (i *inserter[T]) insert(place int, rows []*T) (err error) {
	s := i.sized[place]
	if s == nil {
		if s, err = i.writer.prepare(insertSQL(i.verb, i.table, columnsOf(i.fields), rowsAtOnce[place])); err != nil {
			return err
		}
		i.sized[place] = s
	}
	i.writer.texts.clear()
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
	return s.runBound()
}

// reset forgets the rows that wait.
func (i *inserter[T]) reset() {
	clear(i.waiting)
	i.waiting = i.waiting[:0]
}

// statements are the writer's statements, prepared once.
type statements struct {
	records           inserter[trace.Record]
	metrics           inserter[trace.Metrics]
	version, decision *statement
	stored            *statement
	decided           map[trace.ID]shown // stored by the batch
	keep, kept        *statement

	history, forgetHistory *statement
	hashed                 large.Beginnings[string, []textHash] // by the workspace
	terms                  termsInserter
	known                  *statement
	events                 map[string]bool // of the batch
	rows                   []trace.Metrics // of the batch, as they are stored
	uuids                  []byte          // of the batch
}

func (s *statements) prepare(writer *native) error {
	for _, p := range []struct {
		target **statement
		text   string
	}{
		{&s.version, versionSQL},
		{&s.decision, decisionSQL},
		{&s.stored, "SELECT 1 FROM traces WHERE id = ?"},
		{&s.keep, keepReplySQL},
		{&s.kept, selectReply},
		{&s.known, "SELECT 1 FROM metrics INDEXED BY metrics_event WHERE workspace = ? AND event_id = ?"},
		{&s.history, keepHistorySQL},
		{&s.forgetHistory, forgetHistorySQL},
	} {
		var err error
		if *p.target, err = writer.prepare(p.text); err != nil {
			return err
		}
	}
	s.records = inserter[trace.Record]{writer: writer, verb: "INSERT OR REPLACE", table: "traces", fields: traceFields}
	s.terms.writer = writer
	s.metrics = inserter[trace.Metrics]{writer: writer, verb: "INSERT", table: "metrics", fields: metricsFields}
	return nil
}

// batch inserts all of b.
func (s *statements) batch(b *recorder.Batch) error {
	defer func() { // after an error they must not get into the next batch
		s.records.reset()
		s.metrics.reset()
		clear(s.rows)
		clear(s.decided)
		clear(s.events)
	}()
	interrupted, err := s.withoutEnd(b.Interrupted)
	if err != nil {
		return err
	}
	if err := s.allRecords(interrupted); err != nil {
		return err
	}
	if err := s.allRecords(b.Records); err != nil {
		return err
	}
	if err := s.terms.insert(interrupted, b.Records); err != nil {
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

// allRecords inserts records, after the members that they share.
func (s *statements) allRecords(records []*trace.Record) error {
	for _, r := range records {
		if r.Shared != nil {
			if err := s.keepDecision(r); err != nil {
				return err
			}
		}
		// No other kind is taken for interrupted.
		if r.Kind == trace.KindEndpoint || len(r.Messages) >= textSize {
			if err := s.keepHistory(r); err != nil {
				return err
			}
		}
		s.records.waiting = append(s.records.waiting, r)
	}
	return s.records.flush()
}

// allMetrics inserts metrics, except those that were stored with an earlier reply, or under
// their event id.
func (s *statements) allMetrics(all []*trace.Metrics) error {
	const size = len(trace.Metrics{}.UUID)
	s.uuids = slices.Grow(s.uuids[:0], size*len(all))[:size*len(all)]
	rand.Read(s.uuids)
	s.rows = slices.Grow(s.rows[:0], len(all))[:0] // the inserter keeps their addresses
	for n, m := range all {
		if m.Reply != nil {
			if err := s.keepReply(m.Reply); err != nil {
				return err
			}
			if m.Reply.Earlier != nil {
				continue
			}
		}
		if m.Repeated = false; m.EventID != "" {
			var err error
			if m.Repeated, err = s.eventKnown(m); err != nil {
				return err
			}
			if m.Repeated {
				continue
			}
		}
		s.rows = append(s.rows, *m)
		row := &s.rows[len(s.rows)-1]
		row.UUID = [size]byte(s.uuids[size*n:])
		if m.Reply != nil {
			row.UUID = requestID(m.Reply)
		}
		if m.EventID != "" {
			row.UUID = eventUUID(m)
		}
		if row.TraceID.IsZero() { // on a decision, whose id stands for that of a trace: see isDecision
			row.TraceID = row.Decision
		}
		s.metrics.waiting = append(s.metrics.waiting, row)
	}
	return s.metrics.flush()
}

// requestID returns the id of a report whose request has an idempotency key. It is the same
// on each gateway of a fleet: a database that collects their rows has the report once, even
// if the caller sent it again to another gateway.
func requestID(r *trace.Reply) (id [16]byte) {
	var buffer [256]byte
	text := append(strconv.AppendQuote(buffer[:0], r.Workspace), ' ')
	text = append(strconv.AppendQuote(text, r.Key), ' ')
	sum := sha256.Sum256(hex.AppendEncode(text, r.Digest[:]))
	copy(id[:], sum[:])
	return id
}

// eventKnown reports whether the event id of a report is stored, or was in the batch.
func (s *statements) eventKnown(m *trace.Metrics) (bool, error) {
	key := strconv.Quote(m.Workspace) + m.EventID
	if s.events[key] {
		return true, nil
	}
	if s.events == nil {
		s.events = make(map[string]bool)
	}
	s.events[key] = true
	defer s.known.reset()
	if err := s.known.bindAll(textValue(m.Workspace), textValue(m.EventID)); err != nil {
		return false, err
	}
	return s.known.step()
}

// eventUUID returns the id of a report with an event id. As requestID, it is the same on
// each gateway of a fleet.
func eventUUID(m *trace.Metrics) (id [16]byte) {
	sum := sha256.Sum256([]byte("event " + strconv.Quote(m.Workspace) + " " + m.EventID))
	copy(id[:], sum[:])
	return id
}
