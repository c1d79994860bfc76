package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestErrorsThatNoRepetitionMends has a provider that fails in each way, on each route that
// calls models, and checks whether the answer says not to repeat the request.
func TestErrorsThatNoRepetitionMends(t *testing.T) {
	t.Parallel()
	answers := map[string]http.HandlerFunc{
		"upstream_refused": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":{"code":"content_policy_violation"}}`)
		},
		"upstream_rejected":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnprocessableEntity) },
		"upstream_credentials": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"upstream_error":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"upstream_rate_limited": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"upstream_rate_limited, for long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		},
	}
	final := map[string]bool{"upstream_refused": true, "upstream_rejected": true, "upstream_credentials": true, "upstream_rate_limited, for long": true}
	bodies := map[string]string{
		"/v1/endpoints":        `{"key":"chat","stream":%t,"variables":{"question":"Why?"}}`,
		"/v1/chat/completions": `{"model":"chat","stream":%t,"variables":{"question":"Why?"},"messages":[]}`,
		"/v1/responses":        `{"model":"chat","stream":%t,"variables":{"question":"Why?"},"input":[]}`,
		"/v1/messages":         `{"model":"chat","stream":%t,"variables":{"question":"Why?"},"messages":[]}`,
	}
	for name, answers := range answers {
		u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) { answers(w, r) })
		files := single()
		files["definitions/endpoints/chat.yaml"] += "retry: { count: 0 }\n"
		g := startGateway(t, files, fakeProvider(u.URL))
		want := ""
		if final[name] {
			want = "false"
		}
		code, _, _ := strings.Cut(name, ",")
		for path, body := range bodies {
			for _, stream := range []bool{false, true} {
				if path == "/v1/responses" && stream && code == "upstream_rate_limited" {
					continue // said within the stream: see TestErrorsWithinAStream
				}
				a := g.post(path, fmt.Sprintf(body, stream))
				if !strings.Contains(string(a.body), code) || a.header.Get("X-Should-Retry") != want {
					t.Errorf("%s, %s, stream %t: %d %s, X-Should-Retry %q, want %q", name, path, stream, a.status, a.body, a.header.Get("X-Should-Retry"), want)
				}
			}
		}
	}
}
