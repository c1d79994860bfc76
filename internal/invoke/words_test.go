package invoke

import (
	"strings"
	"testing"
)

// TestWordsAreCountedAsTheTextIs counts each text twice: a word is remembered the second
// time.
func TestWordsAreCountedAsTheTextIs(t *testing.T) {
	for name, text := range corpus(t) {
		for at := 0; at < len(text); at += 700 {
			piece := text[at:min(at+700, len(text))]
			want := tokenize(piece)
			for range 2 {
				if got := countWords(piece); got != want {
					t.Fatalf("%s: %d tokens in words, %d in the text %q", name, got, want, piece)
				}
			}
		}
	}
	// All that may be around a space or a line break.
	around := []string{"a", "B", "7", ",", "'s", "\n", "\t", " ", "\u00a0", "\u3000", "\u0085", "é", "天", "\xff", "e\u0301"}
	for _, before := range around {
		for _, first := range around {
			for _, second := range around {
				for _, between := range []string{" ", "\n", "\r\n"} {
					text := before + between + first + " " + second
					if got, want := countWords(text), tokenize(text); got != want {
						t.Errorf("%q: %d tokens in words, %d in the text", text, got, want)
					}
				}
			}
		}
	}
	if countWords("") != 0 {
		t.Error("no text has tokens")
	}
}

func FuzzCountWords(f *testing.F) {
	for _, text := range corpus(f) {
		f.Add(text[:min(len(text), 100)])
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := countWords(text), tokenize(text); got != want {
			t.Errorf("%q: %d tokens in words, %d in the text", text, got, want)
		}
	})
}

// TestRememberedWordsAllocateNothing counts one word again and again. Two words could
// have the same place in the cache, by the seed of the hashes.
func TestRememberedWordsAllocateNothing(t *testing.T) {
	text := strings.Repeat(" word", 100)
	countWords(text)
	if n := testing.AllocsPerRun(10, func() { countWords(text) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
