package chat

import (
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
)

// members are the members of OpenAI's API, and our own. docs/apis.md has the same table.
var members = openai.NewMembers([]openai.Member[*parser]{
	{Path: "model", Fate: dialect.Mapped, Note: "The endpoint's key, or KEY@VARIANT where the endpoint accepts variants.", Read: (*parser).Model},
	{Path: "messages", Fate: dialect.Forwarded, Note: "The conversation, placed where the prompt has its history. The roles system and developer need accept.system.", Read: (*parser).Messages},
	{Path: "stream", Fate: dialect.Mapped, Note: "true asks for server-sent events.", Read: (*parser).Stream},
	{Path: "stream_options", Fate: dialect.Mapped, Note: "include_usage adds the usage chunk. include_obfuscation has no effect: there is none.", Read: (*parser).streamOptions},
	{Path: "context", Fate: dialect.Mapped, Note: "An object that the rules match on. Send it in extra_body.", Read: (*parser).Context},
	{Path: "variables", Fate: dialect.Mapped, Note: "An object with the prompt's variables. Send it in extra_body.", Read: (*parser).Variables},
	{Path: "metadata", Fate: dialect.Mapped, Note: "An object that the trace keeps. Without context it is what the rules match on, too.", Read: (*parser).Metadata},
	{Path: "user", Fate: dialect.Mapped, Note: "Metadata of the trace, as user.", Read: (*parser).User},
	{Path: "safety_identifier", Fate: dialect.Mapped, Note: "As user, and OpenAI gets it. Where both are sent user is ignored.", Read: (*parser).User},
	{Path: "temperature", Fate: dialect.Forwarded, Note: "0 to 2."},
	{Path: "top_p", Fate: dialect.Forwarded, Note: "0 to 1."},
	{Path: "top_k", Fate: dialect.Forwarded, Note: "A whole number from 0. OpenAI's API does not have it, many that are like it do."},
	{Path: "frequency_penalty", Fate: dialect.Forwarded, Note: "-2 to 2."},
	{Path: "presence_penalty", Fate: dialect.Forwarded, Note: "-2 to 2."},
	{Path: "max_completion_tokens", Fate: dialect.Forwarded, Note: "As max_tokens, of which only one may be sent."},
	{Path: "max_tokens", Fate: dialect.Forwarded, Note: "A whole number from 1."},
	{Path: "seed", Fate: dialect.Forwarded, Note: "A whole number."},
	{Path: "stop", Fate: dialect.Forwarded, Note: "A text, or up to 4."},
	{Path: "reasoning_effort", Fate: dialect.Forwarded, Note: "none, minimal, low, medium, high, xhigh or max."},
	{Path: "response_format", Fate: dialect.Forwarded, Note: "text, json_object or json_schema. A schema's description is ignored."},
	{Path: "tools", Fate: dialect.Forwarded, Note: "Functions. Other types are refused.", Read: (*parser).Tools},
	{Path: "tool_choice", Fate: dialect.Forwarded, Note: "A word or a function. Of allowed_tools one that is required is a function; any other is refused.", Read: (*parser).ToolChoice},
	{Path: "parallel_tool_calls", Fate: dialect.Forwarded, Note: "true or false."},
	{Path: "logprobs", Fate: dialect.Forwarded, Note: "true or false."},
	{Path: "top_logprobs", Fate: dialect.Forwarded, Note: "0 to 20, beside logprobs: true."},
	{Path: "n", Fate: dialect.Mapped, Note: "1 is taken, any other number is refused: an endpoint has one answer.", Read: (*parser).n},
	{Path: "modalities", Fate: dialect.Mapped, Note: `["text"] is taken, any other list is refused: answers are text.`, Read: (*parser).modalities},
	{Path: "store", Fate: dialect.Ignored, Note: "The gateway's own traces are kept as the endpoint's log says. false has its meaning, and is not named.", Read: (*parser).store},
	{Path: "service_tier", Fate: dialect.Forwarded, Note: "auto, default, flex or priority. Without accept: { parameters: [service_tier] } auto and default are ignored, and the others refused, as they change the price.", Read: (*parser).Tier},
	{Path: "cache_control", Fate: dialect.Forwarded, Note: "In the request, whose last part it marks, and in each of its parts, messages, calls and tools: ephemeral, for 5m or 1h. [Prompt caching](#prompt-caching) says where it goes.", Read: (*parser).MarkRequest},
	{Path: "prompt_cache_key", Fate: dialect.Forwarded, Note: "A text. Only OpenAI and Azure have it.", Read: (*parser).CacheKey},
	{Path: "prompt_cache_options", Fate: dialect.Ignored, Note: "The definition's extra sets it."},
	{Path: "prompt_cache_retention", Fate: dialect.Forwarded, Note: "A text. Only OpenAI has it.", Read: (*parser).CacheRetention},
	{Path: "prediction", Fate: dialect.Ignored, Note: "It changes how fast an answer comes, not which."},
	refused("audio", "answers are text. Leave it out."),
	refused("function_call", "OpenAI has replaced it. Send tool_choice."),
	refused("functions", "OpenAI has replaced it. Send tools."),
	refused("logit_bias", "tokens differ from model to model, and the endpoint picks the model. Have the definition set it in extra."),
	refused("moderation", "the definition sets it in extra. Leave it out."),
	refused("verbosity", "only some models have it. Have the definition set it in extra."),
	{Path: "web_search_options", Fate: dialect.Ignored, Note: "It is [a search](#web-search) where the endpoint accepts it.", Read: (*parser).search},
})
