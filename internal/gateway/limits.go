package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
)

// subject returns whose use of a limit the request counts for: the empty text where it
// has no value that the limit counts by. endpoint is the key of the endpoint that it
// calls, empty where it calls none.
func (c *call) subject(l *limit.Limit, endpoint string) string {
	switch l.By {
	case limit.ByAPIKey:
		return c.key.name
	case limit.ByEndpoint:
		return endpoint
	case limit.ByMetadata:
		return subjectOf(c.metadata.Get(l.Member))
	}
	return ""
}

// subjectOf returns a value of the metadata as the text that it is counted by: 7 and
// "7" are the same customer.
func subjectOf(v *fastjson.Value) string {
	if v == nil || v.Type() == fastjson.TypeNull {
		return ""
	}
	if v.Type() == fastjson.TypeString {
		return string(v.GetStringBytes())
	}
	return string(v.MarshalTo(nil))
}

// limitsSuffix is that of the file with the state of a store's limits, behind the
// database's path.
const limitsSuffix = "-limits"

// Limiter returns the counters of the limits of the store's workspaces, nil where none
// of them has had limits.
func (s *Store) Limiter() *limit.Limiter { return s.limiter.Load() }

// openLimits opens the limiter, unless it is open. It does not need the database.
func (s *Store) openLimits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limiter.Load() != nil {
		return
	}
	l := limit.Open(limit.Options{Path: s.Path + limitsSuffix, Crossed: s.crossed, Logger: s.logger, Background: true}) // what ails its file is in Err
	s.limiter.Store(l)
}

// limitsFailure returns why the limits' counters are not kept, and since when that is
// known; nil where they are.
func (s *Store) limitsFailure() (since time.Time, err error) {
	if l := s.limiter.Load(); l != nil {
		err = l.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.unsaved = time.Time{}
	case s.unsaved.IsZero():
		s.unsaved = time.Now()
	}
	return s.unsaved, err
}

// crossed is limit.Options.Crossed.
func (s *Store) crossed(workspace string, at limit.Standing, percent int) {
	if w, running := s.limited.Load(workspace); running {
		w.(*Workspace).crossed(&at, percent)
	}
}

// closeLimits closes the limiter. The calls that it counts have ended, or were given up.
func (s *Store) closeLimits() error {
	if l := s.limiter.Load(); l != nil {
		return l.Close()
	}
	return nil
}

// startLimits makes the workspace's limits hold.
func (w *Workspace) startLimits() {
	if len(w.CallLimits) > 0 {
		w.Store.openLimits()
		w.Store.Limiter().SetLedger(w.Name, w.ledger())
		w.Store.Limiter().SetMaxMemory(w.gateway.maxLimitMemory)
		w.Store.limited.Store(w.Name, w)
	}
}

// hashSubject returns the keyed hash that stands for an erased subject of the workspace's
// limits.
func (w *Workspace) hashSubject(subject string) string {
	return string(w.ids.Load().hasher.Append(nil, "\x00limit\x00", subject))
}

// EraseSubject takes a value of the metadata out of the workspace's limits, where callers
// are counted by it: see limit.Limiter.Erase. The value is JSON.
func (w *Workspace) EraseSubject(ctx context.Context, member, value string) error {
	limiter := w.Store.Limiter()
	if limiter == nil {
		return nil
	}
	parsed, err := fastjson.Parse(value)
	if err != nil {
		return err
	}
	return limiter.Erase(ctx, w.Name, subjectOf(parsed), func(name string) bool {
		return !slices.ContainsFunc(w.CallLimits, func(l *limit.Limit) bool {
			return l.Name == name && (l.By != limit.ByMetadata || l.Member != member)
		})
	})
}

// ledger returns what the workspace's limits are shared by: that of the first of its sinks
// that has one. It is nil where they are this gateway's own.
func (w *Workspace) ledger() limit.Ledger {
	for i := range w.Sinks {
		source, ok := w.Sinks[i].Sink.(interface {
			Ledger(workspace string) limit.Ledger
		})
		if !ok {
			continue
		}
		if ledger := source.Ledger(w.Name); ledger != nil {
			return ledger
		}
	}
	return nil
}

// endLimits ends what startLimits began, unless another configuration has begun it, too.
// The counters stay, and so does their ledger: requests that are under way go on with it.
func (w *Workspace) endLimits() { w.Store.limited.CompareAndDelete(w.Name, w) }

// defaultAnswer is the most tokens of an answer, as far as is known, where neither the
// definition nor the price of the model says it.
const defaultAnswer = 4096

// mostAnswer returns the most tokens that a target's answer may have, and whether it is
// known.
func mostAnswer(t *invoke.Target, p *price.Price) (tokens int64, known bool) {
	b := &t.Bounds
	switch {
	case b.Answer > 0:
		tokens, known = b.Answer, true
	case !b.HasAnswer && t.Parameters.MaxTokens != nil:
		tokens, known = *t.Parameters.MaxTokens, true
	case p != nil && p.MaxOutput > 0:
		tokens, known = p.MaxOutput, true
	default:
		tokens = defaultAnswer
	}
	tokens = min(max(tokens, 0), invoke.MaxBound)
	if b.Answers > 1 {
		tokens = min(tokens, invoke.MaxBound/b.Answers) * b.Answers
	}
	return tokens, known
}
