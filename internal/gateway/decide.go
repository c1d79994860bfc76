package gateway

import (
	"net/http"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/rules"
)

// decide returns the decision of a definition's table. It evaluates most tables, which is
// cheaper than any cache. For a costly table it caches the decision, by the values of the
// fields that the table reads. The values that decisions select were serialised when the
// definitions were loaded.
//
// If the caller has left, the request ends here: its keys may have a hundred tables
// of patterns, and each of those takes milliseconds for long texts.
func (e *evaluation) decide(d *definition.Definition) rules.Decision {
	if e.r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	table := d.Table()
	if !cache.Worthwhile(d.Cost()) || e.binding.NoContext() || !table.Cacheable(&e.binding) {
		return table.Evaluate(&e.binding)
	}
	remembered := e.workspace.Memory.decisions
	key := cache.AppendKey(e.scratch[:0], e.workspace.Name, e.snapshot.Revision, d.Kind.Trace, d.Key)
	key = table.AppendKey(key, &e.binding)
	e.scratch = key
	if value, hit := remembered.Get(key); hit {
		e.cached++
		return table.Again(value.Row, value.Outcome)
	}
	e.uncached++
	decision := table.Evaluate(&e.binding)
	remembered.Set(key, cache.Value{Row: decision.Row, Outcome: decision.Outcome})
	return decision
}

// countLookups counts the request's lookups in the cache of decisions, at its end.
func (e *evaluation) countLookups() {
	e.workspace.calls.decisions.add(e.cached, e.uncached)
}

// cacheStatus returns the Cache-Status header (RFC 9211) of an answer: a miss if a
// lookup missed, a hit if all decisions were cached, otherwise nil.
func (e *evaluation) cacheStatus(answered int) []string {
	switch {
	case e.uncached > 0:
		return cacheMiss
	case e.cached > 0 && e.cached == answered:
		return cacheHit
	}
	return nil
}

var (
	cacheHit  = []string{"Cadenza; hit"}
	cacheMiss = []string{"Cadenza; fwd=miss"}
)
