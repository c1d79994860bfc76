package bedrock

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

const (
	titan    = "amazon.titan-embed-text-v2:0"
	cohereV3 = "cohere.embed-multilingual-v3"
	cohereV4 = "us.cohere.embed-v4:0"
)

// The answers of the models: Cohere's without types, and with them.
func titanAnswer(vectors []string) string {
	if len(vectors) == 0 {
		return `{"inputTextTokenCount":3}`
	}
	return `{"embedding":` + vectors[0] + `,"embeddingsByType":{"float":` + vectors[0] + `},"inputTextTokenCount":3}`
}

func listAnswer(vectors []string) string {
	return `{"embeddings":[` + strings.Join(vectors, ",") + `],"id":"f5c8e0a3","response_type":"embeddings_floats","texts":["a"]}`
}

func typesAnswer(vectors []string) string {
	return `{"id":"f5c8e0a3","texts":["a"],"embeddings":{"float":[` + strings.Join(vectors, ",") + `]},"response_type":"embeddings_by_type"}`
}

func TestEmbeddings(t *testing.T) {
	connect := func(t testing.TB, base string) providers.Embedder { return client(t, base) }
	failure := func(b pt.Behaviour) pt.Reply { return behave(b, false) }
	one := func(body string) []string { return pt.TextsAt(body, "", "inputText") }
	list := func(body string) []string { return pt.TextsAt(body, "texts") }
	for name, e := range map[string]pt.Embedding{
		"Titan":    {Model: titan, Connect: connect, Texts: one, Answer: titanAnswer, Failure: failure},
		"CohereV3": {Model: cohereV3, Connect: connect, Texts: list, Answer: listAnswer, Failure: failure},
		"CohereV4": {Model: cohereV4, Connect: connect, Texts: list, Answer: typesAnswer, Failure: failure},
	} {
		t.Run(name, func(t *testing.T) { pt.RunEmbeddings(t, e) })
	}
}

func inputs(texts ...string) (list []providers.EmbeddingInput) {
	for _, text := range texts {
		list = append(list, providers.EmbeddingInput{Text: text})
	}
	return list
}

func TestEmbeddingRequests(t *testing.T) {
	two := inputs("a <b> \"c\"\n", "ü")
	all := func(model string, inputs []providers.EmbeddingInput, extra ...string) *providers.EmbeddingRequest {
		return &providers.EmbeddingRequest{Model: model, Inputs: inputs, Dimensions: 256, Base64: true, User: "u", Extra: pt.Extra(extra...)}
	}
	for name, test := range map[string]struct {
		req        *providers.EmbeddingRequest
		path, want string
	}{
		"Titan":         {&providers.EmbeddingRequest{Model: titan, Inputs: two[:1]}, "/model/amazon.titan-embed-text-v2:0/invoke", `{"inputText":"a <b> \"c\"\n"}`},
		"Titan, all":    {all(titan, two[1:], "normalize", "false"), "/model/amazon.titan-embed-text-v2:0/invoke", `{"inputText":"ü","dimensions":256,"normalize":false}`},
		"Cohere":        {&providers.EmbeddingRequest{Model: cohereV3, Inputs: two}, "/model/cohere.embed-multilingual-v3/invoke", `{"texts":["a <b> \"c\"\n","ü"],"embedding_types":["float"],"input_type":"search_document"}`},
		"Cohere, all":   {all(cohereV4, two[1:], "input_type", `"search_query"`, "truncate", `"RIGHT"`), "/model/us.cohere.embed-v4:0/invoke", `{"texts":["ü"],"embedding_types":["float"],"input_type":"search_query","output_dimension":256,"truncate":"RIGHT"}`},
		"the ARN":       {&providers.EmbeddingRequest{Model: "arn:aws:bedrock:us-east-1::foundation-model/" + titan, Inputs: two[1:]}, "/model/arn:aws:bedrock:us-east-1::foundation-model/" + titan + "/invoke", `{"inputText":"ü"}`},
		"its own texts": {&providers.EmbeddingRequest{Model: titan, Inputs: two[1:], Extra: pt.Extra("inputText", `"x"`)}, "/model/amazon.titan-embed-text-v2:0/invoke", `{"inputText":"x"}`},
	} {
		up := pt.NewUpstream(t)
		_, _ = client(t, up.URL).Embed(t.Context(), test.req) // the upstream has no answer
		r := up.Requests()[0]
		if diff := cmp.Diff(test.want, r.Body); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if r.Method != http.MethodPost || r.Path != test.path || r.Header.Get("Accept") != "application/json" || r.Header.Get("Authorization") != "Bearer "+testKey {
			t.Errorf("%s: %s %s with %q", name, r.Method, r.Path, r.Header)
		}
	}
}

func TestUnsendableEmbeddings(t *testing.T) {
	up := pt.NewUpstream(t)
	c := client(t, up.URL)
	for name, req := range map[string]*providers.EmbeddingRequest{
		"a model without vectors": {Model: "anthropic.claude-sonnet-4-5", Inputs: inputs("a")},
		"no model":                {Inputs: inputs("a")},
		"extra that is no JSON":   {Model: titan, Inputs: inputs("a"), Extra: pt.Extra("normalize", "{")},
		"a list of tokens":        {Model: titan, Inputs: []providers.EmbeddingInput{{Tokens: []byte("[1]"), Count: 1}}},
	} {
		_, err := c.Embed(t.Context(), req)
		if e, ok := errors.AsType[*providers.Error](err); !ok || e.Status != 400 || (e.Lacks == "input of tokens") != (name == "a list of tokens") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(up.Requests()) != 0 {
		t.Errorf("sent: %+v", up.Requests())
	}
}

func TestEmbeddingBatches(t *testing.T) {
	c := client(t, "http://127.0.0.1")
	for model, want := range map[string]int{titan: 1, cohereV3: 96, cohereV4: 96, "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.cohere.embed-v4:0": 96} {
		if got := c.EmbeddingBatch(model); got != (providers.EmbeddingBatch{Inputs: want}) {
			t.Errorf("%s: %+v, want %d inputs", model, got, want)
		}
	}
}

func TestEmbeddingUsage(t *testing.T) {
	for name, test := range map[string]struct {
		body, header string
		want         int64
	}{
		"in the body":     {titanAnswer([]string{"[1]"}), "7", 3},
		"in the header":   {typesAnswer([]string{"[1]"}), "7", 7},
		"nowhere":         {typesAnswer([]string{"[1]"}), "", 0},
		"no count":        {typesAnswer([]string{"[1]"}), "-7", 0},
		"a count too far": {typesAnswer([]string{"[1]"}), "99999999999999999999", 0},
	} {
		reply := pt.JSON(200, test.body)
		reply.Header["X-Amzn-Bedrock-Input-Token-Count"] = test.header
		model := cohereV4
		if test.want == 3 {
			model = titan
		}
		answer, err := client(t, pt.NewUpstream(t).Always(reply).URL).Embed(t.Context(), &providers.EmbeddingRequest{Model: model, Inputs: inputs("a")})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := (providers.Usage{PromptTokens: test.want, TotalTokens: test.want}); answer.Usage != want {
			t.Errorf("%s: %+v, want %+v", name, answer.Usage, want)
		}
	}
}

func TestAnErrorInPlaceOfVectors(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.JSON(200, `{"Output":{"__type":"com.amazon.coral.service#InternalFailure"},"Version":"1.0"}`))
	_, err := client(t, up.URL).Embed(t.Context(), &providers.EmbeddingRequest{Model: titan, Inputs: inputs("a")})
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Reported || e.Code != "InternalFailure" {
		t.Error(err)
	}
}

// TestEmbeddingsAreSigned checks that requests are signed as others are, and that the
// gateway finds the client behind the module.
func TestEmbeddingsAreSigned(t *testing.T) {
	up := pt.NewUpstream(t).Always(pt.JSON(200, titanAnswer([]string{"[1]"})))
	t.Setenv("BEDROCK_TEST_KEY", "0123456789")
	m := pt.Provisioned(t, &Module{Options: httpmodule.Options{BaseURL: up.URL}, Region: "eu-central-1", AccessKeyID: "{env.BEDROCK_TEST_KEY}", SecretAccessKey: "{env.BEDROCK_TEST_KEY}"})
	if _, err := providers.EmbedderOf(m).Embed(t.Context(), &providers.EmbeddingRequest{Model: titan, Inputs: inputs("a")}); err != nil {
		t.Fatal(err)
	}
	if got := up.Requests()[0].Header.Get("Authorization"); !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=0123456789/") {
		t.Errorf("Authorization %q", got)
	}
	c := client(t, up.URL, func(c *Config) {
		c.APIKey, c.Credentials = nil, func() (aws.Credentials, error) { return aws.Credentials{}, errors.New("expired") }
	})
	_, err := c.Embed(t.Context(), &providers.EmbeddingRequest{Model: titan, Inputs: inputs("a")})
	if e, ok := errors.AsType[*providers.ConnectError](err); !ok || !e.Permanent {
		t.Errorf("without credentials: %v", err)
	}
}
