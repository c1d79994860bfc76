package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// gatewayCommand runs one of the commands that ask a running gateway.
func gatewayCommand(ctx context.Context, out, errors io.Writer, arguments ...string) error {
	cmd := &cobra.Command{Use: "cadenza", SilenceUsage: true}
	cmd.AddCommand(tracesCommand(), statsCommand(), experimentCommand(), rolloutCommand(), refusedCommand(), auditCommand(), costsCommand(), exportCommand(), importReportsCommand(), eraseCommand(), revisionsCommand(), checkoutCommand(), checkCommand(), evalCommand(), diffCommand(), proveCommand(), planCommand())
	cmd.SetOut(out)
	cmd.SetErr(errors)
	cmd.SetArgs(arguments)
	return cmd.ExecuteContext(ctx)
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fakeGateway is an admin API with three traces, whose pages have two at most
// and whose first is empty: its scan took too long.
type fakeGateway struct {
	mu       sync.Mutex
	requests []string
}

const (
	endpointTrace = `{"trace_id":"01990001-0000-8200-8000-000000000003","time":"2026-11-01T09:00:03.000Z","workspace":"default","kind":"endpoint","key":"support_chat","state":"ended","api_key":"mobile-app","version":"abf36727dfea","revision":"d3561ebfbd34","prompt":"support_reply","prompt_version":"0a1b2c3d4e5f","row":"row 2","variant":"short","arm":"short","provider":"openai","model":"gpt-4o","status":200,"finish_reason":"length","latency_ms":1312.5,"first_token_ms":220.25,"usage":{"prompt_tokens":12,"completion_tokens":34,"total_tokens":46},"cost_usd":0.00123,"notes":["context.plan: unknown value"],` +
		`"attempts":[{"provider":"azure","model":"gpt-4o","status":500,"code":"unavailable","error":"status 500: the worker \u001b[31mdied","latency_ms":300.5},{"provider":"openai","model":"gpt-4o","status":200,"latency_ms":900,"started_ms":320,"wait_ms":20,"first_token_ms":180,"prompt_tokens":12,"completion_tokens":34,"estimated":true,"cached_tokens":8,"reasoning_tokens":20,"tier":"flex","cost_usd":0.00123,"list_cost_usd":0.0015,"hedge":true},{"provider":"groq","model":"new","status":200,"code":"superseded","latency_ms":100,"prompt_tokens":12},{"provider":"home","model":"llama","status":200,"code":"superseded","latency_ms":100,"prompt_tokens":12,"free":true}],` +
		`"metadata":{"user_id":"u-8842"},"context":{"plan":"pro"},"variables":{"question":"Where?"},"messages":[{"role":"system","content":"Be kind.\nBe short."},{"role":"user","content":"Where is \u001b[31mit\u0007? \u009b2J"}],"response":"On its way.\n\u001b]0;owned\u0007\tSoon.","tool_calls":[{"id":"call_1","name":"track","arguments":"{}"}]}`
	// Three answers of a decision.
	decidedTrace = `{"trace_id":"01990001-0000-8200-8000-000500000001","decision_id":"01990001-0000-8a00-8000-000400000001","time":"2026-11-01T09:00:05.000Z","workspace":"default","kind":"remoteconfig","key":"new_checkout","state":"ended","api_key":"mobile-app","version":"abf36727dfea","revision":"d3561ebfbd34","reason":"split","row":"ramp","arm":"1","status":200,"latency_ms":0.1,` +
		`"splits":[{"experiment":{"definition":"remoteconfigs/kill_switch","rule":"half","salt":"a\u001b"},"bucket":52000,"share":0.07,"unit":"mWkE8sS3Vf1hPq0A"},{"experiment":{"definition":"remoteconfigs/new_checkout","rule":"ramp","salt":"ramp"},"bucket":12000,"arm":"1","share":0.2}],` +
		`"read":{"remoteconfigs/model_limits":"0123456789ab"},"inputs":{"plan":"pro","customer_id":{"hash":"mWkE8sS3Vf1hPq0A"},"beta":true,"tags":["a","\u001b"]}}`
	besideIt = `{"trace_id":"01990001-0000-8200-8000-000600000001","decision_id":"01990001-0000-8a00-8000-000400000001","time":"2026-11-01T09:00:05.000Z","workspace":"default","kind":"prompt","key":"support_reply","state":"ended","api_key":"mobile-app","reason":"default","variant":"en","arm":"en","status":200,"latency_ms":0.1,"inputs":{"plan":"pro"}}`
	callIt   = `{"trace_id":"01990001-0000-8400-8000-000700000001","decision_id":"01990001-0000-8a00-8000-000400000001","time":"2026-11-01T09:00:05.000Z","workspace":"default","kind":"endpoint","key":"support_chat","state":"ended","prompt":"support_reply","prompt_version":"0a1b2c3d4e5f","endpoint_variant":"hedged","endpoint_row":"row 2","reason":"moon","row":"row 2","variant":"nl","arm":"nl","status":503,"code":"upstream_unavailable","latency_ms":30120.5,"inputs":[1]}`
	// A report on the decision.
	credits = `{"decision_id":"01990001-0000-8a00-8000-000400000001","time":"2026-11-01T09:02:00.000Z","workspace":"default","api_key":"mobile-app","score":80,"values":{"resolved":1,"seconds_saved":-12.5}}`

	failedTrace  = `{"trace_id":"01990001-0000-8200-8000-000000000002","time":"2026-11-01T09:00:02.000Z","workspace":"default","kind":"endpoint","key":"support_chat","state":"ended","variant":"long","arm":"long","status":503,"code":"upstream_unavailable","latency_ms":30120.5}`
	startedTrace = "{\"trace_id\":\"01990001-0000-8200-8000-000000000001\",\"time\":\"2026-11-01T09:00:01.000Z\",\"workspace\":\"default\",\"kind\":\"remoteconfig\",\"key\":\"évil\u009b2J\u202ekey\",\"state\":\"started\",\"cached\":true,\"latency_ms\":0.125}"
	reports      = `[{"trace_id":"01990001-0000-8200-8000-000000000003","time":"2026-11-01T09:01:00.000Z","workspace":"default","api_key":"mobile-app","score":80,"latency_ms":1400,"llm_response":"On its\nway\u001b[1m.","chain_id":"c-1","conversation_id":"talk \u001b","usage":{"prompt_tokens":12,"total_tokens":46},"metadata":{"rating":"good"}}]`
)

// verified are what seals say of the traces of an export by the key that it asks for.
var verified = map[string]string{
	"valid":   `{"result":"valid","key":"9c2f1a0b"} {"result":"valid","key":"9c2f1a0b","removed":["context"]}`,
	"changed": strings.Repeat(`{"result":"changed","key":"9c2f1a0b"} `, namedChanges) + `{"result":"changed","key":"9c2f1a0b"} {"result":"none"} {"result":"valid","key":"9c2f1a0b"}`,
	"parts":   `{"result":"changed","key":"9c2f1a0b","changed":["messages","response"]}`,
	"unknown": `{"result":"other_key","key":"00112233"} {"result":"other_key","key":"\u001b"} {"result":"none"}`,
}

func (g *fakeGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, asked := r.URL.Query(), "?"+r.URL.Query().Encode()
	if r.Method == http.MethodDelete {
		// What is erased is in the body: URLs are logged.
		form, err := io.ReadAll(r.Body)
		if err == nil {
			query, err = url.ParseQuery(string(form))
		}
		if err != nil || r.URL.RawQuery != "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"%q, %v"}`, r.URL.RawQuery, err)
			return
		}
		asked = " " + query.Encode()
	}
	g.mu.Lock()
	g.requests = append(g.requests, r.Method+" "+r.URL.Path+asked)
	g.mu.Unlock()
	switch {
	case query.Get("dry_run") == "true":
		fmt.Fprint(w, `{"found":{"traces":3,"metrics":1,"replies":0}}`)
	case query.Get("key") == "several":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"workspace is missing: one of default, partner"}`)
	case query.Get("key") == "refuse":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, "{\"error\":\"there is no workspace \\u001b[31m\\\"x\\\"\"}\n")
	case r.Method == http.MethodDelete && query.Get("conversation_id") == "c-1":
		fmt.Fprint(w, `{"erased":{"traces":1,"metrics":2,"replies":0}}`)
	case r.Method == http.MethodDelete:
		fmt.Fprint(w, `{"erased":{"traces":0,"metrics":0,"replies":0}}`)
	case r.URL.Path == "/cadenza/traces" && query.Get("key") == "down":
		fmt.Fprint(w, `{"traces":[`+failedTrace+`],"complete":true,"follow":9,"waiting":{"records":53,"reason":"the disk is full\u001b[2J"}}`)
	case r.URL.Path == "/cadenza/traces" && query.Get("key") == "nothing":
		fmt.Fprint(w, `{"traces":[],"complete":true,"follow":9}`)
	case r.URL.Path == "/cadenza/traces" && query.Get("sort") == "latency":
		fmt.Fprint(w, `{"traces":[`+failedTrace+`,`+endpointTrace+`],"complete":true}`)
	case r.URL.Path == "/cadenza/traces" && query.Get("sort") == "score":
		scored := func(text string, score string) string {
			return strings.TrimSuffix(text, "}") + `,"score":` + score + `}`
		}
		fmt.Fprint(w, map[string]string{
			"":        `{"traces":[` + scored(failedTrace, "0") + `],"next":"0_on_id","complete":true}`,
			"0_on_id": `{"traces":[` + scored(endpointTrace, "12.5") + `],"complete":true}`,
		}[query.Get("before")])
	case r.URL.Path == "/cadenza/traces":
		fmt.Fprint(w, map[string]string{
			"":   `{"traces":[],"next":"n1","complete":false,"follow":9}`,
			"n1": `{"traces":[` + endpointTrace + `,` + failedTrace + `],"next":"n2","complete":true,"follow":9}`,
			"n2": `{"traces":[` + startedTrace + `],"complete":true,"follow":9}`,
		}[query.Get("before")])
	case r.URL.Path == "/cadenza/traces/lonely":
		fmt.Fprint(w, `{"metrics":`+reports+`}`)
	case r.URL.Path == "/cadenza/traces/decided":
		fmt.Fprint(w, `{"trace":`+decidedTrace+`,"metrics":[`+credits+`],"others":[`+besideIt+`,`+callIt+`]}`)
	case r.URL.Path == "/cadenza/traces/called":
		fmt.Fprint(w, `{"trace":`+callIt+`,"metrics":[],"definition":{"version":"abf36727dfea","content":{"columns":["plan","value"],"matrix":[["free","usual"],["team","hedged"]]}}}`)
	case r.URL.Path == "/cadenza/traces/decision":
		fmt.Fprint(w, `{"decision_id":"01990001-0000-8a00-8000-000400000001","traces":[`+decidedTrace+`,`+besideIt+`,`+callIt+`],"metrics":[`+credits+`]}`)
	case r.URL.Path == "/cadenza/traces/reported":
		fmt.Fprint(w, `{"decision_id":"01990001-0000-8a00-8000-000400000001","traces":[],"metrics":[`+credits+`]}`)
	case strings.HasSuffix(r.URL.Path, "/cadenza/traces/0199"), query.Get("decision") == "0199":
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"error":"0199 begins the ids of 2 traces: give more digits\n  01990001-0000-8200-8000-000000000003  endpoint support_chat\n  01990001-0000-8200-8000-000000000002  endpoint support_chat"}`)
	case strings.HasPrefix(r.URL.Path, "/cadenza/traces/"):
		fmt.Fprint(w, `{"trace":`+endpointTrace+`,"metrics":`+reports+`,"definition":{"version":"abf36727dfea","ordinal":3,"first_seen":"2026-10-01T00:00:00Z","content":{"key":"support_chat"}},"prompt":{"version":"0a1b2c3d4e5f","ordinal":1,"first_seen":"2026-10-01T00:00:00Z","content":{"columns":["id","plan","seats","value"],"matrix":[["first","free","any","long"],["","pro",["1..5","\u001b"],"short"]]}}}`)
	case r.URL.Path == "/cadenza/stats" && query.Get("key") == "nothing":
		fmt.Fprint(w, `{"interval":"all","pending":1,"rows":[]}`)
	case r.URL.Path == "/cadenza/stats" && query.Has("units"):
		fmt.Fprint(w, statsOfUnits)
	case r.URL.Path == "/cadenza/stats" && query.Get("by") == "arm":
		fmt.Fprint(w, statsByArm)
	case r.URL.Path == "/cadenza/stats":
		fmt.Fprint(w, g.stats())
	case r.URL.Path == "/cadenza/refused" && query.Get("key") == "nothing":
		fmt.Fprint(w, `{"workspace":"default","rows":[]}`)
	case r.URL.Path == "/cadenza/refused":
		fmt.Fprint(w, `{"workspace":"default","rows":[`+
			`{"api_key":"web","route":"endpoints","status":429,"code":"rate_limited","limit":"customers","subject":"acme\u001b[1m","key":"chat","count":1204,"last":"2026-11-21T20:59:58Z","examples":[{"time":"2026-11-21T20:59:58Z","message":"The limit customers (requests 100/1m by metadata.customer) is used up."},{"time":"2026-11-21T20:59:57Z","message":"The same."}]},`+
			`{"api_key":"","route":"prompts","status":401,"code":"invalid_api_key","count":3,"last":"2026-11-21T20:00:00Z","examples":[]}]}`)
	case r.URL.Path == "/cadenza/audit" && query.Get("by") == "nobody":
		fmt.Fprint(w, `{"workspace":"default","entries":[]}`)
	case r.URL.Path == "/cadenza/audit":
		fmt.Fprint(w, `{"workspace":"default","entries":[`+
			`{"seq":9,"time":"2026-11-21T20:59:58Z","workspace":"default","by":"sso:ada\u001b[1m","role":"admin","from":"192.0.2.7","action":"erase","subject":"metadata.user=hni-x_80PkE81YpE","after":"12 traces, 3 metrics and 0 replies erased"},`+
			`{"seq":8,"time":"2026-11-21T20:00:00Z","workspace":"default","action":"export","subject":"traces"}],"next":8}`)
	case r.URL.Path == "/cadenza/costs" && query.Get("key") == "nothing":
		fmt.Fprint(w, `{"by":["key"],"workspaces":["default"],"rows":[],"total":{}}`)
	case r.URL.Path == "/cadenza/costs" && query.Get("by") == "provider,model,day":
		fmt.Fprint(w, costsByDay)
	case r.URL.Path == "/cadenza/costs":
		fmt.Fprint(w, costsByCustomer)
	case r.URL.Path == "/cadenza/export" && query.Get("verify") == "true":
		lines := []string{`{"metrics":[]}`, `{"trace":` + startedTrace + `}`}
		for n, verification := range strings.Fields(verified[query.Get("key")]) {
			lines = append(lines, fmt.Sprintf(`{"trace":{"trace_id":"0199a001-0000-8600-8000-%012d","kind":"prompt","key":"reply\u001b"},"verification":%s}`, n, verification))
		}
		fmt.Fprintln(w, strings.Join(lines, "\n"))
	case r.URL.Path == "/cadenza/export":
		fmt.Fprint(w, `{"trace":`+startedTrace+"}\n{\"trace\":"+endpointTrace+`,"metrics":`+reports+"}\n")
		if query.Get("key") == "cut" {
			fmt.Fprint(w, `{"trace":{"trace_id":"0199`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	default:
		http.NotFound(w, r)
	}
}

// stats are statistics of two variants.
func (*fakeGateway) stats() string {
	return `{"interval":"day","pending":2,"rows":[` +
		`{"start":"2026-11-01T00:00:00Z","kind":"endpoint","key":"support_chat","variant":"short","traces":1200,"errors":18,"interrupted":1,"cached":300,"finish_reasons":{"stop":1100,"tool_calls":50,"length":48,"content_filter":2},"prompt_tokens":100,"completion_tokens":200,"total_tokens":300,"cost_usd":1.5,"reports":7,"scores":4,"score_mean":81.25,"latency_ms":{"count":1200,"p50":812.4,"p90":1500,"p95":2100,"p99":31000},"first_token_ms":{"count":900,"p50":120,"p90":200,"p95":250,"p99":300},"reported_latency_ms":{"count":0,"p50":0,"p90":0,"p95":0,"p99":0}},` +
		`{"start":"2026-11-01T00:00:00Z","kind":"remoteconfig","key":"limits","variant":"default","traces":50000,"errors":3,"interrupted":0,"cached":50000,"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"cost_usd":0,"reports":0,"scores":0,"latency_ms":{"count":50000,"p50":0.041,"p90":0.05,"p95":0.06,"p99":0.2},"first_token_ms":{"count":0,"p50":0,"p90":0,"p95":0,"p99":0},"reported_latency_ms":{"count":0,"p50":0,"p90":0,"p95":0,"p99":0}}]}`
}

// statsByArm are statistics of two arms with named values, and of a configuration
// without any.
const statsByArm = `{"interval":"all","by":"arm","pending":0,"rows":[` +
	`{"kind":"prompt","key":"support_reply","arm":"en","traces":5210,"reports":800,"scores":800,"score_mean":71.5,"latency_ms":{"count":5210,"p50":0.05,"p95":0.08,"p99":0.1},"values":{` +
	`"seconds_saved":{"count":640,"mean":29.18106,"deviation":19.699,"min":-22.55,"max":84.745,"p50":28,"p95":63,"p99":74},"resolved":{"count":800,"mean":0.509434,"deviation":0.50149,"min":0,"max":1,"p50":1,"p95":1,"p99":1}},` +
	`"other_values":{"count":1,"mean":1234567,"min":1234567,"max":1234567,"p50":1200000,"p95":1200000,"p99":1200000}},` +
	`{"kind":"prompt","key":"support_reply","arm":"nl","traces":5190,"reports":790,"scores":790,"score_mean":78.25,"latency_ms":{"count":5190,"p50":0.05,"p95":0.08,"p99":0.1},"values":{` +
	`"resolved":{"count":790,"mean":0.6012,"deviation":0.489,"min":0,"max":1,"p50":1,"p95":1,"p99":1},"seconds_saved":{"count":1,"mean":31.7,"min":31.7,"max":31.7,"p50":31.7,"p95":31.7,"p99":31.7},"\u001b[31m":{"count":1,"mean":0,"min":0,"max":0,"p50":0,"p95":0,"p99":0}}},` +
	`{"kind":"remoteconfig","key":"new_checkout","arm":"1","traces":100,"latency_ms":{"count":100,"p50":0.05,"p95":0.08,"p99":0.1}}]}`

// statsOfUnits are statistics of units of two arms, and of a row without any.
const statsOfUnits = `{"interval":"all","by":"arm","units":true,"pending":0,"rows":[` +
	`{"kind":"prompt","key":"support_reply","arm":"control","traces":1220,"units":470,"reports":800,"values":{"resolved":{"count":310,"mean":0.58,"deviation":0.31,"min":0,"max":1,"p50":0.5,"p95":1,"p99":1}}},` +
	`{"kind":"prompt","key":"support_reply","arm":"en","traces":900,"unitless":900,"reports":0},` +
	`{"kind":"prompt","key":"support_reply","arm":"nl","traces":1232,"units":485,"units_moved":3,"unitless":2,"reports":790,"values":{"resolved":{"count":322,"mean":0.69,"deviation":0.29,"min":0,"max":1,"p50":0.75,"p95":1,"p99":1}}}]}`

// costsByCustomer are costs by a member of the metadata and by the model.
const costsByCustomer = `{"since":"2026-10-01T00:00:00Z","by":["metadata.customer","model"],"workspaces":["default","partner"],"oldest":"2026-10-20T08:00:00Z","unlogged":["default/private\u001b"],"rows":[` +
	`{"by":{"metadata.customer":"acme\u001b[2J","model":"gpt-4o-mini"},"calls":1200,"attempts":1260,"unanswered":61,"prompt_tokens":1500000,"cached_tokens":900000,"cache_write_tokens":20,"cache_write_hour_tokens":10,"completion_tokens":200000,"reasoning_tokens":50000,"estimated_tokens":900,"web_searches":3,"cost_usd":12.5,"estimated_cost_usd":0.0125,"unanswered_cost_usd":0.25,"reported_cost_usd":2.5,"list_cost_usd":2.75},` +
	`{"by":{"metadata.customer":"globex","model":"new"},"calls":10,"attempts":10,"unpriced":10,"unpriced_tokens":1500,"prompt_tokens":1000,"completion_tokens":500,"cost_usd":0},` +
	`{"by":{"model":"llama"},"calls":5,"attempts":5,"prompt_tokens":100,"completion_tokens":50,"cost_usd":0},` +
	`{"by":{"metadata.customer":""},"calls":3,"cached_answers":1,"interrupted":2,"attempts":0,"prompt_tokens":0,"completion_tokens":0,"cost_usd":0}],` +
	`"others":{"calls":7,"attempts":7,"prompt_tokens":70,"completion_tokens":7,"cost_usd":0.07,"reported_cost_usd":0.07,"list_cost_usd":0.06},"other_rows":4,` +
	`"total":{"calls":1225,"cached_answers":1,"interrupted":2,"attempts":1282,"unanswered":61,"unpriced":10,"unpriced_tokens":1500,"prompt_tokens":1501170,"cached_tokens":900000,"cache_write_tokens":20,"cache_write_hour_tokens":10,"completion_tokens":200557,"reasoning_tokens":50000,"estimated_tokens":900,"web_searches":3,"cost_usd":12.57,"estimated_cost_usd":0.0125,"unanswered_cost_usd":0.25,"reported_cost_usd":2.57,"list_cost_usd":2.81}}`

// costsByDay are costs as cadenza-reconcile takes them.
const costsByDay = `{"by":["provider","model","day"],"workspaces":["default"],"oldest":"2026-10-20T08:00:00Z","unlogged":["private\u001b"],"rows":[` +
	`{"by":{"provider":"openai","model":"gpt-4o-mini","day":"2026-11-01"},"calls":1200,"attempts":1200,"unanswered":3,"prompt_tokens":1000000,"cached_tokens":400000,"completion_tokens":100000,"cost_usd":0.21},` +
	`{"by":{"provider":"openai","model":"gpt-4o-mini","day":"2026-11-02"},"calls":10,"attempts":10,"prompt_tokens":1000,"completion_tokens":100,"cost_usd":0.0002},` +
	`{"by":{"provider":"azure","model":"gpt-4o","day":"2026-11-01"},"calls":1,"attempts":1,"prompt_tokens":10,"completion_tokens":10,"cost_usd":0.0002}],"total":{}}`

// asked are the requests so far.
func (g *fakeGateway) asked() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

func TestGatewayCommandsGolden(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	for name, test := range map[string]struct {
		arguments []string
		fails     bool
	}{
		"traces":            {arguments: []string{"traces"}},
		"traces_limit":      {arguments: []string{"traces", "--limit", "2"}},
		"traces_json":       {arguments: []string{"traces", "--json"}},
		"traces_none":       {arguments: []string{"traces", "--key", "nothing"}},
		"traces_waiting":    {arguments: []string{"traces", "--key", "down"}},
		"traces_filters":    {arguments: []string{"traces", "-w", "other", "--since", "2026-11-01", "--until", "2026-11-02T00:00:00+01:00", "--kind", "endpoint", "--key", "k", "--api-key", "a", "--status", "error", "--provider", "p", "--model", "m", "--code", "c", "--finish-reason", "length", "--state", "ended", "--chain-id", "ch", "--conversation-id", "co", "--metadata", "a=b=c", "--metadata", "e=", "--version", "v", "--revision", "r", "--variant", "va", "--arm", "ar", "--decision", "de", "--slower", "2s", "--attempts", "2", "--fallback", "--score", "..20"}},
		"traces_bad_since":  {arguments: []string{"traces", "--since", "yesterday"}, fails: true},
		"traces_bad_range":  {arguments: []string{"traces", "--since", "2026-11-02", "--until", "2026-11-01"}, fails: true},
		"traces_slowest":    {arguments: []string{"traces", "--sort", "latency"}},
		"traces_worst":      {arguments: []string{"traces", "--score", "..20", "--sort", "score"}},
		"traces_worst_json": {arguments: []string{"traces", "--score", "..20", "--sort", "score", "--json", "--limit", "1"}},
		"traces_score_new":  {arguments: []string{"traces", "--score", "..20", "--follow"}, fails: true},
		"traces_bad_sort":   {arguments: []string{"traces", "--sort", "size"}, fails: true},
		"traces_sort_new":   {arguments: []string{"traces", "--sort", "latency", "--follow"}, fails: true},
		"traces_workspace":  {arguments: []string{"traces", "--key", "several"}, fails: true},
		"traces_bad_limit":  {arguments: []string{"traces", "--limit", "0"}, fails: true},
		"traces_bad_member": {arguments: []string{"traces", "--metadata", "=x"}, fails: true},
		"traces_refused":    {arguments: []string{"traces", "--key", "refuse"}, fails: true},
		"trace":             {arguments: []string{"traces", "01990001-0000-8200-8000-000000000003"}},
		"trace_definition":  {arguments: []string{"traces", "01990001-0000-8200-8000-000000000003", "--definition"}},
		"definition_of":     {arguments: []string{"traces", "--definition"}, fails: true},
		"trace_json":        {arguments: []string{"traces", "01990001-0000-8200-8000-000000000003", "--json"}},
		"trace_decided":     {arguments: []string{"traces", "decided"}},
		"trace_called":      {arguments: []string{"traces", "called"}},
		"trace_ambiguous":   {arguments: []string{"traces", "0199"}, fails: true},
		"decision":          {arguments: []string{"traces", "decision"}},
		"decision_json":     {arguments: []string{"traces", "decision", "--json"}},
		"decision_reported": {arguments: []string{"traces", "reported"}},
		"trace_metrics":     {arguments: []string{"traces", "lonely"}},
		"trace_path":        {arguments: []string{"traces", "../config/?x"}},
		"stats":             {arguments: []string{"stats", "--interval", "day", "--since", "2026-11-01"}},
		"stats_by_arm":      {arguments: []string{"stats", "--by", "arm", "--arm", "x", "--version", "v", "--variant", "y"}},
		"stats_units":       {arguments: []string{"stats", "--by", "arm", "--units", "--since", "2026-11-01"}},
		"stats_json":        {arguments: []string{"stats", "--json"}},
		"stats_none":        {arguments: []string{"stats", "--key", "nothing"}},
		"refused":           {arguments: []string{"refused", "--since", "2026-11-01", "--api-key", "web"}},
		"refused_json":      {arguments: []string{"refused", "--json"}},
		"refused_none":      {arguments: []string{"refused", "--key", "nothing"}},
		"audit":             {arguments: []string{"audit", "--since", "2026-11-01", "--by", "ops", "--action", "erase", "--limit", "2"}},
		"audit_json":        {arguments: []string{"audit", "--json"}},
		"audit_none":        {arguments: []string{"audit", "--by", "nobody"}},
		"costs":             {arguments: []string{"costs", "--by", "metadata.customer,model", "--since", "2026-10-01", "--top", "4"}},
		"costs_json":        {arguments: []string{"costs", "--json"}},
		"costs_days_json":   {arguments: []string{"costs", "--json", "--by", "provider,model,day"}},
		"costs_none":        {arguments: []string{"costs", "--key", "nothing", "--api-key", "a", "--variant", "v", "--version", "e", "--provider", "p", "--model", "m", "--metadata", "customer=acme", "--until", "2026-11-01", "-w", "other"}},
		"costs_store":       {arguments: []string{"costs", "--store", "cadenza.db"}, fails: true},
		"export":            {arguments: []string{"export", "--since", "2026-11-01"}},
		"export_verify":     {arguments: []string{"export", "--verify", "--key", "valid"}},
		"export_changed":    {arguments: []string{"export", "--verify", "--key", "changed"}, fails: true},
		"export_unknown":    {arguments: []string{"export", "--verify", "--key", "unknown"}, fails: true},
		"export_parts":      {arguments: []string{"export", "--verify", "--key", "parts"}, fails: true},
		"export_nothing":    {arguments: []string{"export", "--verify", "--key", "nothing"}, fails: true},
		"export_cut":        {arguments: []string{"export", "--key", "cut"}, fails: true},
		"erase":             {arguments: []string{"erase", "--conversation-id", "c-1", "--yes"}},
		"erase_json":        {arguments: []string{"erase", "--conversation-id", "c-1", "--yes", "--json"}},
		"erase_dry":         {arguments: []string{"erase", "--metadata", "user_id=8842", "--dry-run"}},
		"erase_none":        {arguments: []string{"erase", "--metadata", "user_id=8842", "--yes"}},
		"erase_unit":        {arguments: []string{"erase", "--unit", "customer_id=c-7", "--yes"}},
		"erase_decision":    {arguments: []string{"erase", "--decision", "01990001", "--yes"}},
		"erase_unit_empty":  {arguments: []string{"erase", "--unit", "customer_id=", "--yes"}, fails: true},
		"erase_asks":        {arguments: []string{"erase", "--metadata", "user_id=8842"}, fails: true},
		"erase_what":        {arguments: []string{"erase", "--yes"}, fails: true},
		"erase_both":        {arguments: []string{"erase", "--yes", "--metadata", "a=b", "--conversation-id", "c"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			gateway := new(fakeGateway)
			server := httptest.NewServer(gateway)
			defer server.Close()
			var out, errors bytes.Buffer
			err := gatewayCommand(t.Context(), &out, &errors, append(test.arguments, "--address", server.Listener.Addr().String())...)
			if (err != nil) != test.fails {
				t.Errorf("error %v, want one: %t", err, test.fails)
			}
			for _, c := range out.String() + errors.String() {
				if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 || c == '\u202e' {
					t.Errorf("%q reached the terminal", c)
				}
			}
			got := "asked:\n" + strings.Join(gateway.asked(), "\n") + "\nout:\n" + out.String() + "errors:\n" + errors.String()
			holdGolden(t, name, got)
		})
	}
}

func TestTracesAreTheSameJSON(t *testing.T) {
	server := httptest.NewServer(new(fakeGateway))
	defer server.Close()
	var out bytes.Buffer
	must(t, gatewayCommand(t.Context(), &out, io.Discard, "traces", "--json", "--address", server.Listener.Addr().String()))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{endpointTrace, failedTrace, startedTrace} {
		var a, b any
		if json.Unmarshal([]byte(lines[i]), &a) != nil || json.Unmarshal([]byte(want), &b) != nil || !cmp.Equal(a, b) {
			t.Errorf("line %d: %s", i, lines[i])
		}
	}
}

func TestAGatewayThatIsNotThere(t *testing.T) {
	var errors bytes.Buffer
	err := gatewayCommand(t.Context(), io.Discard, &errors, "traces", "--address", "127.0.0.1:1")
	if err == nil || !strings.Contains(errors.String(), "--address") || !strings.Contains(errors.String(), "127.0.0.1:1") {
		t.Errorf("%v: %s", err, &errors)
	}
	server := httptest.NewServer(http.NotFoundHandler()) // a Caddy without Cadenza
	defer server.Close()
	err = gatewayCommand(t.Context(), io.Discard, &errors, "stats", "--address", server.Listener.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "no Cadenza") {
		t.Error(err)
	}
}

// TestTheAddressOfAConfiguration holds that --config says where to ask, by the
// example of a Unix socket.
func TestTheAddressOfAConfiguration(t *testing.T) {
	dir, err := os.MkdirTemp("", "") // a socket's path must be short
	must(t, err)
	defer os.RemoveAll(dir)
	listener, err := net.Listen("unix", filepath.Join(dir, "admin"))
	if err != nil {
		t.Skipf("this system has no Unix sockets: %v", err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: new(fakeGateway)}}
	server.Start()
	defer server.Close()
	config := filepath.Join(dir, "caddy.json")
	must(t, os.WriteFile(config, []byte(`{"admin":{"listen":"unix/`+filepath.ToSlash(dir)+`/admin"}}`), 0o600))
	var out bytes.Buffer
	if err := gatewayCommand(t.Context(), &out, io.Discard, "traces", "--config", config); err != nil || !strings.Contains(out.String(), "support_chat") {
		t.Errorf("%v: %s", err, &out)
	}
}

// TestExportVerifies: what the exit status says, and that the lines are written in any
// case.
func TestExportVerifies(t *testing.T) {
	server := httptest.NewServer(new(fakeGateway))
	defer server.Close()
	for key, want := range map[string]int{"valid": 0, "changed": 1, "parts": 1, "unknown": 2, "nothing": 1} {
		file := filepath.Join(t.TempDir(), "traces.jsonl")
		status := statusOf(gatewayCommand(t.Context(), io.Discard, io.Discard, "export", "--verify", "--key", key, "-o", file, "--address", server.Listener.Addr().String()))
		data, err := os.ReadFile(file)
		if lines := 2 + len(strings.Fields(verified[key])); status != want || err != nil || bytes.Count(data, []byte("\n")) != lines {
			t.Errorf("%s: status %d, %v, %s", key, status, err, data)
		}
	}
}

func TestExportToAFile(t *testing.T) {
	server := httptest.NewServer(new(fakeGateway))
	defer server.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "traces.jsonl")
	address := server.Listener.Addr().String()
	if err := gatewayCommand(t.Context(), io.Discard, io.Discard, "export", "--key", "cut", "-o", file, "--address", address); err == nil {
		t.Error("an export that broke off succeeded")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("it left %v", entries)
	}
	var out, errors bytes.Buffer
	must(t, gatewayCommand(t.Context(), &out, &errors, "export", "-o", file, "--address", address))
	data, err := os.ReadFile(file)
	if err != nil || bytes.Count(data, []byte("\n")) != 2 || out.Len() > 0 || !strings.Contains(errors.String(), "2 lines") {
		t.Errorf("%v: %s, out %s, errors %s", err, data, &out, &errors)
	}
	for line := range bytes.Lines(data) {
		if !json.Valid(line) {
			t.Errorf("no JSON: %s", line)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v", info.Mode())
	}
}

// buffer is what a command writes while a test reads it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) waitFor(t *testing.T, text string) {
	t.Helper()
	gatewaytest.Eventually(t, text+" comes", func() bool { return strings.Contains(b.String(), text) }, b)
}

// TestFollow follows through a restart of the gateway at the same address.
func TestFollow(t *testing.T) {
	serve := func(address string, answer func(url.Values) string) *httptest.Server {
		listener, err := net.Listen("tcp", address)
		must(t, err)
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, answer(r.URL.Query()))
		})}}
		server.Start()
		return server
	}
	first := serve("127.0.0.1:0", func(q url.Values) string {
		switch {
		case q.Get("key") != "support_chat":
			return `{"error":"the filter is gone"}`
		case !q.Has("follow"):
			return `{"traces":[` + endpointTrace + `,` + failedTrace + `],"next":"n1","complete":true,"follow":7}`
		case q.Get("follow") == "7":
			return `{"traces":[` + strings.ReplaceAll(endpointTrace, "000000000003", "00000000000a") + `],"follow":8}`
		}
		return `{"traces":[],"follow":8}`
	})
	address := first.Listener.Addr().String()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errors buffer
	l := traceList{every: time.Millisecond}
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetErr(&errors)
	l.cmd, l.limit, l.values = cmd, 2, url.Values{"key": {"support_chat"}}
	l.client.address = address
	ended := make(chan error)
	go func() { ended <- l.follow(ctx) }()

	out.waitFor(t, "00000000000a")
	first.Close()
	errors.waitFor(t, "waiting for the gateway")
	second := serve(address, func(q url.Values) string {
		if q.Get("follow") == "8" {
			return `{"traces":[` + strings.ReplaceAll(endpointTrace, "000000000003", "00000000000b") + `],"follow":12}`
		}
		return `{"traces":[],"follow":12}`
	})
	defer second.Close()
	out.waitFor(t, "00000000000b")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var ids []string
	for line := range strings.Lines(out.String()) {
		ids = append(ids, strings.Fields(line)[0])
	}
	prefix := "01990001-0000-8200-8000-"
	want := []string{"id", prefix + "000000000002", prefix + "000000000003", prefix + "00000000000a", prefix + "00000000000b"}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Error(diff)
	}
	if got := errors.String(); strings.Count(got, "waiting") != 1 || strings.Count(got, "answers again") != 1 {
		t.Errorf("the restart was announced so:\n%s", got)
	}
}

// TestFollowReadsLines has a gateway that sends a line for each commit, and ends
// one answer in the middle of a line.
func TestFollowReadsLines(t *testing.T) {
	line := func(id string, follow int) string {
		return fmt.Sprintf(`{"traces":[%s],"follow":%d}`+"\n", strings.ReplaceAll(endpointTrace, "000000000003", "00000000000"+id), follow)
	}
	var mu sync.Mutex
	var asked []string
	last := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		follow := r.URL.Query().Get("follow")
		mu.Lock()
		asked = append(asked, follow+" "+r.URL.Query().Get("wait"))
		mu.Unlock()
		switch follow {
		case "":
			fmt.Fprint(w, `{"traces":[],"follow":7}`)
		case "7":
			fmt.Fprint(w, `{"traces":[],"follow":7,"waiting":{"records":1,"reason":"the disk is full"}}`+"\n")
			fmt.Fprint(w, line("a", 8), line("b", 9), line("c", 10)[:100])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "9":
			fmt.Fprint(w, line("c", 10))
		case "10":
			w.(http.Flusher).Flush()
			close(last)
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errors buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetErr(&errors)
	l := traceList{every: time.Millisecond, cmd: cmd, values: url.Values{}}
	l.client.address = server.Listener.Addr().String()
	ended := make(chan error)
	go func() { ended <- l.follow(ctx) }()
	out.waitFor(t, "00000000000c")
	<-last
	cancel() // while the last request waits
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{" ", "7 1m0s", "9 1m0s", "10 1m0s"}, asked); diff != "" {
		t.Error(diff)
	}
	for _, id := range []string{"a", "b", "c"} {
		if n := strings.Count(out.String(), "00000000000"+id); n != 1 {
			t.Errorf("%s came %d times", id, n)
		}
	}
	if got := errors.String(); strings.Count(got, "takes no records: 1 waits, and not listed: the disk is full") != 1 || strings.Count(got, "broke off") != 1 {
		t.Errorf("%s", got)
	}
}

// TestFollowEnds holds that what can't get better ends following.
func TestFollowEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("follow") {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"no such workspace"}`)
			return
		}
		fmt.Fprint(w, `{"traces":[],"follow":1}`)
	}))
	defer server.Close()
	err := gatewayCommand(t.Context(), io.Discard, io.Discard, "traces", "--follow", "--address", server.Listener.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "no such workspace") {
		t.Error(err)
	}
	if err := gatewayCommand(t.Context(), io.Discard, io.Discard, "traces", "--follow", "--address", "127.0.0.1:1"); err == nil {
		t.Error("a gateway that was never there was waited for")
	}
}
