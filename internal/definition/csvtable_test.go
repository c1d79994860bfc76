package definition

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

// tabled is a workspace of one table, in a CSV file.
var tabled = map[string]string{
	"context.yaml":              "fields:\n  plan: { type: string, values: [free, pro, team] }\n  seats: { type: number }\n",
	"remoteconfigs/limits.yaml": "type: object\ndefault: { rpm: 1 } # of all\nmatrix: limits.csv\ntests:\n  - { context: { plan: pro, seats: 20 }, at: 2026-02-01, rule: big }\n",
	"remoteconfigs/limits.csv":  "id,plan,seats,from,value\nbig,\"[pro, team]\",10..,,\"{ rpm: 6000 }\"\n,not free,,2026-01-01,{ rpm: 60 }\n",
}

func edited(files map[string]string, name, text string) map[string]string {
	files = maps.Clone(files)
	files[name] = text
	return files
}

// TestTableInCSV checks that a matrix in a CSV file is the definition that it would be in
// YAML.
func TestTableInCSV(t *testing.T) {
	got := mustLoad(t, workspace(t, tabled))
	files := edited(tabled, "remoteconfigs/limits.yaml", `type: object
default: { rpm: 1 }
columns: [ id, plan, seats, from, value ]
matrix:
  - [ big, [pro, team], 10.., ~, { rpm: 6000 } ]
  - [ ~, not free, any, 2026-01-01, { rpm: 60 } ]
`)
	delete(files, "remoteconfigs/limits.csv")
	want := mustLoad(t, workspace(t, files))
	if d := cmp.Diff(versionsOf(want), versionsOf(got)); d != "" || got.Revision != want.Revision {
		t.Error(d)
	}
	for context, want := range map[string]string{`{"plan":"pro","seats":10}`: `{"rpm":6000}`, `{"plan":"pro"}`: `{"rpm":60}`, `{"plan":"free"}`: `{"rpm":1}`} {
		if value, _ := got.RemoteConfigs["limits"].Evaluate(bind(t, got, context)); string(value) != want {
			t.Errorf("%s: %s, want %s", context, value, want)
		}
	}
	if len(got.Warnings) > 0 || len(got.Files) != 3 || got.Files[2].Path != "remoteconfigs/limits.csv" {
		t.Error(got.Warnings, len(got.Files))
	}
	// A definition in JSON, and other kinds, may have one.
	s := mustLoad(t, workspace(t, map[string]string{
		"context.yaml":          tabled["context.yaml"],
		"remoteconfigs/c.json":  `{"type":"string","default":"","matrix":"c.CSV"}`,
		"remoteconfigs/c.CSV":   "plan;value\nfree;''\npro;1,5\n",
		"prompts/sub/p.yaml":    "default: a\nvariants:\n  a: { messages: [{ role: user, content: a }] }\n  b: { messages: [{ role: user, content: b }] }\nmatrix: p.csv\n",
		"prompts/sub/p.csv":     "seats,value\n..5,b\n",
		"prompts/sub/other.csv": "seats,value\n",
	}))
	if value, _ := s.RemoteConfigs["c"].Evaluate(bind(t, s, `{"plan":"pro"}`)); string(value) != `"1,5"` {
		t.Errorf("%s", value)
	}
	if v, _ := s.Prompts["sub/p"].Select(bind(t, s, `{"seats":3}`)); v.Key != "b" {
		t.Error(v.Key)
	}
	if len(s.Warnings) != 1 || !strings.HasSuffix(s.Warnings[0].String(), "prompts/sub/other.csv: not read, it is the matrix of no definition in its folder") {
		t.Error(s.Warnings)
	}
}

func TestTableInCSVMistakes(t *testing.T) {
	csv, def := "remoteconfigs/limits.csv", "remoteconfigs/limits.yaml"
	const begin = "type: object\ndefault: {}\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"a cell": {edited(tabled, csv, "plan,value\nprro,{ rpm: 1 }\nfree,{ rpm: 2 }\nteam,x\n"), []string{
			`limits.csv:2:1: "prro" is not one of the values of plan: did you mean "pro"?`, `limits.csv:4:6: value must be of type object, this is "x"`}},
		"a column":            {edited(tabled, csv, "plan,seat,value\nfree,1,{}\n"), []string{`limits.csv:1:6: unknown field "seat": did you mean "seats"?`}},
		"no value":            {edited(tabled, csv, "plan,value\nfree,\npro,{}\nteam,\n"), []string{"limits.csv:2:6: the value of this row is empty: write '' for an empty text", "limits.csv:4:6: the value of this row is empty: write '' for an empty text"}},
		"too few cells":       {edited(tabled, csv, "plan,value\nfree\n"), []string{"limits.csv:2:1: a row of the matrix must have 2 cells (plan, value), this has 1"}},
		"an empty file":       {edited(tabled, csv, "\n"), []string{"limits.csv:1:1: the file is empty: its first line has the names of the columns"}},
		"no file":             {edited(tabled, def, begin+"matrix: limit.csv\n"), []string{`limits.yaml:3:9: there is no file "limit.csv" beside this definition: did you mean "limits.csv"?`}},
		"a folder":            {edited(tabled, def, begin+"matrix: ../remoteconfigs/limits.csv\n"), []string{`limits.yaml:3:9: "../remoteconfigs/limits.csv": a CSV file stands beside its definition, and is named without a folder`}},
		"a hidden file":       {edited(edited(tabled, "remoteconfigs/.limits.csv", "value\n"), def, begin+"matrix: .limits.csv\n"), []string{`limits.yaml:3:9: there is no file ".limits.csv" beside this definition: did you mean "limits.csv"?`}},
		"columns":             {edited(tabled, def, begin+"columns: [ plan, value ]\nmatrix: limits.csv\n"), []string{"limits.yaml:3:10: the first line of limits.csv has the names of the columns: leave columns out"}},
		"another name":        {edited(tabled, def, begin+"columns: [ value ]\nmatrix: limits.txt\n"), []string{`limits.yaml:4:9: matrix must be a list of rows or the name of a CSV file, such as limits.csv, this is "limits.txt"`}},
		"rules":               {edited(tabled, def, begin+"matrix: limits.csv\nrules: [{ value: {} }]\n"), []string{"limits.yaml:4:8: a table is written as columns and matrix or as rules, not both"}},
		"of two":              {edited(tabled, "remoteconfigs/more.yaml", "key: other\n"+begin+"matrix: limits.csv\n"), []string{"more.yaml:4:9: limits.csv is the matrix of remoteconfigs/limits.yaml: a CSV file belongs to one definition"}},
		"no consequence":      {edited(edited(tabled, csv, "\"\n"), "prompts/p.yaml", simple+"variables: { q: { config: limits, path: rpm } }\n"), []string{"limits.csv:1:2: invalid CSV: a quoted cell has no end, or more behind it: double the quotes within a cell"}},
		"a file that is huge": {edited(tabled, csv, "plan,value\n"+strings.Repeat("x", document.MaxFileBytes)), []string{"limits.csv:1:1: the file has 16777227 bytes, at most 16777216 are read"}},
	} {
		dir := workspace(t, test.files)
		_, err := Load(dir)
		list, ok := errors.AsType[*document.MultiError](err)
		if !ok {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, e := range list.List {
			e.Message = strings.ReplaceAll(e.Message, dir+string(filepath.Separator), "")
			e.Pos.File = filepath.Base(e.Pos.File)
			got = append(got, e.Error())
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestTableInCSVLinks checks that a CSV file is where definitions may be.
func TestTableInCSVLinks(t *testing.T) {
	dir := workspace(t, tabled)
	file := filepath.Join(dir, "remoteconfigs/limits.csv")
	move := func(to string) {
		t.Helper()
		if err := errors.Join(os.Rename(file, to), os.Symlink(to, file)); err != nil {
			t.Skip(err)
		}
	}
	move(filepath.Join(dir, "remoteconfigs", ".limits.csv"))
	must(t, os.Remove(file))
	must(t, os.Symlink(".limits.csv", file))
	mustLoad(t, dir)
	must(t, os.Remove(file))
	outside := filepath.Join(t.TempDir(), "limits.csv")
	write(t, outside, tabled["remoteconfigs/limits.csv"])
	must(t, os.Symlink(outside, file))
	_, err := Load(dir)
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), "limits.csv: the link leads out of the workspace") {
		t.Error(err)
	}
}

// TestTableInCSVAgain holds loadings after edits of a CSV file and its definition against
// loadings from nothing.
func TestTableInCSVAgain(t *testing.T) {
	dir := workspace(t, edited(tabled, "remoteconfigs/other.yaml", "type: boolean\ndefault: false\nrules: [{ when: { config: { limits: { rpm: 60 } } }, value: true }]\n"))
	s := &Source{dir: dir, read: loadAgain, ctx: t.Context()}
	quoted := "plan,value\n\"\"\"pr*\"\"\",{ rpm: 60 }\n" // with a warning
	for i, edit := range []struct{ name, text string }{
		{"", ""}, {"limits.csv", quoted}, {"limits.yaml", "type: object\ndefault: {}\nmatrix: limits.csv\n"}, {"other.yaml", "type: boolean\ndefault: true\n"},
		{"limits.csv", "plan,value\n"}, {"limits.csv", "plan,value\nprro,{}\n"}, {"limits.csv", quoted}, {"limits.csv", "\"\n"}, {"limits.csv", quoted},
		{"limits.yaml", "type: object\ndefault: {}\n"}, {"limits.yaml", "type: object\ndefault: {}\nmatrix: limits.csv\n"}, {"limits.csv", "plan,budget.daily,value\nfree,80..,{}\n"},
	} {
		if edit.name != "" {
			write(t, filepath.Join(dir, "remoteconfigs", edit.name), edit.text)
		}
		for range 2 {
			got, gotErr := s.load()
			want, wantErr := Load(dir)
			if d := cmp.Diff(fmt.Sprint(wantErr), fmt.Sprint(gotErr)); d != "" {
				t.Fatalf("edit %d: %s", i, d)
			}
			if wantErr == nil {
				if d := cmp.Diff(report(t, want), report(t, got)); d != "" {
					t.Fatalf("edit %d: %s", i, d)
				}
			}
		}
	}
	before := s.memory.files["remoteconfigs/limits.yaml"].built
	if _, err := s.load(); err != nil || before == nil || s.memory.files["remoteconfigs/limits.yaml"].built != before {
		t.Errorf("a definition whose CSV file is unchanged was built again, or %v", err)
	}
}

func TestPastWithCSV(t *testing.T) {
	dir := workspace(t, tabled)
	comesBack(t, dir)
	p := pastOf(t, dir)
	to := filepath.Join(t.TempDir(), "past")
	if written, err := p.WriteTo(to); err != nil || !written {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(to, "remoteconfigs/limits.csv"))
	if err != nil || string(text) != tabled["remoteconfigs/limits.csv"] {
		t.Errorf("%q, %v", text, err)
	}
	if written, err := p.WriteTo(to); err != nil || written {
		t.Errorf("the same files were written again, or %v", err)
	}
	p.Files = append(p.Files, fileOf("limits.csv", "value\n"))
	if _, err := p.Load(); err == nil || !strings.Contains(err.Error(), `a file "limits.csv", which is no definition`) {
		t.Error(err)
	}
}
