package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

// awaitPoll is how long Await waits for a notification: it may be lost, and poolers lose all.
const awaitPoll = 3 * time.Second

// fleet are the tables by which the gateways of a workspace share rollouts.
type fleet struct {
	workspace string
	channel   string // of notifications
	sql       rolloutStatements

	// turn is held by the call that uses sink. A call that waits for it ends with its
	// context.
	turn     chan struct{}
	sink     *Sink
	listener *Sink // of Await
}

// Rollouts returns the rollouts of a workspace in the sink's database. It has connections of
// its own, which the first calls make.
func (s *Sink) Rollouts(workspace string) rollout.Fleet {
	own := func() *Sink { return &Sink{dsn: s.dsn, schema: s.schema, logger: s.logger, sql: s.sql} }
	// The names of channels are those of a database, and may be as long as those of schemas.
	hash := sha256.Sum256([]byte(s.schema + "\x00" + workspace))
	return &fleet{
		workspace: cleanText(workspace),
		channel:   "cadenza_" + hex.EncodeToString(hash[:16]),
		sql:       newRolloutStatements(s.schema),
		turn:      make(chan struct{}, 1),
		sink:      own(),
		listener:  own(),
	}
}

type rolloutStatements struct{ rows, add, put, forget string }

func newRolloutStatements(schema string) rolloutStatements {
	quoted := pgx.Identifier{schema}.Sanitize()
	in := func(text string) string { return strings.ReplaceAll(text, "cadenza.", quoted+".") }
	return rolloutStatements{
		rows: in(`
SELECT rollout, number, time, kind, share, edition, by, why, evidence::text FROM cadenza.rollout_rows r
WHERE workspace = $1 AND NOT EXISTS (SELECT FROM unnest($2::text[], $3::bigint[]) AS k (rollout, number) WHERE k.rollout = r.rollout AND k.number >= r.number)
ORDER BY rollout, number`),
		// The notification is of the same transaction: who gets it sees the row.
		add: in(`
WITH added AS (
	INSERT INTO cadenza.rollout_rows (workspace, rollout, number, time, kind, share, edition, by, why, evidence)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::jsonb)
	ON CONFLICT DO NOTHING RETURNING number
)
SELECT pg_notify($11, '') FROM added`),
		put: in(`
INSERT INTO cadenza.rollout_units AS u (workspace, rollout, since, unit, node, arm, first, moved, numbers)
SELECT $1, $2, $3::timestamptz, c.unit, $4, c.arm, c.first, c.moved, ($9::double precision[])[(c.n::int - 1) * $10::int + 1 : c.n::int * $10::int]
FROM unnest($5::text[], $6::text[], $7::timestamptz[], $8::boolean[]) WITH ORDINALITY AS c (unit, arm, first, moved, n)
ORDER BY c.unit
ON CONFLICT (workspace, rollout, since, unit, node) DO UPDATE SET (arm, first, moved, numbers) = (excluded.arm, excluded.first, excluded.moved, excluded.numbers)
WHERE (u.arm, u.first, u.moved, u.numbers) IS DISTINCT FROM (excluded.arm, excluded.first, excluded.moved, excluded.numbers)`),
		forget: in(`
DELETE FROM cadenza.rollout_units WHERE ctid IN (
	SELECT ctid FROM cadenza.rollout_units WHERE workspace = $1 AND rollout = $2 AND since < $3 LIMIT $4 FOR UPDATE SKIP LOCKED)`),
	}
}

// Rows implements [rollout.Log].
func (f *fleet) Rows(ctx context.Context, known map[string]int64) (all []rollout.Row, err error) {
	names, numbers := make([]string, 0, len(known)), make([]int64, 0, len(known))
	for name, number := range known {
		names, numbers = append(names, cleanText(name)), append(numbers, number)
	}
	err = f.call(ctx, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, f.sql.rows, f.workspace, names, numbers) // the rows have its error
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r rollout.Row, err error) {
			var evidence *string
			if err := row.Scan(&r.Rollout, &r.Number, &r.Time, &r.Kind, &r.Share, &r.Edition, &r.By, &r.Why, &evidence); err != nil {
				return r, err
			}
			r.Time = r.Time.UTC()
			if evidence != nil {
				err = json.Unmarshal([]byte(*evidence), &r.Evidence)
			}
			return r, err
		})
		return err
	})
	return all, err
}

// Add implements [rollout.Log].
func (f *fleet) Add(ctx context.Context, row *rollout.Row) (added bool, err error) {
	var evidence *string
	if row.Evidence != nil {
		document, err := json.Marshal(row.Evidence)
		if err != nil {
			return false, err
		}
		evidence = new(string(cleanJSON(document)))
	}
	err = f.call(ctx, func(conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, f.sql.add, f.workspace, cleanText(row.Rollout), row.Number, clampTime(row.Time), string(row.Kind), row.Share,
			cleanText(row.Edition), cleanText(row.By), cleanText(row.Why), evidence, f.channel)
		added = tag.RowsAffected() > 0
		return err
	})
	return added, err
}

// Await implements [rollout.Fleet].
func (f *fleet) Await(ctx context.Context) error {
	before := f.listener.conn
	return f.listener.call(ctx, func(conn *pgx.Conn) error {
		if conn == before {
			wait, cancel := context.WithTimeout(ctx, awaitPoll)
			defer cancel()
			if _, err := conn.WaitForNotification(wait); err == nil || ctx.Err() != nil || !pgconn.Timeout(err) {
				return err
			}
		}
		// To listen again does no harm, and shows whether the database still answers. What
		// was added before it listened is not notified of.
		ctx, cancel := context.WithTimeout(ctx, conn.Config().ConnectTimeout)
		defer cancel()
		_, err := conn.Exec(ctx, "LISTEN "+f.channel)
		return err
	})
}

// Close implements [rollout.Fleet].
func (f *fleet) Close() error {
	_, _ = f.sink.Close(), f.listener.Close() // which never fail
	return nil
}

// call makes a call on the connection that all but Await share.
func (f *fleet) call(ctx context.Context, call func(*pgx.Conn) error) error {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
		return f.sink.call(ctx, call)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// call makes a call on the connection, which it makes if there is none. After an error the
// next call makes another one.
func (s *Sink) call(ctx context.Context, call func(*pgx.Conn) error) error {
	err := s.open(ctx)
	if err == nil {
		err = call(s.conn)
	}
	if err != nil {
		err = s.explain(err)
		s.disconnect()
		return fmt.Errorf("PostgreSQL: %w", err)
	}
	return nil
}

var _ rollout.Fleet = (*fleet)(nil)
