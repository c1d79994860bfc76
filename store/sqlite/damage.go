package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// errCheckFailed is wrapped by what SQLite's check of the file finds.
var errCheckFailed = errors.New("the database is damaged")

// checkUntil looks for damage in the background: reading a large file takes
// seconds, for which nobody should have to wait. What it finds fails the next
// Commit with trace.ErrBroken.
func (s *Store) checkUntil(ctx context.Context) {
	if err := quickCheck(ctx, s.Reader.db); isCorrupt(err) {
		s.damaged(err)
	}
}

// quickCheck has SQLite look at every page of the file.
// https://www.sqlite.org/pragma.html#pragma_quick_check
func quickCheck(ctx context.Context, from queryer) error {
	var verdict string
	if err := from.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", errCheckFailed, verdict)
	}
	return nil
}

func (s *Store) damaged(err error) { s.damage.CompareAndSwap(nil, &err) }

// replace sets a damaged file aside and begins a new one, under the trace key
// of the old one where it can still be read: the ids that callers hold stay
// valid.
func replace(ctx context.Context, config Config, path string, damage error) (*Store, error) {
	key, keyErr := salvageTraceKey(ctx, path)
	aside, err := setAside(path)
	if err != nil {
		return nil, errors.Join(damage, fmt.Errorf("setting the damaged file aside: %w", err))
	}
	config.Logger.Error("the trace store is damaged; it was set aside and a new one is begun",
		"set_aside", aside, "error", damage, "trace_key_kept", keyErr == nil)
	store, err := open(ctx, config, path)
	if err != nil {
		return nil, err
	}
	if keyErr == nil {
		if err := keepTraceKey(ctx, store.conn, key); err != nil {
			return nil, errors.Join(err, store.close())
		}
	}
	return store, nil
}

// setAside renames the file, with its log, to a name that tells when.
func setAside(path string) (string, error) {
	aside := path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000Z")
	if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(err, fmt.Errorf("%s exists", aside))
	}
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(path+suffix, aside+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
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
func storedTraceKey(ctx context.Context, from queryer) ([]byte, error) {
	var key []byte
	err := from.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'trace_key'").Scan(&key)
	return key, err
}

// keepTraceKey stores key unless there is one.
func keepTraceKey(ctx context.Context, conn *sql.Conn, key []byte) error {
	_, err := conn.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('trace_key', ?) ON CONFLICT DO NOTHING", key)
	return err
}
