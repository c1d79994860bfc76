package definition

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckPrices(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{
		"prompts/p.yaml":       "default: a\nvariants:\n  a: { provider: openai, model: gpt-4o-mini, messages: [ { role: user, content: x } ] }\n  b: { extends: a, model: gpt-4o }\n",
		"prompts/fetched.yaml": "provider: openai\nmodel: o9\nmessages: [ { role: user, content: x } ]\n",
		"endpoints/e.yaml":     "prompt: p\nfallback: [ { provider: azure, model: gpt-4o-mini }, { provider: last, model: x, extra: { answer: x } } ]\n",
	}))
	known := Providers{"openai": {Module: "openai", Host: "api.openai.com"}, "azure": {Module: "azure", Host: "acme.openai.azure.com"}, "last": {Module: "canned"}}
	const azureFree = "azure/gpt-4o-mini has no price: traces and statistics count its calls as free; price azure/gpt-4o-mini 0 0 says that they are"
	for _, test := range []struct{ prices, want []string }{
		{nil, nil},
		{[]string{"gpt-4o-mini", "gpt-4o"}, nil},
		{[]string{"gpt-4o", "openai/gpt-4o-mini", "azure/gpt-4o-mini"}, nil},
		{[]string{"openai/gpt-4o", "openai/gpt-4o-mini"}, []string{azureFree}},
		{[]string{"gpt4o-mini", "gpt-4o", "gpt-4o-mini"}, []string{`price gpt4o-mini: no endpoint calls this model: did you mean "gpt-4o-mini"?`}},
		{[]string{"azur/gpt-4o-mini", "gpt-4o", "gpt-4o-mini"}, []string{`price azur/gpt-4o-mini: no endpoint calls this model: did you mean "azure/gpt-4o-mini"?`}},
		{[]string{"o9", "x", "gpt-4o", "gpt-4o-mini"}, nil}, // a deployment at Azure may be of these models
	} {
		priced := func(provider, _, model string) (given string, found, shipped bool) {
			for _, name := range []string{provider + "/" + model, model} {
				if slices.Contains(test.prices, name) {
					return name, true, false
				}
			}
			return "", false, false
		}
		if diff := cmp.Diff(test.want, s.CheckPrices(test.prices, known, priced)); diff != "" {
			t.Errorf("%q\n%s", test.prices, diff)
		}
	}

	delete(known, "azure")
	all := func(_, _, model string) (given string, found, shipped bool) {
		return model[:min(3, len(model))], true, false
	}
	if diff := cmp.Diff([]string{"price o9: no endpoint calls this model"}, s.CheckPrices([]string{"o9", "gpt", "last/x"}, known, all)); diff != "" {
		t.Error(diff)
	}

	// With the prices that ship.
	known["azure"] = Provider{Module: "azure", Host: "acme.openai.azure.com"}
	for _, test := range []struct {
		shipped string // the model that they have
		want    []string
	}{
		{"gpt-4o-mini", []string{"openai/gpt-4o has no price, and the prices that ship do not have it: traces, statistics and limits count its calls as free; price openai/gpt-4o <prompt> <completion> gives it one"}},
		{"", []string{
			"openai/gpt-4o has no price, and the prices that ship do not have it: traces, statistics and limits count its calls as free; price openai/gpt-4o <prompt> <completion> gives it one",
			"openai/gpt-4o-mini has no price, and the prices that ship do not have it: traces, statistics and limits count its calls as free; price openai/gpt-4o-mini <prompt> <completion> gives it one",
		}},
	} {
		priced := func(_, host, model string) (given string, found, shipped bool) {
			return "", model == test.shipped, host != ""
		}
		if diff := cmp.Diff(test.want, s.CheckPrices(nil, known, priced)); diff != "" {
			t.Error(diff)
		}
	}
}
