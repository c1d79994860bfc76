package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Question identifies a request to a model: a digest of everything that the
// answer depends on.
type Question [sha256.Size]byte

// Answer is a model's complete answer. It is immutable.
type Answer struct {
	// Pieces are the answer as it was streamed, or one piece if it was not.
	Pieces []string
	// Provider and Model gave the answer.
	Provider, Model string
	// Result is the answer's other members, and its usage.
	Result providers.Result
	// Estimated reports that the usage in Result is an estimate.
	Estimated bool
	// Given is when the answer was complete.
	Given time.Time
	// Expires is when the answer is forgotten. An answer that expires at once
	// goes only to the requests that wait for it.
	Expires time.Time
}

// Bytes is the size of the answer.
func (a *Answer) Bytes() int {
	n := len(a.Result.Logprobs)
	for i := range a.Result.ToolCalls {
		c := &a.Result.ToolCalls[i]
		n += len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.Opaque) + callOverhead
	}
	for i := range a.Result.Thoughts {
		n += len(a.Result.Thoughts[i].Text) + len(a.Result.Thoughts[i].Opaque)
	}
	for _, piece := range a.Pieces {
		n += len(piece)
	}
	return n
}

// callOverhead estimates the bytes of a tool call without its texts, as it is sent.
const callOverhead = 64

// size is about how much memory the answer takes, in bytes.
func (a *Answer) size() int64 {
	const pieceOverhead = 16
	return int64(a.Bytes() + len(a.Pieces)*pieceOverhead + len(a.Provider) + len(a.Model) + len(a.Result.Model) + entryOverhead)
}

type answerEntry struct {
	question Question
	answer   *Answer
}

// Answers caches the complete answers of models for a while, and sends a
// question only once at a time: other requests with it wait for the answer. It
// is safe for concurrent use.
type Answers struct {
	entries *ristretto.Cache[[]byte, *answerEntry]
	close   sync.Once

	mu      sync.Mutex
	flights map[Question]*flight
}

// flight is a question that is being asked.
type flight struct {
	done   chan struct{}
	answer *Answer // once done; nil if there was none

	began time.Time
	// The time for which the leader waited for its own caller, in nanoseconds.
	// writing is the beginning of its present write, counted from began, or 0;
	// written is the duration of all earlier writes.
	writing, written atomic.Int64
}

// maxHeld is how long requests wait because the leader's own caller is slow to
// read. The leader reads the model's answer only as fast as its caller takes
// it, so that a caller that stalls would delay all.
const maxHeld = time.Second

// held is how long the leader's caller has held up the requests that wait.
func (f *flight) held() time.Duration {
	held := time.Duration(f.written.Load())
	if since := f.writing.Load(); since != 0 {
		held += time.Since(f.began) - time.Duration(since)
	}
	return held
}

// NewAnswers makes a memory of about maxBytes, which must be positive. It runs
// goroutines until Close.
func NewAnswers(maxBytes int64) (*Answers, error) {
	entries, err := newEntries[*answerEntry](maxBytes, 4096)
	return &Answers{entries: entries, flights: make(map[Question]*flight)}, err
}

// Lead is the duty to answer a question for all requests that ask it meanwhile.
// Answer or Abandon must be called once; further calls of either do nothing. A
// nil Lead belongs to a question that no other request can share: its methods
// but Answer do nothing.
type Lead struct {
	answers  *Answers
	question Question
	flight   *flight
	once     sync.Once
}

// Ask returns the answer to a question from the cache, or from another request
// with the same question. Otherwise it returns a lead: the caller must ask the
// model. It also returns a lead if the request that leads fails, leaves, or
// waits for its own caller for over a second. The error is the cause of ctx's
// end during the wait.
func (a *Answers) Ask(ctx context.Context, question Question) (*Answer, *Lead, error) {
	for {
		if e, ok := a.entries.Get(question[:]); ok && bytes.Equal(e.question[:], question[:]) {
			return e.answer, nil, nil
		}
		a.mu.Lock()
		f, asking := a.flights[question]
		if !asking {
			f = &flight{done: make(chan struct{}), began: time.Now()}
			a.flights[question] = f
			a.mu.Unlock()
			return nil, &Lead{answers: a, question: question, flight: f}, nil
		}
		a.mu.Unlock()
		answer, err := a.wait(ctx, question, f)
		if answer != nil || err != nil {
			return answer, nil, err
		}
		// The leader has failed, left or stalled. The next request leads.
	}
}

// wait waits for the answer of a flight. It returns neither an answer nor an
// error if the flight ends without one or its leader stalls.
func (a *Answers) wait(ctx context.Context, question Question, f *flight) (*Answer, error) {
	look := time.NewTicker(maxHeld)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-f.done:
			return f.answer, nil
		case <-look.C:
			if f.held() >= maxHeld {
				a.land(question, f)
				return nil, nil
			}
		}
	}
}

// Remembers reports whether Ask would return an answer without a wait.
func (a *Answers) Remembers(question Question) bool {
	e, ok := a.entries.Get(question[:])
	return ok && bytes.Equal(e.question[:], question[:])
}

// land ends a flight: no further request waits for it.
func (a *Answers) land(question Question, f *flight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flights[question] == f { // and not a later flight of the same question
		delete(a.flights, question)
	}
}

// Writing must be called before each write to the leader's own caller, and
// Written after it, so that the other requests need not wait for a caller that
// stalls.
func (l *Lead) Writing() {
	if l != nil {
		l.flight.writing.Store(max(int64(time.Since(l.flight.began)), 1))
	}
}

// Written ends a write that Writing began.
func (l *Lead) Written() {
	if l == nil {
		return
	}
	since := time.Duration(l.flight.writing.Swap(0))
	l.flight.written.Add(int64(time.Since(l.flight.began) - since))
}

// Answer gives a complete answer to all requests that wait, and remembers it
// until it expires.
func (l *Lead) Answer(answer *Answer) {
	l.once.Do(func() {
		if ttl := time.Until(answer.Expires); ttl > 0 {
			e := &answerEntry{question: l.question, answer: answer}
			l.answers.entries.SetWithTTL(e.question[:], e, answer.size(), ttl)
			// Once the flight has landed, requests must find the answer here,
			// or they would ask a model again.
			l.answers.entries.Wait()
		}
		l.end(answer)
	})
}

// Abandon ends the lead without a complete answer: the next request leads.
func (l *Lead) Abandon() {
	if l != nil {
		l.once.Do(func() { l.end(nil) })
	}
}

func (l *Lead) end(answer *Answer) {
	l.answers.land(l.question, l.flight)
	l.flight.answer = answer
	close(l.flight.done)
}

// Close ends the goroutines and forgets all answers. No Ask may be under way.
// Close may be called more than once.
func (a *Answers) Close() { a.close.Do(a.entries.Close) }
