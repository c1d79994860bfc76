package gateway_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/secret"
)

const (
	clientKey     = "cadenza-client-key-01"
	signedKey     = "cadenza-signed-key-01"
	signingSecret = "bb0f3f4a6f0c4d7e9a51"
)

// clientFiles have a configuration that client keys read, with an alias, and one that they
// don't, which the first one asks.
func clientFiles() map[string]string {
	files := make(map[string]string)
	files["definitions/context.yaml"] = "fields: { plan: { type: string }, agent: { type: string } }\n"
	files["definitions/remoteconfigs/shown.yaml"] = "type: boolean\nclient: true\naliases: [old/shown]\nlog: content\ndefault: false\nrules:\n  - { when: { plan: pro, config: { hidden: true } }, value: true }\n"
	files["definitions/remoteconfigs/hidden.yaml"] = "type: boolean\naliases: [old/hidden]\nrules: [{ when: { plan: pro }, value: true }]\ndefault: false\n"
	files["definitions/remoteconfigs/unmarked.yaml"] = "type: boolean\nclient: false\ndefault: false\n"
	var patterns strings.Builder
	for i := range 30 {
		fmt.Fprintf(&patterns, "  - { when: { agent: { matches: '^(a|b)%d$' } }, value: true }\n", i)
	}
	costly := "type: boolean\ndefault: false\nrules:\n" + patterns.String()
	files["definitions/remoteconfigs/costly.yaml"] = costly
	files["definitions/remoteconfigs/costly_shown.yaml"] = "client: true\n" + costly
	return files
}

// withClientKeys adds a client key, and one whose contexts are signed.
func withClientKeys(g *gateway, c *gw.Config) {
	g.write("signing.key", signingSecret)
	more := g.configure("default", map[string]string{"web": clientKey, "signed": signedKey})
	for i := range more.APIKeys {
		more.APIKeys[i].Kind = gw.KindClient
		if more.APIKeys[i].Name == "signed" {
			more.APIKeys[i].SignedContext = secret.Reference("{file." + filepath.Join(g.dir, "signing.key") + "}")
		}
	}
	c.Workspaces[0].APIKeys = append(c.Workspaces[0].APIKeys, more.APIKeys...)
}

// signContext signs a context as an app's server does.
func signContext(context string) string {
	payload := base64.RawURLEncoding.EncodeToString([]byte(context))
	mac := hmac.New(sha256.New, []byte(signingSecret))
	mac.Write([]byte(payload))
	return payload + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// TestClientKeysReadMarkedConfigurations asks for marked and unmarked configurations, under
// their keys and aliases. To a client key, an unmarked one is as one that is not there.
func TestClientKeysReadMarkedConfigurations(t *testing.T) {
	t.Parallel()
	g := startGateway(t, clientFiles(), withClientKeys)
	ask := func(key, names string) answer {
		return g.do(http.MethodPost, "/v1/remoteconfigs", `{"keys":[`+names+`],"context":{"plan":"pro","agent":"x"}}`, bearer(key))
	}
	for name, value := range map[string]string{"shown": "true", "old/shown": "true", "costly_shown": "false"} {
		for _, path := range []string{"/v1/remoteconfigs", "/v2/remoteconfigs"} {
			a := g.do(http.MethodPost, path, `{"keys":["`+name+`"],"context":{"plan":"pro"}}`, bearer(clientKey))
			if a.status != http.StatusOK || !strings.Contains(string(a.body), `"`+name+`":{"value":`+value) {
				t.Errorf("%s %s: %d %s", path, name, a.status, a.body)
			}
		}
	}
	// With its server's key, the cache now has what the client key must not see.
	eventually(t, "a decision is cached", func() bool { return ask(testKey, `"costly"`).header.Get("Cache-Status") == "Cadenza; hit" })
	for _, name := range []string{"hidden", "old/hidden", "unmarked", "costly"} {
		if a := ask(testKey, `"`+name+`"`); a.status != http.StatusOK {
			t.Errorf("%s by a server's key: %d %s", name, a.status, a.body)
		}
		there, none := ask(clientKey, `"`+name+`"`), ask(clientKey, `"nothing"`)
		checkError(t, there, "unknown_key", "keys")
		if got := strings.ReplaceAll(string(there.body), name, "nothing"); got != string(none.body) {
			t.Errorf("%s: %s\nwhat is not there: %s", name, got, none.body)
		}
		for _, a := range []*answer{&there, &none} {
			a.header.Del("Date")
			a.header.Del("Content-Length")
		}
		if got, want := strings.ReplaceAll(fmt.Sprint(there.header), name, "nothing"), fmt.Sprint(none.header); got != want {
			t.Errorf("%s: %s\nwhat is not there: %s", name, got, want)
		}
		several := ask(clientKey, `"shown","`+name+`","nothing"`)
		if several.status != http.StatusOK || several.header.Get("Cadenza-Unknown-Keys") != name+", nothing" || len(several.json(t)) != 1 {
			t.Errorf("%s among several: %d %v %s", name, several.status, several.header, several.body)
		}
	}
	// An edit that takes the mark away takes effect, and so does one that gives it.
	files := clientFiles()
	g.write("definitions/remoteconfigs/shown.yaml", strings.Replace(files["definitions/remoteconfigs/shown.yaml"], "client: true\n", "", 1))
	eventually(t, "the mark is gone", func() bool { return ask(clientKey, `"shown"`).status == http.StatusNotFound })
	g.write("definitions/remoteconfigs/unmarked.yaml", strings.Replace(files["definitions/remoteconfigs/unmarked.yaml"], "client: false", "client: true", 1))
	eventually(t, "the mark is there", func() bool { return ask(clientKey, `"unmarked"`).status == http.StatusOK })
}

// TestClientKeysOpenOneRoute asks every route with a client key.
func TestClientKeysOpenOneRoute(t *testing.T) {
	t.Parallel()
	g := startGateway(t, clientFiles(), withClientKeys)
	fill := strings.NewReplacer("{trace_id}", "0193c1a0-7b00-8223-a456-0123456789ab", "{model}", "chat")
	open := regexp.MustCompile(`^POST (/v[12]/remoteconfigs|/ofrep/v1/evaluate/flags(/{key})?)$`)
	for _, route := range gw.Routes() {
		method, path, _ := strings.Cut(fill.Replace(route), " ")
		header := bearer(clientKey)
		if anthropic := strings.HasPrefix(path, "/v1/messages"); anthropic {
			checkMessagesError(t, g.do(method, path, `{`, header), http.StatusForbidden, "permission_error", "key_not_allowed", "")
			continue
		}
		a := g.do(method, path, `{`, header)
		if path == gw.FlagEventsPath {
			continue // a token opens it, see TestClientKeysReadFlags
		}
		if open.MatchString(route) {
			if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), `"error_code":"invalid_json"`) {
				t.Errorf("%s: %d %s", route, a.status, a.body)
			}
		} else {
			checkError(t, a, "key_not_allowed", "")
			if !strings.Contains(string(a.body), "of the kind client") {
				t.Errorf("%s: %s", route, a.body)
			}
		}
	}
}

// TestClientKeysReadFlags reads flags by OpenFeature's protocol with client keys: one, all, and
// the events of their changes. Signed contexts are a member of the context.
func TestClientKeysReadFlags(t *testing.T) {
	t.Parallel()
	g := startGateway(t, clientFiles(), withClientKeys)
	plain := `{"context":{"plan":"pro"}}`
	all := g.flags("", plain, bearer(clientKey))
	var found []string
	for _, flag := range all.json(t)["flags"].([]any) {
		found = append(found, flag.(map[string]any)["key"].(string))
	}
	if got := strings.Join(found, " "); got != "costly_shown shown" {
		t.Errorf("a client key reads %s", got)
	}
	if got := g.flags("", plain, bearer(testKey)); len(got.json(t)["flags"].([]any)) != len(clientFiles())-1 {
		t.Errorf("a server's key reads %s", got.body)
	}
	if a := g.flags("/shown", plain, bearer(clientKey)); a.status != http.StatusOK || a.json(t)["value"] != true {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, hidden := range []string{"/hidden", "/old/hidden", "/unmarked"} {
		if a := g.flags(hidden, plain, bearer(clientKey)); a.status != http.StatusNotFound || a.json(t)["errorCode"] != "FLAG_NOT_FOUND" {
			t.Errorf("%s: %d %s", hidden, a.status, a.body)
		}
	}

	exp := time.Now().Add(time.Hour).Unix()
	signed := fmt.Sprintf(`{"context":{"targetingKey":"x","plan":"free","signed_context":%q}}`, signContext(fmt.Sprintf(`{"plan":"pro","exp":%d}`, exp)))
	if a := g.flags("/shown", signed, bearer(signedKey)); a.status != http.StatusOK || a.json(t)["value"] != true {
		t.Errorf("signed: %d %s", a.status, a.body)
	}
	if a := g.flags("", plain, bearer(signedKey)); a.status != http.StatusBadRequest || a.json(t)["errorCode"] != "INVALID_CONTEXT" {
		t.Errorf("not signed: %d %s", a.status, a.body)
	}

	if a := g.flags("/shown", signed, bearer(testKey)); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), `"param":"context.signed_context"`) {
		t.Errorf("signed, for a key that does not sign: %d %s", a.status, a.body)
	}

	// The address of the events names what the answer is of, though the key sees a part of it.
	for _, key := range []string{clientKey, testKey} {
		member := g.flags("", plain, bearer(key)).json(t)["eventStreams"].([]any)[0].(map[string]any)
		address := member["endpoint"].(map[string]any)["requestUri"].(string)
		response, err := g.client.Get("http://gateway" + address)
		if err != nil {
			t.Fatal(err)
		}
		start := make([]byte, 200)
		n, err := response.Body.Read(start)
		response.Body.Close()
		if started := string(start[:n]); err != nil || response.StatusCode != http.StatusOK || strings.Contains(started, "refetchEvaluation") || !strings.Contains(started, "id: ") {
			t.Errorf("%s begins with %d %q: %v", address, response.StatusCode, started, err)
		}
	}
}

// TestOrigins sends the header Origin with keys that have origins and that have none.
func TestOrigins(t *testing.T) {
	t.Parallel()
	const page = "https://app.example.com"
	g := startGateway(t, clientFiles(), withClientKeys, with(func(c *gw.WorkspaceConfig) {
		for i := range c.APIKeys {
			if c.APIKeys[i].Name != "signed" {
				c.APIKeys[i].Origins = []string{"capacitor://localhost", page}
			}
		}
	}))
	for _, key := range []string{clientKey, testKey} {
		for _, test := range []struct {
			origins []string
			status  int
		}{
			{nil, 200}, {[]string{page}, 200}, {[]string{"capacitor://localhost"}, 200}, {[]string{"null"}, 403}, {[]string{""}, 403},
			{[]string{page + ":8443"}, 403}, {[]string{"http://app.example.com"}, 403}, {[]string{page, page}, 403}, {[]string{page, "https://a.example"}, 403},
		} {
			header := bearer(key)
			header["Origin"] = test.origins
			a := g.do(http.MethodPost, "/v1/remoteconfigs", `{"keys":["shown"]}`, header)
			if a.status != test.status {
				t.Errorf("%q: %d %s", test.origins, a.status, a.body)
			} else if a.status == http.StatusForbidden {
				checkError(t, a, "key_not_allowed", "")
			}
		}
	}
	header := bearer(signedKey) // has no origins
	header.Set("Origin", "https://other.example")
	if a := g.do(http.MethodPost, "/v1/remoteconfigs", `{"keys":["shown"]}`, header); a.status != http.StatusBadRequest {
		t.Errorf("a key without origins: %d %s", a.status, a.body)
	}
}

// TestSignedContextIsRecordedOpened checks what a signed context decides, and that its trace
// is as that of a plain one. Its errors come before anything is decided.
func TestSignedContextIsRecordedOpened(t *testing.T) {
	t.Parallel()
	g := startGateway(t, clientFiles(), withClientKeys)
	ask := func(key, context string) answer {
		return g.do(http.MethodPost, "/v1/remoteconfigs", `{"keys":["shown"],"context":`+context+`}`, bearer(key))
	}
	future := time.Now().Add(24 * time.Hour).Unix()
	text := signContext(fmt.Sprintf(`{"exp":%d,"plan":"pro"}`, future))
	for key, context := range map[string]string{signedKey: `"` + text + `"`, clientKey: `{"plan":"pro"}`} {
		a := ask(key, context).ok(t, context)
		if !strings.Contains(string(a.body), `"value":true`) {
			t.Errorf("%s", a.body)
		}
		id := idsOf(t, a)["shown"]
		eventually(t, "the trace is stored", func() bool { _, found := g.trace("data/cadenza.db", id); return found })
		if record, _ := g.trace("data/cadenza.db", id); string(record.Context) != `{"plan":"pro"}` {
			t.Errorf("the context %s", record.Context)
		}
	}
	for context, want := range map[string]string{
		`{"plan":"pro"}`: "is signed", `null`: "is signed",
		`"` + signContext(`{"exp":1,"plan":"pro"}`) + `"`: "has expired",
		`"` + text[:len(text)-2] + `"`:                    "signature of the context is wrong",
	} {
		a := ask(signedKey, context)
		checkError(t, a, "invalid_request", "context")
		if !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %s, want %s", context, a.body, want)
		}
	}
	// A string is no context of a key that has no secret.
	checkError(t, ask(clientKey, `"`+text+`"`), "invalid_request", "context")
	if g.said(signingSecret)() {
		t.Error("the log has the secret")
	}
}

// TestClientKeysAreChecked refuses configurations of keys that would not be what their
// author means.
func TestClientKeysAreChecked(t *testing.T) {
	t.Parallel()
	for want, access := range map[string]gw.Access{
		"":                                     {Kind: "client", Origins: []string{"https://a.example:8443", "http://[::1]:3000", "chrome-extension://abc"}},
		`did you mean "client"?`:               {Kind: "clint"},
		"it can't have a role":                 {Kind: "client", Role: gw.RoleViewer, App: true},
		"opens the console alone":              {Role: gw.RoleViewer, Origins: []string{"https://a.example"}},
		`"https://A.example" is no origin`:     {Origins: []string{"https://A.example"}},
		`"https://a.example/" is no origin`:    {Origins: []string{"https://a.example/"}},
		`"https://a.example:443" is no origin`: {Origins: []string{"https://a.example:443"}},
		`"http://a.example:80" is no origin`:   {Origins: []string{"http://a.example:80"}},
		`"https://a.example:" is no origin`:    {Origins: []string{"https://a.example:"}},
		`"https://u@a.example" is no origin`:   {Origins: []string{"https://u@a.example"}},
		`"https://ä.example" is no origin`:     {Origins: []string{"https://ä.example"}},
		`"https://a.example?x" is no origin`:   {Origins: []string{"https://a.example?x"}},
		`"https://*.a.example" is no origin`:   {Origins: []string{"https://*.a.example"}},
		`"a.example" is no origin`:             {Origins: []string{"a.example"}},
		`"null" is no origin`:                  {Kind: "client", Origins: []string{"null"}},
		`"*" is no origin`:                     {Kind: "client", Origins: []string{"*"}},
		`"" is no origin`:                      {Kind: "client", Origins: []string{""}},
	} {
		err := access.CheckAccess()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", access, err, want)
		}
	}
}
