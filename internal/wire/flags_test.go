package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMatchesETag(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values []string
		want   bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{`"a1"`}, true},
		{[]string{`"a"`}, false},
		{[]string{`"a12"`}, false},
		{[]string{`W/"a1"`}, true},
		{[]string{`w/"a1"`}, false},
		{[]string{`"b", "a1"`}, true},
		{[]string{`"b","a1"`}, true},
		{[]string{` "b" ,, W/"c" , W/"a1" `}, true},
		{[]string{`"b"`, `"a1"`}, true},
		{[]string{`"b, a1"`}, false},
		{[]string{`"a1`, `"b"`}, false},
		{[]string{`a1`}, false},
		{[]string{`a1, "a1"`}, false},
		{[]string{`*`}, true},
		{[]string{`"*"`}, false},
		{[]string{`"b", *`}, true},
	} {
		if got := MatchesETag(test.values, `"a1"`); got != test.want {
			t.Errorf("%q: %t", test.values, got)
		}
	}
}

func FuzzMatchesETag(f *testing.F) {
	f.Add(`W/"a", "b"`, "b")
	f.Fuzz(func(t *testing.T, list, tag string) {
		MatchesETag([]string{list}, `"`+tag+`"`)
		if !strings.ContainsAny(tag, `"`) && !MatchesETag([]string{`"b",W/"` + tag + `"`, list}, `"`+tag+`"`) {
			t.Errorf("%q is not in its own list", tag)
		}
	})
}

func TestAppendFlag(t *testing.T) {
	t.Parallel()
	f := Flag{Key: "a/b", Value: []byte(`{"n":1}`), Reason: "SPLIT", Variant: `"cold"`, Version: "0123456789ab"}
	const want = `{"key":"a/b","value":{"n":1},"reason":"SPLIT","variant":"\"cold\"","metadata":{"version":"0123456789ab"`
	if got := string(AppendFlag(nil, &f)); got != want+"}}" {
		t.Error(got)
	}
	if got := string(AppendFlagTrace(AppendFlag(nil, &f), trace.ID{1})); got != want+`,"trace_id":"01000000-0000-0000-0000-000000000000"}}` {
		t.Error(got)
	}
}

// TestFlagErrors: the errors of OFREP's routes have the shape of all others, and what its
// clients read.
func TestFlagErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code             Code
		param, own, want string
	}{
		{InvalidJSON, "", "", "PARSE_ERROR"},
		{InvalidRequest, "", "PARSE_ERROR", "PARSE_ERROR"},
		{InvalidRequest, "context", "", "INVALID_CONTEXT"},
		{InvalidRequest, "context.plan", "", "INVALID_CONTEXT"},
		{InvalidRequest, "context.plan", FlagTargetingKeyMissing, "TARGETING_KEY_MISSING"},
		{InvalidRequest, "contexts", "", "GENERAL"},
		{InvalidRequest, "", "", "GENERAL"},
		{UnknownKey, "", "", "FLAG_NOT_FOUND"},
		{InvalidAPIKey, "", "", "GENERAL"}, {KeyNotAllowed, "", "", "GENERAL"}, {MethodNotAllowed, "", "", "GENERAL"},
		{BodyTooLarge, "", "", "GENERAL"}, {RateLimited, "", "", "GENERAL"}, {Internal, "", "", "GENERAL"}, {Overloaded, "", "", "GENERAL"},
	} {
		for _, key := range []string{"", "a/b"} {
			e := Errorf(test.code, test.param, "What is wrong.")
			if test.code == InvalidAPIKey {
				e = Unauthorized(true)
			}
			plain := string(e.AppendJSON(nil))
			e.OFREP, e.FlagKey, e.FlagCode = true, key, test.own
			member := ""
			if key != "" {
				member = `,"key":"a/b"`
			}
			want := strings.TrimSuffix(plain, "}") + fmt.Sprintf(`%s,"errorCode":%q,"errorDetails":%q}`, member, test.want, e.Message)
			if got := string(e.AppendJSON(nil)); got != want {
				t.Errorf("%s %s: %s\nwant %s", test.code.Name, test.param, got, want)
			}
		}
	}
}

func TestParseFlags(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ body, context, want string }{
		{`{}`, "", ""},
		{`{"context":null}`, "", ""},
		{`{"context":{}}`, "", ""},
		{`{"context":{"targetingKey":"a"},"other":1,"metadata":{"a":1}}`, `{"targetingKey":"a"}`, ""},
		{`{"context":[]}`, "", "invalid_request INVALID_CONTEXT context"},
		{`{"context":"a"}`, "", "invalid_request INVALID_CONTEXT context"},
		{`{"metadata":1}`, "", "invalid_request GENERAL metadata"},
		{`[]`, "", "invalid_request PARSE_ERROR "},
		{``, "", "invalid_json PARSE_ERROR "},
		{`{"context":{"a":1,"a":2}}`, "", "invalid_json PARSE_ERROR context.a"},
	} {
		r := AcquireRequest()
		r.body = append(r.body[:0], test.body...)
		facts, err := r.Flags()
		got := ""
		if err != nil {
			got = err.Name + " " + err.flagCode() + " " + err.Param
		}
		context := ""
		if facts.Context != nil {
			context = facts.Context.String()
		}
		if got != test.want || context != test.context {
			t.Errorf("%s: %q, %s", test.body, got, context)
		}
		r.Release()
	}
}
