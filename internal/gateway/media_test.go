package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fastjson"
)

// TestImagesFromVariables checks that an image in a variable reaches the model, and that
// other data does not.
func TestImagesFromVariables(t *testing.T) {
	t.Parallel()
	g := startGateway(t, map[string]string{
		"definitions/prompts/damage.yaml": `
provider: canned
extra: { echo: true }
variables: { photo: { default: "" }, note: { default: "" } }
messages:
  - { role: system, content: Look. }
  - role: user
    content: [ { text: "What is it? {{note}}" }, { image: "{{photo}}", detail: low } ]
`,
		"definitions/endpoints/damage.yaml": "prompt: damage\nmax_attempts: 1\n",
	})
	ask := func(variables string) (status int, content, param string) {
		t.Helper()
		a := g.post("/v1/endpoints", `{"key":"damage","variables":`+variables+`}`)
		v := fastjson.MustParseBytes(a.body)
		return a.status, string(v.GetStringBytes("content")), string(v.GetStringBytes("error", "param"))
	}
	for variables, want := range map[string]string{
		`{}`:                               "What is it? ",
		`{"photo":""}`:                     "What is it? ",
		`{"note":"A dog"}`:                 "What is it? A dog",
		`{"photo":"https://x.test/i.png"}`: "What is it? [image at https://x.test/i.png]",
		`{"photo":"data:image/png;base64,` + strings.Repeat("aGVs", 5000) + `"}`: "What is it? [image image/png, 15000 bytes]",
	} {
		if status, content, _ := ask(variables); status != http.StatusOK || content != want {
			t.Errorf("%.60s: %d %q, want %q", variables, status, content, want)
		}
	}
	for _, bad := range []string{"photo.png", "http://x.test/i.png", "data:image/png;base64,!!!!", "data:text/html;base64,aGVs"} {
		if status, _, param := ask(`{"photo":"` + bad + `"}`); status != http.StatusBadRequest || param != "variables.photo" {
			t.Errorf("%s: %d, param %q", bad, status, param)
		}
		for path, body := range map[string]string{"/v1/prompts": `{"keys":["damage"]`, "/v1/decisions": `{"prompts":["damage"]`} {
			a := g.post(path, body+`,"variables":{"photo":"`+bad+`"}}`)
			if param := string(fastjson.MustParseBytes(a.body).GetStringBytes("error", "param")); a.status != http.StatusBadRequest || param != "variables.photo" {
				t.Errorf("%s: %d %s", path, a.status, a.body)
			}
		}
	}
	a := g.post("/v1/prompts", `{"keys":["damage"],"variables":{"photo":"https://x.test/i.png"}}`)
	const want = `[{"role":"system","content":"Look."},{"role":"user","content":[{"type":"text","text":"What is it? "},{"type":"image_url","image_url":{"url":"https://x.test/i.png","detail":"low"}}]}]`
	if got := fastjson.MustParseBytes(a.body).Get("damage", "value", "messages"); got == nil || got.String() != want {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestConversationWithoutMessages checks that a prompt that consists of the caller's
// messages is not sent without any.
func TestConversationWithoutMessages(t *testing.T) {
	t.Parallel()
	g := startGateway(t, map[string]string{
		"definitions/prompts/chat.yaml":   "provider: canned\nextra: { echo: true }\nmessages: [ { history: true } ]\n",
		"definitions/endpoints/chat.yaml": "prompt: chat\naccept: { history: true }\n",
	})
	a := g.post("/v1/endpoints", `{"key":"chat"}`)
	if param := string(fastjson.MustParseBytes(a.body).GetStringBytes("error", "param")); a.status != http.StatusBadRequest || param != "messages" {
		t.Errorf("%d %s", a.status, a.body)
	}
}
