package dialect

import (
	"strings"
	"testing"
)

func TestSealed(t *testing.T) {
	for _, opaque := range []string{"sig", "{\"a\":\"\x00ü\"}", strings.Repeat("x", 100_000)} {
		origin, back, ok := Unseal(Seal("anthropic/claude", opaque))
		if origin != "anthropic/claude" || back != opaque || !ok {
			t.Errorf("%q, %.40q, %v", origin, back, ok)
		}
	}
	if Seal("a/b", "") != "" {
		t.Error("nothing was sealed")
	}
	for _, text := range []string{"", "cdz1_", "cdz1_!", "cdz1_YQ", "ErUBCkYI", "cdz2_YQBi"} {
		if _, _, ok := Unseal(text); ok {
			t.Errorf("%q is taken for a sealed text", text)
		}
	}
}

func FuzzUnseal(f *testing.F) {
	f.Add(Seal("a/b", "c"))
	f.Add("cdz1_")
	f.Fuzz(func(t *testing.T, text string) {
		origin, opaque, ok := Unseal(text)
		if !ok || opaque == "" {
			return
		}
		if o, p, ok := Unseal(Seal(origin, opaque)); o != origin || p != opaque || !ok {
			t.Errorf("%q, %q", o, p)
		}
	})
}
