package rules

import (
	"math/rand/v2"
	"testing"

	"github.com/Masterminds/semver/v3"
)

// The algebra of sets must be that of membership.
func TestSetAlgebra(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	random := func() intSet {
		var s intSet
		for range rnd.IntN(4) {
			sp := span[int64]{rnd.Int64N(20), rnd.Int64N(20)}
			switch rnd.IntN(5) {
			case 0:
				sp.lo = minKey
			case 1:
				sp.hi = maxKey
			}
			s = append(s, sp)
		}
		return intDomain.normalize(s)
	}
	toText := func(s intSet) strSet {
		var out strSet
		for _, sp := range s {
			next := span[string]{string(rune('a' + sp.lo)), string(rune('a' + sp.hi))}
			if sp.lo == minKey {
				next.lo = ""
			}
			if sp.hi == maxKey {
				next.hi = ""
			}
			out = append(out, next)
		}
		return strDomain.normalize(out)
	}
	for range 5000 {
		a, b := random(), random()
		checkAlgebra(t, intDomain, a, b, func(k int64) int64 { return k })
		checkAlgebra(t, strDomain, toText(a), toText(b), func(k int64) string { return string(rune('a' + k)) })
		if t.Failed() {
			t.Fatalf("%v, %v", a, b)
		}
	}
}

func checkAlgebra[K int64 | string](t *testing.T, d domain[K], a, b set[K], key func(int64) K) {
	t.Helper()
	union, both, not := d.union(a, b), d.intersect(a, b), d.complement(a)
	for i := range int64(21) {
		k := key(i)
		inA, inB := d.contains(a, k), d.contains(b, k)
		if d.contains(union, k) != (inA || inB) || d.contains(both, k) != (inA && inB) || d.contains(not, k) == inA {
			t.Errorf("%v: union %v, intersection %v, complement %v", k, union, both, not)
		}
	}
	if !d.isAll(d.union(a, not)) || len(d.intersect(a, not)) > 0 {
		t.Errorf("a set and its complement %v", not)
	}
}

func TestPoints(t *testing.T) {
	for _, s := range []string{"", "a", "a\x00", "\xff"} {
		if !isPoint(point(s)) {
			t.Errorf("%q is no point", s)
		}
	}
	for _, sp := range []span[string]{{"a", "b"}, {"", ""}, {"a", ""}, {"a", "a\x01"}, startingWith("a")} {
		if isPoint(sp) {
			t.Errorf("%q is a point", sp)
		}
	}
	if successor("a\xff\xff") != "b" || successor("\xff") != "" || successor("") != "" {
		t.Error("wrong successors")
	}
}

// FuzzVersion compares keys with an implementation of SemVer 2.0.0 of its own.
func FuzzVersion(f *testing.F) {
	for _, v := range []string{"1.0.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1+b.7", "2.10.3", "0.0.0-0", "1.0.0-a-b", "01.0.0", "1.0.0-01", "1.0"} {
		f.Add(v, "1.0.0-beta")
		f.Add("10.2.33", v)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		key := func(s string) (string, *semver.Version) {
			v, ok := parseVersion(s, true)
			want, err := semver.StrictNewVersion(s)
			if (err == nil) != ok {
				// The other one bounds numbers by 64 bits, and we the length.
				if v.parts == 3 && len(s) < 20 {
					t.Errorf("%q: accepted is %v, want %v", s, ok, err)
				}
				return "", nil
			}
			return string(v.appendKey(nil)), want
		}
		ka, va := key(a)
		kb, vb := key(b)
		if va == nil || vb == nil {
			return
		}
		got := 0
		switch {
		case ka < kb:
			got = -1
		case ka > kb:
			got = 1
		}
		if want := va.Compare(vb); got != want {
			t.Errorf("%s and %s compare as %d, want %d", a, b, got, want)
		}
	})
}
