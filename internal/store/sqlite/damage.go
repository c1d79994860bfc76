package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/private"
	"github.com/cadenza-gateway/cadenza/trace"
)

// errCheckFailed is wrapped by the errors that SQLite's check of the file finds.
var errCheckFailed = errors.New("the database is damaged")

// checkUntil looks for damage in the background: reading a large file takes seconds.
// https://www.sqlite.org/pragma.html#pragma_quick_check
func (s *Store) checkUntil(ctx context.Context) { _ = s.verify(ctx, "quick_check") }

// verify checks every page of the file.
func (r *Reader) verify(ctx context.Context, check string) (err error) {
	tx, err := beginRead(ctx, r.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endRead(tx)) }()
	// FTS5 checks a table against the connection's last reading of it. This reads it again.
	periods, err := readPeriods(ctx, tx)
	if err != nil {
		return err
	}
	for _, period := range periods {
		if _, err := queryInt(ctx, tx, fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM %[1]s WHERE %[1]s MATCH '0')", termsTable(period))); err != nil {
			return err
		}
	}
	var verdict string
	if err := tx.QueryRowContext(ctx, "PRAGMA "+check+"(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict == "ok" {
		return nil
	}
	err = fmt.Errorf("%w: %s", errCheckFailed, verdict)
	if r.file != nil {
		sharedOf(r.path).found(r.file, err)
	}
	return err
}

// replace sets the damaged file aside, unless another process did, and makes a new
// one. The new one keeps the trace key of the old one if that can be read: the ids
// that callers hold stay valid. It keeps the rows of rollouts that can be read too: who has
// the new answer keeps it.
func replace(ctx context.Context, config Config, path string, damaged os.FileInfo, damage error) (*Store, error) {
	key, keyErr := salvageTraceKey(ctx, path)
	rollouts := salvageRollouts(ctx, path)
	aside, err := setAside(path, damaged)
	if err != nil {
		return nil, errors.Join(damage, fmt.Errorf("setting the damaged file aside: %w", err))
	}
	if aside != "" {
		config.Logger.Error("the trace store is damaged; it was set aside and a new one is begun",
			"set_aside", aside, "error", damage, "trace_key_kept", keyErr == nil)
		config.OnSetAside(aside)
	}
	file, err := createFile(path)
	if err != nil {
		return nil, err
	}
	store, err := open(ctx, config, path, file)
	if err != nil {
		return nil, err
	}
	if keyErr == nil {
		if err := keepTraceKey(ctx, store.conn, key); err != nil {
			return nil, errors.Join(err, store.close())
		}
	}
	if err := keepRollouts(ctx, store.conn, rollouts); err != nil {
		return nil, errors.Join(err, store.close())
	}
	return store, nil
}

// setAside renames the damaged file, with its log, to a name with the time. It
// returns an empty name if another file is at the path by now.
func setAside(path string, damaged os.FileInfo) (aside string, err error) {
	s := sharedOf(path)
	s.moving.Lock()
	defer s.moving.Unlock()
	if sameFile(path, damaged) != nil {
		return "", nil
	}
	aside = path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000Z")
	if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(err, fmt.Errorf("%s exists", aside))
	}
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		private.Restrict(aside + suffix)
	}
	s.replaced()
	return aside, nil
}

func salvageTraceKey(ctx context.Context, path string) ([]byte, error) {
	db, err := openDatabase(readerDSN(path), 1)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // read only: nothing can be lost
	key, err := storedTraceKey(ctx, db)
	if err == nil && len(key) < trace.MinKeyLength {
		err = errors.New("the trace key is damaged")
	}
	return key, err
}

// storedTraceKey reads the trace key, and fails with sql.ErrNoRows when none
// was made.
func storedTraceKey(ctx context.Context, db queryer) ([]byte, error) {
	var key []byte
	err := db.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'trace_key'").Scan(&key)
	return key, err
}

// keepTraceKey stores key unless there is one.
func keepTraceKey(ctx context.Context, conn *sql.Conn, key []byte) error {
	_, err := conn.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('trace_key', ?) ON CONFLICT DO NOTHING", key)
	return err
}
