package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMetrics(t *testing.T) {
	m, err := parsed(t, `{"trace_id":"T","metadata":{"a": [1, "b"]},"score":85.5,"latency":1200,"roundtrip_time":0,
		"llm_response":"héllo","chain_id":"c","conversation_id":"","economics":{"prompt_tokens":10,"total_tokens":30.0,"x":1},"unknown":1}`).Metrics()
	if err != nil {
		t.Fatal(err)
	}
	want := &MetricsRecord{
		TraceID: new("T"), Metadata: []byte(`{"a":[1,"b"]}`),
		Score: new(85.5), Latency: new(1200.0), RoundtripTime: new(0.0),
		LLMResponse: new("héllo"), ChainID: new("c"), ConversationID: new(""),
		Economics: &Economics{PromptTokens: 10, CompletionTokens: 20, TotalTokens: 30},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

func TestMetricsAbsentMembers(t *testing.T) {
	for _, body := range []string{
		`{}`,
		`{"trace_id":null,"metadata":null,"score":null,"latency":null,"roundtrip_time":null,"llm_response":null,"chain_id":null,"conversation_id":null,"economics":null}`,
		`{"metadata":{}}`,
	} {
		m, err := parsed(t, body).Metrics()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(new(MetricsRecord), m); diff != "" || !m.Empty() {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

func TestMetricsRanges(t *testing.T) {
	for body, param := range map[string]string{
		// The empty param is for what must be accepted.
		`{"score":0}`:                       "",
		`{"score":100}`:                     "",
		`{"score":1e2}`:                     "",
		`{"score":0.0001}`:                  "",
		`{"score":-0}`:                      "",
		`{"score":-0.0001}`:                 "score",
		`{"score":100.0001}`:                "score",
		`{"score":100.00000000001}`:         "score",
		`{"score":1e308}`:                   "score",
		`{"score":"50"}`:                    "score",
		`{"score":true}`:                    "score",
		`{"score":[50]}`:                    "score",
		`{"latency":0}`:                     "",
		`{"latency":0.25}`:                  "",
		`{"latency":1e12}`:                  "",
		`{"latency":-1}`:                    "latency",
		`{"latency":1e13}`:                  "latency",
		`{"latency":"12"}`:                  "latency",
		`{"roundtrip_time":12}`:             "",
		`{"roundtrip_time":-12}`:            "roundtrip_time",
		`{"roundtrip_time":{}}`:             "roundtrip_time",
		`{"trace_id":1}`:                    "trace_id",
		`{"llm_response":{}}`:               "llm_response",
		`{"llm_response":1}`:                "llm_response",
		`{"chain_id":1}`:                    "chain_id",
		`{"conversation_id":[]}`:            "conversation_id",
		`{"metadata":[]}`:                   "metadata",
		`{"metadata":"a=b"}`:                "metadata",
		`{"metadata":1}`:                    "metadata",
		`{"economics":1}`:                   "economics",
		`{"economics":[]}`:                  "economics",
		`{"economics":{}}`:                  "economics.prompt_tokens",
		`{"economics":{"prompt_tokens":1}}`: "economics.total_tokens",
		`{"economics":{"total_tokens":1}}`:  "economics.prompt_tokens",
		`{"economics":{"prompt_tokens":1,"completion_tokens":1}}`:                      "",
		`{"economics":{"completion_tokens":1,"total_tokens":1}}`:                       "",
		`{"economics":{"completion_tokens":2,"total_tokens":1}}`:                       "economics.total_tokens",
		`{"economics":{"completion_tokens":1}}`:                                        "economics.prompt_tokens",
		`{"economics":{"prompt_tokens":1e9,"completion_tokens":1}}`:                    "economics.total_tokens",
		`{"economics":{"prompt_tokens":1,"completion_tokens":"2"}}`:                    "economics.completion_tokens",
		`{"economics":{"prompt_tokens":1,"total_tokens":null}}`:                        "economics.total_tokens",
		`{"economics":{"prompt_tokens":1,"total_tokens":1}}`:                           "",
		`{"economics":{"prompt_tokens":0,"total_tokens":0}}`:                           "",
		`{"economics":{"prompt_tokens":1,"completion_tokens":null,"total_tokens":5}}`:  "",
		`{"economics":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`:     "",
		`{"economics":{"prompt_tokens":1e9,"total_tokens":1e9}}`:                       "",
		`{"economics":{"prompt_tokens":1000000001,"total_tokens":1000000001}}`:         "economics.prompt_tokens",
		`{"economics":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":4}}`:     "economics.total_tokens",
		`{"economics":{"prompt_tokens":5,"total_tokens":4}}`:                           "economics.total_tokens",
		`{"economics":{"prompt_tokens":-1,"total_tokens":4}}`:                          "economics.prompt_tokens",
		`{"economics":{"prompt_tokens":1.5,"total_tokens":4}}`:                         "economics.prompt_tokens",
		`{"economics":{"prompt_tokens":"1","total_tokens":4}}`:                         "economics.prompt_tokens",
		`{"economics":{"prompt_tokens":1,"completion_tokens":"2","total_tokens":3}}`:   "economics.completion_tokens",
		`{"economics":{"prompt_tokens":1,"completion_tokens":-1,"total_tokens":0}}`:    "economics.completion_tokens",
		`{"economics":{"prompt_tokens":1,"total_tokens":9223372036854775807}}`:         "economics.total_tokens",
		`{"economics":{"prompt_tokens":0.0000000000000000000000001,"total_tokens":1}}`: "economics.prompt_tokens",
	} {
		_, err := parsed(t, body).Metrics()
		if param == "" {
			if err != nil {
				t.Errorf("%s: %v", body, err)
			}
			continue
		}
		checkError(t, err, "invalid_request", param)
	}
}

func TestApply(t *testing.T) {
	const all = `{"metadata":{"a":1},"score":1,"latency":2,"roundtrip_time":3,"llm_response":"x","chain_id":"c","conversation_id":"d","economics":{"prompt_tokens":1,"total_tokens":2}}`
	measured := []string{"latency", "llm_response", "chain_id", "conversation_id", "economics"}
	economics := &Economics{PromptTokens: 1, CompletionTokens: 1, TotalTokens: 2}
	whole := MetricsRecord{
		Metadata: []byte(`{"a":1}`), Score: new(1.0), Latency: new(2.0), RoundtripTime: new(3.0),
		LLMResponse: new("x"), ChainID: new("c"), ConversationID: new("d"), Economics: economics,
	}
	tests := map[string]struct {
		kind    trace.Kind
		body    string
		ignored []string
		left    MetricsRecord
		code    string
	}{
		"prompt takes all":        {trace.KindPrompt, all, nil, whole, ""},
		"unattached takes all":    {trace.KindMetrics, all, nil, whole, ""},
		"prompt requires one":     {trace.KindPrompt, `{}`, nil, MetricsRecord{}, "no_metrics"},
		"unattached requires one": {trace.KindMetrics, `{"metadata":{},"score":null}`, nil, MetricsRecord{}, "no_metrics"},
		"prompt with roundtrip":   {trace.KindPrompt, `{"roundtrip_time":3}`, nil, MetricsRecord{RoundtripTime: new(3.0)}, ""},
		"endpoint": {trace.KindEndpoint, all, measured,
			MetricsRecord{Metadata: []byte(`{"a":1}`), Score: new(1.0), RoundtripTime: new(3.0)}, ""},
		"endpoint score":          {trace.KindEndpoint, `{"score":0}`, nil, MetricsRecord{Score: new(0.0)}, ""},
		"endpoint metadata":       {trace.KindEndpoint, `{"metadata":{"a":1}}`, nil, MetricsRecord{Metadata: []byte(`{"a":1}`)}, ""},
		"endpoint with measured":  {trace.KindEndpoint, `{"latency":1}`, nil, MetricsRecord{}, "no_metrics"},
		"endpoint with roundtrip": {trace.KindEndpoint, `{"roundtrip_time":1}`, nil, MetricsRecord{}, "no_metrics"},
		"endpoint with nothing":   {trace.KindEndpoint, `{}`, nil, MetricsRecord{}, "no_metrics"},
		"configuration": {trace.KindRemoteConfig, all, append([]string{"score"}, measured...),
			MetricsRecord{Metadata: []byte(`{"a":1}`), RoundtripTime: new(3.0)}, ""},
		"configuration with nothing":   {trace.KindRemoteConfig, `{}`, nil, MetricsRecord{}, ""},
		"configuration with score":     {trace.KindRemoteConfig, `{"score":1}`, []string{"score"}, MetricsRecord{}, ""},
		"configuration with roundtrip": {trace.KindRemoteConfig, `{"roundtrip_time":3}`, nil, MetricsRecord{RoundtripTime: new(3.0)}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := parsed(t, test.body).Metrics()
			if err != nil {
				t.Fatal(err)
			}
			ignored, err := m.Apply(test.kind)
			if test.code != "" {
				checkError(t, err, test.code, "")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.ignored, ignored); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(&test.left, m); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTraceMetrics(t *testing.T) {
	tests := map[string]struct {
		query, body string
		metadata    string
		score       float64 // -1 where none is wanted
		code, param string
	}{
		"nothing":               {score: -1},
		"blank body":            {body: " \n", score: -1},
		"body":                  {body: `{"score":7,"metadata":{"a":1}}`, metadata: `{"a":1}`, score: 7},
		"unrelated query":       {query: "v=1&utm=x", body: `{"score":7}`, score: 7},
		"only unrelated query":  {query: "v=1", score: -1},
		"JSON as typed":         {query: `{"metadata":{"a":"1+1=2&c","p":"100%"}}`, metadata: `{"a":"1+1=2&c","p":"100%"}`, score: -1},
		"JSON with escapes":     {query: `{"metadata":{"a":"b%20c+d"}}`, metadata: `{"a":"b c+d"}`, score: -1},
		"JSON encoded":          {query: `%7B%22score%22%3A5,%22metadata%22:%7b%22a%22:%22b+c%2Bd%22%7d%7D`, metadata: `{"a":"b c+d"}`, score: 5},
		"JSON empty":            {query: `{}`, score: -1},
		"JSON broken":           {query: `{"score":`, code: "invalid_json"},
		"JSON encoded, broken":  {query: `%7Bscore%zz`, code: "invalid_json"},
		"JSON duplicate":        {query: `{"score":1,"score":2}`, code: "invalid_json", param: "score"},
		"JSON out of range":     {query: `{"score":101}`, code: "invalid_request", param: "score"},
		"JSON not UTF-8":        {query: `%7B%22a%22:%22%ff%22%7D`, code: "invalid_json"},
		"pairs":                 {query: `metadata[b]=2&metadata%5Ba%5D=x%22y&other=1`, metadata: `{"a":"x\"y","b":"2"}`, score: -1},
		"pair without a value":  {query: `metadata[a]`, metadata: `{"a":""}`, score: -1},
		"pair not UTF-8":        {query: `metadata[a]=%ff`, metadata: `{"a":"` + "\uFFFD" + `"}`, score: -1},
		"pair twice":            {query: `metadata[a]=1&metadata[a]=2`, code: "invalid_request", param: "metadata[a]"},
		"pair without a name":   {query: `metadata[]=1`, code: "invalid_request", param: "metadata[]"},
		"nested pair":           {query: `metadata[a][b]=1`, code: "invalid_request", param: "metadata[a][b]"},
		"unclosed pair":         {query: `metadata[a=1`, code: "invalid_request", param: "metadata[a"},
		"member as a parameter": {query: `score=5`, code: "invalid_request", param: "score"},
		"metadata as a string":  {query: `metadata=5`, code: "invalid_request", param: "metadata"},
		"undecodable":           {query: `a=%zz`, code: "invalid_request"},
		"two records":           {query: `{"score":1}`, body: `{"score":2}`, code: "invalid_request"},
		"pairs and a body":      {query: `metadata[a]=1`, body: `{"score":2}`, code: "invalid_request"},
		"body not JSON":         {body: `score=1`, code: "invalid_json"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m, err := parsed(t, test.body).TraceMetrics(test.query)
			if test.code != "" {
				checkError(t, err, test.code, test.param)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(m.Metadata) != test.metadata {
				t.Errorf("metadata %s, want %s", m.Metadata, test.metadata)
			}
			if test.score < 0 != (m.Score == nil) || m.Score != nil && *m.Score != test.score {
				t.Errorf("score %v, want %v", m.Score, test.score)
			}
		})
	}
}

// What a record holds must stand when the request's buffers serve another.
func TestMetricsOwnTheirData(t *testing.T) {
	r := AcquireRequest()
	r.body = append(r.body, `{"trace_id":"abc","metadata":{"k":"v"},"llm_response":"text"}`...)
	m, err := r.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	r.body = append(r.body[:0], strings.Repeat(" ", 70)+`{"zzzzzzzz":"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"}`...)
	if _, err := r.Metrics(); err != nil {
		t.Fatal(err)
	}
	if *m.TraceID != "abc" || string(m.Metadata) != `{"k":"v"}` || *m.LLMResponse != "text" {
		t.Errorf("%s %s %s", *m.TraceID, m.Metadata, *m.LLMResponse)
	}
	r.Release()
}

// TestEconomicsFromTwoCounts derives the third, whichever it is.
func TestEconomicsFromTwoCounts(t *testing.T) {
	for _, counts := range []string{`"prompt_tokens":1,"completion_tokens":2`, `"prompt_tokens":1,"total_tokens":3`, `"total_tokens":3,"completion_tokens":2,"prompt_tokens":null`} {
		m, err := parsed(t, `{"score":8,"economics":{`+counts+`}}`).Metrics()
		if err != nil || *m.Score != 8 || *m.Economics != (Economics{1, 2, 3}) {
			t.Errorf("%s: %+v, %v", counts, m, err)
		}
	}
}
