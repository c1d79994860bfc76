package bedrock

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

func init() {
	caddy.RegisterModule(Module{})
}

// Module is the Caddy module cadenza.providers.bedrock: the models of Amazon
// Bedrock, by its operations Converse and ConverseStream. Either api_key is
// given, or access_key_id and secret_access_key. What stands in a file is read
// anew every ten seconds, so that something else can renew it.
type Module struct {
	// The AWS region. It decides where requests go and is signed with them.
	Region string `json:"region,omitempty"`

	// An API key of Bedrock, as {env.NAME} or {file.PATH}.
	APIKey secret.Reference `json:"api_key,omitempty"`

	// The access key to sign requests with, and the session token that
	// belongs to it where it is a temporary one, each as {env.NAME} or
	// {file.PATH}.
	AccessKeyID     secret.Reference `json:"access_key_id,omitempty"`
	SecretAccessKey secret.Reference `json:"secret_access_key,omitempty"`
	SessionToken    secret.Reference `json:"session_token,omitempty"`

	// Where the API is, up to and without /model/. Default: the region's
	// endpoint, https://bedrock-runtime.REGION.amazonaws.com
	BaseURL string `json:"base_url,omitempty"`

	// Let the host of base_url resolve to an address that is not public, such
	// as that of an interface endpoint in a VPC.
	AllowPrivate bool `json:"allow_private,omitempty"`

	// The HTTP proxy to use. The environment's is never used.
	Proxy string `json:"proxy,omitempty"`

	client *Client
	// secrets are what a call needs: the API key, or the parts of the access
	// key in the order above.
	secrets []*secret.Rotating
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
	d.Next() // the module's name
	if d.NextArg() {
		return d.ArgErr()
	}
	for d.NextBlock(0) {
		name := d.Val()
		reference := map[string]*secret.Reference{
			"api_key": &m.APIKey, "access_key_id": &m.AccessKeyID,
			"secret_access_key": &m.SecretAccessKey, "session_token": &m.SessionToken,
		}[name]
		text := map[string]*string{"region": &m.Region, "base_url": &m.BaseURL, "proxy": &m.Proxy}[name]
		if reference != nil {
			text = (*string)(reference)
		}
		switch {
		case text != nil:
			if *text != "" {
				return d.Errf("%s is given twice", name)
			}
			if !d.NextArg() {
				return d.ArgErr()
			}
			*text = d.Val()
			if *text == "" {
				return d.Errf("%s is empty", name)
			}
		case name == "allow_private":
			m.AllowPrivate = true
		default:
			return d.Errf("unknown option %q of provider bedrock: the options are region, api_key, access_key_id, secret_access_key, session_token, base_url, allow_private and proxy", name)
		}
		if reference != nil {
			if err := reference.Validate(); err != nil {
				return d.Errf("%s: %v", name, err)
			}
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// Provision checks the options and reads the secrets. It connects to nothing.
func (m *Module) Provision(ctx caddy.Context) error {
	config := Config{Region: m.Region, Upstream: upstream.Config{AllowPrivate: m.AllowPrivate}}
	if m.Region == "" {
		return errors.New("region is required, such as us-east-1")
	}
	var err error
	if m.BaseURL != "" {
		if config.Upstream.BaseURL, err = upstream.ParseBaseURL(m.BaseURL); err != nil {
			return err
		}
	}
	if m.Proxy != "" {
		if config.Upstream.Proxy, err = upstream.ParseProxy(m.Proxy); err != nil {
			return err
		}
	}
	if err := m.authorization(&config); err != nil {
		return err
	}
	if u := config.Upstream.BaseURL; u != nil && upstream.Unencrypted(u) {
		ctx.Logger().Warn("the credentials are sent without encryption: base_url begins with http://",
			zap.String("host", u.Host))
	}
	m.client, err = New(config)
	return err
}

// authorization checks which secrets are given and how they go together.
func (m *Module) authorization(config *Config) error {
	for _, option := range []struct {
		name      string
		reference secret.Reference
	}{
		{"api_key", m.APIKey}, {"access_key_id", m.AccessKeyID},
		{"secret_access_key", m.SecretAccessKey}, {"session_token", m.SessionToken},
	} {
		if option.reference == "" {
			continue
		}
		if err := option.reference.Validate(); err != nil {
			return fmt.Errorf("%s: %w", option.name, err)
		}
	}
	signed := m.AccessKeyID != "" || m.SecretAccessKey != "" || m.SessionToken != ""
	switch {
	case m.APIKey != "" && signed:
		return errors.New("either api_key is given, or access_key_id and secret_access_key, not both")
	case m.APIKey != "":
		key := m.APIKey.Rotating(upstream.CheckKey)
		m.secrets = []*secret.Rotating{key}
		config.APIKey = key.Value
		return nil
	case m.AccessKeyID == "" || m.SecretAccessKey == "":
		return errors.New("api_key is required, or both access_key_id and secret_access_key")
	}
	m.secrets = []*secret.Rotating{m.AccessKeyID.Rotating(upstream.CheckKey), m.SecretAccessKey.Rotating(nil)}
	if m.SessionToken != "" {
		m.secrets = append(m.secrets, m.SessionToken.Rotating(upstream.CheckKey))
	}
	config.Credentials = m.credentials
	return nil
}

func (m *Module) credentials() (aws.Credentials, error) {
	var values [3]string
	for i, s := range m.secrets {
		var err error
		if values[i], err = s.Value(); err != nil {
			return aws.Credentials{}, err
		}
	}
	return aws.Credentials{AccessKeyID: values[0], SecretAccessKey: values[1], SessionToken: values[2]}, nil
}

// Cleanup closes idle connections. Calls that still run keep theirs.
func (m *Module) Cleanup() error {
	if m.client != nil {
		m.client.Close()
	}
	return nil
}

// Invoke calls the model.
func (m *Module) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	return m.client.Invoke(ctx, req)
}

// Host is the host and port that requests are sent to.
func (m *Module) Host() string { return m.client.Host() }

// Unavailable tells which secret is missing, nil when none is.
func (m *Module) Unavailable() error {
	for _, s := range m.secrets {
		if _, err := s.Value(); err != nil {
			return err
		}
	}
	return nil
}

var (
	_ caddy.Provisioner     = (*Module)(nil)
	_ caddy.CleanerUpper    = (*Module)(nil)
	_ caddyfile.Unmarshaler = (*Module)(nil)
	_ providers.Provider    = (*Module)(nil)
)
