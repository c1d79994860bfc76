package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A mutant that no longer applies tests nothing. This test finds it in every
// run, and not only when the command is run.
func TestMutantsApply(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := readAll(root)
	if err != nil || len(mutants) == 0 {
		t.Fatalf("%d mutants, %v", len(mutants), err)
	}
	packages := make(map[string]*source)
	tests := make(map[string][]string)
	generated := make(map[string]bool)
	for _, m := range mutants {
		if packages[m.dir] == nil {
			if packages[m.dir], err = load(root, m.dir); err != nil {
				t.Fatal(err)
			}
			for _, g := range packages[m.dir].generate() {
				generated[edit(g)] = true
			}
		}
		if err := packages[m.dir].find(m); err != nil {
			t.Errorf("%s: %v. Mend the line: what the mutant is there for (%s) is probably still in the code under another wording.", m.at, err, m.what)
			continue
		}
		if generated[edit(m)] && slices.Equal(m.tests, []string{m.dir}) {
			t.Errorf("%s: the command makes this change by itself. Remove the line.", m.at)
		}
		// Only the first element: the others name subtests.
		pattern := regexp.MustCompile(strings.Split(m.pattern, "/")[0])
		found := false
		for _, dir := range m.tests {
			if tests[dir] == nil {
				tests[dir] = testsOf(t, filepath.Join(root, filepath.FromSlash(dir)))
			}
			found = found || slices.ContainsFunc(tests[dir], pattern.MatchString)
		}
		if !found {
			t.Errorf("%s: no test in %s matches %q", m.at, strings.Join(m.tests, ", "), m.pattern)
		}
	}
}

// edit identifies a change, without the common beginning and end of the old and the new
// text.
func edit(m *mutant) string {
	start, old, text := m.start, string(m.file.text[m.start:m.end]), m.text
	for old != "" && text != "" && old[0] == text[0] {
		start, old, text = start+1, old[1:], text[1:]
	}
	for old != "" && text != "" && old[len(old)-1] == text[len(text)-1] {
		old, text = old[:len(old)-1], text[:len(text)-1]
	}
	return fmt.Sprint(m.file.path, start, old, "=>", text)
}

// testsOf returns the names of the tests of a package.
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

func TestParse(t *testing.T) {
	got, err := parse("a", "# comment\n\nbreaks [too]\n\tf: x [1] => x [2]\n\tT.m: a; b =>\nall [A|B]\n\tf: 1 => 2\nelsewhere [b c: A]\n\tf: 1 => 2\nwhole [b:]\n\tf: 1 => 2\n")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range got {
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%s|%s|%v|%s", m.at, m.what, m.in, m.old, m.text, m.tests, m.pattern))
	}
	want := []string{
		"a/testdata/mutants.txt:4|breaks|f|x [1]|x [2]|[a]|too",
		"a/testdata/mutants.txt:5|breaks|T.m|a; b||[a]|too",
		"a/testdata/mutants.txt:7|all|f|1|2|[a]|A|B",
		"a/testdata/mutants.txt:9|elsewhere|f|1|2|[b c]|A",
		"a/testdata/mutants.txt:11|whole|f|1|2|[b]|",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}

	for text, want := range map[string]string{
		"\tf: 1 => 2\n":               ":1: want a line",
		"what\n\nwhat\n\tf: 1 => 2\n": ":3: want a line",
		"what\n\tf: 1 => 2\nwhat\n":   "no change is below",
		"what [A\n\tf: 1 => 2\nb]\n":  ":1: want a line",
		"what [(]\n\tf: 1 => 2\n":     ":1: error parsing regexp",
		" what\n\tf: 1 => 2\n":        ":1: want a line",
		"[A]\n\tf: 1 => 2\n":          ":1: want a line",
		"what\n\tf 1 => 2\n":          ":2: want a line",
		"what\n\tf g: 1 => 2\n":       ":2: want a line",
		"what\n\tf: 1 = 2\n":          ":2: want a line",
		"what\n\tf:  1 => 2\n":        ":2: want a line",
		"what\n\tf: => 2\n":           ":2: want a line",
		"what\n\tf: 1 => 1\n":         ":2: the text \"1\" stays",
	} {
		if _, err := parse("a", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		old, code string
		want      bool
	}{
		{"a + b", "a +\n\t\tb", true},
		{"a + b", "a+b", false},
		{"{ a(); b() }", "{\n\ta()\n\tb()\n}", true},
		{"a(); b()", "a(); b()", true},
		{"a(); b()", "a() + b()", false},
		{"b", "ab + c", false},
		{"a.b", "a.bc", false},
		{".b(", "a.b(c)", true},
		{"(?)", "(?)", true},
	} {
		if got := match(c.old).MatchString(c.code); got != c.want {
			t.Errorf("%q matches %q: %t", c.old, c.code, got)
		}
	}
}

// sumPackage is a package to mutate.
const sumPackage = `package sum

var step, start = 1, 0

type counter[T any] struct{ n int }

// add adds the step: return nothing.
func (c *counter[T]) add() int {
	c.n += step
	return c.n
}

func wait(leave chan int) { <-leave }

func unseen() int { return 1 }

func quiet() (problem any) {
	defer func() { problem = recover() }()
	panic(1)
}

func end(problem *any) { *problem = recover() }

func find(list []int, most int) (at int, err error) {
rows:
	for i, v := range list {
		if v > most && i != 3 {
			continue rows
		}
		return i, nil
	}
	return 0, errNone{"" + "none"}
}

type errNone struct{ text string }

func (e errNone) Error() string { return e.text }
`

const sumTest = `package sum

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

func TestEnd(t *testing.T) {
	var problem any
	func() {
		defer end(&problem)
		panic(1)
	}()
	if problem == nil || quiet() == nil {
		t.Fatal("no problem")
	}
}

func TestFind(t *testing.T) {
	if at, err := find([]int{9, 2}, 2); at != 1 || err != nil {
		t.Fatal(at, err)
	}
	if _, err := find(nil, 2); err == nil {
		t.Fatal("no error")
	}
}

func TestRed(t *testing.T) { t.Fatal("always") }
`

// sumModule writes a module of that package with its data.
func sumModule(t *testing.T, data string) (root string) {
	root = t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                   "module example.com/m\n\ngo 1.26\n",
		"sum/sum.go":               sumPackage,
		"sum/sum_test.go":          sumTest,
		"sum/testdata/mutants.txt": data,
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// The runner, on a module of its own.
func TestRunner(t *testing.T) {
	cases := []struct{ change, tests, want string }{
		{"counter.add: += => -=", "Add", "killed by TestAdd/once"},
		{"start: 0 => 1", "Add", "killed by TestAdd/once"},
		{"wait: <-leave => <-leave; panic(1)", "Wait", "killed by TestWait"},
		{"wait: <-leave => func() { defer close(leave); go func() { panic(1) }(); select {} }()", "Wait", "killed by "},
		{"wait: <-leave => for { <-leave }", "Wait", "killed by a timeout after "},
		{"end: recover() => any(nil)", "End", "killed by "},
		{"end: *problem = recover() => *problem = recover(); _ = 0", "End", "SURVIVED"},
		{"quiet: problem = => _ =", "End", "killed by TestEnd"},
		{"find: continue rows => break rows", "Find", "killed by TestFind"},
		{"find: > most => > most+0", "Find", "SURVIVED"},
		{"unseen: 1 => 2", "Add|Wait", "SURVIVED"},
		{"unseen: 1 => 1.5", "Add", "does not compile"},
		{"unseen: return 1 =>", "Add", "does not compile"},
		{"start: 0 => 1.5", "Add", "does not compile"},
		{"unseen: 1 => 2", "Red", "no test passes without it"},
		{"unseen: 1 => 2", "Nothing", "no test passes without it"},
	}
	var data strings.Builder
	for _, c := range cases {
		fmt.Fprintf(&data, "breaks [%s]\n\t%s\n", c.tests, c.change)
	}
	root := sumModule(t, data.String())
	mutants, err := choose(root, nil, regexp.MustCompile(""), 0, 1)
	if err != nil || len(mutants) != len(cases) {
		t.Fatalf("%d mutants, %v", len(mutants), err)
	}
	var out bytes.Buffer
	unkilled, err := (&runner{root: root, out: &out, patience: time.Second}).run(t.Context(), mutants)
	if err != nil {
		t.Fatal(err)
	}
	var verdicts []string
	for _, line := range strings.Split(out.String(), "\n") {
		if fields := strings.Split(line, "\t"); len(fields) > 2 {
			verdicts = append(verdicts, fields[1])
		}
	}
	for i, c := range cases {
		killed := !slices.Contains(unkilled, mutants[i])
		if i >= len(verdicts) || !strings.HasPrefix(verdicts[i], c.want) || killed != strings.HasPrefix(c.want, "killed") {
			t.Errorf("%s: killed %t, want %q", c.change, killed, c.want)
		}
	}
	if !strings.Contains(out.String(), "killed 8 of 16") || t.Failed() {
		t.Errorf("printed:\n%s", out.String())
	}
	if err := report(&out, unkilled); err == nil || !strings.Contains(err.Error(), "8 mutants") {
		t.Errorf("error %v", err)
	}
}

// All mutants of a package that no one wrote.
func TestGenerated(t *testing.T) {
	root := sumModule(t, "")
	mutants, err := choose(root, []string{"./sum/"}, regexp.MustCompile(""), -1, 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mutants {
		got = append(got, fmt.Sprintf("%s %s %s=>%s", m.at[len("sum/sum.go:"):], m.what, m.file.text[m.start:m.end], m.text))
	}
	want := []string{
		"9 operator +==>-=", "9 operator +==>=", "9 statement c.n += step=>",
		"13 statement <-leave=>",
		"15 constant 1=>2", "15 constant 1=>0",
		"18 statement defer func() { problem = recover() }()=>", "18 statement problem = recover()=>",
		"19 statement panic(1)=>", "19 constant 1=>2", "19 constant 1=>0",
		"27 condition v > most && i != 3=>false", "27 operator &&=>||",
		"27 operand v > most && =>", "27 operand  && i != 3=>",
		"27 operator >=>>=", "27 operator >=><=", "27 operator !==>==", "27 constant 3=>4", "27 constant 3=>2",
		"28 statement continue rows=>",
		"32 error errNone{\"\" + \"none\"}=>nil", "32 constant 0=>1", "32 operator +=>-",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	var out bytes.Buffer
	unkilled, err := (&runner{root: root, out: &out, patience: time.Second}).run(t.Context(), mutants)
	if err != nil {
		t.Fatal(err)
	}
	// A - between strings, for example, does not compile, nor a variable or label
	// that nothing uses, nor a function that ends without a return.
	if !strings.Contains(out.String(), "left out: TestRed\n") || !strings.Contains(out.String(), fmt.Sprintf("of %d\n", len(mutants)-5)) {
		t.Errorf("printed:\n%s", out.String())
	}
	if err := report(&out, unkilled); err != nil || !strings.Contains(out.String(), "not killed:\tsum/sum.go:15\tunseen: 1 => 2") {
		t.Errorf("error %v, printed:\n%s", err, out.String())
	}
}

func TestChoose(t *testing.T) {
	root := sumModule(t, "no step\n\tcounter.add: += => -=\nhangs [A]\n\twait: <-leave => select {}\n")
	for _, c := range []struct {
		pattern  string
		packages []string
		draw     int
		want     int // 0: an error
	}{
		{"", nil, 0, 2},
		{"no step", nil, 0, 1},
		{`txt:4`, nil, 0, 1},
		{"", []string{"sum"}, 5, 7},
		{`sum\.go:15`, nil, -1, 2},
		{"unheard", nil, -1, 0},
		{"", []string{"other"}, 0, 0},
	} {
		chosen, err := choose(root, c.packages, regexp.MustCompile(c.pattern), c.draw, 7)
		if len(chosen) != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("%q %v: %d mutants, %v, want %d", c.pattern, c.packages, len(chosen), err, c.want)
		}
	}
}
