package gateway

import (
	"encoding/json"
	"math"
	"strings"
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
	l, _ := limit.Open(limit.Options{Path: s.Path + limitsSuffix, Crossed: s.crossed, Logger: s.logger}) // what ails its file is in Err
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
		w.Store.limited.Store(w.Name, w)
	}
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

// mostCounted bounds the tokens, and the nanodollars, that one attempt counts for, so that
// no sum of a call's overflows: nine million US dollars.
const mostCounted = math.MaxInt64 >> 10

// mostAnswer returns the most tokens that a target's answer may have, and whether it is
// known.
func mostAnswer(t *invoke.Target, p *price.Price) (tokens int64, known bool) {
	tokens, known = largest(t.Extra, answerBounds) // it wins over the parameters
	switch {
	case tokens > 0:
	case !known && t.Parameters.MaxTokens != nil:
		tokens, known = *t.Parameters.MaxTokens, true
	case p != nil && p.MaxOutput > 0:
		tokens, known = p.MaxOutput, true
	default: // 0 and below: some servers take that for no bound
		tokens, known = defaultAnswer, false
	}
	tokens = min(max(tokens, 0), mostCounted)
	if n, several := largest(t.Extra, answerNumbers); several && n > 1 {
		tokens = min(tokens, mostCounted/n) * n
	}
	return tokens, known
}

// Where the APIs have the most tokens of an answer, and how many answers they give at
// once, each of which is paid for.
var (
	answerBounds  = [][]string{{"max_tokens"}, {"max_completion_tokens"}, {"max_output_tokens"}, {"generationConfig", "maxOutputTokens"}, {"inferenceConfig", "maxTokens"}}
	answerNumbers = [][]string{{"n"}, {"best_of"}, {"generationConfig", "candidateCount"}}
)

// largest returns the largest number that a target's extra has at one of the paths, at
// most mostCounted. It is false where there is none.
func largest(extra map[string]json.RawMessage, paths [][]string) (n int64, found bool) {
	for _, path := range paths {
		if v := extraOf(extra, path); v != nil && v.Type() == fastjson.TypeNumber {
			n, found = max(n, int64(min(math.Ceil(v.GetFloat64()), mostCounted))), true
		}
	}
	return n, found
}

// extraOf returns what a target's extra has at a path; nil: nothing.
func extraOf(extra map[string]json.RawMessage, path []string) *fastjson.Value {
	text := extra[path[0]]
	if text == nil {
		return nil
	}
	v, err := fastjson.ParseBytes(text)
	if err != nil {
		return nil
	}
	return v.Get(path[1:]...)
}

// tierOf returns the class of service that a target's extra asks for, by its provider's
// word; empty: none.
func tierOf(extra map[string]json.RawMessage) string {
	for _, path := range [...][]string{{"service_tier"}, {"serviceTier"}, {"serviceTier", "type"}} {
		if word := extraOf(extra, path).GetStringBytes(); word != nil {
			return strings.ToLower(string(word))
		}
	}
	return ""
}
