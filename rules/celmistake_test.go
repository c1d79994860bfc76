package rules_test

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/rules"
)

// Each expression has its mistake and the mistake's position in characters.
func TestExpressionMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`seats => 100`:                    `character 7: unexpected =>: write >=`,
		`"é" == plan && seats =< 1`:       `character 22: unexpected =<: write <=`,
		`plan = "pro"`:                    `character 6: unexpected =: write ==`,
		`plan <> "pro"`:                   `character 6: unexpected <>: write !=`,
		`seats > 1 and beta`:              `character 11: unexpected and: write &&`,
		`beta OR seats > 1`:               `character 6: unexpected OR: write ||`,
		`not beta`:                        `character 1: unexpected not: write !`,
		`beta & beta`:                     `character 6: unexpected &: write &&`,
		`plan == 'pro`:                    `character 9: the text that begins here has no closing quote`,
		`(seats > 1 && beta`:              `character 1: what begins here has no end: ) is missing`,
		`seats in [1, 2`:                  `character 10: what begins here has no end: ] is missing`,
		`seats > 1)`:                      `character 10: unexpected ): nothing that it could end is open`,
		`seats > 1 ? 'a'`:                 `character 11: unexpected ?: a choice is written condition ? value : other value`,
		`plan == "a and b" && seats >`:    `character 29: the expression ends too early`,
		`seats > 100 200`:                 `character 13: unexpected 200`,
		`seats > $x`:                      `character 9: unexpected $`,
		`len(plan) > 3`:                   `character 4: unknown function "len": did you mean "size"?`,
		`plan == pro`:                     `character 9: unknown field "pro" (known: now, plan, seats, beta, since), if it is text, write "pro" with the quotes`,
		`since > "2026-01-31"`:            `character 7: > does not take a date and text: write timestamp("2026-01-31T00:00:00Z")`,
		`seats.startsWith("a")`:           `character 17: startsWith does not take a number and text: a number has no quotes, and string(n) makes text of one`,
		`beta ? seats : plan`:             `character 6: ? : does not take a boolean and a number and text: a number has no quotes, and string(n) makes text of one`,
		`beta && seats`:                   `character 9: expected a boolean, found a number`,
		`{"a": seats > 1 ? 1 : 2}["a"] =`: `character 31: unexpected =: write ==`,
	} {
		model := "fields: { plan: string, seats: number, beta: boolean, since: date }\ncomputed:\n  x:\n    expr: '" + strings.ReplaceAll(text, "'", "''") + "'\n"
		got := ""
		if _, err := rules.ParseModel("context.yaml", []byte(model)); err != nil {
			_, got, _ = strings.Cut(err.Error(), `the expression of the computed field "x", `)
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// A field whose type is a mistake, or whose expression is one, has no further
// mistakes in its cells.
func TestNoMistakesOfUnknownFields(t *testing.T) {
	model := "fields: { seats: { type: integer }, plan: {} }\ncomputed: { big: seats >, huge: big && seats > 1 && plan == 'x' }\nsegments: { s: [ { seats: 10.., big: true } ] }\n"
	_, err := rules.ParseModel("context.yaml", []byte(model))
	want := `context.yaml:1:26: the type of the field "seats" must be one of boolean, date, list, number, string, this is "integer"
context.yaml:1:43: the field "plan" needs a type: boolean, date, list, number or string
context.yaml:2:18: the expression of the computed field "big", character 8: the expression ends too early`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}
