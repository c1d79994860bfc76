package sqlite

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestMembersThatAreNoJSON: a trace whose members somebody changed in the database is still
// read, and its members are JSON.
func TestMembersThatAreNoJSON(t *testing.T) {
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	at := time.UnixMilli(1790000000123)
	for i, test := range []struct{ column, text, want string }{
		{"splits", `[{"bucket": 5,"share":1}]`, `[{"bucket": 5,"share":1}]`},
		{"inputs", `{"plan":`, `"{\"plan\":"`},
		{"read_versions", "no \xff JSON", "\"no \uFFFD JSON\""},
	} {
		r := &trace.Record{ID: mustAuthority(t).New(trace.KindRemoteConfig, at), Time: at, Workspace: "w", Kind: trace.KindRemoteConfig, Key: "k", Row: "r", Arm: "b"}
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
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
