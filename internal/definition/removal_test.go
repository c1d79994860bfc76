package definition

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// sized is a workspace with so many prompts and remote configurations. Their keys
// begin with prefix.
func sized(prefix string, prompts, configs int) map[string]string {
	files := map[string]string{"context.yaml": "fields: {}\n"}
	for n := range prompts {
		files[fmt.Sprintf("prompts/%s%d.yaml", prefix, n)] = simple
	}
	for n := range configs {
		files[fmt.Sprintf("remoteconfigs/%s%d.yaml", prefix, n)] = banner("x")
	}
	return files
}

func TestRemoval(t *testing.T) {
	for _, test := range []struct {
		name     string
		from, to map[string]string
		want     string // in the error; empty: it is served
	}{
		{"nothing changed", sized("a", 2, 2), sized("a", 2, 2), ""},
		{"renamed", sized("a", 3, 3), sized("b", 3, 3), ""},
		{"the only one renamed", sized("a", 1, 0), sized("b", 1, 0), ""},
		{"half", sized("a", 4, 4), sized("a", 2, 2), ""},
		{"half of two", sized("a", 0, 2), sized("a", 0, 1), ""},
		{"more than half", sized("a", 4, 4), sized("a", 1, 2), "5 of 8 definitions would be gone"},
		{"two of three", sized("a", 3, 0), sized("a", 1, 0), "2 of 3 definitions would be gone"},
		{"the only one of a kind", sized("a", 1, 8), sized("a", 0, 8), "the only prompt would be gone"},
		{"all of a kind", sized("a", 2, 8), sized("a", 0, 8), "all 2 prompts would be gone"},
		{"all of a kind, and others more", sized("a", 2, 2), sized("a", 0, 9), "all 2 prompts would be gone"},
		{"all", sized("a", 2, 3), sized("a", 0, 0), "all 2 prompts and all 3 remote configurations would be gone"},
		{"an empty directory", sized("a", 1, 1), nil, "the only prompt and the only remote configuration would be gone"},
		{"from nothing", nil, sized("a", 1, 1), ""},
		{"nothing at all", nil, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			served, next := mustLoad(t, workspace(t, test.from)), mustLoad(t, workspace(t, test.to))
			err := removal("/dir", served.Counts(), next)
			switch {
			case test.want == "" && err == nil:
			case test.want == "" || err == nil || !strings.HasPrefix(err.Error(), "/dir: "+test.want+", ") || !strings.Contains(err.Error(), allowEmpty):
				t.Error(err)
			}
			if next.emptying = true; removal("/dir", served.Counts(), next) != nil {
				t.Error("it is refused although it is allowed")
			}
		})
	}
	if got := mustLoad(t, workspace(t, various)).Counts(); got[kind.Prompt] != 2 || got[kind.Endpoint] != 1 || got[kind.RemoteConfig] != 3 {
		t.Error(got)
	}
}

// TestEmptiedDirectory checks that the served set outlives its directory, and that it
// can be removed on purpose.
func TestEmptiedDirectory(t *testing.T) {
	t.Parallel()
	dir := workspace(t, map[string]string{"remoteconfigs/c.yaml": banner("one"), "prompts/p.yaml": simple})
	s, c := watched(t, dir)
	must(t, os.RemoveAll(filepath.Join(dir, "prompts")))
	if n := <-c; n.err == nil || !strings.Contains(n.err.Error(), "the only prompt would be gone") || n.snapshot.Prompts["p"] == nil {
		t.Errorf("%+v", n)
	}
	// The file is noticed like an edit, and warned of as long as it is there.
	write(t, filepath.Join(dir, allowEmpty), "")
	n := <-c
	if n.err != nil || n.snapshot.Prompts["p"] != nil || len(n.snapshot.Warnings) != 1 || n.snapshot.Warnings[0].Pos.File != filepath.Join(dir, allowEmpty) {
		t.Errorf("%+v", n)
	}
	must(t, os.Remove(filepath.Join(dir, allowEmpty)))
	if n := <-c; n.err != nil || len(n.snapshot.Warnings) != 0 {
		t.Errorf("%+v", n)
	}
	if s.LastError() != nil {
		t.Error(s.LastError())
	}
}
