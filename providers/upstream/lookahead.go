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
// answer, leaves out steps that say nothing where others follow, joins
// characters that are split between two steps, and hands out tool calls and
// keeps thoughts. Its zero value is ready for use.
type Lookahead struct {
	// Calls are the tool calls of the answer: the pieces that a step adds are handed
	// out with its delta.
	Calls ToolCalls

	content  halves
	thinking halves
	thoughts thoughts
	found    []providers.Found
	bytes    int               // of content so far
	refusal  bool              // all content that follows is the model's refusal
	refused  int               // of bytes, those before it
	said     []providers.Delta // come before the next step
	ahead    bool              // next and its error are already read
	next     providers.Delta
	nextErr  error
	end      error // the end, once everything held before it is handed out
	err      error // the end: it stays
	closed   bool
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
	// Look now at everything that needs no waiting: only then is it known
	// whether it leads to another delta.
	for l.end != nil || len(l.said) > 0 || s.Ready() {
		l.next, l.nextErr = l.step(s)
		if l.nextErr != nil || says(&l.next) {
			l.ahead, d.More = true, true
			break
		}
	}
	return d, nil
}

// says reports whether a delta is more than a sign of life.
func says(d *providers.Delta) bool {
	return d.Content != "" || d.Thinking != "" || d.Calls != nil || d.Thought != nil || d.Found != nil || d.Logprobs != nil
}

// Say hands out a delta, if it says something, before that of the step that calls it,
// for a step that says several things one after the other. Tool calls that the step began before come
// before it.
func (l *Lookahead) Say(d providers.Delta) {
	if calls := l.Calls.take(); calls != nil {
		l.said = append(l.said, providers.Delta{Calls: calls})
	}
	if says(&d) {
		l.take(&d)
		l.said = append(l.said, d)
	}
}

// Thoughts are the thoughts of the answer so far, see providers.Result. Deltas with
// Thinking make a thought up to a delta with Thought, or with another thing. More
// than MaxBody of them are not kept.
func (l *Lookahead) Thoughts() []providers.Thought { return l.thoughts.all() }

// Found is what searches added to the answer so far, see providers.Result.
func (l *Lookahead) Found() []providers.Found { return l.found }

// Refusal reports whether the end of the content is the model's refusal, and how many bytes
// are before it, see providers.Result.
func (l *Lookahead) Refusal() (bool, int) { return l.refusal, l.refused }

// step reads a step and makes its texts whole.
func (l *Lookahead) step(s Steps) (providers.Delta, error) {
	if len(l.said) == 0 && l.end == nil {
		d, err := s.Step()
		switch {
		case err == io.EOF:
			l.end = err
		case err != nil:
			return providers.Delta{}, err
		default:
			d.Calls = l.Calls.take()
			l.take(&d)
			if len(l.said) == 0 {
				return d, nil
			}
			l.said = append(l.said, d)
		}
	}
	if len(l.said) > 0 {
		d := l.said[0]
		l.said = l.said[1:]
		return d, nil
	}
	return l.rest()
}

// take makes the texts of a delta whole, and keeps its thoughts.
func (l *Lookahead) take(d *providers.Delta) {
	if d.Thinking != "" {
		d.Thinking = l.thinking.join(d.Thinking)
		l.thoughts.add(d.Thinking)
	}
	if d.Thought == nil && d.Content == "" && d.Calls == nil && d.Found == nil {
		return
	}
	if rest := l.thinking.rest(); rest != "" {
		l.said = append(l.said, providers.Delta{Thinking: rest})
		l.thoughts.add(rest)
	}
	if d.Thought != nil || l.thoughts.open() {
		d.Thought = l.thoughts.end(d.Thought)
	}
	d.Content = l.content.join(d.Content)
	if d.Refusal && !l.refusal {
		l.refusal, l.refused = true, l.bytes
	}
	d.Refusal = l.refusal
	l.bytes += len(d.Content)
	if f := d.Found; f != nil {
		if f.Raw != "" && (f.Kind == providers.FoundCall || f.Kind == providers.FoundResults) {
			f.Opaque = l.Place().Opaque(f.Raw)
		}
		f.Before, f.Thoughts = l.bytes, len(l.thoughts.ended)
		l.found = append(l.found, *f)
	}
}

// rest returns the held delta at the end, then the end.
func (l *Lookahead) rest() (providers.Delta, error) {
	if rest := l.thinking.rest(); rest != "" {
		l.thoughts.add(rest)
		return providers.Delta{Thinking: rest}, nil
	}
	if rest := l.content.rest(); rest != "" {
		return providers.Delta{Content: rest, Refusal: l.refusal}, nil
	}
	if calls := l.Calls.take(); calls != nil {
		return providers.Delta{Calls: calls}, nil
	}
	return providers.Delta{}, l.end
}

// Last makes the step that calls it the last one: the answer is whole.
func (l *Lookahead) Last() { l.end = io.EOF }

// Err is the error that ended the answer, or nil.
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
