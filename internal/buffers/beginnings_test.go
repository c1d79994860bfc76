package buffers

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// TestBeginnings has several goroutines look for conversations that grow, fork and come by
// other keys. What is found is always a beginning, with the state of exactly that one.
func TestBeginnings(t *testing.T) {
	var b Beginnings[string, string]
	stateOf := func(name string, text []byte) string { return fmt.Sprint(name, len(text), text[len(text)-1]) }
	var group sync.WaitGroup
	for seed := range uint64(4) {
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed/2, 5)) // two of the same at a time
			text, found := bytes.Repeat([]byte{byte(seed / 2)}, Smallest), 0
			for range 100 {
				switch {
				case len(text) > 2<<20:
					text = bytes.Clone(text[:Smallest])
				case random.IntN(4) == 0: // it begins otherwise, from somewhere on
					text = bytes.Clone(text)
					text[random.IntN(len(text))]++
				default:
					text = append(bytes.Clone(text), bytes.Repeat([]byte{byte(random.IntN(9))}, random.IntN(20_000))...)
				}
				name := []string{"a", "b"}[random.IntN(2)]
				known := b.Longest(name, text)
				if known.Size > len(text) || known.Size > 0 && known.State != stateOf(name, text[:known.Size]) {
					t.Errorf("%d bytes begin with %d of the state %q", len(text), known.Size, known.State)
				}
				if known.Size > 0 {
					found++
				}
				if cut := Cut(text); cut > known.Size {
					b.Keep(name, text[:cut], known, stateOf(name, text[:cut]))
				}
			}
			if found < 10 {
				t.Errorf("only %d beginnings were found", found)
			}
		})
	}
	group.Wait()
	size := 0
	for _, k := range b.kept {
		size += k.Size
		if k.Size != len(k.text) || k.State != stateOf(k.key, k.text) {
			t.Errorf("%d bytes of %d are kept as %q", len(k.text), k.Size, k.State)
		}
	}
	if size != b.size || size > maxBeginnings {
		t.Errorf("%d bytes are kept, counted as %d", size, b.size)
	}
}

// The turn before is found, and long texts don't fill the memory.
func TestBeginningsOfAConversation(t *testing.T) {
	var b Beginnings[string, int]
	text := bytes.Repeat([]byte("x"), Smallest)
	for turn := range 50 {
		known := b.Longest("a", text)
		if turn > 0 && (known.State != turn-1 || known.Size < len(text)-3*beginningStep) {
			t.Fatalf("turn %d of %d bytes has %d known of turn %d", turn, len(text), known.Size, known.State)
		}
		b.Keep("a", text[:Cut(text)], known, turn)
		text = append(text[:len(text)-1], bytes.Repeat([]byte{byte(turn)}, 2*beginningStep)...)
	}
	if len(b.kept) != 1 {
		t.Errorf("%d turns are kept, want the last", len(b.kept))
	}
	// Two go on from one turn.
	one, other := append(bytes.Clone(text), 'a'), append(bytes.Clone(text), 'b', 'c')
	known := b.Longest("a", text)
	b.Keep("a", one, known, 101)
	b.Keep("a", other, known, 102)
	if one, other := b.Longest("a", one), b.Longest("a", other); one.State != 101 || other.State != 102 {
		t.Errorf("the states of two ends are %d and %d", one.State, other.State)
	}
	if Cut(make([]byte, Smallest-1)) != 0 || Cut(make([]byte, maxBeginnings+1)) != 0 {
		t.Error("a short or a very long text is kept")
	}
}
