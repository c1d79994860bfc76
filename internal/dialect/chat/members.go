package chat

// Fate is what becomes of a member of a request.
type Fate string

// The fates of members. There is no other: nothing is dropped in silence.
const (
	// Forwarded members reach the provider, where the endpoint's accept has them.
	Forwarded Fate = "forwarded"
	// Mapped members have an effect in the gateway.
	Mapped Fate = "mapped"
	// Ignored members have no effect, and are named in the header Cadenza-Ignored.
	Ignored Fate = "ignored"
	// Refused members are errors with the member's path.
	Refused Fate = "refused"
)

// Member is a member of a request, and what becomes of it.
type Member struct {
	Name string
	Fate Fate
	// Note says what it becomes, or why it does not. For a refused member it is the
	// rest of the error's message.
	Note string
}

// Members are all members of a request that the API knows, and ours. Any other is
// refused. docs/openai.md has the same table.
var Members = []Member{
	{"model", Mapped, "The endpoint's key, or KEY@VARIANT where the endpoint accepts variants."},
	{"messages", Forwarded, "The conversation, placed where the prompt has its history. The roles system and developer need accept.system."},
	{"stream", Mapped, "true asks for server-sent events."},
	{"stream_options", Mapped, "include_usage adds the usage chunk. include_obfuscation has no effect: there is none."},
	{"context", Mapped, "An object that the rules match on. Send it in extra_body."},
	{"variables", Mapped, "An object with the prompt's variables. Send it in extra_body."},
	{"metadata", Mapped, "An object that the trace keeps. Without context it is what the rules match on, too."},
	{"user", Mapped, "Metadata of the trace, as user."},
	{"safety_identifier", Mapped, "As user. Where both are sent user is ignored."},
	{"temperature", Forwarded, "0 to 2."},
	{"top_p", Forwarded, "0 to 1."},
	{"top_k", Forwarded, "A whole number from 0. OpenAI's API does not have it, many that are like it do."},
	{"frequency_penalty", Forwarded, "-2 to 2."},
	{"presence_penalty", Forwarded, "-2 to 2."},
	{"max_completion_tokens", Forwarded, "As max_tokens, of which only one may be sent."},
	{"max_tokens", Forwarded, "A whole number from 1."},
	{"seed", Forwarded, "A whole number."},
	{"stop", Forwarded, "A text, or up to 4."},
	{"reasoning_effort", Forwarded, "none, minimal, low, medium, high, xhigh or max."},
	{"response_format", Forwarded, "text, json_object or json_schema. A schema's description is ignored."},
	{"tools", Forwarded, "Functions. Other types are refused."},
	{"tool_choice", Forwarded, "A word or a function. Of allowed_tools one that is required is a function; any other is refused."},
	{"parallel_tool_calls", Forwarded, "true or false."},
	{"logprobs", Forwarded, "true or false."},
	{"top_logprobs", Forwarded, "0 to 20, beside logprobs: true."},
	{"n", Mapped, "1 is taken, any other number is refused: an endpoint has one answer."},
	{"modalities", Mapped, `["text"] is taken, any other list is refused: answers are text.`},
	{"store", Ignored, "The gateway's own traces are kept as the endpoint's log says. false has its meaning, and is not named."},
	{"service_tier", Ignored, "auto and default; any other is refused: the definition's extra sets it."},
	{"prompt_cache_key", Ignored, "The definition's extra sets it."},
	{"prompt_cache_options", Ignored, "The definition's extra sets it."},
	{"prompt_cache_retention", Ignored, "The definition's extra sets it."},
	{"prediction", Ignored, "It changes how fast an answer comes, not which."},
	{"audio", Refused, "answers are text. Leave it out."},
	{"function_call", Refused, "OpenAI has replaced it. Send tool_choice."},
	{"functions", Refused, "OpenAI has replaced it. Send tools."},
	{"logit_bias", Refused, "tokens differ from model to model, and the endpoint picks the model. Have the definition set it in extra."},
	{"moderation", Refused, "the definition sets it in extra. Leave it out."},
	{"verbosity", Refused, "only some models have it. Have the definition set it in extra."},
	{"web_search_options", Refused, "the gateway has no tools but functions. Have the definition set it in extra."},
}
