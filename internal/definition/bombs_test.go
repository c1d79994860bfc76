package definition

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// bombs are workspaces that are small and would take much to load. Each is
// refused with an error that names the excess, or loads.
var bombs = map[string]struct {
	files map[string]func() string
	want  string // a part of the error, empty for a workspace that loads
}{
	"a text repeated 1,000 times": {one(func() string {
		return "type: list\ndefault:\n  - &a " + strings.Repeat("x", 1_000_000) + "\n" + strings.Repeat("  - *a\n", 1000)
	}), "c.yaml:8:5: the aliases of this file repeat more than 4 MiB of text"},
	"many files with aliases": {many(50, func(int) string {
		return "type: list\ndefault:\n  - &a [" + strings.Repeat(strings.Repeat("x", 998)+", ", 90) + "]\n" + strings.Repeat("  - *a\n", 1090)
	}), "repeat more than 4 MiB of text"},
	"many files with aliases that each may have": {many(50, func(int) string {
		return "type: list\ndefault:\n  - &a [" + strings.Repeat(strings.Repeat("x", 998)+", ", 90) + "]\n" + strings.Repeat("  - *a\n", 45)
	}), "more than 64 MiB of text together"},
	"laughs": {one(func() string {
		s := "type: object\ndefault:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
		for i := 1; i < 12; i++ {
			s += fmt.Sprintf("  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
		}
		return s
	}), "the aliases of this file repeat more than 100000 values and keys"},
	"a chain of prerequisites": {many(40, func(i int) string {
		if i == 0 {
			return "type: boolean\ndefault: false\nrules: [ { value: true } ]\n"
		}
		ask := fmt.Sprintf("  - { when: { config: { c%02d: true } }, value: true }\n", i-1)
		return "type: boolean\ndefault: false\nrules:\n" + ask + ask
	}), ""},
	"a chain of mappings": {one(func() string { return strings.Repeat("a: ", 700_000) }), "c.yaml:1:"},
	"a chain of lists":    {one(func() string { return strings.Repeat("- ", 1_000_000) }), "c.yaml:1:"},
	"a list of ones": {one(func() string {
		return "type: list\ndefault: [" + strings.Repeat("1,", 1_899_999) + "1]\n"
	}), "values and keys"},
	"a list of ones in JSON": {map[string]func() string{"remoteconfigs/c.json": func() string {
		return `{"type":"list","default":[` + strings.Repeat("1,", 1_899_999) + "1]}"
	}}, "values and keys"},
	"as many ones as there may be": {one(func() string {
		return "type: list\ndefault: [" + strings.Repeat("1,", 599_990) + "1]\n"
	}), ""},
	"a mapping of keys without values": {one(func() string {
		return "type: list\ndefault: [" + strings.Repeat("{a,b,c,d,e,f,g,h},", 200_000) + "1]\n"
	}), "values and keys: write it as JSON"},
	"lists of one": {one(func() string {
		return "type: list\ndefault: [" + strings.Repeat("[1],", 999_999) + "1]\n"
	}), "values and keys"},
	"lines of dashes": {one(func() string {
		return "type: list\ndefault:\n" + strings.Repeat("- - - - - - - - - - - - - - - - - - - -\n", 100_000)
	}), "values and keys"},
	"anchors":                 {one(func() string { return strings.Repeat("&a ", 1_300_000) }), "c.yaml:1:"},
	"anchors in lines":        {one(func() string { return strings.Repeat("&a\n", 1_300_000) }), "c.yaml:"},
	"as many anchors as read": {one(func() string { return strings.Repeat("&a ", 299_000) }), "c.yaml:1:"},
	"tags":                    {one(func() string { return strings.Repeat("!a ", 1_300_000) }), "c.yaml:1:"},
	"aliases":                 {one(func() string { return strings.Repeat("*a ", 1_300_000) }), "c.yaml:1:"},
	"aliases in lines":        {one(func() string { return strings.Repeat("*a\n", 1_300_000) }), "c.yaml:600001:"},
	"quotes":                  {one(func() string { return strings.Repeat(`"" `, 1_300_000) }), "c.yaml:1:"},
	"single quotes":           {one(func() string { return "a: \"\\u0001\"\nb: " + strings.Repeat(`'' `, 1_300_000) }), "c.yaml:"},
	"many files of ones": {many(16, func(int) string {
		return "type: list\ndefault: [" + strings.Repeat("1,", 399_999) + "1]\n"
	}), "values and keys together"},
	"variants that extend a long one": {map[string]func() string{"prompts/p.yaml": func() string {
		s := "default: a\nvariants:\n  a: { messages: [ { role: user, content: " + strings.Repeat("x", 3_900_000) + " } ] }\n"
		for i := range 1000 {
			s += fmt.Sprintf("  b%d: { extends: a }\n", i)
		}
		return s
	}}, "16 MiB"},
	"variants of an endpoint that extend a long one": {map[string]func() string{
		"prompts/p.yaml": func() string { return "provider: x\nmodel: m\nmessages: [ { role: user, content: x } ]\n" },
		"endpoints/e.yaml": func() string {
			s := "prompt: p\ndefault: a\nvariants:\n  a: { fallback: [ { provider: x, model: m, extra: { text: " + strings.Repeat("x", 3_900_000) + " } } ] }\n"
			for i := range 1000 {
				s += fmt.Sprintf("  b%d: { extends: a }\n", i)
			}
			return s
		},
	}, "e.yaml:8:3: the variants have more than 16 MiB together"},
	"endpoints and prompts of many variants": {func() map[string]func() string {
		variants := func(begin, each string) string {
			s := begin + "default: v0\nvariants:\n"
			for i := range 5_000 {
				s += fmt.Sprintf("  v%d: %s\n", i, each)
			}
			return s
		}
		files := map[string]func() string{"prompts/p.yaml": func() string {
			return variants("", "{ provider: x, model: m, messages: [ { role: user, content: x } ] }")
		}}
		for i := range 5 {
			files[fmt.Sprintf("endpoints/e%d.yaml", i)] = func() string {
				return variants("prompt: p\n", "{ fallback: [ { provider: x, model: m }, { provider: y, model: m } ] }")
			}
		}
		return files
	}(), ""},
	"patches of a long default": {one(func() string {
		return "type: object\nmerge: default\ndefault: { text: " + strings.Repeat("x", 3_900_000) + " }\nrules:\n" + strings.Repeat("  - value: { a: 1 }\n", 1000)
	}), "16 MiB"},
	"many files of variants that inherit": {func() map[string]func() string {
		files := make(map[string]func() string)
		for i := range 100 {
			files[fmt.Sprintf("prompts/p%02d.yaml", i)] = func() string {
				s := "default: a\nvariants:\n  a: { messages: [ { role: user, content: " + strings.Repeat("x", 10_000) + " } ] }\n"
				for i := range 700 {
					s += fmt.Sprintf("  b%d: { extends: a }\n", i)
				}
				return s
			}
		}
		return files
	}(), "more than 64 MiB together when they are written out"},
	"patterns that become large": {map[string]func() string{
		"context.yaml": func() string { return "fields: { s: { type: string } }\n" },
		"remoteconfigs/c.yaml": func() string {
			var b strings.Builder
			b.WriteString("type: string\ndefault: x\ncolumns: [s, value]\nmatrix:\n")
			for i := range 50_000 {
				fmt.Fprintf(&b, "- [{ matches: '^\\pL{200}a%d$' }, x]\n", i)
			}
			return b.String()
		},
	}, "the regular expressions"},
	"many tables of patterns that become large": {func() map[string]func() string {
		files := many(40, func(i int) string {
			return fmt.Sprintf("type: string\ndefault: x\ncolumns: [s, value]\nmatrix:\n- [{ matches: '^\\pL{999}a%d$' }, x]\n", i)
		})
		files["context.yaml"] = func() string { return "fields: { s: { type: string } }\n" }
		return files
	}(), "the regular expressions of the tables take more than 128 MiB together"},
	"a text of small patterns": {map[string]func() string{
		"context.yaml": func() string { return "fields: { s: { type: string } }\n" },
		"remoteconfigs/c.yaml": func() string {
			var b strings.Builder
			b.WriteString("type: string\ndefault: x\ncolumns: [s, value]\nmatrix:\n")
			for i := range 5_000 {
				fmt.Fprintf(&b, "- [{ matches: '^.{50}a[a-z]+%d$' }, x]\n", i)
			}
			return b.String()
		},
	}, ""},
	"many variables of a long configuration": {func() map[string]func() string {
		members := "{ " + strings.Repeat("x: { ", 50) + "y: 1" + strings.Repeat(" }", 50) + " }"
		files := map[string]func() string{"remoteconfigs/c.yaml": func() string {
			return "type: object\nmerge: default\ndefault: " + members + "\nrules:\n" + strings.Repeat("  - value: {}\n", 20_000)
		}}
		for i := range 20 {
			files[fmt.Sprintf("prompts/p%02d.yaml", i)] = func() string {
				s := "messages: [ { role: user, content: hello } ]\nvariables:\n"
				for j := range 2_000 {
					s += fmt.Sprintf("  v%d: { config: c, path: %sx }\n", j, strings.Repeat("x.", 1+(i*2000+j)%49))
				}
				return s
			}
		}
		return files
	}(), "p00.yaml:1:1: the prompt p00 has"},
	"a long list of texts that grow": {one(func() string {
		return "type: list\ndefault:\n  - &a \"" + strings.Repeat(`\u0001`, 600_000) + "\"\n" + strings.Repeat("  - *a\n", 6)
	}), "16 MiB"},
}

// smallBombs are the bombs that take little, however large they are.
var smallBombs = []string{"anchors", "anchors in lines", "as many anchors as read", "tags", "aliases", "aliases in lines", "quotes", "single quotes"}

// one is a workspace of one remote configuration, many one of so many.
func one(text func() string) map[string]func() string {
	return map[string]func() string{"remoteconfigs/c.yaml": text}
}

func many(n int, text func(i int) string) map[string]func() string {
	files := make(map[string]func() string, n)
	for i := range n {
		files[fmt.Sprintf("remoteconfigs/c%02d.yaml", i)] = func() string { return text(i) }
	}
	return files
}

// bombResult is what became of a bomb in a process of its own.
type bombResult struct {
	Error  string
	Memory uint64 // bytes, at most
	Took   time.Duration
}

// bombMemory bounds the memory of a process that loads a bomb, and bombTime its time:
// far more than is needed, and far less than the bombs would take. How much garbage lies
// about differs by a fifth from run to run, so the process is told to collect it from
// bombLimit on. What is in use goes beyond that.
const (
	bombLimit       = "GOMEMLIMIT=512MiB"
	bombMemory      = 640 << 20
	smallBombMemory = 330 << 20
	bombTime        = 30 * time.Second
)

func TestBombs(t *testing.T) {
	if dir := os.Getenv("CADENZA_BOMB"); dir != "" {
		begun := time.Now()
		_, err := Load(dir)
		r := bombResult{Took: time.Since(begun)}
		if err != nil {
			r.Error = err.Error()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		r.Memory = m.Sys
		_ = json.NewEncoder(os.Stdout).Encode(r)
		os.Exit(0)
	}
	for name, bomb := range bombs {
		if raceEnabled && len(bomb.files) < 40 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			files := make(map[string]string)
			for name, text := range bomb.files {
				files[name] = text()
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestBombs$")
			cmd.Env = append(os.Environ(), "CADENZA_BOMB="+workspace(t, files), bombLimit)
			out, err := cmd.Output()
			var r bombResult
			if err == nil {
				err = json.Unmarshal(out, &r)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%.1f s, %d MiB: %.200s", r.Took.Seconds(), r.Memory>>20, r.Error)
			if (bomb.want == "") != (r.Error == "") || !strings.Contains(r.Error, bomb.want) {
				t.Errorf("got %.300s, want %s", r.Error, bomb.want)
			}
			if !raceEnabled && r.Took > bombTime {
				t.Errorf("it took %v", r.Took)
			}
			most := uint64(bombMemory)
			if slices.Contains(smallBombs, name) {
				most = smallBombMemory
			}
			if !raceEnabled && r.Memory > most {
				t.Errorf("it took %d MiB of memory", r.Memory>>20)
			}
		})
	}
}
