package cache

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, maxBytes int64) *Cache {
	t.Helper()
	c, err := New(maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestGetSet(t *testing.T) {
	c := open(t, 1<<20)
	key := AppendKey(nil, "default", "r1", trace.KindRemoteConfig, "model_limits")
	if _, ok := c.Get(key); ok {
		t.Error("found what was never set")
	}
	value := []byte(`{"rpm":60}`)
	c.Set(key, Value{Bytes: value, Row: 3, Outcome: 1})
	c.entries.Wait()
	// The caller may reuse its buffers.
	stored := bytes.Clone(key)
	clear(key)
	clear(value)
	got, ok := c.Get(stored)
	if !ok {
		t.Fatal("not found")
	}
	if diff := cmp.Diff(Value{Bytes: []byte(`{"rpm":60}`), Row: 3, Outcome: 1}, got); diff != "" {
		t.Error(diff)
	}
	if cap(got.Bytes) != len(got.Bytes) {
		t.Error("an append to the value could write behind it")
	}
	c.Set(stored, Value{Row: -1, Outcome: -1})
	if got, ok := c.Get(stored); !ok || got.Row != -1 || len(got.Bytes) != 0 {
		t.Errorf("after an update: %+v %v", got, ok)
	}
}

func TestKeysAreCompared(t *testing.T) {
	c := open(t, 1<<20)
	mine, theirs := []byte("mine"), []byte("theirs")
	// As if both had the same hashes.
	c.entries.Set(mine, &entry{key: theirs, value: Value{Bytes: []byte("secret")}}, 1)
	c.entries.Wait()
	if v, ok := c.Get(mine); ok {
		t.Errorf("got the value of another key: %q", v.Bytes)
	}
}

func TestBound(t *testing.T) {
	const maxBytes = 1 << 20
	c := open(t, maxBytes)
	value := make([]byte, 1000)
	for i := range 20_000 {
		c.Set(AppendKey(nil, "default", "r1", trace.KindPrompt, fmt.Sprint("key", i)), Value{Bytes: value})
		if i%100 == 0 {
			c.entries.Wait()
		}
	}
	c.entries.Wait()
	held := 0
	for i := range 20_000 {
		if _, ok := c.Get(AppendKey(nil, "default", "r1", trace.KindPrompt, fmt.Sprint("key", i))); ok {
			held++
		}
	}
	if held == 0 || held*(1000+entryOverhead) > maxBytes {
		t.Errorf("%d values of 1,000 bytes in a cache of %d", held, maxBytes)
	}
}

func TestTooBigForTheCache(t *testing.T) {
	c := open(t, 4096)
	c.Set([]byte("k"), Value{Bytes: make([]byte, 8192)})
	c.entries.Wait()
	if _, ok := c.Get([]byte("k")); ok {
		t.Error("stored")
	}
}

func TestNewRefusesNoSize(t *testing.T) {
	for _, size := range []int64{0, -1} {
		if _, err := New(size); err == nil {
			t.Errorf("a cache of %d bytes", size)
		}
	}
}

func TestClosed(t *testing.T) {
	c, err := New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	c.Set([]byte("k"), Value{Bytes: []byte("v")})
	c.Close()
	c.Close()
	c.Set([]byte("k"), Value{Bytes: []byte("v")})
	if _, ok := c.Get([]byte("k")); ok {
		t.Error("a closed cache answers")
	}
}

func TestConcurrentUse(t *testing.T) {
	c := open(t, 64<<10)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var key []byte
			for i := range 5_000 {
				n := (i*7 + g) % 500
				key = AppendKey(key[:0], "default", "r1", trace.KindPrompt, fmt.Sprint(n))
				if v, ok := c.Get(key); ok {
					if v.Row != n || string(v.Bytes) != fmt.Sprint("value of ", n) {
						t.Errorf("%d answered %+v", n, v)
						return
					}
					continue
				}
				c.Set(key, Value{Bytes: fmt.Append(nil, "value of ", n), Row: n})
			}
		})
	}
	wg.Wait()
}

// TestKeysAreUnambiguous: two keys are equal only if all their parts are. Both
// are made of the same text, cut in other places, so that only the lengths of
// the parts differ.
func TestKeysAreUnambiguous(t *testing.T) {
	type parts struct {
		Workspace, Revision string
		Kind                trace.Kind
		Key                 string
		Values              []string
	}
	letters := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 'b'}), 0, 8)
	kinds := rapid.SampledFrom([]trace.Kind{trace.KindPrompt, trace.KindRemoteConfig})
	cut := func(t *rapid.T, text []byte, pieces int) []string {
		at := rapid.SliceOfN(rapid.IntRange(0, len(text)), pieces-1, pieces-1).Draw(t, "cuts")
		slices.Sort(at)
		var all []string
		from := 0
		for _, to := range append(at, len(text)) {
			all = append(all, string(text[from:to]))
			from = to
		}
		return all
	}
	build := func(p parts) []byte {
		key := AppendKey(nil, p.Workspace, p.Revision, p.Kind, p.Key)
		for _, value := range p.Values {
			key = AppendText(key, value)
		}
		return key
	}
	rapid.Check(t, func(t *rapid.T) {
		front, back := letters.Draw(t, "front"), letters.Draw(t, "back")
		draw := func() parts {
			names := cut(t, front, 2)
			rest := cut(t, back, rapid.IntRange(1, 4).Draw(t, "pieces"))
			return parts{names[0], names[1], kinds.Draw(t, "kind"), rest[0], rest[1:]}
		}
		a, b := draw(), draw()
		if same := cmp.Equal(a, b); same != bytes.Equal(build(a), build(b)) {
			t.Fatalf("%+v and %+v: equal %v, keys %q and %q", a, b, same, build(a), build(b))
		}
	})
}

func TestWorthwhile(t *testing.T) {
	for cost, want := range map[int]bool{0: false, 50: false, Threshold - 1: false, Threshold: true, 10_000: true} {
		if Worthwhile(cost) != want {
			t.Errorf("%d ns: %v", cost, !want)
		}
	}
}
