package openai

import (
	"errors"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestAnEventWithoutMemory has an event come that is small until it is parsed.
func TestAnEventWithoutMemory(t *testing.T) {
	pt.TakeMemory(t)
	many := "data: [" + strings.Repeat("0,", 1000) + "0]\n\n"
	if o := receive(t, pt.SSE(many), true); !errors.Is(o.err, providers.ErrNoRoom) {
		t.Errorf("error %v", o.err)
	}
}
