package definition

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const embeddingTargets = "task: embedding\ntargets:\n  - { provider: openai, model: small, space: docs }\n  - { provider: azure, model: my-small, space: docs }\n"

func TestEmbeddingEndpoint(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{"endpoints/e.yaml": embeddingTargets + "batch: 32\nretry: { count: 1 }\ntimeout: { total: 5s }\n"}))
	e := s.Endpoints["e"]
	if e.Embedding == nil || e.Embedding.Space != "docs" || e.Embedding.Batch != 32 {
		t.Fatalf("%+v", e.Embedding)
	}
	p := e.Default()
	var names []string
	for _, target := range p.Targets(e.Prompt.Variants()[0]) {
		names = append(names, target.Provider+"/"+target.Model)
	}
	if !slices.Equal(names, []string{"openai/small", "azure/my-small"}) || *p.Retry.Count != 1 || p.Timeout.Total != 5*time.Second || p.MaxAttempts != 4 {
		t.Errorf("%v by %+v", names, p)
	}
	if len(slices.Collect(e.Called())) != 2 || len(slices.Collect(e.Named())) != 2 {
		t.Error("tools see other targets")
	}
	if len(s.Warnings) > 0 {
		t.Error(s.Warnings)
	}
	const want = `{"batch":32,"kind":"endpoint","max_attempts":4,"retry":{"count":1},"space":"docs","targets":[{"model":"small","provider":"openai"},{"model":"my-small","provider":"azure"}],"task":"embedding","timeout":{"first_token":"5s","idle":"5s","total":"5s"}}`
	if string(e.Content()) != want {
		t.Errorf("%s\nwant %s", e.Content(), want)
	}
}

func TestEmbeddingWeights(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{"endpoints/e.yaml": strings.ReplaceAll(embeddingTargets, "docs }", "docs, weight: 3 }")}))
	if w := s.Endpoints["e"].Default().Weights; !slices.Equal(w, []int{3, 3}) {
		t.Error(w)
	}
	if !strings.Contains(string(s.Endpoints["e"].Content()), `"weight":3`) {
		t.Error("a weight is not part of the version")
	}
}

func TestEmbeddingsThatAreWrong(t *testing.T) {
	one := "task: embedding\ntargets: [ { provider: openai, model: m, space: docs } ]\n"
	for text, want := range map[string]string{
		"task: image\nprompt: p\n":                                       `1:7: task must be one of chat, embedding, this is "image"`,
		"task: embedding\n":                                              "1:1: targets are missing: the models that make the vectors, such as - { provider: openai, model: text-embedding-3-small, space: docs }",
		"task: embedding\ntargets: openai\n":                             `2:10: targets must be a list such as - { provider: openai, model: text-embedding-3-small, space: docs }, this is "openai"`,
		"task: embedding\ntargets: [ { provider: openai, model: m } ]\n": "2:12: a target needs a space",
		"task: embedding\ntargets: [ { model: m, space: s } ]\n":         "2:12: a target needs a provider",
		"task: embedding\ntargets: [ { provider: openai, space: s } ]\n": "2:12: this target of the endpoint e has no model: name the one that openai is to call by the member model",
		"task: embedding\ntargets: [ { provider: a, model: m, space: s }, { provider: b, model: n, space: t } ]\n":                  `2:81: the space "t" is not "s", that of the first target: vectors of two spaces can't be compared, so an endpoint has one; write another endpoint for the other`,
		"task: embedding\ntargets: [ " + strings.Repeat("{ provider: a, model: m, space: s }, ", 11) + "]\n":                        "2:10: there are 11 targets, at most 10 are possible",
		"task: embedding\nmax_attempts: 1\ntargets: [ { provider: a, model: m, space: s }, { provider: b, model: n, space: s } ]\n": "2:15: max_attempts is 1 and there are 2 targets: some could never be tried",
		one + "prompt: p\n":                    "3:1: prompt is about answers in words: an endpoint with task: embedding has targets, batch, retry, max_attempts, timeout and log",
		one + "cache: { ttl: 1h }\n":           "3:1: cache is about answers in words",
		one + "hedge: { after: 1s }\n":         "3:1: hedge is about answers in words",
		one + "tests: []\n":                    "3:1: tests is about answers in words",
		one + "timeout: { first_token: 1s }\n": "3:25: first_token is about streams: vectors come at once, and have total alone",
		one + "batches: 3\n":                   `3:1: unknown member "batches" in an endpoint with task: embedding: did you mean "batch"?`,
		one + "batch: 4096\n":                  "3:8: batch must be",
		"prompt: p\ntargets: [ { provider: a, model: m, space: s } ]\n": "2:10: targets are for task: embedding: the targets of other endpoints are that of the prompt and the fallbacks",
	} {
		_, err := Load(workspace(t, map[string]string{"endpoints/e.yaml": text, "prompts/p.yaml": "provider: x\nmodel: m\nmessages: [ { role: user, content: hi } ]\n"}))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}

// TestEmbeddingsByCanned needs no model, and nothing to say.
func TestEmbeddingsByCanned(t *testing.T) {
	mustLoad(t, workspace(t, map[string]string{"endpoints/e.yaml": "task: embedding\ntargets: [ { provider: canned, space: docs } ]\n"}))
}
