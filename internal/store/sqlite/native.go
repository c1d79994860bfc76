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

// native is the writer's connection. It calls the SQLite library directly. Through
// database/sql and the driver a row costs more than twice as much, mostly for values that
// are boxed, allocated and freed one by one, and for locks of a connection that only one
// goroutine uses. Processor time, measured by turns, the least of three rounds
// (BenchmarkCommit of 256 and BenchmarkRecording, 2026-11-26):
//
//	                          native  the driver alone   database/sql
//	a trace committed         3.6 µs            6.8 µs        8.2 µs
//	a report committed        4.2 µs            6.0 µs        7.3 µs
//	an evaluation recorded    7.0 µs                         14.2 µs
//
// An evaluation takes about 28 µs in all, to which database/sql would add a quarter.
//
// One goroutine at a time uses it and its statements. Rare statements and queries use
// connections of database/sql.
type native struct {
	tls      *libc.TLS
	db       uintptr // *sqlite3
	out      uintptr // memory for a pointer that a call returns
	texts    textBuffer
	durable  bool                  // synchronous is FULL
	prepared map[string]*statement // by their texts
	*watch
}

// openNative opens a connection to an existing file. Like the connections of openDatabase,
// it notes the errors that show damage.
func openNative(target dsn) (_ *native, err error) {
	s := sharedOf(target.path)
	s.moving.RLock()
	defer s.moving.RUnlock()
	file, err := os.Stat(target.path)
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
	name, err := libc.CString(target.uri)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(n.tls, name)
	code := sqlite3.Xsqlite3_open_v2(n.tls, name, n.out,
		sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_NOMUTEX|sqlite3.SQLITE_OPEN_URI, 0)
	n.db = n.returned() // on failure too: it has the message
	if err := n.check(code); err != nil {
		return nil, err
	}
	if err := n.check(sqlite3.Xsqlite3_extended_result_codes(n.tls, n.db, 1)); err != nil {
		return nil, err
	}
	for _, pragma := range target.pragmas {
		if err := n.execute("PRAGMA " + pragma); err != nil {
			return nil, err
		}
	}
	// SQLite opens the log by name, when it first reads: this makes it do so now.
	return n, n.execute("SELECT 1 FROM sqlite_schema LIMIT 1")
}

// close closes the connection and its statements, once.
func (n *native) close() error {
	if n == nil || n.tls == nil {
		return nil
	}
	n.shared.moving.RLock() // as in watchedConn.Close
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

// returned returns the pointer that a call put into out.
func (n *native) returned() uintptr { return **(**uintptr)(unsafe.Pointer(&n.out)) }

// check returns the error of a result code, nil if it means success.
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

// nativeError is an error of SQLite, with the text that the driver's errors have.
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
	bound  []bool  // by parameter: whether its value is not NULL
}

// prepare returns a prepared statement that is run often. It prepares each text once.
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
	s.bound = make([]bool, 1+sqlite3.Xsqlite3_bind_parameter_count(n.tls, s.handle))
	return s, nil
}

// execute runs a statement that is too rare to keep prepared.
func (n *native) execute(text string, values ...value) error {
	s, err := n.compile(text, 0)
	if err != nil {
		return err
	}
	defer s.finalize()
	return s.run(values...)
}

// once runs a statement without parameters that has an effect when it is prepared.
func (n *native) once(text string) error { return n.execute(text) }

// finalize frees the statement. It ignores the error of the last run, which SQLite returns
// again.
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

// reset ends a run. It ignores the error of the last step, which SQLite returns again.
func (s *statement) reset() { sqlite3.Xsqlite3_reset(s.tls, s.handle) }

// each calls f with each row of a query, until f fails. f may run other queries, unless this
// one has a text or blob as a parameter.
func (n *native) each(text string, f func(row *statement) error, values ...value) error {
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
		if err := f(s); err != nil {
			return err
		}
	}
}

// exec runs a statement that is run often, and returns the number of rows that it changed.
func (n *native) exec(text string, args ...any) (int64, error) {
	s, err := n.prepare(text)
	if err != nil {
		return 0, err
	}
	values := make([]value, len(args))
	for i, x := range args {
		switch x := x.(type) {
		case int64:
			values[i] = integerValue(x)
		case *int64:
			values[i] = integerValue(*x)
		case int:
			values[i] = integerValue(int64(x))
		case bool:
			values[i] = boolValue(x)
		case *float64:
			values[i] = realValue(*x)
		case string:
			values[i] = textValue(x)
		default:
			panic(fmt.Sprintf("a parameter of type %T", x))
		}
	}
	err = s.run(values...)
	return n.changed(), err
}

// changed returns the number of rows that the last INSERT, UPDATE or DELETE changed itself.
// https://www.sqlite.org/c3ref/changes.html
func (n *native) changed() int64 { return int64(sqlite3.Xsqlite3_changes(n.tls, n.db)) }

// integer returns the value of a column, counted from 0, of the row that step read.
func (s *statement) integer(column int) int64 {
	return sqlite3.Xsqlite3_column_int64(s.tls, s.handle, int32(column))
}

// real returns the value of a column, counted from 0, and whether it is not NULL.
func (s *statement) real(column int) (float64, bool) {
	if sqlite3.Xsqlite3_column_type(s.tls, s.handle, int32(column)) == sqlite3.SQLITE_NULL {
		return 0, false
	}
	return sqlite3.Xsqlite3_column_double(s.tls, s.handle, int32(column)), true
}

// bytes returns a copy of the value of a column, counted from 0; nil is NULL.
func (s *statement) bytes(column int) []byte { return append([]byte(nil), s.view(column)...) }

// view returns the value of a column, counted from 0, in memory of C that lasts until the
// next row is read; nil is NULL.
func (s *statement) view(column int) []byte {
	address := sqlite3.Xsqlite3_column_blob(s.tls, s.handle, int32(column))
	if address == 0 {
		return nil
	}
	return memory(address, int(sqlite3.Xsqlite3_column_bytes(s.tls, s.handle, int32(column))))
}

// value is a value for a parameter.
type value struct {
	kind  uint8
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

// bind binds a value to a parameter, counted from 1. It copies a text or blob into the
// connection's buffer, where its bytes must stay until the statement has run. The buffer
// must have been cleared after the statement before.
func (s *statement) bind(parameter int, v value) error {
	if v.kind == isNull && !s.bound[parameter] {
		return nil // as in the row before
	}
	s.bound[parameter] = v.kind != isNull
	index, code := int32(parameter), int32(0)
	switch v.kind {
	case isNull:
		code = sqlite3.Xsqlite3_bind_null(s.tls, s.handle, index)
	case isInteger:
		code = sqlite3.Xsqlite3_bind_int64(s.tls, s.handle, index, int64(v.bits))
	case isReal:
		code = sqlite3.Xsqlite3_bind_double(s.tls, s.handle, index, math.Float64frombits(v.bits))
	default:
		if len(v.bytes) > math.MaxInt32 {
			return &nativeError{sqlite3.SQLITE_TOOBIG, "string or blob too big"}
		}
		text, err := s.texts.copy(v.bytes)
		if err != nil {
			return err
		}
		if v.kind == isText {
			code = sqlite3.Xsqlite3_bind_text(s.tls, s.handle, index, text, int32(len(v.bytes)), sqlite3.SQLITE_STATIC)
		} else {
			code = sqlite3.Xsqlite3_bind_blob(s.tls, s.handle, index, text, int32(len(v.bytes)), sqlite3.SQLITE_STATIC)
		}
	}
	return s.check(code)
}

// textBufferBytes is the size of the block that a text buffer keeps. The texts of 64 rows
// without content take a third of it.
const textBufferBytes = 64 << 10

// textBuffer has copies of the texts of one statement, in memory of C. The library must not
// get memory of Go: the pointer checks of the race detector refuse its accesses.
type textBuffer struct {
	tls   *libc.TLS
	first block   // which clear keeps
	more  []block // which clear frees
	block         // the unused part of the last one
}

// block is memory of C.
type block struct {
	address uintptr // the address of unused
	unused  []byte
}

func (r *textBuffer) copy(text []byte) (uintptr, error) {
	if len(text) >= len(r.unused) { // an empty text needs an address in the block too
		if err := r.grow(len(text) + 1); err != nil {
			return 0, err
		}
	}
	address := r.address
	n := copy(r.unused, text)
	r.address, r.unused = r.address+uintptr(n), r.unused[n:]
	return address, nil
}

// grow begins another block. The blocks before it must not move.
func (r *textBuffer) grow(size int) error {
	size = max(size, textBufferBytes)
	address := libc.Xmalloc(r.tls, types.Size_t(size))
	if address == 0 {
		return errNoMemory
	}
	r.block = block{address, memory(address, size)}
	if r.first.address == 0 && size == textBufferBytes {
		r.first = r.block
	} else {
		r.more = append(r.more, r.block)
	}
	return nil
}

// clear forgets the texts.
func (r *textBuffer) clear() {
	for _, b := range r.more {
		libc.Xfree(r.tls, b.address)
	}
	r.more, r.block = r.more[:0], r.first
}

func (r *textBuffer) free() {
	r.clear()
	libc.Xfree(r.tls, r.first.address)
}

// memory returns n bytes of C at an address.
func memory(p uintptr, n int) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n) }
