package gateway

import (
	"net/http"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// decide returns a table's decision: evaluated, or cached for the same values of the
// fields that the table reads. Most tables are evaluated, which is cheaper than any
// cache. The values that decisions select were serialised when the definitions were
// loaded, so only the decision is cached.
//
// If the caller has left, the request ends here: its keys may have a hundred tables
// of patterns, and each of those takes milliseconds for long texts.
func (c *call) decide(kind trace.Kind, d *definition.Definition, table *rules.Table) rules.Decision {
	if c.r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if !cache.Worthwhile(d.Cost()) || c.binding.NoContext() || !table.Cacheable(&c.binding) {
		return table.Evaluate(&c.binding)
	}
	remembered := c.workspace.Memory.decisions
	key := cache.AppendKey(c.scratch[:0], c.workspace.Name, c.snapshot.Revision, kind, d.Key)
	key = table.AppendKey(key, &c.binding)
	c.scratch = key
	if value, hit := remembered.Get(key); hit {
		c.cached++
		return table.Again(value.Row, value.Outcome)
	}
	c.uncached++
	decision := table.Evaluate(&c.binding)
	remembered.Set(key, cache.Value{Row: decision.Row, Outcome: decision.Outcome})
	return decision
}

// countLookups counts the request's lookups in the cache of decisions, at its end.
func (c *call) countLookups() {
	c.workspace.calls.decisions.add(c.cached, c.uncached)
}

// cacheStatus returns the Cache-Status header (RFC 9211) of an answer: a miss if a
// lookup missed, a hit if all decisions were cached, else nil.
func (c *call) cacheStatus() []string {
	switch {
	case c.uncached > 0:
		return cacheMiss
	case c.cached > 0 && c.cached == c.answered:
		return cacheHit
	}
	return nil
}

var (
	cacheHit  = []string{"Cadenza; hit"}
	cacheMiss = []string{"Cadenza; fwd=miss"}
)
