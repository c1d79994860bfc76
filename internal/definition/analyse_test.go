package definition

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

const tableHeader = "type: number\ndefault: 0\ncolumns: [ plan, seats, value ]\nmatrix:\n"

// tableOf is a workspace with one table.
func tableOf(t testing.TB, text string) string {
	return workspace(t, map[string]string{
		"context.yaml":          "fields:\n  plan: { type: string, values: [free, pro] }\n  seats: number\n",
		"remoteconfigs/c.yaml":  text,
		"prompts/p.yaml":        "default: a\nvariants:\n  a: { messages: [ { role: user, content: hi } ] }\n  b: { extends: a }\ncolumns: [ plan, value ]\nmatrix:\n  - [ pro, b ]\n",
		"endpoints/unused.json": `{"prompt":"q"}`,
		"prompts/q.yaml":        "provider: canned\nextra: { echo: true }\nmessages: [ { role: user, content: hi } ]\n",
	})
}

func TestAnalysisWarns(t *testing.T) {
	for name, test := range map[string]struct {
		rows string
		want []string // parts of a warning each
	}{
		"nothing":             {"- [ pro, 10.., 1 ]\n- [ pro, any, 2 ]\n", nil},
		"unreachable":         {"- [ pro, any, 1 ]\n- [ pro, 10.., 2 ]\n", []string{"c.yaml:6:3: row 2 is never reached", `{"plan":"pro"`}},
		"unreachable, merged": {"- [ pro, ..10, 1 ]\n- [ pro, 10.., 1 ]\n- [ pro, present, 2 ]\n", []string{"c.yaml:7:3: row 3 is never reached"}},
		"dead column":         {"- [ pro, any, 1 ]\n", []string{"seats never matters"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustLoad(t, tableOf(t, tableHeader+test.rows))
			var got strings.Builder
			for _, w := range s.Warnings {
				fmt.Fprintln(&got, w)
			}
			if len(test.want) == 0 && got.Len() > 0 {
				t.Errorf("got %s", &got)
			}
			for _, want := range test.want {
				if !strings.Contains(got.String(), want) {
					t.Errorf("no %q in:\n%s", want, &got)
				}
			}
		})
	}
}

func TestAnalysisWarnsOfExpiredRows(t *testing.T) {
	s := mustLoad(t, tableOf(t, "type: number\ndefault: 0\nrules:\n- { id: old, until: 2020-01-01, value: 1 }\n"))
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].Message, "old has expired") {
		t.Errorf("got %v", s.Warnings)
	}
}

// TestUniqueTables refuses overlaps of different values, with an example.
func TestUniqueTables(t *testing.T) {
	unique := strings.Replace(tableHeader, "default: 0", "default: 0\nhit: unique", 1)
	dir := tableOf(t, unique+"- [ pro, 10.., 1 ]\n- [ any, ..10, 2 ]\n")
	_, err := Load(dir)
	wantErrors(t, dir, err, `remoteconfigs/c.yaml:7:3: row 1 and row 2 match the same context with different values, for example for {"plan":"pro","seats":10} (the table has hit: unique)`)
	if e, ok := errors.AsType[*LoadError](err); !ok || len(e.Warnings) > 0 {
		t.Errorf("it is told of twice: %+v", e)
	}
	for _, rows := range []string{
		"- [ pro, 10.., 1 ]\n- [ any, ..<10, 2 ]\n",
		"- [ pro, 10.., 1 ]\n- [ any, ..10, 1.0 ]\n", // the same value
	} {
		if _, err := Load(tableOf(t, unique+rows)); err != nil {
			t.Error(err)
		}
	}
}

func TestRemarks(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	s := mustLoad(t, tableOf(t, "type: number\ndefault: 0\nrules:\n- { id: pro, when: { plan: pro }, value: 1 }\n- { id: some, when: { seats: 5.. }, value: 2 }\n- { id: later, from: 2027-01-01, value: 3 }\n"))
	for kind, want := range map[Remark]string{
		RemarkNoContext: "later needs no field",
		RemarkOverlaps:  "pro and some match the same context",
		RemarkGaps:      "no row matches",
	} {
		var got strings.Builder
		for _, r := range s.Remarks(now, kind) {
			fmt.Fprintln(&got, r)
		}
		if !strings.Contains(got.String(), want) {
			t.Errorf("no %q in:\n%s", want, &got)
		}
	}
	if got := s.Remarks(now, 0); len(got) > 0 {
		t.Errorf("nothing was asked for, got %v", got)
	}
	if got := mustLoad(t, tableOf(t, tableHeader+"- [ pro, any, 1 ]\n")).Remarks(now, RemarkNoContext); len(got) > 0 {
		t.Errorf("the row needs a field, got %v", got)
	}
}

func TestSnapshotCountsTests(t *testing.T) {
	s := mustLoad(t, "../../examples/definitions")
	if s.Tests < 5 || s.Loaded.IsZero() || time.Since(s.Loaded) > time.Minute {
		t.Errorf("%d tests, loaded %v", s.Tests, s.Loaded)
	}
}

// BenchmarkAnalyse analyses a table of 1,000 rows.
func BenchmarkAnalyse(b *testing.B) {
	var rows strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&rows, "- [ %s, %d..<%d, %d ]\n", []string{"free", "pro"}[i%2], i/2*10, i/2*10+10, i)
	}
	s := mustLoad(b, tableOf(b, tableHeader+rows.String()))
	l := &loader{directory: &directory{}, snapshot: s, errs: new(document.Errors)}
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		l.found = nil
		l.analyse(now)
		if len(l.found) > 0 {
			b.Fatal(l.found)
		}
	}
}

// analyses are the analyses that a loading left for the next, by key.
func analyses(m *memory) map[string]*analysis {
	list := make(map[string]*analysis)
	for path, f := range m.files {
		if f.built != nil && f.built.analysis != nil {
			list[path] = f.built.analysis
		}
	}
	return list
}

// TestAnalysisIsKept analyses tables that changed, or depend on changed ones,
// and nothing else, and finds the same as if it had analysed all.
func TestAnalysisIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := workspace(t, map[string]string{
			"context.yaml":         "fields:\n  plan: { type: string, values: [free, pro] }\n",
			"remoteconfigs/a.yaml": "type: boolean\ndefault: false\nrules:\n- { when: { plan: pro }, value: true }\n- { when: { plan: pro }, value: false }\n",
			"remoteconfigs/b.yaml": "type: boolean\ndefault: false\nrules:\n- { when: { config: { a: true } }, value: true }\n",
			"remoteconfigs/c.yaml": "type: boolean\ndefault: false\nrules:\n- { when: { plan: free }, value: true }\n",
			"remoteconfigs/d.yaml": "type: boolean\ndefault: false\nrules:\n- { id: xmas, until: 2000-01-02, value: true }\n",
			"remoteconfigs/e.yaml": "type: boolean\ndefault: false\nrules:\n- { id: new, value: true, ramp: { by: plan, start: 2000-01-01, end: 2000-01-02 } }\n- { when: { plan: pro }, value: false }\n",
		})
		var m memory
		load := func() (*Snapshot, map[string]*analysis) {
			t.Helper()
			s, err := loadAgain(t.Context(), dir, &m)
			must(t, err)
			fresh := mustLoad(t, dir)
			if diff := cmp.Diff(fresh.Warnings, s.Warnings); diff != "" {
				t.Error(diff)
			}
			return s, analyses(&m)
		}
		again := func(what string, before, after map[string]*analysis, want ...string) {
			t.Helper()
			for key, a := range after {
				if done, due := before[key] != a, slices.Contains(want, key); done != due {
					t.Errorf("%s: %s was analysed: %v, want %v", what, key, done, due)
				}
			}
		}
		s, first := load()
		if len(first) != 5 || len(s.Warnings) != 1 {
			t.Fatalf("%d analyses, warnings %v", len(first), s.Warnings)
		}
		write := func(name, text string) {
			t.Helper()
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		write("remoteconfigs/c.yaml", "type: boolean\ndefault: false\nrules:\n- { when: { plan: pro }, value: true }\n")
		_, second := load()
		again("an edit", first, second, "remoteconfigs/c.yaml")
		write("remoteconfigs/a.yaml", "type: boolean\ndefault: false\nrules:\n- { when: { plan: pro }, value: true }\n")
		_, third := load()
		again("an edit of a prerequisite", second, third, "remoteconfigs/a.yaml", "remoteconfigs/b.yaml")
		time.Sleep(48 * time.Hour) // the bubble's clock begins with 2000-01-01
		s, fourth := load()
		again("a row that expired, and a ramp that ended", third, fourth, "remoteconfigs/d.yaml", "remoteconfigs/e.yaml")
		if len(s.Warnings) != 2 {
			t.Errorf("warnings %v", s.Warnings)
		}
		write("context.yaml", "fields:\n  plan: { type: string, values: [free, pro, team] }\n")
		_, fifth := load()
		again("an edit of the data model", fourth, fifth, slices.Sorted(maps.Keys(fifth))...)
		write("remoteconfigs/c.yaml", "type: boolean\ndefault: false\nhit: unique\nrules:\n- { when: { plan: pro }, value: true }\n- { value: false }\n")
		for range 2 {
			if _, err := loadAgain(t.Context(), dir, &m); err == nil || !strings.Contains(err.Error(), "hit: unique") {
				t.Errorf("got %v", err)
			}
		}
	})
}

// TestRemarksOfListsAndKeys are remarks, which no option makes an error.
func TestRemarksOfListsAndKeys(t *testing.T) {
	const flag = "type: boolean\ndefault: false\n"
	s := mustLoad(t, workspace(t, map[string]string{
		"context.yaml":                   "fields:\n  tags: list\n",
		"remoteconfigs/a.yaml":           flag + "rules:\n- { when: { tags: not beta }, value: true }\n",
		"remoteconfigs/b.yaml":           flag + "rules:\n- { when: { tags: [missing, not beta] }, value: true }\n",
		"remoteconfigs/message.yaml":     flag,
		"remoteconfigs/error.yaml":       flag,
		"remoteconfigs/name.yaml":        flag,
		"remoteconfigs/messages.yaml":    flag,
		"remoteconfigs/status_code.yaml": flag,
	}))
	if len(s.Warnings) > 0 {
		t.Errorf("warnings %v", s.Warnings)
	}
	var got strings.Builder
	for _, r := range s.Remarks(time.Now(), RemarkLists|RemarkKeys) {
		fmt.Fprintf(&got, "%s:%d %s\n", filepath.Base(r.Pos.File), r.Pos.Line, r.Message)
	}
	const clash = "breaks the error handling of old SDKs, which look for that member in every answer: choose another key\n"
	want := "a.yaml:4 tags: not beta does not match a context without tags: write [missing, not beta] if it should, {all: [present, not beta]} if not\n"
	for _, key := range []string{"error", "message", "name", "status_code"} {
		want += key + ".yaml:1 a remote configuration called " + key + " " + clash
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

// TestUniqueIsDecided finds overlaps behind segments and computed fields, and
// warns of what it can't decide, of which tables that leave it open whether
// rows overlap hear nothing.
func TestUniqueIsDecided(t *testing.T) {
	rows := "rules:\n- { when: { odd: true }, value: 1 }\n- { when: { n: 2 }, value: 2 }\n"
	load := func(hit, computed string) (*Snapshot, error) {
		return Load(workspace(t, map[string]string{
			"context.yaml":         "fields:\n  n: number\ncomputed:\n  odd: " + computed + "\n",
			"remoteconfigs/c.yaml": "type: number\ndefault: 0\nhit: " + hit + "\n" + rows,
		}))
	}
	if _, err := load("unique", "n > 1.0"); err == nil || !strings.Contains(err.Error(), `for example for {"n":2}`) {
		t.Errorf("got %v", err)
	}
	s, err := load("unique", "int(n) % 2 == 1")
	if err != nil || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0].String(), "c.yaml:6:3: not decided whether row 1 and row 2 match the same context with different values") {
		t.Errorf("got %v, %v", s.Warnings, err)
	}
	for _, computed := range []string{"n > 1.0", "int(n) % 2 == 1"} {
		if s, err := load("first", computed); err != nil || len(s.Warnings) > 0 {
			t.Errorf("got %v, %v", s.Warnings, err)
		}
	}
}
