package definition

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Source is a workspace that is kept up to date with its directory. Its
// snapshot is always valid: a set with a mistake is reported and not served.
// It is safe for concurrent use.
type Source struct {
	dir     string
	current atomic.Pointer[Snapshot]
	failure atomic.Pointer[failure]
	// restored is the time since when the served set was served, if it is a
	// Past.
	restored atomic.Pointer[time.Time]

	loading sync.Mutex // held while a set is loaded and its news is spread, and by Hold
	settled bool       // Settle has decided the served set
	awaits  bool       // Serve gives the files: there is no directory
	given   []trace.File
	memory  memory // of the last loading
	read    func(ctx context.Context, dir string, m *memory, known ...Configuration) (*Snapshot, error)
	// ctx ends with Close. A loading under way ends with it.
	ctx    context.Context
	cancel context.CancelFunc

	mu          sync.Mutex       // guards the fields below
	known       []*Configuration // of the gateways that use the source
	used        bool             // Use was called
	subscribers map[int]subscriber
	nextID      int
	watcher     *watcher
	closed      bool
}

// subscriber has the functions of one Subscribe.
type subscriber struct {
	changed func(*Snapshot, error)
	files   func(*Snapshot) // may be nil
}

// failure is the reason why the directory is not served.
type failure struct {
	err   error
	since time.Time // of the first failure in a row
}

// Open loads the workspace in dir, for the gateways that known describes. It fails
// when the workspace is invalid, with a *document.MultiError. It does not watch
// yet.
func Open(dir string, known ...Configuration) (*Source, error) {
	s := OpenAnyway(dir, known...)
	if err := s.LastError(); err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

// OpenAnyway is Open of a workspace that may be invalid: then LastError says why, and
// there is no snapshot before Settle.
func OpenAnyway(dir string, known ...Configuration) *Source {
	s := newSource(dir, known)
	before := allocated()
	defer giveBack(before)
	snapshot, err := s.load()
	if err != nil {
		s.fail(err)
		return s
	}
	s.current.Store(snapshot)
	return s
}

func newSource(dir string, known []Configuration) *Source {
	s := &Source{dir: dir, read: loadAgain, subscribers: make(map[int]subscriber)}
	for i := range known {
		s.known = append(s.known, &known[i])
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// fail records why the directory is not served.
func (s *Source) fail(err error) {
	since := time.Now()
	if last := s.failure.Load(); last != nil {
		since = last.since
	}
	s.failure.Store(&failure{err, since})
}

// Settle decides the set served at first: the directory if it is valid, and else
// the set that was served last. An edit that was made meanwhile and removes what
// Reload would refuse to remove is invalid. servedLast returns that set, or nil. With
// strict an invalid directory is an error.
//
// Later calls do nothing: a source that is served follows its directory.
func (s *Source) Settle(servedLast func() *Past, strict bool) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.settled {
		serving.Store(true)
		return nil
	}
	last := servedLast()
	if served := s.Snapshot(); served != nil && last != nil {
		if err := removal(s.dir, last.Counts(), served); err != nil {
			s.fail(err)
		}
	}
	if err := s.LastError(); err != nil {
		if strict || last == nil {
			return err
		}
		snapshot, unfit := s.guarded(func() (*Snapshot, error) { return s.restore(last) })
		switch {
		case unfit == nil:
			s.restored.Store(&last.Since)
			s.current.Store(snapshot)
		case s.Snapshot() != nil:
			s.failure.Store(nil) // a removed set can't be kept
		default:
			return fmt.Errorf("%w\nand revision %s, which was served last, can't be: %w", err, last.Revision, unfit)
		}
	}
	s.settled = true
	serving.Store(true)
	return nil
}

// restore builds a past set again, as if its files were in the directory.
func (s *Source) restore(last *Past) (*Snapshot, error) {
	d, err := last.directory(s.dir)
	if err != nil {
		return nil, err
	}
	return load(s.ctx, d, new(memory), s.configurations(), new(document.Errors))
}

// load loads the directory.
func (s *Source) load() (*Snapshot, error) {
	return s.guarded(func() (*Snapshot, error) { return s.read(s.ctx, s.dir, &s.memory, s.configurations()...) })
}

// guarded calls read. It turns a panic into an error, so that no file's content can
// stop the gateway, which serves the last valid set on.
func (s *Source) guarded(read func() (*Snapshot, error)) (snapshot *Snapshot, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.memory = memory{}
			snapshot, err = nil, fmt.Errorf("%s: reading the definitions panicked, please report this: %v\n%s", s.dir, p, debug.Stack())
		}
	}()
	return read()
}

// Use checks further loadings for a gateway with this configuration too, until the
// returned function is called. A set is served where one of the gateways that use
// the source can use it, because two do while one replaces the other. Those of
// Open count until the first Use. Use does not check the set that is served, which
// Snapshot.CheckConfigured does.
func (s *Source) Use(known Configuration) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.used {
		s.known, s.used = nil, true
	}
	s.known = append(s.known, &known)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known = slices.DeleteFunc(s.known, func(k *Configuration) bool { return k == &known })
	}
}

// configurations returns the known configurations of the gateways that use the
// source.
func (s *Source) configurations() []Configuration {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := make([]Configuration, len(s.known))
	for i, k := range s.known {
		known[i] = *k
	}
	return known
}

// SlowLoad is after how long a loading that still runs is reported.
const SlowLoad = 10 * time.Second

// SlowLoadError is the error while a directory has been loading for longer than
// SlowLoad. The outcome of the loading replaces it.
type SlowLoadError struct {
	Since time.Time
}

// Error returns since when the loading runs, and the set served meanwhile.
func (e *SlowLoadError) Error() string {
	return fmt.Sprintf("the definitions have been loading since %s: the last good set is served meanwhile; if this does not end, undo the last edit and restart",
		e.Since.UTC().Format(time.RFC3339))
}

// reportSlow reports a loading that begins now once it takes longer than SlowLoad.
// The returned function is called at the end of the loading.
func (s *Source) reportSlow() (ended func()) {
	var (
		mu    sync.Mutex
		over  bool
		since = time.Now()
	)
	timer := time.AfterFunc(SlowLoad, func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		err := &SlowLoadError{Since: since}
		s.fail(err)
		s.publish(s.Snapshot(), err)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}

// Dir returns the directory of the workspace.
func (s *Source) Dir() string { return s.dir }

// Snapshot returns the last valid set. It is nil between an OpenAnyway of an invalid
// set and Settle.
func (s *Source) Snapshot() *Snapshot { return s.current.Load() }

// LastError returns why the directory is not served, or nil. It is the
// error of the last loading, or a *SlowLoadError while a loading takes long.
func (s *Source) LastError() error {
	return s.State().Err
}

// Stale reports whether the served set is not that of the directory: LastError is not nil.
func (s *Source) Stale() bool { return s.failure.Load() != nil }

// State describes how a source's directory and its served set differ.
type State struct {
	Err   error     // as LastError
	Since time.Time // when the directory began not to be served; zero where Err is nil
	// Restored is when the served set was served first, if it was restored by
	// Settle and not read from the directory; zero otherwise.
	Restored time.Time
}

// State returns how the directory and its served set differ.
func (s *Source) State() State {
	var state State
	if f := s.failure.Load(); f != nil {
		state.Since, state.Err = f.since, f.err
	}
	if restored := s.restored.Load(); restored != nil {
		state.Restored = *restored
	}
	return state
}

// Subscribe calls changed after every loading with news: with a new snapshot, or with
// the served one and the error that keeps the directory from being served. While a
// loading takes long the error is a *SlowLoadError. After a loading without news whose
// files differ, because comments or tests were edited, Subscribe calls files, unless it
// is nil. Calls come one at a time, in order, and must not call Reload. The subscription
// ends with cancel, during which a last call may still run.
func (s *Source) Subscribe(changed func(*Snapshot, error), files func(*Snapshot)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.nextID
	s.nextID++
	s.subscribers[id] = subscriber{changed, files}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, id)
	}
}

// Reload loads the directory now and serves it if it is valid, and removes no more
// of the served set than an edit may. Otherwise the served set stays, and the error is
// that of LastError. Of a source of Await it loads the files again that it serves.
func (s *Source) Reload() error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.awaits && s.given == nil {
		return nil
	}
	return s.reload()
}

// reload is Reload under the lock.
func (s *Source) reload() error {
	before := allocated()
	defer giveBack(before)
	ended := s.reportSlow()
	next, err := s.load()
	ended()
	if err != nil && s.ctx.Err() != nil {
		return err // the workspace was closed meanwhile, which is no news
	}
	last, served := s.LastError(), s.Snapshot()
	if err == nil && served != nil {
		err = removal(s.dir, served.Counts(), next)
	}
	if err != nil {
		s.fail(err)
		if last == nil || last.Error() != err.Error() {
			s.publish(served, err)
		}
		return err
	}
	s.failure.Store(nil)
	s.restored.Store(nil)
	s.current.Store(next)
	// Files were touched or comments edited. That is no news.
	if last == nil && next.Revision == served.Revision && sameWarnings(next.Warnings, served.Warnings) {
		if !slices.Equal(next.Files, served.Files) {
			for _, to := range s.inOrder() {
				if to.files != nil {
					to.files(next)
				}
			}
		}
		return nil
	}
	s.publish(next, nil)
	return nil
}

// Hold runs write, which changes files of the directory, while no loading is under way: so
// none serves a part of what it writes.
func (s *Source) Hold(write func() error) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	return write()
}

// sameWarnings reports whether warnings are equal without their places, which every
// edit moves.
func sameWarnings(a, b []Warning) bool {
	return slices.EqualFunc(a, b, func(a, b Warning) bool {
		return a.Message == b.Message && a.Pos.File == b.Pos.File
	})
}

// publish tells the subscribers of news.
func (s *Source) publish(snapshot *Snapshot, err error) {
	for _, to := range s.inOrder() {
		to.changed(snapshot, err)
	}
}

// inOrder returns the subscribers in the order in which they subscribed.
func (s *Source) inOrder() []subscriber {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]subscriber, 0, len(s.subscribers))
	for _, id := range slices.Sorted(maps.Keys(s.subscribers)) {
		list = append(list, s.subscribers[id])
	}
	return list
}

// Watch reloads the directory whenever it changes, until Close. Further calls do
// nothing, and neither does one of a source of Await.
func (s *Source) Watch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watcher != nil || s.closed || s.awaits {
		return nil
	}
	w, err := newWatcher(s.dir, recheck, func() { _ = s.Reload() }, func() bool { return s.LastError() != nil })
	if err != nil {
		return &document.MultiError{List: []*document.Error{{
			Pos:     document.Position{File: s.dir},
			Message: fmt.Sprintf("the directory can't be watched: %v", err),
		}}}
	}
	s.watcher = w
	return nil
}

// Close ends the watching and cancels a reload under way, for whose end it waits. The
// last snapshot stays usable.
func (s *Source) Close() error {
	s.cancel()
	s.mu.Lock()
	w := s.watcher
	s.watcher, s.closed = nil, true
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.close()
}
