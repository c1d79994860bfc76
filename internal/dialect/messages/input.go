package messages

import (
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// turns are the messages that the request's messages become. A user's message with
// results of tools becomes several: one for each result, and one for the other parts.
type turns struct {
	list    []providers.Message
	from    []int // the index of each one's message in the request
	shifted bool  // some turn is not the message of its index, or has thoughts

	parts []providers.Part // memory for all turns

	calls  []openCall // of the assistant's last message
	caller int        // the index of that message
}

// openCall is a call whose result is awaited.
type openCall struct {
	id, name string
	block    int // of its message
	answered bool
}

// messages reads the caller's turns.
func (p *parser) messages(v *fastjson.Value) *wire.Error {
	at := openai.At("messages")
	list, err := openai.Array(at, v)
	if err != nil {
		return err
	}
	t := &p.turns
	t.list = make([]providers.Message, 0, len(list))
	t.from = make([]int, 0, len(list))
	t.parts = make([]providers.Part, 0, min(len(list), 256))
	for i, element := range list {
		if err := p.message(i, at.Element(i), element); err != nil {
			return err
		}
	}
	return t.answered()
}

func (p *parser) message(index int, at *openai.Path, v *fastjson.Value) *wire.Error {
	o, err := openai.Object(at, v)
	if err != nil {
		return err
	}
	openai.Others(p.Call, at, o, "role", "content")
	role, content := openai.Text(o.Get("role")), o.Get("content")
	if role != "user" && role != "assistant" && role != "system" {
		return at.Member("role").Wrong("must be user, assistant or system.")
	}
	if wire.IsNull(content) {
		return at.Member("content").Wrong("is required: a string or an array of blocks.")
	}
	switch role {
	case "user":
		return p.user(index, at.Member("content"), content)
	case "assistant":
		return p.assistant(index, at.Member("content"), content)
	}
	if err := p.turns.answered(); err != nil {
		return err
	}
	from := len(p.turns.parts)
	if err := p.content(at.Member("content"), content, inInstructions); err != nil {
		return err
	}
	p.turns.add("system", index, from)
	return nil
}

// add adds a turn, of the request's message with an index, with the parts from an index
// on. Its role is a constant, so that it
// does not keep the request for it.
func (t *turns) add(role string, message, from int) {
	m := providers.Message{Role: role}
	switch own := t.parts[from:len(t.parts):len(t.parts)]; {
	case len(own) == 0:
	case len(own) == 1 && own[0].Kind == providers.PartText && own[0].Cache == 0 && own[0].Raw == "":
		m.Content = own[0].Text
		t.parts = t.parts[:from]
	default:
		m.Parts = own
	}
	t.shifted = t.shifted || message != len(t.list)
	t.list = append(t.list, m)
	t.from = append(t.from, message)
}

// answered returns the error of a call that has no result.
func (t *turns) answered() *wire.Error {
	for i := range t.calls {
		if c := &t.calls[i]; !c.answered {
			at := openai.At("messages").Element(t.caller).Member("content").Element(c.block)
			return at.Member("id").Wrong("is %q, a call without a result. Begin the next message with {\"type\":\"tool_result\",\"tool_use_id\":%q,\"content\":…}.", wire.Clip(c.id), wire.Clip(c.id))
		}
	}
	return nil
}

// user reads a message of the user: results of tools first, then anything else.
func (p *parser) user(message int, at *openai.Path, v *fastjson.Value) *wire.Error {
	t := &p.turns
	from, others := len(t.parts), false
	if v.Type() != fastjson.TypeArray {
		if err := t.answered(); err != nil {
			return err
		}
		if err := p.content(at, v, inUser); err != nil {
			return err
		}
		t.add("user", message, from)
		return nil
	}
	list := v.GetArray()
	if len(list) == 0 {
		return at.Wrong("must not be an empty array.")
	}
	for i, element := range list {
		here := at.Element(i)
		o, kind, err := block(here, element)
		if err != nil {
			return err
		}
		if kind == "tool_result" {
			if others {
				return here.Member("type").Wrong("is tool_result, but results come before the other blocks of their message.")
			}
			if err := p.result(message, here, o); err != nil {
				return err
			}
			p.Place(openai.MarkMessages, t.parts[from:])
			from = len(t.parts)
			continue
		}
		if others = true; from == len(t.parts) {
			if err := t.answered(); err != nil {
				return err
			}
		}
		before := len(t.parts)
		if err := p.block(here, o, kind, inUser); err != nil {
			return err
		}
		p.Place(openai.MarkMessages, t.parts[before:])
	}
	if others {
		t.add("user", message, from)
	}
	return nil
}

// assistant reads a message of the assistant. Its parts get the order of a history:
// thoughts, then texts, then calls. A provider that had them in another order knows it by
// the data of its thoughts.
func (p *parser) assistant(message int, at *openai.Path, v *fastjson.Value) *wire.Error {
	t := &p.turns
	if err := t.answered(); err != nil {
		return err
	}
	t.calls, t.caller = t.calls[:0], message
	from := len(t.parts)
	if v.Type() != fastjson.TypeArray {
		if err := p.content(at, v, inAssistant); err != nil {
			return err
		}
		t.add("assistant", message, from)
		return nil
	}
	var secrets []secret
	for i, element := range v.GetArray() {
		here, before := at.Element(i), len(t.parts)
		o, kind, err := block(here, element)
		if err != nil {
			return err
		}
		switch kind {
		case "thinking":
			err = p.thought(here, o, "thinking", "signature", i, &secrets)
		case "redacted_thinking":
			err = p.thought(here, o, "", "data", i, &secrets)
		case "tool_use":
			err = p.toolUse(i, here, o)
		default:
			if kind == "server_tool_use" || kind == "mcp_tool_use" || strings.HasSuffix(kind, "_tool_result") {
				p.hosted(here, element, kind)
				break
			}
			err = p.block(here, o, kind, inAssistant)
		}
		if err != nil {
			return err
		}
		p.Place(openai.MarkMessages, t.parts[before:])
	}
	own := t.parts[from:]
	for _, s := range secrets {
		if i := slices.IndexFunc(own, func(p providers.Part) bool { return p.Kind == providers.PartToolCall && p.Call.ID == s.id }); i >= 0 {
			own[i].Opaque = s.opaque
			continue
		}
		p.Ignore(at.Element(s.block).Member("data").String())
	}
	slices.SortStableFunc(own, dialect.CompareParts)
	t.add("assistant", message, from)
	return nil
}

// ownSearch begins the ids of searches that the gateway itself made of another API's. What
// these left comes back as a thought.
const ownSearch = "srvtoolu_cdz_"

// hosted reads what a tool of the API's own left.
func (p *parser) hosted(at *openai.Path, v *fastjson.Value, kind string) {
	if strings.HasPrefix(openai.Text(v.Get("id")), ownSearch) || strings.HasPrefix(openai.Text(v.Get("tool_use_id")), ownSearch) {
		return
	}
	p.Call.IgnoreHosted(at.String())
	if kind == "web_search_tool_result" || kind == "server_tool_use" && openai.Text(v.Get("name")) == "web_search" {
		p.turns.parts = append(p.turns.parts, providers.Part{Kind: providers.PartFound, Raw: p.Found(providers.APIMessages, at.String(), v)})
	}
}

// citations returns those of a text of the assistant's, as the API takes them back. Those
// that the gateway made of another API's have no index.
func (p *parser) citations(at *openai.Path, v *fastjson.Value) string {
	list := v.GetArray()
	if len(list) == 0 {
		return ""
	}
	p.Ignore(at.String())
	if slices.ContainsFunc(list, func(c *fastjson.Value) bool {
		return openai.Text(c.Get("type")) != "web_search_result_location" || openai.Text(c.Get("encrypted_index")) == ""
	}) {
		return ""
	}
	return p.Found(providers.APIMessages, at.String(), v)
}

// secret is the opaque data of a call.
type secret struct {
	id, opaque string
	block      int
}

// thought reads a thought, or the opaque data of a call. text and data name the block's
// members.
func (p *parser) thought(at *openai.Path, o *fastjson.Object, text, data string, block int, secrets *[]secret) *wire.Error {
	if err := p.only(at, o, text, data); err != nil {
		return err
	}
	part := providers.Part{Kind: providers.PartThinking}
	var err *wire.Error
	if text != "" {
		if part.Text, err = openai.Literal(p.Wire, at.Member(text), o.Get(text)); err != nil {
			return err
		}
	}
	if !wire.IsNull(o.Get(data)) {
		if part.Opaque, err = openai.String(at.Member(data), o.Get(data)); err != nil {
			return err
		}
	}
	if id, opaque, ok := dialect.CallOf(part.Opaque); ok && text == "" {
		if len(*secrets) == openai.MaxCalls {
			p.Ignore(at.Member(data).String()) // as many as there are calls at most
			return nil
		}
		*secrets = append(*secrets, secret{id, opaque, block})
		p.turns.shifted = true
		return nil
	}
	if part.Text == "" && part.Opaque == "" {
		p.Ignore(at.String())
		return nil
	}
	p.turns.shifted = true // an ignored member of a thought is named by its message
	p.turns.parts = append(p.turns.parts, part)
	return nil
}

// toolUse reads a call that the model made.
func (p *parser) toolUse(block int, at *openai.Path, o *fastjson.Object) (err *wire.Error) {
	if err := p.only(at, o, "id", "name", "input"); err != nil {
		return err
	}
	t := &p.turns
	if len(t.calls) == openai.MaxCalls {
		return at.Wrong("is the %dth call of a message, but at most %d are possible.", openai.MaxCalls+1, openai.MaxCalls)
	}
	part := providers.Part{Kind: providers.PartToolCall}
	if part.Call.ID, err = openai.Filled(at.Member("id"), o.Get("id")); err != nil {
		return err
	}
	if part.Call.Name, err = openai.Filled(at.Member("name"), o.Get("name")); err != nil {
		return err
	}
	input := o.Get("input")
	if _, err := openai.Object(at.Member("input"), input); err != nil {
		return err
	}
	part.Call.Arguments = jsontext.View(jsontext.AppendValue(nil, input))
	t.calls = append(t.calls, openCall{id: part.Call.ID, name: part.Call.Name, block: block})
	t.parts = append(t.parts, part)
	return nil
}

// result reads the result of a call as a separate turn.
func (p *parser) result(message int, at *openai.Path, o *fastjson.Object) *wire.Error {
	if err := p.only(at, o, "tool_use_id", "content", "is_error"); err != nil {
		return err
	}
	id, err := openai.Filled(at.Member("tool_use_id"), o.Get("tool_use_id"))
	if err != nil {
		return err
	}
	t := &p.turns
	i := slices.IndexFunc(t.calls, func(c openCall) bool { return c.id == id && !c.answered })
	if i < 0 {
		return at.Member("tool_use_id").Wrong("is %q, but the message before it has no such call without a result. Send the assistant's message with its tool_use blocks, then one result for each.", wire.Clip(id))
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
		if err := p.content(at.Member("content"), content, inResult); err != nil {
			return err
		}
	}
	result.Content = t.parts[from:len(t.parts):len(t.parts)]
	from = len(t.parts)
	t.parts = append(t.parts, providers.Part{Kind: providers.PartToolResult, Result: result})
	t.add("tool", message, from)
	return nil
}

// holder is the kind of a block's container: not every block may be in every
// one.
type holder uint8

const (
	inUser holder = iota
	inAssistant
	inInstructions
	inResult
	inDocument
)

// content appends the parts of a text or a list of blocks to the turns' parts.
func (p *parser) content(at *openai.Path, v *fastjson.Value, in holder) *wire.Error {
	list, err := p.textOrList(at, v)
	for i := 0; i < len(list) && err == nil; i++ {
		here, before := at.Element(i), len(p.turns.parts)
		var o *fastjson.Object
		var kind string
		if o, kind, err = block(here, list[i]); err == nil {
			err = p.block(here, o, kind, in)
		}
		if in != inResult && err == nil {
			p.Place(openai.MarkMessages, p.turns.parts[before:])
		}
	}
	return err
}

// textOrList appends a text to the turns' parts, or returns a list of blocks.
func (p *parser) textOrList(at *openai.Path, v *fastjson.Value) ([]*fastjson.Value, *wire.Error) {
	switch v.Type() {
	case fastjson.TypeString:
		p.turns.parts = append(p.turns.parts, providers.Part{Kind: providers.PartText, Text: p.Wire.Literal(v)})
		return nil, nil
	case fastjson.TypeArray:
		return v.GetArray(), nil
	}
	return nil, at.Wrong("must be a string or an array of blocks, not %s.", wire.Describe(v))
}

// block returns a block and its type.
func block(at *openai.Path, v *fastjson.Value) (o *fastjson.Object, kind string, err *wire.Error) {
	if o, err = openai.Object(at, v); err == nil {
		kind = openai.Text(o.Get("type"))
	}
	return o, kind, err
}

// block appends the parts of a text, an image or a document.
func (p *parser) block(at *openai.Path, o *fastjson.Object, kind string, in holder) *wire.Error {
	if kind == "document" && (in == inUser || in == inResult) {
		return p.document(at, o)
	}
	return p.textOrImage(at, o, kind, in)
}

func (p *parser) textOrImage(at *openai.Path, o *fastjson.Object, kind string, in holder) *wire.Error {
	t := &p.turns
	switch {
	case kind == "text":
		part := providers.Part{Kind: providers.PartText}
		names := []string{"text"}
		if cited := o.Get("citations"); in == inAssistant && cited != nil && cited.Type() == fastjson.TypeArray {
			names = append(names, "citations")
			part.Raw = p.citations(at.Member("citations"), cited)
		}
		err := p.only(at, o, names...)
		if err == nil {
			part.Text, err = openai.Literal(p.Wire, at.Member("text"), o.Get("text"))
		}
		t.parts = append(t.parts, part)
		return err
	case kind == "image" && (in == inUser || in == inResult || in == inDocument):
		part := providers.Part{Kind: providers.PartImage}
		err := p.image(at, o, &part.Media)
		t.parts = append(t.parts, part)
		return err
	}
	return at.Member("type").Wrong("is %q, but here it must be %s.", wire.Clip(kind), [...]string{
		inUser: "text, image, document or tool_result", inAssistant: "text, thinking, redacted_thinking or tool_use",
		inInstructions: "text", inResult: "text, image or document", inDocument: "text or image",
	}[in])
}

func (p *parser) text(at *openai.Path, o *fastjson.Object) (providers.Text, *wire.Error) {
	if err := p.only(at, o, "text", "", ""); err != nil {
		return "", err
	}
	return openai.Literal(p.Wire, at.Member("text"), o.Get("text"))
}

func (p *parser) image(at *openai.Path, o *fastjson.Object, m *providers.Media) *wire.Error {
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
			return at.Member("source.media_type").Wrong("must be image/png, image/jpeg, image/gif or image/webp.")
		}
		return p.data(at, source, m)
	case "url":
		return p.url(at, source, m)
	case "file":
		return notHeld(at)
	default:
		return at.Member("source.type").Wrong("is %q, but must be base64 or url.", wire.Clip(kind))
	}
}

// document reads a document: a file, or its source's text.
func (p *parser) document(at *openai.Path, o *fastjson.Object) *wire.Error {
	if err := p.only(at, o, "source", "title"); err != nil {
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
			p.Ignore(at.Member("title").String())
		}
	default:
		part := providers.Part{Kind: providers.PartFile}
		switch kind {
		case "base64":
			if openai.Text(source.Get("media_type")) != "application/pdf" {
				return at.Member("source.media_type").Wrong("must be application/pdf.")
			}
			part.Media.Type = "application/pdf"
			err = p.data(at, source, &part.Media)
		case "url":
			err = p.url(at, source, &part.Media)
		case "file":
			err = notHeld(at)
		default:
			err = at.Member("source.type").Wrong("is %q, but must be base64, url, text or content.", wire.Clip(kind))
		}
		if err == nil && !wire.IsNull(title) {
			part.Media.Name, err = openai.String(at.Member("title"), title)
		}
		t.parts = append(t.parts, part)
		return err
	}
	if kind == "text" {
		if openai.Text(source.Get("media_type")) != "text/plain" {
			return at.Member("source.media_type").Wrong("must be text/plain.")
		}
		openai.Others(p.Call, at.Member("source"), source, "type", "media_type", "data")
		text := source.Get("data")
		if text == nil || text.Type() != fastjson.TypeString {
			return at.Member("source.data").Wrong("must be a string.")
		}
		t.parts = append(t.parts, providers.Part{Kind: providers.PartText, Text: p.Wire.Literal(text)})
		return nil
	}
	openai.Others(p.Call, at.Member("source"), source, "type", "content")
	content := source.Get("content")
	if content == nil {
		return at.Member("source.content").Wrong("is required: a string or an array of blocks.")
	}
	inner := at.Member("source.content")
	list, err := p.textOrList(inner, content)
	for i := 0; i < len(list) && err == nil; i++ {
		// Not content, which reads documents: recursive paths would be on the heap.
		here := inner.Element(i)
		if o, kind, err = block(here, list[i]); err == nil {
			err = p.textOrImage(here, o, kind, inDocument)
		}
	}
	return err
}

func (p *parser) data(at *openai.Path, source *fastjson.Object, m *providers.Media) *wire.Error {
	openai.Others(p.Call, at.Member("source"), source, "type", "media_type", "data")
	v := source.Get("data")
	if v == nil || v.Type() != fastjson.TypeString {
		return at.Member("source.data").Wrong("must be a string: base64.")
	}
	m.Data = openai.Text(v)
	return openai.Base64(at.Member("source.data"), m.Data)
}

func (p *parser) url(at *openai.Path, source *fastjson.Object, m *providers.Media) (err *wire.Error) {
	openai.Others(p.Call, at.Member("source"), source, "type", "url")
	*m, err = openai.MediaURL(at.Member("source.url"), openai.Text(source.Get("url")))
	return err
}

func notHeld(at *openai.Path) *wire.Error {
	return at.Member("source").Wrong("is a file that Anthropic holds, which the gateway can't read. Send its URL or its data in base64.")
}

// only names the members of a block that are not among names: they have no effect.
func (p *parser) only(at *openai.Path, o *fastjson.Object, names ...string) (err *wire.Error) {
	o.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil || v.Type() == fastjson.TypeNull {
			return
		}
		if !slices.Contains(names, string(key)) {
			err = p.other(at, key, v)
		}
	})
	return err
}

// other reads a member of a block that has no effect.
func (p *parser) other(at *openai.Path, key []byte, v *fastjson.Value) *wire.Error {
	switch name := string(key); {
	case name == "type":
	case name == "citations" && v.Type() == fastjson.TypeArray && len(v.GetArray()) == 0:
	case name == "citations" && v.Exists("enabled") && !v.GetBool("enabled"):
	case name == "cache_control":
		return p.MarkBlock(at, v)
	case name == "citations", name == "context":
		p.Ignore(at.Member(name).String())
	case name == "caller" && openai.Text(v.Get("type")) == "direct":
		openai.Others(p.Call, at.Member(name), v.GetObject(), "type")
	case name == "caller":
		return at.Member(name).Wrong("must be {\"type\":\"direct\"}: no program calls tools here.")
	default:
		at.Unknown(p.Call, key)
	}
	return nil
}
