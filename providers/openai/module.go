package openai

import (
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
)

func init() {
	caddy.RegisterModule(new(Module))
	caddy.RegisterModule(new(Cohere))
	caddy.RegisterModule(new(DeepSeek))
	caddy.RegisterModule(new(Fireworks))
	caddy.RegisterModule(new(Groq))
	caddy.RegisterModule(new(Mistral))
	caddy.RegisterModule(new(Ollama))
	caddy.RegisterModule(new(OpenRouter))
	caddy.RegisterModule(new(Perplexity))
	caddy.RegisterModule(new(Together))
	caddy.RegisterModule(new(VLLM))
	caddy.RegisterModule(new(XAI))
}

// Module is the Caddy module cadenza.providers.openai: OpenAI's chat completions,
// or the models of a service that speaks the same API at a base_url of its own.
// Its base_url is the URL up to and without /chat/completions, by default
// https://api.openai.com/v1. With OpenAI itself api_key is required.
type Module struct {
	httpmodule.Options

	// Do not ask for the token usage of streams, for services that reject
	// stream_options.
	NoStreamOptions bool `json:"no_stream_options,omitempty"`

	// The API that all calls go to: chat, which is chat completions, or responses, the
	// Responses API. Default: chat completions, and at OpenAI itself the Responses API
	// for the models that need it. Of the module openai only.
	API string `json:"api,omitempty"`

	// The organization and the project to bill, sent as OpenAI-Organization
	// and OpenAI-Project. Of the module openai only.
	Organization string `json:"organization,omitempty"`
	Project      string `json:"project,omitempty"`

	service *Service // nil is openai
}

// CaddyModule returns the module's registration.
func (Module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.providers.openai",
		New: func() caddy.Module { return new(Module) },
	}
}

func (m *Module) known() *Service {
	if m.service == nil {
		return &services[0]
	}
	return m.service
}

// UnmarshalCaddyfile reads the provider's options, the same for all services
// but for api, organization and project, which are OpenAI's:
//
//	<service> {
//		api_key           {env.NAME} | {file.PATH}
//		base_url          <url>
//		allow_private
//		no_stream_options
//		api               chat | responses
//		organization      <id>
//		project           <id>
//		proxy             <url>
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return httpmodule.Unmarshal(d, m)
}

// Provision checks the options and resolves the key. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	service := m.known()
	if service.Name != "openai" && (m.API != "" || m.Organization != "" || m.Project != "") {
		return fmt.Errorf("api, organization and project are OpenAI's: provider %s has none of them", service.Name)
	}
	config := Config{
		Name:         service.Name,
		API:          m.API,
		Organization: m.Organization,
		Project:      m.Project,
		Quirks:       service.Quirks,
	}
	config.Quirks.NoStreamOptions = config.Quirks.NoStreamOptions || m.NoStreamOptions
	var err error
	if config.Upstream, config.Secret, err = m.Prepare(ctx, "", service.BaseURL); err != nil {
		return err
	}
	host := config.Upstream.BaseURL
	if config.Secret == nil && (isOpenAI(host) || m.BaseURL == "" && !service.Keyless) {
		return fmt.Errorf("api_key is required: %s answers nothing without one", host.Host)
	}
	return m.Serve(New(config))
}

// The services of the table are modules of their own, which differ from Module
// in base_url and in the service's quirks. Each is a type with a
// literal ID, because Caddy's documentation is made by reading the source.

// Cohere is the Caddy module cadenza.providers.cohere: Cohere's models.
type Cohere struct{ Module }

// CaddyModule returns the module's registration.
func (Cohere) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.cohere", New: func() caddy.Module { return &Cohere{moduleOf("cohere")} }}
}

// DeepSeek is the Caddy module cadenza.providers.deepseek: DeepSeek's models.
type DeepSeek struct{ Module }

// CaddyModule returns the module's registration.
func (DeepSeek) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.deepseek", New: func() caddy.Module { return &DeepSeek{moduleOf("deepseek")} }}
}

// Fireworks is the Caddy module cadenza.providers.fireworks: the models at
// Fireworks AI.
type Fireworks struct{ Module }

// CaddyModule returns the module's registration.
func (Fireworks) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.fireworks", New: func() caddy.Module { return &Fireworks{moduleOf("fireworks")} }}
}

// Groq is the Caddy module cadenza.providers.groq: the models at Groq.
type Groq struct{ Module }

// CaddyModule returns the module's registration.
func (Groq) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.groq", New: func() caddy.Module { return &Groq{moduleOf("groq")} }}
}

// Mistral is the Caddy module cadenza.providers.mistral: Mistral's models.
type Mistral struct{ Module }

// CaddyModule returns the module's registration.
func (Mistral) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.mistral", New: func() caddy.Module { return &Mistral{moduleOf("mistral")} }}
}

// Ollama is the Caddy module cadenza.providers.ollama: a local Ollama.
type Ollama struct{ Module }

// CaddyModule returns the module's registration.
func (Ollama) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.ollama", New: func() caddy.Module { return &Ollama{moduleOf("ollama")} }}
}

// OpenRouter is the Caddy module cadenza.providers.openrouter: the models behind
// OpenRouter.
type OpenRouter struct{ Module }

// CaddyModule returns the module's registration.
func (OpenRouter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.openrouter", New: func() caddy.Module { return &OpenRouter{moduleOf("openrouter")} }}
}

// Perplexity is the Caddy module cadenza.providers.perplexity: Perplexity's models.
type Perplexity struct{ Module }

// CaddyModule returns the module's registration.
func (Perplexity) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.perplexity", New: func() caddy.Module { return &Perplexity{moduleOf("perplexity")} }}
}

// Together is the Caddy module cadenza.providers.together: the models at Together
// AI.
type Together struct{ Module }

// CaddyModule returns the module's registration.
func (Together) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.together", New: func() caddy.Module { return &Together{moduleOf("together")} }}
}

// VLLM is the Caddy module cadenza.providers.vllm: a local vLLM.
type VLLM struct{ Module }

// CaddyModule returns the module's registration.
func (VLLM) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.vllm", New: func() caddy.Module { return &VLLM{moduleOf("vllm")} }}
}

// XAI is the Caddy module cadenza.providers.xai: xAI's models.
type XAI struct{ Module }

// CaddyModule returns the module's registration.
func (XAI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.xai", New: func() caddy.Module { return &XAI{moduleOf("xai")} }}
}

// moduleOf makes the module of a service of the table.
func moduleOf(name string) Module {
	i := slices.IndexFunc(services, func(s Service) bool { return s.Name == name })
	return Module{service: &services[i]}
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
