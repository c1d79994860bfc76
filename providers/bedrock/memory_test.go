package bedrock

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestAnEventWithoutMemory has an event come that is small until it is parsed.
func TestAnEventWithoutMemory(t *testing.T) {
	subject.CheckEventWithoutMemory(t, func(data string) pt.Reply { return streamed(event("contentBlockDelta", data)) })
}

// full is a body of which nothing more can be held.
type full struct{ io.Reader }

func (full) Hold(int) error { return providers.ErrNoRoom }

func TestAMessageWithoutMemory(t *testing.T) {
	message := raw(0, "", "x")
	if _, err := newMessageReader(full{strings.NewReader(message)}, 1<<20).Next(); !errors.Is(err, providers.ErrNoRoom) {
		t.Errorf("error %v", err)
	}
}
