package definition

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// The ceilings of the expanded files of a workspace.
const (
	// MaxNodes is how many values and keys the definitions of a workspace may
	// have together. Values that aliases repeat are counted each time. They
	// stay in memory, with about 130 bytes each.
	MaxNodes = 2_000_000
	// MaxContent bounds the content of one definition in bytes: its variants with
	// all that they inherit, its values with the default that they patch. The
	// contents of all definitions of a workspace may have MaxBytes.
	MaxContent = 16 << 20
	// MaxPatterns bounds the memory of the regular expressions of all tables, in
	// bytes as rules.Table.PatternSize estimates them.
	MaxPatterns = 128 << 20
	// LoadTimeout bounds the work of one loading: parsing, checks, tests and the
	// analysis of tables. Reading the files and waiting for other loadings do not
	// count. Definitions that take longer are refused.
	LoadTimeout = 10 * time.Second
)

// longestLoad is LoadTimeout, and longer in tests and with the race detector.
var longestLoad = LoadTimeout

// turns makes the process load one workspace at a time, so that many that change
// at once use no more processors and memory than one.
var turns = make(chan struct{}, 1)

// turn waits until this loading may run. Its turn ends with done.
func turn(ctx context.Context) (done func(), err error) {
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// serving reports whether the process may answer requests, because a source has
// settled.
var serving atomic.Bool

// besides is how many processors a loading may use: all but one while the process
// answers requests, otherwise all.
func besides() int {
	if !serving.Load() {
		return runtime.GOMAXPROCS(0)
	}
	return max(runtime.GOMAXPROCS(0)-1, 1)
}

// largeLoad is from how many allocated bytes on a loading gives memory back.
const largeLoad = 128 << 20

// givingBack reports whether memory is being given back.
var givingBack atomic.Bool

// allocated returns how many bytes the process has allocated since it began.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// giveBack returns the memory of a large loading to the system, in the background.
// The garbage collector would keep much of it for minutes. before is the value of
// allocated when the loading began.
func giveBack(before uint64) {
	if allocated()-before < largeLoad || !givingBack.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer givingBack.Store(false)
		debug.FreeOSMemory()
	}()
}

// effort measures the work of a loading.
type effort struct {
	begun time.Time

	mu   sync.Mutex // guards the fields below, of what took longest so far
	pos  document.Position
	what string
	took time.Duration
}

// spent records how long something took.
func (e *effort) spent(took time.Duration, pos document.Position, what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if took > e.took {
		e.pos, e.what, e.took = pos, what, took
	}
}

// stopped reports whether the loading must end: because it takes too long, was
// cancelled, or exceeds a ceiling.
func (l *loader) stopped() bool { return l.ctx.Err() != nil || l.full.Load() }

// gaveUp returns the error of a loading that was stopped.
func (l *loader) gaveUp() error {
	var errs document.Errors
	switch {
	case l.full.Load():
		errs.Merge(l.errs)
		errs.AddAt(l.position("."), "%s: make several workspaces of the definitions, or repeat less in them", *l.overfull.Load())
	case errors.Is(l.ctx.Err(), context.DeadlineExceeded):
		e := &l.effort
		e.mu.Lock()
		defer e.mu.Unlock()
		pos := e.pos
		if pos.Line == 0 {
			pos = l.position(".")
		}
		errs.AddAt(pos, "loading the definitions was given up after %.1f s, so they are refused: %s took longest, %.1f s so far. A loading may take %s",
			time.Since(e.begun).Seconds(), e.what, e.took.Seconds(), LoadTimeout)
	default:
		return fmt.Errorf("%s: loading the definitions was ended: %w", l.dir, context.Cause(l.ctx))
	}
	return errs.Err()
}

// overflow ends the loading because it exceeds a ceiling.
func (l *loader) overflow(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.overfull.CompareAndSwap(nil, &text)
	l.full.Store(true)
}

// grow counts the values and keys of a file, including the ones that its aliases
// repeat. It may be called in parallel.
func (l *loader) grow(nodes, bytes int) {
	if n := l.nodes.Add(int64(nodes)); n > MaxNodes {
		l.overflow("the definitions have more than %d values and keys together", MaxNodes)
	}
	if n := l.text.Add(int64(bytes)); n > MaxBytes {
		l.overflow("the definitions have more than %d MiB of text together, with what aliases repeat", MaxBytes>>20)
	}
}

// growPatterns counts the regular expressions of a table. It may be called in
// parallel.
func (l *loader) growPatterns(size int) {
	if n := l.patterns.Add(int64(size)); n > MaxPatterns {
		l.overflow("the regular expressions of the tables take more than %d MiB together", MaxPatterns>>20)
	}
}

// growContent counts the bytes of a definition's content. It may be called in
// parallel.
func (l *loader) growContent(d *doc, bytes int, errs *document.Errors) {
	if bytes > MaxContent {
		errs.Add(d.node, "the %s %s has %d bytes when it is written out, at most %d MiB are possible", d.kind.Noun, d.key, bytes, MaxContent>>20)
	}
	if n := l.content.Add(int64(bytes)); n > MaxBytes {
		l.overflow("the definitions have more than %d MiB together when they are written out, with what variants inherit", MaxBytes>>20)
	}
}
