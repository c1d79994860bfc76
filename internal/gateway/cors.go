package gateway

import (
	"net/http"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// pages are the origins whose pages may read answers. Without cors and without origins of
// keys there is no value, and requests pay nothing for CORS.
type pages struct {
	all   bool
	named map[string]bool
}

// newPages returns the pages of a list of origins, or nil if it is empty.
func newPages(origins []string) *pages {
	if len(origins) == 0 {
		return nil
	}
	p := &pages{all: slices.Contains(origins, "*"), named: make(map[string]bool, len(origins))}
	for _, origin := range origins {
		p.named[origin] = true
	}
	return p
}

// The values of CORS headers (https://fetch.spec.whatwg.org/#http-cors-protocol). Keys
// travel in headers and never in cookies, so an answer needs no credentials mode. Libraries
// have headers of their own, whose names change: "*" allows them, but not Authorization.
var (
	varyOrigin     = []string{"Origin"}
	allowAll       = []string{"*"}
	allowedHeaders = []string{"Authorization, X-API-Key, Content-Type, If-None-Match, " + wire.HeaderIdempotencyKey + ", " + wire.HeaderLog + ", *"}
	exposedHeaders = []string{"ETag, Retry-After, " + wire.HeaderTraceID + ", " + wire.HeaderDecisionID + ", " + wire.HeaderRevision + ", " +
		wire.HeaderUnknownKeys + ", " + wire.HeaderAttempts + ", " + wire.HeaderServedBy + ", " + wire.HeaderIgnored + ", " + wire.HeaderUsage + ", " +
		wire.HeaderCacheStatus + ", " + wire.HeaderIdempotentReplayed + ", " + wire.HeaderDeprecation + ", " + wire.HeaderSunset + ", " +
		wire.HeaderShouldRetry + ", RateLimit, RateLimit-Policy, X-Request-Id, Request-Id"}
	// Chrome takes no longer time. With a shorter one, pages ask twice more often.
	preflightAge = []string{"7200"}
)

// share lets the page that sent a request read the answer, errors included, if its origin is
// among the pages. It answers a preflight request, which has no key, and reports whether it
// did.
func (p *pages) share(w http.ResponseWriter, r *http.Request, to *route) (answered bool) {
	h := w.Header()
	h["Vary"] = append(h["Vary"], varyOrigin...)
	origin := r.Header["Origin"]
	if len(origin) != 1 {
		return false
	}
	known := p.all || p.named[origin[0]]
	preflight := r.Method == http.MethodOptions && len(r.Header["Access-Control-Request-Method"]) > 0
	switch {
	case p.all:
		h["Access-Control-Allow-Origin"] = allowAll
	case known:
		h["Access-Control-Allow-Origin"] = origin[:1:1]
	}
	if !preflight {
		if known {
			h["Access-Control-Expose-Headers"] = exposedHeaders
		}
		return false
	}
	if known {
		h["Access-Control-Allow-Methods"] = []string{to.method}
		h["Access-Control-Allow-Headers"] = allowedHeaders
		h["Access-Control-Max-Age"] = preflightAge
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}
