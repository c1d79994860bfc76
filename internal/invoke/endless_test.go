package invoke_test

import (
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestAnEndlessAnswerFallsBack has the first target's upstream answer without
// an end: the second target answers, once the first one's time is used up, and
// at once after a 101.
func TestAnEndlessAnswerFallsBack(t *testing.T) {
	drip := make([]string, 1<<14)
	for i := range drip {
		drip[i] = " "
	}
	for _, test := range []struct {
		name  string
		reply pt.Reply
		class invoke.Class
	}{
		{"101", pt.Reply{Status: 101}, invoke.Unknown},
		{"silent 200", pt.Reply{End: pt.Hang}, invoke.Slow},
		{"silent 400", pt.Reply{Status: 400, End: pt.Hang}, invoke.Slow},
		{"silent 500", pt.Reply{Status: 500, End: pt.Hang}, invoke.Slow},
		{"dripping 200", pt.Reply{Body: drip, Delay: 5 * time.Millisecond}, invoke.Slow},
		{"dripping 503", pt.Reply{Status: 503, Body: drip, Delay: 5 * time.Millisecond}, invoke.Slow},
	} {
		for _, stream := range []bool{false, true} {
			if !stream && test.class == invoke.Slow {
				continue // a whole answer has 10 s before the next target
			}
			up := pt.NewUpstream(t).Always(test.reply)
			c := &invoke.Call{Stream: stream, Targets: []invoke.Target{
				{Name: "a", Provider: provider(t, up), Model: "m"}, {Name: "b", Provider: backup, Model: "m"},
			}}
			if test.class == invoke.Slow {
				c.Policy.FirstToken = 100 * time.Millisecond
			}
			text := ""
			r, err := invoke.NewEngine().Invoke(t.Context(), c, func(d providers.Delta) error {
				text += d.Content
				return nil
			})
			if err != nil || text != "from the fallback" || r.Attempts[0].Code != string(test.class) {
				t.Errorf("%s, stream=%v: error %v, answer %q, attempts %+v", test.name, stream, err, text, r.Attempts)
			}
		}
	}
}

// TestAnEndlessAnswerEndsWithTheCall has the only target's upstream answer
// without an end.
func TestAnEndlessAnswerEndsWithTheCall(t *testing.T) {
	for _, reply := range []pt.Reply{{End: pt.Hang}, {Status: 400, End: pt.Hang}, {Status: 500, End: pt.Hang}} {
		for _, stream := range []bool{false, true} {
			up := pt.NewUpstream(t).Always(reply)
			c := &invoke.Call{
				Stream: stream, Targets: []invoke.Target{{Name: "a", Provider: provider(t, up), Model: "m"}},
				Policy: invoke.Policy{Total: 200 * time.Millisecond},
			}
			r, err := invoke.NewEngine().Invoke(t.Context(), c, func(providers.Delta) error { return nil })
			if e, ok := err.(*invoke.Error); !ok || e.Code != wire.UpstreamTimeout {
				t.Errorf("status %d, stream=%v: error %v, attempts %+v", reply.Status, stream, err, r.Attempts)
			}
		}
	}
}
