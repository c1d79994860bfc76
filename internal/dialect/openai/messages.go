package openai

import (
	"slices"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

const (
	// MaxCalls is how many tool calls a message may have.
	MaxCalls = 128
	// maxDetails is how many reasoning_details a message may have.
	maxDetails = 256
)

// messages reads the list of messages at a path, or nil if it is absent, null
// or empty. It names members without effect.
//
// Each tool call must be answered by a tool message before any other message follows,
// and each tool message must answer a call, as in OpenAI's API
// (https://platform.openai.com/docs/guides/function-calling): providers refuse any
// other history.
func (r *Request) messages(at *Path, v *fastjson.Value) ([]providers.Message, *wire.Error) {
	if wire.IsNull(v) {
		return nil, nil
	}
	list, err := Array(at, v)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	p := messageParser{r: r}
	messages := make([]providers.Message, len(list))
	for i, element := range list {
		p.left = len(list) - i
		here := at.Element(i)
		if err := p.message(here, element, &messages[i]); err != nil {
			return nil, err
		}
		if m := &messages[i]; m.Role == "assistant" {
			p.caller, p.open = i, 0
			for j := range m.Parts {
				if m.Parts[j].Kind == providers.PartToolCall {
					p.open++
				}
			}
			p.calls = m.Parts[len(m.Parts)-p.open:]
			p.answered = [MaxCalls]bool{}
		} else if m.Role == "tool" {
			if err := p.answer(here, m); err != nil {
				return nil, err
			}
		}
		if p.open > 0 && (i+1 == len(list) || messages[i].Role != "tool" && messages[i].Role != "assistant") {
			return nil, p.unanswered(at)
		}
	}
	return messages, nil
}

// messageParser reads messages in their order.
type messageParser struct {
	r    *Request
	left int              // messages that are not read yet
	free []providers.Part // memory for parts

	caller   int              // index of the last message of the assistant
	calls    []providers.Part // its tool calls
	answered [MaxCalls]bool   // which of them have a result
	open     int              // how many of them have none
}

// alloc returns an empty slice with a capacity of n parts. Messages share
// allocations.
func (p *messageParser) alloc(n int) []providers.Part {
	if len(p.free) < n {
		p.free = make([]providers.Part, max(n, min(2*p.left, 32)))
	}
	parts := p.free[:0:n]
	p.free = p.free[n:]
	return parts
}

func (p *messageParser) ignore(at *Path, name string) {
	p.r.Ignore(at.Member(name).String())
}

// answer finds the call that a tool message answers.
func (p *messageParser) answer(at *Path, m *providers.Message) *wire.Error {
	result := &m.Parts[0].Result
	for i := range p.calls {
		if p.calls[i].Call.ID != result.Call {
			continue
		}
		if p.answered[i] {
			continue // an id twice: the next one
		}
		p.answered[i] = true
		p.open--
		result.Name = p.calls[i].Call.Name
		return nil
	}
	return at.Member("tool_call_id").Wrong("is %q, but the assistant's last message before it has no such tool call without a result. Send the assistant's message with its tool_calls before its results, and one result for each.", wire.Clip(result.Call))
}

// unanswered returns the error of a tool call without a result.
func (p *messageParser) unanswered(list *Path) *wire.Error {
	i := 0
	for p.answered[i] {
		i++
	}
	return list.Element(p.caller).Member("tool_calls").Element(i).Wrong("has no result. Send a message {\"role\":\"tool\",\"tool_call_id\":%q,\"content\":…} after the assistant's message, before any other.", wire.Clip(p.calls[i].Call.ID))
}

// members holds the members of one message that have an effect.
type members struct {
	content, toolCalls, toolCallID, refusal, reasoning, details, mark *fastjson.Value
}

func (p *messageParser) message(at *Path, v *fastjson.Value, m *providers.Message) *wire.Error {
	o, err := Object(at, v)
	if err != nil {
		return err
	}
	if m.Role, err = role(at.Member("role"), o.Get("role")); err != nil {
		return err
	}
	assistant, tool := m.Role == "assistant", m.Role == "tool"
	if p.open > 0 && assistant {
		return p.unanswered(at.up)
	}
	var has members
	o.Visit(func(key []byte, member *fastjson.Value) {
		if err != nil || member.Type() == fastjson.TypeNull {
			return
		}
		switch name := string(key); {
		case name == "role":
		case name == "content":
			has.content = member
		case name == "name":
			p.ignore(at, "name")
		case name == "cache_control":
			has.mark = member
		case tool && name == "tool_call_id":
			has.toolCallID = member
		case assistant && name == "tool_calls":
			has.toolCalls = member
		case assistant && name == "refusal":
			has.refusal = member
		case assistant && name == "reasoning_content":
			has.reasoning = member
		case assistant && name == "reasoning_details":
			has.details = member
		case assistant && (name == "annotations" || name == "parsed"):
			// The libraries' answers have them, and apps send answers back as they are.
			if member.Type() != fastjson.TypeArray || len(member.GetArray()) > 0 {
				p.ignore(at, string(key))
			}
		case name == "tool_call_id" && !assistant:
			err = at.Member(name).Wrong("is of a message with the role tool.")
		case name == "tool_calls" && len(member.GetArray()) > 0:
			err = at.Member(name).Wrong("is of a message with the role assistant.")
		case assistant && name == "function_call":
			err = at.Member("function_call").Wrong("is of an API that OpenAI has replaced. Send tool_calls: [{\"id\":…,\"type\":\"function\",\"function\":{\"name\":…,\"arguments\":…}}].")
		case assistant && name == "audio":
			err = at.Member("audio").Wrong("names a sound that OpenAI keeps, which the gateway can't read. Send the answer's text as content.")
		default:
			at.Unknown(p.r.Call, key)
		}
	})
	switch {
	case err != nil:
	case assistant:
		err = p.assistant(at, &has, m)
	case tool:
		err = p.result(at, &has, m)
	default:
		m.Content, m.Parts, err = p.content(at.Member("content"), has.content, m.Role)
	}
	if err != nil || has.mark == nil {
		return err
	}
	cache, err := p.r.mark(at, has.mark)
	if err == nil && !p.r.placeOn(m, cache, at.Member("cache_control").String()) {
		p.ignore(at, "cache_control")
	}
	return err
}

// role reads the role of a message. The roles are constants, so that a message does not
// keep the request's bytes for them.
func role(at *Path, v *fastjson.Value) (string, *wire.Error) {
	name, err := String(at, v)
	if err != nil {
		return "", err
	}
	switch name {
	case "user":
		return "user", nil
	case "assistant":
		return "assistant", nil
	case "tool":
		return "tool", nil
	case "system":
		return "system", nil
	case "developer":
		return "developer", nil
	case "function":
		return "", at.Wrong("is \"function\", a role that OpenAI has replaced. Send the role tool with tool_call_id, after a message of the assistant with tool_calls.")
	}
	return "", at.Wrong("is %q, but must be user, assistant, tool, system or developer.", wire.Clip(name))
}

// content reads the content of a message: a text, or a list of parts, of which a list
// of one text is a text.
func (p *messageParser) content(at *Path, v *fastjson.Value, of string) (providers.Text, []providers.Part, *wire.Error) {
	if v == nil {
		return "", nil, at.Wrong("is required: a string or an array of parts.")
	}
	if v.Type() == fastjson.TypeString {
		return p.r.Wire.Literal(v), nil, nil
	}
	if v.Type() != fastjson.TypeArray {
		return "", nil, at.Wrong("must be a string or an array of parts, not %s.", wire.Describe(v))
	}
	list := v.GetArray()
	if len(list) == 0 {
		return "", nil, at.Wrong("must not be an empty array.")
	}
	parts, err := p.parts(p.alloc(len(list)), at, list, of)
	if err != nil {
		return "", nil, err
	}
	if len(parts) == 1 && parts[0].Kind == providers.PartText && parts[0].Cache == 0 {
		return parts[0].Text, nil, nil
	}
	return "", parts, nil
}

// parts appends the parts of a message's content.
func (p *messageParser) parts(to []providers.Part, at *Path, list []*fastjson.Value, of string) ([]providers.Part, *wire.Error) {
	for i, element := range list {
		here := at.Element(i)
		o, err := Object(here, element)
		if err != nil {
			return nil, err
		}
		kind, err := String(here.Member("type"), o.Get("type"))
		if err != nil {
			return nil, err
		}
		part := providers.Part{Kind: providers.PartText}
		value := o.Get(kind) // most parts have their value in the member of their type's name
		switch {
		case kind == "text", kind == "refusal" && of == "assistant":
			part.Text, err = Literal(p.r.Wire, here.Member(kind), value)
		case kind == "image_url" && (of == "user" || of == "tool"):
			part.Kind = providers.PartImage
			part.Media, err = image(p.r.Call, here.Member("image_url"), value)
		case kind == "input_audio" && of == "user":
			part.Kind = providers.PartAudio
			part.Media, err = Audio(p.r.Call, here.Member("input_audio"), value)
		case kind == "file" && of == "user":
			part.Kind = providers.PartFile
			part.Media, err = file(p.r.Call, here.Member("file"), value)
		case kind == "image_url", kind == "input_audio", kind == "file", kind == "refusal":
			err = here.Member("type").Wrong("is %q, which a message with the role %s can't have. It can have %s.", kind, of, partsOf(of))
		default:
			err = here.Member("type").Wrong("is %q, but a message with the role %s can have %s.", wire.Clip(kind), of, partsOf(of))
		}
		if err == nil {
			err = p.others(here, o, "prompt_cache_breakpoint", "type", kind)
		}
		if err != nil {
			return nil, err
		}
		if to = append(to, part); of != "tool" { // whose result has the mark
			p.r.Place(MarkMessages, to)
		}
	}
	return to, nil
}

// partsOf returns the types of parts that messages with a role can have.
func partsOf(role string) string {
	switch role {
	case "user":
		return "text, image_url, input_audio and file"
	case "assistant":
		return "text and refusal"
	case "tool":
		return "text and image_url"
	}
	return "text"
}

// others names the members of the object at a path that are not among names, and reads its
// mark for the cache. The one called known is no surprise.
func (p *messageParser) others(at *Path, o *fastjson.Object, known string, names ...string) (err *wire.Error) {
	o.Visit(func(key []byte, member *fastjson.Value) {
		switch name := string(key); {
		case member.Type() == fastjson.TypeNull || slices.Contains(names, name) || err != nil:
		case name == "cache_control":
			err = p.r.MarkBlock(at, member)
		case name == known:
			p.ignore(at, name)
		default:
			at.Unknown(p.r.Call, key)
		}
	})
	return err
}

func image(c *dialect.Call, at *Path, v *fastjson.Value) (m providers.Media, err *wire.Error) {
	if v != nil && v.Type() == fastjson.TypeString {
		return m, at.Wrong("must be an object, not a string. Send {\"url\":…}.")
	}
	o, err := Object(at, v)
	if err != nil {
		return m, err
	}
	Others(c, at, o, "url", "detail")
	address, err := String(at.Member("url"), o.Get("url"))
	if err != nil {
		return m, err
	}
	if m, err = MediaURL(at.Member("url"), address); err != nil {
		return m, err
	}
	if m.Data != "" && !hasPrefixFold(m.Type, "image/") {
		return m, at.Member("url").Wrong("has the type %s, which is no image. Send other files as parts of the type file.", m.Type)
	}
	m.Detail, err = Detail(at.Member("detail"), o.Get("detail"))
	return m, err
}

// Detail reads how closely a model looks at an image; empty if absent.
func Detail(at *Path, v *fastjson.Value) (string, *wire.Error) {
	if wire.IsNull(v) {
		return "", nil
	}
	switch detail := Text(v); detail {
	case "auto", "low", "high":
		return detail, nil
	}
	return "", at.Wrong("must be \"auto\", \"low\" or \"high\".")
}

// Audio reads a sound: {"data":…,"format":…}.
func Audio(c *dialect.Call, at *Path, v *fastjson.Value) (m providers.Media, err *wire.Error) {
	o, err := Object(at, v)
	if err != nil {
		return m, err
	}
	Others(c, at, o, "data", "format")
	if m.Data, err = String(at.Member("data"), o.Get("data")); err != nil {
		return m, err
	}
	switch Text(o.Get("format")) {
	case "wav":
		m.Type = "audio/wav"
	case "mp3":
		m.Type = "audio/mpeg"
	default:
		return m, at.Member("format").Wrong("must be \"wav\" or \"mp3\".")
	}
	return m, Base64(at.Member("data"), m.Data)
}

func file(c *dialect.Call, at *Path, v *fastjson.Value) (m providers.Media, err *wire.Error) {
	o, err := Object(at, v)
	if err != nil {
		return m, err
	}
	if !wire.IsNull(o.Get("file_id")) {
		return m, at.Member("file_id").Wrong("names a file that OpenAI keeps, which the gateway can't read. Send file_data: data:application/pdf;base64,….")
	}
	Others(c, at, o, "file_data", "filename", "file_id")
	data, err := String(at.Member("file_data"), o.Get("file_data"))
	if err != nil {
		return m, err
	}
	if m, err = MediaURL(at.Member("file_data"), data); err != nil {
		return m, err
	}
	if name := o.Get("filename"); !wire.IsNull(name) {
		m.Name, err = String(at.Member("filename"), name)
	}
	return m, err
}

// result reads a tool message.
func (p *messageParser) result(at *Path, has *members, m *providers.Message) *wire.Error {
	id, err := Filled(at.Member("tool_call_id"), has.toolCallID)
	if err != nil {
		return err
	}
	content, parts, err := p.content(at.Member("content"), has.content, m.Role)
	if err != nil {
		return err
	}
	if parts == nil {
		parts = append(p.alloc(1), providers.Part{Kind: providers.PartText, Text: content})
	}
	m.Parts = append(p.alloc(1), providers.Part{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: id, Content: parts}})
	p.r.Place(MarkMessages, m.Parts)
	return nil
}

// assistant reads a message of the assistant: its thoughts, its text, its tool calls.
func (p *messageParser) assistant(at *Path, has *members, m *providers.Message) *wire.Error {
	calls, err := optional(at, "tool_calls", has.toolCalls)
	if err != nil {
		return err
	}
	if len(calls) > MaxCalls {
		return at.Member("tool_calls").Wrong("has %d tool calls, but at most %d are possible.", len(calls), MaxCalls)
	}
	details, err := optional(at, "reasoning_details", has.details)
	if err != nil {
		return err
	}
	if len(details) > maxDetails {
		return at.Member("reasoning_details").Wrong("has %d elements, but at most %d are possible.", len(details), maxDetails)
	}
	words, refusal := has.content, has.refusal
	if words == nil && refusal == nil && len(calls) == 0 {
		return at.Member("content").Wrong("is required where there are no tool_calls: a string or an array of parts.")
	}
	if words != nil && words.Type() == fastjson.TypeString && refusal == nil && len(calls) == 0 && len(details) == 0 && has.reasoning == nil {
		m.Content = p.r.Wire.Literal(words)
		return nil
	}
	parts := p.alloc(len(details) + 1 + max(1, len(words.GetArray())) + 1 + len(calls))
	if parts, err = p.thoughts(parts, at, has, details); err != nil {
		return err
	}
	switch {
	case words == nil:
	case words.Type() == fastjson.TypeArray:
		if parts, err = p.parts(parts, at.Member("content"), words.GetArray(), m.Role); err != nil {
			return err
		}
	default:
		content, err := Literal(p.r.Wire, at.Member("content"), words)
		if err != nil {
			return err
		}
		if content != "" {
			parts = append(parts, providers.Part{Kind: providers.PartText, Text: content})
		}
	}
	if refusal != nil {
		content, err := Literal(p.r.Wire, at.Member("refusal"), refusal)
		if err != nil {
			return err
		}
		parts = append(parts, providers.Part{Kind: providers.PartText, Text: content})
	}
	if parts, err = p.toolCalls(parts, at, calls, details); err != nil {
		return err
	}
	if len(parts) == 0 {
		return nil // an empty text
	}
	if len(parts) == 1 && parts[0].Kind == providers.PartText && parts[0].Cache == 0 {
		m.Content = parts[0].Text
		return nil
	}
	m.Parts = parts
	return nil
}

func optional(at *Path, name string, v *fastjson.Value) ([]*fastjson.Value, *wire.Error) {
	if v == nil {
		return nil, nil
	}
	return Array(at.Member(name), v)
}

// toolCalls appends the tool calls of a message, each with the opaque data that the
// reasoning's details have for it.
func (p *messageParser) toolCalls(to []providers.Part, at *Path, calls, details []*fastjson.Value) ([]providers.Part, *wire.Error) {
	list := at.Member("tool_calls")
	for i, element := range calls {
		here := list.Element(i)
		o, err := Object(here, element)
		if err != nil {
			return nil, err
		}
		if kind := o.Get("type"); !wire.IsNull(kind) && Text(kind) != "function" {
			return nil, here.Member("type").Wrong("must be \"function\": other tools can't be called through the gateway.")
		}
		if err := p.others(here, o, "index", "id", "type", "function"); err != nil {
			return nil, err
		}
		part := providers.Part{Kind: providers.PartToolCall}
		if part.Call.ID, err = Filled(here.Member("id"), o.Get("id")); err != nil {
			return nil, err
		}
		function := here.Member("function")
		f, err := Object(function, o.Get("function"))
		if err != nil {
			return nil, err
		}
		if err := p.others(function, f, "parsed_arguments", "name", "arguments"); err != nil {
			return nil, err
		}
		if part.Call.Name, err = Filled(function.Member("name"), f.Get("name")); err != nil {
			return nil, err
		}
		if part.Call.Arguments, err = String(function.Member("arguments"), f.Get("arguments")); err != nil {
			return nil, err
		}
		for _, d := range details {
			if Text(d.Get("id")) == part.Call.ID {
				part.Opaque = Text(d.Get("data"))
			}
		}
		to = append(to, part)
		p.r.Place(MarkMessages, to)
	}
	return to, nil
}

// thoughts appends the thoughts of the assistant: the reasoning's details, or if none
// of them has a text, its text. Details of a tool call stay with that call.
func (p *messageParser) thoughts(to []providers.Part, at *Path, has *members, details []*fastjson.Value) ([]providers.Part, *wire.Error) {
	start := len(to)
	list := at.Member("reasoning_details")
	hasText := false
	for i, element := range details {
		here := list.Element(i)
		o, err := Object(here, element)
		if err != nil {
			return nil, err
		}
		part := providers.Part{Kind: providers.PartThinking}
		switch kind := Text(o.Get("type")); kind {
		case "reasoning.text":
			if part.Text, err = Literal(p.r.Wire, here.Member("text"), o.Get("text")); err != nil {
				return nil, err
			}
			if signature := o.Get("signature"); !wire.IsNull(signature) {
				part.Opaque, err = String(here.Member("signature"), signature)
			}
			hasText = hasText || part.Text != ""
		case "reasoning.encrypted":
			part.Opaque, err = Filled(here.Member("data"), o.Get("data"))
		default:
			err = here.Member("type").Wrong("is %q, but must be reasoning.text or reasoning.encrypted.", wire.Clip(kind))
		}
		if err != nil {
			return nil, err
		}
		Others(p.r.Call, here, o, "type", "text", "signature", "data", "id", "format", "index")
		if id := Text(o.Get("id")); id != "" && part.Text == "" && hasCall(has.toolCalls, id) {
			continue
		}
		to = append(to, part)
	}
	if has.reasoning == nil {
		return to, nil
	}
	shown, err := Literal(p.r.Wire, at.Member("reasoning_content"), has.reasoning)
	if err != nil {
		return nil, err
	}
	if !hasText && !shown.Blank() {
		to = append(to, providers.Part{})
		copy(to[start+1:], to[start:])
		to[start] = providers.Part{Kind: providers.PartThinking, Text: shown}
	}
	return to, nil
}

func hasCall(calls *fastjson.Value, id string) bool {
	for _, c := range calls.GetArray() {
		if Text(c.Get("id")) == id {
			return true
		}
	}
	return false
}
