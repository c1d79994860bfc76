package gateway_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/openai"
)

// asked is a request for vectors as an upstream gets it.
type asked struct {
	Model      string            `json:"model"`
	Input      []json.RawMessage `json:"input"`
	Dimensions int               `json:"dimensions"`
	Format     string            `json:"encoding_format"`
	User       string            `json:"user"`
}

// vectors is an upstream that speaks OpenAI's API for vectors. That of the text N, or the
// list [N], is [N.0, 1, 1, …]: with two numbers if the request says nothing of dimensions.
type vectors struct {
	url string

	mu   sync.Mutex
	got  []asked
	fail func(call int, a asked, w http.ResponseWriter) bool // answers in its place; nil: never
	// numbers answers with numbers even if base64 is asked for.
	numbers bool
	length  int // of the vectors; 0: as it is asked for
}

func newVectors(t *testing.T) *vectors {
	v := new(vectors)
	v.url = newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		defer v.mu.Unlock()
		var a asked
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil || r.URL.Path != "/v1/embeddings" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		v.got = append(v.got, a)
		if v.fail == nil || !v.fail(len(v.got), a, w) {
			v.answer(w, a)
		}
	}).URL
	return v
}

func (v *vectors) answer(w io.Writer, a asked) {
	data := make([]string, len(a.Input))
	for i, in := range a.Input {
		length := max(v.length, a.Dimensions)
		if v.length > 0 {
			length = v.length
		}
		vector := `[` + numberOf(in) + strings.Repeat(",1", max(length, 2)-1) + `]`
		if a.Format == "base64" && !v.numbers {
			vector = `"` + inBase64(vector) + `"`
		}
		data[len(data)-1-i] = fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, vector)
	}
	fmt.Fprintf(w, `{"object":"list","data":[%s],"model":"%s-1","usage":{"prompt_tokens":%d,"total_tokens":%[3]d}}`, strings.Join(data, ","), a.Model, len(a.Input))
}

// numberOf returns the number of an input. 1e39 is none of 32 bits.
func numberOf(in json.RawMessage) string {
	n := strings.Trim(string(in), `"[]`)
	if strings.Contains(n, "e") {
		return n
	}
	return n + ".0"
}

// inBase64 returns a list of numbers as base64.
func inBase64(vector string) string {
	var numbers []float32
	_ = json.Unmarshal([]byte(vector), &numbers)
	var data []byte
	for _, n := range numbers {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(n))
	}
	return base64.StdEncoding.EncodeToString(data)
}

// sizes returns the numbers of inputs of the requests so far.
func (v *vectors) sizes() (list []int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, a := range v.got {
		list = append(list, len(a.Input))
	}
	return list
}

// embeds is a workspace with the endpoint docs, whose targets are the providers first and
// second, and with an endpoint that answers in words.
func embeds(more string) map[string]string {
	files := single()
	files["definitions/endpoints/docs.yaml"] = "task: embedding\ntargets:\n  - { provider: first, model: small, space: s }\n  - { provider: second, model: large, space: s }\n" + more
	return files
}

// atVectors declares the providers first and second.
func atVectors(first, second *vectors) setting {
	return all(withProvider("first", openaiProvider(first.url, openai.Quirks{})), withProvider("second", openaiProvider(second.url, openai.Quirks{})))
}

// embedded is an answer with vectors.
type embedded struct {
	Object, Model string
	Data          []struct {
		Object    string
		Index     int
		Embedding json.RawMessage
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

// embed asks for vectors, and checks the order of the answer.
func (g *gateway) embed(t *testing.T, body string) (embedded, answer) {
	t.Helper()
	a := g.post("/v1/embeddings", body).ok(t, body)
	var e embedded
	if err := json.Unmarshal(a.body, &e); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	for i, d := range e.Data {
		if d.Index != i || d.Object != "embedding" {
			t.Errorf("%d: %+v", i, d)
		}
	}
	if e.Object != "list" || e.Model != "docs" {
		t.Errorf("%+v", e)
	}
	return e, a
}

func TestEmbeddings(t *testing.T) {
	t.Parallel()
	first, second := newVectors(t), newVectors(t)
	g := startGateway(t, embeds(""), atVectors(first, second), logContent, with(func(c *gw.WorkspaceConfig) {
		c.Prices = map[string]*price.Price{"small": {Prompt: 20_000}}
	}))
	for body, want := range map[string]struct {
		vectors []string
		asked   asked
	}{
		`{"model":"docs","input":"7"}`:                                            {[]string{`[7.0,1]`}, asked{Model: "small", Input: []json.RawMessage{[]byte(`"7"`)}}},
		`{"model":"docs","input":["7","8"],"dimensions":3,"user":"u"}`:            {[]string{`[7.0,1,1]`, `[8.0,1,1]`}, asked{Model: "small", Input: []json.RawMessage{[]byte(`"7"`), []byte(`"8"`)}, Dimensions: 3, User: "u"}},
		`{"model":"docs","input":[7]}`:                                            {[]string{`[7.0,1]`}, asked{Model: "small", Input: []json.RawMessage{[]byte(`[7]`)}}},
		`{"model":"docs","input":[[7],[9]],"encoding_format":"float"}`:            {[]string{`[7.0,1]`, `[9.0,1]`}, asked{Model: "small", Input: []json.RawMessage{[]byte(`[7]`), []byte(`[9]`)}}},
		`{"model":"docs","input":"7","encoding_format":"base64"}`:                 {[]string{`"` + inBase64("[7,1]") + `"`}, asked{Model: "small", Input: []json.RawMessage{[]byte(`"7"`)}, Format: "base64"}},
		`{"model":"docs","input":"7","encoding_format":"base64","dimensions":20}`: {[]string{`"` + inBase64("[7"+strings.Repeat(",1", 19)+"]") + `"`}, asked{Model: "small", Input: []json.RawMessage{[]byte(`"7"`)}, Format: "base64", Dimensions: 20}},
	} {
		before := len(first.sizes())
		e, a := g.embed(t, body)
		var got []string
		for _, d := range e.Data {
			got = append(got, string(d.Embedding))
		}
		if !slices.Equal(got, want.vectors) || e.Usage.Prompt != len(want.vectors) || e.Usage.Total != len(want.vectors) {
			t.Errorf("%s: %s", body, a.body)
		}
		if diff := cmp.Diff(want.asked, first.got[before]); diff != "" {
			t.Errorf("%s: the provider was asked for (-want +got)\n%s", body, diff)
		}
		if a.header.Get("Cadenza-Served-By") != "first/small" || a.header.Get("X-Request-Id") != a.header.Get("Cadenza-Trace-Id") {
			t.Errorf("%s: headers %v", body, a.header)
		}
	}
	_, a := g.embed(t, `{"model":"docs","input":["7","8"],"user":"u","metadata":{"team":"search"}}`)
	r := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
	if !r.HasUsage || r.PromptTokens != 2 || r.CompletionTokens != 0 || r.TotalTokens != 2 || r.Cost != 0.04 || r.Provider != "first" || r.Model != "small-1" || r.Key != "docs" || r.Prompt != "" || len(r.Attempts) != 1 {
		t.Errorf("%+v", r)
	}
	if string(r.Messages) != `[{"role":"user","content":"7"},{"role":"user","content":"8"}]` || len(r.Response) > 0 || !strings.Contains(string(r.Metadata), `"u"`) {
		t.Errorf("messages %s, response %s, metadata %s", r.Messages, r.Response, r.Metadata)
	}
	if a := g.do("GET", "/v1/models", "", http.Header{"Authorization": {"Bearer " + testKey}}); !strings.Contains(string(a.body), `"id":"docs"`) {
		t.Error(a.body)
	}
}

// TestEmbeddingsShareNoMemory has callers get vectors whose memory others had before. With
// the race detector that is overwritten in between.
func TestEmbeddingsShareNoMemory(t *testing.T) {
	t.Parallel()
	v := newVectors(t)
	g := startGateway(t, embeds(""), atVectors(v, v))
	var wait sync.WaitGroup
	for caller := range 8 {
		wait.Go(func() {
			for n := range 20 {
				input, length := strconv.Itoa(caller), 2+n
				e, a := g.embed(t, fmt.Sprintf(`{"model":"docs","input":["%s","%[1]s"],"dimensions":%d}`, input, length))
				want := "[" + input + ".0" + strings.Repeat(",1", length-1) + "]"
				if len(e.Data) != 2 || string(e.Data[0].Embedding) != want || string(e.Data[1].Embedding) != want {
					t.Errorf("want %s twice: %s", want, a.body)
				}
			}
		})
	}
	wait.Wait()
}

// TestEmbeddingForms has a provider that has numbers alone, which clients of OpenAI's that
// ask for base64 would read as rubbish.
func TestEmbeddingForms(t *testing.T) {
	t.Parallel()
	first := newVectors(t)
	first.numbers = true
	g := startGateway(t, embeds(""), atVectors(first, first))
	e, a := g.embed(t, `{"model":"docs","input":["7","-8"],"encoding_format":"base64"}`)
	if string(e.Data[0].Embedding) != `"`+inBase64("[7,1]")+`"` || string(e.Data[1].Embedding) != `"`+inBase64("[-8,1]")+`"` {
		t.Errorf("%s", a.body)
	}
	checkError(t, g.post("/v1/embeddings", `{"model":"docs","input":"1e39","encoding_format":"base64"}`), "upstream_invalid_response", "")
}

func TestEmbeddingBatches(t *testing.T) {
	t.Parallel()
	first, second := newVectors(t), newVectors(t)
	g := startGateway(t, embeds("batch: 100\nretry: { count: 1 }\n"), atVectors(first, second), withLimits(&limit.Limit{Name: "tokens", Ceilings: []limit.Ceiling{yearly(limit.Tokens, 1_000_000)}}))
	texts := make([]string, 250)
	for i := range texts {
		texts[i] = fmt.Sprintf("%q", fmt.Sprint(i))
	}
	body := `{"model":"docs","input":[` + strings.Join(texts, ",") + `]}`
	check := func(e embedded) {
		t.Helper()
		if len(e.Data) != 250 || e.Usage.Total != 250 {
			t.Fatalf("%d vectors for %d tokens", len(e.Data), e.Usage.Total)
		}
		for i, d := range e.Data {
			if string(d.Embedding) != fmt.Sprintf("[%d.0,1]", i) {
				t.Errorf("%d: %s", i, d.Embedding)
			}
		}
	}
	e, _ := g.embed(t, body)
	check(e)
	if got := first.sizes(); !slices.Equal(got, []int{100, 100, 50}) {
		t.Errorf("batches of %v", got)
	}

	// After a failure in the middle the rest is asked for, here twice and then there.
	first.fail = func(call int, _ asked, w http.ResponseWriter) bool {
		if call > 4 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return call > 4
	}
	e, a := g.embed(t, body)
	check(e)
	if got := first.sizes()[3:]; !slices.Equal(got, []int{100, 100, 100}) {
		t.Errorf("batches of %v", got)
	}
	if got := second.sizes(); !slices.Equal(got, []int{100, 50}) {
		t.Errorf("batches of %v at the second target", got)
	}
	r := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
	if a.header.Get("Cadenza-Attempts") != "3" || len(r.Attempts) != 3 || r.PromptTokens != 250 || r.Attempts[0].PromptTokens != 100 || r.Attempts[1].PromptTokens != 0 || r.Attempts[2].PromptTokens != 150 {
		t.Errorf("%+v", r)
	}
}

func TestEmbeddingsOfAnotherLength(t *testing.T) {
	t.Parallel()
	first, second := newVectors(t), newVectors(t)
	first.length = 5
	g := startGateway(t, embeds("batch: 1\n"), atVectors(first, second))
	e, a := g.embed(t, `{"model":"docs","input":"7","dimensions":4}`)
	if string(e.Data[0].Embedding) != `[7.0,1,1,1]` || a.header.Get("Cadenza-Served-By") != "second/large" || len(first.got) != 1 {
		t.Errorf("%s by %s after %d", a.body, a.header.Get("Cadenza-Served-By"), len(first.got))
	}
	if r := g.ended(t, a.header.Get("Cadenza-Trace-Id")); r.Attempts[0].Code != "length" {
		t.Errorf("%+v", r.Attempts)
	}
	// Without dimensions all vectors of an answer have one length.
	first.fail = func(call int, _ asked, w http.ResponseWriter) bool {
		if call > 2 {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return call > 2
	}
	checkError(t, g.post("/v1/embeddings", `{"model":"docs","input":["7","8"]}`), "upstream_credentials", "")
	second.length = 3
	checkError(t, g.post("/v1/embeddings", `{"model":"docs","input":"7","dimensions":4}`), "upstream_invalid_response", "")
}

func TestEmbeddingRetries(t *testing.T) {
	t.Parallel()
	first, second := newVectors(t), newVectors(t)
	first.fail = func(call int, _ asked, w http.ResponseWriter) bool {
		if call == 1 {
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return call == 1
	}
	g := startGateway(t, embeds(""), atVectors(first, second))
	if _, a := g.embed(t, `{"model":"docs","input":"7"}`); a.header.Get("Cadenza-Attempts") != "2" || a.header.Get("Cadenza-Served-By") != "first/small" {
		t.Errorf("%v", a.header)
	}
}

func TestEmbeddingInputThatIsTooLong(t *testing.T) {
	t.Parallel()
	first, second := newVectors(t), newVectors(t)
	says := `{"error":{"message":"This model's maximum context length is 8192 tokens, however you requested 9000 tokens","code":"context_length_exceeded"}}`
	refuse := func(_ int, _ asked, w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, says)
		return true
	}
	first.fail, second.fail = refuse, refuse
	g := startGateway(t, embeds("batch: 2\n"), atVectors(first, second))
	a := g.post("/v1/embeddings", `{"model":"docs","input":["1","22","3"]}`)
	checkError(t, a, "context_length_exceeded", "input[1]")
	if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "8192") {
		t.Error(a.body)
	}
	says = `{"error":{"message":"Invalid 'input[1]': maximum context length is 8192 tokens."}}`
	first.fail = func(_ int, a asked, w http.ResponseWriter) bool {
		return len(a.Input) == 1 && refuse(0, a, w) || len(a.Input) == 2 && string(a.Input[1]) == `"44"` && refuse(0, a, w)
	}
	checkError(t, g.post("/v1/embeddings", `{"model":"docs","input":["1","2","333","44"]}`), "context_length_exceeded", "input[3]")
	checkError(t, g.post("/v1/embeddings", `{"model":"docs","input":"333"}`), "context_length_exceeded", "input")

	// A window that is known is looked at before anything is sent.
	known := startGateway(t, embeds(""), atVectors(first, second), with(func(c *gw.WorkspaceConfig) {
		c.Prices = map[string]*price.Price{"small": {Model: price.Model{ContextWindow: 20}}, "large": {Model: price.Model{ContextWindow: 30}}}
	}))
	sent := len(first.sizes()) + len(second.sizes())
	checkError(t, known.post("/v1/embeddings", `{"model":"docs","input":["7","`+strings.Repeat("word ", 200)+`"]}`), "context_length_exceeded", "input[1]")
	checkError(t, known.post("/v1/embeddings", `{"model":"docs","input":[[7],[`+strings.Repeat("1,", 30)+`1]]}`), "context_length_exceeded", "input[1]")
	if now := len(first.sizes()) + len(second.sizes()); now != sent {
		t.Errorf("%d requests were sent", now-sent)
	}
	// 25 tokens are too many for the first model alone.
	second.fail = nil
	known.embed(t, `{"model":"docs","input":[`+strings.Repeat("1,", 24)+`1]}`)
}

func TestEmbeddingLimits(t *testing.T) {
	t.Parallel()
	first := newVectors(t)
	l := &limit.Limit{Name: "budget", Ceilings: []limit.Ceiling{yearly(limit.Money, 1_000_000_000), yearly(limit.Tokens, 1000)}}
	g := startGateway(t, embeds(""), atVectors(first, first), withLimits(l), with(func(c *gw.WorkspaceConfig) {
		c.Prices = map[string]*price.Price{"small": {Prompt: 20_000}, "large": {Prompt: 20_000}}
	}))
	g.embed(t, `{"model":"docs","input":["7","8"]}`)
	g.holdUses("two tokens", l, "test", 40_000_000, 2)
	a := g.post("/v1/embeddings", `{"model":"docs","input":"`+strings.Repeat("7", 2000)+`"}`)
	checkError(t, a, "rate_limited", "")
	if message := a.json(t)["error"].(map[string]any)["message"].(string); !strings.Contains(message, "inputs") || strings.Contains(message, "max_tokens") {
		t.Errorf("what to do: %s", message)
	}
}

func TestEmbeddingRequestsThatAreWrong(t *testing.T) {
	t.Parallel()
	first := newVectors(t)
	files := embeds("")
	files["definitions/endpoints/other.yaml"] = files["definitions/endpoints/docs.yaml"]
	g := startGateway(t, files, atVectors(first, first))
	for body, want := range map[string][3]string{
		`{"model":"docs"}`:                                                   {"invalid_request", "input", `"input" is required: a text`},
		`{"input":"7"}`:                                                      {"invalid_request", "model", `"model" is required`},
		`{"model":"docs","input":[]}`:                                        {"invalid_request", "input", "is an empty list"},
		`{"model":"docs","input":""}`:                                        {"invalid_request", "input", `"input" is empty`},
		`{"model":"docs","input":["7",""]}`:                                  {"invalid_request", "input[1]", `"input[1]" is empty`},
		`{"model":"docs","input":["7",[]]}`:                                  {"invalid_request", "input[1]", "is empty"},
		`{"model":"docs","input":7}`:                                         {"invalid_request", "input", "must be a text or a list of tokens"},
		`{"model":"docs","input":["7",{}]}`:                                  {"invalid_request", "input[1]", "must be a text or a list of tokens"},
		`{"model":"docs","input":[7,"8"]}`:                                   {"invalid_request", "input[1]", "must be the number of a token: a whole number from 0"},
		`{"model":"docs","input":[[7,-1]]}`:                                  {"invalid_request", "input[0][1]", "must be the number of a token: a whole number from 0"},
		`{"model":"docs","input":[[7.5]]}`:                                   {"invalid_request", "input[0][0]", "must be the number of a token: a whole number from 0"},
		`{"model":"docs","input":"7","dimensions":0}`:                        {"invalid_request", "dimensions", "must be a whole number from 1"},
		`{"model":"docs","input":"7","dimensions":65537}`:                    {"invalid_request", "dimensions", "must be a whole number from 1"},
		`{"model":"docs","input":"7","encoding_format":"int8"}`:              {"invalid_request", "encoding_format", "must be float or base64"},
		`{"model":"docs@x","input":"7"}`:                                     {"invalid_request", "model", "names a variant"},
		`{"model":"none","input":"7"}`:                                       {"model_not_found", "model", "There is no endpoint none"},
		`{"model":"chat","input":"7"}`:                                       {"invalid_request", "model", "The endpoint chat answers in words; ask it by another route, such as POST /v1/chat/completions. One that makes vectors: docs, other."},
		`{"model":"docs","input":[` + strings.Repeat(`"7",`, 2048) + `"7"]}`: {"invalid_request", "input", "has 2049 elements, at most 2048 are possible"},
	} {
		a := g.post("/v1/embeddings", body)
		checkError(t, a, want[0], want[1])
		if message := a.json(t)["error"].(map[string]any)["message"].(string); !strings.Contains(message, want[2]) {
			t.Errorf("%.60s: %s, want %s", body, message, want[2])
		}
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"docs","messages":[{"role":"user","content":"Hi"}]}`,
		"/v1/responses":        `{"model":"docs","input":"Hi"}`,
		"/v1/messages":         `{"model":"docs","max_tokens":5,"messages":[{"role":"user","content":"Hi"}]}`,
		"/v1/endpoints":        `{"key":"docs"}`,
	} {
		a := g.post(path, body)
		if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "The endpoint docs makes vectors; ask it by POST /v1/embeddings. One that answers in words: chat.") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if len(first.got) > 0 {
		t.Errorf("the provider was asked %v", first.got)
	}
}

// TestEmbeddingsOfProvidersWithout has a provider that makes no vectors, and one that takes
// no tokens.
func TestEmbeddingsOfProvidersWithout(t *testing.T) {
	t.Parallel()
	second := newVectors(t)
	g := startGateway(t, embeds(""), withProvider("first", wordsAlone{}), withProvider("second", openaiProvider(second.url, openai.Quirks{Embeddings: openai.EmbeddingQuirks{NoTokens: true}})))
	eventually(t, "a warning of the target", g.said("the provider makes no vectors"))
	g.embed(t, `{"model":"docs","input":"7"}`)
	noTokens := openaiProvider(second.url, openai.Quirks{Embeddings: openai.EmbeddingQuirks{NoTokens: true}})
	g = startGateway(t, embeds(""), withProvider("first", noTokens), withProvider("second", noTokens))
	checkError(t, g.post("/v1/embeddings", `{"model":"docs","input":[7]}`), "invalid_request", "input")
	if len(second.got) != 1 {
		t.Errorf("asked %v", second.got)
	}
}

type wordsAlone struct{ providers.Provider }

func (wordsAlone) Host() string { return "" }

func TestEmbeddingParam(t *testing.T) {
	if e := (&dialect.Embedding{Listed: true}); e.Param(3) != "input[3]" || (&dialect.Embedding{}).Param(0) != "input" {
		t.Error(e.Param(3))
	}
}
