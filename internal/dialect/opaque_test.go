package dialect

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
)

// testSealer is a sealer without a key.
func testSealer(name string) Sealer {
	return func(dst []byte, field, text string) []byte {
		sum := sha256.Sum256([]byte(name + field + "\x00" + text))
		return base64.RawURLEncoding.AppendEncode(dst, sum[:sealLength/4*3])
	}
}

func TestSealed(t *testing.T) {
	for _, opaque := range []string{"sig", "{\"a\":\"\x00ü\"}", strings.Repeat("x", 100_000)} {
		origin, back, ok := testSealer("").Unseal(testSealer("").Seal("anthropic/claude", opaque))
		if origin != "anthropic/claude" || back != opaque || !ok {
			t.Errorf("%q, %.40q, %v", origin, back, ok)
		}
	}
	if testSealer("").Seal("a/b", "") != "" {
		t.Error("nothing was sealed")
	}
	good := testSealer("").Seal("a/b", "data")
	made := base64.RawURLEncoding.EncodeToString([]byte("a/c\x00data"))
	for _, text := range []string{
		"", "cdz1_", "cdz1_!", "cdz1_YQ", "ErUBCkYI", "cdz2_YQBi", "cdz1_" + made, "cdz1_" + strings.Repeat("A", sealLength), "cdz1_" + strings.Repeat("A", sealLength) + made,
		good[:len(sealed)+sealLength] + made, good + "AA", good[:len(good)-4], testSealer("another key").Seal("a/b", "data"),
	} {
		if _, _, ok := testSealer("").Unseal(text); ok {
			t.Errorf("%q is taken for a sealed text", text)
		}
	}
}

func FuzzUnseal(f *testing.F) {
	s := testSealer("")
	f.Add(s.Seal("a/b", "c"))
	f.Add("cdz1_")
	f.Fuzz(func(t *testing.T, text string) {
		origin, opaque, ok := s.Unseal(text)
		if !ok || opaque == "" {
			return
		}
		if o, p, ok := s.Unseal(s.Seal(origin, opaque)); o != origin || p != opaque || !ok {
			t.Errorf("%q, %q", o, p)
		}
	})
}
