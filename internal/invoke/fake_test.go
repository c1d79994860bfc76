package invoke

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/providers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// step is one thing that a scripted answer does: wait, then say or fail.
type step struct {
	after time.Duration
	say   string
	piece providers.Delta
	err   error
}

// script is one answer: it fails at once, or says its steps and ends.
type script struct {
	err    error
	after  time.Duration // before err, or before the stream
	steps  []step
	result providers.Result
	hang   bool // after the steps
}

func says(words ...string) script {
	s := script{result: providers.Result{Model: "real-model", FinishReason: "stop"}}
	for _, w := range words {
		s.steps = append(s.steps, step{say: w})
	}
	return s
}

func fails(err error) script { return script{err: err} }

func status(code int) error {
	return &providers.Error{Provider: "fake", Kind: providers.Status, Status: code}
}

// fake is a provider that answers by scripts, one for each call; it repeats the
// last one.
type fake struct {
	mu       sync.Mutex
	scripts  []script
	requests []*providers.Request
	times    []time.Time
	open     int // streams not closed yet
	closed   []time.Time
}

func (f *fake) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

func (f *fake) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	f.mu.Lock()
	f.requests = append(f.requests, req)
	f.times = append(f.times, time.Now())
	s := f.scripts[0]
	if len(f.scripts) > 1 {
		f.scripts = f.scripts[1:]
	}
	f.mu.Unlock()
	if err := sleep(ctx, s.after); err != nil {
		return nil, err
	}
	if s.err != nil {
		return nil, s.err
	}
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
	return &fakeStream{fake: f, ctx: ctx, script: s}, nil
}

type fakeStream struct {
	fake   *fake
	ctx    context.Context
	script script
	next   int
	closed bool
}

func (s *fakeStream) Next() (providers.Delta, error) {
	if s.next < len(s.script.steps) {
		step := s.script.steps[s.next]
		s.next++
		if err := sleep(s.ctx, step.after); err != nil {
			return providers.Delta{}, err
		}
		d := step.piece
		d.Content += step.say
		return d, step.err
	}
	if s.script.hang {
		<-s.ctx.Done()
		return providers.Delta{}, s.ctx.Err()
	}
	return providers.Delta{}, io.EOF
}

func (s *fakeStream) Result() providers.Result { return s.script.result }

func (s *fakeStream) Close() error {
	if !s.closed {
		s.closed = true
		s.fake.mu.Lock()
		s.fake.open--
		s.fake.closed = append(s.fake.closed, time.Now())
		s.fake.mu.Unlock()
	}
	return nil
}

// caller collects what emit gets.
type caller struct {
	pieces []string
	times  []time.Time
	gone   int // the piece from which on emit fails; 0 never
}

var errHangup = errors.New("connection closed by the caller")

func (c *caller) emit(d providers.Delta) error {
	c.pieces = append(c.pieces, d.Content)
	c.times = append(c.times, time.Now())
	if c.gone > 0 && len(c.pieces) >= c.gone {
		return errHangup
	}
	return nil
}

func (c *caller) text() string { return strings.Join(c.pieces, "") }

func target(name string, p providers.Provider) Target {
	return Target{Name: name, Provider: p, Model: name + "-model"}
}

func scripted(scripts ...script) *fake { return &fake{scripts: scripts} }

// run makes one call on an engine of its own.
func run(t *testing.T, c *Call) (Result, *Error, *caller) {
	t.Helper()
	return runOn(t, NewEngine(), c)
}

func runOn(t *testing.T, e *Engine, c *Call) (Result, *Error, *caller) {
	t.Helper()
	var out caller
	r, err := e.Invoke(t.Context(), c, out.emit)
	if err == nil {
		return r, nil, &out
	}
	failure, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("error %T %v, want *Error", err, err)
	}
	return r, failure, &out
}

func classesOf(r Result) []string {
	var all []string
	for _, a := range r.Attempts {
		all = append(all, a.Code)
	}
	return all
}

func retries(n int) *int { return &n }
