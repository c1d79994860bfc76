package secret

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// forgetAll begins a test without known secrets.
func forgetAll(t *testing.T) {
	forget := func() {
		known.mu.Lock()
		defer known.mu.Unlock()
		known.values = nil
		known.search.Store(nil)
	}
	forget()
	t.Cleanup(forget)
}

func isKnown(value string) bool {
	return Known().Replace("a "+value+" b", "-") == "a - b"
}

func TestWhatRotatesIsKnown(t *testing.T) {
	forgetAll(t)
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		write("the-first-0001\n")
		s := Reference("{file." + file + "}").Rotating(nil)
		if !isKnown("the-first-0001") {
			t.Error("the first value is not known")
		}
		write("the-second-0002")
		time.Sleep(Refresh)
		if _, err := s.Value(); err != nil {
			t.Fatal(err)
		}
		// A text with the old one may come back later.
		if !isKnown("the-first-0001") || !isKnown("the-second-0002") {
			t.Error("after a rotation one of the values is not known")
		}
	})
	t.Setenv("SECRET_TEST", "host=db password=in-a-text-0003")
	Reference("{env.SECRET_TEST}").RotatingText(nil)
	Reference("{env.SECRET_TEST}").Resolve()
	if isKnown("host=db password=in-a-text-0003") {
		t.Error("a text with a secret is taken for one")
	}
	Remember("in-a-text-0003")
	if !isKnown("in-a-text-0003") {
		t.Error("a remembered secret is not known")
	}
	Remember("short")
	if isKnown("short") {
		t.Error("a short word is looked for")
	}
}

// TestKnownSecretsAreBounded goes to the ceiling and beyond: replaced secrets
// are forgotten first, oldest first, and the ones in use stay.
func TestKnownSecretsAreBounded(t *testing.T) {
	forgetAll(t)
	Remember("in-use-0001")
	name := func(n int) string { return fmt.Sprintf("rotated-%06d", n) }
	for n := range maxKnown - 1 {
		Remember(name(n))
		retire(name(n))
	}
	if !isKnown(name(0)) || len(known.values) != maxKnown {
		t.Errorf("at the ceiling the first is gone, of %d", len(known.values))
	}
	Remember("another-0002")
	if isKnown(name(0)) || !isKnown(name(1)) || !isKnown("in-use-0001") || !isKnown("another-0002") || len(known.values) != maxKnown {
		t.Errorf("beyond the ceiling: %d values", len(known.values))
	}
	// One that comes back is in use.
	Remember(name(1))
	Remember("another-0003")
	if !isKnown(name(1)) || isKnown(name(2)) {
		t.Error("what came back was forgotten")
	}
	if strings.Contains(Known().Replace("no secret in this", "-"), "-") {
		t.Error("a finding in nothing")
	}
}
