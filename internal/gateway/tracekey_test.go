package gateway

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestRandomTraceKeys checks that all usual encodings of 16 random bytes are accepted.
func TestRandomTraceKeys(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	bytes := make([]byte, 16)
	for range 20_000 {
		random.Read(bytes)
		for name, key := range map[string]string{
			"hex": hex.EncodeToString(bytes), "HEX": strings.ToUpper(hex.EncodeToString(bytes)),
			"base64": base64.StdEncoding.EncodeToString(bytes), "base64url": base64.RawURLEncoding.EncodeToString(bytes),
			"base32": base32.StdEncoding.EncodeToString(bytes), "nothing": string(bytes),
		} {
			if err := checkTraceKey(key); err != nil {
				t.Fatalf("%x written as %s: %v", bytes, name, err)
			}
		}
	}
}

func TestTraceKeysThatCanBeGuessed(t *testing.T) {
	for _, key := range []string{
		"passwordpassword", "changemechangeme", "1234567890123456", "9876543210987654", "abcdefghijklmnop",
		"aaaaaaaaaaaaaaaa", strings.Repeat("ab", 500), "qwertyuiopasdfgh", "0123456789abcdef", "deadbeefdeadbeef",
		"00000000-0000-0000-0000-000000000000", "supersecretkey-1", "my-trace-secret!", "                ", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
	} {
		if err := checkTraceKey(key); err == nil || !strings.Contains(err.Error(), "can be guessed") || strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", key, err)
		}
	}
	if err := checkTraceKey("8f41c07be2d95a3"); err == nil || !strings.Contains(err.Error(), "at least 16 characters, it has 15") {
		t.Errorf("a short key: %v", err)
	}
	if err := checkTraceKey("8f41c07be2d95a36"); err != nil {
		t.Errorf("the shortest key: %v", err)
	}
}
