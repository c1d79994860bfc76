package caddymodule_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// TestCheckOfACaddyfile checks the definitions of workspaces with their Caddyfile. It has
// no keys, which the check does not need.
func TestCheckOfACaddyfile(t *testing.T) {
	dir := t.TempDir()
	const (
		good = `{
	cadenza {
		definitions definitions
		api_key app {env.CADENZA_TEST_NO_KEY}
		provider fake openai {
			api_key {env.CADENZA_TEST_NO_KEY}
			base_url http://localhost:1/v1
		}
		provider canned
		limit daily {
			requests 10/1m
		}
		workspace second {
			definitions {env.CADENZA_TEST_SECOND}
			provider last canned {
				answer "Later."
			}
		}
	}
}
`
		definitions = "definitions/"
	)
	for name, content := range workspace {
		gatewaytest.Write(t, dir, "conf/"+name, content)
	}
	gatewaytest.Write(t, dir, "conf/definitions/remoteconfigs/off.yaml", "type: boolean\ndefault: false\ncolumns: [budget.daily, health.fake, value]\nmatrix: [[80.., down, true]]\n")
	gatewaytest.Write(t, dir, "second/prompts/p.yaml", "provider: last\nmessages: [ { role: user, content: x } ]\n")
	gatewaytest.Write(t, dir, "second/endpoints/e.yaml", "prompt: p\n")
	gatewaytest.Write(t, dir, "prices.yaml", "small: { prompt: 1, completion: 2 }\nothers: { prompt: 1, completion: 2 }\n")
	t.Setenv("CADENZA_TEST_SECOND", filepath.Join(dir, "second"))
	t.Setenv("CADENZA_TEST_PRICES", filepath.Join(dir, "prices.yaml"))
	file := filepath.Join(dir, "conf", "Caddyfile")
	check := func(caddyfile string, arguments ...string) (string, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(caddyfile), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := new(cobra.Command)
		caddycmd.Commands()["cadenza"].CobraFunc(cmd)
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append([]string{"check", "--config", file}, arguments...))
		err := cmd.Execute()
		return strings.ReplaceAll(out.String(), dir, "DIR"), err
	}
	out, err := check(good)
	if err != nil || !strings.HasPrefix(out, "workspace default\nok: 2 prompts, ") || !strings.Contains(out, "\nworkspace second\nok: 1 prompt, 1 endpoint, ") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, test := range []struct{ name, caddyfile, out, err string }{
		{"a provider that is not declared", strings.Replace(good, "provider fake", "provider fakes", 1),
			`DIR/conf/definitions/prompts/reply.yaml:6:15: error: the provider "fake", which the endpoint chat calls, is not configured: did you mean "fakes"?`, "workspace default: 2 errors"},
		{"a limit that is not declared", strings.Replace(good, "limit daily", "limit dayly", 1),
			`DIR/conf/definitions/remoteconfigs/off.yaml:3:11: error: there is no limit "daily", whose share the field budget.daily is: did you mean "dayly"?`, "workspace default: 1 error"},
		{"an answer that is not there", strings.Replace(good, `answer "Later."`, "", 1), "DIR/second/prompts/p.yaml:1:1: error: ", "workspace second: 1 error"},
		{"a price of no model", strings.Replace(good, "provider canned", "price smal 1 2\nprovider canned", 1), `DIR/conf/Caddyfile: warning: price smal: no endpoint calls this model: did you mean "small"?`, ""},
		{"a model that the prices that ship lack", strings.Replace(good, "			base_url http://localhost:1/v1\n", "", 1),
			"DIR/conf/Caddyfile: warning: fake/small has no price, and the prices that ship do not have it: traces, statistics and limits count its calls as free; price fake/small <prompt> <completion> gives it one", ""},
		{"a file of prices", strings.Replace(strings.Replace(good, "			base_url http://localhost:1/v1\n", "", 1), "provider canned", "prices {env.CADENZA_TEST_PRICES}\nprovider canned", 1), "workspace default\nok: 2 prompts, 1 endpoint, 3 remote configurations, 0 tests (revision", ""},
		{"without the prices that ship", strings.Replace(strings.Replace(good, "			base_url http://localhost:1/v1\n", "", 1), "provider canned", "prices none\nprovider canned", 1), "workspace default\nok: 2 prompts, 1 endpoint, 3 remote configurations, 0 tests (revision", ""},
		{"no file of prices", strings.Replace(good, "provider canned", "prices none.yaml\nprovider canned", 1), "", "workspace default: prices " + filepath.Join(dir, "conf", "none.yaml") + ":"},
		{"a mistake in the Caddyfile", strings.Replace(good, "definitions definitions", "definitons definitions", 1), "", `did you mean "definitions"?, at ` + file + ":3"},
		{"no definitions", strings.Replace(good, "definitions definitions", "", 1), "", "workspace default: definitions is required"},
		{"no cadenza block", "{\n}\n", "", "has no workspace of Cadenza: its global options need a cadenza block"},
	} {
		out, err := check(test.caddyfile)
		if !strings.Contains(out, test.out) || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v\n%s", test.name, err, out)
		}
	}
	priced := strings.Replace(good, "provider canned", "price smal 1 2\nprovider canned", 1)
	if _, err := check(priced, "--strict"); err == nil || err.Error() != "workspace default: 2 warnings" {
		t.Errorf("strict: %v", err)
	}
	out, err = check(priced, "--json")
	var report struct {
		OK         bool
		Workspaces map[string]struct {
			OK       bool
			Warnings []struct{ File, Message string }
		}
	}
	if err != nil || json.Unmarshal([]byte(out), &report) != nil || !report.OK || len(report.Workspaces) != 2 || len(report.Workspaces["default"].Warnings) != 2 {
		t.Errorf("%v %s", err, out)
	}
	out, err = check(priced, "--format", "github")
	if want := "::warning file=DIR/conf/Caddyfile,title=price::price smal: no endpoint calls this model"; err != nil || !strings.Contains(out, want) {
		t.Errorf("%v %s", err, out)
	}
	if _, err := check(good, "--adapter", "yaml"); err == nil || !strings.Contains(err.Error(), `no adapter "yaml" in this build`) {
		t.Errorf("an adapter that is not there: %v", err)
	}
	if _, err := check(good, definitions); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("a directory beside it: %v", err)
	}
}

// TestCheckOfBudgets checks the warnings about rules near the end of a budget that a single
// call skips, or that every call matches, with the numbers of the Caddyfile.
func TestCheckOfBudgets(t *testing.T) {
	dir := t.TempDir()
	gatewaytest.Write(t, dir, "definitions/context.yaml", "fields:\n  plan: { type: string, values: [free, pro] }\n")
	const (
		variants = "prompt: p\nvariants:\n  usual: {}\n  saving: { weight: 0, fallback: [ { provider: fake, model: small, max_tokens: 100, weight: 1 } ] }\n"
		usual    = variants + "default: usual\nrules:\n  - { id: nearly, when: { budget.tenants: 80.. }, value: saving }\n"
		plain    = "prompt: p\n"
	)
	// Variants of the prompt. The cheap one answers if the budget is unknown.
	frugal := func(rules string) string {
		return "default: saving\nvariables: { question: { required: true } }\nvariants:\n  usual: { provider: fake, model: large, max_tokens: 600, messages: [ { role: user, content: \"{{question}}\" } ] }\n  saving: { extends: usual, model: small, max_tokens: 100 }\nrules:\n" + rules
	}
	one := "provider: fake\nmodel: large\nmax_tokens: 600\nmessages: [ { role: user, content: x } ]\n"
	rich := frugal("  - { id: rich, when: { plan: pro, budget.tenants: ..<80 }, value: usual }\n")
	for _, tt := range []struct{ name, prompt, endpoint, limit, want string }{
		{"room enough", one, usual, "money 0.02usd/1h", ""},
		{"a limit that one call nearly uses", one, usual, "money 0.007usd/1h",
			"definitions/endpoints/support.yaml:7:5: warning: one call of support by usual sets aside 0.006 usd or more, 85 % of limit tenants (money 0.007usd/1h), so every call meets nearly, which begins at 80 %, and none is made by usual: raise the ceiling, or lower max_tokens"},
		{"the same of tokens", one, usual, "tokens 700/1h", "600 tokens or more, 85 % of limit tenants (tokens 700/1h), so every call meets nearly, which begins at 80 %"},
		{"unless callers ask for less", one, usual + "accept: { parameters: { max_tokens: ..600 } }\n", "tokens 700/1h", ""},
		{"a rule that the dear one leaps over", rich, plain, "money 0.02usd/1h",
			"definitions/prompts/p.yaml:1:1: warning: one call of support by usual sets aside 0.006043 usd or more, 30 % of limit tenants (money 0.02usd/1h), so it is refused from 70 % on, before the budget reaches 80 %, where the default begins: let that begin earlier, or make usual the answer where the budget is not known"},
		{"a rule above that the dear one leaps over", frugal("  - { id: full, when: { budget.tenants: 80.. }, value: saving }\n  - { id: rich, when: { plan: pro, budget.tenants: present }, value: usual }\n"), plain, "money 0.02usd/1h",
			"definitions/prompts/p.yaml:7:5: warning: one call of support by usual sets aside "},
		{"that the dear one reaches", frugal("  - { id: full, when: { budget.tenants: 80.. }, value: saving }\n  - { id: rich, when: { plan: pro }, value: usual }\n"), plain, "money 0.02usd/1h", ""},
		{"that ends early enough", strings.Replace(rich, "..<80", "..<69", 1), plain, "money 0.02usd/1h", ""},
		{"beside a larger ceiling", rich, plain, "money 2usd/1h", ""},
		{"beside a ceiling of which the cheap one takes as much", rich, plain, "money 0.02usd/1h\n\t\t\ttokens 145/1h", ""},
		{"of another limit", one, strings.ReplaceAll(usual, "budget.tenants", "budget.others"), "money 0.007usd/1h", ""},
		{"that no call is bounded by", one, usual, "requests 7/1h", ""},
	} {
		gatewaytest.Write(t, dir, "definitions/prompts/p.yaml", tt.prompt)
		gatewaytest.Write(t, dir, "definitions/endpoints/support.yaml", tt.endpoint)
		gatewaytest.Write(t, dir, "Caddyfile", "{\n\tcadenza {\n\t\tdefinitions definitions\n\t\tprovider fake openai {\n\t\t\tapi_key {env.NO_KEY}\n\t\t\tbase_url http://localhost:1/v1\n\t\t}\n"+
			"\t\tprice large 2.5 10\n\t\tprice small 0.1 0.4\n\t\tlimit tenants {\n\t\t\tby metadata.tenant\n\t\t\t"+tt.limit+"\n\t\t}\n\t\tlimit others {\n\t\t\trequests 9/1m\n\t\t}\n\t}\n}\n")
		cmd := new(cobra.Command)
		caddycmd.Commands()["cadenza"].CobraFunc(cmd)
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs([]string{"check", "--config", filepath.Join(dir, "Caddyfile")})
		if err := cmd.Execute(); err != nil {
			t.Fatalf("%s: %v\n%s", tt.name, err, &out)
		}
		if got := out.String(); !strings.Contains(got, tt.want) || strings.Contains(got, "sets aside") != (tt.want != "") || strings.Count(got, "sets aside") > 1 {
			t.Errorf("%s:\n%s", tt.name, got)
		}
	}
}
