package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// statements are the SQL that names the schema.
type statements struct {
	begin                       string // a transaction with stages
	traces, metrics, versions   string
	position, setPosition, move string
	exposures                   string
	eraseConversation           string
	eraseMetadata               string
	eraseDecision               string
	eraseReported               string
	eraseUnit, eraseRolloutUnit string
}

func newStatements(schema string) statements {
	quoted := pgx.Identifier{schema}.Sanitize()
	in := func(text string) string { return strings.ReplaceAll(text, "cadenza.", quoted+".") }
	return statements{
		begin:   begin + createStage(traceStage, quoted+".traces") + createStage(metricsStage, quoted+".metrics"),
		traces:  in(copySQL("cadenza.traces", traceStage, traceNames) + upsertTraces),
		metrics: in(copySQL("cadenza.metrics", metricsStage, metricsNames) + " ON CONFLICT (id) DO NOTHING"),
		versions: in(`
INSERT INTO cadenza.versions AS v (workspace, kind, key, version, first_seen, content)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (workspace, kind, key, version) DO UPDATE SET first_seen = excluded.first_seen
WHERE excluded.first_seen < v.first_seen`),
		position: in("SELECT traces, metrics, versions, erasures, exposures FROM cadenza.positions WHERE store_id = $1 AND workspace = $2 AND sink = $3 FOR UPDATE"),
		setPosition: in(`
INSERT INTO cadenza.positions (store_id, workspace, sink, traces, metrics, versions, erasures, exposures, updated)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, now())
ON CONFLICT (store_id, workspace, sink) DO UPDATE SET (traces, metrics, versions, erasures, exposures, updated) =
	(excluded.traces, excluded.metrics, excluded.versions, excluded.erasures, excluded.exposures, excluded.updated)`),
		move: in(`
UPDATE cadenza.positions SET traces = $4, metrics = $5, versions = $6, erasures = $7, exposures = $8, updated = now()
WHERE store_id = $1 AND workspace = $2 AND sink = $3 AND traces = $9 AND metrics = $10 AND versions = $11 AND erasures = $12 AND exposures = $13`),
		exposures: in(`
UPDATE cadenza.traces AS t SET answers = e.answers FROM unnest($2::uuid[], $3::integer[]) AS e (id, answers)
WHERE t.id = e.id AND t.workspace = $1 AND coalesce(t.answers, 1) < e.answers`),
		eraseConversation: in(`
WITH named AS (
	SELECT trace_id, decision_id FROM cadenza.metrics WHERE workspace = $1 AND time <= $3 AND conversation_id = $2
	UNION
	SELECT id, NULL FROM cadenza.traces WHERE workspace = $1 AND time <= $3 AND metadata ->> 'conversation_id' = $2
		AND jsonb_typeof(metadata -> 'conversation_id') = 'string'
)` + eraseNamed),
		eraseMetadata: in(`
WITH named AS (
	SELECT trace_id, decision_id FROM cadenza.metrics WHERE workspace = $1 AND time <= $3 AND metadata @> $2::jsonb
	UNION
	SELECT id, NULL FROM cadenza.traces WHERE workspace = $1 AND time <= $3 AND metadata @> $2::jsonb
)` + eraseNamed),
		eraseUnit: in(`
WITH held AS (
	SELECT id, decision_id FROM cadenza.traces WHERE workspace = $1 AND time <= $3
		AND (splits @> $5::jsonb OR inputs @> ANY ($6::text[]::jsonb[]))
), named AS (
	SELECT trace_id, decision_id FROM cadenza.metrics WHERE workspace = $1 AND time <= $3 AND unit_field = $2 AND unit = $4
	UNION
	SELECT id, NULL FROM held
	UNION
	SELECT NULL, decision_id FROM held WHERE decision_id IS NOT NULL
)` + eraseNamed),
		eraseRolloutUnit: in("DELETE FROM cadenza.rollout_units WHERE workspace = $1 AND first <= $2 AND unit = $3"),
		eraseReported: in(`
WITH named AS (
	SELECT id AS trace_id, NULL::uuid AS decision_id FROM unnest($2::uuid[]) AS id
	UNION ALL
	SELECT NULL, id FROM unnest($2::uuid[]) AS id
)` + eraseNamed),
		eraseDecision: in("WITH named AS (SELECT NULL::uuid AS trace_id, $2::uuid AS decision_id)" + eraseNamed),
	}
}

// eraseNamed ends an erasure: all rows of a chosen trace are deleted. $1 is the
// workspace, $3 the last time that the erasure concerns. A row of named is a trace
// or, if that is null, a decision. A report on a decision is one on each of its
// traces: it chooses them all, and is deleted with any of them.
const eraseNamed = `, chosen AS (
	SELECT trace_id FROM named WHERE trace_id IS NOT NULL
	UNION
	SELECT t.id FROM cadenza.traces t JOIN named n ON t.decision_id = n.decision_id
	WHERE n.trace_id IS NULL AND t.workspace = $1 AND t.time <= $3
), decided AS (
	SELECT decision_id FROM named WHERE trace_id IS NULL
	UNION
	SELECT t.decision_id FROM cadenza.traces t JOIN chosen c ON t.id = c.trace_id
	WHERE t.decision_id IS NOT NULL AND t.workspace = $1
), reports AS (
	DELETE FROM cadenza.metrics m USING chosen WHERE m.trace_id = chosen.trace_id AND m.workspace = $1 AND m.time <= $3
), reports_on_decisions AS (
	DELETE FROM cadenza.metrics m USING decided
	WHERE m.decision_id = decided.decision_id AND m.trace_id IS NULL AND m.workspace = $1 AND m.time <= $3
)
DELETE FROM cadenza.traces t USING chosen WHERE t.id = chosen.trace_id AND t.workspace = $1 AND t.time <= $3`

// begin begins a transaction. A server that loses its client in the middle of one
// must not keep its locks for as long as the network takes to notice. The drain
// bounds how long a statement may take: one that the server ends, because its owner
// set a limit for all clients, would fail each time.
const begin = "BEGIN; SET LOCAL client_min_messages = warning; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = '30s'"

// createStage makes a table that rows are copied to on their way, unless it is
// there: behind a pooler, each transaction may meet another session.
func createStage(stage pgx.Identifier, like string) string {
	return fmt.Sprintf("; CREATE TEMPORARY TABLE IF NOT EXISTS %s (LIKE %s) ON COMMIT DELETE ROWS", stage.Sanitize(), like)
}

// begin begins a transaction by sql, in one round trip.
func (s *Sink) begin(ctx context.Context, sql string) (pgx.Tx, error) {
	return s.conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: sql})
}

// rollback ends a transaction unless it is committed.
func rollback(tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // which closes the connection if it fails
}
