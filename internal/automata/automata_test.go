package automata_test

import (
	"fmt"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/automata"
)

func anyRune(rune) bool { return true }

func Example() {
	budget := 10_000
	s := automata.New(&budget)
	part, end := s.Part("ab"), s.Suffix("b")
	text, found, _ := s.Find(func(rune) bool { return true }, func(accepts func(int) bool) bool {
		return accepts(part) && !accepts(end)
	})
	fmt.Println(text, found)
	// Output: aba true
}

// TestNoText asks for what no text meets, and for more than the bounds allow.
func TestNoText(t *testing.T) {
	for _, test := range []struct {
		name    string
		budget  int
		decided bool
	}{
		{"all states are seen", 10_000, true},
		{"the budget ends", 20, false},
	} {
		s := automata.New(&test.budget)
		pattern, ok := s.Pattern(`^v[0-9]+$`)
		end := s.Suffix("x")
		_, found, decided := s.Find(anyRune, func(accepts func(int) bool) bool { return accepts(pattern) && accepts(end) })
		if !ok || found || decided != test.decided {
			t.Errorf("%s: found %t, decided %t", test.name, found, decided)
		}
	}
}

// TestUnfitRunes has no rune that fits for a part of the alphabet: that is no
// proof that no text exists.
func TestUnfitRunes(t *testing.T) {
	budget := 10_000
	s := automata.New(&budget)
	set := s.Set([]string{"b", "c"}, func(text string) bool { return "b" <= text && text < "c" })
	text, found, decided := s.Find(func(r rune) bool { return r < 0x80 && r != 'b' }, func(accepts func(int) bool) bool { return accepts(set) })
	if found || decided {
		t.Errorf("%q, found %t, decided %t", text, found, decided)
	}
}
