package openai

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// module makes the module of a service as Caddy does.
func module(t *testing.T, service string) *Module {
	t.Helper()
	info, err := caddy.GetModule("cadenza.providers." + service)
	if err != nil {
		t.Fatal(err)
	}
	module := info.New()
	if got := module.CaddyModule().ID; got != info.ID {
		t.Errorf("the module of %s says that it is %s", info.ID, got)
	}
	m, ok := module.(*Module)
	if !ok {
		m = reflect.ValueOf(module).Elem().FieldByName("Module").Addr().Interface().(*Module)
	}
	if got := m.known().Name; got != service {
		t.Errorf("the module of %s calls %s", info.ID, got)
	}
	return m
}

// The members that each service gets of one request that uses everything.
func TestServices(t *testing.T) {
	t.Setenv("OPENAI_TEST_KEY", "sk-0123456789")
	const (
		messages = `"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"system","content":"c"},{"role":"user","content":"d"}]`
		turns    = `"messages":[{"role":"system","content":"b\n\nc"},{"role":"user","content":"a\n\nd"}]`
		sampling = `"temperature":0.5,"top_p":0.9,"frequency_penalty":-0.5,"presence_penalty":0.25`
		usage    = `"stream_options":{"include_usage":true}`
		before   = `"max_tokens":400`
		now      = `"max_completion_tokens":400`
		topK     = `"top_k":40`
	)
	want := map[string][]string{
		"openai":     {`"messages":[{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"developer","content":"c"},{"role":"user","content":"d"}]`, before, topK, usage},
		"cohere":     {messages, before},
		"deepseek":   {messages, before, usage},
		"fireworks":  {messages, before, topK, usage},
		"groq":       {messages, now, usage},
		"mistral":    {messages, before},
		"ollama":     {messages, before, usage},
		"openrouter": {messages, before, topK, usage},
		"perplexity": {turns, before, topK},
		"together":   {messages, before, topK, usage},
		"vllm":       {messages, before, topK, usage},
		"xai":        {messages, now, usage},
	}
	if len(want) != len(services) {
		t.Errorf("%d services, %d expectations", len(services), len(want))
	}
	for _, service := range services {
		t.Run(service.Name, func(t *testing.T) {
			up := pt.NewUpstream(t).Always(pt.OpenAIStream("fine"))
			m := module(t, service.Name)
			if err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser(service.Name + " {\n api_key {env.OPENAI_TEST_KEY}\n base_url " + up.URL + "/v1\n}")); err != nil {
				t.Fatal(err)
			}
			pt.Provisioned(t, m)
			req := providers.Request{
				Model: "m", Stream: true,
				Messages: []providers.Message{{Role: "user", Content: "a"}, {Role: "system", Content: "b"}, {Role: "developer", Content: "c"}, {Role: "user", Content: "d"}},
				Parameters: providers.Parameters{
					Temperature: new(0.5), MaxTokens: new(int64(400)), TopP: new(0.9), TopK: new(int64(40)),
					FrequencyPenalty: new(-0.5), PresencePenalty: new(0.25),
				},
			}
			before := append([]providers.Message(nil), req.Messages...)
			s, err := m.Invoke(t.Context(), &req)
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			if diff := cmp.Diff(before, req.Messages); diff != "" {
				t.Errorf("the request's messages changed: %s", diff)
			}
			var wanted, got any
			text := `{"model":"m","stream":true,` + sampling + "," + strings.Join(want[service.Name], ",") + `}`
			if err := json.Unmarshal([]byte(text), &wanted); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(up.Requests()[0].Body), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := up.Requests()[0].Header.Get("Authorization"); got != "Bearer sk-0123456789" {
				t.Errorf("Authorization %q", got)
			}
		})
	}
}

func TestAServiceInItsOwnPlace(t *testing.T) {
	t.Setenv("OPENAI_TEST_KEY", "sk-0123456789")
	for _, service := range services {
		m := module(t, service.Name)
		if err := pt.Provision(t, m); (err == nil) != service.Keyless || err != nil && !strings.Contains(err.Error(), "api_key is required") {
			t.Errorf("%s without a key: %v", service.Name, err)
		}
		m = module(t, service.Name)
		m.APIKey = "{env.OPENAI_TEST_KEY}"
		if err := pt.Provision(t, m); err != nil {
			t.Errorf("%s: %v", service.Name, err)
		}
		m = module(t, service.Name)
		m.APIKey, m.Organization = "{env.OPENAI_TEST_KEY}", "org-1"
		if err := pt.Provision(t, m); (err == nil) != (service.Name == "openai") {
			t.Errorf("%s with an organization: %v", service.Name, err)
		}
		m = module(t, service.Name)
		err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser(service.Name + " {\n colour red\n}"))
		if err == nil || !strings.Contains(err.Error(), service.Name+" provider") {
			t.Errorf("%s: error %v", service.Name, err)
		}
	}
}

func TestErrorsNameTheService(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.Reply{Status: 500})
	m := module(t, "groq")
	m.BaseURL = up.URL
	pt.Provisioned(t, m)
	_, err := m.Invoke(t.Context(), &providers.Request{Model: "m"})
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Provider != "groq" {
		t.Errorf("error %v", err)
	}
}

func TestFinishReasonsOfServices(t *testing.T) {
	for word, want := range map[string]providers.FinishReason{
		"stop": "stop", "eos": "stop", "eos_token": "stop", "end_turn": "stop", "length": "length", "model_length": "length", "max_tokens": "length",
		"content_filter": "content_filter", "content_filter: RECITATION": "content_filter", "tool_calls": "tool_calls", "tool_use": "tool_calls",
	} {
		o := subject.Receive(t, pt.SSE(pt.ContentChunk("a"), pt.FinishChunk(word), pt.Done), true)
		if o.Err != nil || o.Result.FinishReason != want {
			t.Errorf("%s: %q, %v", word, o.Result.FinishReason, o.Err)
		}
	}
	for word, want := range map[string]providers.ErrorKind{
		"insufficient_system_resource": providers.Reported, "error": providers.Reported, "function_call": providers.Invalid, "tired": providers.Invalid,
	} {
		for _, stream := range []bool{true, false} {
			reply := pt.SSE(pt.ContentChunk("a"), pt.FinishChunk(word), pt.Done)
			if !stream {
				reply = pt.JSON(200, `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"`+word+`"}]}`)
			}
			o := subject.Receive(t, reply, stream)
			if e, ok := errors.AsType[*providers.Error](o.Err); !ok || e.Kind != want || !strings.Contains(e.Error(), word) {
				t.Errorf("stream=%v, %s: error %v", stream, word, o.Err)
			}
		}
	}
}

func TestASecretThatChanges(t *testing.T) {
	key, failure := "one", error(nil)
	for _, header := range []string{"", "api-key"} {
		up := pt.NewUpstream(t).Always(pt.OpenAIError(401, "", "", "bad key two"))
		c := client(t, up.URL, func(c *Config) {
			c.Key, c.KeyHeader = "", header
			c.Secret = func() (string, error) { return key, failure }
		})
		var err error
		for _, key = range []string{"one", "two"} {
			_, err = c.Invoke(t.Context(), &providers.Request{Model: "m"})
		}
		for i, want := range []string{"one", "two"} {
			got := up.Requests()[i].Header
			if header == "" && got.Get("Authorization") != "Bearer "+want || header != "" && (got.Get(header) != want || got.Get("Authorization") != "") {
				t.Errorf("call %d: headers %v", i, got)
			}
		}
		if strings.Contains(err.Error(), "two") {
			t.Errorf("the error holds the key: %v", err)
		}
		key, failure = "", errors.New("TOKEN is empty")
		if _, err := c.Invoke(t.Context(), &providers.Request{Model: "m"}); err == nil || len(up.Requests()) != 2 {
			t.Errorf("a call without a key: %v", err)
		}
		key, failure = "a\nb", nil
		if _, err := c.Invoke(t.Context(), &providers.Request{Model: "m"}); err == nil || len(up.Requests()) != 2 {
			t.Errorf("a call with a bad key: %v", err)
		}
	}
}

// TestAKeyThatChangesDuringACall holds that the log does not show the key that
// was sent, even where another one took its place.
func TestAKeyThatChangesDuringACall(t *testing.T) {
	for name, reply := range map[string]pt.Reply{
		"an error answer": pt.OpenAIError(401, "", "", "bad key the-old-one"),
		"an error inside": pt.JSON(200, `{"error":{"message":"bad key the-old-one"}}`),
		"nonsense":        pt.JSON(200, `{"bad key":"the-old-one"`),
	} {
		up := pt.NewUpstream(t).Always(reply)
		keys := []string{"the-old-one", "the-new-one"}
		c := client(t, up.URL, func(c *Config) {
			c.Key = ""
			c.Secret = func() (string, error) {
				key := keys[0]
				keys = keys[min(1, len(keys)-1):]
				return key, nil
			}
		})
		s, err := c.Invoke(t.Context(), &providers.Request{Model: "m"})
		if err == nil {
			_, err = s.Next()
			s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "the-old-one") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDocumentationListsEveryService(t *testing.T) {
	text, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 8 {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		rows[cells[1]] = cells[2:7]
	}
	for _, service := range services[1:] {
		row := rows[service.Name]
		if row == nil {
			t.Errorf("%s is not documented", service.Name)
			continue
		}
		q := service.Quirks
		if row[0] != service.BaseURL || (row[1] == "optional") != service.Keyless || (row[2] == "max_completion_tokens") != q.MaxCompletionTokens ||
			(row[3] == "top_k") != q.NoTopK || strings.Contains(row[4], "no `stream_options`") != q.NoStreamOptions {
			t.Errorf("%s is documented as %q, but is %+v", service.Name, row, service)
		}
	}
}

// TestEfforts compares the table of reasoning efforts with the requests sent.
func TestEfforts(t *testing.T) {
	text, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "### Reasoning effort")
	var efforts []string
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 8 {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " ")
		}
		if efforts == nil {
			efforts = cells[1:]
		}
		for name := range strings.SplitSeq(cells[0], ", ") {
			rows[strings.Trim(name, "`")] = cells[1:]
		}
	}
	if len(efforts) != 7 {
		t.Fatalf("the efforts are %q", efforts)
	}
	for _, service := range services {
		row := rows[service.Name]
		if row == nil {
			t.Errorf("%s has no row", service.Name)
			continue
		}
		for i, effort := range efforts {
			req := providers.Request{Model: "m", Messages: []providers.Message{{Role: "user", Content: "u"}}, Parameters: providers.Parameters{ReasoningEffort: strings.Trim(effort, "`")}}
			got := ask(t, service.Quirks, req)
			word := strings.Trim(got.body["reasoning_effort"], `"`)
			if got.body["thinking"] == `{"type":"disabled"}` {
				word = "thinking off"
			}
			if want := strings.Trim(row[i], "`"); word != want || got.leftOut != nil {
				t.Errorf("%s: %s is sent as %q, documented as %q; left out %q", service.Name, effort, word, want, got.leftOut)
			}
		}
	}
}

func TestEffortsByModelOfMistral(t *testing.T) {
	for model, takes := range map[string]bool{
		"mistral-small-latest": true, "mistral-small-2603": true, "mistral-medium-3-5": true, "mistral-large-4-0": true,
		"mistral-small-2506": false, "mistral-medium-2508": false, "mistral-large-2512": false, "magistral-medium-2509": false,
		"open-mistral-7b": false, "codestral-latest": false, "ministral-8b-latest": false, "pixtral-12b-2409": false, "mistral-nemo": false,
	} {
		if fixed.MatchString(model) == takes {
			t.Errorf("%s: takes an effort is not %v", model, takes)
		}
	}
}

// sniffer keeps the request that it would send.
type sniffer struct {
	url, body string
}

func (s *sniffer) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	s.url, s.body = r.URL.String(), string(body)
	return nil, errors.Join(err, errors.New("not sent"))
}

// TestOpenAIItself checks the calls of a client with nothing but a key, in
// the words of OpenAI's reference, and those of OpenAI's regions.
func TestOpenAIItself(t *testing.T) {
	const official = "https://api.openai.com/v1"
	checkOpenAI(t, Config{}, official)
	for _, region := range []string{"https://eu.api.openai.com/v1", "https://US.api.openai.com/v1"} {
		checkOpenAI(t, Config{Upstream: upstream.Config{BaseURL: pt.URL(t, region)}}, region)
	}
	if !isOpenAI(pt.URL(t, official)) || isOpenAI(pt.URL(t, "https://api.openai.com.example/v1")) || isOpenAI(pt.URL(t, "https://myapi.openai.com/v1")) {
		t.Error("another host is taken for OpenAI's")
	}
}

func checkOpenAI(t *testing.T, config Config, base string) {
	t.Helper()
	config.Key = "sk-test-0123456789abcdef"
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	for model, effort := range map[string]bool{"gpt-4o-mini": false, "gpt-5.1": true} {
		var sent sniffer
		c.HTTP.Transport = &sent
		k := int64(7)
		req := &providers.Request{Model: model, Messages: []providers.Message{{Role: "user", Content: "u"}}}
		req.Parameters = providers.Parameters{ReasoningEffort: "low", MaxTokens: &k, TopK: &k}
		if _, err := c.Invoke(t.Context(), req); err == nil {
			t.Fatal("answered")
		}
		if !strings.EqualFold(sent.url, base+"/chat/completions") {
			t.Errorf("sent to %s", sent.url)
		}
		if strings.Contains(sent.body, "reasoning_effort") != effort || !strings.Contains(sent.body, "max_completion_tokens") || strings.Contains(sent.body, "top_k") {
			t.Errorf("%s: %s", model, sent.body)
		}
	}
}
