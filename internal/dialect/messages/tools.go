package messages

import (
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// maxTools is how many tools a request may have. Anthropic's API names no such limit, and
// agents bring the tools of all their servers.
const maxTools = 1000

// tools reads the caller's tools. Those of Anthropic are ignored.
func (p *parser) tools(v *fastjson.Value) *wire.Error {
	return p.ToolList(openai.At("tools"), v, p.tool)
}

// hosted begin the types of tools of Anthropic, before the date of their version.
var hosted = []string{
	"advisor_", "bash_", "code_execution_", "computer_", "mcp_toolset", "memory_", "text_editor_", "tool_search_tool_", "web_fetch_", "web_search_",
}

func (p *parser) tool(at *openai.Path, v *fastjson.Value) *wire.Error {
	o, err := openai.Object(at, v)
	if err != nil {
		return err
	}
	if kind := o.Get("type"); !wire.IsNull(kind) && openai.Text(kind) != "custom" {
		if kind.Type() != fastjson.TypeString {
			return at.Member("type").Wrong("must be a string, not %s.", wire.Describe(kind))
		}
		if strings.HasPrefix(openai.Text(kind), "web_search_") {
			s := &providers.WebSearch{API: providers.APIMessages, Version: openai.Text(kind), Sources: true}
			return p.SearchTool(at, o, s, openai.Text(o.Get("name")))
		}
		p.IgnoreTool(at, slices.ContainsFunc(hosted, func(of string) bool { return strings.HasPrefix(openai.Text(kind), of) }), openai.Text(o.Get("name")))
		return nil
	}
	var t providers.Tool
	o.Visit(func(key []byte, member *fastjson.Value) {
		if err != nil || member.Type() == fastjson.TypeNull {
			return
		}
		switch name := string(key); name {
		case "type", "name":
		case "description":
			t.Description, err = openai.String(at.Member(name), member)
		case "input_schema":
			t.Parameters, err = openai.Schema(at.Member(name), member)
		case "strict":
			t.Strict, err = openai.Bool(at.Member(name), member)
		case "cache_control":
			err = p.MarkTool(at, member, &t)
		case "defer_loading", "eager_input_streaming", "input_examples":
			p.Ignore(at.Member(name).String())
		case "allowed_callers":
			if list := member.GetArray(); len(list) != 1 || openai.Text(list[0]) != "direct" {
				err = at.Member(name).Wrong("must be [\"direct\"]: no program calls tools here.")
			}
		default:
			at.Unknown(p.Call, key)
		}
	})
	if err != nil {
		return err
	}
	if t.Parameters == nil {
		return at.Member("input_schema").Wrong("is required: the schema of an object.")
	}
	if t.Name, err = openai.FunctionName(at.Member("name"), o.Get("name")); err != nil {
		return err
	}
	return p.AddTool(at, at, &t)
}

func (p *parser) toolChoice(v *fastjson.Value) *wire.Error {
	at := openai.At("tool_choice")
	o, err := openai.Object(at, v)
	if err != nil {
		return err
	}
	choice := &providers.ToolChoice{}
	names := []string{"type", "disable_parallel_tool_use"}
	switch kind := openai.Text(o.Get("type")); kind {
	case "auto":
		choice.Mode = providers.ToolsAuto
	case "any":
		choice.Mode = providers.ToolsRequired
	case "none":
		choice.Mode = providers.ToolsNone
		names = names[:1]
	case "tool":
		choice.Mode = providers.ToolsNamed
		names = append(names, "name")
		if choice.Name, err = openai.FunctionName(at.Member("name"), o.Get("name")); err != nil {
			return err
		}
	default:
		return at.Member("type").Wrong("is %q, but must be auto, any, none or tool.", wire.Clip(kind))
	}
	openai.Others(p.Call, at, o, names...)
	p.Call.Parameters.ToolChoice = choice
	p.Given("tool_choice", "tool_choice")
	if one := o.Get("disable_parallel_tool_use"); !wire.IsNull(one) {
		const path = "tool_choice.disable_parallel_tool_use"
		alone, err := openai.Bool(openai.At(path), one)
		if err != nil {
			return err
		}
		several := !alone
		p.Call.Parameters.ParallelToolCalls = &several
		p.Given("parallel_tool_calls", path)
	}
	return nil
}
