package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// decodeStrictly reads one JSON text with encoding/json, refusing duplicate
// members and numbers beyond float64. It returns the depth of its nesting and
// the number of its values.
func decodeStrictly(text []byte) (v any, depth, values int, err error) {
	if !utf8.Valid(text) {
		return nil, 0, 0, errors.New("not UTF-8")
	}
	if !json.Valid(text) {
		return nil, 0, 0, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	v, err = decodeToken(d, 1, &depth, &values)
	if err == nil {
		_, err = d.Token()
		if err == io.EOF {
			err = nil
		}
	}
	return v, depth, values, err
}

func decodeToken(d *json.Decoder, level int, depth, values *int) (any, error) {
	*depth = max(*depth, level)
	*values++
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			if _, twice := object[name.(string)]; twice {
				return nil, fmt.Errorf("duplicate %q", name)
			}
			if object[name.(string)], err = decodeToken(d, level+1, depth, values); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			element, err := decodeToken(d, level+1, depth, values)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		_, err = d.Token()
		return list, err
	}
	return token, nil
}

func addBodies(f *testing.F) {
	for _, body := range []string{
		`{"keys":["a","b"],"context":{"n":1.5e3,"l":[true,null]},"variables":{"q":"\u00e9\ud83d\ude42"}}`,
		`{"key":"support_chat","stream":true,"metadata":{"\ud800":"\udc00x"}}`,
		`{"score":85,"economics":{"prompt_tokens":1,"total_tokens":2},"metadata":{"a":1}}`,
		`{"a":01}`, `{"a":1,"\u0061":2}`, `[1e999]`, "\"\x01\"", "{\"a\":\"\xff\"}", `"\x"`, `{"a":1}]`,
		`{"a":-0.0e-0}`, ` [ ] `, `{"":{"":[]}}`,
	} {
		f.Add([]byte(body))
	}
	for _, bad := range badBodies {
		if len(bad.body) < 4096 {
			f.Add([]byte(bad.body))
		}
	}
}

// FuzzRequestBody compares the parser with encoding/json: the parser accepts
// exactly the bodies on which the two agree, and reads the same values.
func FuzzRequestBody(f *testing.F) {
	addBodies(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		want, depth, values, wantErr := decodeStrictly(body)
		r := AcquireRequest()
		defer r.Release()
		r.body = append(r.body, body...)
		v, err := r.parseValue(false)
		if wantErr == nil && (depth > maxDepth || values > maxValues) {
			wantErr = errors.New("past a limit")
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, but encoding/json: %v", body, err, wantErr)
		}
		if err != nil {
			if !json.Valid(err.AppendJSON(nil)) {
				t.Fatalf("%q: the error is not JSON", body)
			}
			return
		}
		var got any
		text := jsontext.AppendValue(nil, v)
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%q became %q: %v", body, text, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %q", body, text)
		}
		if r.values != values {
			t.Fatalf("%q: %d values, want %d", body, r.values, values)
		}
		// Whatever the document, the calls refuse it with a whole error.
		for _, err := range []*Error{
			second(r.Prompts()), second(r.RemoteConfigs()), second(r.Decisions()), second(r.Endpoint()),
		} {
			if err != nil && (err.Status != 400 || err.Message == "" || !json.Valid(err.AppendJSON(nil))) {
				t.Fatalf("%q: %v", body, err)
			}
		}
	})
}

func second[T any](_ T, err *Error) *Error { return err }

// FuzzMetrics checks that whatever is accepted as a record satisfies the
// record's rules.
func FuzzMetrics(f *testing.F) {
	addBodies(f)
	f.Add([]byte(`{"decision_id":"x","values":{"resolved":1,"n":-1e-7,"m":null}}`))
	f.Add([]byte(`values[a]=1&metadata[b]=2`))
	f.Add([]byte(`{"unit":{"id":"c-7"},"values":{"n":1},"time":"2026-01-31T12:00:00Z","event_id":"e-1"}`))
	f.Add([]byte(`{"trace_id":"x","score":100,"latency":1e12,"roundtrip_time":-0,"llm_response":"","economics":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := AcquireRequest()
		defer r.Release()
		for _, asQuery := range []bool{false, true} {
			var m *MetricsRecord
			var err *Error
			r.body = r.body[:0]
			if asQuery {
				m, err = r.TraceMetrics(string(body))
			} else {
				r.body = append(r.body, body...)
				m, err = r.Metrics()
			}
			if err != nil {
				if err.Status != 400 || !json.Valid(err.AppendJSON(nil)) {
					t.Fatalf("%q: %v", body, err)
				}
				continue
			}
			checkRecord(t, m)
			for _, kind := range []trace.Kind{trace.KindMetrics, trace.KindPrompt, trace.KindEndpoint, trace.KindRemoteConfig, trace.KindDecision} {
				reduced := *m
				_, err := reduced.Apply(kind)
				if err != nil && err.Name != "no_metrics" {
					t.Fatalf("%q: %v", body, err)
				}
				if err == nil && reduced.Empty() && kind != trace.KindRemoteConfig {
					t.Fatalf("%q: an empty record for kind %d", body, kind)
				}
			}
		}
	})
}

func checkRecord(t *testing.T, m *MetricsRecord) {
	t.Helper()
	for _, n := range []*float64{m.Score, m.Latency, m.RoundtripTime} {
		if n != nil && (math.IsNaN(*n) || math.Signbit(*n) || *n > maxMilliseconds) {
			t.Fatalf("number %v", *n)
		}
	}
	if m.Score != nil && *m.Score > 100 {
		t.Fatalf("score %v", *m.Score)
	}
	if m.TotalTokens != nil && (*m.PromptTokens < 0 || *m.CompletionTokens < 0 || *m.TotalTokens > maxTokens || *m.PromptTokens+*m.CompletionTokens != *m.TotalTokens) {
		t.Fatalf("%d prompt and %d completion tokens are %d", *m.PromptTokens, *m.CompletionTokens, *m.TotalTokens)
	}
	if m.Values != nil {
		var values map[string]float64
		if err := json.Unmarshal(m.Values, &values); err != nil || len(values) == 0 || len(values) > maxNamedValues {
			t.Fatalf("values %q: %v", m.Values, err)
		}
		for name, n := range values {
			if !LegalKey(name) || math.Abs(n) > maxNamedValue || n == 0 && math.Signbit(n) {
				t.Fatalf("value %q: %v", name, n)
			}
		}
	}
	if onUnit := m.NamedUnit != nil; onUnit && (m.Values == nil || m.NamedTrace != nil || m.NamedDecision != nil || m.Metadata != nil || m.asked() != (m.Values != nil)) ||
		!onUnit && (m.UnitField != "" || m.EventID != "" || !m.Happened.IsZero()) {
		t.Fatalf("a report on a unit %t: %+v", onUnit, m)
	}
	if m.NamedTrace != nil && m.NamedDecision != nil {
		t.Fatalf("a trace %q and a decision %q", *m.NamedTrace, *m.NamedDecision)
	}
	if m.Metadata != nil {
		var object map[string]any
		if err := json.Unmarshal(m.Metadata, &object); err != nil || len(object) == 0 {
			t.Fatalf("metadata %q: %v", m.Metadata, err)
		}
	}
	for _, s := range []*string{m.NamedTrace, m.NamedDecision, m.LLMResponse, m.ChainID, m.ConversationID} {
		if s != nil && !utf8.ValidString(*s) {
			t.Fatalf("%q is not UTF-8", *s)
		}
	}
}

// FuzzAuthorizationHeader checks that a token is only ever taken from a header
// that says Bearer and nothing else.
func FuzzAuthorizationHeader(f *testing.F) {
	f.Add("Bearer cadenza-demo-key-0001", "", false)
	f.Add("bearer  x", "Basic eDp5", true)
	f.Add("Bearer \x00' OR 1=1 --aaaaaaaaaaaaaaaaaaaaaa", "", false)
	f.Fuzz(func(t *testing.T, first, other string, two bool) {
		h := http.Header{"Authorization": {first}}
		if two {
			h["Authorization"] = append(h["Authorization"], other)
		}
		token, sent, ok := BearerToken(h)
		if !ok {
			if token != "" {
				t.Fatalf("refused, but returned %q", token)
			}
			return
		}
		if !sent || two || len(token) < 16 || len(token) > 512 {
			t.Fatalf("%q %v", token, sent)
		}
		for _, c := range []byte(token) {
			if c <= 0x20 || c >= 0x7f {
				t.Fatalf("%q", token)
			}
		}
		if !bytes.EqualFold([]byte(first[:6]), []byte("Bearer")) || first[6] != ' ' || !bytes.Contains([]byte(first), []byte(token)) {
			t.Fatalf("%q from %q", token, first)
		}
	})
}

// FuzzReports checks that a batch has a record or an error for each report, whose records
// satisfy their rules.
func FuzzReports(f *testing.F) {
	for _, body := range []string{
		`[{"score":1},{"unit":{"id":"c-7"},"values":{"n":1}},5,[]]`, "{\"score\":1}\n\n{\"score\":x}\r\n[]\n", `[]`, ``, "\n \n", `[{"a":1,"a":2}]`,
	} {
		f.Add([]byte(body), false)
		f.Add([]byte(body), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, lines bool) {
		r := AcquireRequest()
		defer r.Release()
		r.body = append(r.body[:0], body...)
		seen := 0
		err := r.EachReport(lines, func(m *MetricsRecord, err *Error) {
			seen++
			if (m == nil) != (err != nil) || err != nil && (err.Status != 400 || !json.Valid(err.AppendObject(nil))) {
				t.Fatalf("%q: %+v, %v", body, m, err)
			}
			if m != nil {
				checkRecord(t, m)
			}
		})
		if (err != nil) != (seen == 0) || seen > maxReports || !bytes.Equal(r.body, body) {
			t.Fatalf("%q: %d reports, %v; the body is %q", body, seen, err, r.body)
		}
	})
}
