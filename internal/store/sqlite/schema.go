package sqlite

import (
	"context"
	"database/sql"
	_ "embed" // for the schemas
	"errors"
	"fmt"
	"sync"
)

const (
	// applicationID marks the file as ours, in its header: "Cdnz".
	// https://www.sqlite.org/pragma.html#pragma_application_id
	applicationID = 0x43646e7a

	// format is the number of the schema, in the header's user_version. Builds before
	// the first release made files with the numbers 1 to 18.
	format = 100
)

//go:embed schema.sql
var schema string

//go:embed console.sql
var consoleSchema string

//go:embed units.sql
var unitsSchema string

//go:embed experiments.sql
var experimentsSchema string

//go:embed rollouts.sql
var rolloutsSchema string

// errNoStore says that a file has no schema of ours.
var errNoStore = errors.New("not a trace store, or not one yet")

// checkFormat refuses a file that does not have this format. It changes nothing.
func checkFormat(ctx context.Context, db queryer) error {
	application, err := queryInt(ctx, db, "PRAGMA application_id")
	if err != nil {
		return err
	}
	if application != applicationID {
		return errNoStore
	}
	number, err := queryInt(ctx, db, "PRAGMA user_version")
	if err == nil && number != format {
		err = fmt.Errorf("the file has format %d, and this version of Cadenza reads format %d: move it away to begin another, or run the version that made it", number, format)
	}
	return err
}

// checkOwner refuses a file that another application made, or another version of
// this one, and reports whether the file is empty. It changes nothing.
func checkOwner(ctx context.Context, conn *sql.Conn) (empty bool, err error) {
	err = checkFormat(ctx, conn)
	if !errors.Is(err, errNoStore) {
		return false, err
	}
	empty, err = isEmpty(ctx, conn)
	if err == nil && !empty {
		err = errors.New("the file is a database of another application")
	}
	return empty, err
}

// isEmpty reports whether the file has neither tables nor the mark of an application.
func isEmpty(ctx context.Context, db queryer) (bool, error) {
	marked, err := queryInt(ctx, db, "SELECT (SELECT application_id FROM pragma_application_id) <> 0 OR EXISTS (SELECT 1 FROM sqlite_schema)")
	return marked == 0, err
}

// makeSchema makes the tables of a file that was empty. It looks again inside the
// transaction: if two processes start together, one makes them.
func makeSchema(ctx context.Context, conn *sql.Conn) (err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if rollback := tx.Rollback(); !errors.Is(rollback, sql.ErrTxDone) {
			err = errors.Join(err, rollback)
		}
	}()
	if empty, err := isEmpty(ctx, tx); err != nil || !empty {
		return err
	}
	marks := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, format)
	if _, err := tx.ExecContext(ctx, schema+marks); err != nil {
		return fmt.Errorf("making the tables: %w", err)
	}
	return tx.Commit()
}

// addUnits adds what reports on units and exposures need. A file of the same format that was made
// without it keeps what is stored. It looks in the transaction: another process may be
// doing the same.
func addUnits(ctx context.Context, conn *sql.Conn) error {
	return transactInTurn(ctx, conn, new(sync.Mutex), func(tx *sql.Tx) error {
		there, err := queryInt(ctx, tx, "SELECT count(*) FROM pragma_table_info('metrics') WHERE name = 'unit'")
		if err == nil && there == 0 {
			_, err = tx.ExecContext(ctx, unitsSchema)
		}
		return err
	})
}

// queryer queries one row: a connection, a transaction or a pool.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func queryInt(ctx context.Context, db queryer, query string, args ...any) (int64, error) {
	var n int64
	err := db.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}
