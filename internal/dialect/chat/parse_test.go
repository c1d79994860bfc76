package chat

import (
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

func parse(t testing.TB, body string) (*dialect.Call, *writer, *wire.Error) {
	t.Helper()
	c, w, err := dialecttest.Parse(t, Dialect, body)
	if err != nil {
		return nil, nil, err
	}
	return c, w.(*writer), nil
}

func TestParse(t *testing.T) {
	c, w, err := parse(t, `{"model":"support/chat@nl","stream":true,"stream_options":{"include_usage":true,"include_obfuscation":true},
		"messages":[{"role":"user","content":"Hi","name":"ann"}],"context":{"locale":"nl"},"variables":{"company":"Acme"},"metadata":{"run":"7"},
		"user":"u1","safety_identifier":"u2","max_completion_tokens":9,"temperature":0.5,"n":1,"modalities":["text"],"store":false,"service_tier":"auto","prompt_cache_key":"k","audio":null,"logit_bias":{},
		"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"required"}`)
	if err != nil {
		t.Fatal(err)
	}
	if c.Endpoint != "support/chat" || c.Variant != "nl" || c.EndpointParam != "model" || c.TurnsParam != "messages" || !c.Stream || !w.usage || c.User != "u2" ||
		c.Context.Get("locale") == nil || c.Variables.Get("company") == nil || c.Metadata.Get("run") == nil {
		t.Errorf("%+v", c)
	}
	if diff := cmp.Diff([]providers.Message{{Role: "user", Content: "Hi"}}, c.Turns); diff != "" {
		t.Error(diff)
	}
	if p := c.Parameters; *p.MaxTokens != 9 || *p.Temperature != 0.5 || p.Tools[0].Name != "f" || p.ToolChoice.Mode != providers.ToolsRequired {
		t.Errorf("%+v", p)
	}
	if diff := cmp.Diff([]dialect.Given{{Name: "max_tokens", Param: "max_completion_tokens"}, {Name: "temperature", Param: "temperature"}, {Name: "service_tier", Param: "service_tier"}, {Name: "prompt_cache_key", Param: "prompt_cache_key"}, {Name: "tools", Param: "tools"}, {Name: "tool_choice", Param: "tool_choice"}}, c.Given); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"stream_options.include_obfuscation", "messages[0].name", "user"}, c.Ignored); diff != "" {
		t.Error(diff)
	}
}

func TestDocumented(t *testing.T) { dialecttest.CheckDocumented(t, members.List) }

// TestMetadataIsContext holds that callers whose library has no context reach the rules.
func TestMetadataIsContext(t *testing.T) {
	c, _, err := parse(t, `{"model":"a","metadata":{"plan":"pro"},"stream_options":{"include_usage":true},"tools":[]}`)
	if err != nil || c.Context == nil || c.Context != c.Metadata || c.Turns != nil || c.Given != nil || !slices.Equal(c.Ignored, []string{"stream_options"}) {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestRefused(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                                  `: The body must be a JSON object, not an array.`,
		`{}`:                                  `model: "model" is required: the key of the endpoint.`,
		`{"model":1}`:                         `model: "model" must be a string, not a number.`,
		`{"model":"a b"}`:                     `model: "model" is "a b", but must be the key of an endpoint, or KEY@VARIANT: each 1 to 256 of the characters A-Z a-z 0-9 . _ : / -`,
		`{"model":"a@"}`:                      `model: "model" is "a@", but must be the key of an endpoint, or KEY@VARIANT: each 1 to 256 of the characters A-Z a-z 0-9 . _ : / -`,
		`{"model":"a@b@c"}`:                   `model: "model" is "a@b@c", but must be the key of an endpoint, or KEY@VARIANT: each 1 to 256 of the characters A-Z a-z 0-9 . _ : / -`,
		`{"model":"a","n":2}`:                 `n: "n" must be 1: an endpoint has one answer. Send a request for each answer.`,
		`{"model":"a","n":"1"}`:               `n: "n" must be 1: an endpoint has one answer. Send a request for each answer.`,
		`{"model":"a","stream":"yes"}`:        `stream: "stream" must be true or false, not a string.`,
		`{"model":"a","stream_options":true}`: `stream_options: "stream_options" must be an object, not a boolean.`,
		`{"model":"a","stream_options":{"include_usage":1}}`:        `stream_options.include_usage: "stream_options.include_usage" must be true or false, not a number.`,
		`{"model":"a","stream_options":{"more":1}}`:                 `stream_options.more: "stream_options.more" is not known. Leave it out.`,
		`{"model":"a","modalities":["text","audio"]}`:               `modalities: "modalities" must be ["text"]: answers are text.`,
		`{"model":"a","service_tier":"scale"}`:                      `service_tier: "service_tier" must be auto, default, flex, priority.`,
		`{"model":"a","functions":[]}`:                              `functions: "functions" is not accepted: OpenAI has replaced it. Send tools.`,
		`{"model":"a","logit_bias":{"1":1}}`:                        `logit_bias: "logit_bias" is not accepted: tokens differ from model to model, and the endpoint picks the model. Have the definition set it in extra.`,
		`{"model":"a","provider":{"order":[]}}`:                     `provider: "provider" is not known. Leave it out.`,
		`{"model":"a","user":1}`:                                    `user: "user" must be a string, not a number.`,
		`{"model":"a","user":"` + strings.Repeat("u", 513) + `"}`:   `user: "user" has 513 bytes, but may have 512.`,
		`{"model":"a","context":[]}`:                                `context: "context" must be an object, not an array.`,
		`{"model":"a","variables":1}`:                               `variables: "variables" must be an object, not a number.`,
		`{"model":"a","metadata":"x"}`:                              `metadata: "metadata" must be an object, not a string.`,
		`{"model":"a","temperature":3}`:                             `temperature: "temperature" must be 0 to 2.`,
		`{"model":"a","tools":[{"type":"custom"}]}`:                 `tools[0].type: "tools[0].type" is "custom", but must be function: the gateway has no other tools.`,
		`{"model":"a","store":1}`:                                   `store: "store" must be true or false, not a number.`,
		`{"model":"a","messages":[{"role":"function"}]}`:            `messages[0].role: "messages[0].role" is "function", a role that OpenAI has replaced. Send the role tool with tool_call_id, after a message of the assistant with tool_calls.`,
		`{"model":"a","stream":true,"stream":false}`:                `stream: The member "stream" appears more than once in its object. Send it once.`,
		`{"model":"a","tool_choice":{"type":"function","name":""}}`: `tool_choice.function: "tool_choice.function" is required: an object.`,
	} {
		c, _, err := parse(t, in)
		if err = dialecttest.Strict(c, err); err == nil {
			t.Errorf("%s is not refused", in)
		} else if got := err.Param + ": " + err.Message; got != want {
			t.Errorf("%s\ngot  %s\nwant %s", in, got, want)
		}
	}
}

// TestMembersAreWhatParseDoes sends each member of the table, with a value that OpenAI
// takes, and sees what becomes of it.
func TestMembersAreWhatParseDoes(t *testing.T) {
	samples := map[string]string{
		"messages": `[{"role":"user","content":"a"}]`, "stream": `true`, "stream_options": `{"include_usage":true}`, "context": `{"a":1}`, "variables": `{"a":1}`, "metadata": `{"a":"1"}`, "user": `"u"`, "safety_identifier": `"u"`,
		"temperature": `1`, "top_p": `1`, "top_k": `1`, "frequency_penalty": `1`, "presence_penalty": `1`, "max_completion_tokens": `1`, "max_tokens": `1`, "seed": `1`, "stop": `"a"`, "reasoning_effort": `"low"`, "response_format": `{"type":"json_object"}`,
		"tools": `[{"type":"function","function":{"name":"f"}}]`, "tool_choice": `"auto"`, "parallel_tool_calls": `true`, "logprobs": `true`, "top_logprobs": `1`, "n": `1`, "modalities": `["text"]`, "store": `true`, "service_tier": `"auto"`,
		"prompt_cache_key": `"k"`, "prompt_cache_options": `{}`, "prompt_cache_retention": `"24h"`, "cache_control": `{"type":"ephemeral"}`, "prediction": `{"type":"content","content":"a"}`, "logit_bias": `{"1":1}`, "web_search_options": `{}`,
	}
	for _, m := range members.List {
		if m.Path == "model" {
			continue
		}
		sample, ok := samples[m.Path]
		if !ok && m.Fate != dialect.Refused {
			t.Errorf("%s has no sample", m.Path)
		} else if !ok {
			sample = `{"a":1}`
		}
		// What else a member needs.
		beside := map[string]string{"stream_options": `"stream":true,`, "top_logprobs": `"logprobs":true,`, "cache_control": `"messages":[{"role":"user","content":"a"}],`}[m.Path]
		plain, _, err := parse(t, `{"model":"a",`+beside+`"user":null}`)
		if err != nil {
			t.Fatal(err)
		}
		c, w, err := parse(t, `{"model":"a",`+beside+`"`+m.Path+`":`+sample+`}`)
		got := dialect.Mapped
		switch {
		case err != nil && err.Param == m.Path:
			got = dialect.Refused
		case err != nil:
			t.Errorf("%s: %v", m.Path, err)
		case slices.Contains(c.Ignored, m.Path):
			got = dialect.Ignored
		case !reflect.DeepEqual(c.Parameters, plain.Parameters) && len(c.Given) > 0 || c.Turns != nil:
			got = dialect.Forwarded
		case m.Path == "n", m.Path == "modalities":
		case c.Stream == plain.Stream && c.User == "" && c.Context == nil && c.Variables == nil && !w.usage:
			t.Errorf("%s has no effect", m.Path)
		}
		if got != m.Fate {
			t.Errorf("%s is %s, the table says %s", m.Path, got, m.Fate)
		}
	}
}

// TestMembersAreOpenAIs holds that the table has all members of OpenAI's library.
func TestMembersAreOpenAIs(t *testing.T) {
	names := map[string]bool{"stream": true}
	for f := range reflect.TypeFor[openai.ChatCompletionNewParams]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names[name] = true
		}
	}
	if len(names) < 35 {
		t.Fatalf("only %d members were found", len(names))
	}
	for _, ours := range []string{"context", "variables", "top_k", "cache_control"} {
		names[ours] = true
	}
	for _, m := range members.List {
		if !names[m.Path] {
			t.Errorf("%s is no member, or twice in the table", m.Path)
		}
		delete(names, m.Path)
	}
	for name := range names {
		t.Errorf("the table lacks %s", name)
	}
}

func conversation() string {
	text := strings.Repeat("The quick brown fox jumps over the dog.\\n", 200)
	call := `{"id":"c7","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Bern\"}"}}`
	turn := []string{
		`{"role":"user","content":"` + text + `"}`,
		`{"role":"assistant","content":null,"tool_calls":[` + call + `]}`,
		`{"role":"tool","tool_call_id":"c7","content":"` + text + `"}`,
		`{"role":"assistant","content":"` + text[:4100] + `"}`,
	}
	return `{"model":"a","messages":[` + strings.Join(slices.Repeat(turn, 50), ",") + `]}`
}

const small = `{"model":"support","messages":[{"role":"user","content":"Hello"}],"temperature":0.5,"max_tokens":100,"stream":true}`

func TestParseAllocations(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		ceiling float64
	}{
		"small": {small, 7}, "200 messages": {conversation(), 14},
	} {
		r := dialecttest.Request(t, c.body)
		if n := testing.AllocsPerRun(20, func() { _, _, _ = dialect.Parse(Dialect, r) }); n > c.ceiling {
			t.Errorf("%s: %v allocations, at most %v are meant", name, n, c.ceiling)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for name, body := range map[string]string{"small": small, "200": conversation()} {
		b.Run(name, func(b *testing.B) {
			r := dialecttest.Request(b, body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := dialect.Parse(Dialect, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add(`{"model":"a@b","stream":true,"stream_options":{"include_usage":true},"metadata":{},"n":1,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto","store":true}`)
	f.Fuzz(func(t *testing.T, body string) {
		c, _, err := parse(t, body)
		if err != nil {
			if err.Status < 400 || err.Status > 499 || err.Message == "" {
				t.Errorf("%+v", err)
			}
			return
		}
		if !wire.LegalKey(c.Endpoint) || c.Variant != "" && !wire.LegalKey(c.Variant) {
			t.Errorf("%q, %q", c.Endpoint, c.Variant)
		}
		for _, g := range c.Given {
			if g.Name == "" || g.Param == "" {
				t.Errorf("%+v", c.Given)
			}
		}
	})
}

// TestPathsOutliveTheRequest checks that the names in an error and in the list of
// parameters are no views of the request: the error is written after the request was
// released.
func TestPathsOutliveTheRequest(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"a","messages":[],"user":7}`:                  "user",
		`{"model":"a","messages":[],"temperature":9}`:           "temperature",
		`{"model":"a","messages":[],"temperature":1}`:           "temperature",
		`{"model":"a","messages":[],"max_tokens":1}`:            "max_tokens",
		`{"model":"a","messages":[],"unknown_member":1}`:        "unknown_member",
		`{"model":"a","messages":[],"prompt_cache_options":{}}`: "prompt_cache_options",
	} {
		r := dialecttest.Request(t, body)
		c, _, err := dialect.Parse(Dialect, r)
		other := `{"` + strings.Repeat("x", len(body)-len(`{"":1}`)) + `":1}`
		if problem := r.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(other)), 1<<20, 0, 0, nil); problem != nil {
			t.Fatal(problem)
		}
		if _, problem := r.Object(); problem != nil {
			t.Fatal(problem)
		}
		var got []string
		switch {
		case err != nil:
			got = []string{err.Param}
		case len(c.Given) > 0:
			got = []string{c.Given[0].Param, c.Given[0].Name}
		default:
			got = c.Ignored
		}
		for _, path := range got {
			if path != want {
				t.Errorf("%s: the path is %q after the next request", body, path)
			}
		}
		if len(got) == 0 {
			t.Errorf("%s: no path", body)
		}
	}
}
