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
	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

// Config says where and how long traces are kept. Path is required.
type Config struct {
	Path      string        // of the file; missing directories are made, for the owner alone
	Retention time.Duration // traces older than this are deleted, with their metrics; 0: never
	Logger    *slog.Logger  // default: none

	// CurrentRetention is asked, where given, in place of Retention whenever
	// something may be deleted: a retention that changes while the store is open.
	CurrentRetention func() time.Duration

	// MaxSize bounds the bytes of the file that are in use; 0: it does not. Once
	// a minute the oldest replies are deleted until they take no more than their
	// share of it, and then the oldest traces and metrics until it holds. It
	// counts versions and revisions too, which are not deleted for it.
	MaxSize        int64
	CurrentMaxSize func() int64 // in place of MaxSize, where given

	// Sinks names the outboxes that are drained, where given, as OpenOutbox has
	// them. The retention spares what one of them has yet to deliver; the size
	// does not.
	Sinks func() []string

	// OnLoss is called, in the writer's goroutine, with how many rows were deleted
	// for the size before this sink had them.
	OnLoss func(sink string, rows int64)

	// OnEvicted is called, in the writer's goroutine, with how many rows of a table
	// were deleted for the size: traces, metrics or replies.
	OnEvicted func(table string, rows int64)

	// OnSetAside is called with the path to which a damaged file was moved.
	OnSetAside func(aside string)

	maxPages   int   // of the file, to test a full disk; 0: SQLite's own bound
	replyShare int64 // of a file without a size, to test it; 0: the default
}

// Opener returns the function that [recorder.Options] opens the store with.
func Opener(config Config) func(context.Context) (recorder.Store, error) {
	return func(ctx context.Context) (recorder.Store, error) { return Open(ctx, config) }
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
	feed    feed // of what they stored
	db      *sql.DB
	conn    *sql.Conn // of all else that writes
	durable bool      // synchronous is FULL on conn
	clock   clockGuard
	spared  map[*table]row // how far this maintenance has looked
	loss    loss
	unswept int64 // about what sweep has to look at: bytes that came, and revisions that went

	stop       context.CancelFunc // of what runs in the background
	background sync.WaitGroup
	broken     chan struct{} // closed when the file is found to be damaged
	breakOff   func()        // closes broken
	written    atomic.Bool   // since the last checkpoint
	finishLog  atomic.Bool   // the next commit is to copy the rest of the log
}

// Open opens or makes the database and brings its schema up to date. A file that
// is damaged, or no database at all, is set aside under the name
// PATH.corrupt-TIME, with its log, and a new one is begun under its trace key if
// that can still be read; whether the content of a large file is damaged is found
// out in the background.
// A database of another application is left alone, which is an error. A link is
// followed, and what others can read is warned of.
func Open(ctx context.Context, config Config) (*Store, error) {
	if config.Path == "" {
		return nil, errors.New("the trace store needs a path")
	}
	if config.CurrentRetention == nil {
		config.CurrentRetention = func() time.Duration { return config.Retention }
	}
	if config.CurrentMaxSize == nil {
		config.CurrentMaxSize = func() int64 { return config.MaxSize }
	}
	if config.Sinks == nil {
		config.Sinks = func() []string { return nil }
	}
	if config.OnLoss == nil {
		config.OnLoss = func(string, int64) {}
	}
	if config.OnEvicted == nil {
		config.OnEvicted = func(string, int64) {}
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
	// SQLite puts the log beside what a link leads to.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		private.Warn(config.Logger, target, target+"-wal", target+"-shm")
	}
	return store, nil
}

// openSound opens the file, or another in its place where it is damaged.
func openSound(ctx context.Context, config Config, path string) (*Store, error) {
	file, err := createFile(path)
	if err != nil {
		return nil, err
	}
	// What was found in use, and could not be set aside then.
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

// start begins what runs in the background.
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
	s.background.Go(func() {
		defer func() { _ = checkpoints.Close() }()
		s.checkpointUntil(ctx, checkpoints)
	})
	return nil
}

// prepareFile makes the file ours, or makes sure that it is.
func prepareFile(ctx context.Context, conn *sql.Conn) error {
	scripts, err := migrations()
	if err != nil {
		return err
	}
	if err := checkOwner(ctx, conn, len(scripts)); err != nil {
		return err
	}
	// Only takes before the file is first written, and lets deleted content be
	// given back a little at a time.
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
	return migrate(ctx, conn, scripts)
}

// limitPages bounds what a connection lets the file grow to, to test a full disk.
func limitPages(run runner, maxPages int) error {
	if maxPages == 0 {
		return nil
	}
	return run(fmt.Sprintf("PRAGMA max_page_count = %d", maxPages))
}

// createFile makes the file for its owner alone, so that the log files, which
// get its mode, are too, and makes its name survive a power cut.
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

// Close closes the database. If it was found to be damaged, it is set aside and
// a new one begun in its place.
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
