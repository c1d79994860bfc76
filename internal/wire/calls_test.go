package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// parsed fills a request with a body as ReadBody would.
func parsed(t testing.TB, body string) *Request {
	r := AcquireRequest()
	t.Cleanup(r.Release)
	r.body = append(r.body, body...)
	return r
}

func text(v *fastjson.Value) string {
	if v == nil {
		return ""
	}
	return string(jsontext.AppendValue(nil, v))
}

func TestPrompts(t *testing.T) {
	r := parsed(t, ` {"keys":["a","b/c:d.e_F-9","a","\u0061"],"context":{"n":1.50,"s":"\u00e9\/"},"metadata":{},"variables":{"v":[1,{"x":null}]},"other":7}`)
	e, err := r.Prompts()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b/c:d.e_F-9"}, e.Keys); diff != "" {
		t.Error(diff)
	}
	if got := text(e.Context); got != `{"n":1.50,"s":"é/"}` {
		t.Error(got)
	}
	if e.Metadata != nil {
		t.Error("{} is not absent")
	}
	if got := text(e.Variables); got != `{"v":[1,{"x":null}]}` {
		t.Error(got)
	}
}

func TestRemoteConfigsHaveNoVariables(t *testing.T) {
	e, err := parsed(t, `{"keys":["a"],"variables":"ignored","context":null}`).RemoteConfigs()
	if err != nil {
		t.Fatal(err)
	}
	if e.Variables != nil || e.Context != nil || len(e.Keys) != 1 {
		t.Errorf("%+v", e)
	}
}

func keyArray(n int) string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%q", fmt.Sprint("k", i))
	}
	return `{"keys":[` + strings.Join(keys, ",") + `]}`
}

func TestKeyLimit(t *testing.T) {
	e, err := parsed(t, keyArray(MaxKeys)).Prompts()
	if err != nil || len(e.Keys) != MaxKeys {
		t.Errorf("%d keys, %v", len(e.Keys), err)
	}
}

// badBodies are refused by every call, whatever members it reads.
var badBodies = map[string]struct{ body, code, param string }{
	"empty":                         {"", "invalid_json", ""},
	"white space":                   {" \n\t\r", "invalid_json", ""},
	"array":                         {"[]", "invalid_request", ""},
	"null":                          {"null", "invalid_request", ""},
	"string":                        {`"x"`, "invalid_request", ""},
	"number":                        {"1", "invalid_request", ""},
	"boolean":                       {"true", "invalid_request", ""},
	"byte order mark":               {"\ufeff{}", "invalid_json", ""},
	"not UTF-8":                     {"{\"a\":\"\xff\"}", "invalid_json", ""},
	"cut":                           {`{"keys":["a"`, "invalid_json", ""},
	"trailing":                      {`{"keys":["a"]} x`, "invalid_json", ""},
	"two texts":                     {`{"keys":["a"]}{}`, "invalid_json", ""},
	"trailing comma":                {`{"keys":["a",]}`, "invalid_json", ""},
	"trailing member":               {`{"keys":["a"],}`, "invalid_json", ""},
	"single quotes":                 {`{'keys':['a']}`, "invalid_json", ""},
	"comment":                       {`{/**/"keys":["a"]}`, "invalid_json", ""},
	"NaN":                           {`{"x":NaN}`, "invalid_json", ""},
	"nan":                           {`{"x":nan}`, "invalid_json", ""},
	"infinity":                      {`{"x":-Infinity}`, "invalid_json", ""},
	"beyond float64":                {`{"x":1e999}`, "invalid_json", ""},
	"long beyond float64":           {`{"x":` + strings.Repeat("9", 400) + `}`, "invalid_json", ""},
	"leading zero":                  {`{"x":01}`, "invalid_json", ""},
	"leading plus":                  {`{"x":+1}`, "invalid_json", ""},
	"no fraction":                   {`{"x":1.}`, "invalid_json", ""},
	"no integer":                    {`{"x":.5}`, "invalid_json", ""},
	"no exponent":                   {`{"x":1e}`, "invalid_json", ""},
	"two signs":                     {`{"x":--1}`, "invalid_json", ""},
	"raw control":                   {"{\"x\":\"a\nb\"}", "invalid_json", ""},
	"raw NUL":                       {"{\"x\":\"\x00\"}", "invalid_json", ""},
	"control in a name":             {"{\"a\tb\":1}", "invalid_json", ""},
	"unknown escape":                {`{"x":"\x41"}`, "invalid_json", ""},
	"short escape":                  {`{"x":"\u12G4"}`, "invalid_json", ""},
	"form feed":                     {"{\f}", "invalid_json", ""},
	"too deep":                      {strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300), "invalid_json", ""},
	"far too deep":                  {strings.Repeat("[", 1<<20), "invalid_json", ""},
	"too many values":               {`{"x":[` + strings.Repeat("0,", maxValues) + `0]}`, "invalid_json", ""},
	"duplicate":                     {`{"keys":["a"],"keys":["b"]}`, "invalid_json", "keys"},
	"duplicate by escape":           {`{"keys":["a"],"k\u0065ys":["b"]}`, "invalid_json", "keys"},
	"duplicate in context":          {`{"keys":["a"],"context":{"x":1,"y":2,"x":1}}`, "invalid_json", "context.x"},
	"duplicate in a list":           {`{"x":[0,{"y":[[{"z":1,"z":2}]]}]}`, "invalid_json", "x[1].y[0][0].z"},
	"duplicate without a name":      {`{"":1,"":[]}`, "invalid_json", ""},
	"duplicate deep without a name": {`{"a":{"":1,"":[]}}`, "invalid_json", "a."},
	"duplicate among many":          {`{"m":{` + members(40) + `,"m7":0}}`, "invalid_json", "m.m7"},
	"duplicate, the least of many":  {`{"m":{"a":0,` + members(40) + `,"a":0}}`, "invalid_json", "m.a"},
	"context type":                  {`{"keys":["a"],"prompts":["a"],"key":"a","score":1,"context":[],"metadata":"x"}`, "invalid_request", "*"},
}

func members(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`"m%d":%d`, i, i)
	}
	return strings.Join(list, ",")
}

func TestBadBodies(t *testing.T) {
	calls := map[string]func(*Request) *Error{
		"prompts":       func(r *Request) *Error { _, err := r.Prompts(); return err },
		"remoteconfigs": func(r *Request) *Error { _, err := r.RemoteConfigs(); return err },
		"decisions":     func(r *Request) *Error { _, err := r.Decisions(); return err },
		"endpoints":     func(r *Request) *Error { _, err := r.Endpoint(); return err },
		"metrics":       func(r *Request) *Error { _, err := r.Metrics(); return err },
	}
	for name, test := range badBodies {
		for call, parse := range calls {
			t.Run(name+"/"+call, func(t *testing.T) {
				checkError(t, parse(parsed(t, test.body)), test.code, test.param)
			})
		}
	}
}

// checkError checks an error's code and param; the param "*" matches any.
func checkError(t *testing.T, err *Error, code, param string) {
	t.Helper()
	if err == nil {
		t.Fatalf("accepted, want %s", code)
	}
	if err.Name != code || param != "*" && err.Param != param {
		t.Errorf("got %s %q (%s), want %s %q", err.Name, err.Param, err.Message, code, param)
	}
	if err.Status != 400 || err.Message == "" {
		t.Errorf("status %d, message %q", err.Status, err.Message)
	}
	if len(err.Message) > 1000 {
		t.Errorf("a message of %d bytes", len(err.Message))
	}
}

func TestInvalidJSONSaysWhere(t *testing.T) {
	tests := map[string]string{
		"{\"keys\": [\n  \"a\",\n  oops\n]}":         `The body is not valid JSON at line 3, column 3 (byte 20): expected a value, found 'o'.`,
		`{"keys":["a"]`:                              `The body is not valid JSON at line 1, column 14 (byte 13): expected ',' or '}', found the end.`,
		"{\"x\":\"é\xff\"}":                          `The body is not valid JSON at line 1, column 9 (byte 8): the text is not UTF-8.`,
		strings.Repeat("[", 301):                     `The body is past a limit at line 1, column 301 (byte 300): nested deeper than 300 levels.`,
		`{"keys":["a"],"context":{"x":1e400,"y":1}}`: `The body is not valid JSON at line 1, column 30 (byte 29): the number is too large for a 64-bit float.`,
	}
	for body, want := range tests {
		_, err := parsed(t, body).Prompts()
		if err == nil || err.Message != want {
			t.Errorf("%.60q: %v, want %s", body, err, want)
		}
	}
}

func TestBadEvaluations(t *testing.T) {
	long := strings.Repeat("k", MaxKeyLength+1)
	for body, param := range map[string]string{
		`{}`:                                  "keys",
		`{"keys":null}`:                       "keys",
		`{"keys":"a"}`:                        "keys",
		`{"keys":{}}`:                         "keys",
		`{"keys":[]}`:                         "keys",
		keyArray(MaxKeys + 1):                 "keys",
		`{"keys":["a",1]}`:                    "keys[1]",
		`{"keys":["a","b",null]}`:             "keys[2]",
		`{"keys":[["a"]]}`:                    "keys[0]",
		`{"keys":[""]}`:                       "keys[0]",
		`{"keys":["a b"]}`:                    "keys[0]",
		`{"keys":["a\r\nX-Header: 1"]}`:       "keys[0]",
		`{"keys":["é"]}`:                      "keys[0]",
		`{"keys":["a","` + long + `"]}`:       "keys[1]",
		`{"keys":["a"],"context":"x"}`:        "context",
		`{"keys":["a"],"context":[]}`:         "context",
		`{"keys":["a"],"context":false}`:      "context",
		`{"keys":["a"],"metadata":0}`:         "metadata",
		`{"keys":["a"],"metadata":[{"a":1}]}`: "metadata",
	} {
		_, err := parsed(t, body).Prompts()
		checkError(t, err, "invalid_request", param)
		_, err = parsed(t, body).RemoteConfigs()
		checkError(t, err, "invalid_request", param)
	}
	_, err := parsed(t, `{"keys":["a"],"variables":["x"]}`).Prompts()
	checkError(t, err, "invalid_request", "variables")
}

func TestEndpoint(t *testing.T) {
	for body, want := range map[string]Endpoint{
		`{"key":"a"}`:                            {Key: "a"},
		`{"key":"a","stream":null}`:              {Key: "a"},
		`{"key":"a","stream":false}`:             {Key: "a"},
		`{"key":"a","stream":true}`:              {Key: "a", Stream: true},
		`{"keys":"a"}`:                           {Key: "a"},
		`{"keys":["a"]}`:                         {Key: "a"},
		`{"key":null,"keys":["a"]}`:              {Key: "a"},
		`{"key":"a","keys":null}`:                {Key: "a"},
		`{"key":"a","keys":[]}`:                  {Key: "a"},
		`{"key":"a","keys":["a"]}`:               {Key: "a"},
		`{"key":"a","model":"gpt","api_base":1}`: {Key: "a"},
	} {
		got, err := parsed(t, body).Endpoint()
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
	e, err := parsed(t, `{"key":"a","context":{"a":1},"metadata":{"b":2},"variables":{"c":3}}`).Endpoint()
	if err != nil || text(e.Context)+text(e.Metadata)+text(e.Variables) != `{"a":1}{"b":2}{"c":3}` {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestBadEndpoints(t *testing.T) {
	for body, param := range map[string]string{
		`{}`:                            "key",
		`{"key":null}`:                  "key",
		`{"key":1}`:                     "key",
		`{"key":""}`:                    "key",
		`{"key":"a b"}`:                 "key",
		`{"key":["a"]}`:                 "key",
		`{"keys":[]}`:                   "key",
		`{"keys":["a","b"]}`:            "keys",
		`{"keys":["a","a"]}`:            "keys",
		`{"key":"a","keys":["a","b"]}`:  "keys",
		`{"key":"a","keys":["b"]}`:      "keys",
		`{"key":"a","keys":7}`:          "keys",
		`{"keys":7}`:                    "keys",
		`{"keys":[7]}`:                  "keys[0]",
		`{"key":"a","stream":"true"}`:   "stream",
		`{"key":"a","stream":1}`:        "stream",
		`{"key":"a","context":1}`:       "context",
		`{"key":"a","metadata":"{}"}`:   "metadata",
		`{"key":"a","variables":["x"]}`: "variables",
	} {
		_, err := parsed(t, body).Endpoint()
		checkError(t, err, "invalid_request", param)
	}
}

// A hostile body must cost no more than its size in time.
func TestHostileBodiesAreCheap(t *testing.T) {
	for name, body := range map[string]string{
		"open":    strings.Repeat("[", 1<<20),
		"garbage": strings.Repeat("[", 299) + "n" + strings.Repeat("\x00", 1<<20),
		"objects": strings.Repeat(`{"a":`, 1<<18),
		"names":   `{` + members(60_000) + `}`,
	} {
		var took time.Duration
		var err error
		for range 3 { // the machine may be busy
			r := parsed(t, body)
			start := time.Now()
			_, err = r.Prompts()
			// The slowest, with the race detector, takes a third of it.
			if took = time.Since(start); took < time.Second {
				break
			}
		}
		if took > time.Second {
			t.Errorf("%s: %v", name, took)
		}
		if err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// TestLegalKey asks for each character, at the beginning and in the middle.
func TestLegalKey(t *testing.T) {
	const legal = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-"
	for c := range 256 {
		want := strings.IndexByte(legal, byte(c)) >= 0
		one := string([]byte{byte(c)})
		for _, key := range []string{one, "a" + one + "b"} {
			if LegalKey(key) != want {
				t.Errorf("%q: %v", key, !want)
			}
		}
	}
	for length, want := range map[int]bool{0: false, 1: true, MaxKeyLength: true, MaxKeyLength + 1: false} {
		if LegalKey(strings.Repeat("k", length)) != want {
			t.Errorf("%d characters: %v", length, !want)
		}
	}
}

// TestSurrogates has halves of a pair that have no other half, each of which
// becomes U+FFFD.
func TestSurrogates(t *testing.T) {
	for escaped, want := range map[string]string{
		`\ud83d\ude42`:       "🙂",
		`\uD83D\uDE42!`:      "🙂!",
		`\ud83d`:             "\ufffd",
		`\ude42`:             "\ufffd",
		`\ud83dx`:            "\ufffdx",
		`\ud83d\n`:           "\ufffd\n",
		`\ud83d\u0041`:       "\ufffdA",
		`\ud83d\ud83d\ude42`: "\ufffd🙂",
		`\ude42\ud83d`:       "\ufffd\ufffd",
		`\udc00\udfff`:       "\ufffd\ufffd",
		`\udfff\udc00x`:      "\ufffd\ufffdx",
	} {
		e, err := parsed(t, `{"keys":["a"],"variables":{"q":"`+escaped+`"}}`).Prompts()
		if err != nil {
			t.Errorf("%s: %s", escaped, err.Message)
			continue
		}
		if got := string(e.Variables.GetStringBytes("q")); got != want {
			t.Errorf("%s became %q, want %q", escaped, got, want)
		}
	}
}
