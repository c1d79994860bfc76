package openai

import (
	"slices"
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// AppendReasoning appends the members, after commas, with the model's thoughts: their
// text, and if the provider gave its own data, a list that a caller sends back with
// the history.
func AppendReasoning(dst []byte, a *dialect.Answer) []byte {
	if slices.ContainsFunc(a.Thoughts, func(t providers.Thought) bool { return t.Text != "" }) {
		dst = append(dst, `,"reasoning_content":"`...)
		for i := range a.Thoughts {
			dst = jsontext.AppendEscaped(dst, a.Thoughts[i].Text)
		}
		dst = append(dst, '"')
	}
	if HasOpaque(a) {
		dst = AppendDetails(append(dst, ','), a)
	}
	return dst
}

// HasOpaque reports whether the provider wants data of its own back.
func HasOpaque(a *dialect.Answer) bool {
	return slices.ContainsFunc(a.Thoughts, func(t providers.Thought) bool { return t.Opaque != "" }) ||
		slices.ContainsFunc(a.ToolCalls, func(c providers.ToolCall) bool { return c.Opaque != "" })
}

// AppendDetails appends the member reasoning_details.
func AppendDetails(dst []byte, a *dialect.Answer) []byte {
	dst = append(dst, `"reasoning_details":[`...)
	n := 0
	for i := range a.Thoughts {
		if t := &a.Thoughts[i]; t.Text != "" || t.Opaque != "" {
			dst = AppendThought(appendComma(dst, n), t, n)
			n++
		}
	}
	for i := range a.ToolCalls {
		if c := &a.ToolCalls[i]; c.Opaque != "" {
			dst = AppendEncrypted(appendComma(dst, n), c.ID, c.Opaque, n)
			n++
		}
	}
	return append(dst, ']')
}

func appendComma(dst []byte, n int) []byte {
	if n > 0 {
		dst = append(dst, ',')
	}
	return dst
}

// AppendThought appends an element of reasoning_details.
func AppendThought(dst []byte, t *providers.Thought, index int) []byte {
	if t.Text == "" {
		return AppendEncrypted(dst, "", t.Opaque, index)
	}
	dst = append(dst, `{"type":"reasoning.text","text":`...)
	dst = jsontext.AppendString(dst, t.Text)
	if t.Opaque != "" {
		dst = append(dst, `,"signature":`...)
		dst = jsontext.AppendString(dst, t.Opaque)
	}
	return appendDetailEnd(dst, index)
}

// AppendEncrypted appends an element of reasoning_details without text: of the tool
// call with the id, or of a thought if id is empty.
func AppendEncrypted(dst []byte, id, opaque string, index int) []byte {
	dst = append(dst, `{"type":"reasoning.encrypted",`...)
	if id != "" {
		dst = append(dst, `"id":`...)
		dst = append(jsontext.AppendString(dst, id), ',')
	}
	dst = append(dst, `"data":`...)
	dst = jsontext.AppendString(dst, opaque)
	return appendDetailEnd(dst, index)
}

func appendDetailEnd(dst []byte, index int) []byte {
	dst = append(dst, `,"format":"cadenza","index":`...)
	return append(strconv.AppendInt(dst, int64(index), 10), '}')
}
