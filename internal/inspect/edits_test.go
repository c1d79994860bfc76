package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

const editModel = `
fields:
  email: { type: string, ignore_case: true }
  name:  { type: string }
  plan:  { type: string, values: [free, pro, team] }
  tags:  { type: list }
  seats: { type: number }
  beta:  { type: boolean }
  since: { type: date }
  app:   { type: string, format: semver }
  ip:    { type: string, format: ip }
  id:    { type: string }
computed:
  big: seats > 50.0
segments:
  staff: [ { email: "*@acme.com" } ]
  team: [ { segment: staff, beta: true } ]
`

// edits are the edits of a workspace with the files a (a table) and
// context.yaml, and whether they change answers.
var edits = []struct {
	name, before, after string // rows of a, or the data model where they begin with fields:
	rows                string // of a, for edits of the data model
	same                bool   // nothing may be shown
	open                bool   // that nothing differs is not decided
}{
	{name: "suffix", before: `- { when: { email: "*@acme.com" }, value: 1 }`, after: `- { when: { email: "*acme.com" }, value: 1 }`},
	{name: "part", before: `- { when: { name: "*foo*" }, value: 1 }`, after: `- { when: { name: "*fo*" }, value: 1 }`},
	{name: "prefix", before: `- { when: { name: foo* }, value: 1 }`, after: `- { when: { name: fo* }, value: 1 }`},
	{name: "pattern", before: `- { when: { name: { matches: '^v[0-9]+$' } }, value: 1 }`, after: `- { when: { name: { matches: '^v[0-9]$' } }, value: 1 }`},
	{name: "alternatives of a pattern", before: `- { when: { name: { matches: '^(?:DE|AT)$' } }, value: 1 }`, after: `- { when: { name: { matches: '^(?:DE|AT|CH)$' } }, value: 1 }`},
	{name: "negated pattern", before: `- { when: { name: { not: { matches: 'a' } } }, value: 1 }`, after: `- { when: { name: { not: { matches: 'ab' } } }, value: 1 }`},
	{name: "two patterns", before: `- { when: { email: { all: ["*@acme.com", "*admin*"] } }, value: 1 }`, after: `- { when: { email: "*@acme.com" }, value: 1 }`},
	{name: "size", before: `- { when: { tags: { size: 2.. } }, value: 1 }`, after: `- { when: { tags: { size: 3.. } }, value: 1 }`},
	{name: "element", before: `- { when: { tags: a }, value: 1 }`, after: `- { when: { tags: b }, value: 1 }`},
	{name: "all to any", before: `- { when: { tags: { all: [a, b] } }, value: 1 }`, after: `- { when: { tags: [a, b] }, value: 1 }`},
	{name: "none", before: `- { when: { tags: { none: [a, b] } }, value: 1 }`, after: `- { when: { tags: { none: [a] } }, value: 1 }`},
	{name: "none beside any", before: `- { when: { tags: { any: [c], none: [a] } }, value: 1 }`, after: `- { when: { tags: c }, value: 1 }`},
	{name: "pre-release", before: `- { when: { app: 2.0.0.. }, value: 1 }`, after: `- { when: { app: 2.0.0-rc.1.. }, value: 1 }`},
	{name: "end of versions", before: `- { when: { app: ..<2.0.0-beta }, value: 1 }`, after: `- { when: { app: ..2.0.0-beta }, value: 1 }`},
	{name: "caret", before: `- { when: { app: ^2.1 }, value: 1 }`, after: `- { when: { app: ~2.1 }, value: 1 }`},
	{name: "network", before: `- { when: { ip: 10.0.0.0/8 }, value: 1 }`, after: `- { when: { ip: 10.0.0.0/9 }, value: 1 }`},
	{name: "number", before: `- { when: { seats: 10..20 }, value: 1 }`, after: `- { when: { seats: 10..<20 }, value: 1 }`},
	{name: "date", before: `- { when: { since: 2026-01-31 }, value: 1 }`, after: `- { when: { since: ..2026-01-31 }, value: 1 }`},
	{name: "boolean", before: `- { when: { beta: true }, value: 1 }`, after: `- { when: { beta: present }, value: 1 }`},
	{name: "closed value", before: `- { when: { plan: [pro, team] }, value: 1 }`, after: `- { when: { plan: pro }, value: 1 }`},
	{name: "missing", before: `- { when: { plan: not pro }, value: 1 }`, after: `- { when: { plan: [missing, not pro] }, value: 1 }`},
	{name: "value", before: `- { when: { name: "*z" }, value: 1 }`, after: `- { when: { name: "*z" }, value: 2 }`},
	{name: "order", before: "- { when: { name: \"*z\" }, value: 1 }\n- { when: { name: a* }, value: 2 }", after: "- { when: { name: a* }, value: 2 }\n- { when: { name: \"*z\" }, value: 1 }"},
	{name: "row taken away", before: "- { when: { tags: a }, value: 1 }\n- { when: { tags: b }, value: 2 }", after: "- { when: { tags: b }, value: 2 }"},
	{name: "row added", before: "- { when: { tags: a }, value: 1 }", after: "- { when: { email: \"*@x.org\", tags: b }, value: 2 }\n- { when: { tags: a }, value: 1 }"},
	{name: "segment for another", before: `- { when: { segment: staff }, value: 1 }`, after: `- { when: { segment: team }, value: 1 }`},
	{name: "segment negated", before: `- { when: { segment: staff, beta: true }, value: 1 }`, after: `- { when: { segment: not staff, beta: true }, value: 1 }`},
	{name: "computed", before: `- { when: { big: true }, value: 1 }`, after: `- { when: { big: [true, missing] }, value: 1 }`},
	{name: "schedule", before: `- { from: 2026-12-01, value: 1 }`, after: `- { from: 2026-12-02, value: 1 }`},
	{name: "end of a ramp", before: `- { id: r, ramp: { by: id, from: 0%, to: 100%, start: 2026-12-01, end: 2026-12-15 }, value: 1 }`, after: `- { id: r, ramp: { by: id, from: 0%, to: 100%, start: 2026-12-01, end: 2027-01-15 }, value: 1 }`},
	{name: "end of a small ramp", before: `- { id: r, ramp: { by: id, from: 0.1%, to: 0.2%, start: 2026-12-01, end: 2026-12-15 }, value: 1 }`, after: `- { id: r, ramp: { by: id, from: 0.1%, to: 0.2%, start: 2026-12-01, end: 2027-01-15 }, value: 1 }`},
	{name: "end of a ramp under way", before: `- { id: r, ramp: { by: id, from: 5%, to: 10%, start: 2026-10-01, end: 2026-12-15 }, value: 1 }`, after: `- { id: r, ramp: { by: id, from: 5%, to: 10%, start: 2026-10-01, end: 2027-01-15 }, value: 1 }`},
	{name: "share", before: `- { id: r, split: { by: id, of: [ { value: 1, share: 20% } ] } }`, after: `- { id: r, split: { by: id, of: [ { value: 1, share: 20.001% } ] } }`},
	// The data model.
	{name: "segment's pattern", rows: `- { when: { segment: staff }, value: 1 }`, before: `"*@acme.com"`, after: `"*@acme.org"`},
	{name: "segment's pattern, by another", rows: `- { when: { segment: team }, value: 1 }`, before: `"*@acme.com"`, after: `"*@acme.org"`},
	{name: "time zone", rows: `- { when: { since: 2026-01-31 }, value: 1 }`, before: "\nfields:", after: "\ntimezone: Europe/Brussels\nfields:"},
	{name: "time zone of a schedule", rows: `- { until: 2026-12-31, value: 1 }`, before: "\nfields:", after: "\ntimezone: Europe/Brussels\nfields:"},
	{name: "max", rows: `- { when: { seats: 10.. }, value: 1 }`, before: "seats: { type: number }", after: "seats: { type: number, max: 50 }"},
	{name: "max, by a computed field", rows: `- { when: { big: true }, value: 1 }`, before: "seats: { type: number }", after: "seats: { type: number, max: 60 }"},
	{name: "ignore_case", rows: `- { when: { email: "a@acme.com" }, value: 1 }`, before: "email: { type: string, ignore_case: true }", after: "email: { type: string }"},
	{name: "ignore_case, by a segment", rows: `- { when: { segment: team }, value: 1 }`, before: "email: { type: string, ignore_case: true }", after: "email: { type: string }"},
	{name: "coerce", rows: `- { when: { seats: 10.. }, value: 1 }`, before: "\nfields:", after: "\ncoerce: false\nfields:"},
	{name: "coerce of a field", rows: `- { when: { beta: true }, value: 1 }`, before: "beta:  { type: boolean }", after: "beta:  { type: boolean, coerce: false }"},
	{name: "closed values", rows: `- { when: { plan: [missing, pro] }, value: 1 }`, before: "[free, pro, team]", after: "[free, pro]"},
	{name: "expression", rows: `- { when: { big: true }, value: 1 }`, before: "seats > 50.0", after: "seats > 60.0"},
	{name: "targeting key", rows: `- { when: { id: present }, value: 1 }`, before: "\nfields:", after: "\ntargeting_key: id\nfields:"},
	{name: "type mismatch", rows: `- { when: { seats: missing }, value: 1 }`, before: "\nfields:", after: "\non_type_mismatch: reject\nfields:"},
	// What changes no answer.
	{name: "rewritten range", same: true, before: `- { when: { seats: { not: ..<10 } }, value: 1 }`, after: `- { when: { seats: 10.. }, value: 1 }`},
	{name: "rewritten list", same: true, before: `- { when: { tags: [a, b] }, value: 1 }`, after: "- { when: { tags: a }, value: 1 }\n- { when: { tags: b }, value: 1 }"},
	{name: "rewritten pattern", same: true, open: true, before: `- { when: { name: { matches: '^ab?$' } }, value: 1 }`, after: `- { when: { name: [a, ab] }, value: 1 }`},
	{name: "rewritten parts", same: true, before: `- { when: { email: ["*@a.com", "*a.com"] }, value: 1 }`, after: `- { when: { email: "*A.com" }, value: 1 }`},
	{name: "unreachable row", same: true, before: "- { when: { name: \"*z\" }, value: 1 }", after: "- { when: { name: \"*z\" }, value: 1 }\n- { when: { name: \"*az\" }, value: 2 }"},
	{name: "row that is past", same: true, before: "- { when: { name: \"*z\" }, value: 1 }", after: "- { when: { name: \"*x\" }, until: 2026-01-01, value: 2 }\n- { when: { name: \"*z\" }, value: 1 }"},
	{name: "field to be recorded", same: true, rows: `- { when: { segment: staff, big: true, email: "*x" }, value: 1 }`, before: "\nfields:", after: "\ntrace: { always: [id] }\nfields:"},
	{name: "field nobody reads", same: true, rows: `- { when: { segment: staff, big: true, email: "*x", since: 2026-01-31 }, value: 1 }`, before: "id:    { type: string }", after: "id:    { type: string, ignore_case: true }"},
	{name: "new field", same: true, rows: `- { when: { segment: staff, big: true, email: "*x", since: 2026-01-31 }, value: 1 }`, before: "\ncomputed:", after: "\n  new: boolean\ncomputed:"},
	{name: "time zone of numbers", same: true, rows: `- { when: { segment: staff, seats: 10.., email: "*x" }, value: 1 }`, before: "\nfields:", after: "\ntimezone: Europe/Brussels\nfields:"},
	{name: "case of numbers", same: true, rows: `- { when: { seats: 10.., name: "*x" }, value: 1 }`, before: "email: { type: string, ignore_case: true }", after: "email: { type: string }"},
	{name: "another segment", same: true, rows: `- { when: { segment: staff }, value: 1 }`, before: "team: [ { segment: staff, beta: true } ]", after: "team: [ { segment: staff, beta: false } ]"},
}

// TestEditsAreNotSilent shows contexts for each edit that changes answers, or
// says that it is not decided, and nothing for those that change none.
func TestEditsAreNotSilent(t *testing.T) {
	shown, undecided := 0, 0
	for _, e := range edits {
		t.Run(e.name, func(t *testing.T) {
			table := func(rows string) string { return "type: number\ndefault: 0\nrules:\n" + rows + "\n" }
			oldModel, newModel, oldRows, newRows := editModel, editModel, e.before, e.after
			if e.rows != "" {
				newModel = replaceOnce(t, editModel, e.before, e.after)
				oldRows, newRows = e.rows, e.rows
			}
			before := workspace(t, "context.yaml", oldModel, "remoteconfigs/a.yaml", table(oldRows))
			after := workspace(t, "context.yaml", newModel, "remoteconfigs/a.yaml", table(newRows))
			c, err := compareFolders(before, after)
			must(t, err)
			var change Change
			if len(c.Definitions) > 0 {
				change = c.Definitions[0]
			}
			silent := len(change.Answers) == 0 && change.Undecided == e.open
			switch {
			case e.same && !silent:
				t.Errorf("shown: %s, undecided %v", change.Answers, change.Undecided)
			case !e.same && silent:
				t.Errorf("nothing is shown: %+v", c)
			case len(change.Answers) > 0:
				shown++
				t.Logf("%s at %v: %s, %s", change.Answers[0].Context, change.Answers[0].At, change.Answers[0].Old.Value, change.Answers[0].New.Value)
			case !e.same:
				undecided++
			}
		})
	}
	t.Logf("%d shown, %d not decided", shown, undecided)
	if undecided > 3 {
		t.Errorf("%d edits are not decided", undecided)
	}
}

func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q occurs %d times", old, strings.Count(text, old))
	}
	return strings.Replace(text, old, new, 1)
}

// TestEditsOfLargeTables are decided where few rows have changed, and given up
// where many have, neither of which takes long.
func TestEditsOfLargeTables(t *testing.T) {
	const model = "fields:\n  customer: string\n"
	table := func(step, first int) string {
		var text strings.Builder
		text.WriteString("type: number\ndefault: 0\ncolumns: [customer, value]\nmatrix:\n")
		for i := range 5000 {
			i = i * step % 5000
			value := i
			if i == 2500 {
				value = first
			}
			fmt.Fprintf(&text, "- [customer-%d, %d]\n", i, value)
		}
		return text.String()
	}
	before := workspace(t, "context.yaml", model, "remoteconfigs/a.yaml", table(1, 7))
	for _, test := range []struct {
		name, table string
		want        string
		undecided   bool
	}{
		{"one value", table(1, 8), `{"customer":"customer-2500"}`, false},
		{"another order", table(7, 7), "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := compareFolders(before, workspace(t, "context.yaml", model, "remoteconfigs/a.yaml", test.table))
			if err != nil || len(c.Definitions) != 1 {
				t.Fatal(err, c)
			}
			change := c.Definitions[0]
			if change.Undecided != test.undecided || len(change.Answers) > 1 || test.want != "" && string(change.Answers[0].Context) != test.want {
				t.Errorf("got %+v", change)
			}
		})
	}
}

// TestLiteralsOfExpressions: fields are compared with each number and text, in whichever
// quotes it is.
func TestLiteralsOfExpressions(t *testing.T) {
	const model = "fields:\n  name: string\ncomputed:\n  a: name == \"x y\"\n  b: name == 'z'\n  c: size(name) > 3\n"
	var errs document.Errors
	rows := computedRows(document.Parse("context.yaml", []byte(model), &errs))
	must(t, errs.Err())
	var got []string
	for _, r := range rows {
		for _, cell := range r.cells {
			got = append(got, fmt.Sprint(cell.Key.Text, " ", cell.Value.Text, " ", cell.Value.Quoted))
		}
	}
	if want := []string{"name x y true", "name z true", "name 3 false", "name present false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
