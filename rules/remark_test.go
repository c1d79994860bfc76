package rules

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

// Quoted text that looks like a pattern or a range is hardly meant as text.
func TestQuotedTextThatLooksLikeACondition(t *testing.T) {
	m := model(t, "fields: { s: string, l: list, n: number, v: { type: string, format: semver }, closed: { type: string, values: [pre*, 'pre|pro'] } }")
	for cell, want := range map[string]string{
		`s: "/^v[0-9]+$/"`:  `"/^v[0-9]+$/" is the text itself because it is quoted: write {is: "/^v[0-9]+$/"} if that is meant, {matches: '^v[0-9]+$'} for the regular expression`,
		"s: pro\u00a0":      "\"pro\\u00a0\" has a no-break space (U+00A0) in it: delete it, or quote the value if it is meant",
		"l: [a, p\u200bro]": "\"p\\u200bro\" has a zero-width space (U+200B) in it",
		`s: "pre*"`:         `"pre*" is the text itself because it is quoted: write {is: "pre*"} if that is meant, pre* without quotes for all that begins so`,
		`s: '10..20'`:       `"10..20" is the text itself because it is quoted: write {is: "10..20"} if that is meant, a field of another type for a range, s is a string`,
		`l: [a, "10.."]`:    `"10.." is the text itself because it is quoted`,
		`l: { none: ["2026-01-01..<2026-02-01"] }`: `is the text itself because it is quoted`,
		`s: { not: "..1.2.3" }`:                    `"..1.2.3" is the text itself because it is quoted`,
		`s: "!= pro"`:                              `"!= pro" is the text itself: write {is: "!= pro"} if that is meant, not pro for all others`,
		`s: "== pro"`:                              "if that is meant, pro for that value",
		`s: ">= 10"`:                               "if that is meant, a range such as 10..20 in a field of another type, s is a string",
		`s: pro|free || a`:                         "if that is meant, [pro, free, a] for each of them",
		`s: not pro or free`:                       `"pro or free" is the text itself: write {is: "pro or free"} if that is meant, [pro, free] for each of them`,
		`l: [a, "<>b"]`:                            "if that is meant, not b for all others",
		`s: { is: "!= pro" }`:                      "",
		`s: "<b>"`:                                 "",
		`s: "=="`:                                  "",
		`s: a b | c d`:                             "",
		`s: one or the other`:                      "",
		`closed: "pre|pro"`:                        "",
		`s: { is: "pre*" }`:                        "",
		`s: { is: "10..20" }`:                      "",
		`s: { matches: '^v[0-9]' }`:                "",
		`s: pre*`:                                  "",
		`s: "*pre*"`:                               "",
		`s: "any"`:                                 "",
		`s: "a..b"`:                                "",
		`s: "Loading..."`:                          "",
		`s: "../up"`:                               "",
		`s: "/api/"`:                               "",
		`s: "*"`:                                   "",
		`n: "10..20"`:                              "", // quotes make no difference to numbers
		`v: "1.0..2.0"`:                            "",
		`closed: "pre*"`:                           "",
	} {
		tab := table(t, m, "rules: [{ when: { "+cell+" }, value: 1 }]")
		seg := model(t, "fields: { s: string, l: list, n: number, v: { type: string, format: semver }, closed: { type: string, values: [pre*, 'pre|pro'] } }\nsegments: { a: [ { "+cell+" } ] }")
		for what, remarks := range map[string][]Remark{"table": tab.Remarks(), "segment": seg.Remarks()} {
			got := ""
			if len(remarks) > 0 {
				got = remarks[0].Message
			}
			if len(remarks) > 1 || want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("%s, %s: %v, want %s", what, cell, remarks, want)
			}
		}
	}
	// One that is repeated is remarked on once.
	tab := table(t, m, "columns: [s, value]\nmatrix:\n  - [\"pre*\", 1]\n  - [\"pre*\", 2]\n")
	if diff := cmp.Diff([]document.Position{{File: "flag.yaml", Line: 3, Column: 6}}, positions(tab.Remarks())); diff != "" {
		t.Error(diff)
	}
}

func positions(remarks []Remark) []document.Position {
	list := make([]document.Position, len(remarks))
	for i, r := range remarks {
		list[i] = r.Pos
	}
	return list
}
