package caddymodule

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/dustin/go-humanize"

	"github.com/cadenza-gateway/cadenza/internal/configpath"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/redact"
	"github.com/cadenza-gateway/cadenza/secret"
)

// defaultWorkspace is the workspace that a cadenza block without workspace
// blocks configures.
const defaultWorkspace = "default"

func init() {
	httpcaddyfile.RegisterGlobalOption("cadenza", parseGlobalOption)
	orderDirectives()
}

// orderDirectives puts the directives between respond and metrics on one side and
// reverse_proxy on the other. After the first two, so that cadenza does not answer
// a health check, a preflight request or /metrics of its site. Before
// reverse_proxy, which answers every request that is left. The directives of one
// route each come before cadenza, which answers every request. cadenza_health comes
// before respond, which may answer every request, and after the handlers that refuse
// requests.
func orderDirectives() {
	httpcaddyfile.RegisterDirectiveOrder("cadenza_health", httpcaddyfile.Before, "respond")
	for _, directive := range [...]string{"cadenza_prompts", "cadenza_endpoints", "cadenza_remoteconfigs", "cadenza_decisions", "cadenza_metrics", "cadenza_evaluate", "cadenza_bundle", "cadenza"} {
		httpcaddyfile.RegisterDirectiveOrder(directive, httpcaddyfile.Before, "reverse_proxy")
	}
}

// parseGlobalOption reads a cadenza block among the global options. Several
// blocks add up, so that each imported snippet can bring a workspace.
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	app := new(App)
	if previous, ok := existing.(httpcaddyfile.App); ok {
		if err := json.Unmarshal(previous.Value, app); err != nil {
			return nil, err
		}
	}
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "cadenza", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile reads the global option. Syntax:
//
//	cadenza {
//		definitions <directory> {
//			strict
//		}
//		definitions bundle <url> {
//			public_key      <file> [<file>]
//			scope           <name>
//			poll            <duration>..<duration>
//			bearer          {env.NAME} | {file.PATH}
//			tls_client_auth <certificate> <key>
//			tls_trusted_ca_certs <files...>
//			mirror          <url>
//			max_age         <duration> [unready]
//			allow_rollback
//			strict
//		}
//		store sqlite [<path>] {
//			retention <duration>
//			max_size  <size>
//		}
//		sink          <name> [<module>] [<args...>] {
//			...
//		}
//		trace_key     {env.NAME} | {file.PATH}
//		api_key       <name> {env.NAME} | {file.PATH} {
//			context   <field>=<value>...
//			kind      client
//			origins   <origins...>
//			signed_context {env.NAME} | {file.PATH}
//			role      viewer | editor | admin [loopback]
//			app
//		}
//		keys          <file>
//		log           none | metadata | content
//		redact        <detectors...>
//		price         [<provider>/]<model> <prompt> <completion> {
//			cache_read | cache_write | cache_write_hour | audio_in | audio_cache_read | image_in | reasoning | audio_out | image_out <dollars>
//			web_search | file_search | code_execution <dollars>
//			above <tokens> {
//				factor <number>
//				prompt | completion | cache_read | ... <dollars>
//			}
//			batch | flex | priority [<factor>] {
//				...
//			}
//			max_output <tokens>
//			context_window <tokens>
//			deprecated <day>
//			shutdown <day>
//			successor <model>
//		}
//		prices        <file> | none
//		legacy
//		max_body_size     <size>
//		body_timeout      <duration>
//		max_answer_size   <size>
//		max_metadata_size <size>
//		max_flag_streams  <streams>
//		max_large_requests <size>
//		max_limit_memory   <size>
//		cors               <origins...>
//		in_flight {
//			process   <calls>
//			workspace <calls>
//			key       <calls>
//			host      [<calls>] [adaptive]
//		}
//		limit <name> {
//			by        api_key | client_ip | endpoint | workspace | metadata.<member>
//			requests  <number>/<window>...
//			tokens    <number>/<window>...
//			money     <dollars>usd/<window>...
//			in_flight <requests>
//			routes    <names...>
//		}
//		provider      <name> [<module>] {
//			...
//		}
//		workspace <name> {
//			...
//		}
//	}
//
// A workspace block takes the same options as the cadenza block itself. The
// cadenza block configures the workspace "default" if it has any of them.
// Only the cadenza block takes max_large_requests, max_limit_memory, cors and the ceiling
// process of in_flight.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the option's name
	if d.NextArg() {
		return d.Err("cadenza takes its options in a block: cadenza { ... }")
	}
	if a.Workspaces == nil {
		a.Workspaces = make(map[string]*Workspace)
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if d.Val() != "workspace" {
			if err := a.unmarshalOption(d); err != nil {
				return err
			}
			continue
		}
		var name string
		if !d.AllArgs(&name) {
			return argumentsError(d, "workspace")
		}
		if _, taken := a.Workspaces[name]; taken {
			if name == defaultWorkspace {
				return d.Err("workspace default is configured twice: the options outside of all workspace blocks are its options too")
			}
			return d.Errf("workspace %q is configured twice", name)
		}
		w := new(Workspace)
		a.Workspaces[name] = w
		for nesting := d.Nesting(); d.NextBlock(nesting); {
			if err := w.unmarshalOption(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// unmarshalOption reads an option of the app, or one of the workspace "default".
func (a *App) unmarshalOption(d *caddyfile.Dispenser) error {
	switch d.Val() {
	case "in_flight":
		return a.unmarshalInFlight(d)
	case "max_large_requests":
		return sizeOption(d, &a.MaxLargeRequests, maxMaxLargeRequests)
	case "max_limit_memory":
		return sizeOption(d, &a.MaxLimitMemory, maxMaxLimitMemory)
	case "cors":
		origins := d.RemainingArgs()
		if len(origins) == 0 {
			return argumentsError(d, "cors")
		}
		a.CORS = append(a.CORS, origins...)
		if err := checkCORS(a.CORS); err != nil {
			return d.WrapErr(err)
		}
		return nil
	}
	w := a.Workspaces[defaultWorkspace]
	if w == nil {
		w = new(Workspace)
		a.Workspaces[defaultWorkspace] = w
	}
	return w.unmarshalOption(d)
}

// workspaceOptions are the options of a workspace, in the order of the
// documentation.
var workspaceOptions = []string{
	"definitions", "store", "sink", "trace_key", "api_key", "keys", "log", "redact", "price", "prices", "legacy", "max_body_size", "body_timeout", "max_answer_size", "max_metadata_size", "max_flag_streams", "max_large_requests", "max_limit_memory", "cors", "in_flight", "limit", "provider", "workspace",
}

// storeOptions are the options of a store.
var storeOptions = []string{"retention", "max_size"}

// arguments are the arguments of each option, for messages.
var arguments = map[string]string{
	"definitions":        "<directory>, which is in quotes if it has spaces, or bundle <url>",
	"store":              "sqlite [<path>]",
	"retention":          "<duration>, such as 30d",
	"max_size":           "<size>, such as 10GB",
	"sink":               "<name> [<module>] [<args...>]",
	"trace_key":          "{env.NAME} or {file.PATH}",
	"api_key":            "<name> {env.NAME} or <name> {file.PATH}",
	"origins":            "<origins...>, each as browsers send it, such as https://app.example.com",
	"cors":               "<origins...>, such as https://app.example.com, or * for all pages",
	"role":               "viewer, editor or admin, and loopback behind it if it counts for visitors of this machine alone",
	"keys":               "<file>",
	"log":                "none, metadata or content",
	"redact":             strings.Join(redact.Names(), ", ") + ", or several of them",
	"price":              "[<provider>/]<model> <prompt> <completion>, the prices in US dollars per million tokens, such as gpt-6-luna 0.10 0.50",
	"prices":             "<file>, YAML or JSON, or none, which leaves out the prices that ship with the gateway",
	"max_body_size":      "<size>, such as 1MiB",
	"body_timeout":       "<duration>, such as 30s",
	"max_answer_size":    "<size>, such as 8MiB",
	"max_metadata_size":  "<size>, such as 16KiB",
	"max_flag_streams":   "<streams>, such as 20000",
	"max_large_requests": "<size>, such as 512MiB",
	"max_limit_memory":   "<size>, such as 128MiB",
	"limit":              "<name>, and its ceilings in a block, each in a line of its own, such as requests 100/1m",
	"provider":           "<name> [<module>], and the provider's options in a block",
	"workspace":          "<name>, and the workspace's options in a block",

	// Of a bundle.
	"public_key":           "<file> [<file>], one or two public keys in PEM, as caddy cadenza bundle keys makes them",
	"scope":                "<name>",
	"poll":                 "<duration>..<duration>, such as 10s..30s, the shortest first",
	"bearer":               "{env.NAME} or {file.PATH}",
	"tls_client_auth":      "<certificate> <key>, two files in PEM",
	"tls_trusted_ca_certs": "<files...>, in PEM",
	"mirror":               "<url>",
	"max_age":              "<duration> [unready], such as 1h unready",
	"sign":                 "{env.NAME} or {file.PATH}",
}

// argumentsError returns the error of an option with too few or too many arguments. It does
// not quote them, because one may be a misplaced secret.
func argumentsError(d *caddyfile.Dispenser, option string) error {
	return d.Errf("%s takes %s", option, arguments[option])
}

// misplacedOption returns the error of an option that a workspace does not have.
func misplacedOption(d *caddyfile.Dispenser) error {
	option := d.Val()
	if slices.Contains(storeOptions, option) {
		return d.Errf("%s is an option of the store: write it into the block of store sqlite", option)
	}
	return d.Err(document.Unrecognized("option", option, workspaceOptions))
}

// keyOptions are the options of an API key.
var keyOptions = []string{"context", "kind", "origins", "signed_context", "role", "app"}

// unmarshalKey reads the block of an API key: the fields of its bound, and what it opens.
func unmarshalKey(d *caddyfile.Dispenser, key *gateway.APIKey) error {
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		switch option := d.Val(); option {
		case "context":
			if err := unmarshalBound(d, key); err != nil {
				return err
			}
		case "kind":
			if err := stringOption(d, &key.Kind); err != nil {
				return err
			}
		case "origins":
			origins := d.RemainingArgs()
			if len(origins) == 0 {
				return argumentsError(d, option)
			}
			key.Origins = append(key.Origins, origins...)
		case "signed_context":
			if err := secretOption(d, &key.SignedContext); err != nil {
				return err
			}
		case "role":
			if key.Role != gateway.RoleNone {
				return d.Errf("role is configured twice for api_key %s", key.Name)
			}
			words := d.RemainingArgs()
			if len(words) == 0 || len(words) > 2 || words[0] == "" {
				return argumentsError(d, option)
			}
			key.Role, key.Loopback = gateway.Role(words[0]), len(words) == 2
			if key.Loopback && words[1] != "loopback" {
				return d.Err(document.Unrecognized("word after the role", words[1], []string{"loopback"}))
			}
			if err := (gateway.Access{Role: key.Role}).CheckAccess(); err != nil {
				return d.Errf("api_key %s: %v", key.Name, err)
			}
		case "app":
			if err := flagOption(d, &key.App); err != nil {
				return err
			}
		default:
			return d.Err(document.Unrecognized("option of an API key", option, keyOptions))
		}
	}
	if err := key.CheckAccess(); err != nil {
		return d.Errf("api_key %s: %v", key.Name, err)
	}
	return nil
}

// checkCORS refuses origins of cors that no browser sends.
func checkCORS(origins []string) error {
	for _, origin := range origins {
		if origin == "*" {
			continue
		}
		if err := gateway.CheckOrigin(origin); err != nil {
			return fmt.Errorf("cors: %w", err)
		}
	}
	return nil
}

// unmarshalBound reads fields that an API key is bound to.
func unmarshalBound(d *caddyfile.Dispenser, key *gateway.APIKey) error {
	fields := d.RemainingArgs()
	if len(fields) == 0 {
		return d.Err("context takes <field>=<value>, such as environment=production")
	}
	for _, text := range fields {
		field, value, found := strings.Cut(text, "=")
		if !found || field == "" || value == "" {
			return d.Errf("context takes <field>=<value>, such as environment=production, this is %q", text)
		}
		if _, twice := key.Context[field]; twice {
			return d.Errf("context %s is configured twice for api_key %s", field, key.Name)
		}
		if key.Context == nil {
			key.Context = make(map[string]string)
		}
		key.Context[field] = value
	}
	return nil
}

// unmarshalOption reads the option that d is at.
func (w *Workspace) unmarshalOption(d *caddyfile.Dispenser) error {
	switch option := d.Val(); option {
	case "definitions":
		return w.unmarshalDefinitions(d)
	case "store":
		return w.unmarshalStore(d)
	case "trace_key":
		return secretOption(d, &w.TraceKey)
	case "api_key":
		var name, reference string
		if !d.AllArgs(&name, &reference) {
			return argumentsError(d, option)
		}
		key := gateway.APIKey{Name: name, Key: secret.Reference(reference)}
		if err := key.Key.Validate(); err != nil {
			if secret.Reference(name).Validate() == nil {
				return d.Errf("api_key takes <name> {env.NAME} or <name> {file.PATH}: the name comes first, as in api_key app %s", name)
			}
			return d.Errf("api_key %s: %v", name, err)
		}
		if err := unmarshalKey(d, &key); err != nil {
			return err
		}
		w.APIKeys = append(w.APIKeys, key)
	case "keys":
		return pathOption(d, &w.Keys)
	case "log":
		if err := stringOption(d, &w.Log); err != nil {
			return err
		}
		if err := validateLog(w.Log); err != nil {
			return d.WrapErr(err)
		}
	case "redact":
		if len(w.Redact) > 0 {
			return d.Err("redact is configured twice")
		}
		if w.Redact = d.RemainingArgs(); len(w.Redact) == 0 {
			return argumentsError(d, option)
		}
		if _, err := detectors(w.Redact); err != nil {
			return d.WrapErr(err)
		}
	case "price":
		return w.unmarshalPrice(d)
	case "prices":
		return w.unmarshalPrices(d)
	case "legacy":
		return flagOption(d, &w.Legacy)
	case "max_body_size":
		return sizeOption(d, &w.MaxBodySize, maxMaxBodySize)
	case "body_timeout":
		return durationOption(d, &w.BodyTimeout, maxBodyTimeout)
	case "max_answer_size":
		return sizeOption(d, &w.MaxAnswerSize, maxMaxAnswerSize)
	case "max_metadata_size":
		return sizeOption(d, &w.MaxMetadataSize, maxMaxMetadataSize)
	case "max_flag_streams":
		return streamsOption(d, &w.MaxFlagStreams)
	case "max_large_requests", "max_limit_memory", "cors":
		return d.Errf("%s is that of all workspaces together: it belongs in the cadenza block", d.Val())
	case "in_flight":
		return unmarshalInFlight(d, nil, w.inFlight)
	case "limit":
		return w.unmarshalLimit(d)
	case "sink":
		return w.unmarshalSink(d)
	case "provider":
		return w.unmarshalProvider(d)
	case "workspace":
		return d.Err("a workspace block cannot be within another: close the first one before it")
	default:
		return misplacedOption(d)
	}
	return nil
}

func (w *Workspace) unmarshalDefinitions(d *caddyfile.Dispenser) error {
	if d.CountRemainingArgs() == 2 && d.NextArg() {
		if d.Val() == "bundle" {
			return w.unmarshalBundle(d)
		}
		d.Prev()
	}
	if w.DefinitionsBundle != nil {
		return d.WrapErr(errTwoSources)
	}
	if err := pathOption(d, &w.Definitions); err != nil {
		return err
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if option := d.Val(); option != "strict" {
			return d.Err(document.Unrecognized("definitions option", option, []string{"strict"}))
		}
		if err := flagOption(d, &w.StrictDefinitions); err != nil {
			return err
		}
	}
	return nil
}

func (w *Workspace) unmarshalStore(d *caddyfile.Dispenser) error {
	if w.Store != nil {
		return d.Err("store is configured twice")
	}
	if !d.NextArg() {
		return argumentsError(d, "store")
	}
	if module := d.Val(); module != storeModule {
		return d.Errf("store %q is not known: the store is %s", module, storeModule)
	}
	w.Store = &Store{Module: storeModule}
	if d.NextArg() {
		if d.Val() == "" {
			return d.Err("the path of store sqlite is empty")
		}
		var err error
		if w.Store.Path, err = configpath.Resolve(d.File(), d.Val()); err != nil {
			return d.WrapErr(err)
		}
	}
	if d.NextArg() {
		return argumentsError(d, "store")
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		switch option := d.Val(); option {
		case "retention":
			var text string
			if err := stringOption(d, &text); err != nil {
				return err
			}
			retention, err := caddy.ParseDuration(text)
			if err != nil {
				return noDuration(d, option, text)
			}
			if retention <= 0 {
				return d.Errf("retention %s: must be positive; leave it out to keep everything", text)
			}
			w.Store.Retention = caddy.Duration(retention)
		case "max_size":
			if err := sizeOption(d, &w.Store.MaxSize, math.MaxInt64); err != nil {
				return err
			}
			if w.Store.MaxSize < minMaxSize {
				return d.Errf("max_size: must be at least %s", humanize.IBytes(minMaxSize))
			}
		default:
			return d.Err(document.Unrecognized("store option", option, storeOptions))
		}
	}
	return nil
}

// sizeOption reads an option that is a number of bytes, such as 10MB or 1GiB.
func sizeOption(d *caddyfile.Dispenser, value *int64, limit uint64) error {
	option, text := d.Val(), ""
	if *value != 0 {
		return d.Errf("%s is configured twice", option)
	}
	if err := stringOption(d, &text); err != nil {
		return err
	}
	size, err := humanize.ParseBytes(text)
	if err != nil || strings.Contains(text, ",") { // a comma would be left out
		return d.Errf("%s %s: must be a number of bytes such as 500kB, 64KiB, 1.5MiB or 10GB", option, text)
	}
	if size == 0 || size > limit {
		return d.Errf("%s %s: must be between 1 and %s", option, text, humanize.IBytes(limit))
	}
	*value = int64(size)
	return nil
}

// durationOption reads an option that is a duration, such as 500ms or 30s.
func durationOption(d *caddyfile.Dispenser, value *caddy.Duration, limit time.Duration) error {
	option, text := d.Val(), ""
	if *value != 0 {
		return d.Errf("%s is configured twice", option)
	}
	if err := stringOption(d, &text); err != nil {
		return err
	}
	duration, err := caddy.ParseDuration(text)
	if err != nil {
		return noDuration(d, option, text)
	}
	if duration <= 0 || duration > limit {
		return d.Errf("%s %s: must be positive, and at most %s", option, text, strings.TrimSuffix(limit.String(), "0s"))
	}
	*value = caddy.Duration(duration)
	return nil
}

// streamsOption reads an option with one number of streams.
func streamsOption(d *caddyfile.Dispenser, value *int) error {
	option, text := d.Val(), ""
	if *value != 0 {
		return d.Errf("%s is configured twice", option)
	}
	if err := stringOption(d, &text); err != nil {
		return err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxMaxFlagStreams {
		return d.Errf("%s %s: must be a whole number between 1 and %d", option, text, maxMaxFlagStreams)
	}
	*value = n
	return nil
}

// noDuration returns the error of an argument that is not a duration.
func noDuration(d *caddyfile.Dispenser, option, text string) error {
	return d.Errf("%s %s: must be a number with its unit (ms, s, m, h or d), such as 500ms, 90s, 12h or 30d", option, text)
}

// stringOption reads an option's single argument.
func stringOption(d *caddyfile.Dispenser, value *string) error {
	option := d.Val()
	if *value != "" {
		return d.Errf("%s is configured twice", option)
	}
	if !d.NextArg() {
		return argumentsError(d, option)
	}
	*value = d.Val()
	if *value == "" {
		return d.Errf("%s is empty", option)
	}
	if d.NextArg() {
		return argumentsError(d, option)
	}
	return nil
}

// pathOption reads an option whose argument is a path. It is relative to the folder
// of the file that it is written in.
func pathOption(d *caddyfile.Dispenser, value *string) error {
	if err := stringOption(d, value); err != nil {
		return err
	}
	var err error
	if *value, err = configpath.Resolve(d.File(), *value); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// secretOption reads an option whose argument is a secret's reference.
func secretOption(d *caddyfile.Dispenser, value *secret.Reference) error {
	option := d.Val()
	if err := stringOption(d, (*string)(value)); err != nil {
		return err
	}
	if err := value.Validate(); err != nil {
		return d.Errf("%s: %v", option, err)
	}
	return nil
}

// parseHandler returns the parser of a directive that takes no argument and no block. Caddy
// converts the handler to JSON at once, so all uses of the directive share an empty
// handler.
func parseHandler(handler caddyhttp.MiddlewareHandler) httpcaddyfile.UnmarshalHandlerFunc {
	return func(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
		h.Next() // the directive's name
		directive := h.Val()
		hint := "its options belong in the global cadenza block"
		if directive == "cadenza_health" {
			hint = "it serves /healthz and /readyz, and has no options"
		}
		if h.NextArg() {
			return nil, h.Errf("%s takes a matcher and nothing else: %s", directive, hint)
		}
		if h.NextBlock(0) {
			return nil, h.Errf("%s takes no options here, found %q: %s", directive, h.Val(), hint)
		}
		return handler, checkReload(h)
	}
}

// Interface guard
var _ caddyfile.Unmarshaler = (*App)(nil)
