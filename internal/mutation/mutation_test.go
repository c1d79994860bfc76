package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A mutant that no longer applies tests nothing. This test finds it in every
// run, and not only when the command is run.
func TestMutantsApply(t *testing.T) {
	if len(registry) == 0 {
		t.Fatal("there is no mutant")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string][]string)
	named := make(map[string]bool)
	for i := range registry {
		m := &registry[i]
		if m.ID == "" || m.What == "" || strings.Contains(m.What, "\n") {
			t.Errorf("%s (in %s): a mutant has an ID, and What in one line", m.name(), m.In)
		}
		if named[m.name()] {
			t.Errorf("%s: two mutants have this name", m.name())
		}
		named[m.name()] = true
		if _, _, err := m.apply(root); err != nil {
			t.Errorf("%s: %v. Mend the mutant: what it is there for (%s) is probably still in the code under another wording.", m.name(), err, m.What)
		}
		// The first element only: those behind slashes name subtests.
		pattern, err := regexp.Compile(strings.Split(m.Run, "/")[0])
		if err != nil {
			t.Errorf("%s: %v", m.name(), err)
			continue
		}
		found := false
		for _, dir := range m.tests() {
			if tests[dir] == nil {
				tests[dir] = testsOf(t, filepath.Join(root, filepath.FromSlash(dir)))
			}
			for _, test := range tests[dir] {
				found = found || pattern.MatchString(test)
			}
		}
		if !found {
			t.Errorf("%s: no test in %s matches %q", m.name(), strings.Join(m.tests(), ", "), m.Run)
		}
	}
}

// testsOf are the names of the tests of a package.
func testsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// The runner, on a module of its own.
func TestRunner(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"sum/sum.go": `package sum

var step, start = 1, 0

type counter[T any] struct{ n int }

// add adds the step: return nothing.
func (c *counter[T]) add() int {
	c.n += step
	return c.n
}

func wait(leave chan int) { <-leave }

func unseen() int { return 1 }
`,
		"sum/sum_test.go": `package sum

import "testing"

func TestAdd(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		c := counter[int]{n: start}
		if c.add() != 1 {
			t.Fatal("not 1")
		}
	})
}

func TestWait(t *testing.T) {
	leave := make(chan int, 1)
	leave <- 1
	wait(leave)
}

func TestRed(t *testing.T) { t.Fatal("always") }
`,
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		mutant mutant
		want   string // what the verdict begins with
		killed bool
	}{
		{mutant{In: "counter.add", Old: "+=", New: "-=", Run: "Add"}, "killed by TestAdd/once", true},
		{mutant{In: "start", Old: "0", New: "1", Run: "Add"}, "killed by TestAdd/once", true},
		{mutant{In: "wait", Old: "<-leave", New: "leave <- 1; panic(1)", Run: "Wait", Timeout: 1e9}, "killed by a timeout after 1s", true},
		{mutant{In: "wait", Old: "<-leave", New: "panic(1)", Run: "Wait"}, "killed by TestWait", true},
		{mutant{In: "wait", Old: "<-leave", New: "func() { defer close(leave); go func() { panic(1) }(); select {} }()", Run: "Wait"}, "killed by ", true},
		{mutant{In: "unseen", Old: "1", New: "2", Run: "Add|Wait"}, "SURVIVED", false},
		{mutant{In: "unseen", Old: "1", New: "1", Run: "Add"}, "does not apply", false},
		{mutant{In: "unseen", Old: "2", New: "1", Run: "Add"}, "does not apply", false},
		{mutant{In: "counter.add", Old: "c.n", New: "c", Run: "Add"}, "does not apply", false},
		{mutant{In: "add", Old: "c.n", New: "c", Run: "Add"}, "does not apply", false},
		{mutant{In: "unseen", Old: "{", New: "", Run: "Add"}, "does not apply", false},
		{mutant{In: "unseen", Old: "1", New: "1.5", Run: "Add"}, "does not compile", false},
		{mutant{In: "unseen", Old: "1", New: "2"}, "its tests are red without it: TestRed", false},
		{mutant{In: "unseen", Old: "1", New: "2", Run: "Nothing"}, "no test runs", false},
	} {
		c.mutant.dir = "sum"
		r := runner{root: root, sound: make(map[string]error)}
		verdict, killed := r.try(t.Context(), &c.mutant, t.TempDir())
		if !strings.HasPrefix(verdict, c.want) || killed != c.killed {
			t.Errorf("%s, %q → %q: %q (killed %t), want %q (killed %t)", c.mutant.In, c.mutant.Old, c.mutant.New, verdict, killed, c.want, c.killed)
		}
	}

	var out bytes.Buffer
	err := (&runner{root: root, out: &out}).run(t.Context(), []mutant{
		{ID: "sign", In: "counter.add", What: "counts down", Old: "+=", New: "-=", Run: "Add", dir: "sum"},
		{ID: "unseen", In: "unseen", What: "nothing", Old: "1", New: "2", Run: "Add", dir: "sum"},
	})
	if err == nil || !strings.Contains(err.Error(), "sum/unseen") || strings.Contains(err.Error(), "sum/sign") {
		t.Errorf("one survived: error %v", err)
	}
	if !strings.Contains(out.String(), "killed 1 of 2") {
		t.Errorf("printed:\n%s", out.String())
	}
}

func TestChoose(t *testing.T) {
	all := []mutant{
		{ID: "leases", In: "App.answer", What: "no leases", dir: "caddymodule"},
		{ID: "hash", In: "Cache.Get", What: "no comparison", dir: "cache"},
	}
	for _, c := range []struct {
		pattern  string
		packages []string
		want     string // "": an error
	}{
		{"", nil, "leases hash"},
		{"no leases", nil, "leases"},
		{"caddymodule/", nil, "leases"},
		{`^Cache\.Get$`, nil, "hash"},
		{`^Get$`, nil, ""},
		{"", []string{"./cache/"}, "hash"},
		{"", []string{"caddymodule", "cache"}, "leases hash"},
		{"", []string{"cache", "internal/wire"}, ""},
		{"leases", []string{"cache"}, ""},
		{"(", nil, ""},
	} {
		chosen, err := choose(all, c.pattern, c.packages)
		var ids []string
		for _, m := range chosen {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q %v: %q, %v, want %q", c.pattern, c.packages, got, err, c.want)
		}
	}
}
