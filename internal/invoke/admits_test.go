package invoke

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A target that is left alone admits no call until one has to find out whether it
// answers again, and no other call during that one.
func TestAdmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(Engine)
		admits := func(step string, want bool) {
			t.Helper()
			if got := e.Admits("p", "p-model"); got != want {
				t.Errorf("%s: %v", step, got)
			}
		}
		admits("no call yet", true)
		if len(e.Targets()) > 0 {
			t.Error("the question makes a target known")
		}
		happen(e, "0s:rate_limit")
		admits("cooling", false)
		time.Sleep(5 * time.Second)
		admits("no longer", true)
		happen(e, slices.Repeat([]string{"1s:transient"}, minAnswers)...)
		admits("ejected", false)
		time.Sleep(probeEvery)
		admits("to be tried", true)
		one := admissionTo(e, "p")
		if !one.admit(time.Now()) {
			t.Fatal("no call is let in")
		}
		admits("another call tries it", false)
		one.answered(time.Now())
		admits("it answers", true)
	})
}
