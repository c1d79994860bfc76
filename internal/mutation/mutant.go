package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// mutant is one change that the tests must notice.
type mutant struct {
	// ID is unique within the package: a few words with hyphens.
	ID string
	// In names the declaration that changes: Func or Type.Method, or a
	// variable, constant or type of the package.
	In string
	// What says in one line what the change breaks.
	What string
	// Old occurs exactly once in the declaration and becomes New. Comments
	// within the declaration count, the one above it does not.
	Old, New string
	// Tests are the directories of the packages whose tests run. Default: the
	// mutant's own.
	Tests []string
	// Run is the value of go test -run: the tests that must notice the change.
	// Default: all tests.
	Run string
	// Timeout bounds each test binary, for mutants that hang. Default:
	// defaultTimeout.
	Timeout time.Duration

	dir string // the package's, from the root of the module
}

const (
	defaultTimeout = 3 * time.Minute
	// hang is the timeout of a mutant that makes its tests hang.
	hang = 20 * time.Second
)

// registry is the mutants of all files.
var registry []mutant

// add puts the mutants of the package in dir on the list. Each file of mutants
// calls it from an init function.
func add(dir string, mutants ...mutant) {
	for _, m := range mutants {
		m.dir = dir
		registry = append(registry, m)
	}
}

// name identifies the mutant among all.
func (m *mutant) name() string { return m.dir + "/" + m.ID }

func (m *mutant) tests() []string {
	if len(m.Tests) == 0 {
		return []string{m.dir}
	}
	return m.Tests
}

func (m *mutant) timeout() time.Duration {
	if m.Timeout == 0 {
		return defaultTimeout
	}
	return m.Timeout
}

// apply returns the file that the mutant changes, and its changed content.
func (m *mutant) apply(root string) (file string, content []byte, err error) {
	place, err := m.find(root)
	if err != nil {
		return "", nil, err
	}
	text := string(place.source[place.start:place.end])
	if n := strings.Count(text, m.Old); n != 1 || m.Old == "" {
		return "", nil, fmt.Errorf("the text %q is %d times in %s, not once", m.Old, n, m.In)
	}
	if m.Old == m.New {
		return "", nil, fmt.Errorf("the text %q stays as it is", m.Old)
	}
	changed := string(place.source[:place.start]) + strings.Replace(text, m.Old, m.New, 1) + string(place.source[place.end:])
	if _, err := parser.ParseFile(token.NewFileSet(), place.file, changed, parser.SkipObjectResolution); err != nil {
		return "", nil, fmt.Errorf("the changed file is not Go: %w", err)
	}
	return place.file, []byte(changed), nil
}

// place is where a declaration is.
type place struct {
	file       string
	source     []byte
	start, end int  // of the declaration, in source
	here       bool // the file is built on this system
}

// find finds the mutant's declaration. Of declarations for several systems it
// takes that for this one.
func (m *mutant) find(root string) (place, error) {
	dir := filepath.Join(root, filepath.FromSlash(m.dir))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return place{}, err
	}
	last := m.In[strings.LastIndexByte(m.In, '.')+1:] // the name that a file declares it by
	var found place
	for _, entry := range entries {
		name := entry.Name()
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		candidate := place{file: filepath.Join(dir, name)}
		if candidate.source, err = os.ReadFile(candidate.file); err != nil {
			return place{}, err
		}
		if !bytes.Contains(candidate.source, []byte(last)) {
			continue // parsing takes most of the time
		}
		if candidate.here, err = build.Default.MatchFile(dir, name); err != nil {
			return place{}, err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, candidate.file, candidate.source, parser.SkipObjectResolution)
		if err != nil {
			return place{}, err
		}
		node := declaration(parsed, m.In)
		if node == nil {
			continue
		}
		if found.here && candidate.here {
			return place{}, fmt.Errorf("package %s declares %s more than once", m.dir, m.In)
		}
		if found.file == "" || candidate.here {
			candidate.start, candidate.end = set.Position(node.Pos()).Offset, set.Position(node.End()).Offset
			found = candidate
		}
	}
	if found.file == "" {
		return place{}, fmt.Errorf("package %s does not declare %s", m.dir, m.In)
	}
	return found, nil
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
					for _, ident := range s.Names {
						if ident.Name == name {
							return s
						}
					}
				}
			}
		}
	}
	return nil
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) != 1 {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr: // of a generic type
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.Name + "." + d.Name.Name
		default:
			return d.Name.Name
		}
	}
}
