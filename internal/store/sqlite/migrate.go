package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/cadenza-gateway/cadenza/internal/store/migration"
)

// applicationID marks the file as ours, in its header: "Cdnz".
// https://www.sqlite.org/pragma.html#pragma_application_id
const applicationID = 0x43646e7a

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the scripts in order; the n-th takes a database from
// user_version n-1 to n.
func migrations() ([]string, error) { return migration.Scripts(migrationFiles) }

// checkOwner refuses a file that another application made, or a later version of
// this one. It changes nothing.
func checkOwner(ctx context.Context, conn *sql.Conn, known int) error {
	application, err := queryInt(ctx, conn, "PRAGMA application_id")
	if err != nil {
		return err
	}
	if application == applicationID {
		version, err := queryInt(ctx, conn, "PRAGMA user_version")
		if err == nil && (version < 0 || version > int64(known)) {
			err = fmt.Errorf("the file has schema %d, and this version of Cadenza knows %d: a later one made it", version, known)
		}
		return err
	}
	tables, err := queryInt(ctx, conn, "SELECT count(*) FROM sqlite_schema")
	if err != nil {
		return err
	}
	if application != 0 || tables != 0 {
		return errors.New("the file is a database of another application")
	}
	return nil
}

// migrate brings the schema of a file that checkOwner passed up to date, each
// step in a transaction.
func migrate(ctx context.Context, conn *sql.Conn, scripts []string) error {
	for {
		done, err := migrateStep(ctx, conn, scripts)
		if done || err != nil {
			return err
		}
	}
}

// migrateStep applies the next script. The version is read inside of the
// transaction, so that two processes that start together do not both apply it.
func migrateStep(ctx context.Context, conn *sql.Conn, scripts []string) (done bool, err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() {
		if rollback := tx.Rollback(); !errors.Is(rollback, sql.ErrTxDone) {
			err = errors.Join(err, rollback)
		}
	}()
	version, err := queryInt(ctx, tx, "PRAGMA user_version")
	if err != nil {
		return false, err
	}
	if version >= int64(len(scripts)) {
		return true, nil
	}
	if _, err := tx.ExecContext(ctx, scripts[version]); err != nil {
		return false, fmt.Errorf("migrating to schema %d: %w", version+1, err)
	}
	marks := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, version+1)
	if _, err := tx.ExecContext(ctx, marks); err != nil {
		return false, fmt.Errorf("migrating to schema %d: %w", version+1, err)
	}
	return false, tx.Commit()
}

// queryer is what queries one row: a connection, a transaction or a pool.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func queryInt(ctx context.Context, from queryer, query string, args ...any) (int64, error) {
	var n int64
	err := from.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}
