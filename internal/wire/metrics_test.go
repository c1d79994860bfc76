package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMetrics(t *testing.T) {
	m, err := parsed(t, `{"trace_id":"T","metadata":{"a": [1, "b"]},"score":85.5,"latency":1200,"roundtrip_time":0,
		"llm_response":"héllo","chain_id":"c","conversation_id":"","economics":{"prompt_tokens":10,"total_tokens":30.0,"x":1},"unknown":1,
		"values": {"resolved": 1, "skipped": null, "seconds_saved": -5.0e-1}}`).Metrics()
	if err != nil {
		t.Fatal(err)
	}
	want := &MetricsRecord{NamedTrace: new("T"), Metrics: trace.Metrics{
		Metadata: []byte(`{"a":[1,"b"]}`), Values: []byte(`{"resolved":1,"seconds_saved":-0.5}`),
		Score: new(85.5), Latency: new(1200.0), RoundtripTime: new(0.0),
		LLMResponse: new("héllo"), ChainID: new("c"), ConversationID: new(""),
		PromptTokens: new(int64(10)), CompletionTokens: new(int64(20)), TotalTokens: new(int64(30)),
	}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

func TestMetricsAbsentMembers(t *testing.T) {
	for _, body := range []string{
		`{}`,
		`{"trace_id":null,"metadata":null,"score":null,"latency":null,"roundtrip_time":null,"llm_response":null,"chain_id":null,"conversation_id":null,"economics":null,"values":null,"decision_id":null}`,
		`{"metadata":{},"values":{}}`,
		`{"values":{"a":null}}`,
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
		// The empty param means that the record must be accepted.
		`{"score":0}`:                                       "",
		`{"score":100}`:                                     "",
		`{"score":1e2}`:                                     "",
		`{"score":0.0001}`:                                  "",
		`{"score":-0}`:                                      "",
		`{"score":-0.0001}`:                                 "score",
		`{"score":100.0001}`:                                "score",
		`{"score":100.00000000001}`:                         "score",
		`{"score":1e308}`:                                   "score",
		`{"score":"50"}`:                                    "score",
		`{"score":true}`:                                    "score",
		`{"score":[50]}`:                                    "score",
		`{"values":{"a":-1e15,"b":1e15}}`:                   "",
		`{"values":{"a":1.1e15}}`:                           "values.a",
		`{"values":{"a":-1000000000000001}}`:                "values.a",
		`{"values":{"a":1,"b":"1"}}`:                        "values.b",
		`{"values":{"a":[1]}}`:                              "values.a",
		`{"values":{"a":true}}`:                             "values.a",
		`{"values":{"a":false}}`:                            "values.a",
		`{"values":{"":1}}`:                                 "values",
		`{"values":{"a b":1}}`:                              "values",
		`{"values":[1]}`:                                    "values",
		`{"values":1}`:                                      "values",
		`{"values":{` + valuesOf(32) + `}}`:                 "",
		`{"values":{` + valuesOf(33) + `}}`:                 "values",
		`{"values":{"` + strings.Repeat("n", 256) + `":1}}`: "",
		`{"values":{"` + strings.Repeat("n", 257) + `":1}}`: "values",
		`{"decision_id":1}`:                                 "decision_id",
		`{"decision_id":"D"}`:                               "",
		`{"decision_id":"","trace_id":""}`:                  "decision_id",
		`{"latency":0}`:                                     "",
		`{"latency":0.25}`:                                  "",
		`{"latency":1e12}`:                                  "",
		`{"latency":-1}`:                                    "latency",
		`{"latency":1e13}`:                                  "latency",
		`{"latency":"12"}`:                                  "latency",
		`{"roundtrip_time":12}`:                             "",
		`{"roundtrip_time":-12}`:                            "roundtrip_time",
		`{"roundtrip_time":{}}`:                             "roundtrip_time",
		`{"trace_id":1}`:                                    "trace_id",
		`{"llm_response":{}}`:                               "llm_response",
		`{"llm_response":1}`:                                "llm_response",
		`{"chain_id":1}`:                                    "chain_id",
		`{"conversation_id":[]}`:                            "conversation_id",
		`{"metadata":[]}`:                                   "metadata",
		`{"metadata":"a=b"}`:                                "metadata",
		`{"metadata":1}`:                                    "metadata",
		`{"economics":1}`:                                   "economics",
		`{"economics":[]}`:                                  "economics",
		`{"economics":{}}`:                                  "economics.prompt_tokens",
		`{"economics":{"prompt_tokens":1}}`:                 "economics.total_tokens",
		`{"economics":{"total_tokens":1}}`:                  "economics.prompt_tokens",
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

func valuesOf(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"n%d":%d`, i, i)
	}
	return strings.Join(members, ",")
}

// TestValuesAreWrittenAgain: a number has one spelling, however its caller spells it.
func TestValuesAreWrittenAgain(t *testing.T) {
	for sent, kept := range map[string]string{
		`1`: `1`, `-0`: `0`, `1.50e3`: `1500`, `1e15`: `1000000000000000`, `0.1`: `0.1`,
		`1e-7`: `1e-07`, `1e-400`: `0`, `1.` + strings.Repeat("0", 5000): `1`,
	} {
		m, err := parsed(t, `{"values":{"a":`+sent+`}}`).Metrics()
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Values) != `{"a":`+kept+`}` {
			t.Errorf("%.20s became %s", sent, m.Values)
		}
	}
}

func TestApply(t *testing.T) {
	const all = `{"metadata":{"a":1},"values":{"n":2},"score":1,"latency":2,"roundtrip_time":3,"llm_response":"x","chain_id":"c","conversation_id":"d","economics":{"prompt_tokens":1,"total_tokens":2}}`
	measured := []string{"latency", "llm_response", "economics"}
	always := trace.Metrics{Metadata: []byte(`{"a":1}`), Values: []byte(`{"n":2}`), RoundtripTime: new(3.0)}
	ofEndpoint := always
	ofEndpoint.Score, ofEndpoint.ChainID, ofEndpoint.ConversationID = new(1.0), new("c"), new("d")
	whole := ofEndpoint
	whole.Latency, whole.LLMResponse = new(2.0), new("x")
	whole.PromptTokens, whole.CompletionTokens, whole.TotalTokens = new(int64(1)), new(int64(1)), new(int64(2))
	tests := map[string]struct {
		kind    trace.Kind
		body    string
		ignored []string
		left    trace.Metrics
		code    string
	}{
		"prompt takes all":        {trace.KindPrompt, all, nil, whole, ""},
		"unattached takes all":    {trace.KindMetrics, all, nil, whole, ""},
		"prompt requires one":     {trace.KindPrompt, `{}`, nil, trace.Metrics{}, "no_metrics"},
		"unattached requires one": {trace.KindMetrics, `{"metadata":{},"score":null}`, nil, trace.Metrics{}, "no_metrics"},
		"prompt with roundtrip":   {trace.KindPrompt, `{"roundtrip_time":3}`, nil, trace.Metrics{RoundtripTime: new(3.0)}, ""},
		"decision takes all":      {trace.KindDecision, all, nil, whole, ""},
		"decision requires one":   {trace.KindDecision, `{}`, nil, trace.Metrics{}, "no_metrics"},
		"endpoint":                {trace.KindEndpoint, all, measured, ofEndpoint, ""},
		"endpoint values":         {trace.KindEndpoint, `{"values":{"n":2}}`, nil, trace.Metrics{Values: []byte(`{"n":2}`)}, ""},
		"endpoint chain":          {trace.KindEndpoint, `{"chain_id":""}`, nil, trace.Metrics{ChainID: new("")}, ""},
		"endpoint conversation":   {trace.KindEndpoint, `{"conversation_id":"d"}`, nil, trace.Metrics{ConversationID: new("d")}, ""},
		"endpoint score":          {trace.KindEndpoint, `{"score":0}`, nil, trace.Metrics{Score: new(0.0)}, ""},
		"endpoint metadata":       {trace.KindEndpoint, `{"metadata":{"a":1}}`, nil, trace.Metrics{Metadata: []byte(`{"a":1}`)}, ""},
		"endpoint with measured":  {trace.KindEndpoint, `{"latency":1}`, nil, trace.Metrics{}, "no_metrics"},
		"endpoint with roundtrip": {trace.KindEndpoint, `{"roundtrip_time":1}`, nil, trace.Metrics{}, "no_metrics"},
		"endpoint with nothing":   {trace.KindEndpoint, `{}`, nil, trace.Metrics{}, "no_metrics"},
		"configuration": {trace.KindRemoteConfig, all,
			[]string{"score", "latency", "llm_response", "chain_id", "conversation_id", "economics"}, always, ""},
		"configuration with nothing":   {trace.KindRemoteConfig, `{}`, nil, trace.Metrics{}, ""},
		"configuration with score":     {trace.KindRemoteConfig, `{"score":1}`, []string{"score"}, trace.Metrics{}, ""},
		"configuration with roundtrip": {trace.KindRemoteConfig, `{"roundtrip_time":3}`, nil, trace.Metrics{RoundtripTime: new(3.0)}, ""},
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
			if diff := cmp.Diff(&MetricsRecord{Metrics: test.left}, m); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTraceMetrics(t *testing.T) {
	tests := map[string]struct {
		query, body string
		metadata    string
		values      string
		score       float64 // -1 for none
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
		"values":                {query: `values[b]=2.50&values%5Ba%5D=-1e3&metadata[c]=1`, metadata: `{"c":"1"}`, values: `{"a":-1000,"b":2.5}`, score: -1},
		"values alone":          {query: `values[a]=1`, values: `{"a":1}`, score: -1},
		"values in JSON":        {query: `{"values":{"a":1}}`, values: `{"a":1}`, score: -1},
		"no number":             {query: `values[a]=1,"score":5`, code: "invalid_request", param: "values.a"},
		"empty number":          {query: `values[a]=`, code: "invalid_request", param: "values.a"},
		"no name of a value":    {query: `values[a+b]=1`, code: "invalid_request", param: "values"},
		"nested value":          {query: `values[a][b]=1`, code: "invalid_request", param: "values[a][b]"},
		"value twice":           {query: `values[a]=1&values[a]=2`, code: "invalid_request", param: "values[a]"},
		"pairs of another kind": {query: `score[a]=1`, code: "invalid_request", param: "score[a]"},
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
			if string(m.Values) != test.values {
				t.Errorf("values %s, want %s", m.Values, test.values)
			}
			if test.score < 0 != (m.Score == nil) || m.Score != nil && *m.Score != test.score {
				t.Errorf("score %v, want %v", m.Score, test.score)
			}
		})
	}
}

// A record must stay the same when the request's buffers serve another request.
func TestMetricsOwnTheirData(t *testing.T) {
	r := AcquireRequest()
	r.body = append(r.body, `{"trace_id":"abc","metadata":{"k":"v"},"values":{"name":1},"llm_response":"text"}`...)
	m, err := r.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	r.body = append(r.body[:0], strings.Repeat(" ", 70)+`{"zzzzzzzz":"zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"}`...)
	if _, err := r.Metrics(); err != nil {
		t.Fatal(err)
	}
	if *m.NamedTrace != "abc" || string(m.Metadata) != `{"k":"v"}` || string(m.Values) != `{"name":1}` || *m.LLMResponse != "text" {
		t.Errorf("%s %s %s", *m.NamedTrace, m.Metadata, *m.LLMResponse)
	}
	r.Release()
}

// TestEconomicsFromTwoCounts derives the third, whichever it is.
func TestEconomicsFromTwoCounts(t *testing.T) {
	for _, counts := range []string{`"prompt_tokens":1,"completion_tokens":2`, `"prompt_tokens":1,"total_tokens":3`, `"total_tokens":3,"completion_tokens":2,"prompt_tokens":null`} {
		m, err := parsed(t, `{"score":8,"economics":{`+counts+`}}`).Metrics()
		if err != nil || *m.Score != 8 || *m.PromptTokens != 1 || *m.CompletionTokens != 2 || *m.TotalTokens != 3 {
			t.Errorf("%s: %+v, %v", counts, m, err)
		}
	}
}
