package trace

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
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
		// The definition, by the packages it names.
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

// Nodes of a fleet agree. Other keys, workspaces, fields and texts differ, also
// where field and text have the same characters together.
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

// A hash that is remembered is the one that was made, also where many values share a
// place: each is asked for until it is remembered, and again after others.
func TestRememberedHashesAreRight(t *testing.T) {
	h := newHasher(t, "0123456789abcdef", "w")
	ask := func(field, text string) {
		t.Helper()
		want := string(newHasher(t, "0123456789abcdef", "w").append(nil, field, text))
		for range 4 {
			if got := string(h.Append([]byte("x"), field, text)); got != "x"+want {
				t.Fatalf("%s, %s: %s, want x%s", field, text, got, want)
			}
		}
	}
	for round := range 2 {
		for n := range 2 * rememberedHashes {
			ask("f", strconv.Itoa(n))
		}
		ask("ab", "c")
		ask("a", "bc")
		ask("long", strings.Repeat("x", maxRemembered+round))
	}
	if k := (&knownHash{value: "abc", field: 2}); !k.is("ab", "c") || k.is("a", "bc") || k.is("ab", "d") || k.is("ab", "") {
		t.Error("a hash is taken for that of another value")
	}
	remembered := 0
	for i := range h.known {
		if h.known[i].Load() != nil {
			remembered++
		}
	}
	if remembered < rememberedHashes/2 {
		t.Errorf("%d hashes are remembered", remembered)
	}
}

// Values that come once take no memory.
func TestHashesOfOtherValuesAreNotKept(t *testing.T) {
	h := newHasher(t, "0123456789abcdef", "w")
	for n := range 1000 {
		h.Append(nil, "customer_id", strconv.Itoa(n))
	}
	for range 4 {
		h.Append(nil, "f", strings.Repeat("x", maxRemembered))
	}
	for i := range h.known {
		if k := h.known[i].Load(); k != nil {
			t.Errorf("%q is remembered", k.value)
		}
	}
}

// Hashes are made by many requests at a time, without garbage.
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
		return // the pool forgets at random
	}
	var dst []byte
	if n := testing.AllocsPerRun(100, func() { dst = h.Append(dst[:0], "customer_id", "c-123456") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHash(b *testing.B) {
	for name, text := range map[string]string{"again": "nl-BE", "long": strings.Repeat("x", maxRemembered)} {
		b.Run(name, func(b *testing.B) {
			h := newHasher(b, "0123456789abcdef", "default")
			dst := make([]byte, 0, HashLength)
			b.ReportAllocs()
			for b.Loop() {
				dst = h.Append(dst[:0], "customer_id", text)
			}
		})
	}
	b.Run("once", func(b *testing.B) {
		h := newHasher(b, "0123456789abcdef", "default")
		text, dst := []byte("0191e6f2-8c1d-7a3b-9c4e-5f6a7b8c9d0e"), make([]byte, 0, HashLength)
		values := make([]string, 4096)
		for n := range values {
			binary.BigEndian.PutUint32(text, uint32(n))
			values[n] = string(text)
		}
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			dst = h.Append(dst[:0], "customer_id", values[n%len(values)])
			n++
		}
	})
}
