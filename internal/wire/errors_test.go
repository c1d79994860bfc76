package wire

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWriteErrorGolden(t *testing.T) {
	const jsonType = "application/json"
	tests := map[string]struct {
		err    *Error
		status int
		header map[string]string
		body   string
	}{
		"param": {
			err:    &Error{Code: InvalidRequest, Message: `"keys[2]" must be a string.`, Param: "keys[2]"},
			status: 400,
			body:   `{"error":{"message":"\"keys[2]\" must be a string.","type":"invalid_request_error","param":"keys[2]","code":"invalid_request"},"name":"invalid_request","message":"\"keys[2]\" must be a string.","error_code":"invalid_request"}`,
		},
		"no key": {
			err:    Unauthorized(false),
			status: 401,
			header: map[string]string{"WWW-Authenticate": `Bearer realm="cadenza"`},
			body:   unauthorizedBody,
		},
		"bad key": {
			err:    Unauthorized(true),
			status: 401,
			header: map[string]string{"WWW-Authenticate": `Bearer realm="cadenza", error="invalid_token"`},
			body:   unauthorizedBody,
		},
		"no token of a stream": {
			err:    UnauthorizedStream(false),
			status: 401,
			header: map[string]string{"WWW-Authenticate": `Bearer realm="cadenza"`},
			body:   strings.ReplaceAll(unauthorizedBody, unauthorizedMessage, unauthorizedStreamMessage),
		},
		"a bad token of a stream": {
			err:    UnauthorizedStream(true),
			status: 401,
			header: map[string]string{"WWW-Authenticate": `Bearer realm="cadenza", error="invalid_token"`},
			body:   strings.ReplaceAll(unauthorizedBody, unauthorizedMessage, unauthorizedStreamMessage),
		},
		"a 401 tells nothing of its cause": {
			err:    &Error{Code: InvalidAPIKey, Message: "expired yesterday", Param: "x", TraceID: "t", TokenSent: true},
			status: 401,
			header: map[string]string{"WWW-Authenticate": `Bearer realm="cadenza", error="invalid_token"`, "Cadenza-Trace-Id": ""},
			body:   unauthorizedBody,
		},
		"method": {
			err:    &Error{Code: MethodNotAllowed, Message: "Use POST.", Allow: "POST"},
			status: 405,
			header: map[string]string{"Allow": "POST"},
			body:   `{"error":{"message":"Use POST.","type":"invalid_request_error","param":null,"code":"method_not_allowed"},"name":"method_not_allowed","message":"Use POST.","error_code":"method_not_allowed"}`,
		},
		"rate limit rounds up": {
			err:    &Error{Code: RateLimited, Message: "Slow down.", RetryAfter: 1500 * time.Millisecond},
			status: 429,
			header: map[string]string{"Retry-After": "2"},
			body:   `{"error":{"message":"Slow down.","type":"rate_limit_error","param":null,"code":"rate_limited"},"name":"rate_limited","message":"Slow down.","error_code":"rate_limited"}`,
		},
		"409": {
			err:    &Error{Code: Conflict, Message: "Wait.", RetryAfter: time.Second},
			status: 409,
			header: map[string]string{"Retry-After": "1"},
			body:   `{"error":{"message":"Wait.","type":"invalid_request_error","param":null,"code":"conflict"},"name":"conflict","message":"Wait.","error_code":"conflict"}`,
		},
		"503 always has Retry-After": {
			err:    &Error{Code: StoreUnavailable, Message: "Not now."},
			status: 503,
			header: map[string]string{"Retry-After": "1"},
			body:   `{"error":{"message":"Not now.","type":"server_error","param":null,"code":"store_unavailable"},"name":"store_unavailable","message":"Not now.","error_code":"store_unavailable"}`,
		},
		"trace": {
			err:    &Error{Code: UpstreamTimeout, Message: "Too slow.", TraceID: "0193-ab", RetryAfter: time.Minute},
			status: 504,
			header: map[string]string{"Retry-After": "", "Cadenza-Trace-Id": "0193-ab"},
			body:   `{"error":{"message":"Too slow.","type":"server_error","param":null,"code":"upstream_timeout"},"name":"upstream_timeout","message":"Too slow.","error_code":"upstream_timeout","trace_id":"0193-ab"}`,
		},
		"a stream's code without a stream": {
			err:    &Error{Code: UpstreamInterrupted, Message: "Cut."},
			status: 502,
			body:   `{"error":{"message":"Cut.","type":"server_error","param":null,"code":"upstream_interrupted"},"name":"upstream_interrupted","message":"Cut.","error_code":"upstream_interrupted"}`,
		},
		"hostile text": {
			err:    Errorf(InvalidRequest, "\"\r\n\u2028", "%s", "a\"\\\x00\xff</script>"),
			status: 400,
			body:   `{"error":{"message":"a\"\\\u0000` + "\uFFFD" + `</script>","type":"invalid_request_error","param":"\"\r\n\u2028","code":"invalid_request"},"name":"invalid_request","message":"a\"\\\u0000` + "\uFFFD" + `</script>","error_code":"invalid_request"}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Encoding", "gzip")
			WriteError(w, test.err)
			if w.Code != test.status {
				t.Errorf("status %d, want %d", w.Code, test.status)
			}
			want := map[string]string{"Content-Type": jsonType, "Cache-Control": "no-store", "Content-Encoding": ""}
			for name, value := range test.header {
				want[name] = value
			}
			for name, value := range want {
				if got := w.Header().Get(name); got != value {
					t.Errorf("%s: %q, want %q", name, got, value)
				}
			}
			if diff := cmp.Diff(test.body, w.Body.String()); diff != "" {
				t.Error(diff)
			}
			if !json.Valid(w.Body.Bytes()) {
				t.Error("the body is not JSON")
			}
		})
	}
}

const unauthorizedBody = `{"error":{"message":"The API key is missing, unknown or no longer valid. Send a valid key as ` +
	"`Authorization: Bearer <key>`" + `.","type":"authentication_error","param":null,"code":"invalid_api_key"},"name":"invalid_api_key","message":"The API key is missing, unknown or no longer valid. Send a valid key as ` +
	"`Authorization: Bearer <key>`" + `.","error_code":"invalid_api_key"}`

// The contract's table, by hand: a change of the code must change it too.
func TestCodes(t *testing.T) {
	want := map[int][]string{
		400: {"invalid_json", "invalid_request", "missing_variable", "no_metrics", "context_length_exceeded"},
		401: {"invalid_api_key"},
		403: {"key_not_allowed"},
		404: {"not_found", "unknown_key", "unknown_endpoint", "model_not_found", "unknown_trace"},
		405: {"method_not_allowed"}, 409: {"conflict"}, 413: {"body_too_large"},
		415: {"unsupported_encoding"}, 422: {"idempotency_mismatch"},
		426: {"no_websocket"},
		429: {"rate_limited"},
		500: {"internal"},
		502: {"upstream_error", "upstream_rejected", "upstream_refused", "upstream_credentials", "upstream_invalid_response"},
		503: {"overloaded", "store_unavailable", "upstream_unavailable", "upstream_rate_limited"},
		504: {"upstream_timeout"},
		0:   {"upstream_interrupted"},
	}
	types := map[int]string{401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
	got := map[int][]string{}
	for _, code := range Codes() {
		got[code.Status] = append(got[code.Status], code.Name)
		wantType := types[code.Status]
		if wantType == "" {
			wantType = "invalid_request_error"
			if code.Status == 0 || code.Status >= 500 {
				wantType = "server_error"
			}
		}
		if code.Type != wantType {
			t.Errorf("%s has type %s, want %s", code.Name, code.Type, wantType)
		}
		if want := code; code != UpstreamRateLimited && code.Foreign() != want {
			t.Errorf("%s is another code in APIs of others", code.Name)
		}
		if found, ok := LookupCode(code.Name); !ok || found != code {
			t.Errorf("LookupCode(%q) = %v, %v", code.Name, found, ok)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if want := (Code{"upstream_rate_limited", 429, "rate_limit_error"}); UpstreamRateLimited.Foreign() != want {
		t.Errorf("in APIs of others: %v", UpstreamRateLimited.Foreign())
	}
	if _, ok := LookupCode("no_such_code"); ok {
		t.Error("LookupCode found a code that is not there")
	}
	Codes()[0].Name = "changed"
	if InvalidJSON.Name != "invalid_json" || Codes()[0].Name != "invalid_json" {
		t.Error("the table can be changed through Codes")
	}
}

func TestErrorText(t *testing.T) {
	if got := Errorf(NotFound, "", "There is no %s.", "/v3").Error(); got != "not_found: There is no /v3." {
		t.Error(got)
	}
}
