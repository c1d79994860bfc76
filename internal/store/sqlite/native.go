package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// native is the writer's connection. It calls the SQLite library itself: the package
// sql and the driver between cost three times as much as the library does for a row,
// most of it in values that are boxed, allocated and freed one by one, and in locks
// of a connection that only one goroutine has.
//
// One goroutine at a time uses it and its statements. What is rare, and what reads
// rows, has a connection of package sql.
type native struct {
	tls      *libc.TLS
	db       uintptr // *sqlite3
	out      uintptr // room for a pointer that a call returns
	texts    textRoom
	durable  bool                  // synchronous is FULL
	prepared map[string]*statement // by their texts
	*watch
}

// openNative opens a connection to a file that exists. It notes the errors that show
// damage, as those of openDatabase do.
func openNative(to dsn) (_ *native, err error) {
	s := sharedOf(to.path)
	s.moving.RLock()
	defer s.moving.RUnlock()
	file, err := os.Stat(to.path)
	if err != nil {
		return nil, err
	}
	n := &native{tls: libc.NewTLS(), durable: true, prepared: map[string]*statement{}, watch: &watch{shared: s, file: file}}
	n.texts.tls = n.tls
	defer func() {
		if err != nil {
			err = errors.Join(err, n.free())
		}
	}()
	if n.out = libc.Xcalloc(n.tls, 1, types.Size_t(unsafe.Sizeof(n.out))); n.out == 0 {
		return nil, errNoMemory
	}
	name, err := libc.CString(to.uri)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(n.tls, name)
	code := sqlite3.Xsqlite3_open_v2(n.tls, name, n.out,
		sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_NOMUTEX|sqlite3.SQLITE_OPEN_URI, 0)
	n.db = n.returned() // also where it fails, with the reason
	if err := n.check(code); err != nil {
		return nil, err
	}
	if err := n.check(sqlite3.Xsqlite3_extended_result_codes(n.tls, n.db, 1)); err != nil {
		return nil, err
	}
	for _, pragma := range to.pragmas {
		if err := n.execute("PRAGMA " + pragma); err != nil {
			return nil, err
		}
	}
	// This has it open the log too, which SQLite does by name, and late.
	return n, n.execute("SELECT 1 FROM sqlite_schema LIMIT 1")
}

// close closes the connection and its statements, once.
func (n *native) close() error {
	if n == nil || n.tls == nil {
		return nil
	}
	n.shared.moving.RLock() // as for those of package sql
	defer n.shared.moving.RUnlock()
	return n.free()
}

func (n *native) free() error {
	for _, s := range n.prepared {
		s.finalize()
	}
	clear(n.prepared)
	err := n.check(sqlite3.Xsqlite3_close_v2(n.tls, n.db))
	libc.Xfree(n.tls, n.out)
	n.texts.free()
	n.tls.Close()
	n.tls = nil
	return err
}

// returned is the pointer that a call put into out.
func (n *native) returned() uintptr { return **(**uintptr)(unsafe.Pointer(&n.out)) }

// check returns the error of a result code, nil for one of success.
func (n *native) check(code int32) error {
	switch code {
	case sqlite3.SQLITE_OK, sqlite3.SQLITE_ROW, sqlite3.SQLITE_DONE:
		return nil
	}
	message := libc.GoString(sqlite3.Xsqlite3_errstr(n.tls, code))
	if n.db != 0 {
		if more := libc.GoString(sqlite3.Xsqlite3_errmsg(n.tls, n.db)); more != message {
			message += ": " + more
		}
	}
	return n.note(&nativeError{int(code), message})
}

// nativeError is an error of SQLite. It reads as those of the driver do.
type nativeError struct {
	code    int // extended
	message string
}

// Error implements error.
func (e *nativeError) Error() string { return fmt.Sprintf("%s (%d)", e.message, e.code) }

// Code returns the extended result code, as the driver's errors do.
func (e *nativeError) Code() int { return e.code }

var errNoMemory = &nativeError{sqlite3.SQLITE_NOMEM, "out of memory"}

// statement is a prepared statement of a connection, which closes it.
type statement struct {
	*native
	handle uintptr // *sqlite3_stmt
	some   []bool  // by parameter: whether it is not NULL
}

// prepare prepares a statement that is run often, once.
func (n *native) prepare(text string) (*statement, error) {
	if s := n.prepared[text]; s != nil {
		return s, nil
	}
	s, err := n.compile(text, sqlite3.SQLITE_PREPARE_PERSISTENT)
	if err == nil {
		n.prepared[text] = s
	}
	return s, err
}

// repeat runs a statement that has no parameters and is run often.
func (n *native) repeat(text string) error {
	s, err := n.prepare(text)
	if err != nil {
		return err
	}
	return s.runBound()
}

func (n *native) compile(text string, flags uint32) (*statement, error) {
	if n.tls == nil {
		return nil, sql.ErrConnDone
	}
	query, err := libc.CString(text)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(n.tls, query)
	if err := n.check(sqlite3.Xsqlite3_prepare_v3(n.tls, n.db, query, -1, flags, n.out, 0)); err != nil {
		return nil, err
	}
	s := &statement{native: n, handle: n.returned()}
	s.some = make([]bool, 1+sqlite3.Xsqlite3_bind_parameter_count(n.tls, s.handle))
	return s, nil
}

// execute runs a statement that is rare.
func (n *native) execute(text string, values ...value) error {
	s, err := n.compile(text, 0)
	if err != nil {
		return err
	}
	defer s.finalize()
	return s.run(values...)
}

// once runs a statement that has no parameters and does something when it is prepared.
func (n *native) once(text string) error { return n.execute(text) }

// finalize frees the statement. What it returns is the error of its last run.
func (s *statement) finalize() { sqlite3.Xsqlite3_finalize(s.tls, s.handle) }

// run binds values to the parameters, from the first on, and runs the statement.
// It skips rows.
func (s *statement) run(values ...value) error {
	if err := s.bindAll(values...); err != nil {
		return err
	}
	return s.runBound()
}

func (s *statement) bindAll(values ...value) error {
	s.texts.clear()
	for i := range values {
		if err := s.bind(i+1, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// runBound runs the statement with the values that are bound.
func (s *statement) runBound() (err error) {
	for more := true; more && err == nil; {
		more, err = s.step()
	}
	s.reset()
	return err
}

// step reads the next row, and reports whether there is one.
func (s *statement) step() (bool, error) {
	code := sqlite3.Xsqlite3_step(s.tls, s.handle)
	return code == sqlite3.SQLITE_ROW, s.check(code)
}

// reset ends a run. What it returns is the error of the last step.
func (s *statement) reset() { sqlite3.Xsqlite3_reset(s.tls, s.handle) }

// one runs a query of one row and returns its first column.
func (s *statement) one() (int64, error) {
	defer s.reset()
	if _, err := s.step(); err != nil {
		return 0, err
	}
	return s.integer(0), nil
}

// each calls f with each row of a query.
func (n *native) each(text string, f func(row *statement), values ...value) error {
	s, err := n.prepare(text)
	if err != nil {
		return err
	}
	defer s.reset()
	if err := s.bindAll(values...); err != nil {
		return err
	}
	for {
		if more, err := s.step(); err != nil || !more {
			return err
		}
		f(s)
	}
}

// changed is how many rows the last statement that writes changed, without those of
// triggers.
func (n *native) changed() int64 { return int64(sqlite3.Xsqlite3_changes(n.tls, n.db)) }

// lastInserted is the key of the row that was inserted last.
func (n *native) lastInserted() int64 { return sqlite3.Xsqlite3_last_insert_rowid(n.tls, n.db) }

// integer is the value of a column of the row that step read, counted from 0.
func (s *statement) integer(column int) int64 {
	return sqlite3.Xsqlite3_column_int64(s.tls, s.handle, int32(column))
}

// bytes are a copy of the value of a column, as integer counts it, nil for NULL.
func (s *statement) bytes(column int) []byte {
	at := sqlite3.Xsqlite3_column_blob(s.tls, s.handle, int32(column))
	return append([]byte(nil), memory(at, int(sqlite3.Xsqlite3_column_bytes(s.tls, s.handle, int32(column))))...)
}

// value is what a parameter may have.
type value struct {
	of    uint8
	bits  uint64
	bytes []byte
}

const (
	isNull = iota
	isInteger
	isReal
	isText
	isBlob
)

// bind gives a parameter, counted from 1, its value. A text is copied into the
// connection's room for texts, which must have been cleared after the statement
// before: its bytes must be there until the statement has run.
func (s *statement) bind(parameter int, v value) error {
	if v.of == isNull && !s.some[parameter] {
		return nil // as many are, row after row
	}
	s.some[parameter] = v.of != isNull
	at, code := int32(parameter), int32(0)
	switch v.of {
	case isNull:
		code = sqlite3.Xsqlite3_bind_null(s.tls, s.handle, at)
	case isInteger:
		code = sqlite3.Xsqlite3_bind_int64(s.tls, s.handle, at, int64(v.bits))
	case isReal:
		code = sqlite3.Xsqlite3_bind_double(s.tls, s.handle, at, math.Float64frombits(v.bits))
	default:
		if len(v.bytes) > math.MaxInt32 {
			return &nativeError{sqlite3.SQLITE_TOOBIG, "string or blob too big"}
		}
		text, err := s.texts.copy(v.bytes)
		if err != nil {
			return err
		}
		if v.of == isText {
			code = sqlite3.Xsqlite3_bind_text(s.tls, s.handle, at, text, int32(len(v.bytes)), sqlite3.SQLITE_STATIC)
		} else {
			code = sqlite3.Xsqlite3_bind_blob(s.tls, s.handle, at, text, int32(len(v.bytes)), sqlite3.SQLITE_STATIC)
		}
	}
	return s.check(code)
}

// textRoomBytes is what a room for texts keeps while nothing needs it. The texts of
// 64 rows without content take a third of it.
const textRoomBytes = 64 << 10

// textRoom has copies of the texts of one statement. SQLite must not be handed
// memory of Go: the pointer checks of the race detector refuse what the library does
// with it.
type textRoom struct {
	tls   *libc.TLS
	first block   // which stays
	more  []block // beside it
	block         // what is left of the last of them
}

// block is memory of C.
type block struct {
	at   uintptr // of room
	room []byte  // what is left of it
}

func (r *textRoom) copy(text []byte) (uintptr, error) {
	if len(text) >= len(r.room) { // never to the end: an empty text has an address in the block too
		if err := r.grow(len(text) + 1); err != nil {
			return 0, err
		}
	}
	at := r.at
	n := copy(r.room, text)
	r.at, r.room = r.at+uintptr(n), r.room[n:]
	return at, nil
}

// grow begins another block. Those before must not move.
func (r *textRoom) grow(size int) error {
	size = max(size, textRoomBytes)
	at := libc.Xmalloc(r.tls, types.Size_t(size))
	if at == 0 {
		return errNoMemory
	}
	r.block = block{at, memory(at, size)}
	if r.first.at == 0 && size == textRoomBytes {
		r.first = r.block
	} else {
		r.more = append(r.more, r.block)
	}
	return nil
}

// clear forgets the texts.
func (r *textRoom) clear() {
	for _, b := range r.more {
		libc.Xfree(r.tls, b.at)
	}
	r.more, r.block = r.more[:0], r.first
}

func (r *textRoom) free() {
	r.clear()
	libc.Xfree(r.tls, r.first.at)
}

// memory is n bytes of C at an address.
func memory(at uintptr, n int) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), n) }
