package rules

import (
	"strings"
	"testing"
)

func TestMissingLists(t *testing.T) {
	m := model(t, "fields:\n  tags: list\n  sure: { type: list, required: true }\n  plan: string\n  other: string\n")
	for cell, want := range map[string]string{
		"tags: not beta":                             "flag.yaml:2:21: tags: not beta does not match a context without tags: write [missing, not beta] if it should, {all: [present, not beta]} if not",
		"tags: { none: [a, b] }":                     "[missing, {none: [a, b]}]",
		"tags: [a, not b]":                           "[missing, [a, not b]]",
		"tags: [missing, not beta]":                  "",
		"tags: { all: [present, not beta] }":         "",
		"tags: { any: [a], none: [b] }":              "",
		"tags: { size: 2.., none: [b] }":             "",
		"tags: a":                                    "",
		"tags: present":                              "",
		"sure: not beta":                             "",
		"plan: not beta":                             "",
		"tags: { none: [a] }, plan: { none: [b, c]}": "tags: {none: [a]}",
	} {
		tab := table(t, m, "rules:\n  - { when: { "+cell+" }, value: a }\n  - { when: { "+cell+", other: x* }, value: b }\n")
		findings := tab.MissingLists()
		if want == "" && len(findings) == 0 {
			continue
		}
		if len(findings) != 1 || want == "" || !strings.Contains(findings[0].Pos.String()+": "+findings[0].Message, want) || findings[0].Kind.String() != "missing_list" {
			t.Errorf("%s: got %v", cell, findings)
		}
	}
}
