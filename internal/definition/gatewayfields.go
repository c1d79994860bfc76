package definition

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
)

// Configuration is the known part of the configuration of a gateway that uses
// definitions. Of a nil member nothing is known: what definitions name of it is then
// not checked.
type Configuration struct {
	Providers Providers
	Limits    []string // the names of its limits
	// Log is what its traces keep where a definition does not say.
	Log LogPolicy
}

// ParseConfiguration returns the configuration that follows from the member providers
// of a workspace's JSON configuration and by the names of its limits. Neither member
// of the result is nil.
func ParseConfiguration(providers map[string]json.RawMessage, limits []string) (Configuration, error) {
	known, err := ParseProviders(providers)
	return Configuration{Providers: known, Limits: slices.AppendSeq(make([]string, 0, len(limits)), slices.Values(limits))}, err
}

// gatewayFields returns the gateway's fields that the file of a definition, or of the data
// model, names, each where it is named first. definition is the name in traces.
func gatewayFields(n *document.Node, definition string) []*document.Node {
	var first []*document.Node
	for _, name := range rules.GatewayFields(n, definition) {
		if !slices.ContainsFunc(first, func(other *document.Node) bool { return other.Text == name.Text }) {
			first = append(first, name)
		}
	}
	return first
}

// gatewayNames returns the gateway's fields that the workspace names, each once, in
// the order of their names.
func (l *loader) gatewayNames() []*document.Node {
	for _, f := range l.next.files {
		l.snapshot.gateway = append(l.snapshot.gateway, f.gateway...)
	}
	slices.SortFunc(l.snapshot.gateway, func(a, b *document.Node) int {
		return cmp.Or(cmp.Compare(a.Text, b.Text), cmp.Compare(a.Pos.File, b.Pos.File))
	})
	return slices.CompactFunc(slices.Clone(l.snapshot.gateway), func(a, b *document.Node) bool { return a.Text == b.Text })
}

// warnShadowed warns of fields of the data model under whose names tables would else
// read the gateway's.
func (l *loader) warnShadowed() {
	for _, members := range []*document.Node{l.model.Get("fields"), l.model.Get("computed")} {
		if members == nil {
			continue
		}
		for _, m := range members.Members {
			if _, ok := rules.ParseGatewayField(m.Key.Text); ok {
				l.warnAt("shadowed-field", m.Key, "the data model has a field %s of its own, so tables read what callers send, and not what the gateway knows by this name", m.Key.Text)
			}
		}
	}
}

// warnUncalled warns of fields about the health of what no endpoint calls. They are
// always missing.
func (l *loader) warnUncalled() {
	called := make(map[string]bool)
	for _, e := range l.snapshot.Endpoints {
		if e == nil || e.Prompt == nil {
			return // a mistake, from which this may follow
		}
		for t := range e.Named() {
			called[t.Provider], called[t.Provider+"/"+t.Model] = true, true
		}
	}
	for _, name := range l.snapshot.gateway {
		f, _ := rules.ParseGatewayField(name.Text)
		of, what := f.Provider, "provider"
		if f.Model != "" {
			of, what = of+"/"+f.Model, "model"
		}
		if of == "" || called[of] || !l.snapshot.readsGateway(name.Text) {
			continue
		}
		hint := ""
		if near := document.Nearest(of, slices.Sorted(maps.Keys(called))); near != "" {
			hint = ": did you mean health." + near + "?"
		}
		l.warnAt("uncalled", name, "no endpoint calls the %s %s, so %s is always missing%s", what, of, name.Text, hint)
	}
}

// readsGateway reports whether a name is one of a field of the gateway, and not hidden
// by one of the data model.
func (s *Snapshot) readsGateway(name string) bool {
	return s.Model != nil && slices.Contains(s.Model.GatewayNames(), name)
}

// checkFields reports the gateway's fields that are about limits and providers which
// are not configured.
func (s *Snapshot) checkFields(known Configuration, errs *document.Errors) {
	for _, name := range s.gateway {
		f, _ := rules.ParseGatewayField(name.Text)
		switch {
		case !s.readsGateway(name.Text):
		case f.Limit != "" && known.Limits != nil && !slices.Contains(known.Limits, f.Limit):
			errs.Report("unknown-limit", name.Pos, "there is no limit %s, whose share the field %s is%s", strconv.Quote(f.Limit), name.Text, instead(f.Limit, slices.Values(known.Limits)))
		case f.Provider != "" && known.Providers != nil:
			if _, configured := known.Providers[f.Provider]; !configured {
				errs.Report("unknown-provider", name.Pos, "the provider %s, whose health the field %s is, is not configured%s", strconv.Quote(f.Provider), name.Text, instead(f.Provider, maps.Keys(known.Providers)))
			}
		}
	}
}

// CheckConfigured checks what definitions name of a gateway's configuration: each target
// of the endpoints has what its provider needs, and the limits and providers of fields.
// The error is a *document.MultiError.
func (s *Snapshot) CheckConfigured(known Configuration) error {
	var errs document.Errors
	s.checkConfigured(known, &errs)
	return errs.Err()
}

func (s *Snapshot) checkConfigured(known Configuration, errs *document.Errors) {
	s.checkTargets(known.Providers, errs)
	s.checkFields(known, errs)
}

// checkConfigured checks the definitions for several gateways that use them, of which
// one must be able to: while a new configuration replaces another, both are there. The
// last one's mistakes are reported.
func (l *loader) checkConfigured(known []Configuration) {
	if len(known) == 0 {
		known = []Configuration{{}}
	}
	var errs document.Errors
	for _, configuration := range known {
		errs = document.Errors{}
		if l.snapshot.checkConfigured(configuration, &errs); errs.Len() == 0 {
			return
		}
	}
	l.errs.Merge(&errs)
}
