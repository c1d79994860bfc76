package gemini

import (
	"cmp"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// The beginnings of the opaque data of thoughts, as this package makes it: that of a
// part that is a thought, and that of a text, which follows the thought.
const (
	ofThought = "thought:"
	ofText    = "text:"
)

// ownID begins the opaque data of a tool call whose id is the API's own, before the
// signature, which may be empty. The API takes such ids back. Ids of other services,
// and ids that were counted here, mean nothing to it: calls and results then belong
// together by their order.
const ownID = "#"

// unsigned is the signature of calls that have none, such as calls of other models,
// and of callers that lose it: from Gemini 3 on the API refuses a call without one.
// See https://ai.google.dev/gemini-api/docs/thought-signatures.
const unsigned = "skip_thought_signature_validator"

// writer writes the messages of a request by appending, because they may hold
// megabytes of images.
type writer struct {
	client     *Client
	generation int // of the model
	body       []byte
	calls      []*providers.Part // of all turns so far
	signed     bool              // a call of this turn was seen: the others need no signature
	signature  string            // of the text that comes next
	detail     bool              // an image said how closely to look at it, which the API does not have
	named      bool              // a file has a name, which the API does not have
	combines   bool              // the API takes parts of its own back
}

// contents writes the member contents. Messages of one role in a row become one turn;
// the results of tools have one of their own, because the API wants as many of them
// after a turn with calls as there are calls, and nothing else.
func (w *writer) contents(messages []providers.Message) error {
	w.body = append(w.body, `"contents":[`...)
	empty := len(w.body)
	err := w.client.Turns(messages, func(role string, from, to int) error {
		if role == "assistant" {
			return w.turn("model", func() error { return upstream.Parts(messages, from, to, w.answer) })
		}
		if err := w.turn("user", func() error { return w.results(messages, from, to) }); err != nil {
			return err
		}
		return w.turn("user", func() error { return upstream.Parts(messages, from, to, w.said) })
	})
	if err != nil {
		return err
	}
	if len(w.body) == empty {
		return w.client.Unsendable("there is no user or assistant message with text: Gemini's API needs one beside the system instruction")
	}
	w.body[len(w.body)-1] = ']' // in place of the last comma
	return nil
}

// turn writes a turn, and a comma behind it, with the parts that write appends. It writes
// nothing if these are none.
func (w *writer) turn(role string, write func() error) error {
	before := len(w.body)
	w.body = append(append(append(w.body, `{"role":"`...), role...), `","parts":[`...)
	empty := len(w.body)
	w.signed = false
	if err := write(); err != nil {
		return err
	}
	w.sign()
	if len(w.body) == empty {
		w.body = w.body[:before]
		return nil
	}
	w.body = append(w.body[:len(w.body)-1], "]},"...)
	return nil
}

// system writes the member systemInstruction: the messages of the system and the
// developer, in their order and wherever they are.
func (w *writer) system(messages []providers.Message) error {
	texts, err := w.client.SystemTexts(messages)
	if len(texts) == 0 || err != nil {
		return err
	}
	if len(w.body) > 1 {
		w.body = append(w.body, ',')
	}
	w.body = append(w.body, `"systemInstruction":{"parts":[`...)
	for i := range texts {
		w.text(texts[i].Text)
	}
	w.body = append(w.body[:len(w.body)-1], "]}"...)
	return nil
}

// text writes a part of text, and a comma behind it as all parts are.
func (w *writer) text(text providers.Text) {
	if text == "" {
		return
	}
	w.body = text.Append(append(w.body, `{"text":`...))
	w.signedWith(w.signature)
	w.signature = ""
}

// signedWith ends a part, with its signature if it has one.
func (w *writer) signedWith(signature string) {
	if signature != "" {
		w.body = jsontext.AppendString(append(w.body, `,"thoughtSignature":`...), signature)
	}
	w.body = append(w.body, "},"...)
}

// sign writes the signature of a text that does not follow: that of an empty one, with
// which streams end.
func (w *writer) sign() {
	if w.signature != "" {
		w.body = append(w.body, `{"text":""`...)
		w.signedWith(w.signature)
		w.signature = ""
	}
}

// answer writes a part of the model's.
func (w *writer) answer(at int, p *providers.Part) error {
	if p.Kind == providers.PartText {
		w.text(p.Text)
		return nil
	}
	w.sign()
	switch p.Kind {
	case providers.PartThinking:
		// Without its signature a thought is nothing to the API.
		if signature, ok := strings.CutPrefix(p.Opaque, ofText); ok {
			w.signature = signature
		} else if signature, ok := strings.CutPrefix(p.Opaque, ofThought); ok {
			w.body = append(p.Text.Append(append(w.body, `{"text":`...)), `,"thought":true`...)
			w.signedWith(signature)
		} else if part, ok := strings.CutPrefix(p.Opaque, ofPart); ok && w.combines {
			w.body = append(append(w.body, part...), ',')
		}
		return nil
	case providers.PartToolCall:
		return w.call(at, p)
	}
	return w.client.Lacks(at, p.Kind.String()+" of the assistant")
}

// call writes a tool call of the model. Its arguments go out as they are.
func (w *writer) call(at int, p *providers.Part) (err error) {
	w.calls = append(w.calls, p)
	signature, own := strings.CutPrefix(p.Opaque, ownID)
	if signature == "" && !w.signed && w.generation >= 3 {
		signature = unsigned
	}
	w.signed = true
	w.body = append(w.body, `{"functionCall":{`...)
	w.id(p.Call.ID, own)
	w.body = jsontext.AppendString(append(w.body, `"name":`...), p.Call.Name)
	if w.body, err = w.client.AppendInput(append(w.body, `,"args":`...), at, p.Call.Arguments); err != nil {
		return err
	}
	w.body = append(w.body, '}')
	w.signedWith(signature)
	return nil
}

// id writes the id of a call or of its result, if it is the API's own.
func (w *writer) id(id string, own bool) {
	if own {
		w.body = append(jsontext.AppendString(append(w.body, `"id":`...), id), ',')
	}
}

// placed is the result of a tool, with its call.
type placed struct {
	at   int // its message
	part *providers.Part
	call int // its place in writer.calls; -1: no message has the call
}

// results writes the results of tools in the order of their calls. Agents send them as
// they finish, and without ids of its own the API pairs them by order.
func (w *writer) results(messages []providers.Message, from, to int) error {
	var results []placed
	_ = upstream.Parts(messages, from, to, func(at int, p *providers.Part) error {
		if p.Kind == providers.PartToolResult {
			call := len(w.calls) - 1
			for call >= 0 && w.calls[call].Call.ID != p.Result.Call {
				call--
			}
			results = append(results, placed{at, p, call})
		}
		return nil
	})
	slices.SortStableFunc(results, func(a, b placed) int { return cmp.Compare(a.call, b.call) })
	for i := range results {
		if err := w.result(&results[i]); err != nil {
			return err
		}
	}
	return nil
}

// result writes the result of a tool. Images in it are part of it from Gemini 3 on.
func (w *writer) result(of *placed) error {
	at, r := of.at, &of.part.Result
	name, own := r.Name, false
	if of.call >= 0 {
		call := w.calls[of.call]
		name, own = call.Call.Name, strings.HasPrefix(call.Opaque, ownID)
	}
	if name == "" {
		return w.client.Unsendable("message %d has the result of the tool call %q, which no message before it has", at+1, r.Call)
	}
	w.body = append(w.body, `{"functionResponse":{`...)
	w.id(r.Call, own)
	w.body = jsontext.AppendString(append(w.body, `"name":`...), name)
	member := `,"response":{"output":"`
	if r.Failed {
		member = `,"response":{"error":"`
	}
	w.body = append(w.body, member...)
	media := 0
	for i := range r.Content {
		switch c := &r.Content[i]; c.Kind {
		case providers.PartText:
			w.body = append(w.body, c.Text...)
		case providers.PartImage, providers.PartAudio, providers.PartFile:
			media++
		default:
			return w.client.Lacks(at, c.Kind.String()+" in the result of a tool")
		}
	}
	w.body = append(w.body, `"}`...)
	if media > 0 && w.within(r) {
		w.body = append(w.body, `,"parts":[`...)
		for i := range r.Content {
			if c := &r.Content[i]; c.Kind != providers.PartText {
				w.media(&c.Media)
			}
		}
		w.body[len(w.body)-1] = ']'
	}
	w.body = append(w.body, "}},"...)
	return nil
}

// within reports whether the images of a result are a part of it. Models before
// Gemini 3, images by URL and sounds have them after the results.
func (w *writer) within(r *providers.ToolResult) bool {
	for i := range r.Content {
		if c := &r.Content[i]; c.Media.URL != "" || c.Kind == providers.PartAudio {
			return false
		}
	}
	return w.generation >= 3
}

// said writes any other part of the user's.
func (w *writer) said(at int, p *providers.Part) error {
	switch p.Kind {
	case providers.PartText:
		w.text(p.Text)
	case providers.PartImage, providers.PartAudio, providers.PartFile:
		w.media(&p.Media)
	case providers.PartToolResult:
		for i := range p.Result.Content {
			if c := &p.Result.Content[i]; c.Kind != providers.PartText && !w.within(&p.Result) {
				w.media(&c.Media)
			}
		}
	default:
		return w.client.Lacks(at, p.Kind.String())
	}
	return nil
}

// media writes an image, a sound or a file. The API has no place for its name, and
// looks at all images in the same way, as auto asks.
func (w *writer) media(m *providers.Media) {
	w.detail = w.detail || m.Detail != "" && m.Detail != "auto"
	w.named = w.named || m.Name != ""
	if m.URL == "" {
		w.body = jsontext.AppendString(append(w.body, `{"inlineData":{"mimeType":`...), upstream.MediaType(m.Type))
		w.body = append(jsontext.AppendString(append(w.body, `,"data":`...), m.Data), "}},"...)
		return
	}
	w.body = append(w.body, `{"fileData":{`...)
	if kind := typeAt(m); kind != "" {
		w.body = append(jsontext.AppendString(append(w.body, `"mimeType":`...), kind), ',')
	}
	w.body = append(jsontext.AppendString(append(w.body, `"fileUri":`...), m.URL), "}},"...)
}

// typeAt returns the media type of the file at a URL, by the URL's extension if the
// caller does not say it; empty where that says nothing.
func typeAt(m *providers.Media) string {
	if m.Type != "" {
		return upstream.MediaType(m.Type)
	}
	u, err := url.Parse(m.URL)
	if err != nil {
		return ""
	}
	return upstream.MediaType(mime.TypeByExtension(strings.ToLower(path.Ext(u.Path))))
}
