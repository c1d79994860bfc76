package responses

import (
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
)

// What notes have in common.
const (
	noteExtra     = "Send it in extra_body."
	noteStateless = "The gateway keeps no answer: send the whole conversation as input."
	noteHistory   = "The endpoint's prompt says how much of a history the model gets."
	noteOpenAIs   = "Only OpenAI has others. Have the definition set it in extra."
	noteSet       = "The definition's extra sets it."
)

// members are the members of OpenAI's API, and our own, which clients send as
// extra_body.
var members = openai.NewMembers([]openai.Member[*parser]{
	{Path: "model", Fate: dialect.Mapped, Note: "The endpoint's key, or KEY@VARIANT where the endpoint accepts variants.", Read: (*parser).model},
	{Path: "input", Fate: dialect.Forwarded, Note: "The conversation, placed where the prompt has its history. An empty text is none.", Read: (*parser).input},
	{Path: "instructions", Fate: dialect.Forwarded, Note: "A system message before the conversation, which needs accept.system.", Read: (*parser).instructions},
	{Path: "stream", Fate: dialect.Mapped, Note: "true asks for server-sent events.", Read: (*parser).Stream},
	{Path: "stream_options", Fate: dialect.Mapped, Note: "An object."},
	{Path: "stream_options.include_obfuscation", Fate: dialect.Ignored, Note: "There is none. false has its meaning, and is not named.", Read: (*parser).Obfuscation},
	{Path: "context", Fate: dialect.Mapped, Note: "An object that the rules match on. " + noteExtra, Read: (*parser).Context},
	{Path: "variables", Fate: dialect.Mapped, Note: "An object with the prompt's variables. " + noteExtra, Read: (*parser).variables},
	{Path: "metadata", Fate: dialect.Mapped, Note: "An object that the trace keeps. Without context it is what the rules match on, too.", Read: (*parser).Metadata},
	{Path: "safety_identifier", Fate: dialect.Mapped, Note: "Metadata of the trace, as user. OpenAI gets it, too.", Read: (*parser).User},
	{Path: "user", Fate: dialect.Mapped, Note: "As safety_identifier. Where both are sent user is ignored.", Read: (*parser).User},
	{Path: "max_output_tokens", Fate: dialect.Forwarded, Note: "As max_tokens: a whole number from 1.", Read: (*parser).maxTokens},
	{Path: "temperature", Fate: dialect.Forwarded, Note: "0 to 2."},
	{Path: "top_p", Fate: dialect.Forwarded, Note: "0 to 1."},
	{Path: "top_k", Fate: dialect.Forwarded, Note: "A whole number from 0. " + noteExtra},
	{Path: "frequency_penalty", Fate: dialect.Forwarded, Note: "-2 to 2. " + noteExtra},
	{Path: "presence_penalty", Fate: dialect.Forwarded, Note: "-2 to 2. " + noteExtra},
	{Path: "seed", Fate: dialect.Forwarded, Note: "A whole number. " + noteExtra},
	{Path: "stop", Fate: dialect.Forwarded, Note: "A text, or up to 4. " + noteExtra},
	{Path: "reasoning", Fate: dialect.Mapped, Note: "An object."},
	{Path: "reasoning.effort", Fate: dialect.Forwarded, Note: "As reasoning_effort: none, minimal, low, medium, high, xhigh or max.", Read: (*parser).effort},
	{Path: "reasoning.summary", Fate: dialect.Forwarded, Note: "What a provider shows of its thoughts is in every answer: this asks those that show none of themselves, beside an effort. It is ignored where the endpoint does not accept reasoning_effort.", Read: summary("reasoning.summary")},
	{Path: "reasoning.generate_summary", Fate: dialect.Forwarded, Note: "As reasoning.summary.", Read: summary("reasoning.generate_summary")},
	{Path: "reasoning.context", Fate: dialect.Ignored, Note: "The model gets the thoughts that the caller sends back."},
	{Path: "reasoning.mode", Fate: dialect.Fixed, Only: "standard", Note: noteOpenAIs},
	{Path: "text", Fate: dialect.Mapped, Note: "An object."},
	{Path: "text.format", Fate: dialect.Forwarded, Note: "As response_format: text, json_object or json_schema. A schema's description is ignored.", Read: (*parser).format},
	{Path: "text.verbosity", Fate: dialect.Ignored, Note: "low, medium or high. Only some models have it: the definition's extra sets it.", Read: (*parser).verbosity},
	{Path: "tools", Fate: dialect.Forwarded, Note: "Functions, custom tools and namespaces of them, see Tools of agents. Of OpenAI's own web_search is [a search](#web-search), where the endpoint accepts it; others are ignored.", Read: (*parser).tools},
	{Path: "tool_choice", Fate: dialect.Forwarded, Note: "A word, a function or a custom tool. Of allowed_tools one that is required is a function; any other is refused. One of OpenAI's own tools is ignored, as the tool is, unless it is a [search](#web-search).", Read: (*parser).toolChoice},
	{Path: "parallel_tool_calls", Fate: dialect.Forwarded, Note: "true or false."},
	{Path: "max_tool_calls", Fate: dialect.Mapped, Note: "It bounds [searches](#web-search), and is ignored without them.", Read: (*parser).maxToolCalls},
	{Path: "include", Fate: dialect.Mapped, Note: "message.output_text.logprobs asks for logprobs. reasoning.encrypted_content is in every answer whose provider has it. web_search_call.action.sources asks for the pages of [searches](#web-search). What OpenAI's other tools would add is ignored.", Read: (*parser).include},
	{Path: "top_logprobs", Fate: dialect.Forwarded, Note: "0 to 20. It is ignored where include has no message.output_text.logprobs.", Read: (*parser).topLogprobs},
	{Path: "store", Fate: dialect.Fixed, Only: "false", Note: noteStateless},
	{Path: "background", Fate: dialect.Fixed, Only: "false", Note: "The gateway keeps no answer for later."},
	{Path: "truncation", Fate: dialect.Fixed, Only: "disabled", Note: noteHistory},
	{Path: "service_tier", Fate: dialect.Forwarded, Note: "auto, default, flex or priority. Without accept: { parameters: [service_tier] } auto and default are ignored, and the others refused, as they change the price.", Read: (*parser).Tier},
	{Path: "prompt_cache_key", Fate: dialect.Forwarded, Note: "A text. Only OpenAI and Azure have it.", Read: (*parser).CacheKey},
	{Path: "prompt_cache_options", Fate: dialect.Ignored, Note: noteSet},
	{Path: "prompt_cache_retention", Fate: dialect.Forwarded, Note: "A text. Only OpenAI has it.", Read: (*parser).CacheRetention},
	{Path: "previous_response_id", Fate: dialect.Refused, Note: noteStateless},
	{Path: "conversation", Fate: dialect.Refused, Note: noteStateless},
	{Path: "prompt", Fate: dialect.Mapped, Note: "In place of model: `id` names an endpoint, `version` one of its prompt's variants by the endpoint's aliases, `variables` are texts that fill the prompt. See [below](#openais-reusable-prompts).", Read: (*parser).prompt},
	{Path: "context_management", Fate: dialect.Refused, Note: noteHistory},
	{Path: "access_programs", Fate: dialect.Refused, Note: "They are OpenAI's own."},
	{Path: "image", Fate: dialect.Refused, Note: "Images pass as they are."},
	{Path: "moderation", Fate: dialect.Refused, Note: "The definition sets it in extra. Leave it out."},
})
