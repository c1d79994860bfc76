package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/canned/script"
)

// Provider is the known part of a provider that a gateway is configured with.
type Provider struct {
	// Module is the name of its module, such as openai or canned.
	Module string
	// Answer is the answer that one of the module canned has of its own.
	Answer string
	// Host is the host that it calls, without a port, as far as its configuration or
	// its module says so; else empty.
	Host string
}

// Providers are the providers that a gateway is configured with, by the name that
// definitions use. Nil means that nothing is known of them: definitions are then
// checked by themselves.
type Providers map[string]Provider

// ParseProviders reads the member providers of a workspace's JSON configuration.
// The result is never nil.
func ParseProviders(config map[string]json.RawMessage) (Providers, error) {
	known := make(Providers, len(config))
	for name, raw := range config {
		// Other modules may have an answer of another type.
		var p struct {
			Module   string `json:"module"`
			Answer   any    `json:"answer"`
			BaseURL  any    `json:"base_url"`
			Endpoint any    `json:"endpoint"`
		}
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("provider %s: %w", name, err)
		}
		answer, _ := p.Answer.(string)
		host := providers.ModuleNamed(p.Module).Host
		for _, address := range [...]any{p.BaseURL, p.Endpoint} {
			if text, given := address.(string); given && text != "" {
				host = ""
				if u, err := url.Parse(text); err == nil {
					host = u.Hostname()
				}
			}
		}
		known[name] = Provider{p.Module, answer, host}
	}
	return known, nil
}

// origin is where a target is in its file.
type origin struct {
	pos      document.Position
	provider document.Position            // of its name
	model    document.Position            // of its name
	extra    map[string]document.Position // the members of Extra
	// broken reports whether the target, or the variant that it extends, has a
	// mistake, from which its missing members may follow.
	broken bool
}

// checkTargets checks every target of the endpoints: its provider is configured, and
// it has what that provider can't do without, a model or for canned something to
// answer with.
//
// Where nothing is known of the providers, a target counts as one of canned if it
// has that name, or if its extra says what canned is to answer with. So
// `provider backup canned` needs no model with
//
//	{ provider: backup, extra: { answer: "Later." } }
//
// and needs any model, which canned does not look at, where its answer is in the
// Caddyfile alone.
func (s *Snapshot) checkTargets(known Providers, errs *document.Errors) {
	seen := make(map[*Variant]bool) // endpoints may share a prompt
	reported := make(map[document.Position]bool)
	for _, key := range slices.Sorted(maps.Keys(s.Endpoints)) {
		e := s.Endpoints[key]
		if e == nil {
			continue
		}
		if e.Embedding != nil {
			for t := range e.Named() {
				if !t.origin.broken && t.configured(key, known, reported, errs) {
					t.checkModel("this target of the endpoint "+e.Key, known, errs)
				}
			}
			continue
		}
		if e.Prompt != nil {
			for _, v := range e.Prompt.variants {
				if !seen[v] && v.Provider != "" && !v.origin.broken {
					seen[v] = true
					if !v.target().configured(key, known, reported, errs) {
						continue
					}
					v.target().check(fmt.Sprintf("the variant %s, which the endpoint %s calls,", v.Key, e.Key), known, errs)
				}
			}
		}
		for t := range e.fallbacks() {
			if !t.origin.broken && t.configured(key, known, reported, errs) {
				t.check("this fallback of the endpoint "+e.Key, known, errs)
			}
		}
	}
}

// check reports the missing members of the target. what names it in messages; a
// comma at its end closes a clause, and is left out before a colon.
func (t Target) check(what string, known Providers, errs *document.Errors) {
	p, says := t.checkModel(what, known, errs)
	if p.Module != script.Provider || says == nil || p.Answer != "" || says.Speaks() {
		return
	}
	hint := ""
	if known == nil {
		hint = " (an answer in the Caddyfile counts where that is known)"
	}
	errs.Report("canned-silent", t.origin.pos, "%s: %s%s", strings.TrimSuffix(what, ","), script.Silent, hint)
}

// checkModel reports that a model is missing, or what canned can't do. It returns the
// target's provider as far as it is known, and what canned is to say; nil after a mistake.
func (t Target) checkModel(what string, known Providers, errs *document.Errors) (Provider, *script.Script) {
	says, err := script.Parse(t.Extra)
	p, configured := known[t.Provider]
	if !configured {
		p = Provider{}
		if t.Provider == script.Provider || err == nil && says.Speaks() {
			p.Module = script.Provider
		}
	}
	if p.Module != script.Provider {
		if t.Model == "" {
			errs.Report("missing-model", t.origin.pos, "%s has no model: name the one that %s is to call by the member model", what, t.Provider)
		}
		return p, nil
	}
	if e, ok := errors.AsType[*script.Error](err); ok {
		at, ok := t.origin.extra[e.Member]
		if !ok {
			at = t.origin.pos
		}
		errs.Report("canned-extra", at, "%s: %s", strings.TrimSuffix(what, ","), e)
		return p, nil
	}
	return p, &says
}
