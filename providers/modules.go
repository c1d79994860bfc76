package providers

import "slices"

// Module describes the Caddy module of a provider that belongs to this project: what
// others have to know of it, who may be in a build without it.
type Module struct {
	// Name is the name of the module, below cadenza.providers.
	Name string
	// Package is the path of its package, below that of the project.
	Package string
	// Host is the host that it calls by default, without a port; empty: there is no
	// network, or only its options name a host.
	Host string
	// Span is the provider's name in OpenTelemetry's semantic conventions.
	Span string
	// KnownAs are names of its models and of their owner, which users try.
	KnownAs []string
}

// modules is the table of all modules. A test compares it with the modules that are
// linked.
var modules = []Module{
	{"anthropic", "providers/anthropic", "api.anthropic.com", "anthropic", []string{"claude"}},
	{"azure", "providers/azure", "", "azure.ai.openai", nil},
	{"bedrock", "providers/bedrock", "bedrock-runtime.us-east-1.amazonaws.com", "aws.bedrock", []string{"aws", "amazon"}},
	{"canned", "providers/canned", "", "canned", nil},
	{"cohere", "providers/openai", "api.cohere.ai", "cohere", nil},
	{"deepseek", "providers/openai", "api.deepseek.com", "deepseek", nil},
	{"fireworks", "providers/openai", "api.fireworks.ai", "fireworks", nil},
	{"gemini", "providers/gemini", "generativelanguage.googleapis.com", "gcp.gemini", []string{"google"}},
	{"groq", "providers/openai", "api.groq.com", "groq", nil},
	{"mistral", "providers/openai", "api.mistral.ai", "mistral_ai", nil},
	{"ollama", "providers/openai", "localhost", "ollama", []string{"llama"}},
	{"openai", "providers/openai", "api.openai.com", "openai", []string{"gpt", "chatgpt"}},
	{"openrouter", "providers/openai", "openrouter.ai", "openrouter", nil},
	{"perplexity", "providers/openai", "api.perplexity.ai", "perplexity", nil},
	{"together", "providers/openai", "api.together.xyz", "together", nil},
	{"vllm", "providers/openai", "localhost", "vllm", nil},
	{"xai", "providers/openai", "api.x.ai", "x_ai", []string{"grok"}},
}

// Modules returns the modules of this project, by name.
func Modules() []Module { return slices.Clone(modules) }

// ModuleNamed returns the module of a name, and the zero value for other modules.
func ModuleNamed(name string) Module {
	i := slices.IndexFunc(modules, func(m Module) bool { return m.Name == name })
	if i < 0 {
		return Module{}
	}
	return modules[i]
}
