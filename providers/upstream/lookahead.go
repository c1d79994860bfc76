package upstream

import (
	"errors"
	"io"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Steps reads an answer in one provider's wire format, step by step.
type Steps interface {
	// Step reads on. A step may say nothing; the error is that of
	// providers.Stream.
	Step() (providers.Delta, error)
	// Ready reports whether Step returns without waiting.
	Ready() bool
}

// Lookahead makes the deltas of a providers.Stream out of steps: it knows of
// each delta whether another follows at once, keeps the error that ended the
// answer, leaves out steps that say nothing where others follow, and joins
// characters that are split between two steps. Its zero value is ready for use.
type Lookahead struct {
	halves  halves
	ahead   bool // next and its error are already read
	next    providers.Delta
	nextErr error
	end     error // the end, once what was held before it is handed out
	err     error // the end: it stays
	closed  bool
}

// Next is providers.Stream's.
func (l *Lookahead) Next(s Steps) (providers.Delta, error) {
	if l.err != nil {
		return providers.Delta{}, l.err
	}
	var d providers.Delta
	if l.ahead {
		d, l.err = l.next, l.nextErr
		l.ahead = false
	} else {
		d, l.err = l.step(s)
	}
	if l.err != nil {
		return providers.Delta{}, l.err
	}
	// What can be had without waiting is looked at now: only then is it known
	// whether it leads to another delta.
	for l.end != nil || s.Ready() {
		l.next, l.nextErr = l.step(s)
		if l.nextErr != nil || l.next.Content != "" {
			l.ahead, d.More = true, true
			break
		}
		d.ToolCall = d.ToolCall || l.next.ToolCall
	}
	return d, nil
}

// step reads a step and makes its text whole.
func (l *Lookahead) step(s Steps) (providers.Delta, error) {
	if l.end != nil {
		return l.rest()
	}
	d, err := s.Step()
	if err == io.EOF {
		l.end = err
		return l.rest()
	}
	if err != nil {
		return providers.Delta{}, err
	}
	d.Content = l.halves.join(d.Content)
	return d, nil
}

// rest is what is held at the end, then the end.
func (l *Lookahead) rest() (providers.Delta, error) {
	if rest := l.halves.rest(); rest != "" {
		return providers.Delta{Content: rest}, nil
	}
	return providers.Delta{}, l.end
}

// Last makes the step that calls it the last one: the answer is whole.
func (l *Lookahead) Last() { l.end = io.EOF }

// Err is what ended the answer, nil where nothing did yet.
func (l *Lookahead) Err() error { return l.err }

// Close ends the answer. It is false where that was done before.
func (l *Lookahead) Close() bool {
	if l.closed {
		return false
	}
	l.closed = true
	if l.err == nil {
		l.err = errClosed
	}
	return true
}

var errClosed = errors.New("the stream is closed")
