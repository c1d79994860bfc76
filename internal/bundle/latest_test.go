package bundle

import "testing"

func TestLatest(t *testing.T) {
	var l Latest
	open := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return false
		default:
			return true
		}
	}
	none, first := l.Get()
	if none != nil || !open(first) {
		t.Errorf("the zero value has %v, and its channel is closed: %v", none, !open(first))
	}
	a, b := new(Bundle), new(Bundle)
	l.Set(a)
	got, second := l.Get()
	if got != a || open(first) || !open(second) {
		t.Errorf("after the first bundle: %p for %p, channels open: %v %v", got, a, open(first), open(second))
	}
	if _, again := l.Get(); again != second {
		t.Error("two who wait for the same bundle have two channels")
	}
	l.Set(a)
	if !open(second) {
		t.Error("the bundle that is held already woke those who wait")
	}
	l.Set(b)
	if got, third := l.Get(); got != b || open(second) || !open(third) {
		t.Error("the second bundle is not the newest, or woke nobody")
	}
}
