package invoke

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
)

// TestASlowCallerIsWaitedForAtTheEnd has a call's time end while its caller takes
// a piece: Invoke does not return before that is done.
func TestASlowCallerIsWaitedForAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taking := false
		began := time.Now()
		c := &Call{Stream: true, Targets: []Target{target("a", scripted(says("one ", "two ", "three")))}, Policy: Policy{Total: 5 * time.Second}}
		pieces := 0
		_, err := NewEngine().Invoke(t.Context(), c, func(providers.Delta) error {
			taking = true
			if pieces++; pieces == 2 {
				time.Sleep(20 * time.Second)
			}
			taking = false
			return nil
		})
		if took := time.Since(began); taking || took < 20*time.Second || took > 21*time.Second {
			t.Errorf("Invoke returned after %s, %v, while a piece is taken: %v", took, err, taking)
		}
	})
}
