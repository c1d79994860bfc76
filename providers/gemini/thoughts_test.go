package gemini

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// heard reads an answer, and returns the words of its deltas: content as it is,
// ~thinking, !opaque of a thought, #index id name arguments opaque of a piece of a
// call.
func heard(t *testing.T, reply pt.Reply, stream bool) ([]string, providers.Result) {
	t.Helper()
	s, err := client(t, pt.NewUpstream(t).Then(reply).URL).Invoke(t.Context(), &providers.Request{Model: "m", Stream: stream, Messages: hello})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var said []string
	for {
		d, err := s.Next()
		if err == io.EOF {
			return said, s.Result()
		}
		if err != nil {
			t.Fatal(err)
		}
		if d.Thinking != "" {
			said = append(said, "~"+d.Thinking)
		}
		if d.Thought != nil {
			said = append(said, "!"+d.Thought.Opaque)
		}
		if d.Content != "" {
			said = append(said, d.Content)
		}
		for _, c := range d.Calls {
			said = append(said, strings.TrimRight(fmt.Sprintf("#%d %s %s %s %s", c.Index, c.ID, c.Name, c.Arguments, c.Opaque), " "))
		}
	}
}

// parts is an answer, or a chunk of one, with parts.
func parts(list string) string {
	return `{"candidates": [{"content": {"role": "model","parts": [` + list + `]},"finishReason": "STOP"}],"modelVersion": "gemini-3-pro"}`
}

// TestSignaturesComeBack has answers go back to the API as a history: the parts are
// those that it sent.
func TestSignaturesComeBack(t *testing.T) {
	for _, test := range []struct {
		name   string
		chunks []string // parts
		said   string   // of a stream, a | between
		want   string   // the parts that go back
	}{
		{"calls at once", []string{`{"text": "plan","thought": true}`, `{"text": "Let me "}`, `{"text": "see."},{"functionCall": {"id": "x1","name": "f","args": {"a": 1}},"thoughtSignature": "s1+/="},{"functionCall": {"id": "x2","name": "g"}}`},
			`~plan|Let me |see.|#0 x1 f {"a":1} #s1+/=|#1 x2 g {} #`,
			`{"text":"Let me see."},{"functionCall":{"id":"x1","name":"f","args":{"a":1}},"thoughtSignature":"s1+/="},{"functionCall":{"id":"x2","name":"g","args":{}}}`},
		{"a call without an id", []string{`{"functionCall": {"name": "f"},"thoughtSignature": "s1"}`},
			`#0  f {} s1`, `{"functionCall":{"name":"f","args":{}},"thoughtSignature":"s1"}`},
		{"a call without a signature", []string{`{"functionCall": {"id": "x1","name": "f"}}`},
			`#0 x1 f {}`, `{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"}`},
		{"a text's, at its end", []string{`{"text": "plan","thought": true}`, `{"text": "ab"}`, `{"text": "cd"}`, `{"text": "","thoughtSignature": "s2"}`},
			`~plan|ab|cd|!@4,0:text:s2`, `{"text":"abcd"},{"text":"","thoughtSignature":"s2"}`},
		{"a text's, with its last piece", []string{`{"text": "ab"}`, `{"text": "cd","thoughtSignature": "s2"}`},
			`ab|!@2,0:text:s2|cd`, `{"text":"ab"},{"text":"cd","thoughtSignature":"s2"}`},
		{"a text's", []string{`{"text": "plan","thought": true},{"text": "abcd","thoughtSignature": "s2"}`},
			`~plan|!text:s2|abcd`, `{"text":"abcd","thoughtSignature":"s2"}`},
		{"a thought's", []string{`{"text": "plan","thought": true,"thoughtSignature": "s3"}`, `{"text": "ab"}`},
			`~plan|!thought:s3|ab`, `{"text":"plan","thought":true,"thoughtSignature":"s3"},{"text":"ab"}`},
		{"thoughts between", []string{`{"text": "ab"},{"text": "so","thought": true,"thoughtSignature": "s4"},{"text": "cd"},{"functionCall": {"name": "f"},"thoughtSignature": "s5"}`},
			`ab|~so|!@2,0:thought:s4|cd|#0  f {} s5`,
			`{"text":"ab"},{"text":"so","thought":true,"thoughtSignature":"s4"},{"text":"cd"},{"functionCall":{"name":"f","args":{}},"thoughtSignature":"s5"}`},
	} {
		events := make([]string, len(test.chunks))
		for i, c := range test.chunks {
			events[i] = event(parts(c))
		}
		for _, stream := range []bool{true, false} {
			reply := pt.SSE(events...)
			if !stream {
				reply = pt.JSON(200, parts(strings.Join(test.chunks, ",")))
			}
			said, r := heard(t, reply, stream)
			if stream {
				if diff := cmp.Diff(test.said, strings.Join(said, "|")); diff != "" {
					t.Errorf("%s (-want +got):\n%s", test.name, diff)
				}
			}
			m, text := providers.Message{Role: "assistant"}, ""
			for _, th := range r.Thoughts {
				m.Parts = append(m.Parts, pt.Thinking(th.Text, th.Opaque))
			}
			for _, piece := range said {
				if !strings.ContainsAny(piece[:1], "~!#") {
					text += piece
				}
			}
			if text != "" {
				m.Parts = append(m.Parts, pt.Text(text))
			}
			for _, c := range r.ToolCalls {
				m.Parts = append(m.Parts, call(c.ID, c.Name, c.Arguments, c.Opaque))
			}
			got := sent(t, &providers.Request{Model: "gemini-3-pro", Messages: append(hello[:1:1], m)}).Body
			if diff := cmp.Diff(`{"contents":[{"role":"user","parts":[{"text":"Hello"}]},{"role":"model","parts":[`+test.want+`]}]}`, got); diff != "" {
				t.Errorf("%s, stream=%v (-want +got):\n%s", test.name, stream, diff)
			}
		}
	}
}

// TestPiecesOfFunctionCalls holds that arguments are handed out while they come.
func TestPiecesOfFunctionCalls(t *testing.T) {
	said, r := heard(t, pt.SSE(
		event(parts(`{"functionCall": {"id": "x1","name": "f","willContinue": true},"thoughtSignature": "s"}`)),
		partial(`{"jsonPath": "$.a","stringValue": "New \ud83d","willContinue": true}`),
		partial(`{"jsonPath": "$.a","stringValue": "\ude00 \"Delhi\""}`),
		partial(`{"jsonPath": "$.b[0].c","numberValue": 2.50},{"jsonPath": "$.b[1].c","boolValue": true}`),
		partial(`{"jsonPath": "$.d"}`), partial(`{"jsonPath": "$.e","nullValue": "NULL_VALUE"}`),
		callEnd, finishChunk("STOP", "", 3),
	), true)
	want := []string{`#0 x1 f  #s`, `#0   {"a":"New`, `#0   😀 \"Delhi\"`, `#0   ","b":[{"c":2.50},{"c":true`, `#0   }],"d":`, `#0   null,"e":null`, `#0   }`}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]providers.ToolCall{{ID: "x1", Name: "f", Arguments: `{"a":"New 😀 \"Delhi\"","b":[{"c":2.50},{"c":true}],"d":null,"e":null}`, Opaque: "#s"}}, r.ToolCalls); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLogprobs(t *testing.T) {
	const result = `,"logprobsResult": {"chosenCandidates": [{"token": "é","tokenId": 7,"logProbability": -0.5}],"topCandidates": [{"candidates": [{"token": "é","logProbability": -0.5},{"token": "\"","logProbability": -1.5}]}]}`
	const want = `{"token":"é","logprob":-0.5,"bytes":[195,169],"top_logprobs":[{"token":"é","logprob":-0.5,"bytes":[195,169]},{"token":"\"","logprob":-1.5,"bytes":[34]}]}`
	chunk := func(text string) string { return strings.Replace(textChunk(text), `,"index"`, result+`,"index"`, 1) }
	vertex := func(c *Config) { c.Upstream.BaseURL.Path += "/projects/p/locations/global/publishers/google" }
	two := int64(2)
	for _, stream := range []bool{true, false} {
		reply := pt.SSE(chunk("é"), strings.Replace(chunk("é"), `"logProbability": -0.5}],"top`, `"tokenId": 7}],"top`, 1), stop)
		if !stream {
			reply = pt.JSON(200, strings.Replace(answer("é", "STOP", 2).Text(), `"index"`, result[1:]+`,"index"`, 1))
		}
		up := pt.NewUpstream(t).Then(reply)
		req := &providers.Request{Model: "gemini-2.5-flash", Stream: stream, Messages: hello}
		req.Parameters.Logprobs = &two
		s, err := client(t, up.URL, vertex).Invoke(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got := ""
		for err == nil {
			var d providers.Delta
			if d, err = s.Next(); stream {
				got += string(d.Logprobs)
			}
		}
		wanted := `[` + want + `][` + strings.Replace(want, "-0.5", "0", 1) + `]`
		if !stream {
			got, wanted = string(s.Result().Logprobs), `[`+want+`]`
		} else if r := s.Result().Logprobs; r != nil {
			t.Errorf("a stream's result has %s", r)
		}
		if got != wanted || err != io.EOF {
			t.Errorf("stream=%v: %s, error %v", stream, got, err)
		}
		if body := up.Requests()[0].Body; !strings.Contains(body, `"generationConfig":{"logprobs":2,"responseLogprobs":true}`) {
			t.Errorf("asked for with %s", body)
		}
	}
	for model, change := range map[string]func(*Config){"gemini-2.5-flash": func(*Config) {}, "gemini-3-pro": vertex} {
		req := &providers.Request{Model: model, Messages: hello}
		req.Parameters.Logprobs = &two
		r, result := pt.Sent(t, answer("fine", "STOP", 1), req, func(base string) providers.Provider { return client(t, base, change) })
		if strings.Contains(r.Body, "ogprobs") || len(result.LeftOut) != 1 || result.LeftOut[0] != "logprobs" {
			t.Errorf("%s: %s, left out %q", model, r.Body, result.LeftOut)
		}
	}
	if got := joinLogprobs(joinLogprobs(nil, []byte("[1]")), []byte("[2]")); string(got) != "[1,2]" {
		t.Errorf("joined: %s", got)
	}
}

func TestGenerations(t *testing.T) {
	for model, want := range map[string]int{
		"gemini-3-pro-preview": 3, "models/gemini-3.1-pro": 3, "gemini-4-argon": 4, "gemini-2.5-flash": 2, "gemini-flash-latest": 3,
		"gemini-10-x": 10, "gemini-exp": 0, "gemma-3-27b": 0, "tunedModels/mine": 0, "": 0,
	} {
		if got := generationOf(model); got != want {
			t.Errorf("%s: %d", model, got)
		}
	}
}
