package invoke

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// TestShareOfTheTime: whatever a target does, and however often it is tried, the targets
// after it keep their share of a whole answer's time.
func TestShareOfTheTime(t *testing.T) {
	hangs := script{after: time.Hour}
	drips := script{hang: true}
	for range 1000 {
		drips.steps = append(drips.steps, step{after: 100 * time.Millisecond, say: "x"})
	}
	fails3s := script{after: 3 * time.Second, err: status(503)}
	refused := script{after: 1700 * time.Millisecond, err: &providers.ConnectError{Err: errors.New("refused")}}
	good := says("fine")
	late := script{after: 3900 * time.Millisecond, steps: good.steps, result: good.result}
	for name, test := range map[string]struct {
		total   time.Duration
		retries int
		scripts []script
		most    time.Duration // until the answer
	}{
		"a target that hangs":                {8 * time.Second, 0, []script{hangs, good}, 4 * time.Second},
		"a target that drips":                {8 * time.Second, 0, []script{drips, good}, 4 * time.Second},
		"two that hang":                      {9 * time.Second, 2, []script{hangs, hangs, good}, 6 * time.Second},
		"tries that fail late":               {8 * time.Second, 5, []script{fails3s, late}, 8 * time.Second},
		"tries that are refused late":        {8 * time.Second, 5, []script{refused, late}, 8 * time.Second},
		"a target that hangs, a late answer": {8 * time.Second, 2, []script{hangs, late}, 8 * time.Second},
		"a total that is very short":         {time.Second, 2, []script{hangs, good}, 500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Call{Policy: Policy{Total: test.total, Retries: retries(test.retries), MaxAttempts: MaxAttempts}}
				for i, s := range test.scripts {
					c.Targets = append(c.Targets, target(string(rune('a'+i)), scripted(s)))
				}
				began := time.Now()
				r, err, out := run(t, c)
				if took := time.Since(began); err != nil || out.text() != "fine" || took > test.most {
					t.Errorf("%q, %v, after %s, attempts %v", out.text(), err, took, classesOf(r))
				}
			})
		})
	}
}
