package invoke

import (
	"fmt"
	"slices"
	"sync"

	"github.com/cadenza-gateway/cadenza/providers"
)

// heard counts the parts of a provider's answer, including the parts that the caller
// does not get.
type heard struct {
	content int  // bytes
	extra   int  // bytes of thoughts, searches and tool calls, which are not content
	calls   int  // tool calls of which a piece came
	thought bool // a piece of a thought came

	// sample is the beginning of all texts, from which the tokens are estimated if
	// the provider does not count them; nil before the first text.
	sample *sample
}

// sampleSize is the length of a sample, in bytes. It is enough for the ratio of tokens to
// bytes, and little to copy.
const sampleSize = 2 << 10

type sample struct{ text []byte }

var samples = sync.Pool{New: func() any { return &sample{make([]byte, 0, sampleSize)} }}

// keep appends as much of the text to the sample as fits.
func (h *heard) keep(text string) {
	if h.sample == nil {
		h.sample = samples.Get().(*sample)
	}
	if room := sampleSize - len(h.sample.text); room > 0 {
		h.sample.text = append(h.sample.text, text[:min(room, len(text))]...)
	}
}

// release gives the sample back.
func (h *heard) release() {
	if h.sample != nil {
		h.sample.text = h.sample.text[:0]
		samples.Put(h.sample)
		h.sample = nil
	}
}

// plain reports whether a piece has content alone, as most have.
func plain(d *providers.Delta) bool {
	return d.Thinking == "" && d.Thought == nil && d.Calls == nil && d.Found == nil
}

// add counts a piece.
func (h *heard) add(d *providers.Delta) {
	h.content += len(d.Content)
	if d.Content != "" {
		h.keep(d.Content)
	}
	if !plain(d) {
		h.addExtra(d)
	}
}

func (h *heard) addExtra(d *providers.Delta) {
	if d.Thinking != "" || d.Thought != nil {
		h.thought = true
		h.extra += len(d.Thinking)
		h.keep(d.Thinking)
		if d.Thought != nil {
			h.extra += len(d.Thought.Opaque)
		}
	}
	if d.Found != nil {
		h.extra += d.Found.Size()
	}
	for i := range d.Calls {
		c := &d.Calls[i]
		h.calls = max(h.calls, c.Index+1)
		h.extra += len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.Opaque)
		h.keep(c.Name)
		h.keep(c.Arguments)
	}
}

// tooMuch reports whether the thoughts and tool calls exceed their bound.
func (h *heard) tooMuch() bool { return h.extra > maxContent }

// extraParts names the parts that heard.extra counts.
const extraParts = "what comes beside the answer's text, its thoughts and tool calls,"

func (t *Target) tooLarge(what string) error {
	return &providers.Error{Provider: t.Name, Kind: providers.Invalid, Reason: fmt.Sprintf("%s has more than %d bytes", what, maxContent)}
}

// speaks reports whether a piece says anything, and is no mere sign of life.
func speaks(d *providers.Delta) bool {
	return d.Content != "" || d.Thinking != "" || d.Thought != nil || len(d.Calls) > 0 || d.Found != nil || d.Logprobs != nil
}

// wants reports whether the caller gets a piece of a stream. It removes the parts that
// a caller without Call.Pieces does not get, and cuts names as withShortNames does.
func (k *call) wants(d *providers.Delta) bool {
	if plain(d) {
		return d.Content != "" || k.Pieces && d.Logprobs != nil
	}
	if !k.Pieces {
		d.Thinking, d.Thought, d.Calls, d.Found = "", nil, nil, nil
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
