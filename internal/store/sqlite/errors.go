package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

// ErrNotFound says that the store has no such row.
var ErrNotFound = errors.New("not found in the trace store")

// resultCode returns the primary SQLite result code of err, 0 for other errors.
// https://www.sqlite.org/rescode.html
func resultCode(err error) int { return extendedCode(err) & 0xff }

// extendedCode returns the extended result code of an error of the driver, or of the native
// connection; 0 for others.
func extendedCode(err error) int {
	if e, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok {
		return e.Code()
	}
	return 0
}

// isCorrupt reports whether err says that the file is damaged, or no database.
func isCorrupt(err error) bool {
	return isDamage(extendedCode(err)) || errors.Is(err, errCheckFailed)
}

// isDamage reports whether an SQLite result code says that the file is damaged. A failed
// read may be a fault of the disk, perhaps a passing one; it is damage if the file or its
// log is shorter than it must be.
func isDamage(code int) bool {
	switch code & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	}
	return code == sqlite3.SQLITE_IOERR_SHORT_READ
}

// classify wraps recorder.ErrBroken if the connection must not be used again, and
// recorder.ErrReplaced if another file takes the place of this one. After a failed read,
// write or sync the kernel and SQLite may differ about the file's content; a full disk or a
// lock passes by itself.
func classify(err error) error {
	switch {
	case err == nil:
		return nil
	case isCorrupt(err):
		return fmt.Errorf("%w: %w", recorder.ErrReplaced, err)
	case resultCode(err) == sqlite3.SQLITE_IOERR,
		errors.Is(err, sql.ErrConnDone), errors.Is(err, driver.ErrBadConn):
		return fmt.Errorf("%w: %w", recorder.ErrBroken, err)
	}
	return err
}
