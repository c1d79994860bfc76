package kind

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestKinds: each kind is whole, and is found by each of its names.
func TestKinds(t *testing.T) {
	for _, k := range All {
		if k.Folder == "" || k.Noun == "" || Named(k.String()) != k || InFolder(k.Folder) != k || Of(k.Trace) != k || !slices.Contains(Referring, k) {
			t.Errorf("%s: %+v", k, *k)
		}
	}
	if len(Referring) != len(All) || Named("unknown") != nil || InFolder("") != nil || Of(0) != nil {
		t.Error("there are other kinds than those of All")
	}
}

// TestExperimentIsBeside: an experiment has a folder, and answers nothing.
func TestExperimentIsBeside(t *testing.T) {
	if InFolder("experiments") != Experiment || Experiment.String() != "experiment" || !slices.Equal(Folders(), []string{"prompts", "endpoints", "remoteconfigs", "experiments"}) {
		t.Errorf("%s in %v", Experiment, Folders())
	}
	if slices.Contains(All, Experiment) || slices.Contains(Names(), "experiment") || Named("experiment") != nil {
		t.Error("an experiment is a kind that answers")
	}
}

// TestTablesAreComplete finds the tables that the layers have of kinds, in their code,
// and checks that each has a row for every kind.
func TestTablesAreComplete(t *testing.T) {
	var want []string
	parse := func(path string) *ast.File {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	ast.Inspect(parse("kind.go"), func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == "All" {
			for _, k := range spec.Values[0].(*ast.CompositeLit).Elts {
				want = append(want, "kind."+k.(*ast.Ident).Name)
			}
		}
		return true
	})
	if len(want) != len(All) {
		t.Fatalf("read %v as the kinds", want)
	}
	layers := make(map[string]bool)
	check := func(path string) {
		ast.Inspect(parse(path), func(n ast.Node) bool {
			table, ok := n.(*ast.CompositeLit)
			if !ok || !isTable(table) {
				return true
			}
			var rows []string
			for _, row := range table.Elts {
				if key, ok := row.(*ast.KeyValueExpr).Key.(*ast.SelectorExpr); ok {
					rows = append(rows, "kind."+key.Sel.Name)
				}
			}
			for _, k := range want {
				if !slices.Contains(rows, k) {
					t.Errorf("%s: a table has no row of %s", path, k)
				}
			}
			layers[filepath.Base(filepath.Dir(path))] = true
			return true
		})
	}
	err := filepath.WalkDir("..", func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			check(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range []string{"definition", "inspect"} {
		if !layers[layer] {
			t.Errorf("%s has no table of kinds", layer)
		}
	}
}

// isTable reports whether a literal is a map by kinds that has a row.
func isTable(c *ast.CompositeLit) bool {
	m, ok := c.Type.(*ast.MapType)
	if !ok || len(c.Elts) == 0 {
		return false
	}
	key, ok := m.Key.(*ast.StarExpr)
	if !ok {
		return false
	}
	name, ok := key.X.(*ast.SelectorExpr)
	return ok && name.Sel.Name == "Kind" && name.X.(*ast.Ident).Name == "kind"
}
