package wire

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/trace"
)

// keysOf is a list of n keys, as JSON.
func keysOf(n int) string {
	_, list, _ := strings.Cut(keyArray(n), ":")
	return strings.TrimSuffix(list, "}")
}

func TestDecisions(t *testing.T) {
	for body, want := range map[string]Decisions{
		`{"prompts":["a","b","a"],"remoteconfigs":["b","c","b"]}`: {Prompts: []string{"a", "b"}, RemoteConfigs: []string{"b", "c"}},
		`{"prompts":["a"]}`:                            {Prompts: []string{"a"}},
		`{"remoteconfigs":["a"]}`:                      {RemoteConfigs: []string{"a"}},
		`{"prompts":["a"],"remoteconfigs":null}`:       {Prompts: []string{"a"}},
		`{"prompts":[],"remoteconfigs":["a"]}`:         {Prompts: []string{}, RemoteConfigs: []string{"a"}},
		`{"remoteconfigs":["a"],"keys":["x", 1]}`:      {RemoteConfigs: []string{"a"}},
		`{"prompts":["a"],"remoteconfigs":["\u0061"]}`: {Prompts: []string{"a"}, RemoteConfigs: []string{"a"}},
	} {
		got, err := parsed(t, body).Decisions()
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
	d, err := parsed(t, `{"prompts":["a"],"context":{"a":1},"metadata":{"b":2},"variables":{"c":3}}`).Decisions()
	if err != nil || text(d.Context)+text(d.Metadata)+text(d.Variables) != `{"a":1}{"b":2}{"c":3}` {
		t.Errorf("%+v, %v", d, err)
	}
	// Lists of a hundred keys must not overwrite each other, wherever they are kept.
	d, err = parsed(t, `{"prompts":`+keysOf(40)+`,"remoteconfigs":`+strings.ReplaceAll(keysOf(60), "k", "c")+`}`).Decisions()
	if err != nil || len(d.Prompts) != 40 || len(d.RemoteConfigs) != 60 || d.Prompts[39] != "k39" || d.RemoteConfigs[0] != "c0" || d.RemoteConfigs[59] != "c59" {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestBadDecisions(t *testing.T) {
	for body, param := range map[string]string{
		`{}`:                                "",
		`{"keys":["a"]}`:                    "",
		`{"prompts":null}`:                  "",
		`{"prompts":[]}`:                    "",
		`{"prompts":[],"remoteconfigs":[]}`: "",
		`{"prompts":` + keysOf(50) + `,"remoteconfigs":` + keysOf(51) + `}`: "",
		`{"prompts":` + keysOf(101) + `}`:                                   "prompts",
		`{"remoteconfigs":` + keysOf(101) + `}`:                             "remoteconfigs",
		`{"prompts":"a"}`:                                                   "prompts",
		`{"prompts":{}}`:                                                    "prompts",
		`{"prompts":["a"],"remoteconfigs":"b"}`:                             "remoteconfigs",
		`{"prompts":["a",1]}`:                                               "prompts[1]",
		`{"prompts":["a"],"remoteconfigs":["b","c d"]}`:                     "remoteconfigs[1]",
		`{"prompts":["a"],"context":[]}`:                                    "context",
		`{"prompts":["a"],"metadata":"x"}`:                                  "metadata",
		`{"prompts":["a"],"variables":["x"]}`:                               "variables",
		`{"remoteconfigs":["a"],"variables":["x"]}`:                         "variables",
	} {
		_, err := parsed(t, body).Decisions()
		checkError(t, err, "invalid_request", param)
	}
}

// TestDecisionMetadataCeiling: the metadata of a request for decisions has the
// ceiling of all metadata.
func TestDecisionMetadataCeiling(t *testing.T) {
	r := parsed(t, `{"prompts":["a"],"metadata":{"a":"`+strings.Repeat("x", 200)+`"}}`)
	r.SetMetadataLimit(100)
	_, err := r.Decisions()
	checkError(t, err, "invalid_request", "metadata")
}

func TestEndpointsWithConfigurations(t *testing.T) {
	for body, want := range map[string][]string{
		`{"key":"a"}`:                               nil,
		`{"key":"a","remoteconfigs":null}`:          nil,
		`{"key":"a","remoteconfigs":[]}`:            {},
		`{"key":"a","remoteconfigs":["b","c","b"]}`: {"b", "c"},
		`{"keys":["a"],"remoteconfigs":["a"]}`:      {"a"},
	} {
		got, err := parsed(t, body).Endpoint()
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if diff := cmp.Diff(want, got.RemoteConfigs); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
	for body, param := range map[string]string{
		`{"key":"a","remoteconfigs":"b"}`:                 "remoteconfigs",
		`{"key":"a","remoteconfigs":` + keysOf(101) + `}`: "remoteconfigs",
		`{"key":"a","remoteconfigs":["b",null]}`:          "remoteconfigs[1]",
	} {
		_, err := parsed(t, body).Endpoint()
		checkError(t, err, "invalid_request", param)
	}
}

// decisionAnswer is an answer with a value of null for each key.
func decisionAnswer(id trace.ID, prompts, configs []string) (answer []byte, size int) {
	dst := AppendDecisionStart(nil, id)
	size = DecisionSize(len(prompts), len(configs))
	for _, key := range prompts {
		dst = AppendAnswerEnd(append(AppendAnswerStart(dst, key), "null"...), "", parsedID())
		size += AnswerSize(key, len("null"), "")
	}
	dst = AppendDecisionConfigs(dst)
	for _, key := range configs {
		dst = AppendAnswerEnd(append(AppendAnswerStart(dst, key), "null"...), "boolean", parsedID())
		size += AnswerSize(key, len("null"), "boolean")
	}
	return AppendDecisionEnd(dst), size
}

// FuzzDecisions checks that an accepted request for decisions has the right form,
// and that its answer is JSON of the size that was counted beforehand.
func FuzzDecisions(f *testing.F) {
	addBodies(f)
	f.Add([]byte(`{"prompts":["a","b"],"remoteconfigs":["a","c","a"],"context":{"n":1},"variables":{},"metadata":null}`))
	f.Add([]byte(`{"prompts":[],"remoteconfigs":["a"]}`))
	id, _ := trace.ParseID(traceID)
	f.Fuzz(func(t *testing.T, body []byte) {
		r := AcquireRequest()
		defer r.Release()
		r.body = append(r.body, body...)
		d, err := r.Decisions()
		if err != nil {
			if err.Status != 400 || !json.Valid(err.AppendJSON(nil)) {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		if n := len(d.Prompts) + len(d.RemoteConfigs); n == 0 || n > MaxKeys {
			t.Fatalf("%q: %d keys", body, n)
		}
		for _, list := range [][]string{d.Prompts, d.RemoteConfigs} {
			for i, key := range list {
				if !LegalKey(key) || slices.Contains(list[:i], key) {
					t.Fatalf("%q: %q at %d of %q", body, key, i, list)
				}
			}
		}
		answer, size := decisionAnswer(id, d.Prompts, d.RemoteConfigs)
		if len(answer) != size {
			t.Fatalf("%d bytes, %d counted: %s", len(answer), size, answer)
		}
		var read struct {
			ID            string         `json:"decision_id"`
			Prompts       map[string]any `json:"prompts"`
			RemoteConfigs map[string]any `json:"remoteconfigs"`
		}
		if err := json.Unmarshal(answer, &read); err != nil || read.ID != traceID || read.Prompts == nil || read.RemoteConfigs == nil ||
			len(read.Prompts) != len(d.Prompts) || len(read.RemoteConfigs) != len(d.RemoteConfigs) {
			t.Fatalf("%v: %s", err, answer)
		}
	})
}

func beside(dst []byte) []byte { return append(AppendConfigsStart(dst), '}') }

// TestLargeEventsAreNotKept: a stream may go on for minutes after a first event of
// megabytes.
func TestLargeEventsAreNotKept(t *testing.T) {
	s := newAnswer(new(wireLog))
	defer s.Close()
	for _, content := range []string{strings.Repeat("a", 1<<20), "b"} {
		if err := s.Delta(content, true); err != nil {
			t.Fatal(err)
		}
	}
	if s.batch != nil {
		t.Error("the stream holds a batch while it waits")
	}
	if got := cap(batches.Get().(*batch).events); got > 2*batchSize {
		t.Errorf("the pool holds %d bytes", got)
	}
}

// TestConfigsAreCounted: the size of the remote configurations in an endpoint's
// answer is known beforehand.
func TestConfigsAreCounted(t *testing.T) {
	if got := beside(nil); len(got) != ConfigsSize(0) {
		t.Errorf("%s: %d counted", got, ConfigsSize(0))
	}
	full := AppendAnswersEnd(AppendAnswerEnd(append(AppendAnswerStart(AppendConfigsStart(nil), "a"), "1"...), "number", parsedID()))
	if size := ConfigsSize(1) + AnswerSize("a", 1, "number"); len(full) != size {
		t.Errorf("%s: %d counted", full, size)
	}
}
