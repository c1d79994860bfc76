package invoke

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// TestPartsThatTargetsLack: a target that does not take a part of the messages was not
// asked, so the other targets decide the caller's error. If there are none, the error
// names the part: the caller may have sent it.
func TestPartsThatTargetsLack(t *testing.T) {
	lacks := func() script { return fails(providers.LacksPart("a", 1, "audio")) }
	down := func() script { return fails(&providers.Error{Provider: "b", Kind: providers.Status, Status: 500}) }
	const told = "The endpoint's targets take no audio, which a message has. Leave it out, or have the endpoint's definition name a target that takes it."
	for _, tt := range []struct {
		name    string
		targets []Target
		code    wire.Code
		message string
	}{
		{"all lack it", []Target{target("a", scripted(lacks())), target("b", scripted(lacks()))}, wire.UpstreamRejected, told},
		{"one of two is down", []Target{target("a", scripted(lacks())), target("b", scripted(down()))}, wire.UpstreamError, messages[wire.UpstreamError]},
		{"the first is down", []Target{target("b", scripted(down())), target("a", scripted(lacks()))}, wire.UpstreamError, messages[wire.UpstreamError]},
		{"the other is skipped", []Target{target("a", scripted(lacks())), {Name: "b", Model: "m", Provider: unavailable{}}}, wire.UpstreamCredentials, messages[wire.UpstreamCredentials]},
	} {
		_, err, _ := run(t, &Call{Targets: tt.targets, Policy: Policy{MaxAttempts: 2}})
		if err == nil || err.Code != tt.code || err.Message() != tt.message {
			t.Errorf("%s: %v, %q", tt.name, err, err.Message())
		}
		if err != nil && !strings.Contains(err.Error(), "takes no audio, which message 2 has") {
			t.Errorf("%s: the log has %q", tt.name, err.Error())
		}
	}
}
