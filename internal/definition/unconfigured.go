package definition

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// configured reports whether the target's provider is a known one,
// where anything is known of them. Otherwise it reports the mistake at the place that
// names the provider, once for all variants that inherit it from there.
func (t Target) configured(endpoint string, known Providers, reported map[document.Position]bool, errs *document.Errors) bool {
	if _, configured := known[t.Provider]; configured || known == nil {
		return true
	}
	if at := t.origin.provider; !reported[at] {
		reported[at] = true
		errs.Report("unknown-provider", at, "the provider %q, which the endpoint %s calls, is not configured%s", t.Provider, endpoint, instead(t.Provider, maps.Keys(known)))
	}
	return false
}

// instead returns the end of the message about a name that is not configured: the one
// that was probably meant, or else all there are.
func instead(name string, configured iter.Seq[string]) string {
	names := slices.Sorted(configured)
	if document.Nearest(name, names) != "" {
		return document.DidYouMean(name, names)
	}
	add := "add it to the cadenza block of the Caddyfile, or name another"
	if len(names) == 0 {
		return ": " + add
	}
	return " (configured: " + strings.Join(names, ", ") + "): " + add
}
