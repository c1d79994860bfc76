package invoke

import (
	"fmt"
	"slices"

	"github.com/cadenza-gateway/cadenza/providers"
)

// heard is what a provider has said of an answer. It counts what the caller does not
// get, too.
type heard struct {
	content int  // bytes
	beside  int  // bytes of thoughts and tool calls
	calls   int  // tool calls of which a piece came
	thought bool // a piece of a thought came
}

// plain reports whether a piece has nothing beside content, as most have.
func plain(d *providers.Delta) bool { return d.Thinking == "" && d.Thought == nil && d.Calls == nil }

// add counts a piece.
func (h *heard) add(d *providers.Delta) {
	h.content += len(d.Content)
	if !plain(d) {
		h.addBeside(d)
	}
}

func (h *heard) addBeside(d *providers.Delta) {
	if d.Thinking != "" || d.Thought != nil {
		h.thought = true
		h.beside += len(d.Thinking)
		if d.Thought != nil {
			h.beside += len(d.Thought.Opaque)
		}
	}
	for i := range d.Calls {
		c := &d.Calls[i]
		h.calls = max(h.calls, c.Index+1)
		h.beside += len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.Opaque)
	}
}

// tooMuch reports whether the thoughts and tool calls exceed their bound.
func (h *heard) tooMuch() bool { return h.beside > maxContent }

// besideTheAnswer names what heard.beside counts.
const besideTheAnswer = "what comes beside the answer's text, its thoughts and tool calls,"

func (t *Target) tooLarge(what string) error {
	return &providers.Error{Provider: t.Name, Kind: providers.Invalid, Reason: fmt.Sprintf("%s has more than %d bytes", what, maxContent)}
}

// speaks reports whether a piece says anything, and is no mere sign of life.
func speaks(d *providers.Delta) bool {
	return d.Content != "" || d.Thinking != "" || d.Thought != nil || len(d.Calls) > 0 || d.Logprobs != nil
}

// wants reports whether the caller gets a piece of a stream. It takes out of the piece
// what a caller without Call.Pieces does not get, and cuts names as withShortNames
// does.
func (k *call) wants(d *providers.Delta) bool {
	if plain(d) {
		return d.Content != "" || k.Pieces && d.Logprobs != nil
	}
	if !k.Pieces {
		d.Thinking, d.Thought, d.Calls = "", nil, nil
		return d.Content != ""
	}
	if slices.ContainsFunc(d.Calls, func(c providers.CallPiece) bool { return max(len(c.ID), len(c.Name)) > providers.MaxName }) {
		d.Calls = slices.Clone(d.Calls)
		for i := range d.Calls {
			c := &d.Calls[i]
			c.ID, c.Name = providers.ShortName(c.ID), providers.ShortName(c.Name)
		}
	}
	return speaks(d)
}

// giveRest hands on the thoughts and tool calls of a complete stream that its provider
// has in the result alone, so that a caller that wants pieces gets all that there is
// of each provider.
func (k *call) giveRest(a *attempt) error {
	if !k.Pieces {
		return nil
	}
	if !a.heard.thought {
		for i := range a.result.Thoughts {
			t := &a.result.Thoughts[i]
			if t.Text != "" {
				if err := k.give(a, &providers.Delta{Thinking: t.Text, More: true}); err != nil {
					return err
				}
			}
			if t.Opaque != "" {
				if err := k.give(a, &providers.Delta{Thought: t, More: true}); err != nil {
					return err
				}
			}
		}
	}
	for i := a.heard.calls; i < len(a.result.ToolCalls); i++ {
		c := &a.result.ToolCalls[i]
		piece := providers.CallPiece{Index: i, ID: c.ID, Name: c.Name, Arguments: c.Arguments, Opaque: c.Opaque}
		if err := k.give(a, &providers.Delta{Calls: []providers.CallPiece{piece}, More: true}); err != nil {
			return err
		}
	}
	return nil
}
