package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

// opaRequired is the variable that makes it a failure that testdata/opa can't be built.
const opaRequired = "CADENZA_REQUIRE_OPA"

// TestOpenPolicyAgent reads ours by Open Policy Agent's library, and reads what that
// signed. Its program is testdata/opa, a module of its own.
func TestOpenPolicyAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Open Policy Agent's library")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "opa")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../../testdata/opa"
	build.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	if output, err := build.CombinedOutput(); err != nil && os.Getenv(opaRequired) != "" {
		t.Fatalf("%v\n%s", err, output)
	} else if err != nil {
		t.Skipf("testdata/opa can't be built (set %s to fail instead): %v\n%s", opaRequired, err, output)
	}
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	opa := func(arguments ...string) (string, error) {
		command := exec.CommandContext(t.Context(), program, arguments...)
		var errors bytes.Buffer
		command.Stderr = &errors
		output, err := command.Output()
		return string(output) + errors.String(), err
	}
	// opa sign leaves out the first dot of names other than .manifest.
	files := slices.DeleteFunc(slices.Clone(workspace), func(f trace.File) bool { return strings.HasPrefix(f.Path, ".") })
	const theirManifest = "{\n  \"revision\": \"<1> ü\",\n  \"metadata\": { \"serial\": 9, \"more\": [1.0, 1e2, {\"b\": \"\\u003c\", \"a\": null}] }\n}\n"
	for _, f := range append(files, trace.File{Path: manifestName, Content: theirManifest}) {
		file("workspace/"+f.Path, []byte(f.Content))
	}
	claims := file("claims.json", []byte(`{"scope":"shop","iat":1700000000,"iss":"ci"}`))

	for algorithm, keys := range signers() {
		key := keys[0]
		public := file(algorithm+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(key.public.key))}))
		other := file(algorithm+".other", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(keys[1].public.key))}))
		packed := file(algorithm+".tar.gz", must(Build(workspace, manifest, key)).Packed)
		const want = `{"revision":"1f3a \u003c\u0026\u003e ü","roots":[""],"metadata":{"scope":"shop","serial":7}}` + "\n"
		if got, err := opa("verify", packed, public, algorithm, key.Public().ID(), "shop"); err != nil || got != want {
			t.Errorf("%s: Open Policy Agent reads ours as %s (%v)", algorithm, got, err)
		}
		for _, wrong := range [][]string{{packed, other, algorithm, "", "shop"}, {packed, public, algorithm, "", "office"}} {
			if got, err := opa(append([]string{"verify"}, wrong...)...); err == nil {
				t.Errorf("%s: %v were read as %s", algorithm, wrong, got)
			}
		}

		private := file(algorithm+".key", privatePEM(key.signer))
		for _, scope := range []string{"", "shop"} {
			arguments := []string{"sign", filepath.Join(dir, "workspace"), private, algorithm}
			if scope != "" {
				arguments = append(arguments, claims)
			}
			signatures, err := opa(arguments...)
			if err != nil {
				t.Fatal(algorithm, signatures, err)
			}
			d := &draft{signatures: signatures}
			d.addEntry(tar.Header{Name: manifestName}, theirManifest)
			d.addEntry(tar.Header{Name: "prompts/", Typeflag: tar.TypeDir}, "")
			for _, f := range files {
				d.addEntry(tar.Header{Name: f.Path}, f.Content)
			}
			theirs := d.pack()
			b, err := Read(theirs, []PublicKey{key.Public()}, scope)
			if err != nil || b.Manifest != (Manifest{"<1> ü", 9, scope}) || len(b.Files) != len(files) {
				t.Errorf("%s: what Open Policy Agent signed: %v", algorithm, err)
			}
			// And as it reads it itself.
			theirFile := file("theirs.tar.gz", theirs)
			if got, err := opa("verify", theirFile, public, algorithm, "k", scope); err != nil {
				t.Errorf("%s: %s (%v)", algorithm, got, err)
			}
		}
	}
}
