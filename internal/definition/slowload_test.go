package definition

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A loading that does not end is shown while the last good set is served, and
// is forgotten once it has ended after all.
func TestSlowLoad(t *testing.T) {
	dir := workspace(t, map[string]string{"remoteconfigs/c.yaml": banner("one")})
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, dir)
		first := s.Snapshot()
		told := make(chan news, 10)
		s.Subscribe(func(snapshot *Snapshot, err error) { told <- news{snapshot, err} }, nil)
		release, invalid := make(chan struct{}), errors.New("a mistake")
		outcome := error(nil)
		s.read = func(context.Context, string, *memory, ...Configuration) (*Snapshot, error) {
			<-release
			return first, outcome
		}
		for _, outcome = range []error{nil, invalid} {
			begun := time.Now()
			result := make(chan error, 1)
			go func() { result <- s.Reload() }()
			time.Sleep(SlowLoad - time.Millisecond)
			synctest.Wait()
			if err := s.LastError(); err != nil || len(told) > 0 {
				t.Fatalf("reported before its time: %v, %d", err, len(told))
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			var slow *SlowLoadError
			if !errors.As(s.LastError(), &slow) || !slow.Since.Equal(begun) {
				t.Fatalf("a loading that goes on since %v is not reported: %v", begun, s.LastError())
			}
			if want := "loading since " + begun.UTC().Format(time.RFC3339); !strings.Contains(slow.Error(), want) {
				t.Errorf("%s does not say %s", slow, want)
			}
			if n := <-told; n.snapshot != first || !errors.As(n.err, &slow) || len(told) > 0 {
				t.Fatalf("%v and %d more", n, len(told))
			}
			if s.Snapshot() != first {
				t.Error("the last good set is not served meanwhile")
			}
			release <- struct{}{}
			if err := <-result; !errors.Is(err, outcome) || !errors.Is(s.LastError(), outcome) {
				t.Errorf("%v, then %v", err, s.LastError())
			}
			if n := <-told; n.snapshot != first || !errors.Is(n.err, outcome) || len(told) > 0 {
				t.Errorf("%v and %d more", n, len(told))
			}
		}

		// One that ends in time is not reported later.
		s.read = func(context.Context, string, *memory, ...Configuration) (*Snapshot, error) { return first, invalid }
		_ = s.Reload()
		time.Sleep(2 * SlowLoad)
		synctest.Wait()
		if len(told) > 0 || !errors.Is(s.LastError(), invalid) {
			t.Errorf("%v, %d", s.LastError(), len(told))
		}
		// The directory failed when the slow loading was reported, not at the last
		// of the failures since then.
		if state := s.State(); !errors.Is(state.Err, invalid) || time.Since(state.Since) != 2*SlowLoad {
			t.Errorf("%+v", state)
		}
		s.read = func(context.Context, string, *memory, ...Configuration) (*Snapshot, error) { return first, nil }
		_ = s.Reload()
		if state := s.State(); state != (State{}) {
			t.Errorf("a directory without a mistake: %+v", state)
		}
	})
}
