package anthropic

import (
	"bytes"
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
	at     int  // the message that is being written, of all of the request
	calls  bool // there is a tool call, or the result of one
	detail bool // an image said how closely to look at it, which the API does not have
}

// roleOf returns whose turn a message is of: the user's, where the results of tools
// belong, or the assistant's. It is empty for a message that belongs to none: that of
// the system, and one that says nothing, which the API rejects.
func roleOf(m *providers.Message) string {
	role := m.Role
	switch role {
	case "user", "assistant":
	case "tool":
		role = "user"
	default:
		return ""
	}
	if !says(m) {
		return ""
	}
	return role
}

// says reports whether anything of a message is to be sent. Thoughts alone are not: an
// answer that ended before its first word.
func says(m *providers.Message) bool {
	if m.Parts == nil {
		return !blank(m.Content)
	}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case providers.PartThinking:
		case providers.PartText:
			if !blank(p.Text) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// blank reports whether a text has white space alone, which the API rejects. Its own
// models say it before they call a tool.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// turns writes the member messages. Turns alternate: messages of one role in a row
// become one turn.
func (w *writer) turns(messages []providers.Message) error {
	for i := range messages {
		switch role := messages[i].Role; role {
		case "system", "developer", "user", "assistant", "tool":
		default:
			return w.client.Unsendable("message %d has the unknown role %q", i, role)
		}
	}
	w.body = append(w.body, `"messages":[`...)
	empty := len(w.body)
	for i := 0; i < len(messages); {
		role := roleOf(&messages[i])
		if role == "" {
			i++
			continue
		}
		end := i + 1
		for end < len(messages) {
			if next := roleOf(&messages[end]); next != role && next != "" {
				break
			}
			end++
		}
		if len(w.body) > empty {
			w.body = append(w.body, ',')
		}
		if err := w.turn(role, messages, i, end); err != nil {
			return err
		}
		i = end
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
	if text, ok := onlyText(messages[from:to]); ok {
		w.body = append(jsontext.AppendString(w.body, text), '}')
		return nil
	}
	w.body = append(w.body, '[')
	if role == "user" {
		// The API wants the results of tools before all else.
		if err := w.each(messages, from, to, w.result); err != nil {
			return err
		}
		if err := w.each(messages, from, to, w.said); err != nil {
			return err
		}
	} else if err := w.each(messages, from, to, w.answer); err != nil {
		return err
	}
	w.body = append(w.body[:len(w.body)-1], "]}"...) // without the last comma
	return nil
}

// each calls write with the parts of the messages of a turn.
func (w *writer) each(messages []providers.Message, from, to int, write func(*providers.Part) error) error {
	for w.at = from; w.at < to; w.at++ {
		m := &messages[w.at]
		if roleOf(m) == "" {
			continue
		}
		if m.Parts == nil {
			if err := write(&providers.Part{Kind: providers.PartText, Text: m.Content}); err != nil {
				return err
			}
			continue
		}
		var err error
		if m.Role == "assistant" {
			err = upstream.InPlace(m.Parts, write)
		} else {
			for i := 0; i < len(m.Parts) && err == nil; i++ {
				err = write(&m.Parts[i])
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// onlyText returns the text of messages of one role that have nothing else.
func onlyText(messages []providers.Message) (text string, ok bool) {
	for i := range messages {
		m := &messages[i]
		switch {
		case roleOf(m) == "":
			continue
		case ok:
			return "", false
		case m.Parts == nil:
			text, ok = m.Content, true
		case len(m.Parts) == 1 && m.Parts[0].Kind == providers.PartText:
			text, ok = m.Parts[0].Text, true
		default:
			return "", false
		}
	}
	return text, ok
}

// system writes the member system: the messages of the system and the developer, in
// their order and wherever they are. A text is a string, several are blocks.
func (w *writer) system(messages []providers.Message) error {
	var texts []string
	say := func(text string) {
		if !blank(text) {
			texts = append(texts, text)
		}
	}
	for w.at = range messages {
		m := &messages[w.at]
		if m.Role != "system" && m.Role != "developer" {
			continue
		}
		say(m.Content)
		for i := range m.Parts {
			if m.Parts[i].Kind != providers.PartText {
				return w.lacks(m.Parts[i].Kind.String() + " of the system")
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

func (w *writer) lacks(part string) error {
	return providers.LacksPart(w.client.Name, w.at, part)
}

// text writes a block of text, and a comma behind it as all blocks are.
func (w *writer) text(text string) {
	if blank(text) {
		return
	}
	w.body = append(jsontext.AppendString(append(w.body, `{"type":"text","text":`...), text), "},"...)
}

// answer writes a part of the assistant's.
func (w *writer) answer(p *providers.Part) error {
	switch p.Kind {
	case providers.PartText:
		w.text(p.Text)
		return nil
	case providers.PartThinking:
		w.thought(p.Opaque)
		return nil
	case providers.PartToolCall:
		return w.call(p)
	}
	return w.lacks(p.Kind.String() + " of the assistant")
}

// thought writes a block of a thought as it came. Without its signature a thought is
// nothing to the API.
func (w *writer) thought(block string) {
	if !strings.HasPrefix(block, beforeThinking) && !strings.HasPrefix(block, beforeRedacted) {
		return
	}
	from := len(w.body)
	w.body = append(w.body, block...)
	if !json.Valid(w.body[from:]) {
		w.body = w.body[:from]
		return
	}
	w.body = append(w.body, ',')
}

// The beginnings of the blocks of thoughts, as this package writes them.
const (
	beforeThinking = `{"type":"thinking","thinking":`
	beforeRedacted = `{"type":"redacted_thinking","data":`
)

// call writes a tool call of the assistant. Its arguments go out as they are.
func (w *writer) call(p *providers.Part) error {
	w.calls = true
	w.body = jsontext.AppendString(append(w.body, `{"type":"tool_use","id":`...), upstream.ToolID(p.Call.ID))
	w.body = append(jsontext.AppendString(append(w.body, `,"name":`...), p.Call.Name), `,"input":`...)
	from := len(w.body)
	w.body = append(w.body, p.Call.Arguments...)
	switch input := bytes.TrimSpace(w.body[from:]); {
	case len(input) == 0, string(input) == "null":
		w.body = append(w.body[:from], "{}"...)
	case input[0] != '{' || !json.Valid(input):
		return w.client.Unsendable("message %d has a tool call whose arguments are not a JSON object", w.at+1)
	}
	w.body = append(w.body, "},"...)
	return nil
}

// result writes a part of the user's turn that is the result of a tool.
func (w *writer) result(p *providers.Part) error {
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
			if err := w.said(&r.Content[i]); err != nil {
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
func (w *writer) said(p *providers.Part) error {
	switch p.Kind {
	case providers.PartText:
		w.text(p.Text)
	case providers.PartImage:
		w.image(&p.Media)
	case providers.PartFile:
		return w.file(&p.Media)
	case providers.PartToolResult: // written before
	default:
		return w.lacks(p.Kind.String())
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
func (w *writer) file(m *providers.Media) error {
	w.body = append(w.body, `{"type":"document","source":`...)
	switch kind := essence(m.Type); {
	case m.URL != "" && (kind == "" || kind == typePDF):
		w.url(m.URL)
	case m.URL != "":
		return w.lacks("files of the type " + kind + " by URL")
	case kind == typePDF:
		w.data(m)
	case strings.HasPrefix(kind, "text/"), kind == "application/json":
		text, err := base64.StdEncoding.DecodeString(m.Data)
		if err != nil || !utf8.Valid(text) {
			return w.client.Unsendable("message %d has a file of the type %s that is not UTF-8 in base64", w.at+1, kind)
		}
		w.body = append(jsontext.AppendString(append(w.body, `{"type":"text","media_type":"text/plain","data":`...), text), '}')
	default:
		return w.lacks("files of the type " + kind)
	}
	if m.Name != "" {
		w.body = jsontext.AppendString(append(w.body, `,"title":`...), m.Name)
	}
	w.body = append(w.body, "},"...)
	return nil
}

const typePDF = "application/pdf"

// essence returns a media type without its parameters, in lower case, and by the name
// that the API has for it.
func essence(media string) string {
	media, _, _ = strings.Cut(media, ";")
	if media = strings.ToLower(strings.TrimSpace(media)); media == "image/jpg" {
		return "image/jpeg"
	}
	return media
}

// url writes a source that the API fetches.
func (w *writer) url(url string) {
	w.body = append(jsontext.AppendString(append(w.body, `{"type":"url","url":`...), url), '}')
}

// data writes a source in base64.
func (w *writer) data(m *providers.Media) {
	w.body = jsontext.AppendString(append(w.body, `{"type":"base64","media_type":`...), essence(m.Type))
	w.body = append(jsontext.AppendString(append(w.body, `,"data":`...), m.Data), '}')
}
