package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/private"
)

// Config says where traces are stored, and for how long. Path is required.
type Config struct {
	Path   string       // of the file; missing directories are made, for the owner alone
	Logger *slog.Logger // default: none

	// CurrentRetention is asked whenever something may be deleted. Traces older than
	// it are deleted, with their metrics. Default: 0, never.
	CurrentRetention func() time.Duration

	// CurrentMaxSize bounds the bytes of the file that are in use. Once a minute the oldest
	// replies are deleted until they take no more than their share of it, and then the
	// oldest traces and metrics until the file is within it. It counts versions and
	// revisions too, which are not deleted for it. Default: 0, no bound.
	CurrentMaxSize func() int64

	// Sinks returns the names of the outboxes that are drained, as OpenOutbox takes them.
	// Default: none. The retention spares the rows that one of them has yet to deliver; the
	// size does not.
	Sinks func() []string

	// OnLoss is called, in the writer's goroutine, with the number of rows that were
	// deleted for the size before this sink had them.
	OnLoss func(sink string, rows int64)

	// OnEvicted is called, in the writer's goroutine, with the number of rows of a table
	// that were deleted for the size, and the time of the newest: traces, metrics or replies.
	OnEvicted func(table string, rows int64, newest time.Time)

	// OnSetAside is called with the new path of a damaged file.
	OnSetAside func(aside string)

	maxPages   int   // of the file, to test a full disk; 0: SQLite's own bound
	replyShare int64 // of a file without a size, to test it; 0: the default
}

// Store is an open database. It implements [recorder.Store], whose methods are for
// one goroutine; those of the embedded Reader may be called concurrently.
type Store struct {
	*Reader
	config  Config
	path    string
	shared  *shared
	file    os.FileInfo // of the file that was opened
	opened  time.Time
	writer  *native // of batches
	insert  statements
	db      *sql.DB
	conn    *sql.Conn // of all other writes
	durable bool      // synchronous is FULL on conn
	clock   clockGuard
	spared  map[*table]row // the last row that this maintenance looked at
	loss    loss
	unswept int64 // about how much sweep has to look at: bytes stored, and revisions deleted

	stop       context.CancelFunc // of the background goroutines
	background sync.WaitGroup
	broken     chan struct{} // closed when the file is found to be damaged
	breakOff   func()        // closes broken
	written    atomic.Bool   // since the last checkpoint
	finishLog  atomic.Bool   // the next commit finishes a checkpoint
}

// Open opens or makes the database. It renames a damaged file, or one that is no database
// at all, to PATH.corrupt-TIME, with its log, and begins a new one with the old trace key
// if that can still be read. Damage inside a large file is found in the background. Open
// fails for a database of another application or format, and leaves it alone. It follows a
// link, and logs a warning if others can read the file.
func Open(ctx context.Context, config Config) (*Store, error) {
	if config.Path == "" {
		return nil, errors.New("the trace store needs a path")
	}
	if config.CurrentRetention == nil {
		config.CurrentRetention = func() time.Duration { return 0 }
	}
	if config.CurrentMaxSize == nil {
		config.CurrentMaxSize = func() int64 { return 0 }
	}
	if config.Sinks == nil {
		config.Sinks = func() []string { return nil }
	}
	if config.OnLoss == nil {
		config.OnLoss = func(string, int64) {}
	}
	if config.OnEvicted == nil {
		config.OnEvicted = func(string, int64, time.Time) {}
	}
	if config.OnSetAside == nil {
		config.OnSetAside = func(string) {}
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	path, err := filepath.Abs(config.Path)
	if err != nil {
		return nil, err
	}
	store, err := openSound(ctx, config, path)
	if err != nil {
		return nil, fmt.Errorf("trace store %s: %w", path, classify(err))
	}
	if err := store.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("trace store %s: %w", path, err), store.close())
	}
	// SQLite puts the log next to the target of a link.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		private.Warn(config.Logger, target, target+"-wal", target+"-shm")
	}
	return store, nil
}

// openSound opens the file, or replaces it if it is damaged.
func openSound(ctx context.Context, config Config, path string) (*Store, error) {
	file, err := createFile(path)
	if err != nil {
		return nil, err
	}
	// Damage that was found in use, when the file could not be set aside.
	if err := sharedOf(path).damaged(file); err != nil {
		return replace(ctx, config, path, file, err)
	}
	store, err := open(ctx, config, path, file)
	if isCorrupt(err) {
		return replace(ctx, config, path, file, err)
	}
	return store, err
}

func open(ctx context.Context, config Config, path string, file os.FileInfo) (_ *Store, err error) {
	s := &Store{config: config, path: path, shared: sharedOf(path), file: file, opened: time.Now(), durable: true, unswept: 1, broken: make(chan struct{})}
	s.breakOff = sync.OnceFunc(func() { close(s.broken) })
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.db, err = openDatabase(writerDSN(path), 1); err != nil {
		return nil, err
	}
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return nil, err
	}
	if err = prepareFile(ctx, s.conn); err != nil {
		return nil, err
	}
	if err = limitPages(s.maintains(ctx), config.maxPages); err != nil {
		return nil, err
	}
	if err = makeStoreID(ctx, s.conn); err != nil {
		return nil, err
	}
	if s.writer, err = openNative(writerDSN(path)); err != nil {
		return nil, err
	}
	if err = limitPages(s.writer.once, config.maxPages); err != nil {
		return nil, err
	}
	if err = s.insert.prepare(s.writer); err != nil {
		return nil, err
	}
	s.Reader, err = openReader(path)
	return s, err
}

// start starts the background goroutines.
func (s *Store) start() error {
	checkpoints, err := openDatabase(writerDSN(s.path), 1)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.shared.add(s)
	s.background.Go(func() { s.checkUntil(ctx) })
	s.background.Go(func() { s.keepStats(ctx) })
	s.background.Go(func() { s.keepExperiments(ctx, statsEvery, ofDefinitions, "experiments are not counted") })
	s.background.Go(func() { s.keepExperiments(ctx, rolloutsLook, ofRollouts, "rollouts are not counted") })
	s.background.Go(func() {
		defer func() { _ = checkpoints.Close() }()
		s.checkpointUntil(ctx, checkpoints)
	})
	return nil
}

// prepareFile makes an empty file a store, or checks that the file is one.
func prepareFile(ctx context.Context, conn *sql.Conn) error {
	empty, err := checkOwner(ctx, conn)
	if err != nil {
		return err
	}
	// It must be set before the file is first written, and allows to return deleted pages a
	// few at a time.
	// https://www.sqlite.org/pragma.html#pragma_auto_vacuum
	if _, err := conn.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL"); err != nil {
		return err
	}
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file system does not allow a write-ahead log (journal mode %s)", mode)
	}
	if empty {
		if err := makeSchema(ctx, conn); err != nil {
			return err
		}
	}
	if _, err = conn.ExecContext(ctx, consoleSchema+textsSchema+experimentsSchema+rolloutsSchema); err != nil {
		return err
	}
	return addUnits(ctx, conn)
}

// limitPages bounds the file's size on a connection, to test a full disk.
func limitPages(run runner, maxPages int) error {
	if maxPages == 0 {
		return nil
	}
	return run(fmt.Sprintf("PRAGMA max_page_count = %d", maxPages))
}

// createFile makes the file for its owner alone; the log files get its mode. It syncs the
// directory, so that the file's name survives a power cut.
func createFile(path string) (os.FileInfo, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.Stat(path)
	}
	if err != nil {
		return nil, err
	}
	private.RestrictFile(file)
	info, err := file.Stat()
	if err := errors.Join(err, file.Close(), syncDirectory(dir)); err != nil {
		return nil, err
	}
	return info, nil
}

func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories can't be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Broken implements [recorder.Store].
func (s *Store) Broken() <-chan struct{} { return s.broken }

// Close closes the database. If it was found to be damaged, Close sets it aside and begins
// a new one in its place.
func (s *Store) Close() error {
	if s.stop != nil {
		s.stop()
	}
	s.background.Wait()
	s.shared.remove(s)
	err := s.close()
	damage := s.shared.damaged(s.file)
	if damage == nil {
		return err
	}
	successor, err := replace(context.Background(), s.config, s.path, s.file, damage)
	if err != nil {
		return fmt.Errorf("trace store %s: %w", s.path, err)
	}
	return successor.close()
}

func (s *Store) close() error {
	var errs []error
	if s.Reader != nil {
		errs = append(errs, s.Reader.Close())
	}
	errs = append(errs, s.writer.close())
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	return errors.Join(errs...)
}
