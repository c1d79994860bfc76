package inspect

import (
	"strings"
	"testing"
)

// Contexts that a comparison makes have nested members where the
// data model reads them.
func TestNestedFields(t *testing.T) {
	const model = "on_unknown_field: reject\nfields:\n  country: { type: string, path: user.address.country }\n  plan: { type: string, path: user.plan }\n"
	table := func(value string) string {
		return "type: string\ndefault: x\ncolumns: [country, plan, value]\nmatrix: [[be, any, one], [nl, pro, " + value + "]]\n"
	}
	c := compareDirs(t, workspace(t, "context.yaml", model, "remoteconfigs/c.yaml", table("two")), workspace(t, "context.yaml", model, "remoteconfigs/c.yaml", table("three")))
	if got, want := summary(c), `{"user":{"address":{"country":"nl"},"plan":"pro"}}`; !strings.Contains(got, want) {
		t.Errorf("%s has no %s", got, want)
	}
	s := load(t, workspace(t, "context.yaml", model, "remoteconfigs/c.yaml", table("two")))
	a, err := Evaluate(s, Query{Key: "c", Context: object(t, `{"user":{"address":{"country":"nl"},"plan":"pro"}}`)})
	if err != nil || string(a.Value) != `"two"` {
		t.Errorf("%v, %v", a, err)
	}
}
