package caddymodule

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// ownSinks has the packages of this project's sinks, by the sinks' names. A build may lack
// some of them.
var ownSinks = map[string]string{"file": "sinks/jsonlines", "postgres": "sinks/postgres", "stdout": "sinks/jsonlines"}

// unmarshalProvider reads a provider. The second word names its module. Without a second
// word the first word does.
func (w *Workspace) unmarshalProvider(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return argumentsError(d, "provider")
	}
	name := d.Val()
	if !d.NextArg() {
		return unmarshalGuest(d, "provider", name, providerNamespace, name, &w.ProvidersRaw)
	}
	module, known := d.Val(), modules(providerNamespace)
	if providers.ModuleNamed(module).Name == "" && !slices.Contains(known, module) && document.Nearest(module, known) == "" && knownAs(module) == "" {
		// The word is not repeated: it may be a key.
		if slices.Contains(known, name) {
			return d.Errf("provider %[1]s takes its options in a block: provider %[1]s { api_key {env.NAME} }", name)
		}
		return d.Errf("provider %s names no module: the word after its name must be one of %s", name, strings.Join(known, ", "))
	}
	return unmarshalGuest(d, "provider", name, providerNamespace, module, &w.ProvidersRaw)
}

// unmarshalSink reads a sink. The second word names its module if such a module exists,
// otherwise the first word does. The words after the module's name are the module's
// arguments.
func (w *Workspace) unmarshalSink(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return argumentsError(d, "sink")
	}
	name := d.Val()
	module := name
	if d.NextArg() {
		known := modules(sinkNamespace)
		switch {
		case slices.Contains(known, d.Val()):
			module = d.Val()
		case slices.Contains(known, name) || document.Nearest(name, known) != "":
			d.Prev()
		default:
			// The word is not repeated: it may be a connection string.
			return d.Errf("sink %s names no module: neither its name nor the word after it is one of %s", name, strings.Join(known, ", "))
		}
	}
	return unmarshalGuest(d, "sink", name, sinkNamespace, module, &w.SinksRaw)
}

// modules returns the names of the modules of a namespace, sorted.
func modules(namespace string) []string {
	var names []string
	for _, m := range caddy.GetModules(namespace) {
		names = append(names, m.ID.Name())
	}
	return names
}

// unmarshalGuest makes a guest module read its options, which begin with the module's name.
// It adds the module to all under the name in the Caddyfile.
func unmarshalGuest(d *caddyfile.Dispenser, what, name, namespace, module string, all *caddy.ModuleMap) error {
	if _, taken := (*all)[name]; taken {
		return d.Errf("%s %q is configured twice", what, name)
	}
	if known := modules(namespace); !slices.Contains(known, module) {
		return unknownModule(d, what, namespace, module, known)
	}
	unmarshaler, err := caddyfile.UnmarshalModule(d, namespace+"."+module)
	if err != nil {
		return err
	}
	if *all == nil {
		*all = make(caddy.ModuleMap)
	}
	(*all)[name] = caddyconfig.JSONModuleObject(unmarshaler, "module", module, nil)
	return nil
}

// knownAs returns the module of the provider whose models, or their owner, have the name
// word. It returns the empty string if no provider does.
func knownAs(word string) string {
	for _, m := range providers.Modules() {
		if slices.Contains(m.KnownAs, word) {
			return m.Name
		}
	}
	return ""
}

// unknownModule returns the error of a module that this build lacks.
func unknownModule(d *caddyfile.Dispenser, what, namespace, module string, known []string) error {
	path := ownSinks[module]
	if namespace == providerNamespace {
		path = providers.ModuleNamed(module).Package
	}
	if path != "" {
		return d.Errf("%s is not in this build: add --with github.com/cadenza-gateway/cadenza/%s", module, path)
	}
	if known := knownAs(module); namespace == providerNamespace && known != "" {
		return d.Errf("unrecognized provider module %q, did you mean %q?", module, known)
	}
	message := document.Unrecognized(what+" module", module, known)
	if namespace == providerNamespace && document.Nearest(module, known) == "" {
		message += "; a service with OpenAI's API is " + strconv.Quote("provider "+module+" openai") + " with its base_url"
	}
	return d.Err(message)
}
