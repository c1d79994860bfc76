package cadenza_test

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/freeport"
	"github.com/cadenza-gateway/cadenza/providers/providertest"
)

// thirdParty is a module of someone else: a provider that docs/extending.md
// walks through.
const thirdParty = "testdata/cadenza-acme"

// TestExtendingShowsWhatIsTested keeps the code in docs/extending.md that of
// the module which the test below builds.
func TestExtendingShowsWhatIsTested(t *testing.T) {
	text, err := os.ReadFile("docs/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	err = filepath.WalkDir(thirdParty, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		code.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 4 {
		t.Errorf("%d blocks of code", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(code.String(), block[1]) {
			t.Errorf("not in %s:\n%s", thirdParty, block[1])
		}
	}
}

// TestThirdPartyProvider vets, tests, builds and runs the module as its author
// would: outside of this one.
func TestThirdPartyProvider(t *testing.T) {
	if testing.Short() {
		t.Skip("it links a Caddy")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(thirdParty)); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	goRun := func(arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "go", arguments...)
		command.Dir = dir
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, output)
		}
		return string(output)
	}
	// The versions that this module is tested with, so that nothing has to be
	// downloaded that is not here already.
	var versions struct {
		Require []struct{ Path, Version string }
	}
	command := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	text, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &versions); err != nil {
		t.Fatal(err)
	}
	edit := []string{"mod", "edit", "-replace=" + modulePath + "=" + root}
	for _, r := range versions.Require {
		edit = append(edit, "-require="+r.Path+"@"+r.Version)
	}
	goRun(edit...)
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o644); err != nil {
		t.Fatal(err)
	}

	goRun("vet", "./...")
	goRun("test", "./...")
	binary := filepath.Join(dir, "caddy.exe")
	goRun("build", "-o", binary, "./cmd/caddy")
	answer(t, dir, binary)
}

// answer has the built gateway answer a request by the provider.
func answer(t *testing.T, dir, binary string) {
	up := providertest.NewUpstream(t).Always(providertest.SSE(
		providertest.Event(`{"text":"Hello from Acme."}`), providertest.Event(`{"done":"stop","in":9,"out":4}`)))
	address := freeport.Address(t)
	for name, content := range map[string]string{
		"Caddyfile": `{
	admin off
	auto_https off
	cadenza {
		definitions definitions
		store sqlite ` + filepath.ToSlash(filepath.Join(dir, "cadenza.db")) + `
		api_key app {env.CADENZA_API_KEY}
		provider acme {
			api_key  {env.ACME_API_KEY}
			base_url ` + up.URL + `
		}
	}
}
http://` + address + ` {
	cadenza
}
`,
		"definitions/prompts/greeting.yaml": `
default: en
variants:
  en:
    provider: acme
    model: acme-1
    max_tokens: 100
    messages:
      - { role: user, content: Say hello. }
`,
		"definitions/endpoints/hello.yaml": "prompt: greeting\n",
	} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	gateway := exec.Command(binary, "run", "--config", "Caddyfile", "--adapter", "caddyfile")
	gateway.Dir, gateway.Stdout, gateway.Stderr = dir, &log, &log
	gateway.Env = append(os.Environ(), "CADENZA_API_KEY=cadenza-demo-key-0001", "ACME_API_KEY=acme-key-0001",
		"HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() string {
		gateway.Process.Kill()
		gateway.Wait()
		return log.String()
	}
	defer stop()

	var response *http.Response
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/endpoints", strings.NewReader(`{"key":"hello"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer cadenza-demo-key-0001")
		if response, err = http.DefaultClient.Do(request); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer: %v\n%s", err, stop())
		}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"content":"Hello from Acme."`) {
		t.Fatalf("status %d: %s\n%s", response.StatusCode, body, stop())
	}
	sent := up.Requests()[0]
	if want := `{"limit":100,"messages":[{"role":"user","content":"Say hello."}],"model":"acme-1","stream":false}`; sent.Body != want ||
		sent.Path != "/generate" || sent.Header.Get("Authorization") != "Bearer acme-key-0001" {
		t.Errorf("the provider sent %+v", sent)
	}
}
