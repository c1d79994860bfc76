package providertest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// endless returns the reply of an upstream that answers without an end.
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

// testEndless has an upstream that answers without an end. Each call must end with its
// context; with a 101 it must end at once.
func testEndless(t *testing.T, factory Factory) {
	var wait sync.WaitGroup
	defer wait.Wait()
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
			wait.Go(func() {
				limit := 100 * time.Millisecond
				if test.fail == Switches {
					limit = 2 * patience
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				err := within(patience, func() error {
					s, err := p.Invoke(ctx, req)
					if err == nil {
						err = Read(s).Err
						s.Close()
					}
					return err
				})
				e, ok := errors.AsType[*providers.Error](err)
				switch {
				case err == nil:
					t.Errorf("%s, stream=%v: ended as an answer", test.name, stream)
				case errors.Is(err, errLate):
					t.Errorf("%s, stream=%v: the call goes on although its context ended", test.name, stream)
				case test.fail == Switches && (!ok || e.Status != http.StatusSwitchingProtocols):
					t.Errorf("%s, stream=%v: error %v, want one with the status", test.name, stream, err)
				}
			})
		}
	}
}

var errLate = errors.New("late")

// within returns the error of a call, or errLate if it takes longer than limit.
func within(limit time.Duration, call func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		return errLate
	}
}
