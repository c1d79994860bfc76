package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// small is a release of this command in place of the gateway, which takes minutes to
// build.
func small(t *testing.T) release {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(module, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range beside {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(content))
	}
	write("authorities.pem", "some authorities")
	write("go.mod", "module example.com/small\n\ngo 1.26\n")
	write("main.go", "package main\n\nfunc main() { println(\"small\") }\n")
	return release{
		root: module, output: filepath.Join(t.TempDir(), "dist"), version: "1.2.3", created: time.Unix(1_700_000_000, 0).UTC(),
		build: []string{"-trimpath", "-buildvcs=false"}, main: ".", authorities: filepath.Join(module, "authorities.pem"),
	}
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestRelease makes a release twice, and looks into all its files.
func TestRelease(t *testing.T) {
	r := small(t)
	list := []string{"linux/" + runtime.GOARCH, "windows/amd64"}
	if err := r.make(list); err != nil {
		t.Fatal(err)
	}
	name := "cadenza_1.2.3_linux_" + runtime.GOARCH
	want := []string{
		"SHA256SUMS", "cadenza_1.2.3_image.tar", name + ".cdx.json", name + ".tar.gz",
		"cadenza_1.2.3_windows_amd64.cdx.json", "cadenza_1.2.3_windows_amd64.zip",
	}
	entries, err := os.ReadDir(r.output)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, entry := range entries {
		have = append(have, entry.Name())
	}
	if !slices.Equal(have, want) {
		t.Fatalf("the release is %q, want %q", have, want)
	}

	sums := string(read(t, r.output, "SHA256SUMS"))
	for _, file := range want[1:] {
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(read(t, r.output, file)), file); !strings.Contains(sums, line) {
			t.Errorf("SHA256SUMS lacks %q", line)
		}
	}

	contents, modes := untar(t, unzip(t, read(t, r.output, name+".tar.gz")))
	for _, file := range beside {
		if !bytes.Equal(contents[name+"/"+file], read(t, "..", file)) {
			t.Errorf("%s is not that of the checkout", file)
		}
	}
	binary := contents[name+"/caddy"]
	if !bytes.HasPrefix(binary, []byte("\x7fELF")) || modes[name+"/caddy"] != 0o755 {
		t.Errorf("caddy is no program: mode %o, %.10q", modes[name+"/caddy"], binary)
	}

	windows, err := zip.OpenReader(filepath.Join(r.output, "cadenza_1.2.3_windows_amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer windows.Close()
	program, err := windows.Open("cadenza_1.2.3_windows_amd64/caddy.exe")
	if err != nil {
		t.Fatal(err)
	}
	if start := make([]byte, 2); true {
		if _, err := io.ReadFull(program, start); err != nil || string(start) != "MZ" {
			t.Errorf("caddy.exe is no program: %q, %v", start, err)
		}
	}

	var bill cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(read(t, r.output, name+".cdx.json")), cdx.BOMFileFormatJSON).Decode(&bill); err != nil {
		t.Fatal(err)
	}
	if c := bill.Metadata.Component; c.Version != "1.2.3" || (*c.Hashes)[0].Value != fmt.Sprintf("%x", sha256.Sum256(binary)) {
		t.Errorf("the bill is for %+v", c)
	}
	if c := (*bill.Components)[0]; c.Name != "std" || c.Version != strings.TrimPrefix(runtime.Version(), "go") {
		t.Errorf("the bill has %+v", c)
	}

	checkImage(t, read(t, r.output, "cadenza_1.2.3_image.tar"), binary)

	again := r
	again.output = filepath.Join(t.TempDir(), "again")
	if err := again.make(list); err != nil {
		t.Fatal(err)
	}
	if other := string(read(t, again.output, "SHA256SUMS")); other != sums {
		t.Errorf("a second run makes other files:\n%s\n%s", sums, other)
	}
	if err := again.make(list); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a third run into the same directory: %v", err)
	}
}

// checkImage checks an OCI archive with one platform.
func checkImage(t *testing.T, archive, binary []byte) {
	t.Helper()
	directory := t.TempDir()
	contents, _ := untar(t, archive)
	for name, content := range contents {
		if err := os.MkdirAll(filepath.Join(directory, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	top, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	if p := manifest.Manifests[0].Platform; len(manifest.Manifests) != 1 || p.OS != "linux" || p.Architecture != runtime.GOARCH {
		t.Errorf("the image has %d platforms, the first is %v", len(manifest.Manifests), p)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	files, err := io.ReadAll(mutate.Extract(image))
	if err != nil {
		t.Fatal(err)
	}
	contents, modes := untar(t, files)
	if !bytes.Equal(contents["usr/bin/caddy"], binary) || modes["usr/bin/caddy"] != 0o755 {
		t.Error("the image's binary is not that of the archive")
	}
	if string(contents["etc/ssl/certs/ca-certificates.crt"]) != "some authorities" {
		t.Error("the image lacks the authorities")
	}
	if modes["data"] != 0o700 || modes["tmp"] != 0o1777 {
		t.Errorf("the image's directories have the modes %o and %o", modes["data"], modes["tmp"])
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	checkConfig(t, config.Config)
}

// checkConfig compares the image's configuration with the Dockerfile's, which makes
// the same image where there is an engine.
func checkConfig(t *testing.T, config v1.Config) {
	t.Helper()
	instruction := func(name string) string {
		t.Helper()
		matches := regexp.MustCompile(`(?m)^`+name+` (.*)$`).FindAllStringSubmatch(string(read(t, "..", "Dockerfile")), -1)
		if len(matches) == 0 {
			t.Fatalf("the Dockerfile has no %s", name)
		}
		return matches[len(matches)-1][1]
	}
	list := func(name string) (items []string) {
		t.Helper()
		if err := json.Unmarshal([]byte(instruction(name)), &items); err != nil {
			t.Fatal(err)
		}
		return items
	}
	for what, pair := range map[string][2][]string{
		"ENTRYPOINT": {config.Entrypoint, list("ENTRYPOINT")},
		"CMD":        {config.Cmd, list("CMD")},
		"ENV":        {config.Env, strings.Fields(instruction("ENV"))},
		"USER":       {{config.User}, {instruction("USER")}},
		"WORKDIR":    {{config.WorkingDir}, {instruction("WORKDIR")}},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s is %q, and the Dockerfile's %q", what, pair[0], pair[1])
		}
	}
	for _, volume := range list("VOLUME") {
		if _, ok := config.Volumes[volume]; !ok {
			t.Errorf("the image lacks the volume %s", volume)
		}
	}
	if _, ok := config.ExposedPorts[instruction("EXPOSE")+"/tcp"]; !ok {
		t.Errorf("the image exposes %v", config.ExposedPorts)
	}
}

func unzip(t *testing.T, compressed []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// untar returns the content and the mode of each file of a tar archive.
func untar(t *testing.T, archive []byte) (contents map[string][]byte, modes map[string]int64) {
	t.Helper()
	contents, modes = make(map[string][]byte), make(map[string]int64)
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if err == io.EOF {
			return contents, modes
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
		if header.Typeflag == tar.TypeReg {
			if contents[header.Name], err = io.ReadAll(r); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestWrongArguments(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"-targets=plan9/amd64 -version=1 -output=" + t.TempDir(), "there is no target \"plan9/amd64\""},
		{"everything", `unknown argument "everything"`},
	} {
		if err := run(strings.Fields(test.args)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.args, err)
		}
	}
}
