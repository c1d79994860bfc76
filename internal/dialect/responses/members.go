package responses

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
	Only string // the one value of a member that is Fixed
	// Note says what it becomes, or why it does not. Errors end with that of a member
	// that is Fixed or Refused.
	Note string

	read func(p *parser, v *fastjson.Value) *wire.Error
}

// Members returns the members of a request: those of OpenAI's API, and ours, which
// clients send as extra_body. Any other member is refused.
func Members() []Member { return slices.Clone(members) }

// members is set by init, because the functions in it look members up.
var (
	members  []Member
	memberAt = map[string]*Member{}
)

func init() {
	const (
		extra     = "Send it in extra_body."
		stateless = "The gateway keeps no answer: send the whole conversation as input."
		history   = "The endpoint's prompt says how much of a history the model gets."
		openais   = "Only OpenAI has others. Have the definition set it in extra."
		set       = "The definition's extra sets it."
	)
	members = []Member{
		{Path: "model", Fate: dialect.Mapped, Note: "The endpoint's key, or KEY@VARIANT where the endpoint accepts variants.", read: (*parser).model},
		{Path: "input", Fate: dialect.Forwarded, Note: "The conversation, placed where the prompt has its history. An empty text is none.", read: (*parser).input},
		{Path: "instructions", Fate: dialect.Forwarded, Note: "A system message before the conversation, which needs accept.system.", read: (*parser).instructions},
		{Path: "stream", Fate: dialect.Mapped, Note: "true asks for server-sent events.", read: (*parser).stream},
		{Path: "stream_options", Fate: dialect.Mapped, Note: "An object.", read: inside("stream_options")},
		{Path: "stream_options.include_obfuscation", Fate: dialect.Ignored, Note: "There is none. false has its meaning, and is not named.", read: (*parser).obfuscation},
		{Path: "context", Fate: dialect.Mapped, Note: "An object that the rules match on. " + extra, read: (*parser).context},
		{Path: "variables", Fate: dialect.Mapped, Note: "An object with the prompt's variables. " + extra, read: (*parser).variables},
		{Path: "metadata", Fate: dialect.Mapped, Note: "An object that the trace keeps. Without context it is what the rules match on, too.", read: (*parser).metadata},
		{Path: "safety_identifier", Fate: dialect.Mapped, Note: "Metadata of the trace, as user.", read: (*parser).user},
		{Path: "user", Fate: dialect.Mapped, Note: "As safety_identifier. Where both are sent user is ignored.", read: (*parser).user},
		{Path: "max_output_tokens", Fate: dialect.Forwarded, Note: "As max_tokens: a whole number from 1.", read: (*parser).maxTokens},
		{Path: "temperature", Fate: dialect.Forwarded, Note: "0 to 2.", read: parameter("temperature")},
		{Path: "top_p", Fate: dialect.Forwarded, Note: "0 to 1.", read: parameter("top_p")},
		{Path: "top_k", Fate: dialect.Forwarded, Note: "A whole number from 0. " + extra, read: parameter("top_k")},
		{Path: "frequency_penalty", Fate: dialect.Forwarded, Note: "-2 to 2. " + extra, read: parameter("frequency_penalty")},
		{Path: "presence_penalty", Fate: dialect.Forwarded, Note: "-2 to 2. " + extra, read: parameter("presence_penalty")},
		{Path: "seed", Fate: dialect.Forwarded, Note: "A whole number. " + extra, read: parameter("seed")},
		{Path: "stop", Fate: dialect.Forwarded, Note: "A text, or up to 4. " + extra, read: parameter("stop")},
		{Path: "reasoning", Fate: dialect.Mapped, Note: "An object.", read: inside("reasoning")},
		{Path: "reasoning.effort", Fate: dialect.Forwarded, Note: "As reasoning_effort: none, minimal, low, medium, high, xhigh or max.", read: (*parser).effort},
		{Path: "reasoning.summary", Fate: dialect.Ignored, Note: "What a provider shows of its thoughts is in every answer."},
		{Path: "reasoning.generate_summary", Fate: dialect.Ignored, Note: "As reasoning.summary."},
		{Path: "reasoning.context", Fate: dialect.Fixed, Only: "auto", Note: openais},
		{Path: "reasoning.mode", Fate: dialect.Fixed, Only: "standard", Note: openais},
		{Path: "text", Fate: dialect.Mapped, Note: "An object.", read: inside("text")},
		{Path: "text.format", Fate: dialect.Forwarded, Note: "As response_format: text, json_object or json_schema. A schema's description is ignored.", read: (*parser).format},
		{Path: "text.verbosity", Fate: dialect.Ignored, Note: "medium; any other is refused: only some models have it, and the definition's extra sets it.", read: (*parser).verbosity},
		{Path: "tools", Fate: dialect.Forwarded, Note: "Functions. OpenAI's own tools are refused.", read: (*parser).tools},
		{Path: "tool_choice", Fate: dialect.Forwarded, Note: "A word or a function. Of allowed_tools one that is required is a function; any other is refused.", read: (*parser).toolChoice},
		{Path: "parallel_tool_calls", Fate: dialect.Forwarded, Note: "true or false.", read: parameter("parallel_tool_calls")},
		{Path: "max_tool_calls", Fate: dialect.Ignored, Note: "It bounds OpenAI's own tools, of which there are none."},
		{Path: "include", Fate: dialect.Mapped, Note: "message.output_text.logprobs asks for logprobs. reasoning.encrypted_content is in every answer whose provider has it. What OpenAI's own tools would add is ignored.", read: (*parser).include},
		{Path: "top_logprobs", Fate: dialect.Forwarded, Note: "0 to 20. It is ignored where include has no message.output_text.logprobs.", read: (*parser).topLogprobs},
		{Path: "store", Fate: dialect.Fixed, Only: "false", Note: stateless},
		{Path: "background", Fate: dialect.Fixed, Only: "false", Note: "The gateway keeps no answer for later."},
		{Path: "truncation", Fate: dialect.Fixed, Only: "disabled", Note: history},
		{Path: "service_tier", Fate: dialect.Ignored, Note: "auto and default; any other is refused: the definition's extra sets it.", read: (*parser).serviceTier},
		{Path: "prompt_cache_key", Fate: dialect.Ignored, Note: set},
		{Path: "prompt_cache_options", Fate: dialect.Ignored, Note: set},
		{Path: "prompt_cache_retention", Fate: dialect.Ignored, Note: set},
		{Path: "previous_response_id", Fate: dialect.Refused, Note: stateless},
		{Path: "conversation", Fate: dialect.Refused, Note: stateless},
		{Path: "prompt", Fate: dialect.Refused, Note: "The endpoint has a prompt of its own, which variables fill."},
		{Path: "context_management", Fate: dialect.Refused, Note: history},
		{Path: "access_programs", Fate: dialect.Refused, Note: "They are OpenAI's own."},
		{Path: "image", Fate: dialect.Refused, Note: "Images pass as they are."},
		{Path: "moderation", Fate: dialect.Refused, Note: "The definition sets it in extra. Leave it out."},
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
		o, notObject := v.Object()
		if notObject != nil {
			return dialect.Wrong(path, "must be an object, not %s.", wire.Describe(v))
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
		if m == nil || bytes.IndexByte(key, '.') >= 0 {
			err = openai.Unknown(prefix, string(key))
			return
		}
		switch {
		case m.read != nil:
			err = m.read(p, v)
		case m.Fate == dialect.Ignored:
			p.ignore(m.Path)
		case m.Fate == dialect.Refused:
			err = dialect.Wrong(m.Path, "is not accepted. %s", m.Note)
		case m.Only == "false" && v.Type() == fastjson.TypeFalse:
		case m.Only == "false" || openai.Text(v) != m.Only:
			err = dialect.Wrong(m.Path, "must be %s. %s", m.Only, m.Note)
		}
	})
	return err
}
