package inspect

import "testing"

// TestEvaluateEmbedding has no prompt to show.
func TestEvaluateEmbedding(t *testing.T) {
	s := load(t, workspace(t, "endpoints/docs.yaml", "task: embedding\ntargets: [ { provider: openai, model: small, space: s } ]\n"))
	a, err := Evaluate(s, Query{Key: "docs"})
	must(t, err)
	if string(a.Value) != `{"space":"s","task":"embedding"}` || a.Accept != nil || len(a.Targets) != 1 || a.Targets[0].Model != "small" {
		t.Errorf("%+v", a)
	}
	if uses := Summaries(s); len(uses) != 1 || len(uses[0].Uses) != 0 {
		t.Errorf("%+v", uses)
	}
}
