package messages

import (
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// tools reads the caller's tools. Those that Anthropic runs itself are refused.
func (p *parser) tools(v *fastjson.Value) *wire.Error {
	list, err := openai.Array("tools", v)
	if err != nil || len(list) == 0 {
		return err
	}
	if len(list) > openai.MaxTools {
		return dialect.Wrong("tools", "has %d tools, but at most %d are possible.", len(list), openai.MaxTools)
	}
	tools := make([]providers.Tool, len(list))
	for i, element := range list {
		path := "tools[" + strconv.Itoa(i) + "]"
		if err := p.tool(path, element, &tools[i]); err != nil {
			return err
		}
		for j := range i {
			if tools[j].Name == tools[i].Name {
				return dialect.Wrong(path+".name", "is %q, which another tool has, too. Give each tool a name of its own.", tools[i].Name)
			}
		}
	}
	p.call.Parameters.Tools = tools
	p.given("tools", "tools")
	return nil
}

func (p *parser) tool(path string, v *fastjson.Value, t *providers.Tool) *wire.Error {
	o, err := openai.Object(path, v)
	if err != nil {
		return err
	}
	if kind := o.Get("type"); !wire.IsNull(kind) && openai.Text(kind) != "custom" {
		return dialect.Wrong(path+".type", "is %q, but must be custom: the gateway runs no tools.", wire.Clip(openai.Text(kind)))
	}
	path += "."
	o.Visit(func(key []byte, member *fastjson.Value) {
		if err != nil || member.Type() == fastjson.TypeNull {
			return
		}
		switch name := string(key); name {
		case "type", "name":
		case "description":
			if member.Type() != fastjson.TypeString {
				err = dialect.Wrong(path+name, "must be a string, not %s.", wire.Describe(member))
			}
			t.Description = openai.Text(member)
		case "input_schema":
			t.Parameters, err = openai.Schema(path+name, member)
		case "strict":
			t.Strict, err = openai.Bool(path+name, member)
		case "cache_control", "defer_loading", "eager_input_streaming", "input_examples":
			p.ignore(path + name)
		case "allowed_callers":
			if list := member.GetArray(); len(list) != 1 || openai.Text(list[0]) != "direct" {
				err = dialect.Wrong(path+name, "must be [\"direct\"]: no program calls tools here.")
			}
		default:
			err = openai.Unknown(path, name)
		}
	})
	if err != nil {
		return err
	}
	if t.Parameters == nil {
		return dialect.Wrong(path+"input_schema", "is required: the schema of an object.")
	}
	t.Name, err = openai.FunctionName(path+"name", o.Get("name"))
	return err
}

func (p *parser) toolChoice(v *fastjson.Value) *wire.Error {
	o, err := openai.Object("tool_choice", v)
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
		if choice.Name, err = openai.FunctionName("tool_choice.name", o.Get("name")); err != nil {
			return err
		}
	default:
		return dialect.Wrong("tool_choice.type", "is %q, but must be auto, any, none or tool.", wire.Clip(kind))
	}
	if err := onlyOf("tool_choice", o, names...); err != nil {
		return err
	}
	p.call.Parameters.ToolChoice = choice
	p.given("tool_choice", "tool_choice")
	if one := o.Get("disable_parallel_tool_use"); !wire.IsNull(one) {
		const path = "tool_choice.disable_parallel_tool_use"
		alone, err := openai.Bool(path, one)
		if err != nil {
			return err
		}
		several := !alone
		p.call.Parameters.ParallelToolCalls = &several
		p.given("parallel_tool_calls", path)
	}
	return nil
}
