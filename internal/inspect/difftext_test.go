package inspect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLineDiff(t *testing.T) {
	for _, test := range []struct{ before, after, want string }{
		{"a b c", "a b c", ""},
		{"a b d", "a c d", "-b +c"},
		{"", "a b", "+a +b"},
		{"a b", "", "-a -b"},
		{"a b c d", "a x b d y", "+x -c +y"},
		{"a a", "a", "-a"},
	} {
		if got := strings.Join(lineDiff(strings.Fields(test.before), strings.Fields(test.after)), " "); got != test.want {
			t.Errorf("%s to %s: %q, want %q", test.before, test.after, got, test.want)
		}
	}
	// Texts that are too large to be compared are replaced.
	var long [2][]string
	for i := range 2000 {
		long[0], long[1] = append(long[0], fmt.Sprint(i)), append(long[1], fmt.Sprint(i*7%2000))
	}
	if diff := lineDiff(long[0][1:], long[1][1:]); len(diff) != 2*1999-2 && len(diff) != 2*1999 {
		t.Errorf("%d lines", len(diff))
	}
}

// TestLineDiffHasAllThatDiffers holds that what is left out on both sides is the
// same.
func TestLineDiffHasAllThatDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 8)
		before, after := lines.Draw(t, "before"), lines.Draw(t, "after")
		diff := lineDiff(before, after)
		count := func(lines []string, sign string) map[string]int {
			n := map[string]int{}
			for _, line := range lines {
				if text, ok := strings.CutPrefix(line, sign); ok {
					n[text]++
				}
			}
			return n
		}
		removed, added := count(diff, "-"), count(diff, "+")
		for _, line := range []string{"a", "b", "c"} {
			if count(before, "")[line]-removed[line] != count(after, "")[line]-added[line] {
				t.Fatalf("%v to %v: %v", before, after, diff)
			}
		}
		if len(diff) == 0 != slices.Equal(before, after) {
			t.Fatalf("%v to %v: %v", before, after, diff)
		}
	})
}

// TestTextOfMessages holds what is shown of messages that differ, and that the
// same edit of several variants is shown once.
func TestTextOfMessages(t *testing.T) {
	prompt := func(messages string) string {
		return "default: en\nvariants:\n  en:\n    model: m\n    provider: p\n    messages:" + messages + "\n  nl: { extends: en }\n"
	}
	old := workspace(t, "prompts/p.yaml", prompt("\n      - { role: system, content: \"One.\\nTwo.\" }"))
	for name, test := range map[string]struct {
		messages string
		want     []string
	}{
		"a line":    {"\n      - { role: system, content: \"One.\\nThree.\" }", []string{"-Two.", "+Three."}},
		"a role":    {"\n      - { role: user, content: \"One.\\nTwo.\" }", []string{"-system: One.", "+user: One."}},
		"a message": {"\n      - { role: system, content: \"One.\\nTwo.\" }\n      - { role: user, content: Hi }", []string{"+user: Hi"}},
		"parts": {"\n      - { role: system, content: [ { text: \"One.\\nTwo.\" } ] }\n      - { role: user, content: [ { image: \"https://x.test/i\", detail: low, type: image/png }, { file: \"data:a/b;base64," + strings.Repeat("a", 400) + "\" } ] }",
			[]string{"+user, image: https://x.test/i (detail low, type image/png)", "+user, file: data:a/b;base64,aaaaaaaaaaaaaaaaaaaaaaaa… (416 bytes, SHA-256 b912f126f03a…)"}},
		"a place": {"\n      - { role: system, content: \"One.\\nTwo.\" }\n      - { history: true, max_messages: 3, roles: [user, assistant] }", []string{"+the caller's messages (max_messages 3, roles [user assistant])"}},
		"many":    {"\n      - { role: system, content: \"" + strings.Repeat(`Line.\n`, 50) + "\" }", nil},
	} {
		c, err := compareFolders(old, workspace(t, "prompts/p.yaml", prompt(test.messages)))
		must(t, err)
		texts := c.Definitions[0].Texts
		if len(texts) != 1 || !slices.Equal(texts[0].Paths, []string{"variants.en.messages", "variants.nl.messages"}) {
			t.Fatalf("%s: %+v", name, texts)
		}
		if got := texts[0].Lines; test.want != nil && !slices.Equal(got, test.want) || test.want == nil && (len(got) != 41 || got[40] != " and 12 more lines") {
			t.Errorf("%s: %d %q", name, len(got), got)
		}
	}
}
