package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExplanationInConcepts runs the command with which docs/concepts.md explains rows.
func TestExplanationInConcepts(t *testing.T) {
	page, err := os.ReadFile("../../docs/concepts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "caddy cadenza eval examples/definitions model_limits --explain \\\n  --context '")
	context, rest, ends := strings.Cut(rest, "'\n```\n```text\n")
	want, _, closes := strings.Cut(rest, "```")
	if !found || !ends || !closes {
		t.Fatal("docs/concepts.md has no command with its output")
	}
	p := newProcess(t, t.TempDir())
	p.run("cadenza", "eval", "examples/definitions", "model_limits", "--explain", "--context", context)
	<-p.exited
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(p.output.String())); diff != "" {
		t.Errorf("docs/concepts.md (-) and the command (+):\n%s", diff)
	}
}
