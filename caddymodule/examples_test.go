package caddymodule_test

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// TestExamplesOfModules adapts the Caddyfiles in the comments of the app and the
// handlers, which their pages on caddyserver.com show.
func TestExamplesOfModules(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	adapted := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			types, ok := decl.(*ast.GenDecl)
			if !ok || types.Tok != token.TYPE {
				continue
			}
			for _, block := range new(comment.Parser).Parse(types.Doc.Text()).Content {
				if example, ok := block.(*comment.Code); ok && strings.Contains(example.Text, "cadenza") {
					adapted++
					testExample(t, name, example.Text)
				}
			}
		}
	}
	if adapted < 6 { // the app and five handlers
		t.Errorf("%d examples", adapted)
	}
}

func testExample(t *testing.T, file, example string) {
	t.Helper()
	if formatted := string(caddyfile.Format([]byte(example))); formatted != example {
		t.Errorf("%s: caddy fmt makes of an example:\n%s", file, formatted)
	}
	if !strings.HasPrefix(example, "{") {
		example = "{\n\tcadenza {\n\t\tdefinitions .\n\t}\n}\n" + example
	}
	if _, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(example), map[string]any{"filename": file}); err != nil {
		t.Errorf("%s: %v in\n%s", file, err, example)
	}
}
