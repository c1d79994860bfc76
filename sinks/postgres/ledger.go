package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cadenza-gateway/cadenza/internal/limit"
)

const (
	// cleanEvery is how often a gateway deletes the counters of windows that have
	// ended, at most cleaned at a time. While there are more it does so in each exchange.
	cleanEvery = time.Minute
	cleaned    = 2_000
)

// Ledger is a table of what the gateways that share a workspace may use together of its
// limits. It has a connection of its own, which the first exchange makes.
type Ledger struct {
	sink      *Sink
	workspace string
	sql       [3]string // insert, take, clean
	cleanAt   time.Time
}

// Ledger returns the ledger of a workspace in the sink's database, nil where the
// configuration leaves the limits to each gateway.
func (s *Sink) Ledger(workspace string) limit.Ledger {
	if s.local {
		return nil
	}
	l := &Ledger{
		sink:      &Sink{dsn: s.dsn, schema: s.schema, logger: s.logger, sql: s.sql},
		workspace: cleanText(workspace),
	}
	table := pgx.Identifier{s.schema, "limit_windows"}.Sanitize()
	for i, sql := range [...]string{insertWindows, takeWindows, cleanWindows} {
		l.sql[i] = strings.ReplaceAll(sql, "cadenza.limit_windows", table)
	}
	return l
}

// claims are the rows of the parameters that both statements have in common.
const claims = `unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])`

// Rows are always locked in the order of their key: two gateways that have the same
// ones don't wait for each other.
const insertWindows = `
INSERT INTO cadenza.limit_windows (workspace, limit_name, subject, measure, window_start, window_end, taken, used)
SELECT $1, c.limit_name, c.subject, c.measure, c.window_start, c.window_end, 0, 0
FROM ` + claims + ` AS c (limit_name, subject, measure, window_start, window_end)
WHERE NOT EXISTS (
	SELECT FROM cadenza.limit_windows w
	WHERE w.workspace = $1 AND w.limit_name = c.limit_name AND w.subject = c.subject AND w.measure = c.measure
		AND w.window_start = c.window_start AND w.window_end = c.window_end)
ORDER BY 1, 2, 3, 4, 5, 6
ON CONFLICT DO NOTHING`

// takeWindows does what [limit.Claim] says. The statement reads a row again when it
// has its lock. Sums end at the largest bigint: one counter that is beyond it, perhaps by
// a mad cost that a provider has named, would fail the claims of all others.
const takeWindows = `
WITH held AS MATERIALIZED (
	SELECT c.*, LEAST(GREATEST(w.taken - c.back, 0)::numeric + c.owed, 9223372036854775807)::bigint AS before
	FROM unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
		$7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[])
		WITH ORDINALITY AS c (limit_name, subject, measure, window_start, window_end, most, back, owed, used, least, lease, n)
	JOIN cadenza.limit_windows w ON w.workspace = $1 AND w.limit_name = c.limit_name AND w.subject = c.subject
		AND w.measure = c.measure AND w.window_start = c.window_start AND w.window_end = c.window_end
	ORDER BY w.workspace, w.limit_name, w.subject, w.measure, w.window_start, w.window_end
	FOR UPDATE OF w
), granted AS (
	SELECT *, CASE WHEN least <= 0 OR before >= most THEN 0
		ELSE LEAST(most - before, GREATEST(least, LEAST(lease, (most - before) / 8))) END AS amount
	FROM held
)
UPDATE cadenza.limit_windows w SET taken = g.before + g.amount, used = LEAST(GREATEST(w.used::numeric + g.used, 0), 9223372036854775807)::bigint
FROM granted g
WHERE w.workspace = $1 AND w.limit_name = g.limit_name AND w.subject = g.subject AND w.measure = g.measure
	AND w.window_start = g.window_start AND w.window_end = g.window_end
RETURNING g.n, g.amount, w.taken, w.used`

// cleanWindows deletes by the clock of the database, an hour late: clocks of gateways
// may differ from it.
const cleanWindows = `
DELETE FROM cadenza.limit_windows WHERE ctid IN (
	SELECT ctid FROM cadenza.limit_windows WHERE window_end < now() - interval '1 hour'
	LIMIT $1 FOR UPDATE SKIP LOCKED)`

// Exchange implements [limit.Ledger].
func (l *Ledger) Exchange(ctx context.Context, claims []limit.Claim) ([]limit.Answer, error) {
	err := l.prepare(ctx)
	var answers []limit.Answer
	var doubt error
	if err == nil {
		// An error of the server says that it has undone all of it. Where its answer
		// was lost it may have done it.
		answers, err = l.book(ctx, claims)
		if _, refused := errors.AsType[*pgconn.PgError](err); err != nil && !refused && !pgconn.SafeToRetry(err) {
			doubt = limit.ErrInDoubt
		}
	}
	if err != nil {
		err = l.sink.explain(err)
		l.sink.disconnect()
		return nil, errors.Join(doubt, fmt.Errorf("PostgreSQL: %w", err))
	}
	return answers, nil
}

// prepare connects, brings the schema up to date, and cleans up, where each is due.
func (l *Ledger) prepare(ctx context.Context) error {
	before := l.sink.conn
	if err := l.sink.connect(ctx); err != nil {
		return err
	}
	if l.sink.conn != before {
		if err := l.sink.migrate(ctx); err != nil {
			return err
		}
	}
	if now := time.Now(); now.After(l.cleanAt) {
		tag, err := l.sink.conn.Exec(ctx, l.sql[2], cleaned)
		if err != nil {
			return err
		}
		if tag.RowsAffected() < cleaned {
			l.cleanAt = now.Add(cleanEvery)
		}
	}
	return nil
}

// book books claims in one transaction.
func (l *Ledger) book(ctx context.Context, claims []limit.Claim) ([]limit.Answer, error) {
	var batch pgx.Batch
	rows := newClaimRows(claims)
	batch.Queue(l.sql[0], append([]any{l.workspace}, rows.names()...)...)
	batch.Queue(l.sql[1], append(append([]any{l.workspace}, rows.names()...), rows.most, rows.back, rows.owed, rows.used, rows.least, rows.lease)...)
	answers := make([]limit.Answer, len(claims))
	answered := 0
	results := l.sink.conn.SendBatch(ctx, &batch)
	_, err := results.Exec()
	if err == nil {
		rows, _ := results.Query() // its error is that of the rows
		var n, granted, taken, used int64
		_, err = pgx.ForEachRow(rows, []any{&n, &granted, &taken, &used}, func() error {
			answered++
			answers[n-1] = limit.Answer{Granted: granted, Taken: taken, Used: used}
			return nil
		})
	}
	if closing := results.Close(); err == nil {
		err = closing // the transaction ends here
	}
	if err == nil && answered < len(claims) {
		err = errors.New("the counters of a window were deleted before its end")
	}
	return answers, err
}

// Close ends the connection.
func (l *Ledger) Close() error { return l.sink.Close() }

// claimRows are claims by their columns.
type claimRows struct {
	limits, subjects, measures           []string
	starts, ends                         []time.Time
	most, back, owed, used, least, lease []int64
}

func newClaimRows(claims []limit.Claim) *claimRows {
	r := new(claimRows)
	for i := range claims {
		c := &claims[i]
		r.limits = append(r.limits, c.Limit)
		r.subjects = append(r.subjects, subjectText(c.Subject))
		r.measures = append(r.measures, measureText(c.Measure, c.Window))
		r.starts, r.ends = append(r.starts, c.Start), append(r.ends, c.End)
		r.most, r.back, r.owed = append(r.most, c.Most), append(r.back, c.Back), append(r.owed, c.Owed)
		r.used, r.least, r.lease = append(r.used, c.Used), append(r.least, c.Least), append(r.lease, c.Lease)
	}
	return r
}

func (r *claimRows) names() []any {
	return []any{r.limits, r.subjects, r.measures, r.starts, r.ends}
}

// measureText returns a measure as the table has it. That of months is marked: a window
// of 30 days may be a month of 30 days, and has a counter of its own.
func measureText(m limit.Measure, w limit.Window) string {
	text := "requests"
	switch m {
	case limit.Tokens:
		text = "tokens"
	case limit.Money:
		text = "money"
	}
	if w == limit.Month {
		text += "/1mo"
	}
	return text
}

// subjectText returns a subject as PostgreSQL takes it. Subjects that differ stay so.
func subjectText(subject string) string {
	clean := cleanText(subject)
	if clean == subject {
		return subject
	}
	hash := sha256.Sum256([]byte(subject))
	return clean + " " + hex.EncodeToString(hash[:8])
}

var _ limit.Ledger = (*Ledger)(nil)
