package main

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The documented shapes of the vendors, and the shapes of their consoles' files.
const (
	openAIUsageJSON = `{"object":"page","data":[
{"object":"bucket","start_time":1793491200,"end_time":1793577600,"results":[
 {"object":"organization.usage.completions.result","input_tokens":1000,"output_tokens":500,"input_cached_tokens":800,"input_audio_tokens":0,"output_audio_tokens":0,"num_model_requests":5,"project_id":null,"user_id":null,"api_key_id":null,"model":"gpt-4o-mini-2024-07-18","batch":null,"service_tier":null},
 {"object":"organization.usage.completions.result","input_tokens":70,"output_tokens":30,"input_cached_tokens":0,"num_model_requests":2,"project_id":null,"user_id":null,"api_key_id":null,"model":"gpt-4o","batch":true,"moons":3}]},
{"object":"bucket","start_time":1793577600,"end_time":1793664000,"results":[]}],"has_more":false,"next_page":null}`
	openAICostJSON = `[{"object":"page","data":[{"object":"bucket","start_time":1793491200,"end_time":1793577600,"results":[
 {"object":"organization.costs.result","amount":{"value":0.00003,"currency":"usd"},"line_item":"gpt-4o-mini-2024-07-18, input","project_id":null,"organization_id":"org-1"},
 {"object":"organization.costs.result","amount":{"value":"0.00006","currency":"usd"},"line_item":"gpt-4o-mini-2024-07-18, cached input"},
 {"object":"organization.costs.result","amount":{"value":3e-4,"currency":"usd"},"line_item":"gpt-4o-mini-2024-07-18, output_tokens"}]}],"has_more":true,"next_page":"p2"},
 {"object":"page","data":[{"object":"bucket","start_time":1793491200,"end_time":1793577600,"results":[
 {"object":"organization.costs.result","amount":{"value":0.02,"currency":"usd","tax":0},"line_item":"web search tool calls"},
 {"object":"organization.costs.result","amount":{"value":-1,"currency":"USD"},"line_item":"gpt-4o, moon light"}]}],"has_more":true,"next_page":"p3"}]`
	anthropicUsageJSON = `{"data":[{"starting_at":"2026-11-01T00:00:00Z","ending_at":"2026-11-02T00:00:00Z","results":[
 {"uncached_input_tokens":1500,"cache_creation":{"ephemeral_1h_input_tokens":1000,"ephemeral_5m_input_tokens":500,"ephemeral_1d_input_tokens":1},"cache_read_input_tokens":200,"output_tokens":500,"server_tool_use":{"web_search_requests":10},"api_key_id":"apikey_1","workspace_id":"wrkspc_1","model":"claude-opus-4-20250514","service_tier":"standard","context_window":"0-200k"}]}],
 "has_more":false,"next_page":null}`
	anthropicCostJSON = `{"data":[{"starting_at":"2026-11-01T00:00:00Z","ending_at":"2026-11-02T00:00:00Z","results":[
 {"currency":"USD","amount":"123.78912","workspace_id":"wrkspc_1","description":"Claude Opus 4 Usage - Input Tokens","cost_type":"tokens","context_window":"0-200k","model":"claude-opus-4-20250514","service_tier":"batch","token_type":"uncached_input_tokens"},
 {"currency":"USD","amount":"10","workspace_id":null,"description":"Web Search Usage","cost_type":"web_search","context_window":null,"model":null,"service_tier":null,"token_type":null},
 {"currency":"USD","amount":"5","workspace_id":null,"description":null,"cost_type":null,"model":null,"token_type":null}]}],"has_more":false}`
	openAIUsageCSV = "\xef\xbb\xbfstart_time,end_time,start_time_iso,end_time_iso,num_model_requests,project_id,user_id,api_key_id,model,batch,input_tokens,output_tokens,input_cached_tokens,moons\r\n" +
		"1793491200,1793577600,2026-11-01T00:00:00+00:00,2026-11-02T00:00:00+00:00,5.0,,,,gpt-4o-mini-2024-07-18,False,1000,500,800,1\r\n" +
		"1793577600,1793664000,2026-11-02T00:00:00+00:00,2026-11-03T00:00:00+00:00,,,,,,,,,,\r\n"
	openAICostCSV = "start_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,quantity,quantity_unit,line_item,user_id,api_key_id,project_id,organization_id,project_name,organization_name,user_email,api_source\n" +
		",,2026-11-01T00:00:00,2026-11-02T00:00:00,0.5,usd,1000,tokens,\"gpt-5-nano, input_tokens\",,key_1,proj_a,org-1,A,B,a@example.com,api\n" +
		",,2026-11-02T00:00:00,2026-11-03T00:00:00,0.003835980000000000000000000000,usd,,,,,,,org-1,,B,,\n"
	anthropicUsageCSV = "usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,web_search_count,inference_geo,speed\n" +
		"2026-11-01,claude-opus-5,App,Default,standard,≤ 200k,46981,15969,2,3,16932,0,global,\n"
	anthropicCostCSV = "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,list_price_usd,cost_type,inference_geo,speed,api_key_id,api_key_status\n" +
		"2026-11-01,Claude Haiku 4.5,Default,k,message,≤ 200k,input_no_cache,0.05,0.05,token,not_available,,apikey_1,archived\n" +
		"2026-11-01,Claude Haiku 4.5,Default,k,batch,≤ 200k,output,0.02,0.02,token,not_available,,apikey_1,archived\n" +
		"2026-11-01,,Default,k,message,,,0.01,0.01,web_search,,,,\n"
	// Each hour has a bucket. A tool has sorted the members, so results come before times.
	hoursJSON = `{"data":[
{"end_time":1793494800,"object":"bucket","results":[{"model":"gpt-4o","input_tokens":10,"num_model_requests":1,"object":"organization.usage.completions.result","output_tokens":1}],"start_time":1793491200},
{"end_time":1793581200,"results":[{"model":"gpt-4o","input_tokens":300,"num_model_requests":2,"object":"organization.usage.completions.result","output_tokens":30}],"start_time":1793577600},
{"end_time":1793498400,"results":[{"model":"gpt-4o","input_tokens":4000,"num_model_requests":4,"object":"organization.usage.completions.result","output_tokens":400}],"start_time":1793494800,"later":[{"a":[1,"]"]},{}]}],
"also":{"results":[{}]},"has_more":true} [] [{"data":null}]`
	quietOpenAI    = `{"object":"page","data":[{"object":"bucket","start_time":1793491200,"end_time":1793577600,"results":[]}],"has_more":false,"next_page":null}`
	quietAnthropic = `{"data":[{"starting_at":"2026-11-01T00:00:00Z","ending_at":"2026-11-02T00:00:00Z","results":[]}],"has_more":false,"next_page":null}`
)

var exportsOfTests = map[string]string{
	"OpenAI usage": openAIUsageJSON, "OpenAI costs": openAICostJSON, "Anthropic usage": anthropicUsageJSON, "Anthropic costs": anthropicCostJSON,
	"OpenAI usage CSV": openAIUsageCSV, "OpenAI costs CSV": openAICostCSV, "Anthropic usage CSV": anthropicUsageCSV, "Anthropic costs CSV": anthropicCostCSV,
	"hours":                 "\xef\xbb\xbf\r\n " + hoursJSON + "\n",
	"a quiet day of OpenAI": quietOpenAI, "a quiet day of Anthropic": quietAnthropic, "a quiet day, then others": "[" + quietOpenAI + "," + openAIUsageJSON + "]",
}

func TestParse(t *testing.T) {
	t.Parallel()
	sum := func(requests int64, tokens ...int64) counts {
		c := counts{Requests: requests}
		copy(c.Tokens[:], tokens)
		return c
	}
	cost := func(k kind, dollars float64) counts {
		var c counts
		c.Cost[k] = dollars
		return c
	}
	const first, second = "2026-11-01", "2026-11-02"
	of := func(model string) lineKey { return lineKey{first, model, false} }
	const usageOf, messagesOf = "usage of completions", "usage of messages"
	for name, test := range map[string]struct {
		want export
		sums map[lineKey]counts
	}{
		"OpenAI usage": {export{Vendor: openAI, Shape: usageOf, First: first, Last: second, Unknown: []string{"moons"}, Lines: 2}, map[lineKey]counts{
			of("gpt-4o-mini-2024-07-18"): sum(5, 200, 800, 0, 0, 500), {first, "gpt-4o", true}: sum(2, 70, 0, 0, 0, 30),
		}},
		"OpenAI costs": {export{Vendor: openAI, Shape: "costs", First: first, Last: first, More: true, Unknown: []string{"amount.tax"}, Lines: 5}, map[lineKey]counts{
			of("gpt-4o-mini-2024-07-18"): {Cost: [kinds]float64{input: 0.00003, cached: 0.00006, output: 0.0003}},
			of("web search tool calls"):  cost(other, 0.02), of("gpt-4o"): cost(other, -1),
		}},
		"Anthropic usage": {export{Vendor: anthropic, Shape: messagesOf, First: first, Last: first, Unknown: []string{"cache_creation.ephemeral_1d_input_tokens"}, Lines: 1}, map[lineKey]counts{
			of("claude-opus-4-20250514"): sum(0, 1500, 200, 500, 1000, 500),
		}},
		"Anthropic costs": {export{Vendor: anthropic, Shape: "costs", First: first, Last: first, Lines: 3}, map[lineKey]counts{
			{first, "claude-opus-4-20250514", true}: cost(input, 1.2378912), of("web_search"): cost(other, 0.1), of(""): cost(other, 0.05),
		}},
		"OpenAI usage CSV": {export{Vendor: openAI, Shape: usageOf, First: first, Last: second, Unknown: []string{"moons"}, Lines: 1}, map[lineKey]counts{
			of("gpt-4o-mini-2024-07-18"): sum(5, 200, 800, 0, 0, 500),
		}},
		"OpenAI costs CSV": {export{Vendor: openAI, Shape: "costs", First: first, Last: second, Lines: 2}, map[lineKey]counts{
			of("gpt-5-nano"): cost(input, 0.5), {second, "", false}: cost(other, 0.00383598),
		}},
		"Anthropic usage CSV": {export{Vendor: anthropic, Shape: messagesOf, First: first, Last: first, Lines: 1}, map[lineKey]counts{
			of("claude-opus-5"): sum(0, 46981, 3, 15969, 2, 16932),
		}},
		"Anthropic costs CSV": {export{Vendor: anthropic, Shape: "costs", First: first, Last: first, Lines: 3}, map[lineKey]counts{
			of("Claude Haiku 4.5"): cost(input, 0.05), {first, "Claude Haiku 4.5", true}: cost(output, 0.02), of("web_search"): cost(other, 0.01),
		}},
		"hours": {export{Vendor: openAI, Shape: usageOf, First: first, Last: second, Lines: 3}, map[lineKey]counts{
			of("gpt-4o"): sum(5, 4010, 0, 0, 0, 401), {second, "gpt-4o", false}: sum(2, 300, 0, 0, 0, 30),
		}},
		"a quiet day of OpenAI":    {export{Vendor: openAI, First: first, Last: first}, map[lineKey]counts{}},
		"a quiet day of Anthropic": {export{Vendor: anthropic, First: first, Last: first}, map[lineKey]counts{}},
		"a quiet day, then others": {export{Vendor: openAI, Shape: usageOf, First: first, Last: second, Unknown: []string{"moons"}, Lines: 2}, map[lineKey]counts{
			of("gpt-4o-mini-2024-07-18"): sum(5, 200, 800, 0, 0, 500), {first, "gpt-4o", true}: sum(2, 70, 0, 0, 0, 30),
		}},
	} {
		var got export
		if err := got.parse(strings.NewReader(exportsOfTests[name])); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, got, cmpopts.IgnoreUnexported(export{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		sums := make(map[lineKey]counts)
		for key, c := range got.lines {
			sums[key] = *c
		}
		if diff := cmp.Diff(test.sums, sums, cmp.AllowUnexported(lineKey{})); diff != "" {
			t.Errorf("sums of %s (-want +got):\n%s", name, diff)
		}
	}
}

// TestParseRefuses parses texts that are no exports, or can't be compared.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	usage := func(result string) string {
		return `{"data":[{"start_time":1793491200,"end_time":1793577600,"results":[` + result + `]}]}`
	}
	for text, want := range map[string]string{
		" \n":            "empty",
		"hello":          "columns are of no export",
		`"a`:             "neither JSON nor CSV",
		`{"data":[`:      "can't be read after byte 0: unexpected EOF",
		`{"data":[}`:     "can't be read after byte 0: invalid character '}'",
		`[1]`:            "a page that is none of usage or costs",
		`{"data":3}`:     "a page that is none of usage or costs",
		`{"has_more":1}`: "a page that is none of usage or costs",
		`{"data":[{}]}`:  "\"\" is no time",
		usage("3"):       "a page that is none of usage or costs",
		`{"data":[]}`:    "no results",
		`{"error":{"message":"Incorrect API key provided","type":"invalid_request_error"}}`:                  "the API refused the request, and gave no page: \"Incorrect API key provided\"",
		`{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`:             "invalid x-api-key",
		strings.ReplaceAll(anthropicUsageCSV, ",", ";"):                                                      "columns are of no export",
		"\xff\xfe" + strings.Join(strings.Split("usage_date_utc,model_version\n2026-11-01,a\n", ""), "\x00"): "no text in UTF-8",
		usage(`{}`): "no API that is known",
		usage(`{"object":"organization.usage.embeddings.result","input_tokens":1,"num_model_requests":1}`): "calls that the gateway does not make",
		openAIUsageJSON + openAICostJSON:                                                 "in a file of its own",
		openAIUsageJSON + anthropicUsageJSON:                                             "in a file of its own",
		strings.ReplaceAll(openAIUsageJSON, `"input_tokens":1000`, `"input_tokens":-1`):  "a result of 2026-11-01: input_tokens",
		strings.ReplaceAll(openAIUsageJSON, `"input_tokens":1000`, `"input_tokens":1.5`): "input_tokens",
		strings.ReplaceAll(openAIUsageJSON, `1793577600`, `1794577600`):                  "more than one day",
		strings.ReplaceAll(openAIUsageJSON, `1793491200`, `99999999999999`):              "no time of a bill",
		strings.ReplaceAll(openAICostJSON, `"usd"`, `"eur"`):                             "eur",
		strings.ReplaceAll(anthropicCostJSON, `"USD"`, `"EUR"`):                          "EUR",
		strings.ReplaceAll(anthropicCostJSON, `"123.78912"`, `"1e99"`):                   "1e99",
		strings.ReplaceAll(anthropicCostJSON, `"2026-11-01T00:00:00Z"`, `"yesterday"`):   "yesterday",
		strings.ReplaceAll(openAIUsageCSV, "1000,500", "many,500"):                       "line 2: input_tokens",
		strings.ReplaceAll(openAICostCSV, "0.5,usd", "0.5,eur"):                          "line 2: amounts are in \"eur\"",
		strings.ReplaceAll(openAICostCSV, "0.5,usd", "NaN,usd"):                          "line 2: amount_value",
		strings.ReplaceAll(anthropicUsageCSV, "2026-11-01", ""):                          "line 2: \"\" is no time",
		anthropicCostCSV + "2026-11-02,Claude\n":                                         "wrong number of fields",
	} {
		var e export
		if err := e.parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %+v, %v, want %q", text, e, err, want)
		}
	}
}

// TestParseBroken parses files that can't be read to their end.
func TestParseBroken(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, text := range exportsOfTests {
		for _, n := range []int{0, 2, len(text) / 2, len(text)} {
			var e export
			if err := e.parse(io.MultiReader(strings.NewReader(text[:n]), iotest.ErrReader(broken))); !errors.Is(err, broken) {
				t.Errorf("%d bytes of %s: %+v, %v", n, name, e, err)
			}
		}
	}
}

func TestBaseName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"gpt-4o-mini-2024-07-18": "gpt-4o-mini", "gpt-4o-mini": "gpt-4o-mini", "gpt-4-0613": "gpt-4", "claude-opus-4-20250514": "claude-opus-4",
		"claude-haiku-4-5@20251001": "claude-haiku-4-5", "Claude Haiku 4.5": "claude-haiku-4-5", "claude-3-5-sonnet-20241022": "claude-sonnet-3-5",
		"Claude Sonnet 3.5": "claude-sonnet-3-5", "claude-3-opus-latest": "claude-opus-3", "gpt-4.1": "gpt-4.1", "o3": "o3", "text-embedding-3-large": "text-embedding-3-large",
		"llama-3-8192": "llama-3-8192", "web search tool calls": "web search tool calls",
	} {
		if got := baseName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// FuzzParse checks that no file makes parse panic, and that all lines have a day and no
// negative tokens.
func FuzzParse(f *testing.F) {
	for _, text := range exportsOfTests {
		f.Add([]byte(text))
	}
	f.Add([]byte(`[{"data":[{"starting_at":"2026-11-01","results":[{"amount":null}]}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e export
		if err := e.parse(bytes.NewReader(data)); err != nil {
			return
		}
		for key, c := range e.lines {
			if len(key.day) != len("2026-11-01") || key.day < e.First || key.day > e.Last {
				t.Errorf("day %q of %s to %s", key.day, e.First, e.Last)
			}
			if c.Requests < 0 || slices.Min(c.Tokens[:]) < 0 {
				t.Errorf("%+v", c)
			}
		}
		compare([]*export{&e}, new(counted), new(options), time.Now())
	})
}
