package bedrock

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// writer writes the messages of a request by appending, because they may hold
// megabytes of images.
type writer struct {
	client *Client
	body   []byte
	names  map[string]int // of the documents so far, with the last number of each
	calls  bool           // there is a tool call, or the result of one
	detail bool           // an image said how closely to look at it, which Converse does not have
}

// turns writes the member messages.
func (w *writer) turns(messages []providers.Message) error {
	w.body = append(w.body, `"messages":[`...)
	empty := len(w.body)
	if err := w.client.Turns(messages, func(role string, from, to int) error {
		switch {
		case len(w.body) > empty:
			w.body = append(w.body, ',')
		case role != "user":
			return w.client.unfit(userBegins)
		}
		return w.turn(role, messages, from, to)
	}); err != nil {
		return err
	}
	if len(w.body) == empty {
		return w.client.unfit(userBegins)
	}
	w.body = append(w.body, ']')
	return nil
}

const userBegins = "Converse wants the conversation to begin with a message of the user"

// turn writes the messages from one to before another as one turn.
func (w *writer) turn(role string, messages []providers.Message, from, to int) error {
	w.body = append(append(append(w.body, `{"role":"`...), role...), `","content":[`...)
	if text, ok := upstream.OnlyText(messages, from, to); ok {
		w.text(text)
	} else if role == "user" {
		// Claude wants the results of tools before all else.
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

// system writes the member system: the texts of the messages of the system and the
// developer, in their order and wherever they are.
func (w *writer) system(messages []providers.Message) error {
	empty := len(w.body)
	say := func(text string) {
		if len(w.body) == empty && !upstream.Blank(text) {
			if len(w.body) > 1 {
				w.body = append(w.body, ',')
			}
			w.body = append(w.body, `"system":[`...)
		}
		w.text(text)
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
	if len(w.body) > empty {
		w.body = append(w.body[:len(w.body)-1], ']')
	}
	return nil
}

func (w *writer) lacks(at int, part string) error {
	return providers.LacksPart(w.client.Name, at, part)
}

// text writes a block of text, and a comma behind it as all blocks are. Converse
// rejects one of white space alone.
func (w *writer) text(text string) {
	if upstream.Blank(text) {
		return
	}
	w.body = append(jsontext.AppendString(append(w.body, `{"text":`...), text), "},"...)
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
// nothing to the model.
func (w *writer) thought(block string) {
	if strings.HasPrefix(block, beforeThought) && json.Valid([]byte(block)) {
		w.body = append(append(w.body, block...), ',')
	}
}

// call writes a tool call of the assistant. Its arguments go out as they are.
func (w *writer) call(at int, p *providers.Part) error {
	w.calls = true
	w.body = jsontext.AppendString(append(w.body, `{"toolUse":{"toolUseId":`...), upstream.ToolID(p.Call.ID))
	w.body = append(jsontext.AppendString(append(w.body, `,"name":`...), p.Call.Name), `,"input":`...)
	body, err := w.client.AppendInput(w.body, at, p.Call.Arguments)
	w.body = append(body, "}},"...)
	return err
}

// result writes a part of the user's turn that is the result of a tool.
func (w *writer) result(at int, p *providers.Part) error {
	if p.Kind != providers.PartToolResult {
		return nil
	}
	w.calls = true
	r := &p.Result
	w.body = jsontext.AppendString(append(w.body, `{"toolResult":{"toolUseId":`...), upstream.ToolID(r.Call))
	w.body = append(w.body, `,"content":[`...)
	empty := len(w.body)
	for i := range r.Content {
		if err := w.said(at, &r.Content[i]); err != nil {
			return err
		}
	}
	w.body = append(w.body[:max(empty, len(w.body)-1)], ']')
	if r.Failed {
		w.body = append(w.body, `,"status":"error"`...)
	}
	w.body = append(w.body, "}},"...)
	return nil
}

// said writes any other part of the user's turn, or a part of a result.
func (w *writer) said(at int, p *providers.Part) error {
	switch p.Kind {
	case providers.PartText:
		w.text(p.Text)
	case providers.PartImage:
		return w.image(at, &p.Media)
	case providers.PartFile:
		return w.file(at, &p.Media)
	case providers.PartToolResult: // written before
	default:
		return w.lacks(at, p.Kind.String())
	}
	return nil
}

// image writes an image. Converse fetches none.
func (w *writer) image(at int, m *providers.Media) error {
	if m.URL != "" {
		return w.lacks(at, "images by URL")
	}
	format, ok := strings.CutPrefix(upstream.MediaType(m.Type), "image/")
	switch format {
	case "png", "jpeg", "gif", "webp":
	default:
		ok = false
	}
	if !ok {
		return w.lacks(at, "images "+upstream.TypeName(m.Type))
	}
	w.detail = w.detail || m.Detail != "" && m.Detail != "auto"
	w.body = append(append(append(w.body, `{"image":{"format":"`...), format...), '"')
	w.data(m.Data)
	return nil
}

// formats are the formats of documents, by their media types.
var formats = map[string]string{
	"application/pdf": "pdf", "text/plain": "txt", "text/markdown": "md", "text/html": "html", "text/csv": "csv",
	"application/msword": "doc", "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
	"application/vnd.ms-excel": "xls", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}

// file writes a file as a document. Converse wants a name of each, which no other
// has.
func (w *writer) file(at int, m *providers.Media) error {
	if m.URL != "" {
		return w.lacks(at, "files by URL")
	}
	format := formats[upstream.MediaType(m.Type)]
	if format == "" {
		return w.lacks(at, "files "+upstream.TypeName(m.Type))
	}
	w.body = append(append(append(w.body, `{"document":{"format":"`...), format...), `","name":`...)
	w.body = jsontext.AppendString(w.body, w.documentName(m.Name))
	w.data(m.Data)
	return nil
}

// nameSize bounds the name of a document, in bytes.
const nameSize = 200

// documentName makes of a file's name one that Converse takes: letters, digits,
// single spaces, hyphens, parentheses and brackets. One whose name another has is
// numbered.
func (w *writer) documentName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80, '0' <= r && r <= '9', strings.ContainsRune("-()[] ", r):
			return r
		}
		return '-'
	}, name[:min(len(name), nameSize)])
	if name = strings.Join(strings.Fields(name), " "); name == "" {
		name = "document"
	}
	if w.names == nil {
		w.names = make(map[string]int)
	}
	own := name
	for w.names[own] > 0 {
		w.names[name]++
		own = name + " (" + strconv.Itoa(w.names[name]) + ")"
	}
	w.names[own] = 1
	return own
}

// data writes the rest of a block that has its bytes in base64.
func (w *writer) data(data string) {
	w.body = jsontext.AppendString(append(w.body, `,"source":{"bytes":`...), data)
	w.body = append(w.body, "}}},"...)
}

// tools appends the tools that the conversation has calls of, where the request has
// none: Converse takes no such conversation without them.
func (w *writer) tools(names []string) {
	w.body = append(w.body, `,"toolConfig":{"tools":[`...)
	for i, name := range names {
		if i > 0 {
			w.body = append(w.body, ',')
		}
		w.body = jsontext.AppendString(append(w.body, `{"toolSpec":{"name":`...), name)
		w.body = append(append(append(w.body, `,"inputSchema":{"json":`...), providers.NoArguments...), "}}}"...)
	}
	w.body = append(w.body, "]}"...)
}
