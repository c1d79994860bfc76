package command

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoRevisions = `{"workspace":"default","revisions":[{"revision":"d3561ebfbd34","first_seen":"2026-11-22T03:13:05Z","served":"2026-11-22T03:13:05Z","latest":true},` +
	`{"revision":"9abb3beb24ff","first_seen":"2026-10-01T08:00:00Z","served":"2026-11-20T10:12:44Z","latest":false}]}`

func TestRevisionsGolden(t *testing.T) {
	for list, want := range map[string]string{
		twoRevisions: "" +
			"revision      first served             last served              \n" +
			"d3561ebfbd34  2026-11-22 03:13:05 UTC  2026-11-22 03:13:05 UTC  latest\n" +
			"9abb3beb24ff  2026-10-01 08:00:00 UTC  2026-11-20 10:12:44 UTC  \n",
		`{"workspace":"default","revisions":[]}`: "no revision is stored\n",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.String() != "/cadenza/revisions?workspace=default" {
				t.Errorf("asked for %s", r.URL)
			}
			fmt.Fprint(w, list)
		}))
		var out bytes.Buffer
		if err := gatewayCommand(t.Context(), &out, &out, "revisions", "-w", "default", "--address", server.Listener.Addr().String()); err != nil {
			t.Error(err)
		}
		server.Close()
		trim := func(text string) string {
			lines := strings.Split(text, "\n")
			for i := range lines {
				lines[i] = strings.TrimRight(lines[i], " ")
			}
			return strings.Join(lines, "\n")
		}
		if trim(out.String()) != trim(want) {
			t.Errorf("got\n%s", &out)
		}
	}
}

// TestRevisionForAFolder holds that check, eval and diff take a stored revision, and
// leave nothing behind.
func TestRevisionForAFolder(t *testing.T) {
	gateway := newPastGateway(t)
	server := httptest.NewServer(gateway)
	defer server.Close()
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	const dir = "starter/definitions"
	past := "revision:" + gateway.revision[:6]
	model, err := os.ReadFile(filepath.Join(dir, "context.yaml"))
	must(t, err)
	edited := t.TempDir()
	must(t, os.WriteFile(filepath.Join(edited, "context.yaml"), model, 0o644))
	for _, c := range []struct {
		arguments []string
		want      string
		fails     bool
	}{
		{[]string{"diff", past, dir}, "no difference (revision " + gateway.revision + ")\n", false},
		{[]string{"diff", dir, past}, "no difference (revision " + gateway.revision + ")\n", false},
		{[]string{"diff", past, edited}, "removed prompt summary", false},
		{[]string{"diff", edited, past}, "added prompt summary", false},
		{[]string{"eval", past, "limits"}, "limits", false},
		{[]string{"eval", past, "limits", "--context", `{"environment":"production","plan":"pro"}`, "--explain"}, ", " + past + "/remoteconfigs/limits.yaml:", false},
		{[]string{"eval", past, "limits", "--context", `{"environment":"production","plan":"pro"}`, "--json"}, `"position": "` + past + "/remoteconfigs/limits.yaml:", false},
		{[]string{"check", past}, "ok: 1 prompt, 1 endpoint, 2 remote configurations, 6 tests", false},
		{[]string{"check", "--all", past}, past + "/remoteconfigs/limits.yaml", false},
		{[]string{"check", "--all", past}, "   11 |   - id: trial\n", false},
		{[]string{"diff", past, "revision:none"}, "the store has no revision", true},
		{[]string{"eval", "revision:aaaa", "hello"}, "aaaa begins 2 revisions", true},
		{[]string{"check", "revision:bbbb"}, "ok: 1 prompt", false},
		{[]string{"check", "revision:cccc"}, `revision cccc00000000 has a file "../../song.yaml"`, true},
	} {
		var out bytes.Buffer
		err := gatewayCommand(t.Context(), &out, &out, append(c.arguments, "--address", "http://"+server.Listener.Addr().String())...)
		if (err != nil) != c.fails || !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), temporary) {
			t.Errorf("%v: %v\n%s", c.arguments, err, &out)
		}
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
