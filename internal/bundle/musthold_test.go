package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// attack makes a bundle that no reader with the key may take, or takes with the content
// that was signed alone. good is packed, and signed by the key.
type attack struct {
	name string
	make func(r *rand.Rand, key, other SigningKey, good []byte) []byte
}

// sample returns one element.
func sample[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// mutate changes a few bytes: other values, cuts, repeats, swaps.
func mutate(r *rand.Rand, text []byte) []byte {
	text = slices.Clone(text)
	for range 1 + r.IntN(4) {
		if len(text) < 2 {
			break
		}
		a, b := r.IntN(len(text)), r.IntN(len(text))
		a, b = min(a, b), max(a, b)
		switch r.IntN(6) {
		case 0, 1:
			text[a] ^= 1 << r.IntN(8)
		case 2:
			text[a] = byte(r.Uint32())
		case 3:
			text = slices.Delete(text, a, min(b, a+1+r.IntN(600)))
		case 4:
			text = slices.Insert(text, a, text[a:min(b, a+1+r.IntN(600))]...)
		case 5:
			text[a], text[b] = text[b], text[a]
		}
	}
	return text
}

// archives are those of packed bundles.
var archives sync.Map

func unzip(packed []byte) []byte {
	if text, ok := archives.Load(&packed[0]); ok {
		return text.([]byte)
	}
	text := must(io.ReadAll(must(gzip.NewReader(bytes.NewReader(packed)))))
	archives.Store(&packed[0], text)
	return text
}

// tokens are those of drafts that nothing was changed in, by the keys' ids.
var tokens sync.Map

func goodToken(key SigningKey) string {
	token, ok := tokens.Load(key.public.id)
	if !ok {
		token, _ = tokens.LoadOrStore(key.public.id, newDraft(key).token())
	}
	return token.(string)
}

// draftOf returns a draft with contents of its own for this attack, whose list is the
// signed one.
func draftOf(r *rand.Rand, key SigningKey) *draft {
	d := newDraft(key)
	d.signatures = `{"signatures":["` + goodToken(key) + `"]}`
	r.Shuffle(len(d.entries), func(i, j int) {
		d.entries[i], d.entries[j] = d.entries[j], d.entries[i]
		d.contents[i], d.contents[j] = d.contents[j], d.contents[i]
	})
	return d
}

var attacks = []attack{
	{"packed bytes", func(r *rand.Rand, _, _ SigningKey, good []byte) []byte { return mutate(r, good) }},
	{"bytes of the archive", func(r *rand.Rand, _, _ SigningKey, good []byte) []byte { return zip(mutate(r, unzip(good))) }},
	{"cut", func(r *rand.Rand, _, _ SigningKey, good []byte) []byte { return good[:r.IntN(len(good))] }},
	{"archive cut", func(r *rand.Rand, _, _ SigningKey, good []byte) []byte {
		text := unzip(good)
		return zip(text[:r.IntN(len(text))])
	}},
	{"a second part", func(r *rand.Rand, key, other SigningKey, good []byte) []byte {
		second := newDraft(other)
		second.contents[r.IntN(len(second.contents))] += "x"
		return sample(r, [][]byte{append(slices.Clone(good), second.pack()...), append(second.pack(), good...), append(slices.Clone(good), good...)})
	}},
	{"a file changed", func(r *rand.Rand, key, _ SigningKey, _ []byte) []byte {
		d := draftOf(r, key)
		i := r.IntN(len(d.contents))
		d.contents[i] = string(mutate(r, []byte(d.contents[i]+" ")))
		return d.pack()
	}},
	{"files swapped", func(r *rand.Rand, key, _ SigningKey, _ []byte) []byte {
		d := draftOf(r, key)
		i, j := r.IntN(len(d.contents)), r.IntN(len(d.contents))
		d.contents[i], d.contents[j] = d.contents[j], d.contents[i]
		return d.pack()
	}},
	{"a file added", func(r *rand.Rand, key, _ SigningKey, _ []byte) []byte {
		d := draftOf(r, key)
		h := tar.Header{Name: sample(r, []string{"x.yaml", "./context.yaml", "context.yaml", "../x.yaml", "/context.yaml", "prompts/../context.yaml", ".manifest", "./.manifest", ".signatures.json", "Context.yaml", "data.json", "context.yaml "})}
		h.Typeflag = sample(r, []byte{tar.TypeReg, tar.TypeReg, tar.TypeSymlink, tar.TypeLink, tar.TypeChar, tar.TypeFifo})
		content := ""
		if h.Typeflag == tar.TypeReg {
			content = sample(r, append(d.contents, "x"))
		} else {
			h.Linkname = sample(r, []string{"context.yaml", "/etc/passwd", "../x"})
		}
		d.addEntry(h, content)
		return d.pack()
	}},
	{"a file left out, or renamed", func(r *rand.Rand, key, _ SigningKey, _ []byte) []byte {
		d := draftOf(r, key)
		i := r.IntN(len(d.entries))
		if d.entries[i].Name += "l"; r.IntN(2) == 0 {
			d.entries, d.contents = slices.Delete(d.entries, i, i+1), slices.Delete(d.contents, i, i+1)
		}
		return d.pack()
	}},
	{"signed by another key", func(r *rand.Rand, key, other SigningKey, _ []byte) []byte {
		d := newDraft(other)
		if r.IntN(2) == 0 {
			d.kid = key.public.id
		}
		if r.IntN(2) == 0 {
			d.alg = sample(r, []string{key.public.algorithm, "none", "None", "HS256", "RS256", "ES256", "EdDSA", "PS256", "RS512", ""})
		}
		if r.IntN(4) == 0 {
			d.secret = []byte(key.public.id)
		}
		return d.pack()
	}},
	{"the token changed", func(r *rand.Rand, key, other SigningKey, _ []byte) []byte {
		d := newDraft(key)
		parts := strings.Split(goodToken(key), ".")
		d.payload.Files[r.IntN(len(d.payload.Files))].Name += "x"
		foreign := strings.Split(sample(r, []string{d.token(), goodToken(other)}), ".")
		for i := range parts {
			switch r.IntN(5) {
			case 0:
				parts[i] = foreign[i]
			case 1:
				parts[i] = strings.ReplaceAll(string(mutate(r, []byte(parts[i]))), `"`, "")
			}
		}
		d = newDraft(key)
		d.signatures = fmt.Sprintf(`{"signatures":[%q]}`, strings.Join(parts, "."))
		return d.pack()
	}},
	{"the list changed, and signed by another key", func(r *rand.Rand, key, other SigningKey, _ []byte) []byte {
		d := newDraft(other)
		i := r.IntN(len(d.contents))
		d.contents[i] += " "
		sum := sha256.Sum256([]byte(d.contents[i]))
		d.payload.Files[i].Hash = hex.EncodeToString(sum[:])
		d.kid = key.public.id
		return d.pack()
	}},
	{"the token of another bundle", func(r *rand.Rand, key, _ SigningKey, _ []byte) []byte {
		d := newDraft(key)
		d.add("x.yaml", "x") // signed with this, which is not in the archive
		token := d.token()
		d = newDraft(key)
		d.signatures = fmt.Sprintf(`{"signatures":[%q]}`, token)
		return d.pack()
	}},
	{"too much", func(r *rand.Rand, key, _ SigningKey, good []byte) []byte {
		d := draftOf(r, key)
		text := d.tarball()
		// A size that nothing stands behind, in the first header of a file.
		h := tar.Header{Name: "x.yaml", Typeflag: tar.TypeReg, Size: sample(r, []int64{1, maxManifest, maxFile, maxFile + 1, maxUnpacked, 1 << 40})}
		var b bytes.Buffer
		_ = tar.NewWriter(&b).WriteHeader(&h)
		return zip(append(b.Bytes(), text...))
	}},
}

// TestMustHoldNothingForeignIsRead gives a reader a million bundles that are mutated, cut,
// signed by others, put together from others, or too large, or a hundredth of them without
// CADENZA_FULL=1. It takes none with other content than what was signed. Those that it
// takes differ in what nobody signs: the order of files, and the fields of headers.
func TestMustHoldNothingForeignIsRead(t *testing.T) {
	n := 10_000 / fewer
	if os.Getenv("CADENZA_FULL") != "" {
		n *= 100
	}
	var good [3][]byte
	var keys, others [3]SigningKey
	for i, algorithm := range []string{"EdDSA", "RS256", "ES256"} {
		keys[i], others[i] = signers()[algorithm][0], signers()[algorithm][1]
		good[i] = must(Build(workspace, manifest, keys[i])).Packed
	}
	want := must(Read(good[0], []PublicKey{keys[0].Public()}, "shop"))
	var refused, same [20]atomic.Int64
	var next atomic.Int64
	var wait sync.WaitGroup
	var most atomic.Uint64
	runtime.GC() // of what other tests left
	for worker := range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(30, uint64(worker)))
			for {
				i := int(next.Add(1))
				if i > n {
					return
				}
				kind, of := i%len(attacks), r.IntN(3)
				other := others[of]
				if r.IntN(3) == 0 {
					other = keys[(of+1)%3]
				}
				packed := attacks[kind].make(r, keys[of], other, good[of])
				b, err := Read(packed, []PublicKey{keys[of].Public()}, "shop")
				switch {
				case err != nil:
					refused[kind].Add(1)
				case b.Manifest != want.Manifest || b.Contents() != want.Contents():
					t.Errorf("%s: %+v was read", attacks[kind].name, b)
				default:
					same[kind].Add(1)
				}
				if i%1000 == 0 {
					var memory runtime.MemStats
					runtime.ReadMemStats(&memory)
					most.Store(max(most.Load(), memory.HeapAlloc))
				}
			}
		})
	}
	wait.Wait()
	for i, a := range attacks {
		t.Logf("%-45s %7d refused, %6d with what was signed", a.name, refused[i].Load(), same[i].Load())
		if refused[i].Load() == 0 {
			t.Errorf("%s: none was refused", a.name)
		}
	}
	if most.Load() > 512<<20 {
		t.Errorf("%d MiB of memory", most.Load()>>20)
	}
}

// TestMustHoldNoOlderBundleFollows replays bundles in a random order: what is taken has
// rising serials, and of each serial one set of files.
func TestMustHoldNoOlderBundleFollows(t *testing.T) {
	key := signers()["EdDSA"][0]
	var all []*Bundle
	for serial := range int64(20) {
		for _, content := range []string{"a", "b"} {
			files := slices.Clone(workspace)
			files[0].Content = content
			all = append(all, must(Read(must(Build(files, Manifest{Serial: serial + 1}, key)).Packed, []PublicKey{key.Public()}, "")))
		}
	}
	r := rand.New(rand.NewPCG(30, 0))
	for range 2000 {
		var last *Bundle
		for range 40 {
			b := sample(r, all)
			if b.Check(last, false) != nil {
				continue
			}
			if last != nil && (b.Serial < last.Serial || b.Serial == last.Serial && b.Contents() != last.Contents()) {
				t.Fatalf("serial %d follows %d", b.Serial, last.Serial)
			}
			last = b
		}
	}
}

// FuzzRead holds that Read takes what was signed, or nothing, and that Inspect takes
// whatever Read takes.
func FuzzRead(f *testing.F) {
	key := signers()["EdDSA"][0]
	good := must(Build(workspace, manifest, key)).Packed
	want := must(Inspect(good))
	r := rand.New(rand.NewPCG(30, 0))
	f.Add(good, byte(0))
	f.Add(unzip(good), byte(1))
	f.Add([]byte(newDraft(key).contents[0]), byte(2))
	for _, a := range attacks {
		f.Add(a.make(r, key, signers()["RS256"][0], good), byte(0))
	}
	f.Fuzz(func(t *testing.T, packed []byte, form byte) {
		want := want
		switch form % 3 {
		case 1: // an archive
			packed = zip(packed)
		case 2: // a manifest
			d := newDraft(key)
			d.setManifest(string(packed))
			packed = d.pack()
			if b, err := Inspect(packed); err == nil {
				want = b
			}
		}
		_, inspectErr := Inspect(packed)
		b, err := Read(packed, []PublicKey{key.Public()}, manifest.Scope)
		if err == nil && (inspectErr != nil || b.Manifest != want.Manifest || b.Contents() != want.Contents()) {
			t.Errorf("%+v was read (%v)", b, inspectErr)
		}
	})
}
