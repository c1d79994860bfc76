package messages

import (
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
)

// What notes have in common.
const (
	noteExtra   = "Have the endpoint's definition set it in extra."
	noteHistory = "The endpoint's prompt says how much of a history the model gets."
)

// members are the members of Anthropic's API, and our own.
var members = openai.NewMembers([]openai.Member[*parser]{
	{Path: "model", Fate: dialect.Mapped, Note: "The endpoint's key, or KEY@VARIANT where the endpoint accepts variants.", Read: (*parser).Model},
	{Path: "messages", Fate: dialect.Forwarded, Note: "The conversation, placed where the prompt has its history.", Read: (*parser).messages},
	{Path: "system", Fate: dialect.Forwarded, Note: "System messages before the conversation, one for each block, which need accept.system. A block that begins with x-anthropic-billing-header: goes first, to Anthropic alone.", Read: (*parser).system},
	{Path: "stream", Fate: dialect.Mapped, Note: "true asks for server-sent events.", Read: (*parser).Stream},
	{Path: "context", Fate: dialect.Mapped, Note: "An object that the rules match on. It is ours: send it beside the API's own.", Read: (*parser).Context},
	{Path: "variables", Fate: dialect.Mapped, Note: "An object with the prompt's variables. It is ours, too.", Read: (*parser).Variables},
	{Path: "metadata", Fate: dialect.Mapped, Note: "An object that the trace keeps. Without context it is what the rules match on, too.", Read: (*parser).metadata},
	{Path: "metadata.user_id", Fate: dialect.Mapped, Note: "Metadata of the trace, as user, too."},
	{Path: "max_tokens", Fate: dialect.Forwarded, Note: "A whole number from 1. Where it is left out that of the definition holds."},
	{Path: "temperature", Fate: dialect.Forwarded, Note: "0 to 2."},
	{Path: "top_p", Fate: dialect.Forwarded, Note: "0 to 1."},
	{Path: "top_k", Fate: dialect.Forwarded, Note: "A whole number from 0."},
	{Path: "stop_sequences", Fate: dialect.Forwarded, Note: "As stop: up to 4 texts.", Read: (*parser).stop},
	{Path: "tools", Fate: dialect.Forwarded, Note: "Custom tools. Of Anthropic's own web_search_20250305 and its newer versions are [a search](#web-search), where the endpoint accepts it; others are ignored.", Read: (*parser).tools},
	{Path: "tool_choice", Fate: dialect.Forwarded, Note: "auto, any, none or tool; ignored where it is about an ignored tool. disable_parallel_tool_use is parallel_tool_calls.", Read: (*parser).toolChoice},
	{Path: "thinking", Fate: dialect.Forwarded, Note: "As reasoning_effort: disabled and between_tools are none; enabled is low, medium from 4096 budget_tokens on, high from 16384 on, and has the model think; adaptive has it think as much as it finds right. The provider gets the budget, and display, where its model has them. adaptive and display are ignored where the endpoint does not accept reasoning_effort.", Read: (*parser).thinking},
	{Path: "output_config", Fate: dialect.Mapped, Note: "An object."},
	{Path: "output_config.effort", Fate: dialect.Forwarded, Note: "As reasoning_effort. It holds where thinking has a budget, too, which goes out beside it where the model has both.", Read: (*parser).outputEffort},
	{Path: "output_config.format", Fate: dialect.Forwarded, Note: "As response_format, strict: json_schema.", Read: format("output_config.format")},
	{Path: "output_format", Fate: dialect.Forwarded, Note: "The older name of output_config.format.", Read: format("output_format")},
	{Path: "cache_control", Fate: dialect.Forwarded, Note: "In the request, whose last block it marks, and in each of its blocks and tools: ephemeral, for 5m or 1h. [Prompt caching](#prompt-caching) says where it goes.", Read: (*parser).MarkRequest},
	{Path: "service_tier", Fate: dialect.Forwarded, Note: "auto or standard_only, which is default in OpenAI's API. Ignored without accept: { parameters: [service_tier] }.", Read: (*parser).serviceTier},
	{Path: "diagnostics", Fate: dialect.Ignored, Note: "There are none."},
	{Path: "context_management", Fate: dialect.Ignored, Note: "Where it keeps all thoughts, as is so in any case; any other edit is refused: the endpoint's prompt says how much of a history the model gets.", Read: (*parser).contextManagement},
	{Path: "billing_policy", Fate: dialect.Refused, Note: noteExtra},
	{Path: "compaction", Fate: dialect.Refused, Note: noteHistory},
	{Path: "container", Fate: dialect.Refused, Note: "The gateway runs no tools."},
	{Path: "fallback_credit_token", Fate: dialect.Refused, Note: noteExtra},
	{Path: "fallbacks", Fate: dialect.Refused, Note: "The endpoint has its own."},
	{Path: "inference_geo", Fate: dialect.Refused, Note: noteExtra},
	{Path: "mcp_servers", Fate: dialect.Refused, Note: "The gateway runs no tools."},
	{Path: "speed", Fate: dialect.Refused, Note: noteExtra},
	{Path: "thread", Fate: dialect.Refused, Note: "The gateway keeps no answer: send the whole conversation."},
})
