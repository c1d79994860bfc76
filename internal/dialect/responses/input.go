package responses

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

// turns are the messages that a list of items becomes. Each item becomes a message,
// but the assistant's thoughts, texts and calls are items that become one message. For
// example
//
//	user, reasoning, message, function_call, function_call_output, message
//
// becomes four messages: user; assistant with a thought, a text and a call; tool;
// assistant.
type turns struct {
	list    []providers.Message
	items   []int // which item each message begins with, or instructed or whole
	shifted bool  // some message is not the item of its index

	// Of the assistant's message that is being read:
	open  bool
	parts []providers.Part // memory for all messages; its own begin at from
	from  int
	spoke bool // it has a text

	calls   []openCall // of the assistant's last message
	secrets []secret   // of calls that were not read yet
}

// Messages that begin with no item.
const (
	instructed = -2 // by the caller's instructions
	whole      = -1 // by an input that is a text
)

// openCall is a call whose output is awaited.
type openCall struct {
	id, name string
	item     int // its index in the input
	part     int // its index in parts
	answered bool
}

// secret is the opaque data of a call.
type secret struct {
	id, opaque string
	item       int
}

// input reads the caller's turns.
func (p *parser) input(v *fastjson.Value) *wire.Error {
	t, at := &p.turns, openai.At("input")
	switch v.Type() {
	case fastjson.TypeString:
		if text := p.Wire.Literal(v); text != "" {
			t.add(providers.Message{Role: "user", Content: text}, whole)
		}
		return nil
	case fastjson.TypeArray:
	default:
		return at.Wrong("must be a string or an array of items, not %s.", wire.Describe(v))
	}
	// Calls in the history are named by the tools.
	if err := p.tools(p.Body.Get("tools")); err != nil {
		return err
	}
	items := v.GetArray()
	if err := p.additionalTools(items); err != nil {
		return err
	}
	t.list = make([]providers.Message, 0, len(items)+1) // one more for instructions
	t.items = make([]int, 0, len(items))
	for i, element := range items {
		here := at.Element(i)
		o, err := openai.Object(here, element)
		if err != nil {
			return err
		}
		if err := p.item(i, here, o); err != nil {
			return err
		}
	}
	if err := t.answered(); err != nil {
		return err
	}
	t.close()
	for _, s := range t.secrets {
		p.Ignore(at.Element(s.item).Member("encrypted_content").String())
	}
	return nil
}

// itemTypes are the types of items that are read.
var itemTypes = []string{
	"message", "agent_message", "reasoning", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output",
	"local_shell_call", "local_shell_call_output", additionalTools, compactionItem, olderCompaction, compactionTrigger,
}

// item reads one item.
func (p *parser) item(index int, at *openai.Path, o *fastjson.Object) *wire.Error {
	kind := o.Get("type")
	switch name := openai.Text(kind); {
	case name == "item_reference", wire.IsNull(kind) && wire.IsNull(o.Get("role")) && !wire.IsNull(o.Get("id")):
		return at.Member("id").Wrong("names an item that was not kept: the gateway keeps no answer. Send the item itself; libraries do where `store` is false.")
	case name == "message", wire.IsNull(kind) && !wire.IsNull(o.Get("role")):
		return p.message(index, at, o)
	case wire.IsNull(kind):
		return at.Member("type").Wrong("is required: one of %s.", strings.Join(itemTypes, ", "))
	case kind.Type() != fastjson.TypeString:
		return at.Member("type").Wrong("must be a string, not %s.", wire.Describe(kind))
	case name == searchCall:
		p.searched(index, at, o)
		return nil
	case !slices.Contains(itemTypes, name) && isHostedItem(name):
		p.Call.IgnoreHosted(at.String())
		return nil
	case !slices.Contains(itemTypes, name):
		return at.Member("type").Wrong("is %q, but must be one of %s.", wire.Clip(name), strings.Join(itemTypes, ", "))
	case name == "agent_message":
		// Of one of Codex's agents to another, which its text names.
		if err := p.only(at, o, itemMembers, "author", "recipient", "content"); err != nil {
			return err
		}
		return p.heard(index, at, o, "user", agent)
	case name == "function_call":
		return p.functionCall(index, at, o, "arguments")
	case name == "custom_tool_call":
		return p.functionCall(index, at, o, input)
	case name == "local_shell_call":
		return p.functionCall(index, at, o, "action")
	case name == "function_call_output", name == "custom_tool_call_output", name == "local_shell_call_output":
		return p.output(index, at, o)
	case name == "reasoning":
		return p.thought(index, at, o)
	case name == additionalTools:
		return p.only(at, o, itemMembers, "role", "tools")
	case name == compactionItem, name == olderCompaction:
		return p.summary(index, at, o)
	case name == compactionTrigger:
		if p.compacts = index == len(p.Body.Get("input").GetArray())-1; !p.compacts {
			return at.Wrong("is a compaction_trigger, but must be the last item.")
		}
		return p.only(at, o, itemMembers)
	}
	panic("a type of items that nothing reads: " + openai.Text(kind))
}

// add adds a message.
func (t *turns) add(m providers.Message, item int) {
	t.shifted = t.shifted || item != len(t.list)
	t.list = append(t.list, m)
	t.items = append(t.items, item)
}

// assistant begins a message of the assistant unless one is open.
func (t *turns) assistant(item int) *wire.Error {
	if t.open {
		return nil
	}
	if err := t.answered(); err != nil {
		return err
	}
	t.calls = t.calls[:0]
	t.add(providers.Message{Role: "assistant"}, item)
	t.open, t.spoke, t.from = true, false, len(t.parts)
	return nil
}

// answer ends the open message if it is an answer already: the next item of the
// assistant then begins another one.
func (t *turns) answer() {
	if t.spoke && len(t.calls) == 0 {
		t.close()
	}
}

// close ends the open message of the assistant.
func (t *turns) close() {
	if !t.open {
		return
	}
	t.open = false
	own := t.parts[t.from:len(t.parts):len(t.parts)]
	slices.SortStableFunc(own, dialect.CompareParts)
	if len(own) > 1 {
		// Providers refuse empty texts among other parts.
		own = slices.DeleteFunc(own, func(p providers.Part) bool { return p.Kind == providers.PartText && p.Text == "" })
	}
	m := &t.list[len(t.list)-1]
	if len(own) == 0 {
		return
	}
	if len(own) == 1 && own[0].Kind == providers.PartText && own[0].Raw == "" {
		m.Content = own[0].Text
		t.parts = t.parts[:t.from]
		return
	}
	m.Parts = own
}

// answered returns the error of a call that has no output.
func (t *turns) answered() *wire.Error {
	for i := range t.calls {
		if c := &t.calls[i]; !c.answered {
			return openai.At("input").Element(c.item).Member("call_id").Wrong("is %q, a call without an output. Send {\"type\":\"function_call_output\",\"call_id\":%q,\"output\":…} after it, before other messages.", wire.Clip(c.id), wire.Clip(c.id))
		}
	}
	return nil
}

// agent is the role of messages of agents to each other.
const agent = "agent"

// message reads a message of any role.
func (p *parser) message(index int, at *openai.Path, o *fastjson.Object) *wire.Error {
	var role string
	// The roles are constants, so that a message does not keep the request for it.
	switch openai.Text(o.Get("role")) {
	case "user":
		role = "user"
	case "assistant":
		role = "assistant"
	case "system":
		role = "system"
	case "developer":
		role = "developer"
	default:
		return at.Member("role").Wrong("must be user, assistant, system or developer.")
	}
	if err := p.only(at, o, itemMembers, "role", "content"); err != nil {
		return err
	}
	t := &p.turns
	if role == "assistant" {
		t.answer()
		if err := t.assistant(index); err != nil {
			return err
		}
		t.spoke = true
		return p.content(at.Member("content"), o.Get("content"), role)
	}
	return p.heard(index, at, o, role, role)
}

// heard reads a message that the model gets with a role. of is whose parts it may have.
func (p *parser) heard(index int, at *openai.Path, o *fastjson.Object, role, of string) *wire.Error {
	t := &p.turns
	if err := t.answered(); err != nil {
		return err
	}
	t.close()
	from := len(t.parts)
	if err := p.content(at.Member("content"), o.Get("content"), of); err != nil {
		return err
	}
	m := providers.Message{Role: role}
	if own := t.parts[from:len(t.parts):len(t.parts)]; len(own) == 1 && own[0].Kind == providers.PartText {
		m.Content = own[0].Text
		t.parts = t.parts[:from]
	} else {
		m.Parts = own
	}
	t.calls = t.calls[:0]
	t.add(m, index)
	return nil
}

// functionCall reads a call that the model made. with is the member that says with what.
func (p *parser) functionCall(index int, at *openai.Path, o *fastjson.Object, with string) *wire.Error {
	if err := p.only(at, o, itemMembers, "call_id", "name", "namespace", with); err != nil {
		return err
	}
	t := &p.turns
	if err := t.assistant(index); err != nil {
		return err
	}
	if len(t.calls) == openai.MaxCalls {
		return at.Wrong("is the %dth call of an answer, but at most %d are possible.", openai.MaxCalls+1, openai.MaxCalls)
	}
	part := providers.Part{Kind: providers.PartToolCall}
	var err *wire.Error
	if part.Call.ID, err = openai.Filled(at.Member("call_id"), o.Get("call_id")); err != nil {
		return err
	}
	if part.Call.Name, part.Call.Arguments, err = p.called(at, o, with); err != nil {
		return err
	}
	for i := range t.secrets {
		if t.secrets[i].id == part.Call.ID {
			part.Opaque = t.secrets[i].opaque
			t.secrets = slices.Delete(t.secrets, i, i+1)
			break
		}
	}
	t.calls = append(t.calls, openCall{id: part.Call.ID, name: part.Call.Name, item: index, part: len(t.parts)})
	t.parts = append(t.parts, part)
	return nil
}

// called reads the name and the arguments of a call, as the model knows them.
func (p *parser) called(at *openai.Path, o *fastjson.Object, with string) (name, arguments string, err *wire.Error) {
	if with == "action" {
		// The shell of an older agent, which has no name.
		if _, err := openai.Object(at.Member(with), o.Get(with)); err != nil {
			return "", "", err
		}
		return "local_shell", jsontext.View(jsontext.AppendValue(nil, o.Get(with))), nil
	}
	if name, err = openai.Filled(at.Member("name"), o.Get("name")); err != nil {
		return "", "", err
	}
	namespace := ""
	if v := o.Get("namespace"); !wire.IsNull(v) {
		if namespace, err = toolName(at.Member("namespace"), v); err != nil {
			return "", "", err
		}
	}
	if arguments, err = openai.String(at.Member(with), o.Get(with)); err != nil {
		return "", "", err
	}
	if with == input {
		arguments = jsontext.View(appendInput(nil, arguments))
	}
	return p.functionOf(namespace, name), arguments, nil
}

// output reads the result of a call.
func (p *parser) output(index int, at *openai.Path, o *fastjson.Object) *wire.Error {
	if err := p.only(at, o, itemMembers, "call_id", "output"); err != nil {
		return err
	}
	member := "call_id"
	if openai.Text(o.Get("type")) == "local_shell_call_output" && wire.IsNull(o.Get(member)) {
		member = "id"
	}
	id, err := openai.Filled(at.Member(member), o.Get(member))
	if err != nil {
		return err
	}
	t := &p.turns
	t.close()
	i := slices.IndexFunc(t.calls, func(c openCall) bool { return c.id == id && !c.answered })
	if i < 0 {
		return at.Member("call_id").Wrong("is %q, but the assistant has no such call before it without an output. Send the items of the answer that has the call, then one output for each.", wire.Clip(id))
	}
	t.calls[i].answered = true
	from := len(t.parts)
	if err := p.content(at.Member("output"), o.Get("output"), "tool"); err != nil {
		return err
	}
	result := providers.ToolResult{Call: id, Name: t.calls[i].name, Content: t.parts[from:len(t.parts):len(t.parts)]}
	t.parts = append(t.parts, providers.Part{Kind: providers.PartToolResult, Result: result})
	last := len(t.parts)
	t.add(providers.Message{Role: "tool", Parts: t.parts[last-1 : last : last]}, index)
	return nil
}

// thought reads a thought, or the opaque data of a call.
func (p *parser) thought(index int, at *openai.Path, o *fastjson.Object) *wire.Error {
	if err := p.only(at, o, itemMembers, "summary", "content", "encrypted_content"); err != nil {
		return err
	}
	part := providers.Part{Kind: providers.PartThinking}
	var err *wire.Error
	if !wire.IsNull(o.Get("encrypted_content")) {
		if part.Opaque, err = openai.String(at.Member("encrypted_content"), o.Get("encrypted_content")); err != nil {
			return err
		}
	}
	if part.Text, err = p.shown(at.Member("summary"), "summary_text", o.Get("summary")); err != nil {
		return err
	}
	raw, err := p.shown(at.Member("content"), "reasoning_text", o.Get("content"))
	switch {
	case err != nil:
		return err
	case part.Text == "":
		part.Text = raw
	case raw != "":
		p.Ignore(at.Member("content").String())
	}
	t := &p.turns
	if id, opaque, ok := dialect.CallOf(part.Opaque); ok {
		p.secret(secret{id, opaque, index})
		part.Opaque = ""
		if part.Text == "" {
			return nil
		}
	}
	if part.Text == "" && part.Opaque == "" {
		p.Ignore(at.String())
		return nil
	}
	if !p.beforeSearch(index) {
		t.answer()
	}
	if err := t.assistant(index); err != nil {
		return err
	}
	t.shifted = true // an ignored member of a thought is named by its item
	t.parts = append(t.parts, part)
	return nil
}

// searchCall is the type of the item that a search is, and ownSearch begins the ids of those
// that the gateway itself made of another API's. What these left comes back as a thought.
const (
	searchCall = "web_search_call"
	ownSearch  = "ws_cdz_"
)

// searched reads a search of the API's own.
func (p *parser) searched(index int, at *openai.Path, o *fastjson.Object) {
	t := &p.turns
	t.spoke = false // what it said before is no answer yet
	if strings.HasPrefix(openai.Text(o.Get("id")), ownSearch) {
		return
	}
	p.Call.IgnoreHosted(at.String())
	if err := t.assistant(index); err == nil {
		t.shifted = true
		t.parts = append(t.parts, providers.Part{Kind: providers.PartFound, Raw: p.Found(providers.APIResponses, at.String(), p.Body.Get("input").GetArray()[index])})
	}
}

// beforeSearch reports whether the thought at an index comes before a search, so that it is
// of the answer whose text came before it.
func (p *parser) beforeSearch(index int) bool {
	const most = 8 // an answer has a few
	items := p.Body.Get("input").GetArray()
	for _, item := range items[index:min(index+most, len(items))] {
		if kind := openai.Text(item.Get("type")); kind != "reasoning" {
			return kind == searchCall
		}
	}
	return false
}

// secret keeps the opaque data of a call, which comes before its call or after it.
func (p *parser) secret(s secret) {
	t := &p.turns
	if t.open {
		for i := range t.calls {
			if t.calls[i].id == s.id {
				t.parts[t.calls[i].part].Opaque = s.opaque
				return
			}
		}
	}
	if len(t.secrets) == openai.MaxCalls {
		p.Ignore(openai.At("input").Element(s.item).Member("encrypted_content").String())
		return
	}
	t.secrets = append(t.secrets, s)
}

// shown reads the texts of a thought.
func (p *parser) shown(at *openai.Path, kind string, v *fastjson.Value) (providers.Text, *wire.Error) {
	if wire.IsNull(v) {
		return "", nil
	}
	if v.Type() != fastjson.TypeArray {
		return "", at.Wrong("must be an array, not %s.", wire.Describe(v))
	}
	var texts providers.Text
	for i, element := range v.GetArray() {
		here := at.Element(i)
		o, err := openai.Object(here, element)
		if err != nil {
			return "", err
		}
		if openai.Text(o.Get("type")) != kind {
			return "", here.Member("type").Wrong("must be %s.", kind)
		}
		if err := p.only(here, o, partMembers, "text"); err != nil {
			return "", err
		}
		text, err := openai.Literal(p.Wire, here.Member("text"), o.Get("text"))
		if err != nil {
			return "", err
		}
		if i > 0 {
			texts += `\n\n`
		}
		texts += text
	}
	return texts, nil
}

// content appends the parts of an item's content to t.parts.
func (p *parser) content(at *openai.Path, v *fastjson.Value, role string) *wire.Error {
	t := &p.turns
	if v == nil {
		return at.Wrong("is required: a string or an array of parts.")
	}
	if v.Type() == fastjson.TypeString {
		t.parts = append(t.parts, providers.Part{Kind: providers.PartText, Text: p.Wire.Literal(v)})
		return nil
	}
	if v.Type() != fastjson.TypeArray {
		return at.Wrong("must be a string or an array of parts, not %s.", wire.Describe(v))
	}
	list := v.GetArray()
	if len(list) == 0 {
		return at.Wrong("must not be an empty array.")
	}
	for i, element := range list {
		part, err := p.part(at.Element(i), element, role)
		if err != nil {
			return err
		}
		t.parts = append(t.parts, part)
	}
	return nil
}

// part reads one part of a message or of a call's output.
func (p *parser) part(at *openai.Path, v *fastjson.Value, role string) (part providers.Part, err *wire.Error) {
	o, err := openai.Object(at, v)
	if err != nil {
		return part, err
	}
	kind := openai.Text(o.Get("type"))
	assistant, media := role == "assistant", role == "user" || role == "tool"
	switch {
	case kind == "encrypted_content" && role == agent:
		// OpenAI's models encrypt what they say to other agents. Any other says it as it is.
		part.Kind = providers.PartText
		if err = p.only(at, o, partMembers, kind); err == nil {
			part.Text, err = openai.Literal(p.Wire, at.Member(kind), o.Get(kind))
		}
	case kind == "input_text", kind == "output_text" && assistant:
		part.Kind = providers.PartText
		names := []string{"text"}
		if list := o.Get("annotations").GetArray(); assistant && len(list) > 0 && !slices.ContainsFunc(list, isNoCitation) {
			path := at.Member("annotations").String()
			p.Ignore(path)
			names, part.Raw = append(names, "annotations"), p.Found(providers.APIResponses, path, o.Get("annotations"))
		}
		if err = p.only(at, o, partMembers, names...); err == nil {
			part.Text, err = openai.Literal(p.Wire, at.Member("text"), o.Get("text"))
		}
	case kind == "refusal" && assistant:
		part.Kind = providers.PartText
		if err = p.only(at, o, partMembers, "refusal"); err == nil {
			part.Text, err = openai.Literal(p.Wire, at.Member("refusal"), o.Get("refusal"))
		}
	case kind == "input_image" && media:
		part.Kind = providers.PartImage
		part.Media, err = p.image(at, o)
	case kind == "input_file" && role == "user":
		part.Kind = providers.PartFile
		part.Media, err = p.file(at, o)
	case kind == "input_audio" && role == "user":
		part.Kind = providers.PartAudio
		part.Media, err = p.audio(at, o)
	default:
		err = at.Member("type").Wrong("is %q, but here it must be %s.", wire.Clip(kind), partsOf(role))
	}
	return part, err
}

func isNoCitation(annotation *fastjson.Value) bool {
	return openai.Text(annotation.Get("type")) != "url_citation"
}

// partsOf returns the types of parts that a role has.
func partsOf(role string) string {
	switch role {
	case "user":
		return "input_text, input_image, input_file or input_audio"
	case "assistant":
		return "output_text or refusal"
	case "tool":
		return "input_text or input_image"
	case agent:
		return "input_text or encrypted_content"
	}
	return "input_text"
}

func (p *parser) image(at *openai.Path, o *fastjson.Object) (m providers.Media, err *wire.Error) {
	if err := p.only(at, o, partMembers, "image_url", "detail", "file_id"); err != nil {
		return m, err
	}
	if !wire.IsNull(o.Get("file_id")) {
		return m, notHeld(at)
	}
	url, err := openai.String(at.Member("image_url"), o.Get("image_url"))
	if err != nil {
		return m, err
	}
	if m, err = openai.MediaURL(at.Member("image_url"), url); err != nil {
		return m, err
	}
	if m.Data != "" && !strings.HasPrefix(strings.ToLower(m.Type), "image/") {
		return m, at.Member("image_url").Wrong("has the type %s, which is no image. Send it as an input_file.", m.Type)
	}
	m.Detail, err = openai.Detail(at.Member("detail"), o.Get("detail"))
	return m, err
}

func (p *parser) file(at *openai.Path, o *fastjson.Object) (m providers.Media, err *wire.Error) {
	err = p.only(at, o, partMembers, "file_data", "file_url", "filename", "file_id", "detail")
	if err != nil {
		return m, err
	}
	if !wire.IsNull(o.Get("file_id")) {
		return m, notHeld(at)
	}
	name := "file_url"
	if !wire.IsNull(o.Get("file_data")) {
		name = "file_data"
		if !wire.IsNull(o.Get("file_url")) {
			return m, at.Member("file_url").Wrong("and file_data are one file twice. Send one of them.")
		}
	}
	url, err := openai.String(at.Member(name), o.Get(name))
	if err != nil {
		return m, err
	}
	if m, err = openai.MediaURL(at.Member(name), url); err != nil {
		return m, err
	}
	if !wire.IsNull(o.Get("detail")) {
		p.Ignore(at.Member("detail").String())
	}
	if !wire.IsNull(o.Get("filename")) {
		m.Name, err = openai.String(at.Member("filename"), o.Get("filename"))
	}
	return m, err
}

// notHeld returns the error of a file that OpenAI holds.
func notHeld(at *openai.Path) *wire.Error {
	return at.Member("file_id").Wrong("names a file that OpenAI holds, which the gateway can't read. Send its URL or a data: URI.")
}

func (p *parser) audio(at *openai.Path, o *fastjson.Object) (m providers.Media, err *wire.Error) {
	if err := p.only(at, o, partMembers, "input_audio"); err != nil {
		return m, err
	}
	return openai.Audio(p.Call, at.Member("input_audio"), o.Get("input_audio"))
}

// only names the members of an item or a part that have none of the names, but for the
// following. The id and status that an item of an answer had have no meaning without
// OpenAI's state. What only OpenAI reads, and what its libraries add to the items of
// an answer, is ignored.
func (p *parser) only(at *openai.Path, o *fastjson.Object, others map[string]int, names ...string) (err *wire.Error) {
	o.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil || v.Type() == fastjson.TypeNull {
			return
		}
		if !slices.Contains(names, string(key)) {
			err = p.other(at, key, v, others[string(key)])
		}
	})
	return err
}

// other reads a member that has no effect.
func (p *parser) other(at *openai.Path, key []byte, v *fastjson.Value, fate int) *wire.Error {
	switch {
	case fate == kept:
	case fate == empty && v.Type() == fastjson.TypeArray && len(v.GetArray()) == 0:
	case fate == direct && openai.Text(v.Get("type")) == "direct":
		openai.Others(p.Call, at.Member(string(key)), v.GetObject(), "type")
	case fate == dropped, fate == empty:
		p.Ignore(at.Member(string(key)).String())
	case fate == direct:
		return at.Member(string(key)).Wrong("must be {\"type\":\"direct\"}: no program calls functions here.")
	default:
		at.Unknown(p.Call, key)
	}
	return nil
}

// The fates of members of items and parts that have no effect.
const (
	unknown = iota
	kept    // as the answer said
	dropped // ignored
	empty   // the same, unless it is an empty list
	direct  // refused unless it has the only value
)

var (
	itemMembers = map[string]int{
		"type": kept, "id": kept, "status": kept, "phase": dropped, "parsed_arguments": dropped, "caller": direct,
	}
	partMembers = map[string]int{
		"type": kept, "prompt_cache_breakpoint": dropped, "parsed": dropped, "annotations": empty, "logprobs": empty,
	}
)
