package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func completeRecord() *Record {
	id, _ := ParseID("0192f3a1-b2c3-8404-8000-0001deadbeef")
	decision, _ := ParseID("0192f3a1-b2c3-8a04-8000-0001deadbeef")
	return &Record{
		ID: id, Decision: decision, Time: time.UnixMilli(1790000000120).In(time.FixedZone("", 7200)), Workspace: "default", APIKey: "app",
		Kind: KindEndpoint, Key: "support_chat", Version: "0123456789ab", Revision: "ba9876543210", Row: "staff", Variant: "nl",
		Prompt: "support_reply", PromptVersion: "00aa11bb22cc", FinishReason: "length",
		Reason: "split", Arm: "b", EndpointVariant: "fast", EndpointRow: "free",
		Splits: []byte(`[{"bucket":1}]`), Read: []byte(`{"remoteconfigs/a":"0123456789ab"}`), Inputs: []byte(`{"plan":"pro"}`),
		Provider: "openai", Model: "gpt", State: StateInterrupted, Status: 502, Code: "upstream_error",
		Attempts: []Attempt{
			{Provider: "groq"},
			{
				Provider: "openai", Model: "gpt", Status: 500, Code: "server", Error: "died\n", Latency: 3*time.Millisecond + 999, Started: time.Microsecond,
				Wait: 1500 * time.Microsecond, FirstToken: 20 * time.Microsecond, PromptTokens: 1, CompletionTokens: 2, Estimated: true, Hedge: true,
			},
		},
		Latency: 1234567 * time.Microsecond, FirstToken: 500 * time.Microsecond,
		HasUsage: true, PromptTokens: 10, TotalTokens: 10, Cost: 0.0000001, Cached: true,
		Notes:    []string{"a \"note\"\n", "\x00\x7f\xff"},
		Seal:     "9c2f1a0b.AAAA",
		Metadata: []byte("{\n  \"a\": \"\\n\"\r\n}"), Context: []byte(`{"b":"é"}`), Variables: []byte(`{}`),
		Messages: []byte(`[{"role":"user"}]`), Response: []byte("hello\x00\xfe\u2028"), ToolCalls: []byte(`[1]`),
	}
}

func TestRecordJSON(t *testing.T) {
	const id = `"trace_id":"0192f3a1-b2c3-8404-8000-0001deadbeef"`
	broken := &Record{
		ID: completeRecord().ID, Workspace: "w", Kind: KindPrompt, Key: "k", Cost: math.NaN(),
		Time: time.UnixMilli(1790000000987), Latency: -time.Millisecond - 999*time.Microsecond,
		Metadata: []byte(`{"a":`), Messages: []byte("{\"a\":\"\xff\"}"), ToolCalls: []byte(`{} {}`),
	}
	for name, test := range map[string]struct {
		record *Record
		want   string
	}{
		"complete": {completeRecord(), `{` + id + `,"decision_id":"0192f3a1-b2c3-8a04-8000-0001deadbeef","time":"2026-09-21T14:13:20.120Z","workspace":"default","kind":"endpoint",` +
			`"key":"support_chat","state":"interrupted","api_key":"app","version":"0123456789ab","revision":"ba9876543210",` +
			`"prompt":"support_reply","prompt_version":"00aa11bb22cc","endpoint_variant":"fast","endpoint_row":"free","reason":"split","row":"staff",` +
			`"variant":"nl","arm":"b","provider":"openai","model":"gpt","status":502,"code":"upstream_error","finish_reason":"length","latency_ms":1234.567,"first_token_ms":0.5,` +
			`"usage":{"prompt_tokens":10,"completion_tokens":0,"total_tokens":10},"cost_usd":1e-07,"cached":true,` +
			`"notes":["a \"note\"\n","\u0000\u007f` + "\uFFFD" + `"],` +
			`"attempts":[{"provider":"groq","latency_ms":0},{"provider":"openai","model":"gpt","status":500,"code":"server","error":"died\n","latency_ms":3,` +
			`"started_ms":0.001,"wait_ms":1.5,"first_token_ms":0.02,"prompt_tokens":1,"completion_tokens":2,"estimated":true,"hedge":true}],` +
			`"splits":[{"bucket":1}],"read":{"remoteconfigs/a":"0123456789ab"},"inputs":{"plan":"pro"},` +
			`"metadata":{"a":"\n"},"seal":"9c2f1a0b.AAAA","context":{"b":"é"},"variables":{},"messages":[{"role":"user"}],"response":"hello\u0000` + "\uFFFD" + `\u2028",` +
			`"tool_calls":[1]}`},
		"bare": {
			&Record{ID: completeRecord().ID, Workspace: "w", Kind: KindPrompt, Key: "k"},
			`{` + id + `,"workspace":"w","kind":"prompt","key":"k","state":"ended"}`,
		},
		"what is no JSON": {broken, `{` + id + `,"time":"2026-09-21T14:13:20.987Z","workspace":"w","kind":"prompt","key":"k","state":"ended","latency_ms":-1.999,` +
			`"metadata":"{\"a\":","messages":"{\"a\":\"` + "\uFFFD" + `\"}","tool_calls":"{} {}"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(test.record.AppendJSON([]byte("before ")))
			if diff := cmp.Diff("before "+test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			marshalled, err := json.Marshal(test.record)
			if err != nil || !json.Valid(marshalled) {
				t.Errorf("%s, %v", marshalled, err)
			}
			comesBack(t, []byte(test.want), new(Record))
		})
	}
}

func TestMetricsJSON(t *testing.T) {
	id := completeRecord().ID
	at := time.UnixMilli(1790000000000)
	for name, test := range map[string]struct {
		metrics Metrics
		want    string
	}{
		"complete": {
			Metrics{
				UUID: id, TraceID: id, Decision: id, Values: []byte(`{"saved":1.5}`), Workspace: "w", APIKey: "app", Time: at, Score: new(0.0), Latency: new(12.25), RoundtripTime: new(1e300),
				LLMResponse: new(""), ChainID: new("c\t"), ConversationID: new("d"),
				PromptTokens: new(int64(1)), CompletionTokens: new(int64(0)), TotalTokens: new(int64(1)), Metadata: []byte(`{"n":1}`),
			},
			`{"id":"` + id.String() + `","trace_id":"` + id.String() + `","decision_id":"` + id.String() + `","time":"2026-09-21T14:13:20.000Z","workspace":"w","api_key":"app","score":0,"latency_ms":12.25,` +
				`"roundtrip_time_ms":1e+300,"llm_response":"","chain_id":"c\t","conversation_id":"d",` +
				`"usage":{"prompt_tokens":1,"completion_tokens":0,"total_tokens":1},"values":{"saved":1.5},"metadata":{"n":1}}`,
		},
		"bare":     {Metrics{TraceID: id, Workspace: "w"}, `{"trace_id":"` + id.String() + `","workspace":"w"}`},
		"infinite": {Metrics{TraceID: id, Workspace: "w", Score: new(math.Inf(1))}, `{"trace_id":"` + id.String() + `","workspace":"w"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, string(test.metrics.AppendJSON(nil))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			comesBack(t, []byte(test.want), new(Metrics))
		})
	}
}

// comesBack checks that text, once read, is written unchanged, except for white space.
func comesBack(t *testing.T, text []byte, into interface {
	json.Unmarshaler
	AppendJSON(dst []byte) []byte
},
) {
	t.Helper()
	if err := into.UnmarshalJSON(text); err != nil {
		t.Errorf("%v of %s", err, text)
	}
	var read, written bytes.Buffer
	if err := errors.Join(json.Compact(&read, text), json.Compact(&written, into.AppendJSON(nil))); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(read.String(), written.String()); diff != "" {
		t.Errorf("(-read +written):\n%s", diff)
	}
}

// TestRecordIsReadWhole checks that UnmarshalJSON restores a record, except for
// precision and text that JSON can't have.
func TestRecordIsReadWhole(t *testing.T) {
	want := completeRecord()
	want.Attempts[1].Latency = want.Attempts[1].Latency.Truncate(time.Microsecond)
	want.Time = want.Time.UTC()
	want.Notes[1], want.Response = "\x00\x7f\uFFFD", []byte("hello\x00\uFFFD\u2028")
	want.Metadata = []byte(`{"a":"\n"}`)
	var got Record
	if err := json.Unmarshal(want.AppendJSON(nil), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnreadableRecords(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                               "cannot unmarshal array",
		`{"kind":"poem"}`:                  `kind: "poem" is unknown`,
		`{"state":5}`:                      "state: ",
		`{"usage":5}`:                      "usage: ",
		`{"attempts":[{"latency_ms":""}]}`: "attempts: latency_ms: ",
		`{"trace_id":"x"}`:                 "trace_id: a trace id must be",
		`{"response":{}}`:                  "response: ",
	} {
		if err := json.Unmarshal([]byte(text), new(Record)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := json.Unmarshal([]byte(`{"later":1,"usage":null,"attempts":null}`), new(Record)); err != nil {
		t.Error(err)
	}
}

// TestEveryMemberIsAField checks that each member of a record and of metrics is in the
// table of fields, with a type that appendFields supports. Some members are not shown.
func TestEveryMemberIsAField(t *testing.T) {
	everyMember(t, RecordFields, "HasUsage", "Shared", "SharesContent", "Sealer")
	everyMember(t, MetricsFields, "Reply", "Repeated")
	everyMember(t, attemptFields)
}

func everyMember[T any](t *testing.T, fields []Field[T], others ...string) {
	var value T
	names := map[uintptr]string{}
	for _, f := range fields {
		names[reflect.ValueOf(f.At(&value)).Pointer()] = f.Name
	}
	for _, found := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if found.Anonymous {
			continue // VisibleFields also returns its members
		}
		name, member := found.Name, reflect.ValueOf(&value).Elem().FieldByIndex(found.Index)
		field := names[member.Addr().Pointer()]
		if (field == "") != slices.Contains(others, name) {
			t.Errorf("%T.%s is the field %q", value, name, field)
		}
		if field == "" {
			if member.Kind() == reflect.Bool {
				member.SetBool(true) // HasUsage
			}
			continue
		}
		fill(t, member)
		if form := appendFields(nil, fields, &value); !bytes.Contains(form, []byte(`"`+field+`":`)) {
			t.Errorf("%T.%s is not in %s", value, name, form)
		}
	}
}

// fill sets a member to a value that is not zero.
func fill(t *testing.T, member reflect.Value) {
	switch member.Kind() {
	case reflect.String:
		member.SetString("text")
	case reflect.Int, reflect.Int64:
		member.SetInt(int64(time.Second))
	case reflect.Uint8:
		member.SetUint(1)
	case reflect.Float64:
		member.SetFloat(1)
	case reflect.Bool:
		member.SetBool(true)
	case reflect.Array:
		fill(t, member.Index(0))
	case reflect.Slice:
		member.Set(reflect.MakeSlice(member.Type(), 1, 1))
		fill(t, member.Index(0))
	case reflect.Pointer:
		member.Set(reflect.New(member.Type().Elem()))
	case reflect.Struct:
		if member.Type() == reflect.TypeFor[time.Time]() {
			member.Set(reflect.ValueOf(time.UnixMilli(1790000000000)))
		}
	default:
		t.Errorf("no value for a %s", member.Type())
	}
}

// FuzzRecordJSON checks that the form is one line of valid JSON for any record, and
// that reading it restores the members.
func FuzzRecordJSON(f *testing.F) {
	f.Add("k", "note", []byte(`{"a":1}`), []byte("text"), 0.5, int64(1500), int64(1790000000000))
	f.Add("\xff", "\"\\\n", []byte("[\n1]"), []byte("\x00\u2028"), math.Inf(-1), int64(-1), int64(-1))
	f.Add("", "", []byte(`1 2`), []byte{}, 1e-9, int64(math.MinInt64), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, key, note string, raw, response []byte, number float64, duration, at int64) {
		r := &Record{
			Workspace: key, Kind: KindEndpoint, Key: key, Row: note, Time: time.UnixMilli(at), Notes: []string{note, key},
			Attempts: []Attempt{{Provider: note, Latency: time.Duration(duration)}}, Latency: time.Duration(duration), Cost: number,
			Metadata: raw, Messages: raw, Response: response, ToolCalls: raw,
		}
		m := &Metrics{Workspace: key, Score: &number, LLMResponse: &note, Metadata: raw, TotalTokens: &duration}
		for _, form := range [][]byte{r.AppendJSON(nil), m.AppendJSON(nil)} {
			if !json.Valid(form) || !utf8.Valid(form) || bytes.ContainsAny(form, "\n\r") {
				t.Errorf("%q", form)
			}
		}
		if year := r.Time.UTC().Year(); year >= 0 && year <= 9999 { // the years of RFC 3339
			d := time.Duration(duration).Abs()
			if d == 0 || time.Microsecond <= d && d < 1<<52*time.Microsecond { // not rounded in JSON
				comesBack(t, r.AppendJSON(nil), new(Record))
			}
			comesBack(t, m.AppendJSON(nil), new(Metrics))
		}
		var back struct {
			Key      string          `json:"key"`
			Notes    []string        `json:"notes"`
			Latency  float64         `json:"latency_ms"`
			Response string          `json:"response"`
			Messages json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(r.AppendJSON(nil), &back); err != nil {
			t.Fatal(err)
		}
		clean := func(s string) string { return string([]rune(s)) } // replaces invalid UTF-8 by U+FFFD
		if back.Key != clean(key) || back.Notes[0] != clean(note) || back.Response != clean(string(response)) {
			t.Errorf("%+v of %+v", back, r)
		}
		if want := float64(time.Duration(duration).Microseconds()) / 1000; math.Abs(back.Latency-want) > math.Abs(want)*1e-15 {
			t.Errorf("latency %v, want %v", back.Latency, want)
		}
		if len(raw) > 0 && json.Valid(raw) && utf8.Valid(raw) {
			var want bytes.Buffer
			_ = json.Compact(&want, raw)
			var got bytes.Buffer
			_ = json.Compact(&got, back.Messages)
			if want.String() != got.String() {
				t.Errorf("%s, want %s", got.String(), want.String())
			}
		}
	})
}

func TestFilterValidate(t *testing.T) {
	at := time.UnixMilli(1790000000000)
	for name, test := range map[string]struct {
		filter Filter
		want   string // in the error; empty: none
	}{
		"least":              {Filter{Workspace: "w"}, ""},
		"most":               {Filter{Workspace: "w", Since: at, Until: at.Add(1), Kind: KindMetrics, Outcome: Failed, State: new(StateStarted), Metadata: []MetadataMatch{{Name: "a", Value: `"b"`}, {Name: "c", Value: "1.5e3"}, {Name: "d", Value: "true"}, {Name: "e", Value: "null"}}}, ""},
		"no workspace":       {Filter{}, "workspace"},
		"since":              {Filter{Workspace: "w", Since: at}, ""},
		"until":              {Filter{Workspace: "w", Until: at}, ""},
		"kind":               {Filter{Workspace: "w", Kind: 7}, "kind"},
		"no score":           {Filter{Workspace: "w", Score: &ScoreRange{2, 1}}, "no score"},
		"time":               {Filter{Workspace: "w", Slower: -1}, "below 0"},
		"attempts":           {Filter{Workspace: "w", Attempts: -1}, "below 0"},
		"outcome":            {Filter{Workspace: "w", Outcome: 3}, "outcome"},
		"nothing":            {Filter{Workspace: "w", Since: at, Until: at}, "before"},
		"bare text":          {Filter{Workspace: "w", Metadata: []MetadataMatch{{Name: "a", Value: "b"}}}, `"a"`},
		"two values":         {Filter{Workspace: "w", Metadata: []MetadataMatch{{Name: "a", Value: "1 2"}}}, `"a"`},
		"a bracket after it": {Filter{Workspace: "w", Metadata: []MetadataMatch{{Name: "a", Value: "1]"}}}, `"a"`},
		"object":             {Filter{Workspace: "w", Metadata: []MetadataMatch{{Name: "a", Value: "{}"}}}, "number"},
		"decision":           {Filter{Workspace: "w", Decision: newID(1, KindDecision, 1)}, ""},
		"no decision":        {Filter{Workspace: "w", Decision: newID(1, KindPrompt, 1)}, "decision_id"},
		"many":               {Filter{Workspace: "w", Metadata: make([]MetadataMatch, 9)}, "at most 8"},
	} {
		err := test.filter.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func BenchmarkRecordJSON(b *testing.B) {
	r, buffer := completeRecord(), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		buffer = r.AppendJSON(buffer[:0])
	}
}
