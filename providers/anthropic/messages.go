package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// writer writes the messages of a request by appending, because they may hold
// megabytes of images.
type writer struct {
	client *Client
	body   []byte
	calls  bool // there is a tool call, or the result of one
	detail bool // an image said how closely to look at it, which the API does not have
}

// turns writes the member messages.
func (w *writer) turns(messages []providers.Message) error {
	w.body = append(w.body, `"messages":[`...)
	empty := len(w.body)
	if err := w.client.Turns(messages, func(role string, from, to int) error {
		if len(w.body) > empty {
			w.body = append(w.body, ',')
		}
		return w.turn(role, messages, from, to)
	}); err != nil {
		return err
	}
	if len(w.body) == empty {
		return w.client.Unsendable("there is no user or assistant message with text: Anthropic's API needs one beside the system prompt")
	}
	w.body = append(w.body, ']')
	return nil
}

// turn writes the messages from one to before another as one turn: a text as a string,
// anything else as blocks.
func (w *writer) turn(role string, messages []providers.Message, from, to int) error {
	w.body = append(append(append(w.body, `{"role":"`...), role...), `","content":`...)
	if text, ok := upstream.OnlyText(messages, from, to); ok {
		w.body = append(jsontext.AppendString(w.body, text), '}')
		return nil
	}
	w.body = append(w.body, '[')
	if role == "user" {
		// The API wants the results of tools before all else.
		if err := upstream.Parts(messages, from, to, w.result); err != nil {
			return err
		}
		if err := upstream.Parts(messages, from, to, w.said); err != nil {
			return err
		}
	} else if err := upstream.Parts(messages, from, to, w.answer); err != nil {
		return err
	}
	w.body = append(w.body[:len(w.body)-1], "]}"...) // without the last comma
	return nil
}

// system writes the member system: the messages of the system and the developer, in
// their order and wherever they are. A text is a string, several are blocks.
func (w *writer) system(messages []providers.Message) error {
	var texts []string
	say := func(text string) {
		if !upstream.Blank(text) {
			texts = append(texts, text)
		}
	}
	for at := range messages {
		m := &messages[at]
		if m.Role != "system" && m.Role != "developer" {
			continue
		}
		say(m.Content)
		for i := range m.Parts {
			if m.Parts[i].Kind != providers.PartText {
				return w.lacks(at, m.Parts[i].Kind.String()+" of the system")
			}
			say(m.Parts[i].Text)
		}
	}
	switch len(texts) {
	case 0:
		return nil
	case 1:
		w.body = jsontext.AppendString(append(w.separated(), `"system":`...), texts[0])
		return nil
	}
	w.body = append(w.separated(), `"system":[`...)
	for _, text := range texts {
		w.text(text)
	}
	w.body = append(w.body[:len(w.body)-1], ']')
	return nil
}

// separated returns the body with a comma behind its last member.
func (w *writer) separated() []byte {
	if len(w.body) == 1 {
		return w.body
	}
	return append(w.body, ',')
}

func (w *writer) lacks(at int, part string) error {
	return providers.LacksPart(w.client.Name, at, part)
}

// text writes a block of text, and a comma behind it as all blocks are.
func (w *writer) text(text string) {
	if upstream.Blank(text) {
		return
	}
	w.body = append(jsontext.AppendString(append(w.body, `{"type":"text","text":`...), text), "},"...)
}

// answer writes a part of the assistant's.
func (w *writer) answer(at int, p *providers.Part) error {
	switch p.Kind {
	case providers.PartText:
		w.text(p.Text)
		return nil
	case providers.PartThinking:
		w.thought(p.Opaque)
		return nil
	case providers.PartToolCall:
		return w.call(at, p)
	}
	return w.lacks(at, p.Kind.String()+" of the assistant")
}

// thought writes a block of a thought as it came. Without its signature a thought is
// nothing to the API.
func (w *writer) thought(block string) {
	if (strings.HasPrefix(block, beforeThinking) || strings.HasPrefix(block, beforeRedacted)) && json.Valid([]byte(block)) {
		w.body = append(append(w.body, block...), ',')
	}
}

// call writes a tool call of the assistant. Its arguments go out as they are.
func (w *writer) call(at int, p *providers.Part) error {
	w.calls = true
	w.body = jsontext.AppendString(append(w.body, `{"type":"tool_use","id":`...), upstream.ToolID(p.Call.ID))
	w.body = append(jsontext.AppendString(append(w.body, `,"name":`...), p.Call.Name), `,"input":`...)
	body, err := w.client.AppendInput(w.body, at, p.Call.Arguments)
	w.body = append(body, "},"...)
	return err
}

// result writes a part of the user's turn that is the result of a tool.
func (w *writer) result(at int, p *providers.Part) error {
	if p.Kind != providers.PartToolResult {
		return nil
	}
	w.calls = true
	r := &p.Result
	w.body = jsontext.AppendString(append(w.body, `{"type":"tool_result","tool_use_id":`...), upstream.ToolID(r.Call))
	if len(r.Content) == 1 && r.Content[0].Kind == providers.PartText {
		w.body = jsontext.AppendString(append(w.body, `,"content":`...), r.Content[0].Text)
	} else if len(r.Content) > 0 {
		w.body = append(w.body, `,"content":[`...)
		from := len(w.body)
		for i := range r.Content {
			if err := w.said(at, &r.Content[i]); err != nil {
				return err
			}
		}
		w.body = append(w.body[:max(from, len(w.body)-1)], ']')
	}
	if r.Failed {
		w.body = append(w.body, `,"is_error":true`...)
	}
	w.body = append(w.body, "},"...)
	return nil
}

// said writes any other part of the user's turn, or a part of a result.
func (w *writer) said(at int, p *providers.Part) error {
	switch p.Kind {
	case providers.PartText:
		w.text(p.Text)
	case providers.PartImage:
		w.image(&p.Media)
	case providers.PartFile:
		return w.file(at, &p.Media)
	case providers.PartToolResult: // written before
	default:
		return w.lacks(at, p.Kind.String())
	}
	return nil
}

// image writes an image.
func (w *writer) image(m *providers.Media) {
	// The API looks at all images in the same way, which is what auto asks for.
	w.detail = w.detail || m.Detail != "" && m.Detail != "auto"
	w.body = append(w.body, `{"type":"image","source":`...)
	if m.URL != "" {
		w.url(m.URL)
	} else {
		w.data(m)
	}
	w.body = append(w.body, "},"...)
}

// file writes a file as a document: a PDF as it is, a text decoded.
func (w *writer) file(at int, m *providers.Media) error {
	w.body = append(w.body, `{"type":"document","source":`...)
	switch kind := upstream.MediaType(m.Type); {
	case m.URL != "" && (kind == "" || kind == typePDF):
		w.url(m.URL)
	case m.URL != "":
		return w.lacks(at, "files "+upstream.TypeName(kind)+" by URL")
	case kind == typePDF:
		w.data(m)
	case strings.HasPrefix(kind, "text/"), kind == "application/json":
		text, err := base64.StdEncoding.DecodeString(m.Data)
		if err != nil || !utf8.Valid(text) {
			return w.client.Unsendable("message %d has a file %s that is not UTF-8 in base64", at+1, upstream.TypeName(kind))
		}
		w.body = append(jsontext.AppendString(append(w.body, `{"type":"text","media_type":"text/plain","data":`...), text), '}')
	default:
		return w.lacks(at, "files "+upstream.TypeName(kind))
	}
	if m.Name != "" {
		w.body = jsontext.AppendString(append(w.body, `,"title":`...), m.Name)
	}
	w.body = append(w.body, "},"...)
	return nil
}

const typePDF = "application/pdf"

// url writes a source that the API fetches.
func (w *writer) url(url string) {
	w.body = append(jsontext.AppendString(append(w.body, `{"type":"url","url":`...), url), '}')
}

// data writes a source in base64.
func (w *writer) data(m *providers.Media) {
	w.body = jsontext.AppendString(append(w.body, `{"type":"base64","media_type":`...), upstream.MediaType(m.Type))
	w.body = append(jsontext.AppendString(append(w.body, `,"data":`...), m.Data), '}')
}
