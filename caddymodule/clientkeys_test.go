package caddymodule_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shownFiles have a configuration that client keys read, and one that they don't.
func shownFiles() map[string]string {
	return map[string]string{
		"definitions/context.yaml":              "fields: { plan: { type: string } }\n",
		"definitions/remoteconfigs/shown.yaml":  "type: string\nclient: true\nrules: [{ when: { plan: pro }, value: pro }]\ndefault: none\n",
		"definitions/remoteconfigs/hidden.yaml": "type: boolean\ndefault: false\n",
	}
}

const clientOptions = "definitions {dir}/definitions\nstore sqlite {dir}/cadenza.db\napi_key test {env.CADENZA_TEST_KEY}\n"

// TestClientKeysFollowTheirFile gives a key its kind and takes it away, while Caddy runs and
// over a reload.
func TestClientKeysFollowTheirFile(t *testing.T) {
	files := shownFiles()
	entry := func(more string) string { return keyList(keyOf("web", otherKey, more)) }
	files["keys.json"] = entry("")
	options := clientOptions + "keys {dir}/keys.json\n"
	g := startGateway(t, files, options)
	status := func(key string) int {
		return g.do(http.MethodPost, "/v1/remoteconfigs", `{"keys":["`+key+`"]}`, bearer(otherKey)).status
	}
	if status("hidden") != 200 || status("shown") != 200 {
		t.Error("a key of an app reads something not")
	}
	g.write("keys.json", entry(`,"kind":"client"`))
	eventually(t, "the key is a client's", func() bool { return status("hidden") == 404 })
	if status("shown") != 200 {
		t.Error("a client key does not read what is marked")
	}
	if a := g.do(http.MethodPost, "/v1/metrics", `{"trace_id":"x","score":1}`, bearer(otherKey)); a.status != http.StatusForbidden {
		t.Errorf("a report: %d %s", a.status, a.body)
	}
	// A mistake changes nothing: a key never becomes more than it was by one.
	for mistake, said := range map[string]string{
		`,"kind":"app"`:                                         `kind must be client, this is \"app\"`,
		`,"kind":["client"]`:                                    "kind must be client, this is a list",
		`,"kind":"client","role":"viewer"`:                      `the key \"web\": a key of kind client is public: it can't have a role`,
		`,"kind":"client","origins":"https://a.example"`:        "origins must be a list such as",
		`,"kind":"client","origins":["*"]`:                      `the key \"web\": \"*\" is no origin`,
		`,"kind":"client","signed_context":"{env.SOME_SECRET}"`: `unknown member \"signed_context\"`,
	} {
		g.write("keys.json", entry(mistake))
		eventually(t, "the mistake is reported: "+said, g.said(said))
		if status("hidden") != 404 {
			t.Errorf("%s: the key reads all", mistake)
		}
	}
	g.write("keys.json", entry(`,"kind":"client"`))
	if err := g.load(options + "max_body_size 2MiB\n"); err != nil {
		t.Fatal(err)
	}
	if status("hidden") != 404 || status("shown") != 200 {
		t.Error("a reload changes the key's kind")
	}
	g.write("keys.json", entry(`,"kind":null`))
	eventually(t, "the key is an app's", func() bool { return status("hidden") == 200 })
}

// TestSignedContextsThroughCaddy signs contexts by the code of the manual.
func TestSignedContextsThroughCaddy(t *testing.T) {
	const secret = "bb0f3f4a6f0c4d7e9a51"
	t.Setenv("CADENZA_TEST_WEB", otherKey)
	t.Setenv("CADENZA_TEST_CONTEXT", secret)
	signed := clientOptions + "api_key web {env.CADENZA_TEST_WEB} {\nkind client\nsigned_context {env.CADENZA_TEST_CONTEXT}\n}\n"
	g := startGateway(t, shownFiles(), signed)
	ask := func(context string) answer {
		return g.do(http.MethodPost, "/v1/remoteconfigs", `{"keys":["shown"],"context":`+context+`}`, bearer(otherKey))
	}
	manual := page(t, "clients.md")
	g.write("sign.mjs", block(t, manual, "mjs", "signContext")+"\nprocess.stdout.write(signContext({ plan: \"pro\" }, process.argv[2], Number(process.argv[3])));\n")
	g.write("sign.py", block(t, manual, "py", "sign_context")+"\nimport sys\nsys.stdout.write(sign_context({\"plan\": \"pro\"}, sys.argv[1], int(sys.argv[2])))\n")
	last := ""
	for _, command := range [][]string{{"node", filepath.Join(g.dir, "sign.mjs")}, {"python3", filepath.Join(g.dir, "sign.py")}} {
		run := func(secret string, seconds int) string {
			out, err := exec.Command(command[0], command[1], secret, fmt.Sprint(seconds)).Output()
			if err != nil {
				t.Fatalf("%s: %v", command[0], err)
			}
			return `"` + string(out) + `"`
		}
		if _, err := exec.LookPath(command[0]); err != nil {
			t.Logf("%s is missing", command[0])
			continue
		}
		last = run(secret, 24*3600)
		if a := ask(last).ok(t, command[0]); !strings.Contains(string(a.body), `"value":"pro"`) {
			t.Errorf("%s: %s", command[0], a.body)
		}
		for context, want := range map[string]string{
			run(secret, -3600): "The signed context has expired", run("another secret of 20 bytes", 24*3600): "The signature of the context is wrong",
			`{"plan":"pro"}`: "The context of this API key is signed",
		} {
			a := ask(context)
			checkError(t, a, "invalid_request", "context")
			if !strings.Contains(string(a.body), want) {
				t.Errorf("%s: %s lacks %s", context, a.body, want)
			}
		}
	}
	// Another secret ends what was signed under the last one.
	t.Setenv("CADENZA_TEST_CONTEXT", "cc1f3f4a6f0c4d7e9a52")
	if err := g.load(signed + "max_body_size 2MiB\n"); err != nil {
		t.Fatal(err)
	}
	if last != "" {
		checkError(t, ask(last), "invalid_request", "context")
	}
	for name, want := range map[string]string{
		"CADENZA_TEST_NOTHING": "api_key web: signed_context: {env.CADENZA_TEST_NOTHING} is empty",
		"CADENZA_TEST_SHORT":   "api_key web: signed_context: {env.CADENZA_TEST_SHORT} must have at least 16 characters",
	} {
		t.Setenv("CADENZA_TEST_SHORT", "short")
		if err := g.load(strings.Replace(signed, "{env.CADENZA_TEST_CONTEXT}", "{env."+name+"}", 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if err := g.load(strings.Replace(signed, "kind client\n", "", 1)); err == nil || !strings.Contains(err.Error(), "it belongs to a key of kind client") {
		t.Errorf("a server's key: %v", err)
	}
	if g.said(secret)() {
		t.Error("the log has the secret")
	}
}

// TestConsoleShowsClientKeys makes a client key by the API of the console, and looks at it.
func TestConsoleShowsClientKeys(t *testing.T) {
	g, _ := withKeysFile(t)
	admin := g.signIn("our_admin")
	a := g.do("POST", "/console/api/keys", `{"name":"page","kind":"client","origins":["https://app.example.com"]}`, admin).ok(t)
	if !strings.Contains(string(a.body), `"kind":"client","origins":["https://app.example.com"]`) {
		t.Errorf("%s", a.body)
	}
	if k := g.keys(admin)["page"]; k.Kind != "client" || len(k.Origins) != 1 || k.SignedContext {
		t.Errorf("%+v", k)
	}
	if page := string(g.do("GET", "/console/keys", "", admin).ok(t).body); !strings.Contains(page, "browsers and phones at <code>https://app.example.com</code>") {
		t.Errorf("%s", page)
	}
	if audit := string(g.do("GET", "/console/api/audit", "", admin).ok(t).body); !strings.Contains(audit, "client, origins https://app.example.com") {
		t.Errorf("%s", audit)
	}
	if a := g.do("POST", "/console/api/keys", `{"name":"both","kind":"client","role":"viewer"}`, admin); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "it can't have a role") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
