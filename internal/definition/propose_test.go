package definition

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPropose proposes other files than those of a directory.
func TestPropose(t *testing.T) {
	before := map[string]string{
		"context.yaml":         "fields:\n  plan: { type: string }\n",
		"remoteconfigs/a.yaml": "type: string\ndefault: one\nmatrix: a.csv\ntests:\n  - { context: { plan: pro }, value: two }\n",
		"remoteconfigs/a.csv":  "plan,value\npro,two\n",
	}
	dir := workspace(t, before)
	s := opened(t, dir)
	served := s.Snapshot()
	for name, test := range map[string]struct {
		files map[string]string
		want  string // a part of the error, or ""
		tests int
	}{
		"nothing":              {nil, "", 1},
		"a file":               {map[string]string{"remoteconfigs/b.yaml": "type: boolean\ndefault: true\ntests: [ { value: true } ]\n"}, "", 2},
		"a table":              {map[string]string{"remoteconfigs/a.csv": "plan,value\nfree,two\n"}, `remoteconfigs/a.yaml:`, 0},
		"the data model":       {map[string]string{"context.yaml": "fields:\n  tier: { type: string }\n"}, "remoteconfigs/a.csv:1:1: ", 0},
		"another data model":   {map[string]string{"context.yaml": "fields:\n  plan: { type: string }\n  tier: { type: string }\n"}, "", 1},
		"a syntax error":       {map[string]string{"remoteconfigs/b.yaml": "type: [\n"}, "remoteconfigs/b.yaml:1:", 0},
		"a table that is gone": {map[string]string{"remoteconfigs/a.csv": ""}, `there is no file "a.csv"`, 0},
		"all of a kind":        {map[string]string{"remoteconfigs/a.csv": "", "remoteconfigs/a.yaml": ""}, "the only remote configuration would be gone", 0},
	} {
		t.Run(name, func(t *testing.T) {
			files := make(map[string][]byte)
			for name, text := range test.files {
				files[name] = nil
				if text != "" {
					files[name] = []byte(text)
				}
			}
			old, proposed, err := s.Propose(t.Context(), files)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				if old.Revision != served.Revision || (proposed.Revision == served.Revision) != (len(test.files) == 0) || proposed.Tests != test.tests {
					t.Errorf("%s became %s with %d tests", old.Revision, proposed.Revision, proposed.Tests)
				}
				if (old.Model == proposed.Model) != (test.files["context.yaml"] == "") {
					t.Error("the data model is not shared as its file is")
				}
			}
			if s.Snapshot() != served || s.LastError() != nil {
				t.Error("a proposal is served")
			}
			for name, text := range before {
				if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != text {
					t.Errorf("%s was changed", name)
				}
			}
		})
	}
}
