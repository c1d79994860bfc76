package cadenza_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestModulesAreDocumented checks what the documentation tool of caddyserver.com
// needs. It runs no code: it reads the source of a package, and one registration
// that it can't read leaves the whole package without documentation.
func TestModulesAreDocumented(t *testing.T) {
	dirs := make(map[string]bool)
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "bench" || name == "clients" || name == "release" || strings.HasPrefix(name, ".") && name != "."):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			dirs[filepath.ToSlash(filepath.Dir(name))] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for dir := range dirs {
		found, problems := readModules(t, dir)
		modules += found
		for _, problem := range problems {
			t.Errorf("%s: %s", dir, problem)
		}
	}
	if modules == 0 {
		t.Fatal("no module was found")
	}
}

// moduleSource is a package as the documentation tool sees it.
type moduleSource struct {
	types     map[string]*ast.GenDecl
	ids       map[string]ast.Expr // by the type whose CaddyModule has it
	constants map[string]bool
	arguments []ast.Expr // of caddy.RegisterModule
}

// readModules counts the modules of a package and says what can't be read.
func readModules(t *testing.T, dir string) (modules int, problems []string) {
	s := moduleSource{types: make(map[string]*ast.GenDecl), ids: make(map[string]ast.Expr), constants: make(map[string]bool)}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path.Join(dir, entry.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.read(file)
	}
	for _, argument := range s.arguments {
		name := typeOfModule(argument)
		switch {
		case name == "":
			problems = append(problems, fmt.Sprintf("the argument of caddy.RegisterModule must be new(T) or T{}, this is a %T", argument))
		case s.types[name] == nil || s.types[name].Doc.Text() == "":
			problems = append(problems, name+" has no comment: it is what the module's page shows")
		case s.ids[name] == nil:
			problems = append(problems, name+" has no method CaddyModule that returns a caddy.ModuleInfo with an ID")
		case !s.constant(s.ids[name]):
			problems = append(problems, "the ID of "+name+" must be a literal or a constant")
		}
	}
	return len(s.arguments), problems
}

func (s *moduleSource) read(file *ast.File) {
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					s.types[spec.Name.Name] = decl
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						s.constants[name.Name] = decl.Tok == token.CONST
					}
				}
			}
		case *ast.FuncDecl:
			s.readFunction(decl)
		}
	}
}

func (s *moduleSource) readFunction(f *ast.FuncDecl) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if selected(n.Fun, "RegisterModule") && len(n.Args) == 1 {
				s.arguments = append(s.arguments, n.Args[0])
			}
		case *ast.CompositeLit:
			if f.Name.Name != "CaddyModule" || f.Recv == nil || !selected(n.Type, "ModuleInfo") {
				break
			}
			for _, element := range n.Elts {
				member, ok := element.(*ast.KeyValueExpr)
				if ok && named(member.Key) == "ID" {
					receiver := f.Recv.List[0].Type
					if pointer, ok := receiver.(*ast.StarExpr); ok {
						receiver = pointer.X
					}
					s.ids[named(receiver)] = member.Value
				}
			}
		}
		return true
	})
}

// typeOfModule is the type that a registration names, or "".
func typeOfModule(argument ast.Expr) string {
	switch argument := argument.(type) {
	case *ast.CallExpr:
		if named(argument.Fun) == "new" && len(argument.Args) == 1 {
			return named(argument.Args[0])
		}
	case *ast.CompositeLit:
		return named(argument.Type)
	}
	return ""
}

// constant reports whether an ID can be read without running code.
func (s *moduleSource) constant(id ast.Expr) bool {
	switch id := id.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return s.constants[id.Name]
	case *ast.BinaryExpr:
		return s.constant(id.X) && s.constant(id.Y)
	}
	return false
}

func named(n ast.Expr) string {
	if identifier, ok := n.(*ast.Ident); ok {
		return identifier.Name
	}
	return ""
}

// selected reports whether n is caddy.NAME.
func selected(n ast.Expr, name string) bool {
	selector, ok := n.(*ast.SelectorExpr)
	return ok && named(selector.X) == "caddy" && selector.Sel.Name == name
}
