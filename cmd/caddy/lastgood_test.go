package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// badNight is a gateway whose definitions a test makes invalid.
type badNight struct {
	*process
	dir       string
	caddyfile string
}

func newBadNight(t *testing.T) *badNight {
	dir := t.TempDir()
	n := &badNight{newProcess(t, dir), dir, filepath.Join(dir, "Caddyfile")}
	n.configure("")
	n.write("definitions/context.yaml", "fields:\n  plan: { type: string, values: [free, pro] }\n")
	n.write("definitions/prompts/p.yaml", "provider: canned\nmodel: m\nmessages: [ { role: user, content: hello } ]\n")
	n.serveText("one")
	return n
}

// configure writes the Caddyfile, with a block of options for definitions.
func (n *badNight) configure(block string) {
	n.write("Caddyfile", fmt.Sprintf(`{
	admin %s
	cadenza {
		definitions %s %s
		store sqlite %s
		api_key app {env.CADENZA_API_KEY}
	}
}
%s {
	cadenza
}
`, n.admin, filepath.Join(n.dir, "definitions"), block, n.store(), n.url))
}

func (n *badNight) store() string { return filepath.Join(n.dir, "cadenza.db") }

func (n *badNight) write(name, text string) {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// serveText writes a definition with the value of the gateway's answer.
func (n *badNight) serveText(text string) {
	n.write("definitions/remoteconfigs/c.yaml", "type: string\ndefault: "+text+"\n")
}

// answer returns the value in the gateway's answer.
func (n *badNight) answer() string {
	n.t.Helper()
	status, _, body, err := post(context.Background(), http.DefaultClient, n.url+"/v1/remoteconfigs", `{"keys":["c"]}`)
	if err != nil || status != http.StatusOK {
		return fmt.Sprint(status, body, err)
	}
	_, value, _ := strings.Cut(body, `"value":"`)
	value, _, _ = strings.Cut(value, `"`)
	return value
}

// do runs a command of Caddy to its end, and returns its exit code and its output.
func (n *badNight) do(arguments ...string) (code int, output string) {
	n.t.Helper()
	other := &process{t: n.t, program: n.program, environ: n.environ}
	other.run(append(arguments, "--config", n.caddyfile, "--adapter", "caddyfile")...)
	<-other.exited
	// After a reload the server closes those of before, which a request must not be sent on.
	http.DefaultClient.CloseIdleConnections()
	return other.command.ProcessState.ExitCode(), other.output.String()
}

// wantLog waits for a line of the log that contains all words.
func (n *badNight) wantLog(words ...string) {
	n.t.Helper()
	n.eventually(fmt.Sprintf("a line with %q", words), func() bool {
		for line := range strings.Lines(n.output.String()) {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
				return true
			}
		}
		return false
	})
}

// TestReloadKnowsTheProviders reloads with definitions whose mistakes depend on the new
// Caddyfile.
func TestReloadKnowsTheProviders(t *testing.T) {
	t.Parallel()
	n := newBadNight(t)
	n.startWith(n.caddyfile)
	n.write("definitions/endpoints/e.yaml", "prompt: p\nfallback: [ { provider: backup } ]\n")
	for _, arguments := range [][]string{{"validate"}, {"reload"}, {"reload", "--force"}} {
		if code, output := n.do(arguments...); code == 0 || !strings.Contains(output, `e.yaml:2:25: the provider \"backup\", which the endpoint e calls, is not configured`) {
			t.Errorf("%s: %d %s", arguments, code, output)
		}
	}
	n.wantLog(`endpoints/e.yaml","line":2,"column":25,"mistake":"the provider \"backup\"`)
	// With the providers of the new Caddyfile the refused set is served.
	n.configure("\nprovider backup canned {\nanswer later\n}\nprovider canned {\nanswer now\n}\n")
	if code, output := n.do("reload"); code != 0 {
		t.Errorf("reload: %d %s", code, output)
	}
	if status, _, body, err := post(context.Background(), http.DefaultClient, n.url+"/v1/endpoints", `{"key":"e"}`); err != nil || status != http.StatusOK {
		t.Errorf("%d %s %v", status, body, err)
	}
	// Both are renamed at once.
	n.write("definitions/endpoints/e.yaml", "prompt: p\nfallback: [ { provider: spare } ]\n")
	n.configure("\nprovider spare canned {\nanswer later\n}\nprovider canned {\nanswer now\n}\n")
	if code, output := n.do("reload"); code != 0 {
		t.Errorf("reload: %d %s", code, output)
	}
	// A provider that is still named can't be removed.
	n.configure("\nprovider canned {\nanswer now\n}\n")
	if code, output := n.do("reload"); code == 0 || !strings.Contains(output, `the provider \"spare\"`) {
		t.Errorf("reload: %d %s", code, output)
	}
	n.kill()
}

// TestBadNight checks that a gateway with invalid definitions serves the previous ones:
// after an edit, a reload, a crash and a start.
func TestBadNight(t *testing.T) {
	t.Parallel()
	n := newBadNight(t)
	n.startWith(n.caddyfile)
	n.serveText("two")
	n.eventually("the edit is served", func() bool { return n.answer() == "two" })
	n.waitStored("default")
	n.kill()

	n.write("definitions/remoteconfigs/c.yaml", "type: strin\ndefault: three\n")
	if code, output := n.do("validate"); code == 0 || !strings.Contains(output, "c.yaml:1:7: ") {
		t.Errorf("validate: %d %s", code, output)
	}
	n.startWith(n.caddyfile)
	if got := n.answer(); got != "two" {
		t.Errorf("after the crash: %s", got)
	}
	n.wantLog(`"level":"error"`, "are served from the store", `"mistakes":1`)
	n.wantLog(`"level":"error"`, `remoteconfigs/c.yaml","line":1,"column":7,"mistake":"type must be one of`)
	// Caddy ignores an unchanged configuration, except with --force.
	for _, arguments := range [][]string{{"reload"}, {"reload", "--force"}} {
		if code, output := n.do(arguments...); code == 0 || !strings.Contains(output, "c.yaml:1:7: ") {
			t.Errorf("%s: %d %s", arguments, code, output)
		}
	}
	if status, body := n.load("must-revalidate"); status != http.StatusBadRequest || !strings.Contains(body, "c.yaml:1:7: ") {
		t.Errorf("load: %d %s", status, body)
	}
	if got := n.answer(); got != "two" {
		t.Errorf("after the reload: %s", got)
	}
	// A second start serves it, too.
	n.kill()
	n.startWith(n.caddyfile)
	if got := n.answer(); got != "two" {
		t.Errorf("after the second crash: %s", got)
	}
	n.serveText("three")
	if code, output := n.do("reload", "--force"); code != 0 {
		t.Errorf("reload: %d %s", code, output)
	}
	if got := n.answer(); got != "three" {
		t.Errorf("mended: %s", got)
	}
	n.waitStored("default")
	n.kill()

	// An empty directory, such as the mount point of a volume that is not mounted.
	definitions := filepath.Join(n.dir, "definitions")
	if err := os.Rename(definitions, definitions+".away"); err != nil {
		t.Fatal(err)
	}
	for _, prepare := range []func(){func() {}, func() {
		if err := os.Mkdir(definitions, 0o700); err != nil {
			t.Fatal(err)
		}
	}} {
		prepare()
		n.startWith(n.caddyfile)
		if got := n.answer(); got != "three" {
			t.Errorf("without definitions: %s", got)
		}
		n.wantLog(`"level":"error"`, "are served from the store")
		n.kill()
	}
	n.wantLog(".cadenza-allow-empty", "the only prompt and the only remote configuration would be gone")
	n.write("definitions/.cadenza-allow-empty", "")
	n.startWith(n.caddyfile)
	if got := n.answer(); !strings.Contains(got, "404") {
		t.Errorf("emptied on purpose: %s", got)
	}
	n.kill()
}

// TestLastGoodSetOfTwoWorkspaces has two workspaces with one invalid directory: the second
// one finds it open, and is served from the store as well.
func TestLastGoodSetOfTwoWorkspaces(t *testing.T) {
	t.Setenv("CADENZA_SECOND_KEY", "cadenza-test-key-of-the-second")
	n := newBadNight(t)
	var workspaces strings.Builder
	for name, variable := range map[string]string{"default": "CADENZA_API_KEY", "two": "CADENZA_SECOND_KEY"} {
		fmt.Fprintf(&workspaces, "workspace %s {\ndefinitions %s\nstore sqlite %s\napi_key app {env.%s}\n}\n",
			name, filepath.Join(n.dir, "definitions"), n.store(), variable)
	}
	n.write("Caddyfile", fmt.Sprintf("{\nadmin %s\ncadenza {\n%s}\n}\n%s {\ncadenza\n}\n", n.admin, workspaces.String(), n.url))
	n.startWith(n.caddyfile)
	n.waitStored("default")
	n.waitStored("two")
	n.kill()
	n.write("definitions/remoteconfigs/c.yaml", "type: strin\n")
	n.startWith(n.caddyfile)
	if got := n.answer(); got != "one" {
		t.Errorf("the first workspace: %s", got)
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", n.url+"/v1/remoteconfigs", strings.NewReader(`{"keys":["c"]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer cadenza-test-key-of-the-second")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the second workspace: %d", answer.StatusCode)
	}
}

// TestStartWithoutALastGoodSet checks that invalid definitions fail a start if there is no
// last good set, or if the configuration says so.
func TestStartWithoutALastGoodSet(t *testing.T) {
	t.Parallel()
	n := newBadNight(t)
	n.startWith(n.caddyfile)
	n.waitStored("default")
	n.kill()
	n.serveText("[") // invalid YAML
	refused := func(what string) {
		t.Helper()
		code, output := n.do("run")
		if code == 0 || !strings.Contains(output, "c.yaml:") {
			t.Errorf("%s: %d %s", what, code, output)
		}
	}
	n.configure("{\n strict\n }")
	refused("strict")
	n.configure("")
	n.startWith(n.caddyfile)
	if got := n.answer(); got != "one" {
		t.Errorf("not strict: %s", got)
	}
	n.kill()

	// A store of an earlier version has no table of files.
	n.exec("DROP TABLE files")
	n.exec("PRAGMA user_version = 9")
	refused("an earlier version's store")
	if err := os.WriteFile(n.store(), []byte("not a database, but of some length"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a damaged store")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.RemoveAll(n.store() + suffix); err != nil {
			t.Fatal(err)
		}
	}
	refused("no store")
	if _, err := os.Stat(n.store()); err == nil {
		t.Error("a start that failed has made a store")
	}
	// The last good set of another directory is not used.
	n.serveText("two")
	n.startWith(n.caddyfile)
	n.waitStored("default")
	n.kill()
	n.write("others/remoteconfigs/c.yaml", "type: strin\ndefault: x\n")
	text, err := os.ReadFile(n.caddyfile)
	if err != nil {
		t.Fatal(err)
	}
	n.write("Caddyfile", strings.Replace(string(text), filepath.Join(n.dir, "definitions"), filepath.Join(n.dir, "others"), 1))
	refused("another directory")
}

// load posts the Caddyfile to the admin API.
func (n *badNight) load(cacheControl string) (status int, body string) {
	n.t.Helper()
	file, err := os.Open(n.caddyfile)
	if err != nil {
		n.t.Fatal(err)
	}
	defer file.Close()
	request, err := http.NewRequest(http.MethodPost, "http://"+n.admin+"/load", file)
	if err != nil {
		n.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "text/caddyfile")
	request.Header.Set("Cache-Control", cacheControl)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		n.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// exec changes the store of a stopped gateway.
func (n *badNight) exec(statement string) {
	n.t.Helper()
	db, err := sql.Open("sqlite", n.store())
	if err != nil {
		n.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		n.t.Fatal(err)
	}
}

// waitStored waits until the store has the served set.
func (n *badNight) waitStored(workspace string) {
	n.t.Helper()
	_, header, _, err := post(context.Background(), http.DefaultClient, n.url+"/v1/remoteconfigs", `{"keys":["c"]}`)
	if err != nil {
		n.t.Fatal(err)
	}
	store, err := sqlite.OpenReader(context.Background(), n.store())
	if err != nil {
		n.t.Fatal(err)
	}
	defer store.Close()
	n.eventually("the set that is served is stored", func() bool {
		last, err := store.ServedLast(context.Background(), workspace, filepath.Join(n.dir, "definitions"))
		return err == nil && last.Revision == header.Get("Cadenza-Revision")
	})
}
