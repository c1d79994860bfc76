package definition

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"
)

// report tells everything a snapshot says and answers, line by line.
func report(t testing.TB, s *Snapshot) []string {
	t.Helper()
	lines := []string{fmt.Sprintf("revision %s, %d tests", s.Revision, s.Tests)}
	for _, d := range s.Definitions {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s %d %s", d.Kind.Noun, d.Key, d.Version, d.Log, d.Pos, d.Cost(), d.Content()))
	}
	for _, w := range s.Warnings {
		lines = append(lines, w.String())
	}
	variables := fastjson.MustParse(`{"q":"why"}`)
	for _, context := range []string{`{}`, `{"plan":"pro"}`, `{"plan":"free","seats":5}`, `{"plan":"team","seats":50}`} {
		b := bind(t, s, context)
		for _, key := range slices.Sorted(maps.Keys(s.RemoteConfigs)) {
			value, d := s.RemoteConfigs[key].Evaluate(b)
			lines = append(lines, fmt.Sprintf("%s %s: %s by %d", key, context, value, d.Row))
		}
		for _, key := range slices.Sorted(maps.Keys(s.Prompts)) {
			p := s.Prompts[key]
			v, d := p.Select(b)
			var values prompt.Values
			must(t, p.Bind(v, variables, b, &values))
			answer, err := v.AppendJSON(nil, &values)
			lines = append(lines, fmt.Sprintf("%s %s: %s by %d, %v", key, context, answer, d.Row, err))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Endpoints)) {
		e := s.Endpoints[key]
		if e.Prompt != s.Prompts[e.Prompt.Key] {
			t.Errorf("the endpoint %s has another prompt than the snapshot", key)
		}
		for _, v := range e.Prompt.Variants() {
			lines = append(lines, fmt.Sprintf("%s %s: %+v", key, v.Key, e.Default().Targets(v)))
		}
	}
	return lines
}

// edit changes a workspace at random: files come, go, change, break and heal.
func edit(t testing.TB, r *rand.Rand, dir string) (what string, undo func()) {
	t.Helper()
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	plan := func() string { return pick("free", "pro", "team", "[free, pro]", "not free", "any", "pr*") }
	config := func() string { return pick("a", "b", "c", "d", "sub/e", "f") }
	var name, text string
	switch r.IntN(12) {
	case 0:
		name = "context.yaml"
		text = pick(
			"fields:\n  plan: { type: string }\n  seats: { type: number }\n",
			"fields:\n  plan: { type: string }\n  seats: { type: number }\n  locale: { type: string, match: language-range }\n",
			"# the same\nfields:\n  plan: { type: string }\n  seats: { type: number }\n",
			"fields:\n  plan: { type: string, values: [free, pro, team] }\n  seats: { type: number }\n",
			"fields:\n  plan: { type: strin }\n",
			"fields: [\n",
		)
	case 1, 2, 3, 4:
		name = "remoteconfigs/" + config() + ".yaml"
		text = fmt.Sprintf("type: string\ndefault: x%d\ncolumns: [plan, seats, value]\nmatrix:\n  - [%s, %d.., one]\n  - [%s, any, two]\n", r.IntN(3), plan(), r.IntN(20), plan())
		if r.IntN(6) == 0 {
			text = "type: [\n" // the key is known, the definition is not
		} else if r.IntN(3) == 0 {
			text += fmt.Sprintf("tests:\n  - { context: { plan: %s, seats: 5 }, value: %s }\n  - { context: { plan: team }, rule: default }\n", pick("free", "pro"), pick("one", "two", "x1"))
		}
	case 5, 6, 7:
		name = "remoteconfigs/" + config() + ".yaml"
		text = fmt.Sprintf("type: string\ndefault: y\nrules:\n  - when: { config: { %s: %s } }\n    value: three\n  - when: { plan: %s }\n    value: four\n", config(), pick("one", "two", "x1", "[one, y]"), plan())
	case 8, 9:
		name = "prompts/" + pick("p", "q", "r") + ".yaml"
		text = fmt.Sprintf("default: en\nvariables: { q: { required: true }, %s }\nvariants:\n  en: { %s, messages: [{ role: user, content: \"%s {{q}}\" }] }\n  nl: { extends: en, model: m%s }\ncolumns: [%s, value]\nmatrix:\n  - [%s, nl]\n",
			pick("v: {}", "w: {}", "c: { config: "+config()+" }", "c: { config: "+config()+", path: x }"), pick("provider: canned, extra: { answer: x }", "provider: canned, extra: { echo: true }", "model: x", "provider: x"), pick("Hi", "Ho"), pick("", ", messages: [{ role: user, content: \"{{c}}\" }]"), pick("plan", "plan", "locale"), pick("pro", "free"))
		if r.IntN(3) == 0 {
			text = fmt.Sprintf("provider: canned\nextra: { echo: true }\nmessages: [{ role: user, content: hello }]\n%s", pick("", "key: p\n", "log: none\n", "unknown: 1\n"))
		}
	case 10:
		name = "endpoints/" + pick("p", "q") + ".yaml"
		text = fmt.Sprintf("prompt: %s\nmax_attempts: %d\nfallback:\n  - { provider: canned%s }\ntimeout: { total: %ds }\n", pick("p", "q", "r", "s"), 2+r.IntN(3), pick(", extra: { answer: x }", ", extra: { answer: x }", ""), 10+r.IntN(20))
		if r.IntN(3) == 0 {
			text = "prompt: p\ntimeout: { total: 1s, idle: 2s }\n"
		}
	default:
		name = pick("remoteconfigs/"+config()+".yaml", "prompts/p.yaml", "prompts/q.yaml", "endpoints/q.yaml", "context.yaml")
		what = "remove " + name
	}
	file := filepath.Join(dir, name)
	old, err := os.ReadFile(file)
	if info, err := os.Stat(file); err == nil && what == "" && r.IntN(3) == 0 {
		// The edit keeps the time of the file, as some tools do.
		defer func() {
			must(t, os.Chtimes(file, time.Time{}, info.ModTime()))
		}()
	}
	undo = func() { write(t, file, string(old)) }
	if err != nil {
		undo = func() {
			if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
	}
	if what == "" {
		write(t, file, text)
		return "write " + name + ":\n" + text, undo
	}
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return what, undo
}

// TestLoadAgain holds a loading that remembers the last one against one from
// nothing, edit by edit.
func TestLoadAgain(t *testing.T) {
	valid, invalid, again := 0, 0, 0
	seeds := 30
	if raceEnabled {
		seeds = 6
	}
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 7))
		files := map[string]string{
			"context.yaml":     "fields:\n  plan: { type: string }\n  seats: { type: number }\n",
			"endpoints/q.yaml": "prompt: p\ntimeout: { total: 1s, idle: 2s }\n",
		}
		for _, name := range []string{"a", "b", "c", "d", "sub/e", "f"} {
			files["remoteconfigs/"+name+".yaml"] = "type: string\ndefault: one\n"
		}
		for _, name := range []string{"p", "q", "r"} {
			files["prompts/"+name+".yaml"] = "provider: canned\nextra: { echo: true }\nmessages: [{ role: user, content: hello }]\n"
		}
		dir := workspace(t, files)
		s := &Source{dir: dir, read: loadAgain, ctx: t.Context()}
		var history []string
		var undo func()
		for range 60 {
			before := s.memory
			got, gotErr := s.load()
			for _, f := range s.memory.files {
				if b := f.built; b != nil && slices.ContainsFunc(slices.Collect(maps.Values(before.files)), func(o *file) bool { return o.built == b }) {
					again++
				}
			}
			want, wantErr := Load(dir)
			if d := cmp.Diff(fmt.Sprint(wantErr), fmt.Sprint(gotErr)); d != "" {
				t.Fatalf("seed %d: errors differ (-from nothing +again):\n%s\nafter:\n%s", seed, d, strings.Join(history, "\n"))
			}
			if wantErr == nil {
				valid++
				if d := cmp.Diff(report(t, want), report(t, got)); d != "" {
					t.Fatalf("seed %d: snapshots differ (-from nothing +again):\n%s\nafter:\n%s", seed, d, strings.Join(history, "\n"))
				}
			} else {
				invalid++
			}
			// A broken workspace would mostly stay broken: what broke it is
			// often taken back.
			if wantErr != nil && undo != nil && r.IntN(4) > 0 {
				undo()
				undo = nil
				history = append(history, "undo")
				continue
			}
			var what string
			what, undo = edit(t, r, dir)
			history = append(history, what)
		}
	}
	t.Logf("%d valid, %d invalid, %d definitions kept", valid, invalid, again)
	if valid < 10*seeds || invalid < 10*seeds || again < 34*seeds {
		t.Errorf("%d valid and %d invalid workspaces, %d definitions kept: too few to tell", valid, invalid, again)
	}
}

// TestLoadAgainParsesWhatChanged counts the files that a loading after an edit
// parses.
func TestLoadAgainParsesWhatChanged(t *testing.T) {
	files := map[string]string{"context.yaml": "fields:\n  plan: { type: string }\n"}
	for i := range 200 {
		files[fmt.Sprintf("remoteconfigs/g%d/c%d.yaml", i%3, i)] = "type: string\ndefault: one\n"
	}
	dir := workspace(t, files)
	s := opened(t, dir)
	before := maps.Clone(s.memory.files)
	edited := filepath.Join(dir, "remoteconfigs/g1/c1.yaml")
	read := readDirectory(dir, new(document.Errors))
	var err error
	read.root, err = os.OpenRoot(dir)
	must(t, err)
	defer read.root.Close()
	if !read.settled() {
		t.Error("a file changed in no time")
	}
	write(t, edited, "type: string\ndefault: two\n")
	if read.settled() {
		t.Error("a file that is edited while the others are read is not noticed")
	}
	must(t, s.Reload())
	if got := string(s.Snapshot().RemoteConfigs["g1/c1"].Default()); got != `"two"` {
		t.Errorf("%s is served", got)
	}
	parsed := 0
	for path, f := range s.memory.files {
		if before[path] != f {
			parsed++
		}
	}
	if parsed != 1 {
		t.Errorf("%d files were parsed", parsed)
	}
	// Whatever replaces a file is read, also with the size and time of the other.
	info, err := os.Stat(edited)
	must(t, err)
	write(t, edited+".tmp", "type: string\ndefault: six\n")
	must(t, errors.Join(os.Chtimes(edited+".tmp", time.Time{}, info.ModTime()), os.Rename(edited+".tmp", edited)))
	must(t, s.Reload())
	if got := string(s.Snapshot().RemoteConfigs["g1/c1"].Default()); got != `"six"` {
		t.Errorf("%s is served", got)
	}
}
