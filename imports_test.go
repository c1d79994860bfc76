package cadenza_test

import (
	"bytes"
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
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
	".":                            {"caddymodule", "console", "providers/anthropic", "providers/azure", "providers/canned", "providers/gemini", "providers/openai", "sinks/jsonlines", "sinks/postgres"},
	"cache":                        {"providers", "trace"},
	"caddymodule":                  {"internal/adminapi", "internal/bundle", "internal/bundle/download", "internal/bundle/serve", "internal/command", "internal/configpath", "internal/definition", "internal/document", "internal/gateway", "internal/inflight", "internal/limit", "internal/price", "internal/redact", "internal/visible", "providers", "secret", "sinks"},
	"cmd/caddy":                    {"."},
	"cmd/cadenza-reconcile":        {"internal/visible"},
	"console":                      {"internal/adminapi", "internal/edit", "internal/experiment", "internal/gateway", "internal/inspect", "internal/invoke", "internal/rollout", "internal/store/sqlite", "trace"},
	"examples/simulate":            {},
	"internal/adminapi":            {"internal/bundle/download", "internal/definition", "internal/document", "internal/edit", "internal/experiment", "internal/gateway", "internal/inspect", "internal/jsontext", "internal/kind", "internal/rollout", "internal/store/sqlite", "internal/wire", "providers", "providers/upstream", "rules", "trace"},
	"internal/buffers":             {},
	"internal/bundle":              {"trace"},
	"internal/bundle/download":     {"internal/bundle", "internal/private", "internal/regular", "providers/upstream"},
	"internal/bundle/serve":        {"internal/bundle", "internal/definition", "internal/regular", "internal/wire", "secret"},
	"internal/command":             {"internal/adminapi", "internal/bundle", "internal/definition", "internal/document", "internal/document/format", "internal/experiment", "internal/gateway", "internal/inspect", "internal/kind", "internal/limit", "internal/price", "internal/private", "internal/regular", "internal/rollout", "internal/store/sqlite", "internal/visible", "internal/wire", "trace"},
	"internal/configpath":          {},
	"internal/definition":          {"internal/document", "internal/experiment", "internal/invoke", "internal/jsontext", "internal/kind", "internal/prompt", "internal/regular", "internal/rollout", "providers", "providers/canned/script", "rules", "trace"},
	"internal/dialect":             {"internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/chat":        {"internal/dialect", "internal/dialect/openai", "internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/dialecttest": {"internal/dialect", "internal/dialect/openai", "internal/wire", "providers"},
	"internal/dialect/embeddings":  {"internal/dialect", "internal/dialect/openai", "internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/messages":    {"internal/dialect", "internal/dialect/openai", "internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/native":      {"internal/dialect", "internal/dialect/openai", "internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/openai":      {"internal/dialect", "internal/jsontext", "internal/wire", "providers"},
	"internal/dialect/responses":   {"internal/dialect", "internal/dialect/openai", "internal/jsontext", "internal/wire", "providers"},
	"internal/document":            {},
	"internal/document/format":     {"internal/document", "internal/visible"},
	"internal/edit":                {"internal/document", "internal/document/format", "internal/inspect", "internal/jsontext", "internal/kind", "internal/regular"},
	"internal/gateway":             {"cache", "internal/buffers", "internal/bundle/download", "internal/definition", "internal/dialect", "internal/dialect/chat", "internal/dialect/embeddings", "internal/dialect/messages", "internal/dialect/native", "internal/dialect/openai", "internal/dialect/responses", "internal/document", "internal/experiment", "internal/exposure", "internal/inflight", "internal/invoke", "internal/jsontext", "internal/kind", "internal/limit", "internal/price", "internal/prompt", "internal/recorder", "internal/redact", "internal/regular", "internal/rollout", "internal/store/sqlite", "internal/visible", "internal/wire", "providers", "rules", "secret", "sinks", "trace"},
	"internal/experiment":          {"internal/document", "internal/sequential"},
	"internal/exposure":            {"trace"},
	"internal/freeport":            {},
	"internal/gatewaytest":         {"internal/bundle", "internal/store/sqlite", "trace"},
	"internal/inflight":            {},
	"internal/inspect":             {"internal/definition", "internal/document", "internal/experiment", "internal/kind", "internal/prompt", "internal/regular", "internal/store/histogram", "internal/visible", "providers", "rules", "trace"},
	"internal/invoke":              {"internal/inflight", "internal/wire", "providers", "trace"},
	"internal/journal":             {"internal/private"},
	"internal/journaltest":         {"internal/journal"},
	"internal/jsontext":            {},
	"internal/kind":                {"trace"},
	"internal/modetest":            {},
	"internal/limit":               {"internal/journal"},
	"internal/mutation":            {},
	"internal/postgrestest":        {"internal/freeport"},
	"internal/price":               {"internal/document", "internal/regular", "providers"},
	"internal/price/refresh":       {},
	"internal/private":             {},
	"internal/prompt":              {"internal/document", "internal/jsontext", "rules"},
	"internal/recorder":            {"internal/experiment", "internal/exposure", "internal/recorder/calls", "trace"},
	"internal/recorder/calls":      {"internal/buffers", "internal/journal", "trace"},
	"internal/redact":              {},
	"internal/regular":             {},
	"internal/rollout":             {"internal/experiment", "internal/sequential"},
	"internal/sequential":          {},
	"internal/store/histogram":     {},
	"internal/store/sqlite":        {"internal/buffers", "internal/experiment", "internal/exposure", "internal/jsontext", "internal/kind", "internal/private", "internal/recorder", "internal/rollout", "internal/sequential", "internal/store/histogram", "trace"},
	"internal/visible":             {},
	"internal/wire":                {"internal/buffers", "internal/jsontext", "trace"},
	"providers":                    {"internal/buffers", "internal/jsontext"},
	"providers/anthropic":          {"internal/jsontext", "providers", "providers/httpmodule", "providers/upstream"},
	"providers/azure":              {"providers", "providers/httpmodule", "providers/openai", "providers/upstream", "secret"},
	"providers/bedrock":            {"internal/jsontext", "providers", "providers/httpmodule", "providers/upstream", "secret"},
	"providers/canned":             {"internal/document", "providers", "providers/canned/script"},
	"providers/canned/script":      {"internal/document", "providers"},
	"providers/gemini":             {"internal/jsontext", "providers", "providers/httpmodule", "providers/upstream", "secret"},
	"providers/httpmodule":         {"internal/document", "providers", "providers/upstream", "secret"},
	"providers/openai":             {"internal/buffers", "internal/jsontext", "providers", "providers/httpmodule", "providers/upstream"},
	"providers/providertest":       {"providers", "secret"},
	"providers/upstream":           {"internal/buffers", "internal/inflight", "internal/jsontext", "providers", "secret"},
	"rules":                        {"internal/document", "internal/jsontext"},
	"secret":                       {"internal/redact", "internal/regular"},
	"sinks":                        {"internal/store/sqlite", "trace"},
	"sinks/jsonlines":              {"internal/configpath", "internal/document", "internal/jsontext", "internal/private", "sinks", "trace"},
	"sinks/postgres":               {"internal/document", "internal/experiment", "internal/jsontext", "internal/limit", "internal/rollout", "secret", "sinks", "trace"},
	"trace":                        {"internal/buffers", "internal/jsontext"},
}

// maxProduct and maxTests are ceilings of lines of the whole (docs/adr/0012): of the code
// that a command or the Bedrock provider imports, and of all tests.
const (
	maxProduct = 135_500
	maxTests   = 150_500
)

// maxLines is the ceiling of lines of each package, tests left out. A change that needs
// more raises it here.
var maxLines = map[string]int{
	".":                            40,
	"cache":                        400,
	"caddymodule":                  3970,
	"cmd/caddy":                    40,
	"console":                      5000,
	"cmd/cadenza-reconcile":        1180,
	"examples/simulate":            200,
	"internal/adminapi":            4900,
	"internal/buffers":             330,
	"internal/bundle":              750,
	"internal/bundle/download":     710,
	"internal/bundle/serve":        300,
	"internal/command":             7200,
	"internal/configpath":          40,
	"internal/definition":          9700,
	"internal/dialect":             650,
	"internal/dialect/chat":        440,
	"internal/dialect/dialecttest": 330,
	"internal/dialect/embeddings":  230,
	"internal/dialect/messages":    1600,
	"internal/dialect/native":      200,
	"internal/dialect/openai":      1950,
	"internal/dialect/responses":   2475,
	"internal/document":            2060,
	"internal/document/format":     300,
	"internal/edit":                1200,
	"internal/gateway":             15300,
	"internal/experiment":          1500,
	"internal/exposure":            140,
	"internal/freeport":            80,
	"internal/gatewaytest":         660,
	"internal/inflight":            960,
	"internal/inspect":             5130,
	"internal/invoke":              4160,
	"internal/journal":             1140,
	"internal/journaltest":         100,
	"internal/jsontext":            310,
	"internal/kind":                100,
	"internal/modetest":            80,
	"internal/limit":               2790,
	"internal/mutation":            1060,
	"internal/postgrestest":        520,
	"internal/price":               1160,
	"internal/price/refresh":       480,
	"internal/private":             180,
	"internal/prompt":              880,
	"internal/recorder":            2230,
	"internal/recorder/calls":      770,
	"internal/redact":              1480,
	"internal/regular":             130,
	"internal/rollout":             800,
	"internal/sequential":          700,
	"internal/store/histogram":     480,
	"internal/store/sqlite":        13350,
	"internal/visible":             160,
	"internal/wire":                3150,
	"providers":                    1430,
	"providers/anthropic":          1020,
	"providers/azure":              140,
	"providers/bedrock":            1490,
	"providers/canned":             550,
	"providers/canned/script":      900,
	"providers/gemini":             2290,
	"providers/httpmodule":         320,
	"providers/openai":             3300,
	"providers/providertest":       3690,
	"providers/upstream":           4230,
	"rules":                        12200,
	"secret":                       380,
	"sinks":                        700,
	"sinks/jsonlines":              480,
	"sinks/postgres":               1960,
	"trace":                        2170,
}

// mayImportCaddy reports whether a file may know Caddy: those of caddymodule, of the
// console, of the admin API, of the commands, of what provider modules and their tests share,
// and the module.go of each provider and sink.
func mayImportCaddy(file string) bool {
	dir := path.Dir(file)
	return slices.Contains([]string{"caddymodule", "console", "internal/adminapi", "internal/command", "providers/httpmodule", "providers/providertest"}, dir) || strings.HasPrefix(dir, "cmd/") ||
		(path.Dir(dir) == "providers" || path.Dir(dir) == "sinks") && path.Base(file) == "module.go"
}

func TestDependenciesPointDown(t *testing.T) {
	packages, _ := readPackages(t)
	for dir, p := range packages {
		allowed, known := mayImport[dir]
		if !known {
			t.Errorf("package %s has no place in the direction of dependencies", dir)
		}
		for _, i := range p.imports {
			switch own, isOwn := strings.CutPrefix(i.path+"/", modulePath+"/"); {
			case isOwn:
				if own = cmp.Or(strings.TrimSuffix(own, "/"), "."); !slices.Contains(allowed, own) {
					t.Errorf("%s imports %s, which %s may not", i.file, own, dir)
				}
			case strings.HasPrefix(i.path, "github.com/caddyserver/"):
				if !mayImportCaddy(i.file) {
					t.Errorf("%s imports %s: only caddymodule, the admin API, the command line and a module.go know Caddy", i.file, i.path)
				}
			}
		}
	}
}

// TestLinesStayBelowTheirCeilings prints the lines of product code and tests, which
// go test -v shows.
func TestLinesStayBelowTheirCeilings(t *testing.T) {
	packages, tests := readPackages(t)
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		most, ok := maxLines[dir]
		switch lines := packages[dir].lines; {
		case !ok:
			t.Errorf("package %s has no ceiling of lines", dir)
		case lines > most:
			t.Errorf("package %s has %d lines, its ceiling is %d: what could go?", dir, lines, most)
		}
	}
	for dir := range maxLines {
		if packages[dir] == nil {
			t.Errorf("a ceiling for package %s, which does not exist", dir)
		}
	}

	product := 0
	linked := make(map[string]bool)
	var link func(dir string)
	link = func(dir string) {
		if linked[dir] || packages[dir] == nil {
			return
		}
		linked[dir] = true
		product += packages[dir].lines
		for _, i := range packages[dir].imports {
			if own, ok := strings.CutPrefix(i.path+"/", modulePath+"/"); ok {
				link(cmp.Or(strings.TrimSuffix(own, "/"), "."))
			}
		}
	}
	link("providers/bedrock")
	for dir := range packages {
		if path.Dir(dir) == "cmd" {
			link(dir)
		}
	}
	t.Logf("%d lines of product code in %d packages, %d of tests", product, len(linked), tests)
	if product > maxProduct {
		t.Errorf("%d lines of product code, the ceiling is %d", product, maxProduct)
	}
	if tests > maxTests {
		t.Errorf("%d lines of tests, the ceiling is %d", tests, maxTests)
	}
}

// goPackage is a package's code without its tests.
type goPackage struct {
	lines   int
	imports []goImport
}

type goImport struct{ file, path string }

// readPackages reads the module's packages, by directory, and counts the lines of all
// tests, those of the modules below this one included.
func readPackages(t *testing.T) (packages map[string]*goPackage, tests int) {
	t.Helper()
	packages = make(map[string]*goPackage)
	modules := make(map[string]bool)
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file := filepath.ToSlash(name)
		if entry.IsDir() {
			if file != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules") {
				return filepath.SkipDir
			}
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			modules[file] = file != "." && (err == nil || modules[path.Dir(file)])
			return nil
		}
		if path.Ext(file) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines := bytes.Count(text, []byte("\n"))
		dir := path.Dir(file)
		switch {
		case strings.HasSuffix(file, "_test.go"):
			tests += lines
			return nil
		case modules[dir]:
			return nil
		case packages[dir] == nil:
			packages[dir] = new(goPackage)
		}
		p := packages[dir]
		p.lines += lines
		parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			p.imports = append(p.imports, goImport{file, imported})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) == 0 {
		t.Fatal("no file was read")
	}
	return packages, tests
}

// TestArchitectureNamesEveryPackage holds docs/architecture.md: its table has each
// package, and so has its drawing, in a group that imports no group above, with its
// lines within a fifth, and the files to read first of one that is large.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	_, drawing, _ := strings.Cut(page, "\n```\n")
	drawing, _, _ = strings.Cut(drawing, "\n```\n")
	packages, _ := readPackages(t)
	group := make(map[string]int)
	for number, lines := range strings.Split(drawing, "\n\n") {
		for _, line := range strings.Split(lines, "\n")[1:] {
			words := strings.Fields(line)
			dir, p := words[0], packages[words[0]]
			if p == nil {
				t.Errorf("the drawing has %s, which does not exist", dir)
				continue
			}
			group[dir] = number
			lines, err := strconv.Atoi(strings.ReplaceAll(words[1], ",", ""))
			if off := max(lines-p.lines, p.lines-lines); err != nil || off > max(p.lines/5, 100) {
				t.Errorf("%s has %d lines, the drawing says %s", dir, p.lines, words[1])
			}
			if p.lines > 1000 && len(words) != 5 {
				t.Errorf("the drawing has no three files to read first of %s", dir)
			}
			for _, file := range words[2:] {
				if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	for dir, imports := range mayImport {
		if dir != "." && !strings.Contains(page, "`"+dir+"/`") {
			t.Errorf("docs/architecture.md has no row for %s", dir)
		}
		if _, drawn := group[dir]; !drawn {
			t.Errorf("the drawing has no %s", dir)
		}
		for _, imported := range imports {
			if group[imported] < group[dir] {
				t.Errorf("%s imports %s, which is in a group above", dir, imported)
			}
		}
	}
}
