package rules

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

const solveModel = `
fields:
  email: { type: string, ignore_case: true }
  name:  { type: string }
  plan:  { type: string, values: [free, pro, team] }
  tags:  { type: list }
  kinds: { type: list, values: [a, b] }
  n:     { type: number }
  beta:  { type: boolean }
  since: { type: date }
  app:   { type: string, format: semver }
  ip:    { type: string, format: ip }
computed:
  big: n > 50.0
  word: name + "!"
segments:
  staff:  [ { tags: employee }, { email: "*@acme.com" } ]
  beta_users: [ { beta: true } ]
  not_staff: [ { segment: not staff } ]
`

// TestUniqueOverlaps are overlaps that a table with hit: unique must not have.
func TestUniqueOverlaps(t *testing.T) {
	m := model(t, solveModel)
	for _, rows := range []string{
		// Elements of lists.
		"tags: employee||tags: beta",
		"tags: employee||tags: { all: [beta, x] }",
		"tags: a||tags: { size: 2.. }",
		"tags: { all: [a, b] }||tags: a",
		"tags: { none: [a] }||tags: b",
		"tags: not a||tags: { size: 3 }",
		"tags: a*||tags: \"*z\"",
		"kinds: a||kinds: b",
		// Patterns.
		"email: \"*@acme.com\"||email: \"*admin*\"",
		"email: \"*@acme.com\"||email: \"*.com\"",
		"name: a*||name: \"*z\"",
		"name: \"*foo*\"||name: \"*bar*\"",
		"name: { matches: '^v[0-9]+$' }||name: \"*7\"",
		"name: { matches: '^(de|at)' }||name: { matches: 'x{3}\\b.$' }",
		"name: not foo||name: foo*",
		"email: { matches: '^[A-Z]+$' }||email: \"*Q\"",
		// Sizes.
		"tags: { size: 1..2 }||tags: { size: 2..3 }",
		// Segments.
		"segment: staff||segment: beta_users",
		"segment: staff||email: \"*admin*\"",
		"segment: [staff, beta_users]||n: 1",
		"segment: not_staff||n: 1",
		// Computed fields.
		"big: true||n: 55",
		"big: true||n: 10..60",
		"word: a!||name: a",
		// Versions.
		"app: 1.0.0-alpha..<1.0.0||app: ..<1.0.0-beta",
		"app: 1.0.0-alpha..<1.0.0-beta||app: not 1.0.0-alpha",
		"app: 2.0.0-rc.1..<2.0.0||app: not 2.0.0-rc.1",
		// Addresses, dates.
		"ip: 10.0.0.0/8||ip: 10.1.0.7..",
		"since: ..2026-01-31||since: 2026-01-31..",
	} {
		t.Run(rows, func(t *testing.T) {
			a, b, _ := strings.Cut(rows, "||")
			tab := table(t, m, "hit: unique\nrules:\n  - { when: { "+a+" }, value: a }\n  - { when: { "+b+" }, value: b }\n")
			findings := tab.Analyse(Analysis{Now: noon, Equal: equalText(tab)})
			checkFindings(t, m, tab, findings)
			for _, f := range findings {
				if f.Kind == Overlap && f.Witness != "" {
					t.Log(f.Witness)
					return
				}
			}
			t.Errorf("no overlap among %v", findings)
		})
	}
}

// TestUniqueClean are tables with hit: unique that are right, about which
// there is nothing to say.
func TestUniqueClean(t *testing.T) {
	m := model(t, solveModel)
	for _, rows := range []string{
		"tags: a||tags: { none: [a] }",
		"tags: { all: [a, b] }||tags: not a",
		"tags: { size: 1 }||tags: { all: [a, b] }",
		"tags: { size: 1 }||tags: { size: 2.. }",
		"kinds: { size: 1.., none: [a] }||kinds: { none: [b] }||kinds: { all: [a, b] }",
		"email: \"*@acme.com\"||email: \"*@acme.org\"",
		"email: \"*@acme.com\"||email: { not: \"*.com\" }",
		"name: a*||name: { matches: '^b' }",
		"name: { matches: '^v[0-9]+$' }||name: { matches: '^w' }",
		"name: \"*foo*\"||name: { none: [\"*fo*\"] }",
		"plan: free||plan: [pro, team]",
		"plan: \"*e\"||plan: p*||plan: team",
		"segment: staff||segment: not staff",
		"segment: staff||segment: not_staff",
		"segment: staff||tags: { none: [employee] }, email: { not: \"*@acme.com\" }",
		"segment: beta_users||beta: false",
		"big: true||big: false||big: missing",
		"app: ..<1.0.0-beta||app: 1.0.0-beta..<1.0.0||app: 1.0.0..",
		"app: 1.0.0||app: 1.0.1",
		"n: ..<10||n: 10..<20||n: 20..",
	} {
		t.Run(rows, func(t *testing.T) {
			text := "hit: unique\nrules:\n"
			for i, row := range strings.Split(rows, "||") {
				text += "  - { when: { " + row + " }, value: " + string(rune('a'+i)) + " }\n"
			}
			tab := table(t, m, text)
			for _, f := range tab.Analyse(Analysis{Now: noon, Equal: equalText(tab)}) {
				t.Errorf("%s: %s %s", f.Kind, f.Message, f.Witness)
			}
		})
	}
}

// TestPatternsNotDecided are patterns that exclude each other by what repeats or by
// letters of either case, which is said not to be decided.
func TestPatternsNotDecided(t *testing.T) {
	m := model(t, solveModel)
	for _, rows := range [][2]string{
		{"name: { matches: '^[a-c]+$' }", "name: \"*d*\""},
		{"email: { matches: '^ADMIN' }", "email: { not: Admin* }"},
	} {
		tab := table(t, m, "hit: unique\nrules:\n  - { when: { "+rows[0]+" }, value: a }\n  - { when: { "+rows[1]+" }, value: b }\n")
		const want = "not decided whether row 1 and row 2 match the same context with different values"
		if findings := tab.Analyse(Analysis{Now: noon, Equal: equalText(tab)}); len(findings) != 1 || findings[0].Message != want {
			t.Errorf("%s: %v", rows, findings)
		}
	}
}

// TestContradictions are rows that no context matches, which is said of them
// and nothing else.
func TestContradictions(t *testing.T) {
	m := model(t, solveModel)
	for row, want := range map[string]string{
		"beta: { none: [true, false] }":                    "row 1 never matches: no beta meets {none: [true, false]}",
		"plan: { none: [free, pro, team] }":                "row 1 never matches: no plan meets {none: [free, pro, team]}",
		"plan: { all: [f*, \"*m\"] }":                      "row 1 never matches: no plan meets",
		"tags: { size: 0 }":                                "row 1 never matches: no tags meets {size: 0} (an empty list counts as missing)",
		"tags: { size: 0.5 }":                              "row 1 never matches",
		"tags: { all: [a], none: [a] }":                    "row 1 never matches: no tags meets {all: [a], none: [a]}",
		"tags: { size: 1, all: [a, b] }":                   "row 1 never matches",
		"kinds: { none: [a, b] }":                          "row 1 never matches",
		"email: { all: [\"*x\", { not: \"*x\" }] }":        "row 1 never matches",
		"email: { all: [\"*@a.com\", \"*@b.com\"] }":       "row 1 never matches",
		"name: { all: [{ matches: '^a' }, \"*z\", b*] }":   "row 1 never matches",
		"segment: { all: [staff], none: [staff] }":         "row 1 never matches: no context meets segment: {all: [staff], none: [staff]}",
		"segment: { all: [staff, not_staff] }":             "row 1 never matches",
		"segment: beta_users, beta: false":                 "row 1 never matches: its cells contradict each other",
		"segment: { none: [staff] }, tags: employee":       "row 1 never matches",
		"app: { all: [1.0.0-rc.1.., ..<1.0.0-beta] }":      "",
		"n: { all: [1.., ..2] }, segment: staff, big: any": "",
		"tags: [missing, { size: 0 }]":                     "",
	} {
		t.Run(row, func(t *testing.T) {
			var errs document.Errors
			tab := DecodeTable(m, parseYAML(t, "flag.yaml", "rules:\n  - { when: { "+row+" }, value: a }\n  - { value: b }\n"), Options{}, &errs)
			if errs.Len() > 0 { // found while reading the cell
				if !strings.Contains(mistakes(&errs), "never matches") {
					t.Error(mistakes(&errs))
				}
				return
			}
			findings := tab.Analyse(Analysis{Now: noon, Equal: equalText(tab)})
			if want == "" && len(findings) == 0 {
				return
			}
			if len(findings) != 1 || findings[0].Kind != Contradiction || !strings.HasPrefix(findings[0].Message, want) {
				t.Errorf("got %v", findings)
			}
		})
	}
}

// TestFindTextAgainstAllTexts asks for texts that meet random trees of tests, and holds
// the answers against all short texts of three letters.
func TestFindTextAgainstAllTexts(t *testing.T) {
	alone(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	g := generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	m := model(t, "fields:\n  name: string\n")
	texts := []string{"a", "b", "c"}
	for from := 0; len(texts) < 1000; from++ {
		texts = append(texts, texts[from]+"a", texts[from]+"b", texts[from]+"c")
	}
	cells := []string{"a*", "b*", "ab*", "\"*a\"", "\"*b\"", "\"*ab\"", "\"*bc*\"", "\"*a*\"", "ab", "abc", "[a, b]", "{ matches: '^a' }", "{ matches: '^ab?$' }",
		"{ matches: 'b' }", "{ matches: '^[ab]+$' }", "{ matches: '(ab|bc)$' }", "{ matches: 'a.c' }", "{ matches: '^b{2}' }"}
	var cell func(depth int) string
	cell = func(depth int) string {
		if depth == 0 || g.IntN(3) == 0 {
			return pick(g, cells)
		}
		if g.IntN(3) == 0 {
			return "{ not: " + cell(depth-1) + " }"
		}
		return "{ " + pick(g, []string{"all", "any", "none"}) + ": [ " + cell(depth-1) + ", " + cell(depth-1) + " ] }"
	}
	count := make(map[verdict]int)
	for range 3000 {
		var errs document.Errors
		written := "{ all: [ " + cell(2) + ", " + cell(2) + " ] }"
		r := &cellReader{m: m, errs: &errs}
		f := &m.fields[0]
		c := r.cell(f, parseYAML(t, "cell.yaml", written), false)
		left := DefaultBudget
		text, v := findText(f, c.pred, &left)
		count[v]++
		switch v {
		case met:
			if !c.pred.matchText(text) {
				t.Errorf("%s: %q does not meet it", written, text)
			}
		case empty:
			if i := slices.IndexFunc(texts, c.pred.matchText); i >= 0 {
				t.Errorf("%s: %q meets it, which was said of none", written, texts[i])
			}
		}
	}
	t.Logf("%d found, %d impossible, %d not decided", count[met], count[empty], count[open])
	if count[empty] < 100 || count[open] > 300 {
		t.Error("too few are decided")
	}
}
