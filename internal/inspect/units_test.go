package inspect

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/rules"
)

// TestUnitChanges names the units that an edit moves, and compares each share with what
// becomes of 20,000 units.
func TestUnitChanges(t *testing.T) {
	for _, test := range []struct{ name, before, after, want string }{
		{"a share that is not the last",
			`- { id: r, split: { by: id, of: [ { value: 1, share: 20%, name: a }, { value: 2, share: 30%, name: b } ] } }`,
			`- { id: r, split: { by: id, of: [ { value: 1, share: 30%, name: a }, { value: 2, share: 30%, name: b } ] } }`,
			"r (by id): 10 % of units move from b to a, 10 % of units come to b from the rows below"},
		{"the last share", `- { id: r, split: { by: id, of: [ { value: 1, share: 20% }, { value: 2, share: 30% } ] } }`,
			`- { id: r, split: { by: id, of: [ { value: 1, share: 20% }, { value: 2, share: 30.125% } ] } }`,
			"r (by id): 0.125 % of units come to 2 from the rows below"},
		{"coverage", `- { id: r, split: { by: id, coverage: 50%, of: [ { value: 1, share: 20% }, { value: 2, share: 80% } ] } }`,
			`- { id: r, split: { by: id, coverage: 40%, of: [ { value: 1, share: 20% }, { value: 2, share: 80% } ] } }`,
			"r (by id): 8 % of units go from 2 to the rows below, 2 % of units go from 1 to the rows below"},
		{"another salt", `- { id: r, split: { by: id, of: [ { value: 1, share: 20% }, { value: 2, share: 80% } ] } }`,
			`- { id: r, split: { by: id, salt: new, of: [ { value: 1, share: 20% }, { value: 2, share: 80% } ] } }`,
			"r (by id): units are dealt anew (salt r -> new), about 32 % of units get another arm"},
		{"another id", `- { id: r, when: { name: a }, split: { by: id, of: [ { value: 1, share: 50% } ] } }`,
			`- { id: s, when: { name: a }, split: { by: id, of: [ { value: 1, share: 50% } ] } }`,
			"s (by id): units are dealt anew (salt r -> s), about 50 % of units get another arm"},
		{"another field", `- { id: r, split: { by: id, of: [ { value: 1, share: 50% } ] } }`, `- { id: r, split: { by: name, of: [ { value: 1, share: 50% } ] } }`,
			"r (by name): units are dealt anew (by id -> name), about 50 % of units get another arm"},
		{"a ramp", `- { id: r, value: 1, ramp: { by: id, from: 10%, to: 50%, start: 2026-10-01, end: 2026-12-15 } }`,
			`- { id: r, value: 1, ramp: { by: id, from: 70%, to: 100%, start: 2027-10-01, end: 2027-12-15 } }`,
			"r (by id): 26.8 % of units go from 1 to the rows below"},
		{"no split any more", `- { id: r, split: { by: id, of: [ { value: 1, share: 50% }, { value: 2, share: 50% } ] } }`, `- { id: r, value: 2 }`,
			"r (by id): 50 % of units move from 1 to 2"},
		{"a split for a value", `- { when: { name: a }, value: 1 }`, `- { id: r, when: { name: a }, split: { by: id, of: [ { value: 1.0, share: 90% }, { value: 2, share: 10% } ] } }`,
			"r (by id): 10 % of units move from 1 to 2"},
		{"another order", `- { id: r, split: { by: id, of: [ { value: 1, share: 30% }, { value: 2, share: 70% } ] } }`,
			`- { id: r, split: { by: id, of: [ { value: 2, share: 70% }, { value: 1, share: 30% } ] } }`,
			"r (by id): 30 % of units move from 1 to 2, 30 % of units move from 2 to 1"},
		{"a name", `- { id: r, split: { by: id, of: [ { value: 1, share: 30%, name: a } ] } }`, `- { id: r, split: { by: id, of: [ { value: 7, share: 30%, name: a } ] } }`, ""},
		{"a row above", `- { id: r, split: { by: id, of: [ { value: 1, share: 30% } ] } }`, "- { when: { name: b }, value: 2 }\n- { id: r, split: { by: id, of: [ { value: 1, share: 30% } ] } }", ""},
		{"a row of its own", `- { value: 1 }`, "- { id: r, when: { name: b }, split: { by: id, of: [ { value: 1, share: 30% } ] } }\n- { value: 1 }", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			const model = "fields:\n  id: string\n  name: string\n"
			table := func(rows string) string { return "type: number\ndefault: 0\nrules:\n" + rows + "\n" }
			oldDir := workspace(t, "context.yaml", model, "remoteconfigs/a.yaml", table(test.before))
			newDir := workspace(t, "context.yaml", model, "remoteconfigs/a.yaml", table(test.after))
			c, err := compareFolders(oldDir, newDir)
			if err != nil || len(c.Definitions) != 1 {
				t.Fatal(err, c)
			}
			units, share := c.Definitions[0].Units, 0.0
			var got []string
			for _, u := range units {
				got, share = append(got, u.String()), share+u.Share
			}
			if strings.Join(got, "\n") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			findings := MovedUnits(load(t, oldDir), load(t, newDir), now)
			if between := strings.Contains(test.want, "move") || strings.Contains(test.want, "anew"); (len(findings) > 0) != between {
				t.Errorf("findings %v", findings)
			}
			if test.want == "" {
				return
			}
			const n = 20_000
			value := func(s *definition.Snapshot, context *fastjson.Value) []byte {
				var b rules.Binding
				must(t, s.Model.Bind(&b, context, now))
				v, _ := s.RemoteConfigs["a"].Evaluate(&b)
				return v
			}
			before, after, changed := load(t, oldDir), load(t, newDir), 0
			for i := range n {
				context := fastjson.MustParse(fmt.Sprintf(`{"name":"a","id":"unit-%d"}`, i))
				if !sameValue(value(before, context), value(after, context)) {
					changed++
				}
			}
			if got := float64(changed) / n; math.Abs(got-share) > 0.02 {
				t.Errorf("%g of the units got another value, %g is said", got, share)
			}
		})
	}
}
