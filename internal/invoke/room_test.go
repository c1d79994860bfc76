package invoke

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestTextOfAWholeAnswerIsHeld has an upstream send a large text in small pieces,
// which hold next to nothing until they are put together.
func TestTextOfAWholeAnswerIsHeld(t *testing.T) {
	pieces := make([]string, 1000)
	for i := range pieces {
		pieces[i] = strings.Repeat("x", 1000)
	}
	call := func() (Result, *Error, *caller) {
		return run(t, &Call{Targets: []Target{target("a", scripted(says(pieces...)))}})
	}
	release := providertest.TakeMemory(t)
	_, err, _ := call()
	if err == nil || err.Class != NoRoom || err.Message() != noRoom {
		t.Errorf("without memory: %+v", err)
	}
	if _, err, out := run(t, &Call{Targets: []Target{target("a", scripted(says(pieces[:50]...)))}}); err != nil || len(out.text()) != 50_000 {
		t.Errorf("a small answer without memory: %+v", err)
	}
	release()
	if _, err, out := call(); err != nil || len(out.text()) != 1_000_000 {
		t.Errorf("error %v, %d bytes", err, len(out.text()))
	}
	if n := providers.HeldBytes(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}
