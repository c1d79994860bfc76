package definition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCheckModels finds each place that names a model once, also of prompts that no
// endpoint calls, and asks with the host that the provider calls.
func TestCheckModels(t *testing.T) {
	dir := workspace(t, map[string]string{
		"prompts/p.yaml":   "default: a\nvariants:\n  a: { provider: openai, model: old, messages: [ { role: user, content: x } ] }\n  b: { extends: a }\n  c: { extends: a, model: new }\n  d: { extends: a, provider: other }\n",
		"prompts/q.yaml":   "provider: other\nmodel: old\nmessages: [ { role: user, content: x } ]\n",
		"prompts/r.yaml":   "messages: [ { role: user, content: x } ]\n",
		"endpoints/e.yaml": "prompt: p\nfallback:\n  - { provider: openai, model: old }\n  - { provider: canned, extra: { answer: x } }\n",
		"endpoints/f.yaml": "prompt: p\n",
	})
	s := mustLoad(t, dir)
	for _, test := range []struct {
		known Providers
		want  []string
	}{
		{nil, []string{
			"endpoints/e.yaml:3:32: old of openai at api.openai.com (model-ends, next)",
			"prompts/p.yaml:3:33: old of openai at api.openai.com (model-ends, next)",
			"prompts/p.yaml:3:33: old of other at  (model-ends, next)",
			"prompts/q.yaml:2:8: old of other at  (model-ends, next)",
		}},
		{Providers{"other": {Host: "localhost"}, "openai": {}}, []string{
			"endpoints/e.yaml:3:32: old of openai at  (model-ends, next)",
			"prompts/p.yaml:3:33: old of openai at  (model-ends, next)",
			"prompts/p.yaml:3:33: old of other at localhost (model-ends, next)",
			"prompts/q.yaml:2:8: old of other at localhost (model-ends, next)",
		}},
	} {
		var got []string
		for _, w := range s.CheckModels(test.known, func(provider, host, model string) (message, instead string) {
			if model != "old" {
				return "", ""
			}
			return fmt.Sprintf("%s of %s at %s", model, provider, host), "next"
		}) {
			got = append(got, fmt.Sprintf("%s (%s, %s)", strings.TrimPrefix(w.String(), dir+"/"), w.Kind, w.Suggestion))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v\n%s", test.known, diff)
		}
	}
}
