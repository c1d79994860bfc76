package invoke

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A target that is left alone lets no call in, until one has to find out whether it
// answers again; and none beside that one.
func TestLets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := new(Engine)
		lets := func(step string, want bool) {
			t.Helper()
			if got := e.Lets("p", "p-model"); got != want {
				t.Errorf("%s: %v", step, got)
			}
		}
		lets("no call yet", true)
		if len(e.Targets()) > 0 {
			t.Error("the question makes a target known")
		}
		happen(e, "0s:rate_limit")
		lets("cooling", false)
		time.Sleep(5 * time.Second)
		lets("no longer", true)
		happen(e, slices.Repeat([]string{"1s:transient"}, minAnswers)...)
		lets("ejected", false)
		time.Sleep(probeEvery)
		lets("to be tried", true)
		one := admissionTo(e, "p")
		if !one.admit(time.Now()) {
			t.Fatal("no call is let in")
		}
		lets("another call tries it", false)
		one.answered(time.Now())
		lets("it answers", true)
	})
}
