package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash/maphash"
	"sync"
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
// one of its methods must be called; further calls do nothing.
type Lead struct {
	answers  *Answers
	question Question
	flight   *flight
	once     sync.Once
}

// Ask returns the answer to a question where it is remembered, or where
// somebody else is asking and gets one. Otherwise the caller has the lead, and
// must ask. The error is ctx's, when it ends during the wait.
func (a *Answers) Ask(ctx context.Context, question Question) (*Answer, *Lead, error) {
	for {
		if e, ok := a.entries.Get(question[:]); ok && bytes.Equal(e.question[:], question[:]) {
			return e.answer, nil, nil
		}
		a.mu.Lock()
		f, asking := a.flights[question]
		if !asking {
			f = &flight{done: make(chan struct{})}
			a.flights[question] = f
			a.mu.Unlock()
			return nil, &Lead{answers: a, question: question, flight: f}, nil
		}
		a.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-f.done:
		}
		if f.answer != nil {
			return f.answer, nil, nil
		}
		// Whoever led has failed or left. The next one leads.
	}
}

// Remembers reports whether Ask would return an answer without a wait.
func (a *Answers) Remembers(question Question) bool {
	e, ok := a.entries.Get(question[:])
	return ok && bytes.Equal(e.question[:], question[:])
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
func (l *Lead) Abandon() { l.once.Do(func() { l.end(nil) }) }

func (l *Lead) end(answer *Answer) {
	l.answers.mu.Lock()
	delete(l.answers.flights, l.question)
	l.answers.mu.Unlock()
	l.flight.answer = answer
	close(l.flight.done)
}

// Close ends the goroutines and forgets all. No Ask may be under way. It may
// be called more than once.
func (a *Answers) Close() { a.close.Do(a.entries.Close) }
