package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fatal has the methods common to *testing.T and *rapid.T.
type fatal interface {
	Helper()
	Fatal(args ...any)
}

// mustAuthority returns an authority with the test's only trace key, like one on
// another node at each call.
func mustAuthority(t fatal, workspace string) *Authority {
	t.Helper()
	a, err := NewAuthority(bytes.Repeat([]byte{7}, 32), workspace)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestIDLayout(t *testing.T) {
	tests := []struct {
		millis  int64
		kind    Kind
		counter uint64
		want    string
	}{
		{0, 0, 0, "00000000-0000-8000-8000-000000000000"},
		{0x0123456789ab, KindPrompt, 0, "01234567-89ab-8200-8000-000000000000"},
		{0x0123456789ab, KindMetrics, counterMask, "01234567-89ab-89ff-bfff-ffff00000000"},
		{maxMillis, 7, 1, "ffffffff-ffff-8e00-8000-000100000000"},
		{1, KindEndpoint, 1 << 30, "00000000-0001-8401-8000-000000000000"},
	}
	for _, test := range tests {
		id := newID(test.millis, test.kind, test.counter)
		if got := id.String(); got != test.want {
			t.Errorf("newID(%x, %d, %x) is %s, want %s", test.millis, test.kind, test.counter, got, test.want)
		}
		if id.Time().UnixMilli() != test.millis || id.Kind() != test.kind || !id.isForm() {
			t.Errorf("%s reads as %v of kind %d", id, id.Time(), id.Kind())
		}
	}
}

func TestIDsVerify(t *testing.T) {
	a, other := mustAuthority(t, "default"), mustAuthority(t, "other")
	otherKey, err := NewAuthority(bytes.Repeat([]byte{8}, 32), "default")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		kind := Kind(rapid.Uint8Range(uint8(KindPrompt), uint8(KindMetrics)).Draw(t, "kind"))
		now := time.UnixMilli(rapid.Int64Range(0, 1<<41).Draw(t, "time"))
		id := a.New(kind, now)
		if got, ok := a.Verify(id); !ok || got != kind {
			t.Fatalf("%s: %v, %v", id, got, ok)
		}
		if again, ok := mustAuthority(t, "default").Verify(id); !ok || again != kind {
			t.Fatalf("another node does not know %s", id)
		}
		if _, ok := other.Verify(id); ok {
			t.Fatalf("another workspace verifies %s", id)
		}
		if _, ok := otherKey.Verify(id); ok {
			t.Fatalf("another trace key verifies %s", id)
		}
		bit := rapid.IntRange(0, 127).Draw(t, "bit")
		forged := id
		forged[bit/8] ^= 1 << (bit % 8)
		if _, ok := a.Verify(forged); ok {
			t.Fatalf("%s verifies with bit %d changed", forged, bit)
		}
	})
}

// TestCheckIsStable checks that ids stay valid across releases: callers store them in
// databases.
func TestCheckIsStable(t *testing.T) {
	id, _ := ParseID("0190a5c8-0000-8200-8000-00019c1e418a")
	if kind, ok := mustAuthority(t, "default").Verify(id); !ok || kind != KindPrompt {
		want := mustAuthority(t, "default").check(id)
		t.Errorf("%s does not verify; its check is %08x", id, want)
	}
}

func TestUnknownKindDoesNotVerify(t *testing.T) {
	a := mustAuthority(t, "default")
	for _, kind := range []Kind{0, 5, 6, 7} {
		if got, ok := a.Verify(a.New(kind, time.Now())); ok {
			t.Errorf("kind %d verifies as %v", kind, got)
		}
	}
}

func TestIDBytes(t *testing.T) {
	a := mustAuthority(t, "default")
	for kind := KindPrompt; kind <= KindDecision; kind++ {
		low, high := kind.IDBytes()
		seen := map[byte]bool{}
		for range 100 {
			seen[a.New(kind, time.Now())[6]] = true
		}
		if !seen[low] && !seen[high] || len(seen) > 2 || len(seen) == 2 && !(seen[low] && seen[high]) {
			t.Errorf("kind %v: %v, want %d and %d", kind, seen, low, high)
		}
	}
}

// TestDecisionsAreNoTraces checks that Verify does not accept the id of a decision as
// the id of a trace.
func TestDecisionsAreNoTraces(t *testing.T) {
	a, err := NewAuthority(make([]byte, MinKeyLength), "w")
	if err != nil {
		t.Fatal(err)
	}
	id := a.New(KindDecision, time.Now())
	if kind, ok := a.Verify(id); ok || id.Kind() != KindDecision || !id.isForm() {
		t.Errorf("%s is valid (%t) and of kind %v", id, ok, kind)
	}
}

func TestIDsAscend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := mustAuthority(t, "default")
		if rapid.Bool().Draw(t, "near the counter's end") {
			a.millis, a.counter = 1005, counterMask-3
		}
		clock := rapid.SliceOfN(rapid.Int64Range(1000, 1010), 2, 50).Draw(t, "clock")
		var last ID
		for _, millis := range clock {
			id := a.New(KindPrompt, time.UnixMilli(millis))
			if bytes.Compare(id[:], last[:]) <= 0 {
				t.Fatalf("%s comes after %s", id, last)
			}
			last = id
		}
	})
}

// TestIDsDoNotCount checks that two ids do not reveal how many were made in between,
// unless they are of one millisecond.
func TestIDsDoNotCount(t *testing.T) {
	a := mustAuthority(t, "default")
	counter := func(id ID) uint64 {
		high, low := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
		return high&0x1ff<<30 | low>>32&(1<<30-1)
	}
	seen := make(map[uint64]bool)
	for millis := range int64(100) {
		first, second := a.New(KindPrompt, time.UnixMilli(millis)), a.New(KindPrompt, time.UnixMilli(millis))
		if bytes.Compare(first[:], second[:]) >= 0 {
			t.Fatalf("%s comes after %s", second, first)
		}
		near := counter(first) >> 4
		if seen[near] {
			t.Fatalf("%s goes on from an earlier millisecond", first)
		}
		seen[near] = true
	}
}

func TestIDsAreUniqueAcrossGoroutines(t *testing.T) {
	a := mustAuthority(t, "default")
	now := time.Now()
	const goroutines, each = 8, 2000
	ids := make([][]ID, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for range each {
				ids[g] = append(ids[g], a.New(KindEndpoint, now))
			}
		})
	}
	group.Wait()
	seen := make(map[ID]bool)
	for _, list := range ids {
		for _, id := range list {
			if seen[id] {
				t.Fatalf("%s was made twice", id)
			}
			seen[id] = true
			if _, ok := a.Verify(id); !ok {
				t.Fatalf("%s does not verify", id)
			}
		}
	}
}

func TestFirstID(t *testing.T) {
	a := mustAuthority(t, "default")
	at := time.UnixMilli(1790000000123)
	before, id := a.New(KindMetrics, at.Add(-time.Millisecond)), a.New(KindPrompt, at)
	first := FirstID(at)
	if bytes.Compare(before[:], first[:]) >= 0 || bytes.Compare(first[:], id[:]) > 0 {
		t.Errorf("%s is not between %s and %s", first, before, id)
	}
	if got := FirstID(time.UnixMilli(-1)); got != (ID{}) {
		t.Errorf("before 1970: %s", got)
	}
}

func TestParseID(t *testing.T) {
	const text = "01234567-89ab-8def-b123-456789abcdef"
	want := ID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x8d, 0xef, 0xb1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}
	for _, spelling := range []string{text, strings.ToUpper(text), "01234567-89aB-8DeF-b123-456789AbCdEf"} {
		if got, ok := ParseID(spelling); !ok || got != want {
			t.Errorf("%q: %s, %v", spelling, got, ok)
		}
		if got, ok := ParseID([]byte(spelling)); !ok || got != want {
			t.Errorf("bytes of %q: %s, %v", spelling, got, ok)
		}
	}
	for _, bad := range []string{
		"", text[1:], text + "0", "{" + text + "}", "urn:uuid:" + text, strings.ReplaceAll(text, "-", ""),
		strings.Replace(text, "8", "g", 1), strings.Replace(text, "8", "G", 1), strings.Replace(text, "-", "_", 1), "0123456-789ab-8def-b123-456789abcdef",
		strings.Replace(text, "0", "-", 1), "a0000000-0000-0000-0000-0000000000-0", strings.Replace(text, "01", "é", 1), text[:35] + "\x00",
	} {
		if got, ok := ParseID(bad); ok {
			t.Errorf("%q parses as %s", bad, got)
		}
	}
}

func TestIDAsJSON(t *testing.T) {
	id := mustAuthority(t, "default").New(KindPrompt, time.Now())
	encoded, err := json.Marshal(map[ID]ID{id: id})
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[ID]ID
	if err := json.Unmarshal(encoded, &decoded); err != nil || decoded[id] != id {
		t.Errorf("%s reads as %v, %v", encoded, decoded, err)
	}
	if err := json.Unmarshal([]byte(`"nonsense"`), &id); err == nil {
		t.Error("nonsense is an id")
	}
}

func TestNewAuthorityRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		key       []byte
		workspace string
	}{
		"no key":       {nil, "default"},
		"a short key":  {make([]byte, MinKeyLength-1), "default"},
		"no workspace": {make([]byte, MinKeyLength), ""},
	} {
		if _, err := NewAuthority(test.key, test.workspace); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNames(t *testing.T) {
	for _, k := range Kinds() {
		if got, ok := ParseKind(k.String()); !ok || got != k {
			t.Errorf("%s parses as %v, %v", k, got, ok)
		}
	}
	for s := StateEnded; s <= StateInterrupted; s++ {
		if got, ok := ParseState(s.String()); !ok || got != s {
			t.Errorf("%s parses as %v, %v", s, got, ok)
		}
	}
	if _, ok := ParseKind("unknown"); ok {
		t.Error("unknown is a kind")
	}
	if _, ok := ParseState(""); ok {
		t.Error("nothing is a state")
	}
	for name, want := range map[string]Outcome{"ok": OK, "error": Failed, "": AnyOutcome} {
		if got, ok := ParseOutcome(name); got != want || ok != (name != "") {
			t.Errorf("the outcome %q parses as %v, %v", name, got, ok)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("01234567-89ab-8def-b123-456789abcdef")
	f.Add("01234567-89AB-8DEF-B123-456789ABCDEF")
	f.Add("")
	f.Add("------------------------------------")
	f.Add("a0000000-0000-0000-0000-0000000000-0")
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := ParseID(text)
		if fromBytes, okBytes := ParseID([]byte(text)); fromBytes != id || okBytes != ok {
			t.Fatalf("%q reads differently from bytes", text)
		}
		if !ok {
			if id != (ID{}) {
				t.Fatalf("%q is refused and gives %s", text, id)
			}
			return
		}
		if id.String() != strings.ToLower(text) {
			t.Fatalf("%q reads as %s", text, id)
		}
	})
}

// FuzzVerify checks that Verify rejects ids that the workspace did not make.
func FuzzVerify(f *testing.F) {
	a, other := mustAuthority(f, "default"), mustAuthority(f, "other")
	at := time.UnixMilli(1790000000000)
	for _, authority := range []*Authority{a, other} {
		// The counter of a new millisecond is random, but each process of the fuzzer
		// must make the same two ids.
		authority.millis, authority.counter = at.UnixMilli(), 0
	}
	genuine, foreign := a.New(KindPrompt, at), other.New(KindEndpoint, at)
	f.Add(genuine[:])
	f.Add(foreign[:])
	f.Add(make([]byte, 16))
	f.Add(bytes.Repeat([]byte{0xff}, 16))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) != len(ID{}) {
			return
		}
		id := ID(raw)
		_, ok := a.Verify(id)
		if ok != (id == genuine) {
			t.Fatalf("%s verifies: %v", id, ok)
		}
		if _, ok := other.Verify(id); ok != (id == foreign) {
			t.Fatalf("%s verifies in the other workspace: %v", id, ok)
		}
	})
}

func BenchmarkAuthorityNew(b *testing.B) {
	a, now := mustAuthority(b, "default"), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		a.New(KindPrompt, now)
	}
}

// BenchmarkAuthorityNewMillisecond makes each id in a new millisecond.
func BenchmarkAuthorityNewMillisecond(b *testing.B) {
	a, now := mustAuthority(b, "default"), time.Now()
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		a.New(KindPrompt, now)
	}
}

func BenchmarkAuthorityNewParallel(b *testing.B) {
	a, now := mustAuthority(b, "default"), time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a.New(KindPrompt, now)
		}
	})
}

func BenchmarkAuthorityVerify(b *testing.B) {
	a := mustAuthority(b, "default")
	id := a.New(KindPrompt, time.Now())
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := a.Verify(id); !ok {
			b.Fatal("it does not verify")
		}
	}
}

func BenchmarkParseID(b *testing.B) {
	text := []byte("01234567-89ab-8def-b123-456789abcdef")
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := ParseID(text); !ok {
			b.Fatal("it does not parse")
		}
	}
}

func BenchmarkIDAppendTo(b *testing.B) {
	id := mustAuthority(b, "default").New(KindPrompt, time.Now())
	dst := make([]byte, 0, textLength)
	b.ReportAllocs()
	for b.Loop() {
		dst = id.AppendTo(dst[:0])
	}
}

// Ids are made, verified and written without allocations.
func TestIDsDoNotAllocate(t *testing.T) {
	a, now := mustAuthority(t, "default"), time.Now()
	text := make([]byte, 0, textLength)
	if n := testing.AllocsPerRun(1000, func() {
		id := a.New(KindPrompt, now)
		text = id.AppendTo(text[:0])
		parsed, _ := ParseID(text)
		a.Verify(parsed)
	}); n >= 1 && !raceEnabled {
		t.Errorf("%v allocations per id", n)
	}
}
