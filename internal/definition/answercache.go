package definition

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// The bounds of the time for which an answer is cached.
const (
	minCacheTTL = time.Second
	maxCacheTTL = 30 * 24 * time.Hour
)

// decodeCache reads how long an endpoint's answers are cached.
func decodeCache(n *document.Node, errs *document.Errors) time.Duration {
	if n.IsNull() || !n.CheckMapping(errs, "cache", "{ ttl: 10m }") || !n.CheckMembers(errs, "cache", "ttl") {
		return 0
	}
	ttl := n.Get("ttl")
	if ttl == nil {
		errs.Add(n, "ttl is missing: how long an answer is given again, such as 10m")
		return 0
	}
	d, _ := ttl.ReadDuration(errs, "ttl", minCacheTTL, maxCacheTTL)
	return d
}
