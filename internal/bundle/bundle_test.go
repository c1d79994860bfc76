package bundle

import (
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

// pair returns a new pair of Ed25519 keys.
func pair(t testing.TB) SigningKey {
	t.Helper()
	private, public, err := MakeKeys()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseSigningKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := ParsePublicKey(public); err != nil || p.ID() != key.Public().ID() {
		t.Fatalf("%v, %s and %s", err, p.ID(), key.Public().ID())
	}
	return key
}

func TestWhatIsBuiltIsRead(t *testing.T) {
	key := pair(t)
	files := []trace.File{{Path: "prompts/a.yaml", Content: "key: a\n"}, {Path: "context.yaml", Content: "x: <&>\n"}, {Path: ".cadenza-allow-empty"}}
	m := Manifest{Revision: "1f3 <&>", Serial: 7, Scope: "shop"}
	packed, err := Build(files, m, key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Read(packed, []PublicKey{key.Public()}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range b.Files {
		paths = append(paths, f.Path)
		if len(f.Hash) != 64 || !slices.ContainsFunc(files, func(g trace.File) bool { return g.Path == f.Path && g.Content == f.Content }) {
			t.Errorf("read %+v", f)
		}
	}
	if got := strings.Join(paths, " "); got != ".cadenza-allow-empty context.yaml prompts/a.yaml" || b.Manifest != m || b.KeyID != key.Public().ID() || string(b.Packed) != string(packed) {
		t.Errorf("read %s, %+v, key %s", got, b.Manifest, b.KeyID)
	}
}
