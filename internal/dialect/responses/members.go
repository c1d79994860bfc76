package responses

import (
	"bytes"
	"slices"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// Fate is what becomes of a member of a request.
type Fate string

// The fates.
const (
	Forwarded Fate = "forwarded" // to the model, where the endpoint accepts it
	Mapped    Fate = "mapped"    // to something of the gateway's
	Fixed     Fate = "fixed"     // refused unless it asks for what is so in any case
	Refused   Fate = "refused"   // 400 with the member's path
	Ignored   Fate = "ignored"   // without effect, and named in Cadenza-Ignored
)

// Member is a member that a request may have, with what becomes of it.
type Member struct {
	Path string
	Fate Fate
	Only string // the one value of a member that is Fixed
	Note string // for which the member stands here, or why it has no other fate

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
		extra     = "in `extra_body`"
		stateless = "the gateway keeps no answer: send the whole conversation as `input`"
		history   = "the endpoint's prompt says how much of a history the model gets"
		hosted    = "there are no tools beside the caller's functions"
		openais   = "only OpenAI has others"
		thoughts  = "what a provider shows of its thoughts is in every answer"
		caches    = "the definition says how a provider caches"
	)
	members = []Member{
		{Path: "background", Fate: Fixed, Only: "false", Note: "the gateway keeps no answer for later"},
		{Path: "context", Fate: Mapped, Note: "the context of the tables, " + extra, read: (*parser).context},
		{Path: "context_management", Fate: Refused, Note: history},
		{Path: "conversation", Fate: Refused, Note: stateless},
		{Path: "frequency_penalty", Fate: Forwarded, Note: extra, read: parameter("frequency_penalty")},
		{Path: "include", Fate: Mapped, Note: "`message.output_text.logprobs` asks for `logprobs`, and `reasoning.encrypted_content` for what comes in any case; those of hosted tools are ignored", read: (*parser).include},
		{Path: "input", Fate: Mapped, Note: "the caller's turns", read: (*parser).input},
		{Path: "instructions", Fate: Mapped, Note: "a system message before the turns", read: (*parser).instructions},
		{Path: "max_output_tokens", Fate: Forwarded, Note: "`max_tokens`", read: (*parser).maxTokens},
		{Path: "max_tool_calls", Fate: Ignored, Note: hosted},
		{Path: "metadata", Fate: Mapped, Note: "recorded, and seen by the rules", read: (*parser).metadata},
		{Path: "model", Fate: Mapped, Note: "the endpoint: `key`, or `key@variant`", read: (*parser).model},
		{Path: "moderation", Fate: Refused, Note: openais},
		{Path: "parallel_tool_calls", Fate: Forwarded, read: parameter("parallel_tool_calls")},
		{Path: "presence_penalty", Fate: Forwarded, Note: extra, read: parameter("presence_penalty")},
		{Path: "previous_response_id", Fate: Refused, Note: stateless},
		{Path: "prompt", Fate: Refused, Note: "the endpoint has a prompt of its own, which `variables` fill"},
		{Path: "prompt_cache_key", Fate: Ignored, Note: caches},
		{Path: "prompt_cache_options", Fate: Ignored, Note: caches},
		{Path: "prompt_cache_retention", Fate: Ignored, Note: caches},
		{Path: "reasoning", Fate: Mapped, read: inside("reasoning")},
		{Path: "reasoning.context", Fate: Fixed, Only: "auto", Note: openais},
		{Path: "reasoning.effort", Fate: Forwarded, Note: "`reasoning_effort`", read: (*parser).effort},
		{Path: "reasoning.generate_summary", Fate: Ignored, Note: thoughts},
		{Path: "reasoning.mode", Fate: Fixed, Only: "standard", Note: openais},
		{Path: "reasoning.summary", Fate: Ignored, Note: thoughts},
		{Path: "safety_identifier", Fate: Mapped, Note: "the user, in the trace's metadata", read: (*parser).user},
		{Path: "seed", Fate: Forwarded, Note: extra, read: parameter("seed")},
		{Path: "service_tier", Fate: Ignored, Note: "`auto` and `default`; any other is refused: the definition says which", read: (*parser).serviceTier},
		{Path: "stop", Fate: Forwarded, Note: extra, read: parameter("stop")},
		{Path: "store", Fate: Fixed, Only: "false", Note: stateless},
		{Path: "stream", Fate: Mapped, read: (*parser).stream},
		{Path: "stream_options", Fate: Mapped, read: inside("stream_options")},
		{Path: "stream_options.include_obfuscation", Fate: Ignored, Note: "there is none", read: (*parser).obfuscation},
		{Path: "temperature", Fate: Forwarded, read: parameter("temperature")},
		{Path: "text", Fate: Mapped, read: inside("text")},
		{Path: "text.format", Fate: Forwarded, Note: "`response_format`", read: (*parser).format},
		{Path: "text.verbosity", Fate: Ignored, Note: "`medium`; any other is refused: the definition says which", read: (*parser).verbosity},
		{Path: "tool_choice", Fate: Forwarded, Note: "a word, or one function", read: (*parser).toolChoice},
		{Path: "tools", Fate: Forwarded, Note: "functions: " + hosted, read: (*parser).tools},
		{Path: "top_k", Fate: Forwarded, Note: extra, read: parameter("top_k")},
		{Path: "top_logprobs", Fate: Forwarded, Note: "`logprobs`, where `include` has `message.output_text.logprobs`; else ignored", read: (*parser).topLogprobs},
		{Path: "top_p", Fate: Forwarded, read: parameter("top_p")},
		{Path: "truncation", Fate: Fixed, Only: "disabled", Note: history},
		{Path: "user", Fate: Mapped, Note: "as `safety_identifier`, which wins", read: (*parser).user},
		{Path: "variables", Fate: Mapped, Note: "the variables of the prompt, " + extra, read: (*parser).variables},
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
			return wrong(path, "must be an object, not %s.", wire.Describe(v))
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
		case m.Fate == Ignored:
			p.ignore(m.Path)
		case m.Fate == Refused:
			err = wrong(m.Path, "is not accepted: %s.", m.Note)
		case m.Only == "false" && v.Type() == fastjson.TypeFalse:
		case m.Only == "false" || openai.Text(v) != m.Only:
			err = wrong(m.Path, "must be %s: %s.", m.Only, m.Note)
		}
	})
	return err
}
