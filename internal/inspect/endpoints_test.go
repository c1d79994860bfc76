package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	variedModel  = "fields: { plan: { type: string, values: [free, pro, enterprise] }, locale: string }\n"
	variedPrompt = "default: en\nvariants:\n  en: { provider: a, model: m, messages: [ { role: user, content: hello } ] }\n  nl: { extends: en, model: n }\ncolumns: [ locale, value ]\nmatrix: [ [ nl, nl ] ]\n"
	varied       = "prompt: p\nvariants:\n  usual: {}\n  hedged: { hedge: { after: 2s }, fallback: [ { provider: b, model: o } ] }\n  cached: { cache: { ttl: 1h }, weight: 0, fallback: [ { provider: c, model: x }, { provider: b, model: o, weight: 3 } ] }\ndefault: usual\ncolumns: [ plan, value ]\nmatrix:\n  - [ enterprise, hedged ]\n  - [ free, cached ]\n"
)

func TestEvaluateEndpointVariants(t *testing.T) {
	dir := workspace(t, "context.yaml", variedModel, "prompts/p.yaml", variedPrompt, "endpoints/e.yaml", varied, "endpoints/plain.yaml", "prompt: p\n")
	s := load(t, dir)
	evaluate := func(key, context string) *Answer {
		t.Helper()
		a, err := Evaluate(s, Query{Key: key, Context: object(t, context), At: now, Explain: true})
		must(t, err)
		return a
	}
	for context, want := range map[string]string{
		"{plan: enterprise, locale: nl}": "hedged by row 1 (match) at endpoints/e.yaml:9:5, nl by row 1: a/n b/o",
		"{plan: free}":                   "cached by row 2 (match) at endpoints/e.yaml:10:5, en by default: b/o*3 a/m c/x",
		"{locale: nl}":                   "usual by default (default) at , nl by row 1: a/n",
		"":                               "usual by default (no_context) at , en by default: a/m",
	} {
		a := evaluate("e", context)
		got := fmt.Sprintf("%s by %s (%s) at %s, %s by %s:", a.EndpointVariant, a.EndpointRow, a.EndpointReason,
			strings.TrimPrefix(a.EndpointPosition, dir+"/"), a.Variant, a.Row)
		for _, target := range a.Targets {
			got += " " + target.Provider + "/" + target.Model
			if target.Weight > 0 {
				got += fmt.Sprint("*", target.Weight)
			}
		}
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", context, got, want)
		}
		// The tables are explained apart. Without a context no row is tried.
		if tried := context != ""; (len(a.EndpointRows) == 2 && len(a.Rows) == 1) != tried {
			t.Errorf("%s: %d rows of the endpoint, %d of the prompt", context, len(a.EndpointRows), len(a.Rows))
		}
	}
	if byFolder := evaluate("endpoints/e", "{plan: free}"); !cmp.Equal(byFolder, evaluate("e", "{plan: free}")) {
		t.Errorf("by its folder: %+v", byFolder)
	}
	if _, err := Evaluate(s, Query{Key: "prompts/e", At: now}); err == nil || err.Error() != `there is no prompt "e" (known: p)` {
		t.Errorf("by another folder: %v", err)
	}
	if row := evaluate("e", "{plan: free}").EndpointRows[0]; row.Matched || row.Field != "plan" || row.Cell != "enterprise" {
		t.Errorf("%+v", row)
	}
	if a := evaluate("plain", "{plan: free}"); a.EndpointVariant+a.EndpointRow+a.EndpointReason != "" || a.EndpointRows != nil {
		t.Errorf("an endpoint without variants: %+v", a)
	}
	rows := make(map[string]int)
	for _, summary := range Summaries(s) {
		rows[summary.Kind+" "+summary.Key] = summary.Rows
	}
	if diff := cmp.Diff(map[string]int{"prompt p": 1, "endpoint e": 2, "endpoint plain": 0}, rows); diff != "" {
		t.Error(diff)
	}
}

func TestCompareEndpointVariants(t *testing.T) {
	const asking = "prompt: p\nvariants: { a: {}, b: { cache: { ttl: 1h } } }\ndefault: a\nrules: [ { when: { config: { c: true } }, value: b } ]\n"
	compare := func(endpoint, config, endpointAfter, configAfter string) (got string) {
		t.Helper()
		c, err := compareFolders(
			workspace(t, "context.yaml", variedModel, "prompts/p.yaml", variedPrompt, "endpoints/e.yaml", endpoint, "remoteconfigs/c.yaml", config),
			workspace(t, "context.yaml", variedModel, "prompts/p.yaml", variedPrompt, "endpoints/e.yaml", endpointAfter, "remoteconfigs/c.yaml", configAfter))
		must(t, err)
		for _, d := range c.Definitions {
			if d.Kind != "endpoint" {
				continue
			}
			got += d.Change + " " + strings.Join(d.Members, " ") + "\n"
			for _, a := range d.Answers {
				got += fmt.Sprintf("%s: %s %s -> %s %s\n", a.Context, a.Old.Value, a.Old.Row, a.New.Value, a.New.Row)
			}
			if d.Undecided {
				got += "undecided\n"
			}
		}
		return got
	}
	config := func(plan string) string {
		return "type: boolean\ndefault: false\nrules: [ { when: { plan: " + plan + " }, value: true } ]\n"
	}
	for _, test := range []struct{ before, after, configAfter, want string }{
		{varied, varied, "", ""},
		{varied, strings.Replace(varied, "2s", "3s", 1), "", "changed variants.hedged.hedge.after\n"},
		{varied, strings.Replace(varied, "[ free, cached ]", "[ pro, cached ]", 1), "", "changed matrix\n" +
			`{"plan":"free"}: "cached" row 2 -> "usual" default` + "\n" + `{"plan":"pro"}: "usual" default -> "cached" row 2` + "\n"},
		{varied, strings.Replace(varied, "default: usual", "default: cached", 1), "", "changed default\n" +
			`null: "usual" default -> "cached" default` + "\n"},
		// Variants that come and go.
		{"prompt: p\n", "prompt: p\nvariants: { a: {}, b: {} }\ndefault: a\nrules: [ { when: { plan: pro }, value: b } ]\n", "",
			"changed default max_attempts rules timeout variants\n" + `null:  default -> "a" default` + "\n" + `{"plan":"pro"}:  default -> "b" row 1` + "\n"},
		{"prompt: p\nvariants: { a: {} }\n", "prompt: p\n", "", "changed default max_attempts timeout variants\n" + `null: "a" default ->  default` + "\n"},
		{"prompt: p\n", "prompt: p\nhedge: { after: 1s }\n", "", "changed hedge\n"},
		// A configuration that the table asks for.
		{asking, asking, config("free"), "affected \n" + `{"plan":"pro"}: "b" row 1 -> "a" default` + "\n" + `{"plan":"free"}: "a" default -> "b" row 1` + "\n"},
	} {
		if test.configAfter == "" {
			test.configAfter = config("pro")
		}
		if got := compare(test.before, config("pro"), test.after, test.configAfter); got != test.want {
			t.Errorf("%s\n%s\ngot:\n%swant:\n%s", test.before, test.after, got, test.want)
		}
	}
}

// TestEvaluateConversation holds that what callers may bring is shown.
func TestEvaluateConversation(t *testing.T) {
	s := load(t, workspace(t,
		"prompts/p.yaml", "provider: a\nmodel: m\nmessages:\n  - { role: system, content: hi }\n  - { history: true, roles: [user, assistant], max_messages: 9, max_bytes: 64KiB }\n  - { role: user, content: hi }\n",
		"endpoints/e.yaml", "prompt: p\naccept: { history: true, parameters: { max_tokens: ..800 } }\n",
		"prompts/q.yaml", "provider: a\nmodel: m\nmessages: [ { role: user, content: hi } ]\n", "endpoints/plain.yaml", "prompt: q\n"))
	a, err := Evaluate(s, Query{Key: "e", At: now})
	if err != nil || a.History != "after 1 of 2 messages, of user, assistant, at most 9, at most 65536 bytes" ||
		string(a.Accept) != `{"history":true,"parameters":{"max_tokens":"..800"}}` {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = Evaluate(s, Query{Key: "plain", At: now}); err != nil || a.History != "" || a.Accept != nil {
		t.Errorf("%+v, %v", a, err)
	}
}
