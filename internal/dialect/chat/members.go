package chat

import "github.com/cadenza-gateway/cadenza/internal/dialect"

// Member is a member of a request, and what becomes of it.
type Member struct {
	Name string
	Fate dialect.Fate
	// Note says what it becomes, or why it does not. For a refused member it is the
	// rest of the error's message.
	Note string
}

// Members are all members of a request that the API knows, and ours. Any other is
// refused. docs/openai.md has the same table.
var Members = []Member{
	{"model", dialect.Mapped, "The endpoint's key, or KEY@VARIANT where the endpoint accepts variants."},
	{"messages", dialect.Forwarded, "The conversation, placed where the prompt has its history. The roles system and developer need accept.system."},
	{"stream", dialect.Mapped, "true asks for server-sent events."},
	{"stream_options", dialect.Mapped, "include_usage adds the usage chunk. include_obfuscation has no effect: there is none."},
	{"context", dialect.Mapped, "An object that the rules match on. Send it in extra_body."},
	{"variables", dialect.Mapped, "An object with the prompt's variables. Send it in extra_body."},
	{"metadata", dialect.Mapped, "An object that the trace keeps. Without context it is what the rules match on, too."},
	{"user", dialect.Mapped, "Metadata of the trace, as user."},
	{"safety_identifier", dialect.Mapped, "As user. Where both are sent user is ignored."},
	{"temperature", dialect.Forwarded, "0 to 2."},
	{"top_p", dialect.Forwarded, "0 to 1."},
	{"top_k", dialect.Forwarded, "A whole number from 0. OpenAI's API does not have it, many that are like it do."},
	{"frequency_penalty", dialect.Forwarded, "-2 to 2."},
	{"presence_penalty", dialect.Forwarded, "-2 to 2."},
	{"max_completion_tokens", dialect.Forwarded, "As max_tokens, of which only one may be sent."},
	{"max_tokens", dialect.Forwarded, "A whole number from 1."},
	{"seed", dialect.Forwarded, "A whole number."},
	{"stop", dialect.Forwarded, "A text, or up to 4."},
	{"reasoning_effort", dialect.Forwarded, "none, minimal, low, medium, high, xhigh or max."},
	{"response_format", dialect.Forwarded, "text, json_object or json_schema. A schema's description is ignored."},
	{"tools", dialect.Forwarded, "Functions. Other types are refused."},
	{"tool_choice", dialect.Forwarded, "A word or a function. Of allowed_tools one that is required is a function; any other is refused."},
	{"parallel_tool_calls", dialect.Forwarded, "true or false."},
	{"logprobs", dialect.Forwarded, "true or false."},
	{"top_logprobs", dialect.Forwarded, "0 to 20, beside logprobs: true."},
	{"n", dialect.Mapped, "1 is taken, any other number is refused: an endpoint has one answer."},
	{"modalities", dialect.Mapped, `["text"] is taken, any other list is refused: answers are text.`},
	{"store", dialect.Ignored, "The gateway's own traces are kept as the endpoint's log says. false has its meaning, and is not named."},
	{"service_tier", dialect.Ignored, "auto and default; any other is refused: the definition's extra sets it."},
	{"prompt_cache_key", dialect.Ignored, "The definition's extra sets it."},
	{"prompt_cache_options", dialect.Ignored, "The definition's extra sets it."},
	{"prompt_cache_retention", dialect.Ignored, "The definition's extra sets it."},
	{"prediction", dialect.Ignored, "It changes how fast an answer comes, not which."},
	{"audio", dialect.Refused, "answers are text. Leave it out."},
	{"function_call", dialect.Refused, "OpenAI has replaced it. Send tool_choice."},
	{"functions", dialect.Refused, "OpenAI has replaced it. Send tools."},
	{"logit_bias", dialect.Refused, "tokens differ from model to model, and the endpoint picks the model. Have the definition set it in extra."},
	{"moderation", dialect.Refused, "the definition sets it in extra. Leave it out."},
	{"verbosity", dialect.Refused, "only some models have it. Have the definition set it in extra."},
	{"web_search_options", dialect.Refused, "the gateway has no tools but functions. Have the definition set it in extra."},
}
