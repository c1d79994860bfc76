package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/ristretto/v2"
)

// Question identifies what was asked of a model: a digest of everything that
// the answer depends on.
type Question [sha256.Size]byte

// Answer is a model's complete answer. It is immutable.
type Answer struct {
	// Pieces are the answer as it was streamed, or one piece where it came
	// whole.
	Pieces []string
	// ToolCalls are the calls that the model asks for, as JSON; nil for none.
	ToolCalls []byte
	// Provider and Model are those that gave it.
	Provider, Model string
	// FinishReason is why the model stopped; empty: it did not say.
	FinishReason string
	// The tokens it took; all zero: not known.
	PromptTokens, CompletionTokens, TotalTokens int64
	// Given is when it was complete.
	Given time.Time
	// Expires is when it is asked anew. One that expires at once is given to
	// those who wait for it and is not remembered.
	Expires time.Time
}

// Bytes is the size of what was answered.
func (a *Answer) Bytes() int {
	n := len(a.ToolCalls)
	for _, piece := range a.Pieces {
		n += len(piece)
	}
	return n
}

// size is about what the answer takes, in bytes.
func (a *Answer) size() int64 {
	const pieceOverhead = 16
	return int64(a.Bytes() + len(a.Pieces)*pieceOverhead + len(a.Provider) + len(a.Model) + len(a.FinishReason) + entryOverhead)
}

type answerEntry struct {
	question Question
	answer   *Answer
}

// Answers remembers the complete answers of models for a while, and sees to it
// that a question is asked once at a time: who asks it meanwhile waits for the
// answer. It is safe for concurrent use.
type Answers struct {
	entries *ristretto.Cache[[]byte, *answerEntry]
	close   sync.Once

	mu      sync.Mutex
	flights map[Question]*flight
}

// flight is a question that is being asked.
type flight struct {
	done   chan struct{}
	answer *Answer // once done; nil where there was none

	began time.Time
	// How long the leader was kept by its own caller, in nanoseconds: when the
	// write that it is in began, as of began, 0 where it is in none, and how long
	// those before it took.
	writing, written atomic.Int64
}

// maxHeld is how long all that ask the same wait for the leader's caller to
// take what it is sent: no longer than its caller it reads what the model says.
const maxHeld = time.Second

// held is how long the leader's caller has kept those who wait.
func (f *flight) held() time.Duration {
	held := time.Duration(f.written.Load())
	if since := f.writing.Load(); since != 0 {
		held += time.Since(f.began) - time.Duration(since)
	}
	return held
}

// NewAnswers makes a memory of about maxBytes. It runs goroutines until Close.
func NewAnswers(maxBytes int64) (*Answers, error) {
	if maxBytes <= 0 {
		return nil, errors.New("the size of a cache must be positive")
	}
	seed := maphash.MakeSeed()
	entries, err := ristretto.NewCache(&ristretto.Config[[]byte, *answerEntry]{
		// Ten counters for each entry of a usual size, as ristretto advises.
		NumCounters: max(10*maxBytes/4096, 1000),
		MaxCost:     maxBytes,
		BufferItems: 64,
		KeyToHash: func(key []byte) (uint64, uint64) {
			return maphash.Bytes(seed, key), xxhash.Sum64(key)
		},
	})
	if err != nil {
		return nil, err
	}
	return &Answers{entries: entries, flights: make(map[Question]*flight)}, nil
}

// Lead is the duty to answer a question for all who ask it meanwhile. Exactly
// one of Answer and Abandon must be called; further calls do nothing. A nil Lead
// is that of a question which nobody else asks.
type Lead struct {
	answers  *Answers
	question Question
	flight   *flight
	once     sync.Once
}

// Ask returns the answer to a question where it is remembered, or where
// somebody else is asking and gets one. Otherwise the caller has the lead, and
// must ask, as it must where whoever leads is held up by its own caller. The
// error is ctx's, when it ends during the wait.
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
		// Whoever led has failed, left or stalled. The next one leads.
	}
}

// wait waits for the answer of a flight. There is neither an answer nor an
// error where it isn't worth waiting for.
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

// land has nobody wait for a flight any more.
func (a *Answers) land(question Question, f *flight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flights[question] == f { // and not that of somebody who went on alone
		delete(a.flights, question)
	}
}

// Writing and Written stand around each write to the leader's own caller. Who
// waits for the answer doesn't wait for a caller that stalls.
func (l *Lead) Writing() {
	if l != nil {
		l.flight.writing.Store(max(int64(time.Since(l.flight.began)), 1))
	}
}

// Written is the end of a write.
func (l *Lead) Written() {
	if l == nil {
		return
	}
	since := time.Duration(l.flight.writing.Swap(0))
	l.flight.written.Add(int64(time.Since(l.flight.began) - since))
}

// Answer gives a complete answer to all who wait and remembers it until it
// expires.
func (l *Lead) Answer(answer *Answer) {
	l.once.Do(func() {
		if ttl := time.Until(answer.Expires); ttl > 0 {
			e := &answerEntry{question: l.question, answer: answer}
			l.answers.entries.SetWithTTL(e.question[:], e, answer.size(), ttl)
			// Who asks from now on must find it, or would ask a model again.
			l.answers.entries.Wait()
		}
		l.end(answer)
	})
}

// Abandon lets the next one lead: there is no answer, or not a complete one.
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

// Close ends the goroutines and forgets all. No Ask may be under way. It may
// be called more than once.
func (a *Answers) Close() { a.close.Do(a.entries.Close) }
