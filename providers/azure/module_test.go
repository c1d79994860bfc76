package azure

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCaddyfile(t *testing.T) {
	pt.CheckCaddyfile[Module](t, "azure", []pt.Caddyfile{
		{"azure {\n endpoint https://x.openai.azure.com\n api_key {env.KEY}\n}", `{"endpoint":"https://x.openai.azure.com","api_key":"{env.KEY}"}`, ""},
		{"azure {\n endpoint https://x.openai.azure.com/\n token {file./run/token}\n api responses\n allow_private\n proxy http://proxy:3128\n}", `{"endpoint":"https://x.openai.azure.com/","token":"{file./run/token}","api":"responses","allow_private":true,"proxy":"http://proxy:3128"}`, ""},
		{"azure {\n api_version 2024-10-21\n}", "", ` provider option "api_version"`},
		{"azure {\n endpoint\n}", "", "argument"},
		{"azure {\n endpoint a b\n}", "", "argument"},
		{"azure {\n endpoint a\n endpoint b\n}", "", "twice"},
		{"azure {\n endpoint \"\"\n}", "", "empty"},
	})
}

func TestProvision(t *testing.T) {
	const endpoint = "https://x.openai.azure.com"
	pt.CheckProvision(t, &providers.Request{Model: "m"}, nil, []pt.Provisioning[Module]{
		{"a key", Module{Endpoint: endpoint, APIKey: pt.Key}, "", ""},
		{"a token", Module{Endpoint: endpoint, Token: pt.Key}, "", ""},
		{"no key yet", Module{Endpoint: endpoint, APIKey: pt.NoKey}, "", "PROVIDERTEST_NO_KEY"},
		{"no token yet", Module{Endpoint: endpoint, Token: "{file./nonexistent}"}, "", "/nonexistent"},
		{"neither", Module{Endpoint: endpoint}, "api_key or token", ""},
		{"both", Module{Endpoint: endpoint, APIKey: pt.Key, Token: pt.Key}, "not both", ""},
		{"a literal", Module{Endpoint: endpoint, APIKey: "0123456789abcdef"}, "must be a reference", ""},
		{"no endpoint", Module{APIKey: pt.Key}, "endpoint is required", ""},
		{"an API that is none", Module{Endpoint: endpoint, APIKey: pt.Key, API: "completions"}, `api is chat or responses, not "completions"`, ""},
		{"an endpoint that is none", Module{Endpoint: "x.openai.azure.com", APIKey: pt.Key}, "endpoint must begin with https://", ""},
		{"an endpoint with a query", Module{Endpoint: endpoint + "/openai/v1?api-version=preview", APIKey: pt.Key}, "endpoint", ""},
		{"an endpoint with a deployment", Module{Endpoint: endpoint + "/openai/deployments/gpt/chat/completions", APIKey: pt.Key}, "endpoint must end before", ""},
		{"an endpoint with half of the path", Module{Endpoint: endpoint + "/openai/", APIKey: pt.Key}, "endpoint must end before /openai/: the gateway adds the rest itself", ""},
		{"a proxy that is none", Module{Endpoint: endpoint, APIKey: pt.Key, Connection: httpmodule.Connection{Proxy: "proxy:1"}}, "proxy", ""},
	})
}

// module makes a provisioned module with an upstream.
func module(t *testing.T, up *pt.Upstream, change ...func(*Module)) *Module {
	t.Helper()
	t.Setenv("PROVIDERTEST_KEY", "0123456789abcdef")
	m := &Module{Endpoint: up.URL, APIKey: pt.Key}
	for _, f := range change {
		f(m)
	}
	return pt.Provisioned(t, m)
}

// Azure's stream begins with a chunk about the prompt, without a choice, and
// has the filters' findings in each chunk.
const promptFilter = `data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"},"jailbreak":{"filtered":false,"detected":false}}}]}` + "\n\n"

func filtered(chunk string) string {
	return strings.Replace(chunk, `{"index":0,`, `{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"index":0,`, 1)
}

func stream(words ...string) pt.Reply {
	r := pt.OpenAIStream(words...)
	for i := range r.Body {
		r.Body[i] = filtered(r.Body[i])
	}
	r.Body = append([]string{promptFilter}, r.Body...)
	return r
}

func TestContract(t *testing.T) {
	for name, secret := range map[string]func(*Module, secret.Reference){
		"key":   func(m *Module, r secret.Reference) { m.APIKey, m.Token = r, "" },
		"token": func(m *Module, r secret.Reference) { m.APIKey, m.Token = "", r },
	} {
		t.Run(name, func(t *testing.T) {
			contract := func(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
				if b.Thought != nil {
					return nil
				}
				up := pt.NewUpstream(t).Play(b, func(r pt.Request) pt.Reply {
					return behave(b, strings.Contains(r.Body, `"stream":true`))
				})
				return module(t, up, func(m *Module) {
					if b.Key == "" {
						b.Key = m.APIKey
					}
					secret(m, b.Key)
				})
			}
			pt.Run(t, contract)
			pt.CheckTable(t, "azure", contract)
		})
	}
}

// behave speaks the contract's behaviours in Azure's wire format, which is
// OpenAI's with a verdict of the content filter in each chunk.
func behave(b pt.Behaviour, streamed bool) pt.Reply {
	r := pt.OpenAIBehaviour(b, streamed)
	if !streamed || b.Status != 0 {
		return r
	}
	for i := range r.Body {
		r.Body[i] = filtered(r.Body[i])
	}
	r.Body = append([]string{promptFilter}, r.Body...)
	return r
}

func TestContractOfResponses(t *testing.T) {
	pt.Run(t, func(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
		up := pt.NewUpstream(t).Play(b, func(r pt.Request) pt.Reply {
			if r.Path != "/openai/v1/responses" {
				return pt.OpenAIError(404, "", "404", "Resource not found")
			}
			return pt.ResponsesBehaviour(b, strings.Contains(r.Body, `"stream":true`))
		})
		return module(t, up, func(m *Module) {
			if m.API = openai.APIResponses; b.Key != "" {
				m.APIKey = b.Key
			}
		})
	})
}

func TestRequest(t *testing.T) {
	tokens, k := int64(400), int64(40)
	req := &providers.Request{
		Model:      "my-deployment",
		Messages:   []providers.Message{{Role: "developer", Content: "d"}},
		Parameters: providers.Parameters{MaxTokens: &tokens, TopK: &k},
		Stream:     true,
	}
	for _, test := range []struct {
		path   string
		change func(*Module)
		key    string
		bearer string
	}{
		{"/openai/v1/chat/completions", func(*Module) {}, "0123456789abcdef", ""},
		{"/openai/v1/chat/completions", func(m *Module) { m.Endpoint += "/openai/v1/" }, "0123456789abcdef", ""},
		{"/gateway/openai/v1/chat/completions", func(m *Module) { m.Endpoint += "/gateway/" }, "0123456789abcdef", ""},
		{"/openai/v1/chat/completions", func(m *Module) { m.APIKey, m.Token = "", m.APIKey }, "", "Bearer 0123456789abcdef"},
	} {
		up := pt.NewUpstream(t).Always(stream("fine"))
		s, err := module(t, up, test.change).Invoke(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		r := up.Requests()[0]
		if r.Path != test.path || r.Query != "" || r.Header.Get("Api-Key") != test.key || r.Header.Get("Authorization") != test.bearer {
			t.Errorf("%s?%s, headers %v", r.Path, r.Query, r.Header)
		}
		var body any
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"model": "my-deployment", "stream": true, "stream_options": map[string]any{"include_usage": true}, "max_completion_tokens": 400.0,
			"messages": []any{map[string]any{"role": "developer", "content": "d"}},
		}
		if diff := cmp.Diff(want, body); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// TestDeploymentsThatNeedResponses holds that a deployment's name is taken for a model's.
func TestDeploymentsThatNeedResponses(t *testing.T) {
	for _, test := range []struct{ deployment, api, want string }{
		{"gpt-5.6-sol", "", "/openai/v1/responses"},
		{"gpt-5.6-sol", openai.APIChat, "/openai/v1/chat/completions"},
		{"my-deployment", "", "/openai/v1/chat/completions"},
		{"my-deployment", openai.APIResponses, "/openai/v1/responses"},
	} {
		up := pt.NewUpstream(t).Always(pt.OpenAIAnswer("fine", 1))
		req := &providers.Request{Model: test.deployment, Parameters: providers.Parameters{Tools: pt.Tools()}}
		s, err := module(t, up, func(m *Module) { m.API = test.api }).Invoke(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		if r := up.Requests()[0]; r.Path != test.want {
			t.Errorf("%s, api %q: %s", test.deployment, test.api, r.Path)
		}
	}
}

func TestProvisionedModuleSendsItsSecret(t *testing.T) {
	req, reply := &providers.Request{Model: "m"}, pt.OpenAIAnswer("fine", 1)
	pt.CheckSecretSent(t, req, reply, "Api-Key", "", func(base string, key secret.Reference) *Module {
		return &Module{Endpoint: base, APIKey: key}
	})
	pt.CheckSecretSent(t, req, reply, "Authorization", "Bearer ", func(base string, token secret.Reference) *Module {
		return &Module{Endpoint: base, Token: token}
	})
}

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		reply pt.Reply
		want  providers.Error
	}{
		{pt.JSON(404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`),
			providers.Error{Status: 404, Code: "DeploymentNotFound", Message: "The API deployment for this resource does not exist."}},
		{pt.JSON(401, `{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}`),
			providers.Error{Status: 401, Code: "401", Message: "Access denied due to invalid subscription key or wrong API endpoint."}},
		{pt.JSON(429, `{"statusCode":429,"message":"Rate limit is exceeded. Try again in 3 seconds."}`),
			providers.Error{Status: 429, Message: "Rate limit is exceeded. Try again in 3 seconds.", RetryAfter: 3 * time.Second}},
		{pt.JSON(400, `{"error":{"message":"The response was filtered.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{}}}}`),
			providers.Error{Status: 400, Code: "content_filter", Param: "prompt", Type: "400", Message: "The response was filtered."}},
	} {
		up := pt.NewUpstream(t).Always(test.reply)
		_, err := module(t, up).Invoke(t.Context(), &providers.Request{Model: "m"})
		e, ok := errors.AsType[*providers.Error](err)
		if !ok {
			t.Fatalf("error %T %v", err, err)
		}
		test.want.Provider = "azure"
		if diff := cmp.Diff(test.want, *e); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestTheContentFilter(t *testing.T) {
	finish := filtered(pt.FinishChunk("content_filter"))
	for name, test := range map[string]struct {
		reply pt.Reply
		kind  providers.ErrorKind
		whole bool
	}{
		"before a word":   {pt.SSE(promptFilter, pt.RoleChunk(), finish, pt.Done), providers.Refused, false},
		"after some":      {pt.SSE(promptFilter, filtered(pt.ContentChunk("a")), finish, pt.Done), 0, true},
		"in the prompt":   {pt.SSE(promptFilter, pt.Done), providers.Invalid, false},
		"and then no end": {pt.SSE(promptFilter, filtered(pt.ContentChunk("a"))), providers.Truncated, false},
	} {
		up := pt.NewUpstream(t).Always(test.reply)
		s, err := module(t, up).Invoke(t.Context(), &providers.Request{Model: "m", Stream: true})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = s.Next()
		}
		s.Close()
		e, _ := errors.AsType[*providers.Error](err)
		if test.whole != (err == io.EOF) || !test.whole && (e == nil || e.Kind != test.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if test.whole && s.Result().FinishReason != "content_filter" {
			t.Errorf("%s: %+v", name, s.Result())
		}
	}
}

func TestVectors(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.JSON(200, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"model":"text-embedding-3-small","usage":{"prompt_tokens":1,"total_tokens":1}}`))
	e := providers.EmbedderOf(module(t, up))
	answer, err := e.Embed(t.Context(), &providers.EmbeddingRequest{Model: "a-deployment", Inputs: []providers.EmbeddingInput{{Text: "a"}}, Dimensions: 256, User: "u"})
	if err != nil || string(answer.Vectors[0]) != "[0.5]" || answer.Model != "text-embedding-3-small" {
		t.Errorf("%+v: %v", answer, err)
	}
	if r := up.Requests()[0]; r.Path != "/openai/v1/embeddings" || r.Query != "" || r.Header.Get("Api-Key") == "" || r.Body != `{"model":"a-deployment","input":["a"],"dimensions":256,"user":"u"}` {
		t.Errorf("%s?%s %q %s", r.Path, r.Query, r.Header, r.Body)
	}
	if b := e.EmbeddingBatch("a-deployment"); b != (providers.EmbeddingBatch{Inputs: 2048, Tokens: 300_000}) {
		t.Errorf("a batch has %+v", b)
	}
}
