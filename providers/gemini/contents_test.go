package gemini

import (
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

func inline(kind providers.PartKind, media, data string) providers.Part {
	return providers.Part{Kind: kind, Media: providers.Media{Type: media, Data: data}}
}

func at(kind providers.PartKind, url string) providers.Part {
	return providers.Part{Kind: kind, Media: providers.Media{URL: url}}
}

func call(id, name, arguments, opaque string) providers.Part {
	return providers.Part{Kind: providers.PartToolCall, Call: providers.ToolCall{ID: id, Name: name, Arguments: arguments}, Opaque: opaque}
}

// result is a result whose tool its call alone names.
func result(id string, content ...providers.Part) providers.Part {
	return providers.Part{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: id, Content: content}}
}

// TestContents holds the golden bodies of all parts.
func TestContents(t *testing.T) {
	failed := result("c", pt.Text("no such city"))
	failed.Result.Failed = true
	detail := at(providers.PartImage, "https://example.com/a")
	detail.Media.Detail, detail.Media.Type = "high", "image/JPG; q=1"
	named := inline(providers.PartFile, "application/pdf", "JVBERi0=")
	named.Media.Name = "a.pdf"
	for _, test := range []struct {
		name, model string
		messages    []providers.Message
		want        string // the turns
		leftOut     []string
	}{
		{"media inline", "m", []providers.Message{pt.Message("user",
			pt.Text("What is \"this\"?"), inline(providers.PartImage, "image/png", "iVBORw0="), inline(providers.PartAudio, "audio/wav", "UklGRg=="), inline(providers.PartFile, "application/pdf", "JVBERi0="),
		)}, `{"role":"user","parts":[{"text":"What is \"this\"?"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0="}},{"inlineData":{"mimeType":"audio/wav","data":"UklGRg=="}},{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0="}}]}`, nil},
		{"media by URL", "m", []providers.Message{pt.Message("user",
			at(providers.PartImage, "https://example.com/a.PNG?x=1"), at(providers.PartFile, "https://example.com/a"), detail,
		)}, `{"role":"user","parts":[{"fileData":{"mimeType":"image/png","fileUri":"https://example.com/a.PNG?x=1"}},{"fileData":{"fileUri":"https://example.com/a"}},{"fileData":{"mimeType":"image/jpeg","fileUri":"https://example.com/a"}}]}`, []string{"detail"}},
		{"a file's name", "m", []providers.Message{pt.Message("user", named)}, `{"role":"user","parts":[{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0="}}]}`, []string{"filename"}},
		{"calls and results", "gemini-2.5-flash", []providers.Message{
			pt.Message("user", pt.Text("Weather?")),
			pt.Message("assistant", pt.Text("Let me see."), call("a", "weather", `{"city": "Gent"}`, ""), call("b", "time", ``, "")),
			pt.Message("tool", result("a", pt.Text("18 °C"), pt.Text(", \"dry\""))),
			pt.Message("tool", result("b", pt.Text("noon"))),
			pt.Message("user", pt.Text("Thanks, and there?")),
			pt.Message("assistant", call("c", "weather", `{"city":"X"}`, "")),
			pt.Message("tool", failed),
		}, `{"role":"user","parts":[{"text":"Weather?"}]},` +
			`{"role":"model","parts":[{"text":"Let me see."},{"functionCall":{"name":"weather","args":{"city": "Gent"}}},{"functionCall":{"name":"time","args":{}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"weather","response":{"output":"18 °C, \"dry\""}}},{"functionResponse":{"name":"time","response":{"output":"noon"}}}]},` +
			`{"role":"user","parts":[{"text":"Thanks, and there?"}]},` +
			`{"role":"model","parts":[{"functionCall":{"name":"weather","args":{"city":"X"}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"weather","response":{"error":"no such city"}}}]}`, nil},
		{"signatures of calls", "gemini-3-pro-preview", []providers.Message{
			pt.Message("user", pt.Text("q")),
			pt.Message("assistant", call("x1", "f", `{}`, "#sig+/="), call("x2", "g", `{}`, "#")),
			pt.Message("tool", result("x1", pt.Text("1")), result("x2", pt.Text("2"))),
			pt.Message("assistant", call("call_3", "f", `{}`, "sig2"), call("call_4", "f", `{}`, "")),
			pt.Message("tool", result("call_3", pt.Text("3")), result("call_4", pt.Text("4"))),
			pt.Message("assistant", call("call_5", "f", `{}`, ""), call("call_6", "f", `{}`, "")),
			pt.Message("tool", result("call_5"), result("call_6")),
		}, `{"role":"user","parts":[{"text":"q"}]},` +
			`{"role":"model","parts":[{"functionCall":{"id":"x1","name":"f","args":{}},"thoughtSignature":"sig+/="},{"functionCall":{"id":"x2","name":"g","args":{}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"id":"x1","name":"f","response":{"output":"1"}}},{"functionResponse":{"id":"x2","name":"g","response":{"output":"2"}}}]},` +
			`{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"sig2"},{"functionCall":{"name":"f","args":{}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"3"}}},{"functionResponse":{"name":"f","response":{"output":"4"}}}]},` +
			`{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"f","args":{}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":""}}},{"functionResponse":{"name":"f","response":{"output":""}}}]}`, nil},
		{"results in another order than their calls", "m", []providers.Message{
			pt.Message("user", pt.Text("q")),
			pt.Message("assistant", call("call_1", "f", `{"n":1}`, "sig"), call("call_2", "f", `{"n":2}`, "")),
			pt.Message("tool", result("call_2", pt.Text("2"))),
			pt.Message("tool", result("call_1", pt.Text("1"))),
		}, `{"role":"user","parts":[{"text":"q"}]},` +
			`{"role":"model","parts":[{"functionCall":{"name":"f","args":{"n":1}},"thoughtSignature":"sig"},{"functionCall":{"name":"f","args":{"n":2}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"1"}}},{"functionResponse":{"name":"f","response":{"output":"2"}}}]}`, nil},
		{"thoughts", "m", []providers.Message{
			pt.Message("user", pt.Text("q")),
			pt.Message("assistant", pt.Thinking("of another model", ""), pt.Thinking("hm", ofThought+"s1"), pt.Thinking("so", ofText+"s2"), pt.Text("answer")),
			pt.Message("user", pt.Text("q")),
			pt.Message("assistant", pt.Thinking("", upstream.Place{Text: 2}.Opaque(ofText+"s3")), pt.Thinking("", upstream.Place{Text: 4}.Opaque(ofText+"s4")), pt.Text("abcd"), call("a", "f", "{}", "")),
			pt.Message("user", pt.Text("q")),
			pt.Message("assistant", pt.Thinking("only", ofThought+"s5")),
			pt.Message("assistant", pt.Text("x"), pt.Thinking("", upstream.Place{Text: 1}.Opaque(ofText+"s6"))),
		}, `{"role":"user","parts":[{"text":"q"}]},` +
			`{"role":"model","parts":[{"text":"hm","thought":true,"thoughtSignature":"s1"},{"text":"answer","thoughtSignature":"s2"}]},` +
			`{"role":"user","parts":[{"text":"q"}]},` +
			`{"role":"model","parts":[{"text":"ab"},{"text":"cd","thoughtSignature":"s3"},{"text":"","thoughtSignature":"s4"},{"functionCall":{"name":"f","args":{}}}]},` +
			`{"role":"user","parts":[{"text":"q"}]},` +
			`{"role":"model","parts":[{"text":"x"},{"text":"","thoughtSignature":"s6"}]}`, nil},
		{"an image in a result", "gemini-3-flash-preview", []providers.Message{
			pt.Message("assistant", call("a", "shot", "{}", "s")), pt.Message("tool", result("a", pt.Text("see"), inline(providers.PartImage, "image/png", "AAAA"))), pt.Message("user", pt.Text("q")),
		}, `{"role":"model","parts":[{"functionCall":{"name":"shot","args":{}},"thoughtSignature":"s"}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"shot","response":{"output":"see"},"parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}]},` +
			`{"role":"user","parts":[{"text":"q"}]}`, nil},
		{"images behind a result", "gemini-2.5-pro", []providers.Message{
			pt.Message("assistant", call("a", "shot", "{}", "")), pt.Message("tool", result("a", pt.Text("see"), inline(providers.PartImage, "image/png", "AAAA"), at(providers.PartImage, "https://example.com/a.webp"))), pt.Message("user", pt.Text("q")),
		}, `{"role":"model","parts":[{"functionCall":{"name":"shot","args":{}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"shot","response":{"output":"see"}}}]},` +
			`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}},{"fileData":{"mimeType":"image/webp","fileUri":"https://example.com/a.webp"}},{"text":"q"}]}`, nil},
		{"an image by URL in a result", "gemini-3-pro-preview", []providers.Message{
			pt.Message("assistant", call("a", "shot", "{}", "s")), pt.Message("tool", result("a", at(providers.PartImage, "https://example.com/a.gif"))),
		}, `{"role":"model","parts":[{"functionCall":{"name":"shot","args":{}},"thoughtSignature":"s"}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"shot","response":{"output":""}}}]},` +
			`{"role":"user","parts":[{"fileData":{"mimeType":"image/gif","fileUri":"https://example.com/a.gif"}}]}`, nil},
		{"the name of a call that is not there", "m", []providers.Message{
			pt.Message("user", pt.Text("q")), {Role: "tool", Parts: []providers.Part{{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: "a", Name: "f", Content: []providers.Part{pt.Text("r")}}}}},
		}, `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"r"}}}]},{"role":"user","parts":[{"text":"q"}]}`, nil},
	} {
		r, leftOut := pt.Sent(t, answer("fine", "STOP", 1), &providers.Request{Model: test.model, Messages: test.messages}, func(base string) providers.Provider { return client(t, base) })
		if diff := cmp.Diff(`{"contents":[`+test.want+`]}`, r.Body); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if diff := cmp.Diff(test.leftOut, leftOut.LeftOut); diff != "" {
			t.Errorf("%s: left out (-want +got):\n%s", test.name, diff)
		}
		if !json.Valid([]byte(r.Body)) {
			t.Errorf("%s: the body is not JSON", test.name)
		}
	}
}

// TestPartsThatAreLacking holds which parts fail, and with which words.
func TestPartsThatAreLacking(t *testing.T) {
	for want, messages := range map[string][]providers.Message{
		"gemini takes no image of the system, which message 1 has":                      {pt.Message("system", at(providers.PartImage, "https://example.com/a.png")), pt.Message("user", pt.Text("q"))},
		"gemini takes no image of the assistant, which message 2 has":                   {pt.Message("user", pt.Text("q")), pt.Message("assistant", inline(providers.PartImage, "image/png", "AAAA"))},
		"gemini takes no tool_call, which message 1 has":                                {pt.Message("user", call("a", "f", "{}", ""))},
		"gemini takes no thinking in the result of a tool, which message 2 has":         {pt.Message("assistant", call("a", "f", "{}", "")), pt.Message("tool", result("a", pt.Thinking("hm", "")))},
		`message 2 has the result of the tool call "b", which no message before it has`: {pt.Message("assistant", call("a", "f", "{}", "")), pt.Message("tool", result("b"))},
		`message 1 has a tool call whose arguments are not a JSON object`:               {pt.Message("assistant", call("a", "f", "[1]", ""))},
	} {
		_, err := client(t, "http://localhost").Invoke(t.Context(), &providers.Request{Model: "m", Messages: messages})
		e, _ := errors.AsType[*providers.Error](err)
		if e == nil || e.Status != 400 || !strings.Contains(e.Reason, want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestABodyIsWrittenOnce holds that the data of an image is copied once: into the body.
func TestABodyIsWrittenOnce(t *testing.T) {
	image := inline(providers.PartImage, "image/png", strings.Repeat("A", 8<<20))
	req := &providers.Request{Model: "m", Messages: []providers.Message{pt.Message("user", pt.Text("What?"), image)}}
	c := client(t, "http://localhost")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := c.body(req); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 9<<20 {
		t.Errorf("a body with an image of 8 MiB takes %d bytes", n)
	}
}

// FuzzContents has histories of all kinds become JSON.
func FuzzContents(f *testing.F) {
	f.Add("assistant", uint8(6), "text", "@2,1:text:sig", "a", `{"x":1}`, "gemini-3-pro")
	f.Add("tool", uint8(7), "text", "#sig", "a", `{}`, "m")
	f.Add("user", uint8(2), "https://example.com/a.png", "", "", "", "gemini-2.5-flash")
	f.Fuzz(func(t *testing.T, role string, kind uint8, text, opaque, id, arguments, model string) {
		p := providers.Part{Kind: providers.PartKind(kind), Text: providers.Escape(text), Opaque: opaque, Call: providers.ToolCall{ID: id, Name: text, Arguments: arguments}, Media: providers.Media{URL: text, Data: arguments, Type: id}}
		p.Result = providers.ToolResult{Call: id, Name: text, Content: []providers.Part{{Kind: providers.PartText, Text: providers.Escape(arguments)}, {Kind: p.Kind, Media: p.Media}}}
		req := &providers.Request{Model: model, Messages: []providers.Message{pt.Message("user", p), pt.Message(role, p, pt.Thinking(text, opaque), p), pt.Message("tool", p)}}
		body, _, err := client(t, "http://localhost").body(req)
		if err == nil && !json.Valid(body) {
			t.Errorf("%s", body)
		}
	})
}

func TestPrefix(t *testing.T) {
	for _, model := range []string{"gemini-2.5-pro", "gemini-3-flash-preview"} {
		own := subject
		own.Request.Model = model
		own.CheckPrefix(t, answer("fine", "STOP", 1), "contents", true)
	}
}
