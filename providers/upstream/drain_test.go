package upstream

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestDrain has the end of a finished body come late.
func TestDrain(t *testing.T) {
	for late, want := range map[time.Duration]time.Duration{0: 0, drainTime - 1: drainTime - 1, drainTime + 1: drainTime} {
		synctest.Test(t, func(t *testing.T) {
			body, upstream := io.Pipe()
			time.AfterFunc(late, func() {
				_, _ = io.WriteString(upstream, "\n\n")
				upstream.Close()
			})
			b := NewBody(body)
			began := time.Now()
			b.Drain()
			if took := time.Since(began); took != want {
				t.Errorf("an end that comes after %s is waited for for %s", late, took)
			}
			if _, err := upstream.Write([]byte("x")); late > drainTime && err != io.ErrClosedPipe {
				t.Errorf("the body is not closed: %v", err)
			}
			b.Close()
		})
	}
	rest := strings.NewReader(strings.Repeat("x", 2*drainSize))
	b := NewBody(io.NopCloser(rest))
	if b.Drain(); rest.Len() != drainSize {
		t.Errorf("%d bytes of %d are left", rest.Len(), 2*drainSize)
	}
}
