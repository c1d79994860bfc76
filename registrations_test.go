package cadenza_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestRegistrationsAreLiteral keeps modules readable for the tool that makes
// Caddy's documentation: it reads the source. A module is registered as a
// literal or by new, and its type says its ID as a literal; where one is not,
// the tool leaves out all modules of the package.
func TestRegistrationsAreLiteral(t *testing.T) {
	registered, identified := map[string]bool{}, map[string]bool{}
	for _, dir := range []string{"providers", "sinks"} {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.CallExpr:
					if f, ok := node.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "RegisterModule" {
						registered[filepath.Dir(name)+"."+literalType(node.Args[0])] = true
					}
				case *ast.FuncDecl:
					if node.Name.Name == "CaddyModule" {
						receiver, _ := node.Recv.List[0].Type.(*ast.Ident)
						if receiver == nil || !hasLiteralID(node) {
							t.Errorf("%s: the ID of %v is not literal", name, node.Recv.List[0].Type)
							return true
						}
						identified[filepath.Dir(name)+"."+receiver.Name] = true
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for module := range registered {
		if !identified[module] {
			t.Errorf("%s is registered, and says no ID", module)
		}
	}
	for module := range identified {
		if !registered[module] {
			t.Errorf("%s says its ID, and is not registered", module)
		}
	}
	if len(registered) < 10 {
		t.Errorf("only %d modules", len(registered))
	}
}

// literalType is the T of new(T) and T{}.
func literalType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.CompositeLit:
		if name, ok := e.Type.(*ast.Ident); ok {
			return name.Name
		}
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "new" {
			if name, ok := e.Args[0].(*ast.Ident); ok {
				return name.Name
			}
		}
	}
	return "something that is not literal"
}

// hasLiteralID reports whether a function's first statement returns a literal
// with a literal ID.
func hasLiteralID(f *ast.FuncDecl) bool {
	statement, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok {
		return false
	}
	info, ok := statement.Results[0].(*ast.CompositeLit)
	if !ok {
		return false
	}
	for _, element := range info.Elts {
		if member, ok := element.(*ast.KeyValueExpr); ok && member.Key.(*ast.Ident).Name == "ID" {
			_, ok := member.Value.(*ast.BasicLit)
			return ok
		}
	}
	return false
}
