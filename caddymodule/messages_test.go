package caddymodule_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/caddymodule"
	"github.com/cadenza-gateway/cadenza/providers"
)

// TestMessagesOfACaddyfile makes one mistake at a time in a cadenza block. Each
// message must have the line and a correction, in the words of the manual and not in
// Go's, and must not repeat a possible secret.
func TestMessagesOfACaddyfile(t *testing.T) {
	const secret = "sk-proj-0123456789abcdef"
	for _, test := range []struct{ mistake, want string }{
		{"store sqlite x {\nretention 30days\n}", "retention 30days: must be a number with its unit (ms, s, m, h or d), such as 500ms, 90s, 12h or 30d, at Caddyfile:4"},
		{"store sqlite x {\nretention 30\n}", "retention 30: must be a number with its unit"},
		{"store sqlite x {\nmax_size huge\n}", "max_size huge: must be a number of bytes such as 500kB, 64KiB, 1.5MiB or 10GB, at Caddyfile:4"},
		{"store sqlite x {\nmax_size 10XB\n}", "max_size 10XB: must be a number of bytes"},
		{"store sqlite x {\nmax_size -1\n}", "max_size -1: must be a number of bytes"},
		{"store sqlite x {\nmax_size 1,5GB\n}", "max_size 1,5GB: must be a number of bytes"},
		{"store sqlite x {\nretention\n}", "retention takes <duration>, such as 30d, at Caddyfile:4"},
		{"store", "store takes sqlite [<path>], at Caddyfile:3"},
		{"store sqlite a b", "store takes sqlite [<path>]"},
		{"retention 30d", "retention is an option of the store: write it into the block of store sqlite"},
		{"max_size 10GB", "max_size is an option of the store"},
		{"body_timeout soon", "body_timeout soon: must be a number with its unit"},
		{"body_timeout 11m", "body_timeout 11m: must be positive, and at most 10m,"},
		{"max_flag_streams many", "max_flag_streams many: must be a whole number between 1 and 1000000"},
		{"max_flag_streams 0", "max_flag_streams 0: must be a whole number between 1 and 1000000"},
		{"max_body_size huge", "max_body_size huge: must be a number of bytes"},
		{"price gpt-4o-mini 0.15", "price takes [<provider>/]<model> <prompt> <completion>, the prices in US dollars per million tokens, such as gpt-6-luna 0.10 0.50, at Caddyfile:3"},
		{"price gpt-4o-mini 0.15 0.60 1", "price takes [<provider>/]<model>"},
		{"price gpt-4o-mini 0,15 0,60", `price gpt-4o-mini: "0,15" is not a number of US dollars per million tokens, such as 0.15`},
		{"price m 1 2 {\ncache-read 1\n}", `price m: unrecognized member "cache-read", did you mean "cache_read"?, at Caddyfile:4`},
		{"price m 1 2 {\nprompt 1\n}", `price m: unrecognized member "prompt", known: cache_read, cache_write,`},
		{"price m 1 2 {\ncache_read\n}", "price m: cache_read takes one number, at Caddyfile:4"},
		{"price m 1 2 {\ncache_read 0,5\n}", `price m: "0,5" is not a number of US dollars per million tokens, such as 0.15`},
		{"price m 1 2 {\ncache_read -1\n}", "price m: cache_read -1 must be a number of US dollars per million tokens, from 0 to 1e9"},
		{"price m 1 2 {\ncache_read 1\ncache_read 1\n}", "price m: cache_read is given twice, at Caddyfile:5"},
		{"price m 1 2 {\nweb_search much\n}", `price m: "much" is not a number of US dollars per thousand uses, such as 10`},
		{"price m 1 2 {\nmax_output 8k\n}", `price m: "8k" is not a number of tokens, such as 8192`},
		{"price m 1 2 {\nshutdown soon\n}", `price m: shutdown: "soon" is not a day, such as 2027-01-14`},
		{"price m 1 2 {\nshutdown 2027-01-14\nshutdown 2027-01-14\n}", "price m: shutdown is given twice"},
		{"price m 1 2 {\nsuccessor\n}", "price m: successor takes one value"},
		{"price m 1 2 {\ncontext_window 128k\n}", `price m: context_window: "128k" is not a number of tokens, such as 128000`},
		{"price m 1 2 {\nabove 5 {\nshutdown 2027-01-14\n}\n}", `price m: unrecognized member "shutdown", known: factor, prompt,`},
		{"price m 1 2 {\nmax_output 0.5\n}", "price m: max_output 0.5 must be a whole number of tokens"},
		{"price m 1 2 {\nabove {\nprompt 3\n}\n}", "price m: above takes a number of tokens of the prompt, such as 200000, and prices in a block"},
		{"price m 1 2 {\nabove 200k {\nprompt 3\n}\n}", `price m: above "200k" is not a number of tokens of the prompt, such as 200000`},
		{"price m 1 2 {\nabove 0 {\nprompt 3\n}\n}", `price m: above "0" is not a number of tokens of the prompt, such as 200000, at Caddyfile:4`},
		{"price m 1 2 {\nabove 5 {\nprompt 3\n}\nabove 5 {\nprompt 3\n}\n}", "price m: above.5 is given twice"},
		{"price m 1 2 {\nabove 5 {\nmax_output 3\n}\n}", `price m: unrecognized member "max_output", known: factor, prompt,`},
		{"price m 1 2 {\nbatch half\n}", `price m: "half" is not a number of times that the usual prices are paid, such as 0.5`},
		{"price m 1 2 {\nbatch 0.5 0.5\n}", "price m: batch takes a factor, such as batch 0.5, or prices in a block"},
		{"price m 1 2 {\nbatch 0.5 {\nfactor 0.5\n}\n}", "price m: batch.factor is given twice"},
		{"price m 1 2 {\nbatch 0.5\nbatch {\nprompt 1\n}\n}", "price m: batch is given twice, at Caddyfile:5"},
		{"price m 1 2 {\nbatch {\nbatch 0.5\n}\n}", `price m: unrecognized member "batch", known: factor,`},
		{"prices", "prices takes <file>, YAML or JSON, or none, which leaves out the prices that ship with the gateway, at Caddyfile:3"},
		{"prices a.yaml b.yaml", "prices takes <file>"},
		{"prices a.yaml\nprices ./a.yaml", "prices ./a.yaml is configured twice"},
		{`price "" 1 2`, "price takes [<provider>/]<model> <prompt> <completion>"},
		{"price m 1 2 {\nabove\n}", "price m: above takes a number of tokens of the prompt, such as 200000, and prices in a block, at Caddyfile:4"},
		{"price m 1 2 {\nabove 200000\n}", "price m: above 200000 needs prices in a block, such as prompt 2.5 in a line of its own, at Caddyfile:4"},
		{"price m 1 2 {\nabove 200000 {\n}\n}", "price m: above 200000 needs prices in a block, such as prompt 2.5 in a line of its own, at Caddyfile:4"},
		{"price m 1 2 {\nbatch\n}", "price m: batch needs a factor, such as batch 0.5, or prices in a block, at Caddyfile:4"},
		{"price m 1 2 {\nflex {\nabove 5\n}\n}", "price m: flex above 5 needs prices in a block, such as prompt 2.5 in a line of its own, at Caddyfile:5"},
		{"definitions", "definitions takes <directory>"},
		{"definitions a b", "definitions takes <directory>"},
		{"keys", "keys takes <file>"},
		{"log", "log takes none, metadata or content"},
		{"redact", "redact takes card, email, or several of them"},
		{"trace_key", "trace_key takes {env.NAME} or {file.PATH}"},
		{"api_key " + secret, "api_key takes <name> {env.NAME} or <name> {file.PATH}"},
		{"api_key app {env.A} " + secret, "api_key takes <name> {env.NAME}"},
		{"api_key {env.A} app", "api_key takes <name> {env.NAME} or <name> {file.PATH}: the name comes first, as in api_key app {env.A}, at Caddyfile:3"},
		{"workspace", "workspace takes <name>, and the workspace's options in a block"},
		{"definitions a\nworkspace default {\n}", "workspace default is configured twice: the options outside of all workspace blocks are its options too"},
		{"in_flight 100", "in_flight takes its ceilings in a block, such as in_flight { key 100 }"},
		{"limit", "limit takes <name>, and its ceilings in a block, each in a line of its own, such as requests 100/1m, at Caddyfile:3"},
		{"limit Fair {\nrequests 1/1m\n}", "limit Fair: the name must be 1 to 64 of a-z 0-9 _ -, at Caddyfile:3"},
		{"limit x", "limit x: has no ceiling: give it one, such as requests 100/1m, tokens 200000/1m, money 5usd/1d or in_flight 20, at Caddyfile:3"},
		{"limit x {\nby endpoint\n}", "limit x: has no ceiling"},
		{"limit x {\nrequests 1/1m\n}\nlimit x {\nrequests 1/1m\n}", "limit x is configured twice: write its ceilings into one block, or give the second another name, at Caddyfile:6"},
		{"limit x {\nrequest 1/1m\n}", `limit x: unrecognized option "request", did you mean "requests"?, at Caddyfile:4`},
		{"limit x {\nrequests\n}", "limit x: requests takes how much and a window, such as requests 100/1m; for money 5usd/1d, at Caddyfile:4"},
		{"limit x {\nrequests 100\n}", "limit x: requests 100: a window must follow behind a slash, such as 100/1m, at Caddyfile:4"},
		{"limit x {\nrequests 0/1m\n}", `limit x: requests 0/1m: "0" must be a whole number, at least 1 and without separators, such as 100/1m`},
		{"limit x {\ntokens 200,000/1m\n}", `limit x: tokens 200,000/1m: "200,000" must be a whole number, at least 1 and without separators, such as 200000/1m`},
		{"limit x {\nrequests 1/minute\n}", `limit x: requests 1/minute: the window "minute" must be a number with its unit (s, m, h or d), or 1mo, such as 100/1m`},
		{"limit x {\nrequests 1/500ms\n}", "limit x: requests 1/500ms: the window 500ms must be whole seconds, from 1s to 366d, or 1mo"},
		{"limit x {\nrequests 1/1500ms\n}", "limit x: requests 1/1500ms: the window 1500ms must be whole seconds"},
		{"limit x {\nrequests 1/400d\n}", "limit x: requests 1/400d: the window 400d must be whole seconds, from 1s to 366d, or 1mo"},
		{"limit x {\nrequests 1/0s\n}", "limit x: requests 1/0s: the window 0s must be whole seconds, from 1s to 366d, or 1mo"},
		{"limit x {\nrequests 1/-60s\n}", "limit x: requests 1/-60s: the window -60s must be whole seconds, from 1s to 366d, or 1mo"},
		{"limit x {\nmoney 5usd/2mo\n}", `limit x: money 5usd/2mo: the window must be one month, 1mo, and not "2" months, such as 5usd/1d`},
		{"limit x {\nmoney 5/1d\n}", "limit x: money 5/1d: the amount must be in US dollars, with the unit usd behind the number, such as 5usd/1d"},
		{"limit x {\nmoney 0usd/1d\n}", `limit x: money 0usd/1d: "0" must be a number of US dollars above 0 and at most 1000000000, such as 5usd/1d`},
		{"limit x {\nmoney NaNusd/1d\n}", `limit x: money NaNusd/1d: "NaN" must be a number of US dollars above 0`},
		{"limit x {\nmoney 1000000001usd/1d\n}", `limit x: money 1000000001usd/1d: "1000000001" must be a number of US dollars above 0 and at most 1000000000`},
		{"limit x {\nmoney 0.0000000004usd/1d\n}", `limit x: money 0.0000000004usd/1d: "0.0000000004" must be a number of US dollars above 0`},
		{"limit x {\nmoney 1.001usd/1d 1.003usd/24h\n}", "limit x: has two ceilings of money in the same window, 1.001usd/1d and 1.003usd/1d: keep one of them"},
		{"limit x {\nin_flight 0\n}", "limit x: in_flight 0: must be a whole number of requests, at least 1, at Caddyfile:4"},
		{"limit x {\nin_flight 1\nin_flight 2\n}", "limit x: in_flight is configured twice, at Caddyfile:5"},
		{"limit x {\nrequests 1/1m 2/60s\n}", "limit x: has two ceilings of requests in the same window, 1/1m and 2/1m: keep one of them, at Caddyfile:3"},
		{"limit x {\nby metadata\nrequests 1/1m\n}", "limit x: by metadata needs a member of the requests' metadata, as in by metadata.customer, at Caddyfile:4"},
		{"limit x {\nby metadata.\nrequests 1/1m\n}", "limit x: by metadata needs a member"},
		{"limit x {\nby key\nrequests 1/1m\n}", `limit x: by: unrecognized word "key", known: api_key, client_ip, endpoint, workspace, metadata.NAME, at Caddyfile:4`},
		{"limit x {\nby\nrequests 1/1m\n}", "limit x: by takes one of api_key, client_ip, endpoint, workspace, metadata.NAME, at Caddyfile:4"},
		{"limit x {\nby endpoint\nby workspace\nrequests 1/1m\n}", "limit x: by is configured twice: make two limits of it, at Caddyfile:5"},
		{"limit x {\nrequests 1/1m\nroutes prompt\n}", `limit x: unrecognized route "prompt", did you mean "prompts"?, at Caddyfile:5`},
		{"limit x {\nrequests 1/1m\nroutes\n}", "limit x: routes takes the names of routes: prompts, endpoints, chat, responses, messages, count_tokens, embeddings, remoteconfigs, decisions, metrics, evaluate, models, at Caddyfile:5"},
		{"limit x {\ntokens 1/1m\nroutes prompts models\n}", "limit x: tokens can't be used by the routes prompts, models, which call no model: add endpoints, chat, responses, messages or embeddings, or leave routes out, at Caddyfile:3"},
		{"limit x {\nby endpoint\nrequests 1/1m\nroutes prompts chat\n}", "limit x: by endpoint can't count the route prompts, whose requests name none: leave it out of routes, at Caddyfile:3"},
		{"limit x {\nby metadata.a\nrequests 1/1m\nroutes models\n}", "limit x: by metadata.a can't count the route models, whose requests have no metadata: leave it out of routes, at Caddyfile:3"},
		{"limit x {\nby metadata.a\nrequests 1/1m\nroutes evaluate\n}", "limit x: by metadata.a can't count the route evaluate, whose requests have no metadata: leave it out of routes, at Caddyfile:3"},
		{"cors", "cors takes <origins...>, such as https://app.example.com, or * for all pages, at Caddyfile:3"},
		{"cors https://app.example.com/", `cors: "https://app.example.com/" is no origin as browsers send it: scheme and host in lower case, the port unless it is the scheme's own, and no path, such as https://app.example.com, at Caddyfile:3`},
		{"workspace x {\ncors *\n}", "cors is that of all workspaces together: it belongs in the cadenza block, at Caddyfile:4"},
		{"api_key a {env.A} {\nkind clint\n}", `api_key a: unrecognized kind "clint", did you mean "client"?`},
		{"api_key a {env.A} {\nkind client\nrole admin\n}", "api_key a: a key of kind client is public: it can't have a role, at Caddyfile:6"},
		{"api_key a {env.A} {\nkind client\nkind client\n}", "kind is configured twice, at Caddyfile:5"},
		{"api_key a {env.A} {\norigins\n}", "origins takes <origins...>, each as browsers send it"},
		{"api_key a {env.A} {\norigins *\n}", `api_key a: "*" is no origin as browsers send it`},
		{"api_key a {env.A} {\nsigned_context hunter2hunter2hunter2\n}", "signed_context: a secret must be a reference, {env.NAME} or {file.PATH}"},
		{"api_key a {env.A} {\nsigned_contxt {env.B}\n}", `did you mean "signed_context"?`},
		{"in_flight {\nkey\n}", "in_flight key takes a whole number of calls, at Caddyfile:4"},

		{"provider", "provider takes <name> [<module>], and the provider's options in a block"},
		{"provider mistrall", `unrecognized provider module "mistrall", did you mean "mistral"?, at Caddyfile:3`},
		{"provider fast mistrall", `unrecognized provider module "mistrall", did you mean "mistral"?`},
		{"provider lmstudio", `a service with OpenAI's API is "provider lmstudio openai" with its base_url`},
		{"provider claude", `unrecognized provider module "claude", did you mean "anthropic"?, at Caddyfile:3`},
		{"provider google {\napi_key {env.A}\n}", `unrecognized provider module "google", did you mean "gemini"?`},
		{"provider main google {\napi_key {env.A}\n}", `unrecognized provider module "google", did you mean "gemini"?`},
		{"sink google", `unrecognized sink module "google", known: `},
		{"provider bedrock", "bedrock is not in this build: add --with github.com/cadenza-gateway/cadenza/providers/bedrock, at Caddyfile:3"},
		{"provider aws bedrock {\nregion us-east-1\n}", "bedrock is not in this build: add --with github.com/cadenza-gateway/cadenza/providers/bedrock"},
		{"provider openai " + secret, "provider openai takes its options in a block: provider openai { api_key {env.NAME} }"},
		{"provider mine " + secret, "provider mine names no module: the word after its name must be one of anthropic, azure, canned,"},
		{"provider a openai b", "openai takes no arguments: its options are in a block"},
		{"provider openai {\nbase_url https://api.openai.com/v1/chat/completions\n}", "base_url must end before /chat/completions: the gateway adds the rest itself, at Caddyfile:4"},
		{"provider canned {\npace 2days\n}", "pace 2days: must be a number with its unit from 0s to 1m, such as 20ms, at Caddyfile:4"},

		{"sink", "sink takes <name> [<module>] [<args...>]"},
		{"sink kafka", `unrecognized sink module "kafka", known: file, postgres, stdout`},
		{"sink kafka " + secret, "sink kafka names no module: neither its name nor the word after it is one of file, postgres, stdout"},
		{"sink postgress {env.A}", `unrecognized sink module "postgress", did you mean "postgres"?, at Caddyfile:3`},
		{"sink file a b", "sink file takes one path: write one that has spaces in quotes"},
	} {
		got := adapt("{\n\tcadenza {\n" + test.mistake + "\n\t}\n}\n")
		if !strings.Contains(got, test.want) || !strings.Contains(got, ", at Caddyfile:") || strings.Contains(got, secret) {
			t.Errorf("%s\n%swant %s", test.mistake, got, test.want)
		}
	}
	if got := adapt("{\n\tcadenza x\n}\n"); !strings.Contains(got, "cadenza takes its options in a block: cadenza { ... }, at Caddyfile:2") {
		t.Error(got)
	}
}

// TestModulesAreDescribed compares the tables of modules with the linked modules: each has
// a row, with its package and its host. Only bedrock is not linked.
func TestModulesAreDescribed(t *testing.T) {
	described := make(map[string]string)
	for _, m := range providers.Modules() {
		described["cadenza.providers."+m.Name] = m.Package
	}
	for name, path := range caddymodule.OwnSinks {
		described["cadenza.sinks."+name] = path
	}
	linked := append(caddy.GetModules("cadenza.providers"), caddy.GetModules("cadenza.sinks")...)
	for _, info := range linked {
		path, own := strings.CutPrefix(reflect.TypeOf(info.New()).Elem().PkgPath(), "github.com/cadenza-gateway/cadenza/")
		if own && strings.HasSuffix(path, "_test") {
			continue // a module of these tests
		}
		if id := string(info.ID); described[id] != path {
			t.Errorf("%s of %s is described as %q", id, path, described[id])
		}
		delete(described, string(info.ID))
	}
	if diff := cmp.Diff(map[string]string{"cadenza.providers.bedrock": "providers/bedrock"}, described); diff != "" {
		t.Errorf("described and not linked (-want +got):\n%s", diff)
	}
}

// TestModulesCallTheirHosts compares the hosts of modules with the hosts of their requests.
func TestModulesCallTheirHosts(t *testing.T) {
	t.Setenv("MODULES_TEST_KEY", "0123456789")
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	for _, m := range providers.Modules() {
		config := `{"api_key":"{env.MODULES_TEST_KEY}"}`
		switch m.Name {
		case "bedrock":
			continue // it is not linked; its own test checks its host
		case "azure":
			config = `{"api_key":"{env.MODULES_TEST_KEY}","endpoint":"https://x.openai.azure.com"}`
		case "canned":
			config = `{}`
		}
		module, err := ctx.LoadModuleByID("cadenza.providers."+m.Name, []byte(config))
		if err != nil {
			t.Fatal(err)
		}
		host, _ := providers.Host(module.(providers.Provider))
		if host, _, _ := strings.Cut(host, ":"); host != m.Host && m.Name != "azure" {
			t.Errorf("%s calls %s, and is described with %s", m.Name, host, m.Host)
		}
	}
}
