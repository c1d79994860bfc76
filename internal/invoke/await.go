package invoke

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
)

// patience is how long a provider may take to return after the end of its
// context. Those that obey it return at once; on a busy machine they need some
// time, and are not to be taken for others.
const patience = 500 * time.Millisecond

// work is what a goroutine does for an attempt: it calls the provider. Nothing
// forces a provider to obey its context, and a goroutine that is in a call
// can't be stopped. So nobody but that goroutine waits for the provider: whoever
// waits for the goroutine lets it be, a little after the context's end. Providers
// that are known to obey do without.
type work struct {
	// turn is whose turn it is, of the two: a lock that is held while the caller
	// takes a piece. nil: the work is done by who waits for it.
	turn      chan struct{}
	ended     bool
	abandoned bool // nobody waits for it any more
}

func (w *work) lock() {
	if w.turn != nil {
		w.turn <- struct{}{}
	}
}

func (w *work) unlock() {
	if w.turn != nil {
		<-w.turn
	}
}

// came is what came of work.
type came[T any] struct {
	value    T
	panicked *Panic
}

// Panic is a panic on a goroutine that Invoke started, of a provider for one:
// Invoke panics with it on its caller's.
type Panic struct {
	Value any    // it may hold a caller's data
	Stack []byte // where it was
}

func newPanic(value any) *Panic {
	if p, ok := value.(*Panic); ok {
		return p
	}
	return &Panic{value, debug.Stack()}
}

// Error is the text of a panic that nobody recovers.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// await does the work on a goroutine of its own and waits for it. It is false
// when the work goes on although the attempt's context has ended; late then gets
// what still comes of it. Until then the work must keep to what is its own, but
// for what it does within the lock of a work that is not abandoned. A panic of
// the work is the waiting goroutine's.
func await[T any](a *attempt, do func(*work) T, late func(T)) (value T, ok bool) {
	w := &work{turn: make(chan struct{}, 1)}
	done := make(chan came[T], 1)
	go func() {
		var c came[T]
		defer func() {
			if p := recover(); p != nil {
				c.panicked = newPanic(p)
			}
			w.lock()
			w.ended = true
			abandoned := w.abandoned
			w.unlock()
			if !abandoned {
				done <- c
				return
			}
			defer a.health.stuck.Add(-1)
			defer func() { _ = recover() }() // nobody is left to tell
			if c.panicked == nil {
				late(c.value)
			}
		}()
		c.value = do(w)
	}()
	select {
	case c := <-done:
		return c.result()
	case <-a.ctx.Done():
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case c := <-done:
		return c.result()
	case <-timer.C:
	}
	if w.abandon() {
		a.abandoned = true
		a.health.stuck.Add(1)
		return value, false
	}
	c := <-done
	return c.result()
}

func (c came[T]) result() (T, bool) {
	switch {
	case c.panicked == nil:
		return c.value, true
	case c.panicked.Value == http.ErrAbortHandler:
		panic(http.ErrAbortHandler) // of the caller, and no fault
	}
	panic(c.panicked)
}

// abandon leaves the work to itself. It is false where the work has ended.
func (w *work) abandon() bool {
	w.lock()
	defer w.unlock()
	w.abandoned = !w.ended
	return w.abandoned
}
