package responses

import (
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
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
		"additional_tools", "mcp_approval_request", "mcp_approval_response", "mcp_list_tools", "program", "program_output", "tool_search_output",
	}
)

// isOurs reports whether tools of a type reach the model.
func isOurs(kind string) bool { return kind == "function" }

// isHosted reports whether a type is that of one of OpenAI's own tools.
func isHosted(kind string) bool {
	return slices.ContainsFunc(hosted, func(of string) bool { return strings.HasPrefix(kind, of) })
}

// isHostedItem reports whether a type is that of an item about one of OpenAI's own tools.
func isHostedItem(kind string) bool {
	call := strings.TrimSuffix(kind, "_output")
	return slices.Contains(hostedItems, kind) || strings.HasSuffix(call, "_call") && isHosted(call)
}

// tools reads the caller's tools. OpenAI's own are ignored.
func (p *parser) tools(v *fastjson.Value) *wire.Error { return p.ToolList(v, p.tool) }

func (p *parser) tool(at *openai.Path, v *fastjson.Value) *wire.Error {
	o, err := openai.Object(at, v)
	if err != nil {
		return err
	}
	kind, err := openai.String(at.Member("type"), o.Get("type"))
	if err != nil {
		return err
	}
	if !isOurs(kind) {
		p.IgnoreTool(at, isHosted(kind), kind)
		return nil
	}
	t, err := p.Function(at, o)
	if err != nil {
		return err
	}
	if t.Name, err = openai.FunctionName(at.Member("name"), o.Get("name")); err != nil {
		return err
	}
	return p.AddTool(at, at, &t)
}

// toolChoice reads which tools may be called. A choice of one of OpenAI's own is ignored,
// as the tool is.
func (p *parser) toolChoice(v *fastjson.Value) *wire.Error {
	if kind := openai.Text(v.Get("type")); isHosted(kind) {
		p.Call.IgnoreHosted("tool_choice")
		return nil
	}
	return p.ToolChoice(v)
}
