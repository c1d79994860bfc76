package caddymodule_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// TestCaddyfilesInDocs adapts every Caddyfile of the documentation: whole ones,
// sites, and options of the cadenza block.
func TestCaddyfilesInDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	adapted := 0
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			adapted++
			example := block[1]
			if formatted := string(caddyfile.Format([]byte(example))); formatted != example {
				t.Errorf("%s: caddy fmt makes of an example:\n%s", page, formatted)
			}
			const defaults = "{\n\tcadenza {\n\t\tdefinitions .\n"
			first, _, _ := strings.Cut(example, "\n")
			switch word, _, _ := strings.Cut(first, " "); {
			case first == "{": // whole
			case slices.Contains([]string{"provider", "workspace", "sink", "keys", "log", "redact", "price", "store", "trace_key", "api_key"}, word):
				example = defaults + example + "}\n}\n"
			case word == "cadenza":
				example = "{\n" + example + "}\n"
			case strings.Contains(word, ".") || strings.HasPrefix(word, ":") || strings.HasPrefix(word, "http"):
				example = defaults + "}\n}\n" + example
			default:
				example = defaults + "}\n}\nlocalhost {\n" + example + "}\n"
			}
			if _, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(example), map[string]any{"filename": "Caddyfile"}); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, example)
			}
		}
	}
	if adapted < 10 {
		t.Errorf("%d Caddyfiles", adapted)
	}
}
