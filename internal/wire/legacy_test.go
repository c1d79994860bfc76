package wire

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestRule(t *testing.T) {
	for body, want := range map[string][4]string{
		`{"context":{"environments":"production","n":3},"rule_key":"kill_switch"}`: {"kill_switch", "", "rule_key", `{"environments":"production","n":3}`},
		`{"context":null,"rule_key":"nope"}`:                                       {"nope", "", "rule_key", ""},
		`{"rule_key":"a","context":{}}`:                                            {"a", "", "rule_key", ""},
		`{"rule_key":"a"}`:                                                         {"a", "", "rule_key", ""},
		`{"domain":"default","context":{"a":1}}`:                                   {"", "default", "domain", `{"a":1}`},
		`{"rule_key":null,"domain":"shop/nl"}`:                                     {"", "shop/nl", "domain", ""},
		`{"rule_key":"a","domain":null,"keys":5,"metadata":"x"}`:                   {"a", "", "rule_key", ""},
		"{\"context\":{\"city\":\"Z\xfcrich \\u20ac ??\",\"\xdf\":\"\xff\"},\"rule_key\":\"s\"}": {
			"s", "", "rule_key", `{"city":"Zürich € ??","ß":"ÿ"}`,
		},
		"{\"rule_key\":\"s\",\"context\":{\"city\":\"Zürich\"}}": {"s", "", "rule_key", `{"city":"Zürich"}`},
	} {
		got, err := parsed(t, body).Rule()
		if err != nil {
			t.Errorf("%q: %v", body, err)
			continue
		}
		if diff := cmp.Diff(want, [4]string{got.Key, got.Domain, got.Param, text(got.Context)}); diff != "" {
			t.Errorf("%q: %s", body, diff)
		}
	}
	for body, want := range map[string]string{
		`{}`:                              "invalid_request rule_key",
		`{"rule_key":null,"context":{}}`:  "invalid_request rule_key",
		`{"rule_key":"a","domain":"b"}`:   "invalid_request domain",
		`{"rule_key":5}`:                  "invalid_request rule_key",
		`{"rule_key":""}`:                 "invalid_request rule_key",
		`{"rule_key":"a b"}`:              "invalid_request rule_key",
		`{"domain":["default"]}`:          "invalid_request domain",
		`{"domain":"a,b"}`:                "invalid_request domain",
		`{"rule_key":"a","context":[]}`:   "invalid_request context",
		`{"rule_key":"a","context":"x"}`:  "invalid_request context",
		`["rule_key"]`:                    "invalid_request ",
		``:                                "invalid_json ",
		`{"rule_key":"a","rule_key":"b"}`: "invalid_json rule_key",
		"{\"rule_key\":\"a\"\xfc}":        "invalid_json ",
		"\ufeff{\"rule_key\":\"a\"}":      "invalid_json ",
	} {
		if _, err := parsed(t, body).Rule(); err == nil || err.Name+" "+err.Param != want {
			t.Errorf("%q: %v, want %s", body, err, want)
		}
	}
}

// TestLatin1IsCounted decodes a large body of characters that take two bytes in UTF-8.
func TestLatin1IsCounted(t *testing.T) {
	const size = 100 << 10
	body := "{\"rule_key\":\"a\",\"context\":{\"a\":\"" + strings.Repeat("\xe9", size) + "\"}}"
	r, reserved := parsed(t, body), 0
	r.reserve = func(bytes int) *Error { reserved += bytes; return nil }
	rule, err := r.Rule()
	if err != nil || string(rule.Context.GetStringBytes("a")) != strings.Repeat("é", size) {
		t.Errorf("%v", err)
	}
	if reserved != 2*size {
		t.Errorf("%d bytes reserved, want %d", reserved, 2*size)
	}
	r = parsed(t, body)
	r.reserve = func(int) *Error { return Errorf(Overloaded, "", "no room") }
	if _, err := r.Rule(); err == nil || err.Code != Overloaded {
		t.Errorf("without room: %v", err)
	}
}

// FuzzRule compares a body in ISO-8859-1 with the same in UTF-8.
func FuzzRule(f *testing.F) {
	addBodies(f)
	f.Add([]byte("{\"context\":{\"city\":\"Z\xfcrich \\u20ac ??\"},\"rule_key\":\"s\"}"))
	f.Add([]byte(`{"domain":"default","context":null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		decoded := parsed(t, string(body))
		if err := decoded.decodeLatin1(); err != nil {
			t.Fatal(err)
		}
		var characters []rune
		for _, c := range body {
			characters = append(characters, rune(c))
		}
		if !utf8.Valid(body) && string(decoded.body) != string(characters) || utf8.Valid(body) && !bytes.Equal(decoded.body, body) {
			t.Fatalf("%q was read as %q", body, decoded.body)
		}
		got, err := parsed(t, string(body)).Rule()
		want, wantErr := parsed(t, string(decoded.body)).Rule()
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%q: %v, and in UTF-8 %v", body, err, wantErr)
		}
		if err != nil {
			return
		}
		if got.Key != want.Key || got.Domain != want.Domain || text(got.Context) != text(want.Context) {
			t.Fatalf("%q: %v, and in UTF-8 %v", body, got, want)
		}
		if (got.Key == "") == (got.Domain == "") || !LegalKey(got.Key+got.Domain) {
			t.Fatalf("%q: %q and %q", body, got.Key, got.Domain)
		}
	})
}

func TestDetails(t *testing.T) {
	for name, test := range map[string]struct {
		err  *Error
		want string
	}{
		"an unknown key":   {Errorf(UnknownKey, "rule_key", "No."), `{"error":{"message":"No.","type":"not_found_error","param":"rule_key","code":"unknown_key"},"name":"unknown_key","message":"No.","error_code":"unknown_key","detail":"empty_evaluation","status_code":404}`},
		"a key":            {&Error{Code: InvalidAPIKey, Message: "expired", TokenSent: true}, strings.TrimSuffix(unauthorizedBody, "}") + `,"detail":"invalid_api_key","status_code":401}`},
		"no key":           {Unauthorized(false), strings.TrimSuffix(unauthorizedBody, "}") + `,"detail":"invalid_api_key","status_code":401}`},
		"an inner mistake": {Errorf(Internal, "", "No."), `{"error":{"message":"No.","type":"server_error","param":null,"code":"internal"},"name":"internal","message":"No.","error_code":"internal","detail":"internal","status_code":500}`},
	} {
		if got := string(test.err.AppendDetailed(nil)); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for code, want := range map[Code]string{
		InvalidJSON: "invalid_request", InvalidRequest: "invalid_request", BodyTooLarge: "invalid_request", UnsupportedEncoding: "invalid_request",
		RateLimited: "rate_limited", Overloaded: "overloaded", NotFound: "not_found", MethodNotAllowed: "method_not_allowed",
	} {
		if got := code.detail(); got != want {
			t.Errorf("%s: %s, want %s", code.Name, got, want)
		}
	}
}
