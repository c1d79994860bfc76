package gateway

import (
	"errors"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
)

func TestCommitsWakeAll(t *testing.T) {
	var c commits
	c.committed(recorder.Commit{}) // nobody waits
	first, second := c.wait(), c.wait()
	woken := func(wait <-chan struct{}) bool {
		select {
		case <-wait:
			return true
		default:
			return false
		}
	}
	c.committed(recorder.Commit{Err: errors.New("the disk is full")})
	if woken(first) {
		t.Error("a commit that failed woke")
	}
	c.committed(recorder.Commit{})
	if !woken(first) || !woken(second) || woken(c.wait()) {
		t.Error("a commit did not wake those who waited, or one who waits for the next")
	}
}
