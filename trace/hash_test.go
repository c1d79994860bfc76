package trace

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"sync"
	"testing"
)

func newHasher(t testing.TB, key, workspace string) *Hasher {
	t.Helper()
	h, err := NewHasher([]byte(key), workspace)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The hashes are stored, so they must never change.
func TestHashIsFixed(t *testing.T) {
	h := newHasher(t, "0123456789abcdef", "default")
	for _, tt := range []struct{ field, text, want string }{
		{"customer_id", "c-1", "6vYaQckHwe7gZiDa"},
		{"customer_id", "", "qKV6_5zKNXyBGo1R"},
		{"", "", "JqYbDHagWahlFb8u"},
		{"seats", "42.5", "pQxh9EeYYEb4jR7r"},
		{"tags", `["a","b"]`, "Kzuy0CpFlr8iGrzd"},
		{"long", strings.Repeat("é", 1000), "RuTsKNBb_rPZP1B4"},
	} {
		// The definition of a hash, computed with the standard library.
		key, err := hkdf.Key(sha256.New, []byte("0123456789abcdef"), nil, "cadenza value hash v1\x00default", 32)
		if err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(tt.field + "\x00" + tt.text))
		defined := base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:12])
		if got := string(h.Append([]byte("x"), tt.field, tt.text)); got != "x"+tt.want || tt.want != defined {
			t.Errorf("%s, %.20q: got %s, want %s, by definition %s", tt.field, tt.text, got, tt.want, defined)
		}
	}
}

// The nodes of a fleet make the same hashes. The hashes of other keys, workspaces,
// fields and texts differ, even if field and text have the same concatenation.
func TestHashesDiffer(t *testing.T) {
	const key, other = "0123456789abcdef", "0123456789abcdeg"
	seen := make(map[string]string)
	for _, in := range [][4]string{
		{key, "w", "ab", "c"}, {other, "w", "ab", "c"}, {key, "v", "ab", "c"}, {key, "w", "a", "bc"}, {key, "w", "ab", "d"}, {key, "w", "abc", ""},
	} {
		got := string(newHasher(t, in[0], in[1]).Append(nil, in[2], in[3]))
		if again := string(newHasher(t, in[0], in[1]).Append(nil, in[2], in[3])); again != got || len(got) != HashLength {
			t.Errorf("%q: %s and %s", in, got, again)
		}
		if before := seen[got]; before != "" {
			t.Errorf("%q has the hash of %s", in, before)
		}
		seen[got] = strings.Join(in[:], ", ")
	}
}

func TestHasherMistakes(t *testing.T) {
	if _, err := NewHasher([]byte("0123456789abcde"), "w"); err == nil || err.Error() != "the trace key must have at least 16 bytes, it has 15" {
		t.Error(err)
	}
	if _, err := NewHasher([]byte("0123456789abcdef"), ""); err == nil || err.Error() != "hashes of values need the name of a workspace" {
		t.Error(err)
	}
}

// Many requests make hashes concurrently, without allocations.
func TestHashConcurrently(t *testing.T) {
	h := newHasher(t, "0123456789abcdef", "w")
	want := string(h.Append(nil, "f", "text"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if got := string(h.Append(nil, "f", "text")); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	wg.Wait()
	if raceEnabled {
		return // a pool drops values at random under the race detector
	}
	var dst []byte
	if n := testing.AllocsPerRun(100, func() { dst = h.Append(dst[:0], "customer_id", "c-123456") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHash(b *testing.B) {
	for name, text := range map[string]string{"short": "nl-BE", "long": strings.Repeat("x", 64)} {
		b.Run(name, func(b *testing.B) {
			h := newHasher(b, "0123456789abcdef", "default")
			dst := make([]byte, 0, HashLength)
			b.ReportAllocs()
			for b.Loop() {
				dst = h.Append(dst[:0], "customer_id", text)
			}
		})
	}
}
