package rules

import (
	"strings"
	"testing"
	"time"
)

// Whole numbers in an expression are numbers that a field's can be compared
// and reckoned with.
func TestWholeNumbersInExpressions(t *testing.T) {
	const context = `{"n":3,"tags":["a","b"]}`
	for expr, want := range map[string]string{
		"n == 3":                       "true",
		"3 == n":                       "true",
		"n != 3":                       "false",
		"n == -3":                      "false",
		"n * 2 > 3":                    "true",
		"n * 2 > 6":                    "false",
		"2 + n == 5":                   "true",
		"n / 2 == 1.5":                 "true",
		"n - 1 - 1 == 1":               "true",
		"(n + 1) * (n - 1) == 2 + 6":   "true",
		"7 / 2 == n":                   "true", // ints among themselves are as they were
		"n == 7 / 2":                   "true",
		"n == 7 % 4":                   "true",
		"n == size(tags) + 1":          "true",
		"n in [1, 2, 3]":               "true",
		"n in [1, 2]":                  "false",
		"n in [1.5, 3]":                "true",
		"(n > 2 ? n : 0) == 3":         "true",
		"(n > 5 ? n : 0) == 0":         "true",
		"tags.exists(t, n == 3)":       "true",
		"[1, 2].exists(i, n == i + 1)": "true",
		"int(n) % 2 == 1":              "true",
		"n + 1":                        "4",
		"size(tags)":                   "2",
	} {
		m := model(t, "fields: { n: number, tags: list }\ncomputed:\n  c: '"+expr+"'")
		tab := table(t, m, "rules: [{ when: { c: "+want+" }, value: yes }]")
		if got := outcome(tab, tab.Evaluate(bind(t, m, context))); got != "yes" {
			t.Errorf("%s is not %s", expr, want)
		}
	}
}

// A long sum is not checked again for each of its numbers.
func TestLongExpression(t *testing.T) {
	begun := time.Now()
	m := model(t, "fields: { n: number }\ncomputed: { c: 'n"+strings.Repeat(" + 1", 200)+" == 203' }")
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("%v", took)
	}
	tab := table(t, m, "rules: [{ when: { c: true }, value: yes }]")
	if got := outcome(tab, tab.Evaluate(bind(t, m, `{"n":3}`))); got != "yes" {
		t.Error(got)
	}
}
