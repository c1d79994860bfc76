package gateway

import "testing"

func TestRoutesOfPaths(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][2]string{
		"/v1/prompts":                     {"prompts"},
		"/v2/prompts":                     {"prompts"},
		"/v1/endpoints":                   {"endpoints"},
		"/v1/remoteconfigs":               {"remoteconfigs"},
		"/v2/remoteconfigs":               {"remoteconfigs"},
		"/v1/decisions":                   {"decisions"},
		"/v1/models":                      {"models"},
		"/v1/models/":                     {"none"},
		"/v1/models/chat/a":               {"models", "chat/a"},
		"/v1/chat/completions":            {"chat"},
		"/v1/messages":                    {"messages"},
		"/ofrep/v1/events":                {"flag_events"},
		"/v1/messages/":                   {"none"},
		"/v1/messages/count_tokens":       {"count_tokens"},
		"/v1/embeddings":                  {"embeddings"},
		"/v2/decisions":                   {"none"},
		"/v1/metrics":                     {"metrics"},
		"/v2/prompts/ID/metrics":          {"metrics", "ID"},
		"/v2/remoteconfigs/ID/metrics":    {"metrics", "ID"},
		"/ofrep/v1/evaluate/flags":        {"remoteconfigs"},
		"/ofrep/v1/evaluate/flags/":       {"none"},
		"/ofrep/v1/evaluate/flags/a/b":    {"remoteconfigs", "a/b"},
		"/v2/rules":                       {"remoteconfigs"},
		"/v2/rules/ID/metrics":            {"metrics", "ID"},
		"/v1/rules":                       {"none"},
		"/evaluate":                       {"evaluate"},
		"/evaluate/":                      {"evaluate"},
		"/evaluate/x":                     {"none"},
		"/v1/evaluate":                    {"none"},
		"":                                {"none"},
		"/":                               {"none"},
		"/v1/prompts/":                    {"none"},
		"/v2/endpoints":                   {"none"},
		"/v2/metrics":                     {"none"},
		"/v2/prompts//metrics":            {"none"},
		"/v2/prompts/metrics":             {"none"},
		"/v2/prompts/ID/x/metrics":        {"none"},
		"/v2/endpoints/ID/metrics":        {"none"},
		"/v1/prompts/ID/metrics":          {"none"},
		"/v2/prompts/{trace_id}":          {"none"},
		"/v2/prompts/{trace_id}/metrics":  {"metrics", "{trace_id}"},
		"/v2/prompts/ID/metrics/and/more": {"none"},
	} {
		if to, id := find(path); to.name != want[0] || id != want[1] || (to.serve != nil || to.stream != nil) != (want[0] != "none") {
			t.Errorf("%q: %s, trace %q; want %v", path, to.name, id, want)
		}
	}
	if got, want := documented(), "POST /v1/prompts, /v1/endpoints, /v1/chat/completions, /v1/responses, /v1/responses/compact, /v1/messages, /v1/messages/count_tokens, /v1/embeddings, /v1/remoteconfigs, /v1/decisions, /v1/metrics, /v2/prompts, /v2/remoteconfigs, /v2/prompts/{trace_id}/metrics, /v2/remoteconfigs/{trace_id}/metrics, /ofrep/v1/evaluate/flags, /ofrep/v1/evaluate/flags/{key}, /v2/rules, /v2/rules/{trace_id}/metrics, GET /v1/models, /v1/models/{model} and /ofrep/v1/events"; got != want {
		t.Errorf("the routes are told as %s", got)
	}
}

func BenchmarkFindRoute(b *testing.B) {
	for _, path := range []string{"/v1/prompts", "/v1/endpoints", "/v1/remoteconfigs", "/v1/metrics", "/v2/prompts/01234567-89ab-8200-8000-000000000000/metrics", "/v1/nothing"} {
		b.Run(path[1:min(len(path), 20)], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				find(path)
			}
		})
	}
}

// TestRoutesFitASet checks that each route has a bit in a routeSet: limits would not count
// the requests of one without.
func TestRoutesFitASet(t *testing.T) {
	t.Parallel()
	for i := range routes {
		if set := routeSet(1) << routes[i].index; !set.has(&routes[i]) {
			t.Errorf("%s has no bit", routes[i].path)
		}
	}
}
