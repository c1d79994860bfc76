package providertest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// endless is the reply of an upstream that answers without an end.
func endless(b Behaviour) (Reply, bool) {
	switch b.Fail {
	case Switches:
		return Reply{Status: http.StatusSwitchingProtocols}, true
	case Silent:
		return Reply{Status: b.Status, End: Hang}, true
	case Drips:
		// Longer than any test waits.
		body := make([]string, 1<<14)
		for i := range body {
			body[i] = " "
		}
		return Reply{Status: b.Status, Body: body, Delay: 5 * time.Millisecond, End: Hang}, true
	}
	return Reply{}, false
}

// testEndless has the upstream answer without an end: whatever it sends, the
// call ends with its context, and a 101 ends it at once.
func testEndless(t *testing.T, factory Factory) {
	const (
		deadline = 100 * time.Millisecond
		patience = 10 * time.Second // of the test
	)
	for _, test := range []struct {
		name   string
		fail   Failure
		status int
	}{
		{"101", Switches, 0},
		{"silent 200", Silent, 0},
		{"silent 206", Silent, 206},
		{"silent 400", Silent, 400},
		{"silent 429", Silent, 429},
		{"silent 500", Silent, 500},
		{"dripping 200", Drips, 0},
		{"dripping 400", Drips, 400},
		{"dripping 500", Drips, 500},
	} {
		for _, stream := range []bool{false, true} {
			req := request(stream)
			p := factory(t, Behaviour{Fail: test.fail, Status: test.status}, req)
			if p == nil {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			if test.fail == Switches {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 2*patience)
			}
			ended := make(chan error, 1)
			go func() {
				s, err := p.Invoke(ctx, req)
				if err == nil {
					_, _, err = read(s)
					s.Close()
				}
				ended <- err
			}()
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s, stream=%v: ended as an answer", test.name, stream)
				}
				e, ok := errors.AsType[*providers.Error](err)
				if test.fail == Switches && (!ok || e.Status != http.StatusSwitchingProtocols) {
					t.Errorf("%s, stream=%v: error %v, want one with the status", test.name, stream, err)
				}
			case <-time.After(patience):
				t.Errorf("%s, stream=%v: the call goes on although its context ended", test.name, stream)
			}
			cancel()
		}
	}
}
