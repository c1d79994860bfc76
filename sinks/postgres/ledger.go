package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cadenza-gateway/cadenza/internal/limit"
)

const (
	// cleanEvery is how often a gateway deletes the counters of windows that have
	// ended, at most cleaned at a time, and the last exchanges of processes that are
	// gone. While there are more counters it does so in each exchange.
	cleanEvery = time.Minute
	cleaned    = 2_000
)

// Ledger is a table of the limits that the gateways of a workspace share. It has its
// own connection, which the first exchange makes.
type Ledger struct {
	sink      *Sink
	workspace string
	sql       [4]string // insert, take, booked, clean
	cleanAt   time.Time
}

// Ledger returns the ledger of a workspace in the sink's database, or nil if the
// configuration leaves the limits to each gateway.
func (s *Sink) Ledger(workspace string) limit.Ledger {
	if s.local {
		return nil
	}
	l := &Ledger{
		sink:      &Sink{dsn: s.dsn, schema: s.schema, logger: s.logger, sql: s.sql},
		workspace: cleanText(workspace),
	}
	tables := strings.NewReplacer(
		"cadenza.limit_windows", pgx.Identifier{s.schema, "limit_windows"}.Sanitize(),
		"cadenza.limit_exchanges", pgx.Identifier{s.schema, "limit_exchanges"}.Sanitize())
	for i, sql := range [...]string{insertWindows, takeWindows, bookedWindows, cleanWindows} {
		l.sql[i] = tables.Replace(sql)
	}
	return l
}

// claims are the rows of the parameters that the statements have in common.
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

// takeWindows implements [limit.Claim]. The statement reads a row again when it has its
// lock. Sums end at the largest bigint: one counter beyond it, perhaps by a mad cost that
// a provider has named, would fail the claims of all others.
//
// It changes and returns nothing if a counter is missing, or if the exchange is already
// booked, or a later one of its process. If a connection that is lost but not dead is
// booking it at this moment, the number of the process becomes null, which fails the
// statement.
const takeWindows = `
WITH held AS MATERIALIZED (
	SELECT c.*, LEAST(GREATEST(w.taken - c.back, 0)::numeric + c.owed, 9223372036854775807)::bigint AS before
	FROM unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
		$7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[])
		WITH ORDINALITY AS c (limit_name, subject, measure, window_start, window_end, most, back, owed, used, least, lease, n)
	JOIN cadenza.limit_windows w ON w.workspace = $1 AND w.limit_name = c.limit_name AND w.subject = c.subject
		AND w.measure = c.measure AND w.window_start = c.window_start AND w.window_end = c.window_end
	WHERE NOT EXISTS (SELECT FROM cadenza.limit_exchanges e WHERE e.workspace = $1 AND e.process = $13 AND e.number >= $14::bigint)
	ORDER BY w.workspace, w.limit_name, w.subject, w.measure, w.window_start, w.window_end
	FOR UPDATE OF w
), granted AS (
	SELECT *, CASE WHEN least <= 0 OR before >= most THEN 0
		ELSE LEAST(most - before, GREATEST(least, LEAST(lease, (most - before) / 8))) END AS amount
	FROM held WHERE (SELECT count(*) FROM held) = cardinality($2::text[])
), booked AS (
	INSERT INTO cadenza.limit_exchanges AS e (workspace, process, number, time, granted)
	SELECT $1::text, $13::text, $14::bigint, now(), array_agg(amount ORDER BY n)
	FROM granted HAVING count(*) > 0
	ON CONFLICT (workspace, process) DO UPDATE
	SET number = CASE WHEN e.number < excluded.number THEN excluded.number END, time = excluded.time, granted = excluded.granted
)
UPDATE cadenza.limit_windows w SET taken = g.before + g.amount, used = LEAST(GREATEST(w.used::numeric + g.used, 0), 9223372036854775807)::bigint
FROM granted g
WHERE w.workspace = $1 AND w.limit_name = g.limit_name AND w.subject = g.subject AND w.measure = g.measure
	AND w.window_start = g.window_start AND w.window_end = g.window_end
RETURNING g.n, g.amount, w.taken, w.used`

// bookedWindows answers an exchange that was booked before: with the amounts
// granted then, and the present sums.
const bookedWindows = `
SELECT c.n, e.granted[c.n], COALESCE(w.taken, 0), COALESCE(w.used, 0)
FROM cadenza.limit_exchanges e
CROSS JOIN unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[])
	WITH ORDINALITY AS c (limit_name, subject, measure, window_start, window_end, n)
LEFT JOIN cadenza.limit_windows w ON w.workspace = $1 AND w.limit_name = c.limit_name AND w.subject = c.subject
	AND w.measure = c.measure AND w.window_start = c.window_start AND w.window_end = c.window_end
WHERE e.workspace = $1 AND e.process = $7 AND e.number = $8::bigint`

// cleanWindows deletes by the clock of the database. Windows go an hour late: clocks of
// gateways may differ from it. An exchange goes when its process has made no other one
// for a day.
const cleanWindows = `
WITH gone AS (
	DELETE FROM cadenza.limit_exchanges WHERE ctid IN (
		SELECT ctid FROM cadenza.limit_exchanges WHERE time < now() - interval '1 day'
		FOR UPDATE SKIP LOCKED)
)
DELETE FROM cadenza.limit_windows WHERE ctid IN (
	SELECT ctid FROM cadenza.limit_windows WHERE window_end < now() - interval '1 hour'
	LIMIT $1 FOR UPDATE SKIP LOCKED)`

// Exchange implements [limit.Ledger].
func (l *Ledger) Exchange(ctx context.Context, id limit.ExchangeID, claims []limit.Claim) ([]limit.Answer, error) {
	err := l.prepare(ctx)
	var answers []limit.Answer
	var doubt error
	if err == nil {
		// An error of the server means that it has undone all of it, unless the server,
		// or a pooler, ends the connection by it. Without an answer it may be booked.
		answers, err = l.book(ctx, id, claims)
		refusal, refused := errors.AsType[*pgconn.PgError](err)
		refused = refused && refusal.SeverityUnlocalized == "ERROR"
		if err != nil && !refused && !pgconn.SafeToRetry(err) {
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

// prepare connects, makes the tables and cleans up, as far as each is due.
func (l *Ledger) prepare(ctx context.Context) error {
	if err := l.sink.open(ctx); err != nil {
		return err
	}
	if now := time.Now(); now.After(l.cleanAt) {
		tag, err := l.sink.conn.Exec(ctx, l.sql[3], cleaned)
		if err != nil {
			return err
		}
		if tag.RowsAffected() < cleaned {
			l.cleanAt = now.Add(cleanEvery)
		}
	}
	return nil
}

// book books claims in one transaction, or answers claims that were booked
// before.
func (l *Ledger) book(ctx context.Context, id limit.ExchangeID, claims []limit.Claim) ([]limit.Answer, error) {
	rows := newClaimRows(claims)
	names := append([]any{l.workspace}, rows.names()...)
	taken := append(slices.Clip(names), rows.most, rows.back, rows.owed, rows.used, rows.least, rows.lease, id.Process, id.Number)
	answers := make([]limit.Answer, len(claims))
	if !slices.ContainsFunc(claims, func(c limit.Claim) bool { return !c.Known }) {
		if answered, err := l.answers(ctx, answers, l.sql[1], taken); answered || err != nil {
			return answers, err
		}
	}
	var batch pgx.Batch
	batch.Queue(l.sql[0], names...)
	batch.Queue(l.sql[1], taken...)
	results := l.sink.conn.SendBatch(ctx, &batch)
	_, err := results.Exec()
	answered := false
	if err == nil {
		rows, _ := results.Query() // the rows have its error
		answered, err = readAnswers(rows, answers)
	}
	if closing := results.Close(); err == nil {
		err = closing // the transaction ends here
	}
	if !answered && err == nil {
		answered, err = l.answers(ctx, answers, l.sql[2], append(slices.Clip(names), id.Process, id.Number))
	}
	if !answered && err == nil {
		err = errors.New("the counters of a window were deleted before its end")
	}
	return answers, err
}

// answers reads the rows of a statement into answers, and reports whether there are any.
func (l *Ledger) answers(ctx context.Context, answers []limit.Answer, sql string, arguments []any) (bool, error) {
	rows, _ := l.sink.conn.Query(ctx, sql, arguments...) // the rows have its error
	return readAnswers(rows, answers)
}

func readAnswers(rows pgx.Rows, answers []limit.Answer) (answered bool, err error) {
	var n, granted, taken, used int64
	_, err = pgx.ForEachRow(rows, []any{&n, &granted, &taken, &used}, func() error {
		answered = true
		answers[n-1] = limit.Answer{Granted: granted, Taken: taken, Used: used}
		return nil
	})
	return answered, err
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

// measureText returns a measure as the table has it. A measure by months is marked: a
// window of 30 days may be a month of 30 days, and has a separate counter.
func measureText(m limit.Measure, w limit.Window) string {
	text := m.String()
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
