package definition

import (
	"context"
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/rules"
)

// gatewayFiles is a workspace whose tables read the state of the gateway.
func gatewayFiles() map[string]string {
	return map[string]string{
		"context.yaml":   "fields: { plan: { type: string } }\nsegments: { poor: [ { budget.daily: 80.. } ] }\n",
		"prompts/p.yaml": "default: long\nvariants:\n  long: { provider: openai, model: gpt-5, messages: [ { role: user, content: x } ] }\n  short: { extends: long }\ncolumns: [health.openai/gpt-5, value]\nmatrix: [[down, short]]\ntests:\n  - { context: { health.openai/gpt-5: down }, variant: short }\n  - { context: { health.openai/gpt-5: up, plan: pro }, variant: long }\n  - { variant: long }\n",
		"endpoints/e.yaml": "prompt: p\ndefault: large\nvariants:\n  large: { timeout: { total: 60s } }\n  small: { weight: 0, fallback: [ { provider: openai, model: gpt-5-mini, weight: 1 } ] }\nrules:\n  - { id: dear, when: { segment: poor }, value: small }\ntests:\n" +
			"  - { context: { budget.daily: 80 }, variant: small, rule: dear }\n  - { context: { budget.daily: 79, plan: pro }, variant: large, rule: default }\n",
		"remoteconfigs/c.yaml": "type: boolean\ndefault: true\nrules:\n  - { id: off, when: { health.openai: down }, value: false }\ntests:\n  - { context: { health.openai: down }, value: false, rule: \"off\" }\n  - { context: { plan: pro, health.openai: up }, value: true }\n",
	}
}

// Tables of all kinds read the gateway's fields, and tests give them in the context.
func TestGatewayFieldsOfDefinitions(t *testing.T) {
	s := mustLoad(t, workspace(t, gatewayFiles()))
	if want := []string{"budget.daily", "health.openai", "health.openai/gpt-5"}; !reflect.DeepEqual(s.Model.GatewayNames(), want) {
		t.Errorf("fields %v", s.Model.GatewayNames())
	}
	if len(s.Warnings) > 0 || s.Tests != 7 {
		t.Errorf("%d tests, warnings %v", s.Tests, s.Warnings)
	}
	for name, table := range map[string]*rules.Table{"p": s.Prompts["p"].Table(), "e": s.Endpoints["e"].Table(), "c": s.RemoteConfigs["c"].Table()} {
		if !table.ReadsGateway() {
			t.Errorf("%s reads none", name)
		}
	}
	if remarks := s.Remarks(s.Loaded, RemarksUsual); len(remarks) > 0 {
		t.Errorf("remarks %v", remarks)
	}

	files := gatewayFiles()
	files["remoteconfigs/c.yaml"] = strings.NewReplacer("{ health.openai: down }, value: false, rule", "{ health.openai: dwn, budget.dayly: 1 }, value: false, rule", "plan: pro, health.openai: up", "health: { openai: up }").Replace(files["remoteconfigs/c.yaml"])
	files["prompts/p.yaml"] = strings.Replace(files["prompts/p.yaml"], "down }, variant: short", "up }, variant: short", 1)
	dir := workspace(t, files)
	_, err := Load(dir)
	wantErrors(t, dir, err,
		`prompts/p.yaml:8:54: test failed: expected the variant "short", got "long" (default)`,
		`remoteconfigs/c.yaml:6:33: context.health.openai must be one of up, down, this is "dwn": did you mean "down"? (unchecked_context: true allows it)`,
		`remoteconfigs/c.yaml:6:38: context.budget.dayly is a field of the gateway that no table reads: did you mean "budget.daily"? (unchecked_context: true allows it)`,
		`remoteconfigs/c.yaml:7:18: context.health is not a field of the data model: a field of the gateway is one member, such as health.openai (unchecked_context: true allows it)`,
	)
}

// The gateway's configuration decides which of these fields there are. Without a
// configuration any name may be.
func TestGatewayFieldsThatAreNotConfigured(t *testing.T) {
	dir := workspace(t, gatewayFiles())
	good := Configuration{Providers: Providers{"openai": {Module: "openai"}}, Limits: []string{"daily", "other"}}
	if _, err := Load(dir, good); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct {
		known Configuration
		want  []string
	}{
		{Configuration{Limits: []string{"daily"}}, nil},
		{Configuration{Limits: []string{"dayly", "x"}}, []string{
			`context.yaml:2:23: there is no limit "daily", whose share the field budget.daily is: did you mean "dayly"?`}},
		{Configuration{Limits: []string{"per_minute"}}, []string{
			`context.yaml:2:23: there is no limit "daily", whose share the field budget.daily is (configured: per_minute): add it to the cadenza block of the Caddyfile, or name another`}},
		{Configuration{Limits: []string{}}, []string{
			`context.yaml:2:23: there is no limit "daily", whose share the field budget.daily is: add it to the cadenza block of the Caddyfile, or name another`}},
		{Configuration{Providers: Providers{"opena": {Module: "openai"}}, Limits: []string{"daily"}}, []string{
			`endpoints/e.yaml:5:47: the provider "openai", which the endpoint e calls, is not configured: did you mean "opena"?`,
			`prompts/p.yaml:3:21: the provider "openai", which the endpoint e calls, is not configured: did you mean "opena"?`,
			`prompts/p.yaml:5:11: the provider "openai", whose health the field health.openai/gpt-5 is, is not configured: did you mean "opena"?`,
			`remoteconfigs/c.yaml:4:24: the provider "openai", whose health the field health.openai is, is not configured: did you mean "opena"?`}},
	} {
		_, err := Load(dir, tt.known)
		if tt.want == nil && err == nil {
			continue
		}
		wantErrors(t, dir, err, tt.want...)
		// While one configuration replaces another, either may be meant.
		if _, err := Load(dir, tt.known, good); err != nil {
			t.Error(err)
		}
		if mustLoad(t, dir).CheckConfigured(tt.known) == nil {
			t.Error("the served set is not checked")
		}
	}
}

func TestParseConfiguration(t *testing.T) {
	got, err := ParseConfiguration(map[string]json.RawMessage{"a": json.RawMessage(`{"module":"openai"}`)}, []string{"daily", "b"})
	if want := (Configuration{Providers: Providers{"a": {Module: "openai", Host: "api.openai.com"}}, Limits: []string{"daily", "b"}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	if got, err := ParseConfiguration(nil, nil); err != nil || got.Limits == nil || got.Providers == nil {
		t.Errorf("without either: %v %v", got, err)
	}
	if _, err := ParseConfiguration(map[string]json.RawMessage{"a": json.RawMessage(`1`)}, nil); err == nil {
		t.Error("no error")
	}
}

// A field of the data model wins, with a warning, and so is one about a provider or a
// model that no endpoint calls reported.
func TestWarningsOfGatewayFields(t *testing.T) {
	files := gatewayFiles()
	files["context.yaml"] = "fields: { plan: string, budget.daily: number, health.x: string }\ncomputed: { budget.c: '1.0' }\nsegments: { poor: [ { budget.daily: 80.. } ] }\n"
	files["remoteconfigs/d.yaml"] = "type: boolean\ndefault: true\ncolumns: [health.opnai, health.openai/gpt-4, health.x, health.other, budget.c, value]\nmatrix: [[down, up, x, up, 1, false]]\n"
	s := mustLoad(t, workspace(t, files))
	var got []string
	for _, w := range s.Warnings {
		got = append(got, w.Kind+" "+filepath.Base(w.Pos.String())+" "+w.Message)
	}
	want := []string{
		"shadowed-field context.yaml:1:25 the data model has a field budget.daily of its own, so tables read what callers send, and not what the gateway knows by this name",
		"shadowed-field context.yaml:1:47 the data model has a field health.x of its own, so tables read what callers send, and not what the gateway knows by this name",
		"shadowed-field context.yaml:2:13 the data model has a field budget.c of its own, so tables read what callers send, and not what the gateway knows by this name",
		"uncalled d.yaml:3:11 no endpoint calls the provider opnai, so health.opnai is always missing: did you mean health.openai?",
		"uncalled d.yaml:3:25 no endpoint calls the model openai/gpt-4, so health.openai/gpt-4 is always missing: did you mean health.openai/gpt-5?",
		"uncalled d.yaml:3:56 no endpoint calls the provider other, so health.other is always missing",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// A field of the data model is about no limit.
	if err := s.CheckConfigured(Configuration{Limits: []string{}}); err != nil {
		t.Error(err)
	}
}

// Whatever an edit does to these fields, a loading with a memory gives what one
// without does, also for the definitions that were not edited.
func TestMemoryOfGatewayFields(t *testing.T) {
	var m memory
	files := gatewayFiles()
	for _, edit := range []map[string]string{
		{},
		{"remoteconfigs/a.yaml": "type: boolean\ndefault: true\ncolumns: [budget.aaa, value]\nmatrix: [[1.., false]]\n"},
		{"remoteconfigs/a.yaml": "type: boolean\ndefault: true\n"},
		{"context.yaml": "fields: { budget.daily: number }\nsegments: { poor: [ { budget.daily: 80.. } ] }\n", "remoteconfigs/c.yaml": "type: number\ndefault: 1\n", "endpoints/e.yaml": "prompt: p\n", "prompts/p.yaml": "provider: openai\nmodel: m\nmessages: [ { role: user, content: x } ]\ncolumns: [segment, value]\nmatrix: [[poor, p]]\n"},
		gatewayFiles(),
	} {
		maps.Copy(files, edit)
		dir := workspace(t, files)
		want := mustLoad(t, dir)
		got, err := loadAgain(context.Background(), dir, &m)
		must(t, err)
		if got.Revision != want.Revision || !reflect.DeepEqual(got.Model.GatewayNames(), want.Model.GatewayNames()) || len(got.Warnings) != len(want.Warnings) {
			t.Fatalf("%v and %v, warnings %v and %v", got.Model.GatewayNames(), want.Model.GatewayNames(), got.Warnings, want.Warnings)
		}
		for _, d := range want.Definitions {
			a, b := got.Find(d.Kind, d.Key).Table(), d.Table()
			if a == nil {
				continue
			}
			if !reflect.DeepEqual(a.Fields(), b.Fields()) || a.ReadsGateway() != b.ReadsGateway() {
				t.Errorf("%s reads %v, and %v without a memory", d.Key, a.Fields(), b.Fields())
			}
			var binding rules.Binding
			if err := got.Model.Simulate(&binding, nil, got.Loaded); err != nil || b.ReadsGateway() == (a.Evaluate(&binding).Reason == rules.NoContext) {
				t.Errorf("%s is of another data model: %v", d.Key, err)
			}
		}
	}
}

// A set that was served is built again with these fields, and not checked for them.
func TestPastOfGatewayFields(t *testing.T) {
	s := mustLoad(t, workspace(t, gatewayFiles()))
	past := &Past{Revision: s.Revision, Files: s.Files}
	again, err := past.Load()
	must(t, err)
	if !again.Endpoints["e"].Table().ReadsGateway() || again.Revision != s.Revision {
		t.Error("the endpoint's table reads none")
	}
}
