package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"os"

	"modernc.org/sqlite"
)

// openDatabase opens connections that note every error that shows damage, even if the
// caller ignores it.
func openDatabase(target dsn, maxConns int) (*sql.DB, error) {
	inner, err := sqlite.NewConnector(target.uri)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(&connector{Connector: inner, path: target.path})
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	return db, nil
}

// connector opens connections to the file of a path.
type connector struct {
	driver.Connector
	path string
}

// Connect implements [driver.Connector].
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	s := sharedOf(c.path)
	s.moving.RLock()
	defer s.moving.RUnlock()
	file, _ := os.Stat(c.path) // nil if SQLite makes it, or fails to open it
	inner, err := c.Connector.Connect(ctx)
	w := &watch{shared: s, file: file}
	if err != nil {
		return nil, w.note(err)
	}
	conn := &watchedConn{driverConn: inner.(driverConn), watch: w}
	// SQLite opens the log by name, when it first reads: this makes it do so now.
	if _, err := conn.ExecContext(ctx, "SELECT 1 FROM sqlite_schema LIMIT 1", nil); err != nil {
		_ = inner.Close() // nothing was written
		return nil, err
	}
	return conn, nil
}

// watch notes the errors of one connection.
type watch struct {
	shared *shared
	file   os.FileInfo // the one that the connection has open
}

// note marks the file as damaged if err says so, and returns err.
func (w *watch) note(err error) error {
	if w.file != nil && isCorrupt(err) {
		w.shared.found(w.file, err)
	}
	return err
}

// driverConn has the interfaces of the driver's connections that are used.
type driverConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
	sqlite.HookRegisterer
}

type watchedConn struct {
	driverConn
	*watch
}

// Close implements [driver.Conn]. The last connection to a file deletes its log, by
// name: meanwhile no other file may take the name.
func (c *watchedConn) Close() error {
	c.shared.moving.RLock()
	defer c.shared.moving.RUnlock()
	return c.driverConn.Close()
}

// PrepareContext implements [driver.ConnPrepareContext].
func (c *watchedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.driverConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, c.note(err)
	}
	return &watchedStmt{stmt.(driverStmt), c.watch}, nil
}

// BeginTx implements [driver.ConnBeginTx].
func (c *watchedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.driverConn.BeginTx(ctx, options)
	if err != nil {
		return nil, c.note(err)
	}
	return &watchedTx{tx, c.watch}, nil
}

// ExecContext implements [driver.ExecerContext].
func (c *watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.driverConn.ExecContext(ctx, query, args)
	return result, c.note(err)
}

// QueryContext implements [driver.QueryerContext].
func (c *watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.rows(c.driverConn.QueryContext(ctx, query, args))
}

func (w *watch) rows(rows driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, w.note(err)
	}
	return &watchedRows{rows, w}, nil
}

type driverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type watchedStmt struct {
	driverStmt
	*watch
}

// ExecContext implements [driver.StmtExecContext].
func (s *watchedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	result, err := s.driverStmt.ExecContext(ctx, args)
	return result, s.note(err)
}

// QueryContext implements [driver.StmtQueryContext].
func (s *watchedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.rows(s.driverStmt.QueryContext(ctx, args))
}

type watchedRows struct {
	driver.Rows
	*watch
}

// Next implements [driver.Rows].
func (r *watchedRows) Next(dest []driver.Value) error {
	return r.note(r.Rows.Next(dest))
}

// Close implements [driver.Rows].
func (r *watchedRows) Close() error { return r.note(r.Rows.Close()) }

type watchedTx struct {
	driver.Tx
	*watch
}

// Commit implements [driver.Tx].
func (t *watchedTx) Commit() error { return t.note(t.Tx.Commit()) }
