package sqlite

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestMembersThatAreNoJSON: a trace that somebody changed in the database is still read,
// and what has it is JSON.
func TestMembersThatAreNoJSON(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	at := time.UnixMilli(1790000000123)
	for i, test := range []struct{ column, text, want string }{
		{"splits", `[{"bucket": 5,"share":1}]`, `[{"bucket": 5,"share":1}]`},
		{"inputs", `{"plan":`, `"{\"plan\":"`},
		{"read_versions", "no \xff JSON", "\"no \uFFFD JSON\""},
	} {
		r := &trace.Record{ID: mustAuthority(t).New(trace.KindRemoteConfig, at), Time: at, Workspace: "w", Kind: trace.KindRemoteConfig, Key: "k", Row: "r", Arm: "b"}
		if err := s.Commit(t.Context(), &recorder.Batch{Records: []*trace.Record{r}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.conn.ExecContext(t.Context(), "UPDATE traces SET "+test.column+" = ? WHERE id = ?", test.text, r.ID[:]); err != nil {
			t.Fatal(err)
		}
		read, err := s.Trace(t.Context(), r.ID)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{string(read.Splits), string(read.Inputs), string(read.Read)}[i]
		if text := read.AppendJSON(nil); !json.Valid(text) || got != test.want {
			t.Errorf("%s: %s in %s, want %s", test.column, got, text, test.want)
		}
	}
}

// TestSplitsComeBackAsTheyWere: what the column leaves out is there again when a
// trace is read, and only the split of the row that decided leaves something out.
func TestSplitsComeBackAsTheyWere(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	split := func(definition, rule, salt, rest string) string {
		return `{"experiment":{"definition":"` + definition + `","rule":"` + rule + `","salt":"` + salt + `"},` + rest + `}`
	}
	const (
		got    = `"bucket":12000,"arm":"b","share":0.2,"unit":"0123456789abcdef"`
		passed = `"bucket":7,"share":0`
	)
	for name, test := range map[string]struct {
		kind           trace.Kind
		row, arm       string
		splits, stored string
	}{
		"configuration": {trace.KindRemoteConfig, "r", "b", `[` + split("remoteconfigs/k", "r", "r", got) + `]`, `[{"bucket":12000,"share":0.2,"unit":"0123456789abcdef"}]`},
		"prompt": {
			trace.KindPrompt, "r", "b",
			`[` + split("remoteconfigs/k", "r", "r", got) + `,` + split("prompts/k", "q", "q", passed) + `,` + split("prompts/k", "r", "r", got) + `]`,
			`[` + split("remoteconfigs/k", "r", "r", got) + `,` + split("prompts/k", "q", "q", passed) + `,{"bucket":12000,"share":0.2,"unit":"0123456789abcdef"}]`,
		},
		"endpoint":           {trace.KindEndpoint, "r", "b", `[` + split("prompts/p", "r", "r", got) + `]`, `[{"bucket":12000,"share":0.2,"unit":"0123456789abcdef"}]`},
		"without a unit":     {trace.KindPrompt, "r", "b", `[` + split("prompts/k", "r", "r", `"bucket":99999,"arm":"b","share":1`) + `]`, `[{"bucket":99999,"share":1}]`},
		"escapes":            {trace.KindRemoteConfig, `a"\}`, `"`, `[` + split("remoteconfigs/k", `a\"\\}`, `a\"\\}`, `"bucket":0,"arm":"\"","share":1`) + `]`, `[{"bucket":0,"share":1}]`},
		"own salt":           {trace.KindRemoteConfig, "r", "b", `[` + split("remoteconfigs/k", "r", "s", got) + `]`, ``},
		"another table":      {trace.KindEndpoint, "r", "b", `[` + split("endpoints/k", "r", "r", got) + `]`, ``},
		"another arm":        {trace.KindPrompt, "r", "c", `[` + split("prompts/k", "r", "r", got) + `]`, ``},
		"passed on":          {trace.KindPrompt, "", "b", `[` + split("prompts/k", "", "", passed) + `]`, ``},
		"no split":           {trace.KindPrompt, "r", "b", ``, ``},
		"what looks like it": {trace.KindPrompt, "r", "b", `[` + split("prompts/k", `{\"bucket\":1`, "s", passed) + `]`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			at := time.UnixMilli(1790000000123)
			r := &trace.Record{
				ID: mustAuthority(t).New(test.kind, at), Time: at, Workspace: "w", Kind: test.kind, Key: "k", Prompt: "p",
				Row: test.row, Arm: test.arm, Splits: []byte(test.splits),
			}
			if err := s.Commit(t.Context(), &recorder.Batch{Records: []*trace.Record{r}}); err != nil {
				t.Fatal(err)
			}
			var stored string
			if err := s.conn.QueryRowContext(t.Context(), "SELECT coalesce(splits, '') FROM traces WHERE id = ?", r.ID[:]).Scan(&stored); err != nil {
				t.Fatal(err)
			}
			if want := test.stored; want == "" && stored != test.splits || want != "" && stored != want {
				t.Errorf("stored %s", stored)
			}
			read, err := s.Trace(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			if string(read.Splits) != test.splits {
				t.Errorf("read %s, want %s", read.Splits, test.splits)
			}
		})
	}
}
