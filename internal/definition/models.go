package definition

import (
	"maps"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// CheckModels returns a warning for each place that names a model of which says tells
// something, with the model to write there instead, if it knows one; at most MaxWarnings.
// The host is that of the provider, as far as it is known: where nothing is known of
// providers, each is taken for the module of its name.
func (s *Snapshot) CheckModels(known Providers, says func(provider, host, model string) (message, instead string)) []Warning {
	type named struct {
		at       document.Position
		provider string
	}
	seen := make(map[named]bool) // variants may share a model, and endpoints a prompt
	var found []Warning
	look := func(t Target) {
		n := named{t.origin.model, t.Provider}
		if t.Provider == "" || t.Model == "" || seen[n] {
			return
		}
		seen[n] = true
		host := known[t.Provider].Host
		if known == nil {
			host = providers.ModuleNamed(t.Provider).Host
		}
		if message, instead := says(t.Provider, host, t.Model); message != "" {
			found = append(found, Warning{Pos: t.origin.model, Kind: "model-ends", Message: message, Suggestion: instead})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Prompts)) {
		for _, v := range s.Prompts[key].variants {
			look(v.target())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Endpoints)) {
		for t := range s.Endpoints[key].Named() {
			look(t)
		}
	}
	return sortWarnings(found)
}
