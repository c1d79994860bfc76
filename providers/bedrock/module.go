package bedrock

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

func init() {
	caddy.RegisterModule(new(Module))
}

// Module is the Caddy module cadenza.providers.bedrock: the models of Amazon
// Bedrock, by its operations Converse and ConverseStream. Either api_key is
// given, or access_key_id and secret_access_key. A secret in a file is read
// again every ten seconds, so that something else can renew it. Its base_url is
// the URL up to and without /model/, by default that of the region,
// https://bedrock-runtime.REGION.amazonaws.com.
type Module struct {
	// The AWS region. It decides where requests go and is signed with them.
	Region string `json:"region,omitempty"`

	httpmodule.Options

	// The access key to sign requests with, and the session token that
	// belongs to it where it is a temporary one, each as {env.NAME} or
	// {file.PATH}.
	AccessKeyID     secret.Reference `json:"access_key_id,omitempty"`
	SecretAccessKey secret.Reference `json:"secret_access_key,omitempty"`
	SessionToken    secret.Reference `json:"session_token,omitempty"`
}

// CaddyModule returns the module's registration.
func (Module) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "cadenza.providers.bedrock",
		New: func() caddy.Module { return new(Module) },
	}
}

// UnmarshalCaddyfile reads the provider's options:
//
//	bedrock {
//		region            <name>
//		api_key           {env.NAME} | {file.PATH}
//		access_key_id     {env.NAME} | {file.PATH}
//		secret_access_key {env.NAME} | {file.PATH}
//		session_token     {env.NAME} | {file.PATH}
//		base_url          <url>
//		allow_private
//		proxy             <url>
//	}
func (m *Module) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return httpmodule.Unmarshal(d, m)
}

// Provision checks the options and reads the secrets. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	if m.Region == "" {
		return errors.New("region is required, such as us-east-1")
	}
	base, err := BaseURL(m.Region)
	if m.BaseURL != "" && err == nil {
		base, err = upstream.ParseBaseURL(m.BaseURL)
	}
	if err != nil {
		return err
	}
	config := Config{Region: m.Region}
	if config.Upstream, err = m.Connect(ctx, base); err != nil {
		return err
	}
	signed := m.AccessKeyID != "" || m.SecretAccessKey != "" || m.SessionToken != ""
	switch {
	case m.APIKey != "" && signed:
		return errors.New("either api_key is given, or access_key_id and secret_access_key, not both")
	case m.APIKey != "":
		config.APIKey, err = m.Secret("api_key", m.APIKey, upstream.CheckKey)
	case m.AccessKeyID == "" || m.SecretAccessKey == "":
		return errors.New("api_key is required, or both access_key_id and secret_access_key")
	default:
		config.Credentials, err = m.credentials()
	}
	if err != nil {
		return err
	}
	return m.Serve(New(config))
}

// credentials returns the function that reads the parts of the access key.
func (m *Module) credentials() (func() (aws.Credentials, error), error) {
	id, err := m.Secret("access_key_id", m.AccessKeyID, upstream.CheckKey)
	if err != nil {
		return nil, err
	}
	// Requests are signed with it. No header holds it, so it may have any
	// character.
	key, err := m.Secret("secret_access_key", m.SecretAccessKey, nil)
	if err != nil {
		return nil, err
	}
	token := func() (string, error) { return "", nil }
	if m.SessionToken != "" {
		if token, err = m.Secret("session_token", m.SessionToken, upstream.CheckKey); err != nil {
			return nil, err
		}
	}
	return func() (c aws.Credentials, err error) {
		c.AccessKeyID, err = id()
		if err == nil {
			c.SecretAccessKey, err = key()
		}
		if err == nil {
			c.SessionToken, err = token()
		}
		return c, err
	}, nil
}

// Interface guards
var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
