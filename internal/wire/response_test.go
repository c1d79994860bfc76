package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/trace"
)

const traceID = "0193c1a0-7b00-8223-a456-0123456789ab"

func parsedID() trace.ID {
	id, _ := trace.ParseID(traceID)
	return id
}

func TestAnswersGolden(t *testing.T) {
	answers := func(add func(dst []byte) []byte) string {
		return string(AppendAnswersEnd(add(AppendAnswersStart(nil))))
	}
	tests := map[string]struct{ got, want string }{
		"no answer": {answers(func(dst []byte) []byte { return dst }), `{}`},
		"prompt": {answers(func(dst []byte) []byte {
			dst = append(AppendAnswerStart(dst, "support_reply"), `{"name":"en","messages":[]}`...)
			return AppendAnswerEnd(dst, "", parsedID())
		}), `{"support_reply":{"value":{"name":"en","messages":[]},"trace_id":"` + traceID + `"}}`},
		"configurations": {answers(func(dst []byte) []byte {
			dst = append(AppendAnswerStart(dst, "new_checkout"), `true`...)
			dst = AppendAnswerEnd(dst, "boolean", parsedID())
			dst = append(AppendAnswerStart(dst, "model_limits"), `{}`...)
			return AppendAnswerEnd(dst, "object", parsedID())
		}), `{"new_checkout":{"value":true,"type":"boolean","trace_id":"` + traceID + `"},"model_limits":{"value":{},"type":"object","trace_id":"` + traceID + `"}}`},
		"key is escaped": {answers(func(dst []byte) []byte {
			return AppendAnswerEnd(append(AppendAnswerStart(dst, "a\"\\\n"), `1`...), "number", parsedID())
		}), `{"a\"\\\n":{"value":1,"type":"number","trace_id":"` + traceID + `"}}`},
		"metrics":            {string(AppendMetricsAnswer(nil, "", nil)), `{"ok":true}`},
		"metrics, own trace": {string(AppendMetricsAnswer(nil, traceID, nil)), `{"ok":true,"trace_id":"` + traceID + `"}`},
		"metrics, ignored":   {string(AppendMetricsAnswer(nil, "", []string{"latency", "economics"})), `{"ok":true,"ignored":["latency","economics"]}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.got); diff != "" {
				t.Error(diff)
			}
			if !json.Valid([]byte(test.got)) {
				t.Error("not JSON")
			}
		})
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	dst := []byte("before")
	dst = AppendMetricsAnswer(AppendAnswersEnd(AppendAnswersStart(dst)), "", nil)
	if string(dst) != `before{}{"ok":true}` {
		t.Errorf("%s", dst)
	}
}

func TestUnknownKeys(t *testing.T) {
	long := strings.Repeat("k", 256)
	named := func(keys ...string) (missing []MissingKey) {
		for _, key := range keys {
			missing = append(missing, MissingKey{Key: key})
		}
		return missing
	}
	tests := map[string]struct {
		keys []MissingKey
		want string
	}{
		"none":                    {nil, ""},
		"one":                     {named("a"), "a"},
		"two":                     {named("a", "b/c"), "a, b/c"},
		"two kinds":               {[]MissingKey{{"prompts/", "x"}, {"remoteconfigs/", "x"}}, "prompts/x, remoteconfigs/x"},
		"longest":                 {[]MissingKey{{"prompts/", long}, {"remoteconfigs/", "é"}}, "prompts/" + long + "...+1"},
		"illegal":                 {named("a", "x\r\nSet-Cookie: 1", "b"), "a, b...+1"},
		"only illegal":            {named("é"), "...+1"},
		"past 1 KiB":              {named(long, long, long, long, "a", "b"), long + ", " + long + ", " + long + "...+3"},
		"with folders past 1 KiB": {[]MissingKey{{"prompts/", long}, {"prompts/", long}, {"prompts/", long}, {"prompts/", long[:1024-3*(8+256+2)-8+1]}}, "prompts/" + long + ", prompts/" + long + ", prompts/" + long + "...+1"},
	}
	for name, test := range tests {
		if got := UnknownKeys(test.keys); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
