package upstream

import (
	"io"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers/providertest"
)

// reads is a body of texts, one for each read, that calls before each of them.
type reads struct {
	texts  []string
	before func()
}

func (r *reads) Read(p []byte) (int, error) {
	r.before()
	if len(r.texts) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.texts[0])
	r.texts = r.texts[1:]
	return n, nil
}

func (*reads) Close() error { return nil }

// TestWhatAnAnswerHoldsWhileItWaits holds that a stream of which nothing is there at
// present holds no parser, and that one that is closed holds nothing at all.
func TestWhatAnAnswerHoldsWhileItWaits(t *testing.T) {
	body := &reads{texts: []string{providertest.Event(`{"n":1}`) + providertest.Event(`{"n":2}`), providertest.Event(`{"n":3}`)}}
	a := NewEventAnswer(Call{}, body, "an answer")
	body.before = func() {
		if a.Body.parser != nil {
			t.Error("an answer that waits holds a parser")
		}
	}
	for range 3 {
		event, err := a.Event()
		if err != nil {
			t.Fatal(err)
		}
		if v, err := a.Parse(event); err != nil || v.GetInt("n") == 0 {
			t.Fatal(v, err)
		}
	}
	a.Close()
	if a.events.buf != nil || a.Body.parser != nil {
		t.Error("a closed answer holds a buffer or a parser")
	}
	a.Close()
	if _, err := a.Event(); err != errClosed {
		t.Errorf("an event after the end: %v", err)
	}
}

// TestWholeAnswersShareABuffer holds that a whole answer is read into the memory that
// its beginning was read into.
func TestWholeAnswersShareABuffer(t *testing.T) {
	text := `{"text":"` + strings.Repeat("x", firstBuffer-100) + `"}`
	a := NewEventAnswer(Call{}, io.NopCloser(io.MultiReader(strings.NewReader(text[:10]), strings.NewReader(text[10:]))), "an answer")
	defer a.Close()
	event, err := a.Event()
	if err != nil || !event.Whole || string(event.Data) != text || &event.Data[0] != &a.events.buf[0] {
		t.Errorf("%d bytes of %d, %v", len(event.Data), len(text), err)
	}
}

// TestLargeParsersAreNotKept: one that has read a large text stays with its answer.
func TestLargeParsersAreNotKept(t *testing.T) {
	for size, kept := range map[int]bool{10: false, maxPooledParser + 1: true} {
		b := NewBody(io.NopCloser(strings.NewReader("")))
		if _, err := b.Parse([]byte(`"` + strings.Repeat("m", size) + `"`)); err != nil {
			t.Fatal(err)
		}
		if b.Rest(); (b.parser != nil) != kept {
			t.Errorf("after %d bytes the answer has its parser: %v", size, b.parser != nil)
		}
	}
}
