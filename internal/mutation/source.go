package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one change that the tests must notice.
type mutant struct {
	dir  string // the package's, from the root of the module
	at   string // the line of data or of code that it comes from
	what string // the effect of the change, or the operator that changes
	in   string // the declaration that changes, as in the data

	// The tests that run: those that match the pattern, of the packages in the
	// directories tests.
	tests   []string
	pattern string

	old string // the text that changes; "" if the mutant is generated

	// The place of the change, once it is found, and the new text.
	file       *sourceFile
	function   *ast.FuncDecl // around it; nil outside functions
	start, end int           // bytes of the file
	text       string
}

func (m *mutant) generated() bool { return m.old == "" }

func (m *mutant) String() string {
	change := m.text
	if m.file != nil {
		change = string(m.file.text[m.start:m.end]) + " => " + m.text
	}
	return fmt.Sprintf("%s\t%s: %s\t(%s)", m.at, m.in, strings.Join(strings.Fields(change), " "), m.what)
}

// source is the files of a package, without its tests.
type source struct {
	dir   string
	files []*sourceFile
}

type sourceFile struct {
	path string
	here bool // it is built on this system
	text []byte
	set  *token.FileSet
	tree *ast.File
}

// load parses the package in dir.
func load(root, dir string) (*source, error) {
	p := &source{dir: dir}
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f := &sourceFile{path: path, set: token.NewFileSet()}
		if f.text, err = os.ReadFile(path); err != nil {
			return nil, err
		}
		if f.here, err = build.Default.MatchFile(filepath.Split(path)); err != nil {
			return nil, err
		}
		if f.tree, err = parser.ParseFile(f.set, path, f.text, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
	}
	if len(p.files) == 0 {
		return nil, fmt.Errorf("no Go file in %s", dir)
	}
	return p, nil
}

func (f *sourceFile) offset(pos token.Pos) int { return f.set.Position(pos).Offset }

func (f *sourceFile) textOf(n ast.Node) string {
	return string(f.text[f.offset(n.Pos()):f.offset(n.End())])
}

// find finds the place of a mutant from the data: its old text has to be exactly once in
// its declaration. Of declarations for several systems it takes the one for this system.
func (p *source) find(m *mutant) error {
	var found ast.Node
	for _, f := range p.files {
		n := declaration(f.tree, m.in)
		switch {
		case n == nil:
		case found != nil && m.file.here && f.here:
			return fmt.Errorf("package %s declares %s more than once", p.dir, m.in)
		case found == nil || f.here:
			m.file, found = f, n
		}
	}
	if found == nil {
		return fmt.Errorf("package %s does not declare %s", p.dir, m.in)
	}
	m.function, _ = found.(*ast.FuncDecl)
	places := match(m.old).FindAllStringIndex(m.file.textOf(found), -1)
	if len(places) != 1 {
		return fmt.Errorf("the text %q is %d times in %s, not once", m.old, len(places), m.in)
	}
	begin := m.file.offset(found.Pos())
	m.start, m.end = begin+places[0][0], begin+places[0][1]
	if _, err := parser.ParseFile(token.NewFileSet(), "", m.file.with(m), parser.SkipObjectResolution); err != nil {
		return fmt.Errorf("the changed file is not Go: %w", err)
	}
	return nil
}

// with returns the text of the file with a mutant's change.
func (f *sourceFile) with(m *mutant) []byte {
	return bytes.Join([][]byte{f.text[:m.start], f.text[m.end:]}, []byte(m.text))
}

// declaration finds a function, a method (Type.Method), or the specification
// of a variable, constant or type.
func declaration(file *ast.File, name string) ast.Node {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if functionName(d) == name {
				return d
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.Name == name {
						return s
					}
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, func(n *ast.Ident) bool { return n.Name == name }) {
						return s
					}
				}
			}
		}
	}
	return nil
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver, _, _ := strings.Cut(types.ExprString(d.Recv.List[0].Type), "[")
	return strings.TrimPrefix(receiver, "*") + "." + d.Name.Name
}
