package invoke

import (
	"fmt"
	"net/http"
	"runtime/debug"
	"time"
)

// patience is how long a provider may take to return after its context ended.
// Providers that obey their context return at once, but a busy machine may delay
// them.
const patience = 500 * time.Millisecond

// work is the call of a provider on a goroutine of its own. A provider may ignore
// its context, and a goroutine in such a call can't be stopped. So the attempt
// waits for the goroutine only until a little after its context ended, and then
// abandons it. Providers that are known to obey their context are called without
// such a goroutine.
type work struct {
	// turn is a lock that is held while the caller takes a piece. It is nil where
	// the attempt's own goroutine does the work.
	turn      chan struct{}
	ended     bool
	abandoned bool // no goroutine waits for it any more
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

// came is the outcome of work.
type came[T any] struct {
	value    T
	panicked *Panic
}

// Panic is a panic, of a provider for example, on a goroutine that Invoke
// started. Invoke panics with it on its caller's goroutine.
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

// Error returns the text that Go prints for a panic that is not recovered.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// await does the work on a goroutine of its own and waits for it. It returns false
// where it abandons the work because the attempt's context has ended; late then
// gets the outcome. The work must touch nothing but its own data, except while it
// holds the lock of a work that is not abandoned. await panics where the work
// does.
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
			defer func() { _ = recover() }() // no goroutine waits for it
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

// abandon stops waiting for the work. It returns false where the work has ended.
func (w *work) abandon() bool {
	w.lock()
	defer w.unlock()
	w.abandoned = !w.ended
	return w.abandoned
}
