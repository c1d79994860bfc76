package caddymodule_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the results into the golden files")

// separator is between a Caddyfile and the result of adapting it: JSON, or the
// text of the error.
const separator = "----------\n"

// TestAdapt adapts the Caddyfiles in testdata/adapt, which have the format of
// Caddy's own golden files. In them, the directory of the Caddyfile is /FOLDER.
func TestAdapt(t *testing.T) {
	folder, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(data), separator)
			got := strings.ReplaceAll(adapt(input), folder, "/FOLDER")
			if *update {
				if err := os.WriteFile(name, []byte(input+separator+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the golden file (-) is not the result (+); run with -update to accept it:\n%s", diff)
			}
		})
	}
}

func adapt(caddyfile string) string {
	result, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err.Error() + "\n"
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, result, "", "\t"); err != nil {
		return err.Error() + "\n"
	}
	return indented.String() + "\n"
}
