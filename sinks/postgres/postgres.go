// Package postgres is a sink that many gateways share: a PostgreSQL database.
//
// The tables are in their own schema, which the sink makes; schema.sql describes them. A
// schema of another format stays untouched. A row is stored once however often it is
// delivered. Traces are distinguished by their ids: an ended one replaces an interrupted
// one, and that one a started one. Metrics have an id from the store. Only erasures delete
// rows, and only rows that are no later than they are. The database's owner decides how
// long rows are kept, and may delete them at any time.
//
// Each delivery is one transaction, which also moves the position of the sink and its
// store. So a database that was restored, or a standby that was promoted before it had the
// latest commits, has its own position, and gets the missing rows again as long as the
// store has them: the store's retention must be longer than a failover takes. If the
// position is not as the sink left it, because another primary now answers at the same
// address, the sink writes nothing before it has resumed.
//
// PostgreSQL's text cannot hold a NUL character or invalid UTF-8, nor its jsonb a surrogate
// without its other half (https://www.postgresql.org/docs/current/datatype-json.html): they
// become U+FFFD. A row that it refuses nevertheless is stored without its content, or if
// even that is refused left out; both are counted and logged.
//
// The connection string is as for psql, with several hosts if there are several; the sink
// uses the one that accepts writes, unless the string has target_session_attrs. Through
// PgBouncer it works in every mode but statement pooling; default_query_exec_mode=exec may
// be needed there.
//
// By the same database gateways share limits and guarded rollouts, each on connections of its
// own. The rows of rollouts stay, as what explains the answers of the past; the units that
// they compared go when the next count begins, and by erasures. Where a pooler loses
// notifications, gateways learn of a row some seconds later.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cadenza-gateway/cadenza/secret"
	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

const (
	// DefaultSchema is the schema of the tables unless the configuration names
	// another.
	DefaultSchema = "cadenza"

	// defaultConnectTimeout is that for each host, without one in the
	// connection string.
	defaultConnectTimeout = 5 * time.Second

	// closeTimeout bounds how long Close waits for the network.
	closeTimeout = 2 * time.Second
)

// Config says which database to write to. DSN is required.
type Config struct {
	// DSN returns the connection string. It is asked before each connection: a
	// password may have changed.
	DSN    func() (string, error)
	Schema string // default: DefaultSchema
	// LocalLimits leaves the limits of the workspace to each gateway. Otherwise the
	// gateways that write to the database share them.
	LocalLimits bool
	Logger      *slog.Logger // default: none
}

// Sink writes to a database through one connection, which Resume makes.
type Sink struct {
	dsn    func() (string, error)
	schema string
	local  bool // limits
	logger *slog.Logger
	sql    statements

	conn   *pgx.Conn      // nil: there is none
	last   *pgconn.PgConn // the one before, which may be ending yet
	source sinks.Source
	at     trace.Position // the database's position for the source, as the sink left it

	stripped, dropped atomic.Uint64
}

// New returns a sink that has not connected yet. It fails if the configuration
// can never work.
func New(config Config) (*Sink, error) {
	if config.Schema == "" {
		config.Schema = DefaultSchema
	}
	if err := checkSchema(config.Schema); err != nil {
		return nil, err
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sink{dsn: config.DSN, schema: config.Schema, local: config.LocalLimits, logger: config.Logger, sql: newStatements(config.Schema)}
	if _, err := s.connConfig(); err != nil {
		return nil, err
	}
	return s, nil
}

// checkSchema reports whether a schema may have the name.
func checkSchema(name string) error {
	switch {
	case len(name) > 63:
		return fmt.Errorf("schema %q: PostgreSQL's names have at most 63 bytes", name)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("schema %q: must be UTF-8 without NUL", name)
	case strings.HasPrefix(name, "pg_") || name == "information_schema":
		return fmt.Errorf("schema %q: PostgreSQL keeps this name for itself", name)
	}
	return nil
}

// connConfig reads the connection string. Its error repeats no part of the string:
// in one that can't be read, the password may be in any part.
func (s *Sink) connConfig() (*pgx.ConnConfig, error) {
	dsn, err := s.dsn()
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("the connection string can't be read: it must be a URL (postgres://user:password@host/database, with what is special in the password percent-encoded) or words like host=… user=…, and files that it names must be there; it is not shown, because of the password")
	}
	secret.Remember(config.Password)
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = defaultConnectTimeout
	}
	if config.ValidateConnect == nil && os.Getenv("PGTARGETSESSIONATTRS") == "" && !strings.Contains(dsn, "target_session_attrs") {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "cadenza"
	}
	return config, nil
}

// Shared implements [sinks.Sink].
func (s *Sink) Shared() bool { return true }

// Refusals counts the rows that the database refused.
func (s *Sink) Refusals() sinks.Refusals {
	return sinks.Refusals{Stripped: s.stripped.Load(), Dropped: s.dropped.Load()}
}

// Close ends the connection.
func (s *Sink) Close() error {
	s.disconnect()
	if s.last == nil {
		return nil
	}
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-s.last.CleanupDone():
	case <-timer.C:
	}
	return nil
}

// connect makes the connection unless there is one that works.
func (s *Sink) connect(ctx context.Context) error {
	if s.conn != nil && !s.conn.IsClosed() {
		return nil
	}
	s.disconnect()
	config, err := s.connConfig()
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	s.conn = conn
	if encoding := conn.PgConn().ParameterStatus("server_encoding"); encoding != "UTF8" {
		s.disconnect()
		return fmt.Errorf("the database has the encoding %s, which can't hold every text: use one made with ENCODING 'UTF8'", encoding)
	}
	return nil
}

// disconnect ends the connection, also one that no longer answers: then it
// finishes in the background.
func (s *Sink) disconnect() {
	if s.conn == nil {
		return
	}
	s.last, s.conn = s.conn.PgConn(), nil
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.last.Close(ctx) // whatever it was doing comes again
}

var _ sinks.Sink = (*Sink)(nil)
