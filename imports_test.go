package cadenza_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const modulePath = "github.com/cadenza-gateway/cadenza"

// mayImport is the direction of dependencies: each package with those of ours
// that it may import. A package that is missing here fails the test, so that
// its place is chosen and not found.
var mayImport = map[string][]string{
	".":                          {"caddymodule", "providers/anthropic", "providers/azure", "providers/canned", "providers/gemini", "providers/openai", "sinks/jsonlines", "sinks/postgres"},
	"cache":                      {"providers", "trace"},
	"caddymodule":                {"internal/adminapi", "internal/command", "internal/configpath", "internal/definition", "internal/document", "internal/gateway", "internal/inflight", "internal/limit", "internal/price", "internal/redact", "internal/visible", "providers", "secret", "sinks"},
	"cmd/caddy":                  {"."},
	"internal/adminapi":          {"internal/definition", "internal/document", "internal/gateway", "internal/inspect", "internal/jsontext", "internal/store/sqlite", "providers/upstream", "rules", "trace"},
	"internal/automata":          {},
	"internal/bill":              {"internal/price", "internal/store/sqlite", "internal/visible", "providers"},
	"internal/buffers":           {},
	"internal/command":           {"internal/adminapi", "internal/bill", "internal/definition", "internal/document", "internal/document/format", "internal/gateway", "internal/inspect", "internal/price", "internal/private", "internal/regular", "internal/store/sqlite", "internal/visible", "internal/wire", "trace"},
	"internal/configpath":        {},
	"internal/definition":        {"internal/document", "internal/invoke", "internal/jsontext", "internal/prompt", "internal/regular", "providers", "providers/canned/script", "rules", "trace"},
	"internal/dialect":           {"internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/chat":      {"internal/dialect", "internal/dialect/openai", "internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/messages":  {"internal/dialect", "internal/dialect/openai", "internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/native":    {"internal/dialect", "internal/dialect/openai", "internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/openai":    {"internal/dialect", "internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/responses": {"internal/dialect", "internal/dialect/openai", "internal/jsontext", "internal/wire", "providers"},
	"internal/document":          {},
	"internal/document/format":   {"internal/document", "internal/visible"},
	"internal/gateway":           {"cache", "internal/definition", "internal/dialect", "internal/dialect/chat", "internal/dialect/messages", "internal/dialect/native", "internal/dialect/openai", "internal/dialect/responses", "internal/document", "internal/inflight", "internal/invoke", "internal/jsontext", "internal/limit", "internal/price", "internal/prompt", "internal/recorder", "internal/redact", "internal/regular", "internal/store/sqlite", "internal/visible", "internal/wire", "providers", "rules", "secret", "sinks", "trace"},
	"internal/gatewaytest":       {"internal/store/sqlite", "trace"},
	"internal/inflight":          {},
	"internal/inspect":           {"internal/definition", "internal/document", "internal/prompt", "internal/regular", "internal/visible", "rules", "trace"},
	"internal/invoke":            {"internal/inflight", "internal/wire", "providers", "trace"},
	"internal/jsontext":          {},
	"internal/modetest":          {},
	"internal/limit":             {"internal/private"},
	"internal/mutation":          {},
	"internal/postgrestest":      {},
	"internal/price":             {"internal/document", "internal/regular", "providers"},
	"internal/price/refresh":     {},
	"internal/private":           {},
	"internal/prompt":            {"internal/document", "internal/jsontext", "rules"},
	"internal/recorder":          {"internal/recorder/calls", "trace"},
	"internal/recorder/calls":    {"internal/private", "trace"},
	"internal/redact":            {},
	"internal/regular":           {},
	"internal/store/histogram":   {},
	"internal/store/migration":   {},
	"internal/store/sqlite":      {"internal/jsontext", "internal/private", "internal/recorder", "internal/store/histogram", "internal/store/migration", "trace"},
	"internal/visible":           {},
	"internal/wire":              {"internal/buffers", "internal/jsontext", "trace"},
	"providers":                  {"internal/jsontext"},
	"providers/anthropic":        {"internal/jsontext", "providers", "providers/httpmodule", "providers/upstream"},
	"providers/azure":            {"providers", "providers/httpmodule", "providers/openai", "providers/upstream", "secret"},
	"providers/bedrock":          {"internal/jsontext", "providers", "providers/httpmodule", "providers/upstream", "secret"},
	"providers/canned":           {"internal/document", "providers", "providers/canned/script"},
	"providers/canned/script":    {"internal/document", "providers"},
	"providers/gemini":           {"internal/jsontext", "providers", "providers/httpmodule", "providers/upstream", "secret"},
	"providers/httpmodule":       {"internal/document", "providers", "providers/upstream", "secret"},
	"providers/openai":           {"internal/buffers", "internal/jsontext", "providers", "providers/httpmodule", "providers/upstream"},
	"providers/providertest":     {"providers", "secret"},
	"providers/upstream":         {"internal/buffers", "internal/inflight", "internal/jsontext", "providers", "secret"},
	"rules":                      {"internal/automata", "internal/document", "internal/jsontext"},
	"secret":                     {"internal/redact", "internal/regular"},
	"sinks":                      {"internal/store/sqlite", "trace"},
	"sinks/jsonlines":            {"internal/configpath", "internal/document", "internal/jsontext", "internal/private", "sinks", "trace"},
	"sinks/postgres":             {"internal/document", "internal/jsontext", "internal/limit", "internal/store/migration", "secret", "sinks", "trace"},
	"trace":                      {"internal/jsontext"},
}

// mayImportCaddy reports whether a file may know Caddy: those of caddymodule, of
// the admin API, of the commands and of what provider modules share, and the
// module.go of each provider and sink.
func mayImportCaddy(file string) bool {
	dir := path.Dir(file)
	return slices.Contains([]string{"caddymodule", "internal/adminapi", "internal/command", "providers/httpmodule"}, dir) || strings.HasPrefix(dir, "cmd/") ||
		(path.Dir(dir) == "providers" || path.Dir(dir) == "sinks") && path.Base(file) == "module.go"
}

func TestDependenciesPointDown(t *testing.T) {
	packages := 0
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file := filepath.ToSlash(name)
		if entry.IsDir() {
			// bench and release are modules of their own: one imports rivals, the other
			// what makes images.
			if file == "bench" || file == "release" || file == "testdata" || strings.HasPrefix(entry.Name(), ".") && file != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		packages++
		dir := path.Dir(file)
		allowed, known := mayImport[dir]
		if !known {
			t.Errorf("%s: package %s has no place in the direction of dependencies", file, dir)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			switch own, isOwn := strings.CutPrefix(imported, modulePath); {
			case isOwn:
				own = strings.TrimPrefix(own, "/")
				if own == "" {
					own = "."
				}
				if !slices.Contains(allowed, own) {
					t.Errorf("%s imports %s, which %s may not", file, own, dir)
				}
			case strings.HasPrefix(imported, "github.com/caddyserver/"):
				if !mayImportCaddy(file) {
					t.Errorf("%s imports %s: only caddymodule, the admin API, the command line and a module.go know Caddy", file, imported)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if packages == 0 {
		t.Fatal("no file was read")
	}
}

// TestArchitectureNamesEveryPackage holds the table of docs/architecture.md.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	page, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for dir := range mayImport {
		if dir != "." && !strings.Contains(string(page), "`"+dir+"/`") {
			t.Errorf("docs/architecture.md has no row for %s", dir)
		}
	}
}
