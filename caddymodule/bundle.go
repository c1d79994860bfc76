package caddymodule

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/bundle/download"
	"github.com/cadenza-gateway/cadenza/internal/configpath"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/secret"
)

// The bounds and defaults of poll, and the bound of max_age.
const (
	minPoll        = time.Second
	maxPoll        = 24 * time.Hour
	defaultPollMin = 10 * time.Second
	defaultPollMax = 30 * time.Second
	maxMaxAge      = 366 * 24 * time.Hour
)

// maxPublicKeys is how many public keys a bundle may be signed for: the present one, and
// the next.
const maxPublicKeys = 2

// firstPull bounds how long a start waits for the source of definitions where it fails
// without any.
const firstPull = 20 * time.Second

// Bundle is where the definitions of a workspace come from if not from a directory: signed
// bundles in the format of Open Policy Agent, that any web server can hold. The last good one
// is kept beside the store.
type Bundle struct {
	// The URL of the bundle, http or https. Placeholders are replaced. Required.
	URL string `json:"url,omitempty"`
	// Another URL of the same bundle, which is asked where the first gives none.
	// Placeholders are replaced. Default: none.
	Mirror string `json:"mirror,omitempty"`
	// The files of the public keys that bundles may be signed with, in PEM: one, or two
	// while a key is replaced. Placeholders are replaced. Required.
	PublicKeys []string `json:"public_keys,omitempty"`
	// The scope that the bundle must have. Default: none.
	Scope string `json:"scope,omitempty"`
	// The shortest and the longest time between two questions whether there is another
	// bundle. Each gateway draws its own. Default: 10s and 30s.
	PollMin caddy.Duration `json:"poll_min,omitempty"`
	PollMax caddy.Duration `json:"poll_max,omitempty"`
	// The bearer token that the source is asked with, as {env.NAME} or {file.PATH}.
	// Default: none.
	Bearer secret.Reference `json:"bearer,omitempty"`
	// The files of a certificate and its key, in PEM, that the source is asked with. They
	// are read for each connection. Placeholders are replaced. Default: none.
	ClientCertificate string `json:"client_certificate,omitempty"`
	ClientKey         string `json:"client_key,omitempty"`
	// Files of certificates, in PEM, that the source's certificate may be signed with.
	// Placeholders are replaced. Default: those that the system trusts.
	TrustedCACerts []string `json:"trusted_ca_certs,omitempty"`
	// The age beyond which the definitions are a condition: the time since the source last
	// said that they are the newest. Default: none.
	MaxAge caddy.Duration `json:"max_age,omitempty"`
	// Has /readyz be 503 while the definitions are older than max_age. Default: false.
	Unready bool `json:"unready,omitempty"`
	// Takes a bundle with an older serial than the one that is served. Default: false.
	AllowRollback bool `json:"allow_rollback,omitempty"`
}

// follower follows the source of a bundle, over reloads.
type follower struct {
	*download.Downloader
	cancel context.CancelFunc // nil: it has not begun
	done   chan struct{}      // closed when the following has ended
}

// begin begins to follow the source, unless that was begun. Caddy starts one configuration
// at a time.
func (f *follower) begin() {
	if f.cancel != nil {
		return
	}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(f.done)
		f.Run(ctx)
	}()
}

// end ends it.
func (f *follower) end() {
	if f.cancel != nil {
		f.cancel()
		<-f.done
	}
}

// resolved returns the options with their placeholders replaced, and their keys.
func (b *Bundle) resolved() (*Bundle, []bundle.PublicKey, error) {
	r := *b
	var err error
	for _, address := range []*string{&r.URL, &r.Mirror} {
		if *address, err = caddy.NewReplacer().ReplaceOrErr(*address, true, true); err != nil {
			return nil, nil, err
		}
	}
	r.PublicKeys, r.TrustedCACerts = slices.Clone(b.PublicKeys), slices.Clone(b.TrustedCACerts)
	files := []*string{&r.ClientCertificate, &r.ClientKey}
	for _, list := range [][]string{r.PublicKeys, r.TrustedCACerts} {
		for i := range list {
			files = append(files, &list[i])
		}
	}
	for _, file := range files {
		if *file == "" {
			continue
		}
		if *file, err = resolvePath(*file); err != nil {
			return nil, nil, err
		}
	}
	if err := r.check(); err != nil {
		return nil, nil, err
	}
	var keys []bundle.PublicKey
	for i, file := range r.PublicKeys {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, fmt.Errorf("public_key: %w", err)
		}
		key, err := bundle.ParsePublicKey(text)
		if err != nil {
			return nil, nil, fmt.Errorf("public_key %s: %w", file, err)
		}
		keys = append(keys, key)
		r.PublicKeys[i] = string(text) // another key in the same file is another configuration
	}
	return &r, keys, nil
}

// check refuses options that are missing or out of their bounds, and sets the defaults.
func (b *Bundle) check() error {
	for option, text := range map[string]string{"the URL": b.URL, "mirror": b.Mirror} {
		if option == "mirror" && text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%s must be one of http:// or https://, such as https://host/bundle.tar.gz", option) // it may have a secret
		}
	}
	if n := len(b.PublicKeys); n == 0 || n > maxPublicKeys {
		return fmt.Errorf("public_key takes 1 or %d files: the keys that bundles may be signed with (caddy cadenza bundle keys makes a pair)", maxPublicKeys)
	}
	if b.PollMin == 0 && b.PollMax == 0 {
		b.PollMin, b.PollMax = caddy.Duration(defaultPollMin), caddy.Duration(defaultPollMax)
	}
	if least, most := time.Duration(b.PollMin), time.Duration(b.PollMax); least < minPoll || most > maxPoll || least > most {
		return fmt.Errorf("poll %s..%s: must be from %s to 24h, the shortest first", least, most, minPoll)
	}
	if b.MaxAge < 0 || time.Duration(b.MaxAge) > maxMaxAge {
		return fmt.Errorf("max_age %s: must be positive, and at most 366d", time.Duration(b.MaxAge))
	}
	if b.Unready && b.MaxAge == 0 {
		return errors.New("unready needs a max_age")
	}
	if (b.ClientCertificate == "") != (b.ClientKey == "") {
		return errors.New("tls_client_auth takes the files of a certificate and of its key")
	}
	return nil
}

// client returns the client that asks the source.
func (b *Bundle) client() (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if b.ClientCertificate != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(b.ClientCertificate, b.ClientKey)
			return &pair, err
		}
		if _, err := load(); err != nil {
			return nil, fmt.Errorf("tls_client_auth: %w", err)
		}
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	for i, file := range b.TrustedCACerts {
		if i == 0 {
			transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("tls_trusted_ca_certs: %w", err)
		}
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls_trusted_ca_certs %s has no certificate in PEM", file)
		}
	}
	return &http.Client{Transport: transport}, nil
}

// authorize returns what adds the bearer token to a request. A token in a file may be
// replaced there.
func (b *Bundle) authorize() (func(*http.Request) error, error) {
	if b.Bearer == "" {
		return nil, nil
	}
	token := b.Bearer.Rotating(nil)
	if _, err := token.Value(); err != nil {
		return nil, fmt.Errorf("bearer: %w", err)
	}
	return func(r *http.Request) error {
		value, err := token.Value()
		if err == nil {
			r.Header.Set("Authorization", "Bearer "+value)
		}
		return err
	}, nil
}

// acquireBundle returns the definitions of the workspace's bundle: those that the pool has,
// or the last good ones of its file. It asks nobody. See acquireSource.
func (w *Workspace) acquireBundle(anyway bool) (*sharedSource, func(), error) {
	b, keys, err := w.DefinitionsBundle.resolved()
	if err != nil {
		return nil, nil, err
	}
	client, err := b.client()
	if err != nil {
		return nil, nil, err
	}
	authorize, err := b.authorize()
	if err != nil {
		return nil, nil, err
	}
	file := w.store.Path + "-bundle-" + w.name
	w.config.Bundle = &gateway.Bundle{MaxAge: time.Duration(b.MaxAge), Unready: b.Unready}
	// What the gateway makes of an age is no part of the source.
	b.MaxAge, b.Unready = 0, false
	identity, err := json.Marshal([]any{b, file})
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(identity)
	host, _ := os.Hostname()
	source, leave, err := acquire("bundle "+hex.EncodeToString(sum[:]), w.known, anyway, func() (*sharedSource, error) {
		logger := currentLogger("cadenza.definitions", file)
		var source *definition.Source
		d := download.New(download.Config{
			URL: b.URL, Mirror: b.Mirror, Keys: keys, Scope: b.Scope, AllowRollback: b.AllowRollback,
			PollMin: time.Duration(b.PollMin), PollMax: time.Duration(b.PollMax), Node: host + " " + file,
			Authorize: authorize, Client: client, File: file, Logger: logger,
			Activate: func(next *bundle.Bundle) error { return source.Serve(next.Files) },
			Answered: func(s download.Status) {
				var err error
				if s.Refused != "" {
					err = errors.New(s.Refused)
				}
				source.Refuse(err)
			},
		})
		source = definition.Await(d.Status().URL, w.known)
		if err := d.Restore(); err != nil {
			logger.Warn("the last good bundle can't be served", "error", err)
		}
		return &sharedSource{Source: source, follower: &follower{Downloader: d, done: make(chan struct{})}}, nil
	})
	if source != nil {
		w.config.Bundle.Downloader = source.follower.Downloader
	}
	return source, leave, err
}

// startBundle begins to follow the source of the workspace's bundle. A gateway that may not
// start without definitions waits for the first ones.
func (w *Workspace) startBundle(ctx context.Context) error {
	f := w.source.follower
	if f == nil {
		return nil
	}
	if w.config.Strict && f.cancel == nil && w.source.Snapshot().Awaited {
		ctx, cancel := context.WithTimeout(ctx, firstPull)
		defer cancel()
		outcome, err := f.Pull(ctx)
		if err == nil && outcome.Result == download.Refused {
			err = errors.New(outcome.Reason)
		}
		if err != nil {
			return fmt.Errorf("workspace %s: definitions bundle %s: %w", w.name, w.source.Dir(), err)
		}
	}
	f.begin()
	return nil
}

// bundleOptions are the options of a bundle, in the order of the documentation.
var bundleOptions = []string{
	"public_key", "scope", "poll", "bearer", "tls_client_auth", "tls_trusted_ca_certs", "mirror", "max_age", "allow_rollback", "strict",
}

// unmarshalBundle reads `definitions bundle <url>` from its URL on.
func (w *Workspace) unmarshalBundle(d *caddyfile.Dispenser) error {
	if w.DefinitionsBundle != nil {
		return d.Err("definitions is configured twice")
	}
	if w.Definitions != "" {
		return d.WrapErr(errTwoSources)
	}
	b := new(Bundle)
	w.DefinitionsBundle = b
	if err := stringOption(d, &b.URL); err != nil {
		return err
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		var err error
		switch option := d.Val(); option {
		case "public_key":
			err = pathsOption(d, &b.PublicKeys, maxPublicKeys)
		case "scope":
			err = stringOption(d, &b.Scope)
		case "poll":
			err = pollOption(d, b)
		case "bearer":
			err = secretOption(d, &b.Bearer)
		case "tls_client_auth":
			var pair []string
			if err = pathsOption(d, &pair, 2); err == nil && len(pair) != 2 {
				err = argumentsError(d, option)
			} else if err == nil {
				b.ClientCertificate, b.ClientKey = pair[0], pair[1]
			}
		case "tls_trusted_ca_certs":
			err = pathsOption(d, &b.TrustedCACerts, math.MaxInt)
		case "mirror":
			err = stringOption(d, &b.Mirror)
		case "max_age":
			err = maxAgeOption(d, b)
		case "allow_rollback":
			err = flagOption(d, &b.AllowRollback)
		case "strict":
			err = flagOption(d, &w.StrictDefinitions)
		default:
			err = d.Err(document.Unrecognized("option of a bundle", option, bundleOptions))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flagOption reads an option without an argument.
func flagOption(d *caddyfile.Dispenser, value *bool) error {
	if option := d.Val(); d.NextArg() {
		return d.Errf("%s takes no argument: it is set by its name alone", option)
	}
	*value = true
	return nil
}

// pathsOption reads an option whose arguments are paths, as pathOption reads one.
func pathsOption(d *caddyfile.Dispenser, paths *[]string, most int) error {
	option, args := d.Val(), d.RemainingArgs()
	if len(args) == 0 || len(*paths)+len(args) > most {
		return argumentsError(d, option)
	}
	for _, arg := range args {
		path, err := configpath.Resolve(d.File(), arg)
		if err != nil {
			return d.WrapErr(err)
		}
		*paths = append(*paths, path)
	}
	return nil
}

// pollOption reads poll <least>..<most>, or poll <duration>.
func pollOption(d *caddyfile.Dispenser, b *Bundle) error {
	var text string
	if err := stringOption(d, &text); err != nil {
		return err
	}
	least, most, ranged := strings.Cut(text, "..")
	if !ranged {
		most = least
	}
	for _, part := range []struct {
		text  string
		value *caddy.Duration
	}{{least, &b.PollMin}, {most, &b.PollMax}} {
		duration, err := caddy.ParseDuration(part.text)
		if err != nil || duration <= 0 {
			return argumentsError(d, "poll")
		}
		*part.value = caddy.Duration(duration)
	}
	return nil
}

// maxAgeOption reads max_age <duration> [unready].
func maxAgeOption(d *caddyfile.Dispenser, b *Bundle) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 || len(args) == 2 && args[1] != "unready" {
		return argumentsError(d, "max_age")
	}
	duration, err := caddy.ParseDuration(args[0])
	if err != nil || duration <= 0 {
		return noDuration(d, "max_age", args[0])
	}
	b.MaxAge, b.Unready = caddy.Duration(duration), len(args) == 2
	return nil
}
