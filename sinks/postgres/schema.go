package postgres

import (
	"context"
	_ "embed" // for schema
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// format is the number of the schema, in schema_version. Builds before the first
// release made schemas with the numbers 1 to 6.
const format = 100

//go:embed schema.sql
var schema string

//go:embed units.sql
var unitsSchema string

//go:embed rollouts.sql
var rolloutsSchema string

// additions are what tables lack that an earlier build made, each with a column by which one
// knows that it is there.
var additions = []struct{ column, schema string }{
	{"metrics.unit", unitsSchema},
	{"rollout_units.unit", rolloutsSchema},
}

// open connects unless there is a connection that works, and then makes the schema.
func (s *Sink) open(ctx context.Context) error {
	before := s.conn
	if err := s.connect(ctx); err != nil || s.conn == before {
		return err
	}
	return s.makeSchema(ctx)
}

// makeSchema makes the tables, or what they lack, unless they are there. It locks nothing if
// they are.
func (s *Sink) makeSchema(ctx context.Context) error {
	if made, lacks, err := s.checkFormat(ctx); made && lacks == "" || err != nil {
		return err
	}
	tx, err := s.begin(ctx, begin)
	if err != nil {
		return err
	}
	defer rollback(tx)
	// Gateways that start together wait for the first.
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "cadenza makes "+s.schema); err != nil {
		return err
	}
	quoted := pgx.Identifier{s.schema}.Sanitize()
	made, lacks, err := s.checkFormat(ctx)
	switch {
	case err != nil || made && lacks == "":
		return err
	case made:
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL search_path = %s; %s", quoted, lacks)); err != nil {
			return fmt.Errorf("adding what the tables of schema %q lack: %w", s.schema, err)
		}
		return tx.Commit(ctx)
	}
	var exists bool // an administrator may have made it
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", s.schema).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+quoted); err != nil {
			return err
		}
	}
	tables := fmt.Sprintf("SET LOCAL search_path = %s; %s %s INSERT INTO schema_version VALUES (%d)", quoted, schema, lacks, format)
	if _, err := tx.Exec(ctx, tables); err != nil {
		return fmt.Errorf("making the tables of schema %q: %w", s.schema, err)
	}
	return tx.Commit(ctx)
}

// checkFormat reports whether the tables are there, returns the statements that add what they
// lack, and refuses tables of another format.
func (s *Sink) checkFormat(ctx context.Context) (made bool, lacks string, err error) {
	// Not to_regclass, which may answer from a cache of before a lock was
	// waited for.
	asked := []string{"schema_version.version"}
	for _, a := range additions {
		asked = append(asked, a.column)
	}
	rows, _ := s.conn.Query(ctx, `
SELECT c.relname || '.' || a.attname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname = $1 AND c.relname || '.' || a.attname = ANY($2)`, s.schema, asked)
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return false, "", err
	}
	for _, a := range additions {
		if !slices.Contains(columns, a.column) {
			lacks += a.schema
		}
	}
	if !slices.Contains(columns, "schema_version.version") {
		return false, lacks, nil
	}
	var number int
	err = s.conn.QueryRow(ctx, "SELECT version FROM "+pgx.Identifier{s.schema, "schema_version"}.Sanitize()).Scan(&number)
	if err == nil && number != format {
		err = fmt.Errorf("schema %q has format %d, and this version of Cadenza writes format %d: name another schema, or run the version that made it", s.schema, number, format)
	}
	return true, lacks, err
}

// explain adds to an error of missing rights the statements that grant them.
func (s *Sink) explain(err error) error {
	if errors.Is(err, pgconn.ErrConnClosed) {
		return errors.New("the connection ended") // the driver lost why
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || e.Code != "42501" || s.conn == nil { // insufficient_privilege
		return err
	}
	config := s.conn.Config()
	schema, user := pgx.Identifier{s.schema}.Sanitize(), pgx.Identifier{config.User}.Sanitize()
	return fmt.Errorf("%w; user %s needs rights that the database's administrator grants by: "+
		"CREATE SCHEMA IF NOT EXISTS %[3]s AUTHORIZATION %[2]s; GRANT USAGE, CREATE ON SCHEMA %[3]s TO %[2]s; "+
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %[3]s TO %[2]s; GRANT TEMPORARY ON DATABASE %[4]s TO %[2]s",
		err, user, schema, pgx.Identifier{config.Database}.Sanitize())
}
