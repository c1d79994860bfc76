package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"path/filepath"
	"slices"
)

// variable is the environment variable with the number of the mutant that is on.
const variable = "CADENZA_MUTANT"

// switchFile declares in a package with mutants which of them is on.
const switchFile = `package %s

import (
	"os"
	"strconv"
)

var mutantOn, _ = strconv.Atoi(os.Getenv("` + variable + `"))
`

// switchable reports whether mutants of the function can be compiled with the function
// itself: they are closures in it, where recover would do nothing.
func switchable(function *ast.FuncDecl) bool {
	if function == nil || function.Body == nil {
		return false
	}
	found := false
	ast.Inspect(function.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			name, ok := n.Fun.(*ast.Ident)
			found = found || ok && name.Name == "recover"
		}
		return true
	})
	return !found
}

// overlay returns the files that replace others so that each mutant is compiled in and
// switched on by its number: the function
//
//	func (c *cell) room(n int) (int, bool) {
//		if c.used < n { … }
//	}
//
// with a mutant becomes
//
//	func (c *cell) room(n int) (int, bool) {
//		switch mutantOn {
//		case 17:
//			return func() (int, bool) {
//				if c.used <= n { … }
//			}()
//		}
//		if c.used < n { … }
//	}
//
// Errors of the compiler are in lines of a file "mutant17"; all others are in the lines of
// the original.
func overlay(mutants map[int]*mutant) map[string][]byte {
	files := make(map[string][]byte)
	of := make(map[*ast.FuncDecl][]int)
	functions := make(map[*sourceFile][]*ast.FuncDecl)
	for _, number := range slices.Sorted(maps.Keys(mutants)) {
		m := mutants[number]
		if of[m.function] == nil {
			functions[m.file] = append(functions[m.file], m.function)
		}
		of[m.function] = append(of[m.function], number)
	}
	for f, list := range functions {
		slices.SortFunc(list, func(a, b *ast.FuncDecl) int { return int(a.Pos() - b.Pos()) })
		var out bytes.Buffer
		written := 0
		for _, function := range list {
			begin := f.offset(function.Body.Lbrace) + 1
			out.Write(f.text[written:begin])
			out.WriteString("\nswitch mutantOn {\n")
			for _, number := range of[function] {
				writeMutant(&out, number, mutants[number])
			}
			position := f.set.Position(function.Body.Lbrace)
			fmt.Fprintf(&out, "}\n//line %s:%d\n", filepath.Base(f.path), position.Line)
			written = begin
		}
		out.Write(f.text[written:])
		files[f.path] = out.Bytes()
		files[filepath.Join(filepath.Dir(f.path), "mutant_on.go")] = fmt.Appendf(nil, switchFile, f.tree.Name.Name)
	}
	return files
}

// writeMutant writes the case of a mutant: the function's body with its change.
func writeMutant(out *bytes.Buffer, number int, m *mutant) {
	results, call, end := "", "", "; return"
	if m.function.Type.Results != nil {
		results, call, end = m.file.textOf(m.function.Type.Results), "return ", ""
	}
	body := m.function.Body
	fmt.Fprintf(out, "case %d:\n//line mutant%d:1\n%sfunc() %s %s%s%s()%s\n", number, number, call, results,
		m.file.text[m.file.offset(body.Lbrace):m.start], m.text, m.file.text[m.end:m.file.offset(body.Rbrace)+1], end)
}
