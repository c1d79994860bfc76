package caddymodule

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/bundle/serve"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/secret"
)

func init() {
	caddy.RegisterModule(new(BundleHandler))
	httpcaddyfile.RegisterHandlerDirective("cadenza_bundle", func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		handler := new(BundleHandler)
		if err := handler.UnmarshalCaddyfile(h.Dispenser); err != nil {
			return nil, err
		}
		return handler, checkReload(h)
	})
}

// BundleHandler answers `GET` and `HEAD` with the definitions of a workspace as a signed
// bundle, for gateways that follow its address. The bundle of a workspace that follows one
// itself goes on as it came, without a key. A folder is signed here, after each change that
// is served. With `If-None-Match` and `Prefer: wait=60` a request waits up to 60 seconds for
// another bundle.
//
// In a Caddyfile it is the directive `cadenza_bundle`, which is ordered before `cadenza`:
//
//	gateway.example.com {
//		cadenza_bundle /bundles/production.tar.gz {
//			sign {file./etc/cadenza/bundle.key}
//			bearer {env.BUNDLE_TOKEN}
//		}
//		cadenza
//	}
//
// One of `bearer`, `client_certificate` and `open` is required.
type BundleHandler struct {
	// The workspace. Default: the only one.
	Workspace string `json:"workspace,omitempty"`

	// The tokens of callers, each as {env.NAME} or {file.PATH}: 16 to 512 visible ASCII
	// characters.
	Bearer []secret.Reference `json:"bearer,omitempty"`

	// Lets in callers with a client certificate that the TLS of the site has verified, as
	// its `client_auth` says. Default: false.
	ClientCertificate bool `json:"client_certificate,omitempty"`

	// Lets everyone in. Default: false.
	Open bool `json:"open,omitempty"`

	// The private key, as {env.NAME} or {file.PATH}, that signs the bundle of a workspace
	// whose definitions are in a folder. A workspace that has a bundle is not signed again.
	Sign secret.Reference `json:"sign,omitempty"`

	// The scope of the signed bundle: gateways with another scope refuse it. Default: none.
	Scope string `json:"scope,omitempty"`

	appModule
	handler serve.Handler
}

// CaddyModule returns the Caddy module information.
func (*BundleHandler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.cadenza_bundle", New: func() caddy.Module { return new(BundleHandler) }}
}

// UnmarshalCaddyfile reads the directive:
//
//	cadenza_bundle [<matcher>] {
//		workspace <name>
//		bearer    {env.NAME} | {file.PATH}
//		client_certificate
//		open
//		sign      {env.NAME} | {file.PATH}
//		scope     <name>
//	}
func (h *BundleHandler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.Err("cadenza_bundle takes a matcher, and its options in a block")
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		var err error
		switch option := d.Val(); option {
		case "workspace":
			if !d.AllArgs(&h.Workspace) {
				err = d.Err("workspace takes its name")
			}
		case "bearer":
			var reference secret.Reference
			err = secretOption(d, &reference)
			h.Bearer = append(h.Bearer, reference)
		case "client_certificate":
			err = flagOption(d, &h.ClientCertificate)
		case "open":
			err = flagOption(d, &h.Open)
		case "sign":
			err = secretOption(d, &h.Sign)
		case "scope":
			err = stringOption(d, &h.Scope)
		default:
			err = d.Err(document.Unrecognized("option of cadenza_bundle", option, []string{"workspace", "bearer", "client_certificate", "open", "sign", "scope"}))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Provision checks the options, and finds the bundle.
func (h *BundleHandler) Provision(ctx caddy.Context) error {
	if err := h.appModule.Provision(ctx); err != nil {
		return err
	}
	named := len(h.Bearer) > 0 || h.ClientCertificate
	switch {
	case !named && !h.Open:
		return errors.New("cadenza_bundle needs bearer {env.NAME} or client_certificate, or open if everyone may have the definitions")
	case named && h.Open:
		return errors.New("cadenza_bundle is open for everyone, so bearer and client_certificate have no effect: leave out one or the other")
	case h.Scope != "" && h.Sign == "":
		return errors.New("cadenza_bundle: scope goes with sign: a bundle that is relayed has the scope that it was signed for")
	}
	name, err := h.app.WorkspaceNamed(h.Workspace)
	if err != nil {
		return fmt.Errorf("cadenza_bundle: %w", err)
	}
	h.handler = serve.Handler{ClientCertificate: h.ClientCertificate, Open: h.Open, Stopping: h.app.stopping.Done()}
	for _, reference := range h.Bearer {
		token, err := serve.Bearer(reference)
		if err != nil {
			return fmt.Errorf("cadenza_bundle: bearer: %w", err)
		}
		h.handler.Bearer = append(h.handler.Bearer, token)
	}
	w := h.app.Workspaces[name]
	switch {
	case w.source.follower != nil && h.Sign != "":
		return fmt.Errorf("cadenza_bundle: the definitions of workspace %s are a bundle, which goes on as it was signed: leave out sign", name)
	case w.source.follower != nil:
		h.handler.Latest = w.source.follower.Latest()
		return nil
	case h.Sign == "":
		return fmt.Errorf("cadenza_bundle: the definitions of workspace %s are in a folder: add sign {file.PATH} with a private key, as `caddy cadenza bundle keys` makes one", name)
	}
	pem, err := h.Sign.Resolve()
	if err != nil {
		return fmt.Errorf("cadenza_bundle: sign: %w", err)
	}
	signer := &serve.Signer{Source: w.source.Source, Scope: h.Scope, File: w.store.Path + "-signed-" + name, Logger: w.logger}
	if signer.Key, err = bundle.ParseSigningKey([]byte(pem)); err != nil {
		return fmt.Errorf("cadenza_bundle: sign: %s: %w", h.Sign, err)
	}
	h.app.signers = append(h.app.signers, signer)
	h.handler.Latest = &signer.Latest
	return nil
}

func (h *BundleHandler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	h.handler.ServeHTTP(w, r)
	return nil
}
