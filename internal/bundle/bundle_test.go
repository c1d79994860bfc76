package bundle

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

// must returns a value, or panics with its error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// privatePEM returns a key as a file has it.
func privatePEM(key any) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))})
}

// signers are two keys of each kind, by their algorithms.
var signers = sync.OnceValue(func() map[string][2]SigningKey {
	made := make(map[string][2]SigningKey)
	seed := byte(0)
	for algorithm, make := range map[string]func() []byte{
		"EdDSA": func() []byte { // the same in each process that fuzzes
			seed++
			return privatePEM(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
		},
		"RS256": func() []byte { return privatePEM(must(rsa.GenerateKey(rand.Reader, minRSABits))) },
		"ES256": func() []byte { return privatePEM(must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))) },
	} {
		made[algorithm] = [2]SigningKey{must(ParseSigningKey(make())), must(ParseSigningKey(make()))}
	}
	return made
})

// workspace is what tests build.
var workspace = []trace.File{
	{Path: "remoteconfigs/limits.yaml", Content: "type: number\ndefault: 1\n"},
	{Path: "context.yaml", Content: "fields: { plan: string }\n"},
	{Path: ".cadenza-allow-empty"},
	{Path: "prompts/hi.yaml", Content: "messages: [ { role: user, content: \"<&> ü\" } ]\n"},
}

var manifest = Manifest{Revision: "1f3a <&> ü", Serial: 7, Scope: "shop"}

func TestWhatIsBuiltIsRead(t *testing.T) {
	for algorithm, keys := range signers() {
		built, err := Build(workspace, manifest, keys[0])
		if err != nil {
			t.Fatal(algorithm, err)
		}
		packed := built.Packed
		if again := must(Build(backward(workspace), manifest, keys[0])).Packed; !bytes.Equal(packed, again) {
			t.Errorf("%s: the same files have other bytes", algorithm)
		}
		b, err := Read(packed, []PublicKey{keys[1].Public(), keys[0].Public()}, "shop")
		if err != nil {
			t.Fatal(algorithm, err)
		}
		var paths []string
		for _, f := range b.Files {
			paths = append(paths, f.Path)
			sum := sha256.Sum256([]byte(f.Content))
			if f.Hash != hex.EncodeToString(sum[:]) || !slices.ContainsFunc(workspace, func(g trace.File) bool { return g.Path == f.Path && g.Content == f.Content }) {
				t.Errorf("%s: read %+v", algorithm, f)
			}
		}
		if got := strings.Join(paths, " "); got != ".cadenza-allow-empty context.yaml prompts/hi.yaml remoteconfigs/limits.yaml" || b.Manifest != manifest || b.KeyID != keys[0].Public().ID() || !bytes.Equal(b.Packed, packed) {
			t.Errorf("%s: read %s, %+v, key %s", algorithm, got, b.Manifest, b.KeyID)
		}
		seen := must(Inspect(packed))
		if seen.KeyID != b.KeyID || seen.Manifest != b.Manifest || seen.Contents() != b.Contents() || seen.Tag() != b.Tag() {
			t.Errorf("%s: Inspect has %+v", algorithm, seen.Manifest)
		}
	}
}

// backward returns files from the last to the first.
func backward(files []trace.File) []trace.File {
	files = slices.Clone(files)
	slices.Reverse(files)
	return files
}

// draft is a bundle that is made by hand.
type draft struct {
	key     SigningKey
	alg     string // in place of the key's
	header  string // in place of the whole header
	kid     string // in place of the key's id
	secret  []byte // of an HMAC in place of the key's signature
	payload payload
	// signatures is the file in place of the one with the signature.
	signatures string
	entries    []tar.Header // with contents
	contents   []string
	end        string // behind the archive
}

// newDraft returns what Build makes, for tests to change.
func newDraft(key SigningKey) *draft {
	d := &draft{key: key, payload: payload{Scope: manifest.Scope}}
	d.add(manifestName, `{"metadata":{"scope":"shop","serial":7},"revision":"1f3a <&> ü","roots":[""]}`)
	for _, f := range workspace {
		d.add(f.Path, f.Content)
	}
	return d
}

// add adds a file that the signature lists.
func (d *draft) add(name, content string) {
	sum := sha256.Sum256([]byte(content))
	d.payload.Files = append(d.payload.Files, listed{name, hex.EncodeToString(sum[:]), hashAlgorithm})
	d.addEntry(tar.Header{Name: name}, content)
}

// addEntry adds what the signature does not list.
func (d *draft) addEntry(h tar.Header, content string) {
	h.Typeflag = cmp.Or(h.Typeflag, tar.TypeReg)
	d.entries, d.contents = append(d.entries, h), append(d.contents, content)
}

// setManifest replaces the manifest, and signs the new one.
func (d *draft) setManifest(text string) {
	d.entries, d.contents, d.payload.Files = d.entries[1:], d.contents[1:], d.payload.Files[1:]
	d.add(manifestName, text)
}

// file returns where a file is.
func (d *draft) file(name string) int {
	return slices.IndexFunc(d.entries, func(h tar.Header) bool { return h.Name == name })
}

// token signs as the draft says.
func (d *draft) token() string {
	encode := base64.RawURLEncoding.EncodeToString
	header := cmp.Or(d.header, fmt.Sprintf(`{"alg":%q,"kid":%q}`, cmp.Or(d.alg, d.key.public.algorithm), cmp.Or(d.kid, d.key.public.id)))
	text := encode([]byte(header)) + "." + encode(must(json.Marshal(d.payload)))
	signature := must(d.key.sign(text))
	if d.alg == "none" {
		signature = nil
	}
	if d.secret != nil {
		mac := hmac.New(sha256.New, d.secret)
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	}
	return text + "." + encode(signature)
}

// tarball returns the archive, not packed.
func (d *draft) tarball() []byte {
	var b bytes.Buffer
	archive := tar.NewWriter(&b)
	if d.signatures == "" {
		d.signatures = `{"signatures":["` + d.token() + `"]}`
	}
	d.addEntry(tar.Header{Name: signaturesName}, d.signatures)
	for i, h := range d.entries {
		h.Mode, h.Size = 0o644, int64(len(d.contents[i]))
		if err := archive.WriteHeader(&h); err != nil {
			panic(err)
		}
		if h.Size > 0 {
			must(io.WriteString(archive, d.contents[i]))
		}
	}
	if err := archive.Close(); err != nil {
		panic(err)
	}
	return append(b.Bytes(), d.end...)
}

// pack returns the bundle.
func (d *draft) pack() []byte { return zip(d.tarball()) }

var zippers = sync.Pool{New: func() any { return must(gzip.NewWriterLevel(nil, gzip.BestSpeed)) }}

func zip(text []byte) []byte {
	var b bytes.Buffer
	w := zippers.Get().(*gzip.Writer)
	defer zippers.Put(w)
	w.Reset(&b)
	must(w.Write(text))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// TestRefusals holds that each thing that can be wrong has a sentence of its own.
func TestRefusals(t *testing.T) {
	ed, rsaKeys, ec := signers()["EdDSA"], signers()["RS256"], signers()["ES256"]
	key := ed[0]
	for _, test := range []struct {
		name   string
		change func(d *draft)
		want   string // that the sentence has
	}{
		{"nothing", func(*draft) {}, ""},
		{"names with ./, folders, zeros behind", func(d *draft) {
			for i := range d.entries {
				d.entries[i].Name = "./" + d.entries[i].Name
			}
			d.addEntry(tar.Header{Name: "./", Typeflag: tar.TypeDir}, "")
			d.addEntry(tar.Header{Name: "./prompts/", Typeflag: tar.TypeDir}, "")
			d.end = strings.Repeat("\x00", 8192)
		}, ""},
		{"a manifest with spaces", func(d *draft) {
			d.contents[0] = "{ \"revision\": \"1f3a \\u003c&> ü\",\n\"roots\": [\"\"], \"metadata\": { \"serial\": 7, \"scope\": \"shop\" } }\n"
		}, ""},
		{"a scope of the signature alone", func(d *draft) {
			d.setManifest(`{"metadata":{"serial":7},"revision":"1f3a <&> ü"}`)
		}, ""},
		{"a scope of the manifest alone", func(d *draft) { d.payload.Scope = "" }, ""},
		{"another key of the kind", func(d *draft) { d.key = ed[1] }, "is by another key"},
		{"another key that says it is ours", func(d *draft) { d.kid, d.key = key.Public().ID(), ed[1] }, "is by another key"},
		{"a key of another kind", func(d *draft) { d.key = rsaKeys[0] }, `says it is "RS256", and there is no public key for that`},
		{"another kind that says it is ours", func(d *draft) { d.key, d.alg = ec[0], "EdDSA" }, "is by another key"},
		{"our key that says it is another", func(d *draft) { d.alg = "ES256" }, `says it is "ES256"`},
		{"none", func(d *draft) { d.alg = "none" }, `"alg": "none"`},
		{"None", func(d *draft) { d.header = `{"alg":"None"}` }, `"alg": "none"`},
		{"no algorithm", func(d *draft) { d.header = `{}` }, `"alg": "none"`},
		{"a shared secret", func(d *draft) {
			d.alg, d.secret = "HS256", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(key.public.key))})
		}, "shared secret (HS256)"},
		{"no header", func(d *draft) { d.header = `EdDSA` }, "no JSON Web Token"},
		{"two parts", func(d *draft) { d.signatures = `{"signatures":["e30.e30"]}` }, "no JSON Web Token"},
		{"no base64", func(d *draft) { d.signatures = `{"signatures":["e30.e30.?"]}` }, "no JSON Web Token"},
		{"no signature", func(d *draft) { d.signatures = `{"signatures":[]}` }, "has 0 signatures"},
		{"two signatures", func(d *draft) { d.signatures = `{"signatures":["` + d.token() + `","` + d.token() + `"]}` }, "has 2 signatures"},
		{"no list of signatures", func(d *draft) { d.signatures = `[]` }, `is not {"signatures"`},
		{"null", func(d *draft) { d.signatures = `null` }, `is not {"signatures"`},
		{"two files of signatures", func(d *draft) {
			d.addEntry(tar.Header{Name: signaturesName}, `{"signatures":["`+d.token()+`"]}`)
		}, `the file ".signatures.json" twice`},
		{"a file beside the list", func(d *draft) { d.addEntry(tar.Header{Name: "prompts/new.yaml"}, "x") }, `the file "prompts/new.yaml", which its signature does not list`},
		{"a file that is missing", func(d *draft) {
			d.payload.Files = append(d.payload.Files, listed{"a.yaml", strings.Repeat("0", 64), hashAlgorithm})
		}, `lacks the file "a.yaml"`},
		{"a changed file", func(d *draft) { d.contents[d.file("context.yaml")] += " " }, `the file "context.yaml" of the bundle is not the one that was signed`},
		{"two files swapped", func(d *draft) {
			a, b := d.file("context.yaml"), d.file("prompts/hi.yaml")
			d.contents[a], d.contents[b] = d.contents[b], d.contents[a]
		}, `the file "context.yaml" of the bundle is not`},
		{"a changed manifest", func(d *draft) { d.contents[0] = strings.Replace(d.contents[0], "7", "8", 1) }, `the file ".manifest" of the bundle is not`},
		{"a manifest with a number written otherwise", func(d *draft) { d.contents[0] = strings.Replace(d.contents[0], "[\"\"]", "[\"\"],\"x\":1.0", 1) }, `the file ".manifest" of the bundle is not`},
		{"metadata before the signed metadata", func(d *draft) {
			d.payload.Scope = ""
			d.setManifest(`{"metadata":{"serial":7}}`)
			d.contents[len(d.contents)-1] = `{"metadata":{"scope":"shop"},"metadata":{"serial":7}}`
		}, `is for the scope ""`},
		{"something behind the manifest", func(d *draft) { d.contents[0] += "{}" }, "something stands behind its JSON"},
		{"no JSON in the manifest", func(d *draft) { d.contents[0] = "revision: 1" }, ".manifest can't be read"},
		{"a revision that is no text", func(d *draft) { d.contents[0] = `{"revision":1}` }, ".manifest can't be read"},
		{"no manifest", func(d *draft) {
			d.entries, d.contents, d.payload.Files = d.entries[1:], d.contents[1:], d.payload.Files[1:]
		}, "has no .manifest"},
		{"no serial", func(d *draft) { d.setManifest(`{"revision":"x"}`) }, "has no serial"},
		{"serial 0", func(d *draft) { d.setManifest(`{"metadata":{"serial":0}}`) }, "has no serial"},
		{"serial 1.5", func(d *draft) { d.setManifest(`{"metadata":{"serial":1.5}}`) }, "has no serial"},
		{"serial 1e30", func(d *draft) { d.setManifest(`{"metadata":{"serial":10000000000000000000}}`) }, "has no serial"},
		{"another scope", func(d *draft) {
			d.payload.Scope = "office"
			d.setManifest(`{"metadata":{"scope":"office","serial":7}}`)
		}, `is for the scope "office", and "shop" is asked for`},
		{"two scopes", func(d *draft) { d.payload.Scope = "office" }, `signature is for the scope "office", and its manifest for "shop"`},
		{"MD5", func(d *draft) { d.payload.Files[2].Algorithm = "MD5" }, `has a hash "MD5"`},
		{"no algorithm of a hash", func(d *draft) { d.payload.Files[2].Algorithm = "" }, `has a hash ""`},
		{"half a hash", func(d *draft) { d.payload.Files[2].Hash = d.payload.Files[2].Hash[:32] }, `has a hash "SHA-256" of the file`},
		{"a name twice in the list", func(d *draft) { d.payload.Files = append(d.payload.Files, d.payload.Files[2]) }, `lists the file "context.yaml" twice`},
		{"a payload that is none", func(d *draft) { d.payload = payload{} }, `".manifest", which its signature does not list`},
		{"a file twice", func(d *draft) { d.addEntry(tar.Header{Name: "context.yaml"}, d.contents[2]) }, `the file "context.yaml" twice`},
		{"a file twice by ./", func(d *draft) { d.addEntry(tar.Header{Name: "./context.yaml"}, d.contents[2]) }, `the file "context.yaml" twice`},
		{"a link", func(d *draft) {
			d.addEntry(tar.Header{Name: "prompts/l.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "")
		}, "neither a file nor a folder"},
		{"a hard link", func(d *draft) {
			d.addEntry(tar.Header{Name: "prompts/l.yaml", Typeflag: tar.TypeLink, Linkname: "context.yaml"}, "")
		}, "neither a file nor a folder"},
		{"a pipe", func(d *draft) { d.addEntry(tar.Header{Name: "prompts/l.yaml", Typeflag: tar.TypeFifo}, "") }, "neither a file nor a folder"},
		{"a name out of the workspace", func(d *draft) { d.add("../x.yaml", "") }, `with the name "../x.yaml"`},
		{"a name out of it within", func(d *draft) { d.add("prompts/../../x.yaml", "") }, `with the name "prompts/../../x.yaml"`},
		{"an absolute name", func(d *draft) { d.add("/etc/x.yaml", "") }, `with the name "/etc/x.yaml"`},
		{"././", func(d *draft) { d.add("././x.yaml", "") }, `with the name "././x.yaml"`},
		{"two slashes", func(d *draft) { d.add("prompts//x.yaml", "") }, `with the name "prompts//x.yaml"`},
		{"a backslash", func(d *draft) { d.add(`prompts\..\..\x.yaml`, "") }, `with the name "prompts\\..`},
		{"a folder out of the workspace", func(d *draft) { d.addEntry(tar.Header{Name: "../", Typeflag: tar.TypeDir}, "") }, `with the name "../"`},
		{"no name", func(d *draft) { d.add(".", "") }, `with the name`},
		{"data.json", func(d *draft) { d.add("data.json", "{}") }, `the file "data.json", a name that means something else`},
		{"data.yaml deep down", func(d *draft) { d.add("prompts/data.yaml", "{}") }, `the file "prompts/data.yaml", a name that`},
		{"data.yml", func(d *draft) { d.add("prompts/data.yml", "{}") }, `the file "prompts/data.yml", a name that`},
		{"patch.json", func(d *draft) { d.add("prompts/patch.json", "{}") }, `the file "prompts/patch.json", a name that`},
		{"a second manifest", func(d *draft) { d.add("prompts/.manifest", "{}") }, `the file "prompts/.manifest", a name that`},
		{"a second signature", func(d *draft) { d.add("prompts/.signatures.json", "{}") }, `the file "prompts/.signatures.json", a name that`},
		{"a large manifest", func(d *draft) { d.contents[0] += strings.Repeat(" ", maxManifest) }, "more than 64 KiB"},
		{"a large file", func(d *draft) { d.add("a.yaml", strings.Repeat(" ", maxFile+1)) }, "more than 16384 KiB"},
		{"too many files", func(d *draft) {
			for i := range maxFiles {
				d.add(fmt.Sprintf("prompts/%d.yaml", i), "")
			}
		}, "more than 20000 files and folders"},
		{"something behind the archive", func(d *draft) { d.end = strings.Repeat("\x00", 100) + "x" }, "behind the end of its archive"},
	} {
		d := newDraft(key)
		test.change(d)
		b, err := Read(d.pack(), []PublicKey{key.Public()}, "shop")
		switch {
		case test.want == "" && (err != nil || b.Manifest != manifest || len(b.Files) != len(workspace)):
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
		if err != nil && !strings.Contains(err.Error(), ": ") {
			t.Errorf("%s: the sentence does not say what to do: %v", test.name, err)
		}
	}
}

// TestPackedRefusals are those of bytes that are no archive.
func TestPackedRefusals(t *testing.T) {
	d := newDraft(signers()["EdDSA"][0])
	good := d.pack()
	tarball := newDraft(d.key).tarball()
	for name, test := range map[string]struct {
		packed []byte
		want   string
	}{
		"nothing":        {nil, "no gzipped tarball"},
		"a page":         {[]byte("<html>"), "no gzipped tarball"},
		"not zipped":     {tarball, "no gzipped tarball"},
		"cut":            {good[:len(good)-5], "archive is damaged"},
		"half":           {good[:len(good)/2], "archive is damaged"},
		"garbage behind": {append(slices.Clone(good), "x"...), "archive is damaged"},
		"empty":          {zip(nil), "is not signed"},
		"no archive":     {zip([]byte(strings.Repeat("x", 2000))), "archive is damaged"},
		"cut inside":     {zip(tarball[:len(tarball)-2000]), "archive is damaged"},
		"too large":      {make([]byte, MaxPacked+1), "more than 64 MiB"},
		"checksum":       {append(slices.Clone(good[:len(good)-8]), 1, 2, 3, 4, 5, 6, 7, 8), "archive is damaged"},
	} {
		if _, err := Read(test.packed, []PublicKey{d.key.Public()}, "shop"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := Read(good, nil, "shop"); err == nil || !strings.Contains(err.Error(), "no public key") {
		t.Error(err)
	}
	if _, err := Read(good, []PublicKey{d.key.Public()}, ""); err == nil || !strings.Contains(err.Error(), `for the scope "shop", and "" is asked for`) {
		t.Error(err)
	}
}

// TestBombs reads what unpacks to far more than a reader may hold.
func TestBombs(t *testing.T) {
	if fewer > 1 {
		t.Skip("one goroutine reads 256 MiB again and again")
	}
	key := signers()["EdDSA"][0]
	block := func(h tar.Header) []byte {
		var b bytes.Buffer
		if err := tar.NewWriter(&b).WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	// A gzip may be several, one behind the other: so 16 MiB are compressed once.
	const part = 16 << 20
	zeros := zip(make([]byte, part))
	file := func(name string, size int64) []byte {
		return zip(block(tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size}))
	}
	var files []byte
	for i := range maxUnpacked/part + 1 {
		files = append(append(files, file(fmt.Sprint(i, ".yaml"), part)...), zeros...)
	}
	for name, test := range map[string]struct {
		packed []byte
		want   string
	}{
		"files":        {files, "more than 256 MiB"},
		"one file":     {append(file("a.yaml", 1<<30), zeros...), "more than 256 MiB"},
		"a large file": {append(file("a.yaml", part+1), zeros...), "more than 16384 KiB"},
		"folders":      {bytes.Repeat(zip(bytes.Repeat(block(tar.Header{Typeflag: tar.TypeDir, Name: "a/"}), part/512)), 2), "more than 20000 files and folders"},
		"zeros behind": {append(newDraft(key).pack(), bytes.Repeat(zeros, maxUnpacked/part)...), "more than 256 MiB"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(test.packed, []PublicKey{key.Public()}, "shop")
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 128<<20 {
			t.Errorf("%s: %d MiB were allocated", name, took>>20)
		} else {
			t.Logf("%s: %d bytes packed, %d MiB allocated", name, len(test.packed), took>>20)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	key := signers()["EdDSA"][0]
	for name, test := range map[string]struct {
		files []trace.File
		m     Manifest
		key   SigningKey
		want  string
	}{
		"no key":    {workspace, manifest, SigningKey{}, "needs a key"},
		"no serial": {workspace, Manifest{}, key, "has no serial"},
		"data.yaml": {[]trace.File{{Path: "prompts/data.yaml"}}, manifest, key, "a name that means something else"},
		"twice":     {append(workspace[:1:1], workspace[0]), manifest, key, "twice"},
		"manifest":  {[]trace.File{{Path: manifestName}}, manifest, key, "twice"},
		"out":       {[]trace.File{{Path: "../a.yaml"}}, manifest, key, "with the name"},
		"large":     {[]trace.File{{Path: "a.yaml", Content: strings.Repeat("x", maxFile+1)}}, manifest, key, "more than 16384 KiB"},
	} {
		if _, err := Build(test.files, test.m, test.key); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func TestCheck(t *testing.T) {
	bundle := func(serial int64, content string) *Bundle {
		return must(Inspect(must(Build([]trace.File{{Path: "a.yaml", Content: content}}, Manifest{Serial: serial}, signers()["EdDSA"][0])).Packed))
	}
	for name, test := range map[string]struct {
		next, last *Bundle
		rollback   bool
		want       string
	}{
		"first":            {bundle(1, "a"), nil, false, ""},
		"newer":            {bundle(3, "b"), bundle(2, "a"), false, ""},
		"newer, the same":  {bundle(3, "a"), bundle(2, "a"), false, ""},
		"again":            {bundle(2, "a"), bundle(2, "a"), false, ""},
		"older":            {bundle(1, "a"), bundle(2, "a"), false, "serial 1 is older than 2"},
		"older, allowed":   {bundle(1, "b"), bundle(2, "a"), true, ""},
		"the same, others": {bundle(2, "b"), bundle(2, "a"), false, "has the serial 2 of the one that is served, and other files"},
		"others, allowed":  {bundle(2, "b"), bundle(2, "a"), true, "and other files"},
	} {
		if err := test.next.Check(test.last, test.rollback); (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if a, b := bundle(1, "a"), bundle(2, "a"); a.Tag() == b.Tag() || a.Contents() != b.Contents() || a.Tag() != (&Bundle{Packed: a.Packed}).Tag() || len(a.Tag()) != 34 || a.Tag()[0] != '"' {
		t.Errorf("%s and %s, %s and %s", a.Tag(), b.Tag(), a.Contents(), b.Contents())
	}
}

func TestKeys(t *testing.T) {
	private, public, err := MakeKeys()
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	publicPEM := func(key any) []byte { return block("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(key))) }
	short := must(rsa.GenerateKey(rand.Reader, 1024))
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	exchange := must(ecdh.X25519().GenerateKey(rand.Reader))
	parsePublic := func(text []byte) error { _, err := ParsePublicKey(text); return err }
	parsePrivate := func(text []byte) error { _, err := ParseSigningKey(text); return err }
	for _, test := range []struct {
		name  string
		parse func([]byte) error
		text  []byte
		want  string
	}{
		{"public", parsePublic, public, ""},
		{"private", parsePrivate, private, ""},
		{"private for public", parsePublic, private, `a PEM block "PRIVATE KEY", and not "PUBLIC KEY"`},
		{"public for private", parsePrivate, public, `a PEM block "PUBLIC KEY", and not "PRIVATE KEY"`},
		{"nothing", parsePublic, nil, "no PEM block"},
		{"a secret", parsePrivate, []byte("secret"), "no PEM block"},
		{"two", parsePublic, append(slices.Clone(public), public...), "more than one PEM block"},
		{"no key inside", parsePublic, block("PUBLIC KEY", []byte("x")), "can't be read"},
		{"no private key inside", parsePrivate, block("PRIVATE KEY", []byte("x")), "can't be read"},
		{"a certificate", parsePublic, block("CERTIFICATE", nil), `a PEM block "CERTIFICATE", and not "PUBLIC KEY": give`},
		{"of the older form", parsePrivate, block("RSA PRIVATE KEY", nil), `"RSA PRIVATE KEY", and not "PRIVATE KEY": give`},
		{"encrypted", parsePrivate, block("ENCRYPTED PRIVATE KEY", nil), "without a passphrase"},
		{"short RSA", parsePublic, publicPEM(short.Public()), "has 1024 bits"},
		{"short private RSA", parsePrivate, privatePEM(short), "has 1024 bits"},
		{"P-384", parsePublic, publicPEM(p384.Public()), "P-384"},
		{"private P-384", parsePrivate, privatePEM(p384), "P-384"},
		{"X25519", parsePublic, publicPEM(exchange.Public()), "take Ed25519"},
		{"private X25519", parsePrivate, privatePEM(exchange), "take Ed25519"},
	} {
		if err := test.parse(test.text); (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
	p, s := must(ParsePublicKey(public)), must(ParseSigningKey(private))
	if p.ID() != s.Public().ID() || len(p.ID()) != 16 {
		t.Errorf("%s and %s", p.ID(), s.Public().ID())
	}
}

// TestManual holds that the sentences of docs/bundles.md are those of the code.
func TestManual(t *testing.T) {
	page := string(must(os.ReadFile("../../docs/bundles.md")))
	var code string
	for _, name := range []string{"bundle.go", "read.go"} {
		code += string(must(os.ReadFile(name)))
	}
	_, table, _ := strings.Cut(page, "\n## What is refused\n")
	rows := 0
	for line := range strings.SplitSeq(table, "\n") {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		rows++
		for i, part := range strings.Split(strings.Split(line, "|")[1], "`") {
			if i%2 == 1 && !strings.Contains(code, part) {
				t.Errorf("no sentence has %q", part)
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows", rows)
	}
}
