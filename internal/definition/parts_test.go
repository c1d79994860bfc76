package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"
)

// withParts loads a prompt with the messages, and the variables a to d.
func withParts(t testing.TB, messages string) *Prompt {
	t.Helper()
	return mustLoad(t, workspace(t, map[string]string{"prompts/p.yaml": "variables: { a: {}, b: {}, c: { required: true }, d: { default: \"https://x.test/d\" } }\nmessages:\n" + messages})).Prompts["p"]
}

func bound(t testing.TB, p *Prompt, variables string) *prompt.Values {
	t.Helper()
	var values prompt.Values
	must(t, p.Bind(p.fallback, fastjson.MustParse(variables), bind(t, &Snapshot{Model: mustLoad(t, workspace(t, map[string]string{"remoteconfigs/c.yaml": "type: number\ndefault: 1\n"})).Model}, "{}"), &values))
	return &values
}

const everyPart = `  - role: system
    content: Look.
  - role: user
    content:
      - { text: "What is {{a}}?" }
      - { image: "{{b}}", detail: low, type: image/webp }
      - { audio: "{{c}}" }
      - { file: "{{d}}", name: "d \"x\".pdf", type: application/pdf }
      - { text: "{{a}}" }
  - role: user
    content: [ { image: "{{a}}" } ]
  - role: assistant
    content: [ { text: Fine. } ]
  - role: user
    content:
      - { image: "https://x.test/i.png" }
      - { file: "data:text/plain;base64,aGk=", name: n }
      - { audio: "data:audio/x-wav;base64,aGk=" }
`

func TestParts(t *testing.T) {
	p := withParts(t, everyPart)
	values := bound(t, p, `{"a":"https://x.test/\"a","b":"data:image/png;base64,iVBO","c":"data:audio/mpeg;base64,aGk=","d":"https://x.test/ü"}`)
	text := func(s string) providers.Part {
		return providers.Part{Kind: providers.PartText, Text: providers.Escape(s)}
	}
	media := func(kind providers.PartKind, m providers.Media) providers.Part {
		return providers.Part{Kind: kind, Media: m}
	}
	last := providers.Message{Role: "user", Parts: []providers.Part{
		media(providers.PartImage, providers.Media{URL: "https://x.test/i.png"}),
		media(providers.PartFile, providers.Media{Type: "text/plain", Data: "aGk=", Name: "n"}),
		media(providers.PartAudio, providers.Media{Type: "audio/x-wav", Data: "aGk="}),
	}}
	want := []providers.Message{
		{Role: "system", Content: "Look."},
		{Role: "user", Parts: []providers.Part{
			text(`What is https://x.test/"a?`),
			media(providers.PartImage, providers.Media{Type: "image/png", Data: "iVBO", Detail: "low"}),
			media(providers.PartAudio, providers.Media{Type: "audio/mpeg", Data: "aGk="}),
			media(providers.PartFile, providers.Media{URL: "https://x.test/ü", Type: "application/pdf", Name: `d "x".pdf`}),
			text(`https://x.test/"a`),
		}},
		{Role: "user", Parts: []providers.Part{media(providers.PartImage, providers.Media{URL: `https://x.test/"a`})}},
		{Role: "assistant", Content: "Fine."},
		last,
	}
	got, err := p.fallback.Messages(values, nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%s", err, cmp.Diff(want, got))
	}
	const lastJSON = `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.test/i.png"}},{"type":"file","file":{"file_data":"data:text/plain;base64,aGk=","filename":"n"}},{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}}]}`
	answers := func(values *prompt.Values, want string) {
		t.Helper()
		want = `{"name":"p","messages":[` + want + `]}`
		out, err := p.fallback.AppendJSON(nil, values)
		if err != nil || string(out) != want || !json.Valid(out) {
			t.Errorf("%v\ngot  %s\nwant %s", err, out, want)
		}
		if size, err := p.fallback.Size(values); err != nil || size < len(out) || size > len(out)+200 {
			t.Errorf("%d bytes are said to be at most %d, %v", len(out), size, err)
		}
	}
	answers(values, `{"role":"system","content":"Look."},`+
		`{"role":"user","content":[{"type":"text","text":"What is https://x.test/\"a?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO","detail":"low"}},`+
		`{"type":"input_audio","input_audio":{"data":"aGk=","format":"mp3"}},{"type":"file","file":{"file_data":"https://x.test/ü","filename":"d \"x\".pdf"}},{"type":"text","text":"https://x.test/\"a"}]},`+
		`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.test/\"a"}}]},`+
		`{"role":"assistant","content":[{"type":"text","text":"Fine."}]},`+lastJSON)

	// Empty parts are left out, and so is a message without others.
	values = bound(t, p, `{"b":"","c":"https://x.test/c","d":""}`)
	got, err = p.fallback.Messages(values, nil)
	if err != nil || !reflect.DeepEqual(got, []providers.Message{
		{Role: "system", Content: "Look."},
		{Role: "user", Parts: []providers.Part{text("What is ?"), media(providers.PartAudio, providers.Media{URL: "https://x.test/c"})}},
		{Role: "assistant", Content: "Fine."},
		last,
	}) {
		t.Errorf("%v, %v", got, err)
	}
	answers(values, `{"role":"system","content":"Look."},{"role":"user","content":[{"type":"text","text":"What is ?"},{"type":"audio_url","audio_url":{"url":"https://x.test/c"}}]},`+
		`{"role":"assistant","content":[{"type":"text","text":"Fine."}]},`+lastJSON)

	p = withParts(t, "  - { role: user, content: [ { text: \"{{a}}\" }, { image: \"{{b}}\" }, { text: \"{{a}}{{b}}\" } ] }\n  - { role: user, content: \"{{c}}{{d}}\" }\n")
	answers(bound(t, p, `{"c":"","d":""}`), `{"role":"user","content":""}`)
	answers(bound(t, p, `{"b":"https://b","c":"C","d":""}`), `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://b"}},{"type":"text","text":"https://b"}]},{"role":"user","content":"C"}`)
}

// TestBadMedia checks that an invalid address is never sent.
func TestBadMedia(t *testing.T) {
	p := withParts(t, "  - { role: user, content: [ { text: \"{{a}}{{d}}\" }, { image: \"{{b}}\" }, { audio: \"{{c}}\" } ] }\n")
	for value, want := range map[string]string{
		"hello":                                      "must be a URL that begins with https://, or a data: URI such as data:image/png;base64,iVBORw0…",
		"http://x.test/i.png":                        "must be a URL that begins with https://, or a data: URI such as data:image/png;base64,iVBORw0…",
		"https://":                                   "must be a URL that begins with https://, or a data: URI such as data:image/png;base64,iVBORw0…",
		"file:///etc/passwd":                         "must be a URL that begins with https://, or a data: URI such as data:image/png;base64,iVBORw0…",
		"https://x.test/ i":                          "is not a URL: it has a space or a control character at byte 15",
		"data:image/png;base64,iVB":                  "is not base64: its data has 3 characters, not a multiple of 4. Send it with its padding",
		"data:image/png;base64,iV-_":                 "is not base64: byte 2 of the data is none of A-Z a-z 0-9 + /",
		"data:image/png;base64,":                     "has no data",
		"data:image/png,abcd":                        "is a data: URI without ;base64. Send data:TYPE;base64,DATA",
		"data:;base64,abcd":                          "is a data: URI without a media type such as image/png. Send data:TYPE;base64,DATA",
		"data:image/png;" + strings.Repeat("x", 300): "is a data: URI without a comma in its first 256 bytes. Send data:TYPE;base64,DATA",
		"data:text/html;base64,abcd":                 "is data of the type text/html, which is no image",
		"data:imagery/png;base64,abcd":               "is data of the type imagery/png, which is no image",
	} {
		quoted, _ := json.Marshal(map[string]string{"b": value, "c": "https://x.test"})
		values := bound(t, p, string(quoted))
		messages, err := p.fallback.Messages(values, nil)
		out, also := p.fallback.AppendJSON(nil, values)
		invalid, ok := errors.AsType[*prompt.InvalidError](err)
		if !ok || messages != nil || out != nil || fmt.Sprint(also) != err.Error() || invalid.Name != "b" || invalid.Reason != want {
			t.Errorf("%.60s: %v, %v, %v", value, err, also, messages)
		}
	}
	for _, value := range []string{"HTTPS://x.test/i", "data:image/png;base64,abcd", "DATA:IMAGE/PNG;charset=x;base64,ab+/", "data:image/svg+xml;base64,YQ=="} {
		quoted, _ := json.Marshal(map[string]string{"b": value, "c": ""})
		if messages, err := p.fallback.Messages(bound(t, p, string(quoted)), nil); err != nil || len(messages[0].Parts) != 2 {
			t.Errorf("%s: %v, %v", value, messages, err)
		}
	}
}

func TestMediaIsBounded(t *testing.T) {
	p := withParts(t, "  - role: user\n    content: [ "+strings.Repeat("{ image: \"{{a}}\" }, ", 20)+"{ text: \"{{b}}{{c}}{{d}}\" } ]\n")
	// Data is no text: three megabytes of it are fine.
	values := bound(t, p, `{"a":"data:image/png;base64,`+strings.Repeat("a", 3<<20)+`","c":"c"}`)
	if messages, err := p.fallback.Messages(values, nil); err != nil || len(messages[0].Parts) != 21 {
		t.Error(err)
	}
	values = bound(t, p, `{"a":"data:image/png;base64,`+strings.Repeat("a", 4<<20)+`","c":"c"}`)
	if _, err := p.fallback.Messages(values, nil); fmt.Sprint(err) != "the images, sounds and files of variables would have 83886520 bytes, at most 67108864 are allowed: send smaller ones" {
		t.Error(err)
	}
	if _, err := p.fallback.Size(values); err == nil {
		t.Error("the answer has no bound")
	}
	values = bound(t, p, `{"c":"`+strings.Repeat("c", prompt.MaxRendered)+`"}`)
	if _, err := p.fallback.Messages(values, nil); err == nil || !strings.Contains(err.Error(), "the rendered messages would have 2097168 bytes") {
		t.Error(err)
	}
}

func TestPartMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`user, content: [] `:                    "p.yaml:1:26: a message has 1 to 100 parts, this has 0",
		`user, content: { text: hi } `:          "p.yaml:1:26: the content of a message must be text, or a list of parts",
		`user, content: [ hi ] `:                `p.yaml:1:28: a part must be a mapping such as { text: "…" } or { image: "{{photo}}" }, this is "hi"`,
		`user, content: [ { imag: "{{a}}" } ] `: `p.yaml:1:28: a part must have one of the members text, image, audio, file: did you mean "image"?`,
		`user, content: [ { type: image_url, image_url: { url: "{{a}}" } } ] `: `p.yaml:1:28: a part must have one of the members text, image, audio, file`,
		`user, content: [ { type: text } ] `:                                   `p.yaml:1:28: a part must have one of the members text, image, audio, file`,
		`user, content: [ { text: a, detail: low } ] `:                         `p.yaml:1:39: unknown member "detail" in a part with text (known: text)`,
		`user, content: [ { text: a, image: b } ] `:                            `p.yaml:1:39: unknown member "image" in a part with text (known: text)`,
		`user, content: [ { text: } ] `:                                        "p.yaml:1:36: text must be text, this is empty",
		`user, content: [ { image: [a] } ] `:                                   "p.yaml:1:37: image must be text, this is a list",
		`user, content: [ { image: "{{a}}", detail: lo } ] `:                   `p.yaml:1:54: detail must be one of auto, low, high, this is "lo": did you mean "low"?`,
		`user, content: [ { image: "{{a}}", type: png } ] `:                    `p.yaml:1:52: type must be a media type such as application/pdf, this is "png"`,
		`user, content: [ { image: "{{a}}", type: text/html } ] `:              "p.yaml:1:52: type must be that of image, this is text/html",
		`user, content: [ { image: "https://x/{{a}}" } ] `:                     `p.yaml:1:37: image must come whole from a variable, as "{{photo}}" does, or have no variable in it: else a request could lead elsewhere`,
		`user, content: [ { image: "{{e}}" } ] `:                               `p.yaml:1:37: {{e}} is not declared under variables`,
		`user, content: [ { image: "{{b}}" } ] `:                               `p.yaml:1:37: the default of the variable b must be a URL that begins with https://, or a data: URI such as data:image/png;base64,iVBORw0…`,
		`user, content: [ { image: photo.png } ] `:                             `p.yaml:1:37: image must be a URL that begins with https://, or a data: URI such as data:image/png;base64,iVBORw0…`,
		`user, content: [ { image: "" } ] `:                                    `p.yaml:1:37: image must be a URL that begins with https://, or a data: URI such as data:image/png;base64,iVBORw0…`,
		`user, content: [ { file: "data:a/b;base64,a" } ] `:                    "p.yaml:1:36: file is not base64: its data has 1 characters, not a multiple of 4. Send it with its padding",
		`user, content: [ { file: "data:a/b;base64,abcd", type: a/b } ] `:      "p.yaml:1:66: the data: URI says the type already: remove this one",
		`system, content: [ { image: "{{a}}" } ] `:                             "p.yaml:1:30: image goes into a message with the role user, this has the role system",
	} {
		var errs document.Errors
		n := document.Parse("p.yaml", []byte("- { role: "+text+"}\n"), &errs)
		vars := prompt.DecodeVariables(document.Parse("v.yaml", []byte("{ a: {}, b: { default: none } }"), &errs), nil, &errs)
		must(t, errs.Err())
		decodeMessages(n, vars, &errs)
		if got := fmt.Sprint(errs.Err()); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%s:\ngot  %v\nwant %s", text, got, want)
		}
	}
}

// TestPartsComeBack holds that all of a part is in the version, and comes back from the
// store.
func TestPartsComeBack(t *testing.T) {
	dir := workspace(t, map[string]string{"prompts/p.yaml": "variables: { a: {}, b: {}, c: { required: true }, d: { default: \"https://x.test/d\" } }\nmessages:\n" + everyPart})
	comesBack(t, dir)
	versions := map[string]string{}
	for _, parts := range []string{
		`{ image: "https://x.test" }`, `{ image: "https://y.test" }`, `{ image: "https://x.test", detail: low }`, `{ image: "https://x.test", type: image/png }`,
		`{ file: "https://x.test" }`, `{ file: "https://x.test", name: a }`, `{ audio: "https://x.test" }`, `{ text: "https://x.test" }`,
	} {
		v := withParts(t, "  - { role: user, content: [ { text: \"{{a}}{{b}}{{c}}{{d}}\" }, "+parts+" ] }\n").Version
		if other, twice := versions[v]; twice {
			t.Errorf("%s has the version of %s", parts, other)
		}
		versions[v] = parts
	}
}

// TestPartsAreUses holds that loading sees the variables of parts, and their texts.
func TestPartsAreUses(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{"prompts/p.yaml": "variables: { a: { required: true }, b: { required: true }, c: { required: true } }\nmessages: [ { role: user, content: [ { text: \"{a} {{a}}\" }, { image: \"{{b}}\" } ] } ]\n"}))
	if len(s.Warnings) != 2 || s.Warnings[0].Message != "no message uses the variable c" || s.Warnings[1].Message != "{a} is sent to the model as it is: write {{a}} for the variable" {
		t.Error(s.Warnings)
	}
}

// FuzzParts loads any list of parts, and renders it with any value.
func FuzzParts(f *testing.F) {
	f.Add(`{ text: "a {{a}}" }, { image: "{{b}}", detail: low }`, "https://x.test/i.png")
	f.Add(`{ audio: "{{b}}" }, { text: "{{a}}" }`, "data:audio/mpeg;base64,aGk=")
	f.Add(`{ file: "{{b}}", name: "a\"b" }, { file: "data:a/b;base64,aGk=" }`, "data:x/y;charset=z;base64,\x00")
	f.Fuzz(func(t *testing.T, parts, value string) {
		var errs document.Errors
		vars := prompt.DecodeVariables(document.Parse("v.yaml", []byte("{ a: {}, b: {} }"), &errs), nil, &errs)
		n := document.Parse("p.yaml", []byte("- { role: user, content: [ "+parts+" ] }\n"), &errs)
		if n == nil {
			return
		}
		v := &Variant{Key: "p"}
		if v.messages = decodeMessages(n, vars, &errs); errs.Len() > 0 {
			return
		}
		v.finish()
		var arena fastjson.Arena
		object := arena.NewObject()
		object.Set("a", arena.NewString(value))
		object.Set("b", arena.NewString(value))
		var values prompt.Values
		must(t, vars.Bind(object, nil, &v.answer, &values))
		out, err := v.AppendJSON(nil, &values)
		messages, also := v.Messages(&values, nil)
		if _, empty := errors.AsType[*HistoryError](also); empty {
			also = nil
		}
		if fmt.Sprint(err) != fmt.Sprint(also) {
			t.Fatalf("%v, and %v", err, also)
		}
		if err != nil {
			return
		}
		var answer struct {
			Messages []struct {
				Content []json.RawMessage `json:"content"`
			} `json:"messages"`
		}
		if json.Unmarshal(out, &answer) != nil || len(answer.Messages) != len(messages) {
			t.Fatalf("%s of %v", out, messages)
		}
		if size, _ := v.Size(&values); size < len(out) {
			t.Fatalf("%d bytes are more than %d", len(out), size)
		}
		for i, m := range messages {
			if want := max(len(m.Parts), 1); len(answer.Messages[i].Content) != want {
				t.Fatalf("%s of %v", out, messages)
			}
			for _, p := range m.Parts {
				if p.Kind != providers.PartText && (p.Media.URL == "") == (p.Media.Data == "") {
					t.Fatalf("%+v", p.Media)
				}
			}
		}
	})
}
