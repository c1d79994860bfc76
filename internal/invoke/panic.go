package invoke

import (
	"fmt"
	"runtime/debug"
)

// Panic is a panic, of a provider for example, on a goroutine that Invoke
// started. Invoke panics with it on its caller's goroutine.
type Panic struct {
	Value any    // it may hold a caller's data
	Stack []byte // of the goroutine that panicked
}

func newPanic(value any) *Panic {
	if p, ok := value.(*Panic); ok {
		return p
	}
	return &Panic{value, debug.Stack()}
}

// Error returns the text that Go prints for a panic that is not recovered.
func (p *Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }
