package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// explodingDefinitions writes definitions to workspace beta that are small on disk
// and large in memory.
func explodingDefinitions(t *testing.T, s *siege) {
	chain := func(levels, rows int) map[string]string {
		files := make(map[string]string)
		for i := range levels {
			text := "type: boolean\ndefault: false\n"
			if i > 0 {
				text += "rules:\n"
				for row := range rows {
					text += fmt.Sprintf("  - { when: { config: { c%d: true }, s: v%d }, value: true }\n", i-1, row)
				}
			} else {
				text += "rules: [ { when: { s: yes }, value: true } ]\n"
			}
			files[fmt.Sprintf("remoteconfigs/c%d.yaml", i)] = text
		}
		return files
	}
	aliases := func(text string, texts, n int) string {
		var b strings.Builder
		b.WriteString("type: list\ndefault:\n")
		for i := range texts {
			fmt.Fprintf(&b, "  - &a%d %s\n", i, text)
		}
		for i := range n {
			fmt.Fprintf(&b, "  - *a%d\n", i%texts)
		}
		return b.String()
	}
	many := make(map[string]string)
	for i := range 50 {
		many[fmt.Sprintf("remoteconfigs/m%d.yaml", i)] = aliases(strings.Repeat("t", 900), 90, 1090)
	}
	expressions := "fields: { s: { type: string } }\ncomputed:\n  c0: s + s\n"
	for i := 1; i < 27; i++ {
		expressions += fmt.Sprintf("  c%d: c%d + c%d\n", i, i-1, i-1)
	}
	bombs := []struct {
		name   string
		files  map[string]string
		served bool   // whether it must be served
		ask    string // a request for a key, sent when it is served
	}{
		{name: "one text of 1 MB, a thousand times", files: map[string]string{"remoteconfigs/bomb.yaml": aliases(strings.Repeat("t", 1_000_000), 1, 1000)}},
		{name: "90 texts in each of 50 files, 1,090 times", files: many},
		{name: "40 levels that ask the one below twice", files: chain(40, 2), ask: "c39"},
		{name: "30 levels of 20 rows", files: chain(30, 20), served: true, ask: "c29"},
		{name: "a: a: a", files: map[string]string{"remoteconfigs/bomb.yaml": "type: object\ndefault: " + strings.Repeat("a: ", 700_000) + "\n"}},
		{name: "lists in lists", files: map[string]string{"remoteconfigs/bomb.yaml": "type: list\ndefault: " + strings.Repeat("[", 1_000_000) + "\n"}},
		{name: "a list of 1.9 million", files: map[string]string{"remoteconfigs/bomb.yaml": "type: list\ndefault: [" + strings.Repeat("1,", 1_900_000) + "1]\n"}},
		{name: "ten lists of a million", files: func() map[string]string {
			files := make(map[string]string)
			for i := range 10 {
				files[fmt.Sprintf("remoteconfigs/bomb%d.yaml", i)] = "type: list\ndefault: [" + strings.Repeat("1,", 1_000_000) + "1]\n"
			}
			return files
		}()},
		{name: "a text doubled 27 times", files: map[string]string{
			"context.yaml":           expressions,
			"remoteconfigs/cel.yaml": "type: string\ndefault: a\nrules: [ { when: { c26: x }, value: b } ]\n",
		}, ask: "cel"},
	}
	for _, bomb := range bombs {
		t.Run(bomb.name, func(t *testing.T) {
			files := s.generation()
			for name, text := range bomb.files {
				files[name] = text
			}
			s.resetPeak()
			refusals := s.metric(t, "cadenza_definitions_reloads_total", `workspace="beta"`, `result="error"`)
			began := time.Now()
			s.serveBeta(t, files)
			served := false
			err := until(ceilings.load, func() bool {
				served = s.serves(t)
				return served || s.metric(t, "cadenza_definitions_reloads_total", `workspace="beta"`, `result="error"`) > refusals
			})
			took := time.Since(began).Round(time.Millisecond)
			switch {
			case err != nil:
				t.Errorf("neither served nor refused: %v", err)
			case bomb.served && !served:
				t.Error("refused, and it is legal")
			}
			if served && bomb.ask != "" {
				ctx, cancel := context.WithTimeout(t.Context(), ceilings.patience)
				defer cancel()
				body := fmt.Sprintf(`{"keys":[%q],"context":{"s":%q}}`, bomb.ask, strings.Repeat("x", 1000))
				if r, err := s.send(ctx, betaKey, "/v1/remoteconfigs", strings.NewReader(body)); err != nil || r.status != http.StatusOK {
					t.Errorf("asked for %s: %v %s", bomb.ask, err, r)
				}
			}
			s.serveBeta(t, s.generation())
			if err := until(ceilings.load, func() bool { return s.serves(t) }); err != nil {
				t.Errorf("a set that is good is not served afterwards: %v", err)
			}
			s.holds(t)
			t.Logf("served %v after %s", served, took)
		})
		if s.gone() {
			return
		}
	}
}

// pipedDefinition creates a named pipe at the path of a definition. Opening one
// waits for a writer.
func pipedDefinition(t *testing.T, s *siege) {
	for _, name := range []string{"context.yaml", "remoteconfigs/pipe.yaml"} {
		folder, err := os.MkdirTemp(s.folder, "set")
		if err != nil {
			t.Fatal(err)
		}
		for file, text := range s.generation() {
			if file != name {
				gatewaytest.Write(t, folder, file, text)
			}
		}
		if err := syscall.Mkfifo(filepath.Join(folder, name), 0o600); err != nil {
			t.Fatal(err)
		}
		refusals := s.metric(t, "cadenza_definitions_reloads_total", `workspace="beta"`, `result="error"`)
		s.swapBeta(t, folder)
		if err := until(ceilings.load, func() bool {
			return s.metric(t, "cadenza_definitions_reloads_total", `workspace="beta"`, `result="error"`) > refusals
		}); err != nil {
			t.Fatalf("a pipe for %s is not refused: %v", name, err)
		}
		s.serveBeta(t, s.generation())
		if err := until(ceilings.load, func() bool { return s.serves(t) }); err != nil {
			t.Errorf("a set that is good is not served after a pipe for %s: %v", name, err)
		}
	}
}

// strayFiles adds files that are no definitions to the directory of definitions.
func strayFiles(t *testing.T, s *siege) {
	folder, err := os.MkdirTemp(s.folder, "set")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range s.generation() {
		gatewaytest.Write(t, folder, file, text)
	}
	for i := range 10_000 {
		gatewaytest.Write(t, folder, fmt.Sprintf("remoteconfigs/stray%05d.txt", i), "")
	}
	before := strings.Count(s.output.String(), "\n")
	s.swapBeta(t, folder)
	if err := until(ceilings.load, func() bool { return s.serves(t) }); err != nil {
		t.Errorf("stray files keep definitions from being served: %v", err)
	}
	time.Sleep(500 * time.Millisecond) // until the last lines are written
	if lines := strings.Count(s.output.String(), "\n") - before; lines > ceilings.logLines {
		t.Errorf("10,000 stray files made %d lines of the log", lines)
	}
}

// slowPatterns makes concurrent requests for a configuration whose patterns are slow
// on a text of 1 MiB.
func slowPatterns(t *testing.T, s *siege) {
	body := `{"keys":["slow"],"context":{"s":"` + strings.Repeat("ab", 500_000) + `"}}`
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), ceilings.patience)
			defer cancel()
			if r, err := s.send(ctx, attackerKey, "/v1/remoteconfigs", strings.NewReader(body)); err != nil || r.status != http.StatusOK {
				t.Errorf("a text of 1 MB: %v %s", err, r)
			}
		})
	}
	wait.Wait()
}
