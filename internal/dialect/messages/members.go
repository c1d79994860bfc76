package messages

import (
	"bytes"
	"slices"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// Member is a member that a request may have, with what becomes of it.
type Member struct {
	Path string
	Fate dialect.Fate
	// Note says what it becomes, or why it does not. Errors end with that of a member
	// that is Refused.
	Note string

	read func(p *parser, v *fastjson.Value) *wire.Error
}

// Members returns the members of a request: those of Anthropic's API, and ours. Any
// other member is refused.
func Members() []Member { return slices.Clone(members) }

// members is set by init, because the functions in it look members up.
var (
	members  []Member
	memberAt = map[string]*Member{}
)

func init() {
	const (
		extra   = "Have the endpoint's definition set it in extra."
		history = "The endpoint's prompt says how much of a history the model gets."
	)
	members = []Member{
		{Path: "model", Fate: dialect.Mapped, Note: "The endpoint's key, or KEY@VARIANT where the endpoint accepts variants.", read: (*parser).model},
		{Path: "messages", Fate: dialect.Forwarded, Note: "The conversation, placed where the prompt has its history.", read: (*parser).messages},
		{Path: "system", Fate: dialect.Forwarded, Note: "System messages before the conversation, one for each block, which need accept.system.", read: (*parser).system},
		{Path: "stream", Fate: dialect.Mapped, Note: "true asks for server-sent events.", read: (*parser).stream},
		{Path: "context", Fate: dialect.Mapped, Note: "An object that the rules match on. It is ours: send it beside the API's own.", read: (*parser).context},
		{Path: "variables", Fate: dialect.Mapped, Note: "An object with the prompt's variables. It is ours, too.", read: (*parser).variables},
		{Path: "metadata", Fate: dialect.Mapped, Note: "An object that the trace keeps. Without context it is what the rules match on, too.", read: (*parser).metadata},
		{Path: "metadata.user_id", Fate: dialect.Mapped, Note: "Metadata of the trace, as user, too."},
		{Path: "max_tokens", Fate: dialect.Forwarded, Note: "A whole number from 1. Where it is left out that of the definition holds.", read: parameter("max_tokens")},
		{Path: "temperature", Fate: dialect.Forwarded, Note: "0 to 2.", read: parameter("temperature")},
		{Path: "top_p", Fate: dialect.Forwarded, Note: "0 to 1.", read: parameter("top_p")},
		{Path: "top_k", Fate: dialect.Forwarded, Note: "A whole number from 0.", read: parameter("top_k")},
		{Path: "stop_sequences", Fate: dialect.Forwarded, Note: "As stop: up to 4 texts.", read: (*parser).stop},
		{Path: "tools", Fate: dialect.Forwarded, Note: "Custom tools. Those that Anthropic runs itself are refused.", read: (*parser).tools},
		{Path: "tool_choice", Fate: dialect.Forwarded, Note: "auto, any, none or tool. disable_parallel_tool_use is parallel_tool_calls.", read: (*parser).toolChoice},
		{Path: "thinking", Fate: dialect.Forwarded, Note: "As reasoning_effort: disabled is none; enabled is low, medium from 4096 budget_tokens on, high from 16384 on. adaptive, and display, are ignored.", read: (*parser).thinking},
		{Path: "output_config", Fate: dialect.Mapped, Note: "An object.", read: inside("output_config")},
		{Path: "output_config.effort", Fate: dialect.Forwarded, Note: "As reasoning_effort. It holds where thinking has a budget, too; that is ignored then.", read: (*parser).outputEffort},
		{Path: "output_config.format", Fate: dialect.Forwarded, Note: "As response_format, strict: json_schema.", read: format("output_config.format")},
		{Path: "output_format", Fate: dialect.Forwarded, Note: "The older name of output_config.format.", read: format("output_format")},
		{Path: "cache_control", Fate: dialect.Ignored, Note: "In the request, and in each of its blocks and tools. The definition's extra sets it."},
		{Path: "service_tier", Fate: dialect.Ignored, Note: "auto and standard_only; any other is refused.", read: (*parser).serviceTier},
		{Path: "diagnostics", Fate: dialect.Ignored, Note: "There are none."},
		{Path: "context_management", Fate: dialect.Ignored, Note: "Where it keeps all thoughts, as is so in any case; any other edit is refused: the endpoint's prompt says how much of a history the model gets.", read: (*parser).contextManagement},
		{Path: "billing_policy", Fate: dialect.Refused, Note: extra},
		{Path: "compaction", Fate: dialect.Refused, Note: history},
		{Path: "container", Fate: dialect.Refused, Note: "The gateway runs no tools."},
		{Path: "fallback_credit_token", Fate: dialect.Refused, Note: extra},
		{Path: "fallbacks", Fate: dialect.Refused, Note: "The endpoint has its own."},
		{Path: "inference_geo", Fate: dialect.Refused, Note: extra},
		{Path: "mcp_servers", Fate: dialect.Refused, Note: "The gateway runs no tools."},
		{Path: "speed", Fate: dialect.Refused, Note: extra},
		{Path: "thread", Fate: dialect.Refused, Note: "The gateway keeps no answer: send the whole conversation."},
	}
	for i := range members {
		memberAt[members[i].Path] = &members[i]
	}
}

// parameter reads a parameter that has the same name in definitions.
func parameter(name string) func(p *parser, v *fastjson.Value) *wire.Error {
	return func(p *parser, v *fastjson.Value) *wire.Error {
		_, err := openai.Parameter("", p.body, name, v, p.call)
		return err
	}
}

// inside reads an object whose members have rows of their own.
func inside(path string) func(p *parser, v *fastjson.Value) *wire.Error {
	return func(p *parser, v *fastjson.Value) *wire.Error {
		o, err := openai.Object(path, v)
		if err != nil {
			return err
		}
		return p.members(path+".", o)
	}
}

// members reads the members of an object of the request. prefix is its path with a dot;
// empty for the request's own.
func (p *parser) members(prefix string, o *fastjson.Object) (err *wire.Error) {
	o.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil || v.Type() == fastjson.TypeNull {
			return
		}
		m := memberAt[prefix+string(key)]
		switch {
		case m == nil || bytes.IndexByte(key, '.') >= 0:
			err = openai.Unknown(prefix, string(key))
		case m.read != nil:
			err = m.read(p, v)
		case m.Fate == dialect.Ignored:
			p.ignore(m.Path)
		default:
			err = dialect.Wrong(m.Path, "is not accepted. %s", m.Note)
		}
	})
	return err
}
