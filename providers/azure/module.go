// Package azure calls chat completions of Azure OpenAI and of other models on
// Microsoft Foundry, at the URL where they speak OpenAI's API:
// {endpoint}/openai/v1/. Models that need it are called by the Responses API. A
// request's model is the name of a deployment.
package azure

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

func init() {
	caddy.RegisterModule(new(Module))
}

// quirks are Azure's quirks: the bound of an answer is max_completion_tokens,
// which its reasoning models want, there is no top_k, and prompts are cached unasked.
var quirks = openai.Quirks{MaxCompletionTokens: true, NoTopK: true, Responses: true, Caches: true, CacheKey: true, Embeddings: openai.AzureEmbeddings()}

// Module is the Caddy module cadenza.providers.azure. Either api_key or token
// is given.
type Module struct {
	// The resource's endpoint, https://RESOURCE.openai.azure.com for one. The
	// path /openai/v1 is added if it is missing.
	Endpoint string `json:"endpoint,omitempty"`

	// A key of the resource, as {env.NAME} or {file.PATH}, sent in the header
	// api-key.
	APIKey secret.Reference `json:"api_key,omitempty"`

	// A token of Microsoft Entra ID, as {file.PATH} or {env.NAME}, sent as a
	// bearer token. Tokens expire: something else has to renew the file, which
	// is read again every ten seconds.
	Token secret.Reference `json:"token,omitempty"`

	// The API that all calls go to: chat, which is chat completions, or responses, the
	// Responses API. Default: chat completions, and the Responses API for deployments
	// that have the name of a model of OpenAI's that needs it.
	API string `json:"api,omitempty"`

	httpmodule.Connection
}

// CaddyModule returns the module's registration.
func (Module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.providers.azure",
		New: func() caddy.Module { return new(Module) },
	}
}

// UnmarshalCaddyfile reads the provider's options:
//
//	azure {
//		endpoint      <url>
//		api_key       {env.NAME} | {file.PATH}
//		token         {file.PATH} | {env.NAME}
//		api           chat | responses
//		allow_private
//		proxy         <url>
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return httpmodule.Unmarshal(d, m)
}

// Provision checks the options and reads the secret. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	base, err := baseURL(m.Endpoint)
	if err != nil {
		return err
	}
	config := openai.Config{Name: "azure", API: m.API, Quirks: quirks}
	if config.Upstream, err = m.Connect(ctx, base); err != nil {
		return err
	}
	switch {
	case m.APIKey != "" && m.Token != "":
		return errors.New("either api_key or token is given, not both")
	case m.APIKey != "":
		config.KeyHeader = "api-key"
		config.Secret, err = m.Secret("api_key", m.APIKey, upstream.CheckKey)
	case m.Token != "":
		config.Secret, err = m.Secret("token", m.Token, upstream.CheckKey)
	default:
		return errors.New("api_key or token is required: Azure answers nothing without one")
	}
	if err != nil {
		return err
	}
	return m.Serve(openai.New(config))
}

// baseURL is the endpoint with the path of the API.
func baseURL(endpoint string) (*url.URL, error) {
	if endpoint == "" {
		return nil, errors.New("endpoint is required, such as https://RESOURCE.openai.azure.com")
	}
	const api = "/openai/v1"
	endpoint = strings.TrimSuffix(strings.TrimRight(endpoint, "/"), api)
	u, err := upstream.ParseBaseURL(endpoint)
	if err == nil && strings.Contains(u.Path+"/", "/openai/") {
		err = errors.New("must end before /openai/: the gateway adds the rest itself, and the deployment is the model of a definition")
	}
	if err != nil {
		return nil, fmt.Errorf("endpoint %s", strings.TrimPrefix(err.Error(), "base_url "))
	}
	return u.JoinPath(api), nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
