package caddymodule_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/caddymodule"
)

// TestMessagesOfACaddyfile makes one mistake at a time in a cadenza block. Each
// message has the line and says how to mend it, in our words and not in Go's, and
// none repeats what may be a secret.
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
		{"max_body_size huge", "max_body_size huge: must be a number of bytes"},
		{"price gpt-4o-mini 0.15", "price takes [<provider>/]<model> <prompt> <completion>, the prices in US dollars per million tokens, such as gpt-4o-mini 0.15 0.60, at Caddyfile:3"},
		{"price gpt-4o-mini 0.15 0.60 1", "price takes [<provider>/]<model>"},
		{"price gpt-4o-mini 0,15 0,60", `price gpt-4o-mini: "0,15" is not a number of US dollars per million tokens, such as 0.15`},
		{"definitions", "definitions takes <directory>"},
		{"definitions a b", "definitions takes <directory>"},
		{"keys", "keys takes <file>"},
		{"log", "log takes none, metadata or content"},
		{"redact", "redact takes card, email, phone, or several of them"},
		{"trace_key", "trace_key takes {env.NAME} or {file.PATH}"},
		{"api_key " + secret, "api_key takes <name> {env.NAME} or <name> {file.PATH}"},
		{"api_key app {env.A} " + secret, "api_key takes <name> {env.NAME}"},
		{"api_key {env.A} app", "api_key takes <name> {env.NAME} or <name> {file.PATH}: the name comes first, as in api_key app {env.A}, at Caddyfile:3"},
		{"workspace", "workspace takes <name>, and the workspace's options in a block"},
		{"definitions a\nworkspace default {\n}", "workspace default is configured twice: the options outside of all workspace blocks are its options too"},
		{"in_flight 100", "in_flight takes its ceilings in a block, such as in_flight { key 100 }"},
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

// TestOwnModulesNameTheirPackages holds the paths of modules that a build may lack
// against the packages that register them.
func TestOwnModulesNameTheirPackages(t *testing.T) {
	linked := 0
	for id, path := range caddymodule.OwnModules {
		info, err := caddy.GetModule(id)
		if err != nil {
			continue // bedrock, which is linked by those who want it
		}
		linked++
		if got := reflect.TypeOf(info.New()).Elem().PkgPath(); got != "github.com/cadenza-gateway/cadenza/"+path {
			t.Errorf("%s is in %s", id, got)
		}
	}
	if linked != len(caddymodule.OwnModules)-1 {
		t.Errorf("%d of %d are linked", linked, len(caddymodule.OwnModules))
	}
}
