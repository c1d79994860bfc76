package openai

import (
	"encoding/json"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// reasoningDetails is the member in which OpenRouter has a model's thoughts, and takes
// them back: a list of details. One is {"type":"reasoning.text","text":…,"signature":…}
// or {"type":"reasoning.summary","summary":…}, either in pieces with the same index, or
// {"type":"reasoning.encrypted","data":…}. A thought's opaque data is its detail without
// the text.
const reasoningDetails = "reasoning_details"

const (
	detailPrefix  = `{"type":"reasoning.`
	detailText    = "reasoning.text"
	detailSummary = "reasoning.summary"
)

// detail is a detail in the making.
type detail struct {
	kind  string // its type; empty: there is none
	index int
	// members are its members that are no text, as JSON.
	members []member
}

type member struct{ name, value string }

// textMember is the member that has the text of a detail of a type, empty for none.
func textMember(kind string) string {
	switch kind {
	case detailText:
		return "text"
	case detailSummary:
		return "summary"
	}
	return ""
}

// add reads a detail, or a piece of one, and hands its text on. It reports
// whether it has text.
func (d *detail) add(v *fastjson.Value, ahead *upstream.Lookahead, body *upstream.Body) (text bool) {
	kind := string(v.GetStringBytes("type"))
	if !strings.HasPrefix(kind, "reasoning.") {
		return false
	}
	name := textMember(kind)
	if index := v.GetInt("index"); d.kind != kind || d.index != index || name == "" {
		d.end(ahead)
		d.kind, d.index = kind, index
	}
	if piece := v.GetStringBytes(name); name != "" && len(piece) > 0 {
		ahead.Say(providers.Delta{Thinking: body.String(piece)})
		text = true
	}
	v.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		if string(key) != "type" && string(key) != name && v.Type() != fastjson.TypeNull {
			d.set(string(key), string(jsontext.AppendValue(nil, v)))
		}
	})
	return text
}

// set sets a member: the last value that a piece has is its value.
func (d *detail) set(name, value string) {
	for i := range d.members {
		if d.members[i].name == name {
			d.members[i].value = value
			return
		}
	}
	d.members = append(d.members, member{name, value})
}

// end says the thought that the detail was, if there is one.
func (d *detail) end(ahead *upstream.Lookahead) {
	if d.kind == "" {
		return
	}
	var thought providers.Thought
	if d.returns() {
		opaque := jsontext.AppendString([]byte(`{"type":`), d.kind)
		for _, m := range d.members {
			opaque = jsontext.AppendString(append(opaque, ','), m.name)
			opaque = append(append(opaque, ':'), m.value...)
		}
		thought.Opaque = string(append(opaque, '}'))
	}
	ahead.Say(providers.Delta{Thought: &thought})
	*d = detail{}
}

// returns reports whether the service takes the detail back. Claude's thoughts need
// their signature, and details without a format are Claude's.
func (d *detail) returns() bool {
	if d.kind != detailText {
		return true
	}
	format := ""
	for _, m := range d.members {
		switch m.name {
		case "signature":
			if m.value != `""` {
				return true
			}
		case "format":
			format = m.value
		}
	}
	return format != "" && format != `"anthropic-claude-v1"`
}

// appendDetail appends the detail that a thought was, and a comma; nothing for a
// thought of another service.
func appendDetail(body []byte, p *providers.Part) []byte {
	if !strings.HasPrefix(p.Opaque, detailPrefix) || !json.Valid([]byte(p.Opaque)) {
		return body
	}
	body = append(body, p.Opaque...)
	for _, kind := range [...]string{detailText, detailSummary} {
		if strings.HasPrefix(p.Opaque[len(`{"type":"`):], kind+`"`) && p.Text != "" {
			body = p.Text.Append(append(body[:len(body)-1], `,"`+textMember(kind)+`":`...))
			body = append(body, '}')
		}
	}
	return append(body, ',')
}
