package messages

import (
	"slices"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// turns are the messages that those of a request come to. A user's message with results
// of tools is several: one for each result, and one for the rest.
type turns struct {
	list    []providers.Message
	from    []int // the index of each one's message in the request
	shifted bool  // some turn is not the message of its index, or has thoughts

	parts []providers.Part // the room of all turns
	calls []openCall       // of the assistant's last message
}

// openCall is a call whose result is awaited.
type openCall struct {
	id, name string
	at       place
	answered bool
}

// place is where a value is in the request. It becomes a text only where one is needed.
type place struct {
	message int    // or inSystem
	block   int    // of its content, or whole
	list    string // the member of the block that is a list; empty for the block itself
	inner   int
}

const (
	inSystem = -1
	whole    = -1
)

// Member returns the path of a member of the value at the place, or its own.
func (at place) Member(name string) string {
	path := "system"
	if at.message != inSystem {
		path = "messages[" + strconv.Itoa(at.message) + "]"
	}
	if at.block != whole {
		if at.message != inSystem {
			path += ".content"
		}
		path += "[" + strconv.Itoa(at.block) + "]"
	}
	if at.list != "" {
		path += "." + at.list + "[" + strconv.Itoa(at.inner) + "]"
	}
	if name == "" {
		return path
	}
	return path + "." + name
}

// messages reads the caller's turns.
func (p *parser) messages(v *fastjson.Value) *wire.Error {
	list, err := openai.Array("messages", v)
	if err != nil {
		return err
	}
	t := &p.turns
	t.list = make([]providers.Message, 0, len(list))
	t.from = make([]int, 0, len(list))
	t.parts = make([]providers.Part, 0, min(len(list), 256))
	for i, element := range list {
		if err := p.message(place{message: i, block: whole}, element); err != nil {
			return err
		}
	}
	return t.answered()
}

func (p *parser) message(at place, v *fastjson.Value) *wire.Error {
	o, notObject := v.Object()
	if notObject != nil {
		return dialect.Wrong(at.Member(""), "must be an object, not %s.", wire.Describe(v))
	}
	if err := p.only(at, o, "role", "content", ""); err != nil {
		return err
	}
	role, content := openai.Text(o.Get("role")), o.Get("content")
	if role != "user" && role != "assistant" && role != "system" {
		return dialect.Wrong(at.Member("role"), "must be user, assistant or system.")
	}
	if wire.IsNull(content) {
		return dialect.Wrong(at.Member("content"), "is required: a string or an array of blocks.")
	}
	switch role {
	case "user":
		return p.user(at, content)
	case "assistant":
		return p.assistant(at, content)
	}
	if err := p.turns.answered(); err != nil {
		return err
	}
	from := len(p.turns.parts)
	if err := p.content(at, "content", content, inInstructions); err != nil {
		return err
	}
	p.turns.add("system", at, from)
	return nil
}

// add adds a turn with the parts from an index on. Its role is a constant, so that it
// does not keep the request for it.
func (t *turns) add(role string, at place, from int) {
	m := providers.Message{Role: role}
	switch own := t.parts[from:len(t.parts):len(t.parts)]; {
	case len(own) == 0:
	case len(own) == 1 && own[0].Kind == providers.PartText:
		m.Content = own[0].Text
		t.parts = t.parts[:from]
	default:
		m.Parts = own
	}
	t.shifted = t.shifted || at.message != len(t.list)
	t.list = append(t.list, m)
	t.from = append(t.from, at.message)
}

// answered returns the error of a call that has no result.
func (t *turns) answered() *wire.Error {
	for i := range t.calls {
		if c := &t.calls[i]; !c.answered {
			return dialect.Wrong(c.at.Member("id"), "is %q, a call without a result. Begin the next message with {\"type\":\"tool_result\",\"tool_use_id\":%q,\"content\":…}.", wire.Clip(c.id), wire.Clip(c.id))
		}
	}
	return nil
}

// user reads a message of the user: results of tools first, then anything else.
func (p *parser) user(at place, v *fastjson.Value) *wire.Error {
	t := &p.turns
	from, others := len(t.parts), false
	if v.Type() != fastjson.TypeArray {
		if err := t.answered(); err != nil {
			return err
		}
		if err := p.content(at, "content", v, inUser); err != nil {
			return err
		}
		t.add("user", at, from)
		return nil
	}
	list := v.GetArray()
	if len(list) == 0 {
		return dialect.Wrong(at.Member("content"), "must not be an empty array.")
	}
	for i, element := range list {
		here := place{message: at.message, block: i}
		o, kind, err := block(here, element)
		if err != nil {
			return err
		}
		if kind == "tool_result" {
			if others {
				return dialect.Wrong(here.Member("type"), "is tool_result, but results come before the other blocks of their message.")
			}
			if err := p.result(here, o); err != nil {
				return err
			}
			from = len(t.parts)
			continue
		}
		if others = true; from == len(t.parts) {
			if err := t.answered(); err != nil {
				return err
			}
		}
		if err := p.block(here, o, kind, inUser); err != nil {
			return err
		}
	}
	if others {
		t.add("user", at, from)
	}
	return nil
}

// assistant reads a message of the assistant. Its parts are those of a history: thoughts,
// then texts, then calls. A provider that had them in another order knows it by the
// data of its thoughts.
func (p *parser) assistant(at place, v *fastjson.Value) *wire.Error {
	t := &p.turns
	if err := t.answered(); err != nil {
		return err
	}
	t.calls = t.calls[:0]
	from := len(t.parts)
	if v.Type() != fastjson.TypeArray {
		if err := p.content(at, "content", v, inAssistant); err != nil {
			return err
		}
		t.add("assistant", at, from)
		return nil
	}
	var secrets []secret
	for i, element := range v.GetArray() {
		here := place{message: at.message, block: i}
		o, kind, err := block(here, element)
		if err != nil {
			return err
		}
		switch kind {
		case "thinking":
			err = p.thought(here, o, "thinking", "signature", &secrets)
		case "redacted_thinking":
			err = p.thought(here, o, "", "data", &secrets)
		case "tool_use":
			err = p.toolUse(here, o)
		default:
			err = p.block(here, o, kind, inAssistant)
		}
		if err != nil {
			return err
		}
	}
	own := t.parts[from:]
	for _, s := range secrets {
		if i := slices.IndexFunc(own, func(p providers.Part) bool { return p.Kind == providers.PartToolCall && p.Call.ID == s.id }); i >= 0 {
			own[i].Opaque = s.opaque
			continue
		}
		p.ignore(s.at.Member("data"))
	}
	slices.SortStableFunc(own, dialect.CompareParts)
	t.add("assistant", at, from)
	return nil
}

// secret is the opaque data of a call.
type secret struct {
	id, opaque string
	at         place
}

// thought reads what the model thought, or the opaque data of a call. text and data name
// the block's members.
func (p *parser) thought(at place, o *fastjson.Object, text, data string, secrets *[]secret) *wire.Error {
	if err := p.only(at, o, text, data, ""); err != nil {
		return err
	}
	part := providers.Part{Kind: providers.PartThinking}
	var err *wire.Error
	if text != "" {
		if part.Text, err = openai.TextMember(at, text, o); err != nil {
			return err
		}
	}
	if !wire.IsNull(o.Get(data)) {
		if part.Opaque, err = openai.TextMember(at, data, o); err != nil {
			return err
		}
	}
	if id, opaque, ok := dialect.CallOf(part.Opaque); ok && text == "" {
		if len(*secrets) == openai.MaxCalls {
			p.ignore(at.Member(data)) // as many as there are calls at most
			return nil
		}
		*secrets = append(*secrets, secret{id, opaque, at})
		p.turns.shifted = true
		return nil
	}
	if part.Text == "" && part.Opaque == "" {
		p.ignore(at.Member(""))
		return nil
	}
	p.turns.shifted = true // what is ignored of a thought is named by its message
	p.turns.parts = append(p.turns.parts, part)
	return nil
}

// toolUse reads a call that the model made.
func (p *parser) toolUse(at place, o *fastjson.Object) (err *wire.Error) {
	if err := p.only(at, o, "id", "name", "input"); err != nil {
		return err
	}
	t := &p.turns
	if len(t.calls) == openai.MaxCalls {
		return dialect.Wrong(at.Member(""), "is the %dth call of a message, but at most %d are possible.", openai.MaxCalls+1, openai.MaxCalls)
	}
	part := providers.Part{Kind: providers.PartToolCall}
	if part.Call.ID, err = openai.FilledMember(at, "id", o); err != nil {
		return err
	}
	if part.Call.Name, err = openai.FilledMember(at, "name", o); err != nil {
		return err
	}
	input := o.Get("input")
	if input == nil {
		return dialect.Wrong(at.Member("input"), "is required: an object.")
	}
	if input.Type() != fastjson.TypeObject {
		return dialect.Wrong(at.Member("input"), "must be an object, not %s.", wire.Describe(input))
	}
	part.Call.Arguments = openai.View(jsontext.AppendValue(nil, input))
	t.calls = append(t.calls, openCall{id: part.Call.ID, name: part.Call.Name, at: at})
	t.parts = append(t.parts, part)
	return nil
}

// result reads what a call came to, as a turn of its own.
func (p *parser) result(at place, o *fastjson.Object) *wire.Error {
	if err := p.only(at, o, "tool_use_id", "content", "is_error"); err != nil {
		return err
	}
	id, err := openai.FilledMember(at, "tool_use_id", o)
	if err != nil {
		return err
	}
	t := &p.turns
	i := slices.IndexFunc(t.calls, func(c openCall) bool { return c.id == id && !c.answered })
	if i < 0 {
		return dialect.Wrong(at.Member("tool_use_id"), "is %q, but the message before it has no such call without a result. Send the assistant's message with its tool_use blocks, then one result for each.", wire.Clip(id))
	}
	t.calls[i].answered = true
	result := providers.ToolResult{Call: id, Name: t.calls[i].name}
	if failed := o.Get("is_error"); !wire.IsNull(failed) {
		if result.Failed, err = openai.Bool(at.Member("is_error"), failed); err != nil {
			return err
		}
	}
	from := len(t.parts)
	if content := o.Get("content"); !wire.IsNull(content) {
		if err := p.content(at, "content", content, inResult); err != nil {
			return err
		}
	}
	result.Content = t.parts[from:len(t.parts):len(t.parts)]
	from = len(t.parts)
	t.parts = append(t.parts, providers.Part{Kind: providers.PartToolResult, Result: result})
	t.add("tool", at, from)
	return nil
}

// where is what has a block: not all have all.
type where uint8

const (
	inUser where = iota
	inAssistant
	inInstructions
	inResult
	inDocument
)

// content appends the parts of a text or a list of blocks to the turns' parts. at is
// that of the message or block which has them as the member with the name.
func (p *parser) content(at place, name string, v *fastjson.Value, in where) *wire.Error {
	t := &p.turns
	switch v.Type() {
	case fastjson.TypeString:
		t.parts = append(t.parts, providers.Part{Kind: providers.PartText, Text: openai.Text(v)})
		return nil
	case fastjson.TypeArray:
	default:
		return dialect.Wrong(at.Member(name), "must be a string or an array of blocks, not %s.", wire.Describe(v))
	}
	for i, element := range v.GetArray() {
		here := place{message: at.message, block: i}
		if at.block != whole {
			here = place{message: at.message, block: at.block, list: name, inner: i}
		}
		o, kind, err := block(here, element)
		if err == nil {
			err = p.block(here, o, kind, in)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// block returns a block and its type.
func block(at place, v *fastjson.Value) (o *fastjson.Object, kind string, err *wire.Error) {
	o, notObject := v.Object()
	if notObject != nil {
		return nil, "", dialect.Wrong(at.Member(""), "must be an object, not %s.", wire.Describe(v))
	}
	return o, openai.Text(o.Get("type")), nil
}

// block appends the parts of a text, an image or a document.
func (p *parser) block(at place, o *fastjson.Object, kind string, in where) *wire.Error {
	t := &p.turns
	media := in == inUser || in == inResult
	switch {
	case kind == "text":
		text, err := p.text(at, o)
		t.parts = append(t.parts, providers.Part{Kind: providers.PartText, Text: text})
		return err
	case kind == "image" && (media || in == inDocument):
		part := providers.Part{Kind: providers.PartImage}
		err := p.image(at, o, &part.Media)
		t.parts = append(t.parts, part)
		return err
	case kind == "document" && media:
		return p.document(at, o)
	}
	return dialect.Wrong(at.Member("type"), "is %q, but here it must be %s.", wire.Clip(kind), [...]string{
		inUser: "text, image, document or tool_result", inAssistant: "text, thinking, redacted_thinking or tool_use",
		inInstructions: "text", inResult: "text, image or document", inDocument: "text or image",
	}[in])
}

func (p *parser) text(at place, o *fastjson.Object) (string, *wire.Error) {
	if err := p.only(at, o, "text", "", ""); err != nil {
		return "", err
	}
	return openai.TextMember(at, "text", o)
}

func (p *parser) image(at place, o *fastjson.Object, m *providers.Media) *wire.Error {
	if err := p.only(at, o, "source", "", ""); err != nil {
		return err
	}
	source, err := openai.Object(at.Member("source"), o.Get("source"))
	if err != nil {
		return err
	}
	switch kind := openai.Text(source.Get("type")); kind {
	case "base64":
		// The types are constants, so that an image does not keep the request for it.
		switch openai.Text(source.Get("media_type")) {
		case "image/png":
			m.Type = "image/png"
		case "image/jpeg":
			m.Type = "image/jpeg"
		case "image/gif":
			m.Type = "image/gif"
		case "image/webp":
			m.Type = "image/webp"
		default:
			return dialect.Wrong(at.Member("source.media_type"), "must be image/png, image/jpeg, image/gif or image/webp.")
		}
		return data(at, source, m)
	case "url":
		return url(at, source, m)
	case "file":
		return notHeld(at)
	default:
		return dialect.Wrong(at.Member("source.type"), "is %q, but must be base64 or url.", wire.Clip(kind))
	}
}

// document reads a document: a file, or what its source has as text.
func (p *parser) document(at place, o *fastjson.Object) *wire.Error {
	if err := p.only(at, o, "source", "title", ""); err != nil {
		return err
	}
	source, err := openai.Object(at.Member("source"), o.Get("source"))
	if err != nil {
		return err
	}
	t := &p.turns
	title := o.Get("title")
	kind := openai.Text(source.Get("type"))
	switch kind {
	case "text", "content":
		if !wire.IsNull(title) {
			p.ignore(at.Member("title"))
		}
	default:
		part := providers.Part{Kind: providers.PartFile}
		if !wire.IsNull(title) {
			if part.Media.Name, err = openai.TextMember(at, "title", o); err != nil {
				return err
			}
		}
		switch kind {
		case "base64":
			if openai.Text(source.Get("media_type")) != "application/pdf" {
				return dialect.Wrong(at.Member("source.media_type"), "must be application/pdf.")
			}
			part.Media.Type = "application/pdf"
			err = data(at, source, &part.Media)
		case "url":
			err = url(at, source, &part.Media)
		case "file":
			err = notHeld(at)
		default:
			err = dialect.Wrong(at.Member("source.type"), "is %q, but must be base64, url, text or content.", wire.Clip(kind))
		}
		t.parts = append(t.parts, part)
		return err
	}
	if kind == "text" {
		if openai.Text(source.Get("media_type")) != "text/plain" {
			return dialect.Wrong(at.Member("source.media_type"), "must be text/plain.")
		}
		if err := onlyOf(at.Member("source"), source, "type", "media_type", "data"); err != nil {
			return err
		}
		text := source.Get("data")
		if text == nil || text.Type() != fastjson.TypeString {
			return dialect.Wrong(at.Member("source.data"), "must be a string.")
		}
		t.parts = append(t.parts, providers.Part{Kind: providers.PartText, Text: openai.Text(text)})
		return nil
	}
	if err := onlyOf(at.Member("source"), source, "type", "content"); err != nil {
		return err
	}
	if at.list != "" { // its own list would be the third in its path
		return dialect.Wrong(at.Member("source.type"), "is content, but in a result it must be base64, url or text.")
	}
	content := source.Get("content")
	if content == nil {
		return dialect.Wrong(at.Member("source.content"), "is required: a string or an array of blocks.")
	}
	return p.content(at, "source.content", content, inDocument)
}

func data(at place, source *fastjson.Object, m *providers.Media) *wire.Error {
	if err := onlyOf(at.Member("source"), source, "type", "media_type", "data"); err != nil {
		return err
	}
	v := source.Get("data")
	if v == nil || v.Type() != fastjson.TypeString {
		return dialect.Wrong(at.Member("source.data"), "must be a string: base64.")
	}
	m.Data = openai.Text(v)
	return openai.Base64(at.Member("source.data"), m.Data)
}

func url(at place, source *fastjson.Object, m *providers.Media) (err *wire.Error) {
	if err := onlyOf(at.Member("source"), source, "type", "url"); err != nil {
		return err
	}
	*m, err = openai.MediaURL(at.Member("source.url"), openai.Text(source.Get("url")))
	return err
}

func notHeld(at place) *wire.Error {
	return dialect.Wrong(at.Member("source"), "is a file that Anthropic holds, which the gateway can't read. Send its URL or its data in base64.")
}

// only refuses the members of a message or a block that have none of the names. Those
// without an effect here are ignored.
func (p *parser) only(at place, o *fastjson.Object, names ...string) (err *wire.Error) {
	o.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil || v.Type() == fastjson.TypeNull {
			return
		}
		name := string(key)
		if slices.Contains(names, name) {
			return
		}
		switch {
		case at.block == whole:
			err = openai.Unknown(at.Member("")+".", name)
		case name == "type":
		case name == "citations" && v.Type() == fastjson.TypeArray && len(v.GetArray()) == 0:
		case name == "citations" && v.Exists("enabled") && !v.GetBool("enabled"):
		case name == "cache_control", name == "citations", name == "context":
			p.ignore(at.Member(name))
		case name == "caller" && openai.Text(v.Get("type")) == "direct":
		case name == "caller":
			err = dialect.Wrong(at.Member(name), "must be {\"type\":\"direct\"}: no program calls tools here.")
		default:
			err = openai.Unknown(at.Member("")+".", name)
		}
	})
	return err
}

// onlyOf refuses the members of the object at a path that have none of the names.
func onlyOf(path string, o *fastjson.Object, names ...string) (err *wire.Error) {
	o.Visit(func(key []byte, v *fastjson.Value) {
		if err == nil && v.Type() != fastjson.TypeNull && !slices.Contains(names, string(key)) {
			err = openai.Unknown(path+".", string(key))
		}
	})
	return err
}
