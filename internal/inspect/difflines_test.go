package inspect

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// written writes a comparison, with changed words in braces.
func written(lines []TextLine) string {
	var b strings.Builder
	for _, l := range lines {
		if l.Skipped > 0 {
			fmt.Fprintf(&b, "%d skipped\n", l.Skipped)
			continue
		}
		fmt.Fprintf(&b, "%d %d %s", l.Old, l.New, l.Sign())
		for _, p := range l.Parts {
			if p.Changed {
				b.WriteString("{" + p.Text + "}")
			} else {
				b.WriteString(p.Text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestCompareTexts(t *testing.T) {
	numbers := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strconv.Itoa(i+1) + "\n")
		}
		return b.String()
	}
	for _, test := range []struct{ name, before, after, want string }{
		{"equal", "a\nb\n", "a\nb", ""},
		{"empty", "", "", ""},
		{"added", "", "a\nb\n", "0 1 +a\n0 2 +b\n"},
		{"removed", "a", "", "1 0 -a\n"},
		{"words", "one two three", "one 2 three", "1 0 -one {two} three\n0 1 +one {2} three\n"},
		{"more added than removed", "one two", "one too\nthree", "1 0 -one {two}\n0 1 +one {too}\n0 2 +three\n"},
		{"no word", "a\n\nb", "a\n \nb", "1 1  a\n2 0 -\n0 2 +{ }\n3 3  b\n"},
		{"apart", numbers(20), strings.Replace(strings.Replace(numbers(20), "\n5\n", "\nfive\n", 1), "\n18\n", "\n", 1),
			"1 1  1\n2 2  2\n3 3  3\n4 4  4\n5 0 -{5}\n0 5 +{five}\n6 6  6\n7 7  7\n8 8  8\n6 skipped\n15 15  15\n16 16  16\n17 17  17\n18 0 -18\n19 18  19\n20 19  20\n"},
		{"near", numbers(12), strings.Replace(strings.Replace(numbers(12), "2\n", "", 1), "10\n", "", 1),
			"1 1  1\n2 0 -2\n3 2  3\n4 3  4\n5 4  5\n6 5  6\n7 6  7\n8 7  8\n9 8  9\n10 0 -10\n11 9  11\n12 10  12\n"},
	} {
		got := written(CompareTexts(test.before, test.after))
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s:\n%s", test.name, diff)
		}
	}
	if lines := CompareTexts(strings.Repeat("a\n", 3000), ""); len(lines) != comparedShown+1 || lines[comparedShown].Skipped != 1000 {
		t.Errorf("%d lines of 3000", len(lines))
	}
}

func TestContentText(t *testing.T) {
	const content = `{"columns":["id","plan"],"default":{"rpm":1.50},"empty":{},"matrix":[["a","<b>"],["c",{"any":[1]}]],"messages":[{"content":"One\nTwo\n","role":"user"},{"content":" x","role":"user"}],"on":true,"stop":[]}`
	const want = `columns:
  - id
  - plan
default:
  rpm: 1.50
empty: {}
matrix:
  - ["a","<b>"]
  - ["c",{"any":[1]}]
messages:
  - content: |
      One
      Two
    role: user
  - content: " x"
    role: user
on: true
stop: []
`
	if diff := cmp.Diff(want, ContentText([]byte(content))); diff != "" {
		t.Error(diff)
	}
	if text := ContentText([]byte("{")); text != "{" {
		t.Errorf("no JSON: %q", text)
	}
}

// TestCompareTextsRandom: the lines of a comparison, with those that it skips, are both texts.
func TestCompareTextsRandom(t *testing.T) {
	_, pick := randomly(t)
	text := func() string {
		var b strings.Builder
		for pick("0", "1", "2", "3", "4", "5", "6", "7", "8", "9") != "0" {
			b.WriteString(pick("a", "b", "a b", "b a", "") + "\n")
		}
		return b.String()
	}
	for range 2000 {
		before, after := text(), text()
		a, b := linesOf(before), linesOf(after)
		i, j := 0, 0
		for _, l := range CompareTexts(before, after) {
			whole := ""
			for _, p := range l.Parts {
				whole += p.Text
			}
			if l.Skipped > 0 {
				i, j = i+l.Skipped, j+l.Skipped
				continue
			}
			if l.Old > 0 {
				if i++; l.Old != i || a[i-1] != whole {
					t.Fatalf("%q and %q: line %+v of the first", before, after, l)
				}
			}
			if l.New > 0 {
				if j++; l.New != j || b[j-1] != whole {
					t.Fatalf("%q and %q: line %+v of the second", before, after, l)
				}
			}
		}
		if before != after && (i != len(a) || j != len(b)) && strings.TrimSuffix(before, "\n") != strings.TrimSuffix(after, "\n") {
			t.Fatalf("%q and %q: ended at %d and %d", before, after, i, j)
		}
	}
}
