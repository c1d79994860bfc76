package openai

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// written is the body of a request in the SDK's hand, messages included.
func written(t testing.TB, c *Client, req *providers.Request) string {
	t.Helper()
	p, _, err := c.params(req)
	if err != nil {
		t.Fatal(err)
	}
	p.Messages = []openai.ChatCompletionMessageParamUnion{}
	for i := range req.Messages {
		p.Messages = append(p.Messages, sdkMessages(&req.Messages[i])...)
	}
	if p.Tools != nil {
		p.Tools = p.Tools[:0]
	}
	for _, t := range req.Parameters.Tools {
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(param.Override[shared.FunctionDefinitionParam](function{t.Name, t.Description, t.Parameters, t.Strict})))
	}
	text, err := p.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// function is a tool. The SDK's own type wants its schema taken apart.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

func (f function) MarshalJSON() ([]byte, error) {
	if f.Parameters == nil {
		f.Parameters = providers.NoArguments
	}
	type plain function
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(plain(f))
	return bytes.TrimSpace(b.Bytes()), err
}

// body is the body of a request as it is sent.
func body(t testing.TB, c *Client, req *providers.Request) []byte {
	t.Helper()
	f, err := c.formOf(req)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := c.body(f, req.Messages)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checkWritten compares a body with the SDK's: byte for byte, but for the
// characters that have several escapes, and invalid ones.
func checkWritten(t *testing.T, c *Client, req *providers.Request) {
	t.Helper()
	got, want := string(body(t, c, req)), written(t, c, req)
	if got == want {
		return
	}
	if !slices.ContainsFunc(req.Messages, func(m providers.Message) bool {
		return strings.ContainsAny(m.Content.Plain(), "\b\f\x7f") || strings.ToValidUTF8(m.Content.Plain(), "") != m.Content.Plain()
	}) {
		t.Errorf("the body %s, the SDK's %s", got, want)
	}
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("the body %s means another than the SDK's %s", got, want)
	}
}

func FuzzMessages(f *testing.F) {
	for _, text := range []string{"", "plain", `a "b" \ c/`, "<b>&amp;</b>", "\n\r\t\b\f\x00\x1f\x7f", "ü€😀", "\u2028 \u2029 \ufffd", "\xff\xc0\xaf\xed\xa0\x80"} {
		f.Add(text)
	}
	c := client(f, "http://localhost")
	f.Fuzz(func(t *testing.T, text string) {
		for _, role := range []string{"system", "developer", "user", "assistant"} {
			checkWritten(t, c, &providers.Request{Model: "m", Messages: []providers.Message{{Role: role, Content: providers.Escape(text)}}})
		}
		m := providers.Media{Data: text, Type: text, Name: text, Detail: text}
		parts := &providers.Request{Messages: []providers.Message{
			pt.Message("user", pt.Text(text), pt.Media(providers.PartImage, m), pt.Media(providers.PartAudio, m), pt.Media(providers.PartFile, m), pt.Media(providers.PartImage, providers.Media{URL: text})),
			pt.Message("assistant", pt.Thinking(text, text), pt.Call(text, text, text)), pt.Message("tool", pt.Result(text, pt.Text(text))),
		}}
		for _, q := range []Quirks{{}, {Chunks: true, ShortIDs: true}, {Thoughts: "reasoning"}, {Thoughts: reasoningDetails}} {
			if sent := body(t, client(t, "http://localhost", func(c *Config) { c.Quirks = q }), parts); !json.Valid(sent) {
				t.Errorf("not JSON: %s", sent)
			}
		}
	})
}

// TestBodiesAreTheSDKs compares all members, and their order, with the SDK's.
func TestBodiesAreTheSDKs(t *testing.T) {
	c := client(t, "http://localhost")
	messages := []providers.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "u"}}
	for _, req := range []providers.Request{
		{},
		{Model: "m"},
		{Messages: messages},
		{Model: "m", Messages: messages, Parameters: pt.Everything()},
		{Model: "m", Messages: messages, Parameters: pt.Everything(), Extra: pt.Extra("tools", `[{"type":"custom"}]`)},
		{Model: "m", Messages: messages, Extra: pt.Extra("a.b", `[1, "x"]`, "model", `"another"`, "stream", "true")},
	} {
		for _, req.Stream = range []bool{false, true} {
			checkWritten(t, c, &req)
		}
	}
}

func TestExtraMayHoldTheMessages(t *testing.T) {
	own := `[{"role":"user","content":[{"type":"text","text":"a"}]}]`
	r := sent(t, &providers.Request{Model: "m", Messages: []providers.Message{{Role: "user", Content: "b"}}, Extra: pt.Extra("messages", own)})
	if want := `{"model":"m","messages":` + own + `}`; r.Body != want {
		t.Errorf("sent %s, want %s", r.Body, want)
	}
}

func TestWhatAnotherClientPreparedIsNotUsed(t *testing.T) {
	req := providers.Request{Model: "m", Parameters: providers.Parameters{TopK: new(int64(1))}}
	one, other := client(t, "http://localhost"), client(t, "http://localhost", func(c *Config) { c.Quirks.NoTopK = true })
	var err error
	if req.Prepared, err = providers.Prepare(one, &req); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`{"messages":[],"model":"m","top_k":1}`, `{"messages":[],"model":"m"}`}, []string{string(body(t, one, &req)), string(body(t, other, &req))}); diff != "" {
		t.Error(diff)
	}
}

func TestWhatCannotBePrepared(t *testing.T) {
	for _, p := range []providers.Parameters{
		{ResponseFormat: &providers.ResponseFormat{Type: providers.FormatJSON}},
		{Tools: pt.Tools()},
	} {
		c := client(t, "http://localhost", func(c *Config) { c.Quirks.NoJSON, c.Quirks.NoTools = true, true })
		req := &providers.Request{Model: "m", Parameters: p}
		_, err := providers.Prepare(c, req)
		_, called := c.Invoke(t.Context(), req)
		if err == nil || called == nil || err.Error() != called.Error() {
			t.Errorf("preparing fails with %v, calling with %v", err, called)
		}
	}
}
