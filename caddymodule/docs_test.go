package caddymodule_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.yaml.in/yaml/v4"

	"github.com/cadenza-gateway/cadenza/internal/definition"
)

// TestCaddyfilesInDocs adapts every Caddyfile of the documentation: complete ones,
// sites, and options of the cadenza block.
func TestCaddyfilesInDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	adapted := 0
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			adapted++
			example := block[1]
			if formatted := string(caddyfile.Format([]byte(example))); formatted != example {
				t.Errorf("%s: caddy fmt makes of an example:\n%s", page, formatted)
			}
			const defaults = "{\n\tcadenza {\n\t\tdefinitions .\n"
			first, _, _ := strings.Cut(example, "\n")
			switch word, _, _ := strings.Cut(first, " "); {
			case first == "{": // whole
			case slices.Contains([]string{"provider", "workspace", "sink", "keys", "log", "redact", "price", "store", "trace_key", "api_key", "limit"}, word):
				example = defaults + example + "}\n}\n"
			case word == "cadenza":
				example = "{\n" + example + "}\n"
			case strings.Contains(word, ".") || strings.HasPrefix(word, ":") || strings.HasPrefix(word, "http"):
				example = defaults + "}\n}\n" + example
			default:
				example = defaults + "}\n}\nlocalhost {\n" + example + "}\n"
			}
			if _, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(example), map[string]any{"filename": "Caddyfile"}); err != nil {
				t.Errorf("%s: %v in\n%s", page, err, example)
			}
		}
	}
	if adapted < 10 {
		t.Errorf("%d Caddyfiles", adapted)
	}
}

// page returns a page of the documentation.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block returns the first block of code in a language that contains a text.
func block(t *testing.T, page, language, has string) string {
	t.Helper()
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page, -1) {
		if strings.Contains(m[1], has) {
			return m[1]
		}
	}
	t.Fatalf("there is no block of %s with %q", language, has)
	return ""
}

// TestDeploymentBesideOthers serves the sites of docs/deployment.md that have other
// handlers before the gateway.
func TestDeploymentBesideOthers(t *testing.T) {
	text := page(t, "deployment.md")
	site := func(has string) string {
		_, lines, _ := strings.Cut(block(t, text, "caddyfile", has), "{\n")
		return strings.TrimSuffix(lines, "}\n")
	}
	g := startGateway(t, single(), options)
	const hello = `{"keys":["hello"]}`
	status := func(path string, header http.Header) int {
		t.Helper()
		return g.do(http.MethodPost, path, hello, header).status
	}

	below := site("handle_path")
	g.site(options, below)
	if got := status("/llm/v1/prompts", bearer(testKey)); got != http.StatusOK {
		t.Errorf("below a path: %d", got)
	}
	g.site(options, strings.Replace(below, "handle_path", "handle", 1))
	if got := status("/llm/v1/prompts", bearer(testKey)); got != http.StatusNotFound {
		t.Errorf("below a path that stays: %d", got)
	}

	asked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/check" || r.Header.Get("Cookie") != "session=good" {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer asked.Close()
	g.site(options, strings.Replace(site("forward_auth"), "localhost:9091", asked.Listener.Addr().String(), 1))
	if got := status("/v1/prompts", bearer(testKey)); got != http.StatusForbidden {
		t.Errorf("without a session: %d", got)
	}
	header := bearer(testKey)
	header.Set("Cookie", "session=good")
	if got := status("/v1/prompts", header); got != http.StatusOK {
		t.Errorf("with a session: %d", got)
	}

	g.site(options, "basic_auth {\nBob $2a$04$8xafM2VUfAc.enzMAQ3GZeLE.xBSY/lZ0xc0cUUwFus6M4qRJ9k6W\n}\ncadenza\n") // hiccup
	basic := http.Header{"Authorization": {"Basic Qm9iOmhpY2N1cA=="}}
	if first, second := status("/v1/prompts", bearer(testKey)), status("/v1/prompts", basic); first != http.StatusUnauthorized || second != http.StatusUnauthorized {
		t.Errorf("behind basic_auth: %d, %d", first, second)
	}
}

// TestDeploymentOnKubernetes mounts the definitions of the manifest like a kubelet,
// and loads them.
func TestDeploymentOnKubernetes(t *testing.T) {
	manifest := block(t, page(t, "deployment.md"), "yaml", "kind: StatefulSet")
	type item struct{ Key, Path string }
	data := map[string]map[string]string{}
	items := map[string][]item{}
	decoder := yaml.NewDecoder(strings.NewReader(manifest))
	for {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Data     map[string]string
			Spec     struct {
				Template struct {
					Spec struct {
						Volumes []struct {
							ConfigMap struct {
								Name  string
								Items []item
							} `yaml:"configMap"`
						}
					}
				}
			}
		}
		err := decoder.Decode(&object)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if object.Kind == "ConfigMap" {
			data[object.Metadata.Name] = object.Data
		}
		for _, volume := range object.Spec.Template.Spec.Volumes {
			items[volume.ConfigMap.Name] = volume.ConfigMap.Items
		}
	}

	config := data["cadenza"]["Caddyfile"]
	if _, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(config), map[string]any{"filename": "Caddyfile"}); err != nil {
		t.Errorf("%v in\n%s", err, config)
	}
	if !strings.Contains(config, "definitions /etc/caddy/definitions") || !strings.Contains(manifest, "mountPath: /etc/caddy/definitions,") {
		t.Error("the Caddyfile's definitions are not those that are mounted")
	}

	dir := t.TempDir()
	definitions := data["cadenza-definitions"]
	if len(items["cadenza-definitions"]) != len(definitions) {
		t.Errorf("%d items for %d keys", len(items["cadenza-definitions"]), len(definitions))
	}
	for _, item := range items["cadenza-definitions"] {
		file := filepath.Join(dir, "..2026_01_01", item.Path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(definitions[item.Key]), 0o600); err != nil {
			t.Fatal(err)
		}
		top, _, _ := strings.Cut(item.Path, "/")
		if err := os.Symlink(filepath.Join("..data", top), filepath.Join(dir, top)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..2026_01_01", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	source, err := definition.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if s := source.Snapshot(); len(s.Prompts) != 1 || len(s.Endpoints) != 1 || len(s.RemoteConfigs) != 1 || len(s.Warnings) != 0 {
		t.Errorf("%d prompts, %d endpoints, %d configurations, warnings %v", len(s.Prompts), len(s.Endpoints), len(s.RemoteConfigs), s.Warnings)
	}
}

// TestDeploymentWithCompose checks that the gateway of the Compose file has each
// variable that its Caddyfile names.
func TestDeploymentWithCompose(t *testing.T) {
	text := page(t, "deployment.md")
	var compose struct {
		Services map[string]struct{ Environment map[string]string }
		Volumes  map[string]any
	}
	if err := yaml.Unmarshal([]byte(block(t, text, "yaml", "services:")), &compose); err != nil {
		t.Fatal(err)
	}
	if _, has := compose.Volumes["cadenza"]; !has || len(compose.Services) != 2 {
		t.Errorf("%+v", compose)
	}
	named := regexp.MustCompile(`\{env\.(\w+)\}`).FindAllStringSubmatch(block(t, text, "caddyfile", "sink postgres"), -1)
	if len(named) != 4 {
		t.Errorf("the Caddyfile names %v", named)
	}
	for _, variable := range named {
		if compose.Services["gateway"].Environment[variable[1]] == "" {
			t.Errorf("the gateway has no %s", variable[1])
		}
	}
}
