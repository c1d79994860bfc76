package gateway

import (
	"maps"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// Playable is what the playground may call.
type Playable struct {
	// As is the name under which the visitor calls, whose limits count.
	As        string   `json:"as"`
	Endpoints []string `json:"endpoints"`
	Prompts   []string `json:"prompts"`
	// Targets are those of the definitions whose providers are configured.
	Targets []string `json:"targets"`
	// Chosen is the endpoint or prompt that was asked for.
	Chosen *PlayableEndpoint `json:"chosen,omitempty"`
}

// PlayableEndpoint is an endpoint, or a prompt, with what a request to it may have.
type PlayableEndpoint struct {
	Prompt string `json:"prompt"`
	File   string `json:"file"` // of the prompt
	// History reports whether earlier turns of a conversation may be sent.
	History   bool               `json:"history"`
	Log       string             `json:"log"`
	Variants  []PlayableVariant  `json:"variants"`
	Variables []PlayableVariable `json:"variables"`
}

// PlayableVariant is a variant of the prompt.
type PlayableVariant struct {
	Key      string               `json:"key"`
	Target   string               `json:"target"` // empty: it names none
	Messages []definition.Written `json:"messages"`
}

// PlayableVariable is a variable of the prompt.
type PlayableVariable struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
	Default  string `json:"default,omitempty"`
	Config   string `json:"config,omitempty"` // the remote configuration that has the default
}

// Playable returns what a visitor may call, and what a request to p's endpoint or prompt
// may have, if p names one.
func (w *Workspace) Playable(by string, p *Play) (Playable, *wire.Error) {
	s := w.Source.Snapshot()
	all := Playable{As: PlaysAs(by), Endpoints: endpointsThat(s, false), Prompts: slices.Sorted(maps.Keys(s.Prompts)), Targets: []string{}}
	for _, t := range w.callTargets(s).named {
		if w.Providers[t.Provider] != nil {
			all.Targets = append(all.Targets, targetName(t.Provider, t.Model))
		}
	}
	if p.Endpoint == "" && p.Prompt == "" {
		return all, nil
	}
	endpoint, err := w.played(s, p)
	if err != nil {
		return all, err
	}
	prompt := endpoint.Prompt
	chosen := &PlayableEndpoint{
		Prompt: prompt.Key, File: prompt.Pos.File, History: endpoint.Accept.History, Log: endpoint.Log.String(),
	}
	if endpoint.Log == definition.Unset {
		chosen.Log = w.Log.String()
	}
	for _, v := range prompt.Variants() {
		shown := PlayableVariant{Key: v.Key, Messages: v.Written()}
		if v.Provider != "" {
			shown.Target = targetName(v.Provider, v.Model)
		}
		chosen.Variants = append(chosen.Variants, shown)
	}
	prompt.Variables().All(func(name string, _ *document.Node) {
		v := PlayableVariable{Name: name, Required: prompt.Variables().Required(name)}
		v.Default, _ = prompt.Variables().Default(name)
		if from := prompt.Variables().Configured(name); from != nil {
			v.Config = from.Key
		}
		chosen.Variables = append(chosen.Variables, v)
	})
	all.Chosen = chosen
	return all, nil
}
