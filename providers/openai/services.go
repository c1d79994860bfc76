package openai

import (
	"regexp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Quirks are the ways in which a service differs from the API it speaks. They are
// data, so that a further service is a line in a table.
type Quirks struct {
	// MaxCompletionTokens sends the bound of an answer as
	// max_completion_tokens, not as max_tokens.
	MaxCompletionTokens bool
	// NoTopK leaves out top_k: the service does not have it.
	NoTopK bool
	// NoSeed leaves out seed, RandomSeed sends it as random_seed.
	NoSeed, RandomSeed bool
	// NoEffort matches the models that reject reasoning_effort: with them it is
	// left out. Efforts are the efforts that the service does not know, each with
	// the word that is sent in its place. NoThinking sends the effort none as
	// thinking that is disabled.
	NoEffort   *regexp.Regexp
	Efforts    map[string]string
	NoThinking bool
	// ModelEfforts are the efforts of models that do not take all of the service's.
	ModelEfforts modelEfforts
	// NoJSON, NoJSONSchema and NoTools fail calls that want an object in JSON,
	// an answer by a schema, or tools: without them the answer would be
	// another.
	NoJSON, NoJSONSchema, NoTools bool
	// NoStreamOptions leaves out stream_options.include_usage: the service
	// rejects it, or sends the usage unasked.
	NoStreamOptions bool
	// DeveloperIsSystem sends developer messages as system messages: the
	// service does not know the role, or takes it for the same.
	DeveloperIsSystem bool
	// NoImages, NoAudio and NoFiles fail calls with such a part in a message: the
	// service takes none. Messages have calls of tools and their results unless
	// NoTools is set.
	NoImages, NoAudio, NoFiles bool
	// FileURLs sends a file's URL where its data would be: others take no file by URL.
	FileURLs bool
	// ResultImages sends the images of a tool's result with it, and ResultFiles its sounds
	// and files: others get them behind the results.
	ResultImages, ResultFiles bool
	// Chunks sends sounds and files, which may be URLs then, and thoughts as chunks
	// of the content that only Mistral has.
	Chunks bool
	// Thoughts is the member in which the service takes the thoughts of the
	// assistant's messages back: reasoning_content, reasoning or reasoning_details.
	// Empty: they are left out.
	Thoughts string
	// ShortIDs sends ids of tool calls that are not nine letters and digits as such:
	// the service takes no others.
	ShortIDs bool
	// Caches means that the service caches prompts by itself, without marks.
	Caches bool
	// CacheKey sends prompt_cache_key, Official also prompt_cache_retention,
	// safety_identifier and service_tier: other services have none.
	CacheKey, Official bool
	// NoParallelToolCalls and NoLogprobs leave out the parameters of these names.
	NoParallelToolCalls, NoLogprobs bool
	// Responses means that the models are OpenAI's: those that need the Responses API are
	// called by it, and know which of their texts was not their last word.
	Responses bool
	// Alternate sends the system messages first, and the others as turns that
	// alternate between user and assistant: the service rejects anything else.
	Alternate bool
	// Embeddings are the quirks of the service's embeddings.
	Embeddings EmbeddingQuirks
}

// Service is a service that speaks OpenAI's API.
type Service struct {
	// Name is the name of its module, cadenza.providers.NAME.
	Name    string
	BaseURL string
	// Keyless means that the service answers without an API key.
	Keyless bool
	Quirks  Quirks
}

// officialQuirks are the quirks of OpenAI itself: its newer models reject
// max_tokens, its older ones reasoning_effort, and none has top_k.
var officialQuirks = Quirks{MaxCompletionTokens: true, NoTopK: true, NoEffort: older, ModelEfforts: officialEfforts, Responses: true, Caches: true, CacheKey: true, Official: true}

// older matches OpenAI's models that do not reason, tuned ones included.
var older = regexp.MustCompile(`^(?:ft:)?(?:gpt-3\.5|gpt-4|gpt-5-chat|chatgpt-4|o1-mini|o1-preview)`)

// fixed matches Mistral's models that reason always, or never: its older ones
// and all but the three families that have both.
var fixed = regexp.MustCompile(`^(?:(?:open-|code|codestral|devstral|magistral|ministral|pixtral|voxtral)|mistral-(?:tiny|embed|ocr|saba|nemo|moderation)|mistral-(?:small|medium|large)-2[0-5]\d\d)`)

// The efforts that services use for the ones that they do not know.
var (
	// lowToHigh are none, low, medium and high.
	lowToHigh = map[string]string{"minimal": "low", "xhigh": "high", "max": "high"}
	// onOff are none and high.
	onOff = map[string]string{"minimal": "none", "low": "high", "medium": "high", "xhigh": "high", "max": "high"}
)

// Each service's reference of chat completions is the source of its line.
var services = []Service{
	// The quirks of OpenAI go with its host: another base URL is another
	// service.
	{Name: "openai", BaseURL: DefaultBaseURL},
	{Name: "cohere", BaseURL: "https://api.cohere.ai/compatibility/v1", Quirks: Quirks{Efforts: onOff, NoTopK: true, NoStreamOptions: true, DeveloperIsSystem: true, NoAudio: true, NoFiles: true, NoParallelToolCalls: true, Embeddings: EmbeddingQuirks{Batch: providers.EmbeddingBatch{Inputs: 96}, NoTokens: true, NoUser: true, NoDimensions: true}}},
	{Name: "deepseek", BaseURL: "https://api.deepseek.com", Quirks: Quirks{NoTopK: true, NoSeed: true, NoThinking: true, NoJSONSchema: true, DeveloperIsSystem: true, NoImages: true, NoAudio: true, NoFiles: true, Thoughts: "reasoning_content", NoParallelToolCalls: true, Caches: true}},
	{Name: "fireworks", BaseURL: "https://api.fireworks.ai/inference/v1", Quirks: Quirks{Efforts: lowToHigh, DeveloperIsSystem: true, NoAudio: true, NoFiles: true, Thoughts: "reasoning_content", Caches: true}},
	{Name: "groq", BaseURL: "https://api.groq.com/openai/v1", Quirks: Quirks{Efforts: lowToHigh, MaxCompletionTokens: true, NoTopK: true, DeveloperIsSystem: true, NoAudio: true, NoFiles: true, NoLogprobs: true, Caches: true}},
	{Name: "mistral", BaseURL: "https://api.mistral.ai/v1", Quirks: Quirks{NoTopK: true, RandomSeed: true, NoEffort: fixed, Efforts: onOff, NoStreamOptions: true, DeveloperIsSystem: true, Chunks: true, ShortIDs: true, ResultImages: true, ResultFiles: true, NoLogprobs: true, Embeddings: EmbeddingQuirks{Batch: providers.EmbeddingBatch{Inputs: 512, Tokens: 16_384}, NoTokens: true, NoUser: true, OutputDimension: true}}},
	{Name: "ollama", BaseURL: "http://localhost:11434/v1", Keyless: true, Quirks: Quirks{Efforts: lowToHigh, NoTopK: true, DeveloperIsSystem: true, NoFiles: true, Thoughts: "reasoning", NoParallelToolCalls: true, Caches: true, Embeddings: EmbeddingQuirks{NoTokens: true}}},
	{Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1", Quirks: Quirks{Efforts: map[string]string{"max": "xhigh"}, DeveloperIsSystem: true, FileURLs: true, Thoughts: reasoningDetails}},
	{Name: "perplexity", BaseURL: "https://api.perplexity.ai", Quirks: Quirks{Efforts: map[string]string{"none": "minimal", "xhigh": "high", "max": "high"}, NoSeed: true, NoJSON: true, NoTools: true, NoStreamOptions: true, DeveloperIsSystem: true, Alternate: true, NoAudio: true, NoFiles: true, NoLogprobs: true}},
	{Name: "together", BaseURL: "https://api.together.xyz/v1", Quirks: Quirks{Efforts: lowToHigh, DeveloperIsSystem: true, NoFiles: true, NoLogprobs: true}},
	{Name: "vllm", BaseURL: "http://localhost:8000/v1", Keyless: true, Quirks: Quirks{Efforts: lowToHigh, DeveloperIsSystem: true, NoFiles: true, ResultImages: true, Thoughts: "reasoning", Caches: true}},
	{Name: "xai", BaseURL: "https://api.x.ai/v1", Quirks: Quirks{Efforts: lowToHigh, MaxCompletionTokens: true, NoTopK: true, DeveloperIsSystem: true, NoAudio: true, NoFiles: true, Caches: true}},
}
