package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cadenza-gateway/cadenza/internal/store/migration"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the scripts in order; the n-th takes a schema from version n-1
// to n. A gateway of an earlier version must be able to write to tables that a
// later one has changed: it stops only at its next connection.
func migrations() ([]string, error) { return migration.Scripts(migrationFiles) }

// migrate brings the schema up to date. It locks nothing if the schema already is.
func (s *Sink) migrate(ctx context.Context) error {
	scripts, err := migrations()
	if err != nil {
		return err
	}
	version, err := s.schemaVersion(ctx)
	if err != nil {
		return err
	}
	if version > len(scripts) {
		return fmt.Errorf("schema %q has version %d, and this version of Cadenza knows %d: a later one made it; update this gateway", s.schema, version, len(scripts))
	}
	if version == len(scripts) {
		return nil
	}
	tx, err := s.begin(ctx, begin)
	if err != nil {
		return err
	}
	defer tx.abort()
	// Gateways that start together wait for the first.
	if _, err := tx.conn.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "cadenza migrates "+s.schema); err != nil {
		return err
	}
	if version, err = s.schemaVersion(ctx); err != nil {
		return err
	}
	quoted := pgx.Identifier{s.schema}.Sanitize()
	if version == 0 {
		if err := s.createSchema(ctx, tx, quoted); err != nil {
			return err
		}
	}
	if _, err := tx.conn.Exec(ctx, "SET LOCAL search_path = "+quoted); err != nil {
		return err
	}
	for ; version < len(scripts); version++ {
		if _, err := tx.conn.Exec(ctx, scripts[version]); err != nil {
			return fmt.Errorf("migrating schema %q to version %d: %w", s.schema, version+1, err)
		}
		if _, err := tx.conn.Exec(ctx, "UPDATE schema_version SET version = $1", version+1); err != nil {
			return err
		}
	}
	return tx.commit(ctx)
}

// schemaVersion is 0 where there is none.
func (s *Sink) schemaVersion(ctx context.Context) (int, error) {
	// Not to_regclass, which may answer from a cache of before a lock was
	// waited for.
	var exists bool
	err := s.conn.QueryRow(ctx, `
SELECT EXISTS (
	SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = $1 AND c.relname = 'schema_version')`, s.schema).Scan(&exists)
	if err != nil || !exists {
		return 0, err
	}
	var version int
	err = s.conn.QueryRow(ctx, "SELECT version FROM "+pgx.Identifier{s.schema, "schema_version"}.Sanitize()).Scan(&version)
	return version, err
}

// createSchema makes the schema, unless an administrator did, at version 0.
func (s *Sink) createSchema(ctx context.Context, tx *transaction, quoted string) error {
	var exists bool
	if err := tx.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", s.schema).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		if _, err := tx.conn.Exec(ctx, "CREATE SCHEMA "+quoted); err != nil {
			return err
		}
	}
	_, err := tx.conn.Exec(ctx, fmt.Sprintf("CREATE TABLE %[1]s.schema_version (version integer NOT NULL); INSERT INTO %[1]s.schema_version VALUES (0)", quoted))
	return err
}

// explain adds to an error of missing rights what grants them.
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
