package definition

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckPrices(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{
		"prompts/p.yaml":       "default: a\nvariants:\n  a: { provider: openai, model: gpt-4o-mini, messages: [ { role: user, content: x } ] }\n  b: { extends: a, model: gpt-4o }\n",
		"prompts/fetched.yaml": "provider: openai\nmodel: o9\nmessages: [ { role: user, content: x } ]\n",
		"endpoints/e.yaml":     "prompt: p\nfallback: [ { provider: azure, model: gpt-4o-mini }, { provider: last, model: x, extra: { answer: x } } ]\n",
	}))
	known := Providers{"openai": {Module: "openai"}, "azure": {Module: "azure"}, "last": {Module: "canned"}}
	const azureFree = "azure/gpt-4o-mini has no price: traces and statistics count its calls as free; price azure/gpt-4o-mini 0 0 says that they are"
	for _, test := range []struct{ prices, want []string }{
		{nil, nil},
		{[]string{"gpt-4o-mini", "gpt-4o"}, nil},
		{[]string{"gpt-4o", "openai/gpt-4o-mini", "azure/gpt-4o-mini"}, nil},
		{[]string{"openai/gpt-4o", "openai/gpt-4o-mini"}, []string{azureFree}},
		{[]string{"gpt4o-mini", "gpt-4o", "gpt-4o-mini"}, []string{`price gpt4o-mini: no endpoint calls this model: did you mean "gpt-4o-mini"?`}},
		{[]string{"azur/gpt-4o-mini", "gpt-4o", "gpt-4o-mini"}, []string{`price azur/gpt-4o-mini: no endpoint calls this model: did you mean "azure/gpt-4o-mini"?`}},
		{[]string{"o9", "x", "gpt-4o", "gpt-4o-mini"}, []string{"price o9: no endpoint calls this model", "price x: no endpoint calls this model"}},
	} {
		if diff := cmp.Diff(test.want, s.CheckPrices(test.prices, known)); diff != "" {
			t.Errorf("%q\n%s", test.prices, diff)
		}
	}
}
