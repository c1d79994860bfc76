package postgres

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cadenza-gateway/cadenza/trace"
)

// maxStrippedText is the remaining length of a text in a row that was refused,
// in runes: short enough for any index.
const maxStrippedText = 200

// isRefusal reports whether err is about the rows, and would be the same next time:
// an error of data, of a constraint that the database's owner added, or of a limit
// such as how deep JSON may nest.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func isRefusal(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || len(e.Code) != 5 {
		return false
	}
	switch e.Code[:2] {
	case "22", "23", "54":
		return true
	}
	return false
}

// putCarefully stores the rows of a delivery, as put does. It finds the rows that
// the database refuses, stores them without their content and, if they are refused
// even so, leaves them out.
func (s *Sink) putCarefully(ctx context.Context, tx pgx.Tx, d *trace.Delivery) error {
	found := findings{}
	err := errors.Join(
		carefully(ctx, tx, &found, latest(d.Records), func(r []*trace.Record) error { return s.putTraces(ctx, tx, r) }, stripRecord),
		carefully(ctx, tx, &found, d.Metrics, func(m []*trace.Metrics) error { return s.putMetrics(ctx, tx, m) }, stripMetrics),
		carefully(ctx, tx, &found, d.Versions, func(v []trace.Version) error { return s.putVersions(ctx, tx, v) }, nil),
		carefully(ctx, tx, &found, d.Exposures, func(e []trace.Exposure) error { return s.putExposures(ctx, tx, e) }, nil),
		carefully(ctx, tx, &found, d.Erasures, func(e []trace.Erasure) error { return s.erase(ctx, tx, e[0]) }, nil),
	)
	if err != nil {
		return err
	}
	s.stripped.Add(found.stripped)
	s.dropped.Add(found.dropped)
	if found.stripped+found.dropped > 0 {
		// Not the message, which may quote the content.
		s.logger.Error("PostgreSQL refuses rows: they are stored without their content, or left out",
			"without_content", found.stripped, "left_out", found.dropped, "sqlstate", found.code)
	}
	return nil
}

type findings struct {
	stripped, dropped uint64
	code              string
}

// carefully halves rows until each that is refused is alone. If strip is nil, it
// leaves that row out at once.
func carefully[R any](ctx context.Context, tx pgx.Tx, found *findings, rows []R, put func([]R) error, strip func(R) R) error {
	if len(rows) == 0 {
		return nil
	}
	err := pgx.BeginFunc(ctx, tx, func(pgx.Tx) error { return put(rows) })
	switch {
	case !isRefusal(err):
		return err
	case len(rows) > 1:
		half := len(rows) / 2
		if err := carefully(ctx, tx, found, rows[:half], put, strip); err != nil {
			return err
		}
		return carefully(ctx, tx, found, rows[half:], put, strip)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		found.code = e.Code
	}
	if strip != nil {
		err = pgx.BeginFunc(ctx, tx, func(pgx.Tx) error { return put([]R{strip(rows[0])}) })
		if err == nil {
			found.stripped++
		}
		if !isRefusal(err) {
			return err
		}
	}
	found.dropped++
	return nil
}

// stripRecord returns a copy of a record without its content.
func stripRecord(r *trace.Record) *trace.Record {
	c := *r
	for i := range trace.RecordFields {
		switch at := trace.RecordFields[i].At(&c).(type) {
		case *string:
			*at = shorten(*at)
		case *[]byte:
			*at = nil
		}
	}
	c.Notes, c.Attempts = []string{"content left out: the database refused it"}, nil
	return &c
}

// stripMetrics returns a copy of a report without its content. Its conversation id
// stays whole: an erasure must find it.
func stripMetrics(m *trace.Metrics) *trace.Metrics {
	c := *m
	c.LLMResponse, c.Metadata = nil, nil
	c.Workspace, c.APIKey = shorten(c.Workspace), shorten(c.APIKey)
	return &c
}

func shorten(s string) string {
	if utf8.RuneCountInString(s) <= maxStrippedText {
		return s
	}
	end := 0
	for range maxStrippedText {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return strings.Clone(s[:end])
}
