package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/definition"
)

// pastGateway is an admin API with one revision, that of the starter.
type pastGateway struct {
	revision string
	answer   []byte
}

func newPastGateway(t *testing.T) *pastGateway {
	t.Helper()
	const dir = "starter/definitions"
	s, err := definition.Load(dir)
	must(t, err)
	answer, err := json.Marshal(map[string]any{"revision": s.Revision, "workspace": "default", "files": s.Files})
	must(t, err)
	return &pastGateway{s.Revision, answer}
}

func (g *pastGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin, _ := strings.CutPrefix(r.URL.Path, "/cadenza/revisions/")
	switch {
	case begin == "aaaa":
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error":"aaaa begins 2 revisions: give more characters\n  aaaa11111111  served 2026-11-22T03:13:05Z\n  aaaa22222222  served 2026-11-21T03:13:05Z"}`)
	case begin == "bbbb":
		fmt.Fprint(w, strings.Replace(string(g.answer), g.revision, "bbbb00000000", 1))
	case begin == "cccc":
		fmt.Fprint(w, `{"revision":"cccc00000000","files":[{"path":"../../song.yaml","sha256":"","content":""}]}`)
	case strings.HasPrefix(g.revision, begin) && begin != "":
		_, _ = w.Write(g.answer)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":"the store has no revision"}`)
	}
}

func TestCheckoutGolden(t *testing.T) {
	gateway := newPastGateway(t)
	server := httptest.NewServer(gateway)
	defer server.Close()
	parent := t.TempDir()
	var out bytes.Buffer
	for _, arguments := range [][]string{
		{gateway.revision[:6], "then"}, {gateway.revision, "then"}, {"aaaa", "other"}, {"bbbb", "then"}, {"bbbb", "other"}, {"cccc", "other"}, {"none", "other"},
	} {
		fmt.Fprintf(&out, "$ checkout %s %s\n", arguments[0], arguments[1])
		arguments[1] = filepath.Join(parent, arguments[1])
		err := gatewayCommand(t.Context(), &out, &out, append([]string{"checkout", "--address", server.Listener.Addr().String()}, arguments...)...)
		fmt.Fprintf(&out, "failed: %t\n\n", err != nil)
	}
	holdGolden(t, "checkout", strings.NewReplacer(parent, "DIR", gateway.revision, "REVISION", gateway.revision[:6], "REVISI").Replace(out.String()))
	if entries, _ := os.ReadDir(parent); len(entries) != 2 {
		t.Errorf("there are %v", entries)
	}
	for _, name := range []string{"context.yaml", "prompts/summary.yaml", "remoteconfigs/limits.yaml"} {
		want, err := os.ReadFile(filepath.Join("starter/definitions", name))
		must(t, err)
		if got, err := os.ReadFile(filepath.Join(parent, "then", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}
