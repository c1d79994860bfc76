package openai

import "regexp"

// Quirks are what a service does otherwise than the API it speaks. They are
// data, so that a further service is a line in a table.
type Quirks struct {
	// MaxCompletionTokens sends the bound of an answer as
	// max_completion_tokens, not as max_tokens.
	MaxCompletionTokens bool
	// NoTopK leaves out top_k: the service does not have it.
	NoTopK bool
	// NoSeed leaves out seed, RandomSeed sends it as random_seed.
	NoSeed, RandomSeed bool
	// NoReasoningEffort leaves out reasoning_effort, EffortByModel with the
	// models of OpenAI that do not reason, which reject it.
	NoReasoningEffort, EffortByModel bool
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
	// Alternate sends the system messages first, and the others as turns that
	// alternate between user and assistant: the service rejects anything else.
	Alternate bool
}

// Service is a service that speaks OpenAI's API.
type Service struct {
	// Name is the name of its module, cadenza.providers.NAME.
	Name    string
	BaseURL string
	// Keyless tells that the service answers without an API key.
	Keyless bool
	Quirks  Quirks
}

// officialQuirks are the quirks of OpenAI itself: its newer models reject
// max_tokens, its older ones reasoning_effort, and none has top_k.
var officialQuirks = Quirks{MaxCompletionTokens: true, NoTopK: true, EffortByModel: true}

// older matches OpenAI's models that do not reason, tuned ones included.
var older = regexp.MustCompile(`^(?:ft:)?(?:gpt-3\.5|gpt-4|chatgpt-4|o1-mini|o1-preview)`)

// reasons tells whether a model of OpenAI takes reasoning_effort.
func reasons(model string) bool { return !older.MatchString(model) }

// Each service's reference of chat completions is the source of its line.
var services = []Service{
	// The quirks of OpenAI go with its host: behind another base URL stands
	// another service.
	{Name: "openai", BaseURL: DefaultBaseURL},
	{Name: "cohere", BaseURL: "https://api.cohere.ai/compatibility/v1", Quirks: Quirks{NoTopK: true, NoStreamOptions: true, DeveloperIsSystem: true}},
	{Name: "deepseek", BaseURL: "https://api.deepseek.com", Quirks: Quirks{NoTopK: true, NoSeed: true, NoReasoningEffort: true, NoJSONSchema: true, DeveloperIsSystem: true}},
	{Name: "fireworks", BaseURL: "https://api.fireworks.ai/inference/v1", Quirks: Quirks{DeveloperIsSystem: true}},
	{Name: "groq", BaseURL: "https://api.groq.com/openai/v1", Quirks: Quirks{MaxCompletionTokens: true, NoTopK: true, DeveloperIsSystem: true}},
	{Name: "mistral", BaseURL: "https://api.mistral.ai/v1", Quirks: Quirks{NoTopK: true, RandomSeed: true, NoReasoningEffort: true, NoStreamOptions: true, DeveloperIsSystem: true}},
	{Name: "ollama", BaseURL: "http://localhost:11434/v1", Keyless: true, Quirks: Quirks{NoTopK: true, DeveloperIsSystem: true}},
	{Name: "openrouter", BaseURL: "https://openrouter.ai/api/v1", Quirks: Quirks{DeveloperIsSystem: true}},
	{Name: "perplexity", BaseURL: "https://api.perplexity.ai", Quirks: Quirks{NoSeed: true, NoJSON: true, NoTools: true, NoStreamOptions: true, DeveloperIsSystem: true, Alternate: true}},
	{Name: "together", BaseURL: "https://api.together.xyz/v1", Quirks: Quirks{DeveloperIsSystem: true}},
	{Name: "vllm", BaseURL: "http://localhost:8000/v1", Keyless: true, Quirks: Quirks{DeveloperIsSystem: true}},
	{Name: "xai", BaseURL: "https://api.x.ai/v1", Quirks: Quirks{MaxCompletionTokens: true, NoTopK: true, DeveloperIsSystem: true}},
}

// Services returns the services that have a module of their own, openai first,
// the others by name.
func Services() []Service { return append([]Service(nil), services...) }
