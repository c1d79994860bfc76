package responses

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// hosted begin the types of OpenAI's own tools, some of which have a date behind them. A
// type with _call or _call_output behind it is an item about one, and so is one of
// hostedItems.
var (
	hosted = []string{
		"apply_patch", "code_interpreter", "computer", "file_search", "image_generation", "local_shell", "mcp", "programmatic_tool_calling",
		"shell", "tool_search", "web_search",
	}
	hostedItems = []string{
		"mcp_approval_request", "mcp_approval_response", "mcp_list_tools", "program", "program_output", "tool_search_output",
	}
)

// additionalTools is the type of an item that has tools.
const additionalTools = "additional_tools"

// isOurs reports whether tools of a type reach the model.
func isOurs(kind string) bool { return kind == "function" || kind == "custom" || kind == "namespace" }

// isHosted reports whether a type is that of one of OpenAI's own tools.
func isHosted(kind string) bool {
	return slices.ContainsFunc(hosted, func(of string) bool { return strings.HasPrefix(kind, of) })
}

// isHostedItem reports whether a type is that of an item about one of OpenAI's own tools.
func isHostedItem(kind string) bool {
	call := strings.TrimSuffix(kind, "_output")
	return slices.Contains(hostedItems, kind) || strings.HasSuffix(call, "_call") && isHosted(call)
}

// callable is a tool as the caller knows it, where that differs from what the model knows:
// a function.
type callable struct {
	function        string // its name for the model
	namespace, name string
	custom          bool // it takes a text in place of arguments
}

// tools reads the caller's tools. OpenAI's own are ignored.
func (p *parser) tools(v *fastjson.Value) *wire.Error {
	if p.toolsRead {
		return nil
	}
	p.toolsRead = true
	return p.toolList(openai.At("tools"), v)
}

func (p *parser) toolList(at *openai.Path, v *fastjson.Value) *wire.Error {
	return p.ToolList(at, v, func(at *openai.Path, v *fastjson.Value) *wire.Error { return p.tool(at, v, "") })
}

// additionalTools reads the tools of items, as agents send them for newer models. They hold
// for the whole conversation.
func (p *parser) additionalTools(items []*fastjson.Value) *wire.Error {
	for i, item := range items {
		if openai.Text(item.Get("type")) == additionalTools {
			if err := p.toolList(openai.At("input").Element(i).Member("tools"), item.Get("tools")); err != nil {
				return err
			}
		}
	}
	return nil
}

// tool reads a tool. namespace is that of the tool that holds it; empty: none does.
func (p *parser) tool(at *openai.Path, v *fastjson.Value, namespace string) *wire.Error {
	o, err := openai.Object(at, v)
	if err != nil {
		return err
	}
	kind, err := openai.String(at.Member("type"), o.Get("type"))
	if err != nil {
		return err
	}
	var t providers.Tool
	switch {
	case kind == "namespace" && namespace == "":
		return p.namespace(at, o)
	case strings.HasPrefix(kind, webSearch):
		return p.SearchTool(at, o, &providers.WebSearch{API: providers.APIResponses, Version: kind}, kind)
	case !isOurs(kind) || kind == "namespace":
		p.IgnoreTool(at, isHosted(kind), kind)
		return nil
	case kind == "custom":
		t, err = p.custom(at, o)
	default:
		t, err = p.Function(at, o)
	}
	if err != nil {
		return err
	}
	if namespace == "" && kind == "function" {
		if t.Name, err = openai.FunctionName(at.Member("name"), o.Get("name")); err != nil {
			return err
		}
		p.giveUp(t.Name)
		return p.AddTool(at, at, &t)
	}
	of := callable{namespace: namespace, custom: kind == "custom"}
	if of.name, err = toolName(at.Member("name"), o.Get("name")); err != nil {
		return err
	}
	if slices.ContainsFunc(p.callables, func(c callable) bool { return c.namespace == namespace && c.name == of.name }) {
		return at.Member("name").Wrong("is %q, which another tool has, too. Give each tool a name of its own.", of.name)
	}
	of.function = functionName(namespace, of.name)
	if namespace != "" && p.HasTool(of.function) {
		of.function = hashedName(of.function, namespace, of.name)
	}
	t.Name = of.function
	p.callables = append(p.callables, of)
	return p.AddTool(at, at, &t)
}

// namespace reads a tool that groups others. The model gets each of them as a function
// NAMESPACE__NAME, and what the namespace is for with the first.
func (p *parser) namespace(at *openai.Path, o *fastjson.Object) *wire.Error {
	name, err := toolName(at.Member("name"), o.Get("name"))
	if err != nil {
		return err
	}
	about := ""
	if v := o.Get("description"); !wire.IsNull(v) {
		if about, err = openai.String(at.Member("description"), v); err != nil {
			return err
		}
	}
	openai.Others(p.Call, at, o, "type", "name", "description", "tools")
	inner := at.Member("tools")
	if wire.IsNull(o.Get("tools")) {
		return inner.Wrong("is required: an array of tools.")
	}
	list, err := openai.Array(inner, o.Get("tools"))
	if err != nil {
		return err
	}
	first := len(p.Call.Parameters.Tools)
	for i, element := range list {
		if err := p.tool(inner.Element(i), element, name); err != nil {
			return err
		}
	}
	if tools := p.Call.Parameters.Tools[first:]; about != "" && len(tools) > 0 {
		tools[0].Description = strings.TrimSpace("The tools of " + name + ": " + about + "\n\n" + tools[0].Description)
	}
	return nil
}

// inputSchema is the schema of a custom tool's function, and input its only parameter.
const (
	input       = "input"
	inputSchema = `{"type":"object","properties":{"input":{"type":"string","description":"The whole input of the tool, as it is."}},"required":["input"],"additionalProperties":false}`
)

// custom reads a tool that takes a text, all but its name. No function has a grammar: the
// model reads it in the description, and nothing holds it to that.
func (p *parser) custom(at *openai.Path, o *fastjson.Object) (t providers.Tool, err *wire.Error) {
	openai.Others(p.Call, at, o, "type", "name", "description", "format")
	t.Parameters = json.RawMessage(inputSchema)
	if v := o.Get("description"); !wire.IsNull(v) {
		if t.Description, err = openai.String(at.Member("description"), v); err != nil {
			return t, err
		}
	}
	if wire.IsNull(o.Get("format")) {
		return t, nil
	}
	of := at.Member("format")
	format, err := openai.Object(of, o.Get("format"))
	if err != nil {
		return t, err
	}
	switch kind := openai.Text(format.Get("type")); kind {
	case "text":
		openai.Others(p.Call, of, format, "type")
	case "grammar":
		openai.Others(p.Call, of, format, "type", "syntax", "definition")
		syntax := openai.Text(format.Get("syntax"))
		if syntax != "lark" && syntax != "regex" {
			return t, of.Member("syntax").Wrong("must be lark or regex.")
		}
		grammar, err := openai.Filled(of.Member("definition"), format.Get("definition"))
		if err != nil {
			return t, err
		}
		t.Description = strings.TrimSpace(t.Description + "\n\nThe input has to follow this grammar (" + syntax + "):\n" + grammar)
		p.Ignore(of.String())
	default:
		return t, of.Member("type").Wrong("is %q, but must be text or grammar.", wire.Clip(kind))
	}
	return t, nil
}

// toolName reads the name of a namespace, or of a tool that is a function by another name.
func toolName(at *openai.Path, v *fastjson.Value) (string, *wire.Error) {
	const longest = 128
	name, err := openai.String(at, v)
	if err == nil && (len(name) > longest || !wire.LegalKey(name)) {
		err = at.Wrong("is %q, but a name is 1 to %d of the characters A-Z a-z 0-9 . _ : / -", wire.Clip(name), longest)
	}
	return name, err
}

// longestName is how many characters the name of a function may have.
const longestName = 64

// functionName returns the name of the function that stands for a tool, such as
// multi_agent_v1__spawn_agent. It is the same in each request, or providers' caches would
// be of no use. What no function may be called has a hash behind it.
func functionName(namespace, name string) string {
	full := name
	if namespace != "" {
		full = strings.TrimSuffix(namespace, "__") + "__" + name
	}
	legal := strings.Map(func(c rune) rune {
		if strings.ContainsRune("./:", c) {
			return '_'
		}
		return c
	}, full)
	if first := legal[0]; first == '-' || first >= '0' && first <= '9' {
		legal = "_" + legal
	}
	if legal == full && len(full) <= longestName {
		return full
	}
	return hashedName(legal, namespace, name)
}

// hashedName returns a name with a hash of the tool that has it.
func hashedName(legal, namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "\x00" + name))
	const hash = 8
	return legal[:min(len(legal), longestName-1-hash)] + "_" + hex.EncodeToString(sum[:hash/2])
}

// giveUp leaves a name to a function that the caller calls so.
func (p *parser) giveUp(name string) {
	for i := range p.callables {
		if c := &p.callables[i]; c.function == name && c.namespace != "" {
			c.function = hashedName(name, c.namespace, c.name)
			tools := p.Call.Parameters.Tools
			tools[slices.IndexFunc(tools, func(t providers.Tool) bool { return t.Name == name })].Name = c.function
		}
	}
}

// functionOf returns the name by which the model knows a tool of the caller.
func (p *parser) functionOf(namespace, name string) string {
	for i := range p.callables {
		if c := &p.callables[i]; c.namespace == namespace && c.name == name {
			return c.function
		}
	}
	if namespace == "" {
		return name
	}
	return functionName(namespace, name)
}

// webSearch begins the types of the tool that searches the web.
const webSearch = "web_search"

// boundSearch gives the search what members beside the tools say about it.
func (p *parser) boundSearch() {
	of := p.Call.Search
	if of == nil || of.Tool == nil {
		return
	}
	for _, member := range [...]string{p.sources, p.maxSearches} {
		if member != "" {
			of.Paths = append(of.Paths, member)
			of.Given = append(of.Given, dialect.Given{Name: "web_search", Param: member})
		}
	}
	if of.Tool.Sources = p.sources != ""; p.uses != nil {
		of.Tool.MaxUses = *p.uses
		of.Given = append(of.Given, dialect.Given{Name: "max_uses", Param: p.maxSearches})
	}
	if p.searches {
		of.Choice = &providers.ToolChoice{Mode: providers.ToolsSearch}
		of.Paths = append(of.Paths, "tool_choice")
	}
}

// toolChoice reads which tools may be called. A choice of one of OpenAI's own is ignored,
// as the tool is, unless it is the search.
func (p *parser) toolChoice(v *fastjson.Value) *wire.Error {
	if kind := openai.Text(v.Get("type")); strings.HasPrefix(kind, webSearch) {
		p.Call.IgnoreHosted("tool_choice")
		p.searches = true
		return nil
	} else if isHosted(kind) {
		p.Call.IgnoreHosted("tool_choice")
		return nil
	}
	return p.ToolChoice(v)
}

// nameChoice names the chosen tool as the model knows it.
func (p *parser) nameChoice() {
	choice := p.Call.Parameters.ToolChoice
	if choice == nil || choice.Mode != providers.ToolsNamed || p.HasTool(choice.Name) {
		return
	}
	if i := slices.IndexFunc(p.callables, func(c callable) bool { return c.name == choice.Name }); i >= 0 {
		choice.Name = p.callables[i].function
	}
}

// appendInput appends the arguments of a custom tool's function.
func appendInput(dst []byte, text string) []byte {
	dst = jsontext.AppendString(append(dst, `{"`+input+`":`...), text)
	return append(dst, '}')
}

// inputOf returns the text in the arguments of a custom tool's function. Arguments of another
// form, as a model may write them, are the text.
func inputOf(arguments string) string {
	var of map[string]any
	if json.Unmarshal([]byte(arguments), &of) == nil {
		if text, ok := of[input].(string); ok && len(of) == 1 {
			return text
		}
	}
	return arguments
}
