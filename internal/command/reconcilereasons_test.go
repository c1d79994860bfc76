package command

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatExplainsABill reconciles bills with the costs of a gateway, and looks for
// reasons that must be told, and for those that must not.
func TestWhatExplainsABill(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	const (
		openAICosts = "start_time_iso,end_time_iso,amount_value,amount_currency,line_item\n"
		first       = "2026-11-01T00:00:00,2026-11-02T00:00:00,"
		second      = "2026-11-02T00:00:00,2026-11-03T00:00:00,"
		openAIUsage = "start_time_iso,end_time_iso,num_model_requests,input_tokens,output_tokens,model\n"
		claudeUsage = "usage_date_utc,model_version,usage_input_tokens_no_cache,usage_input_tokens_cache_write_1h,usage_output_tokens\n"
		claudeCosts = "usage_date_utc,model,cost_type,token_type,cost_usd\n"
	)
	ours := func(provider, model, day, counts string) string {
		return fmt.Sprintf(`{"by":{"provider":%q,"model":%q,"day":%q},%s}`, provider, model, day, counts)
	}
	for name, test := range map[string]struct {
		files   []string
		ours    []string
		matches bool
		told    []string
		not     []string
	}{
		"a file without a day beside another": {
			files:   []string{openAICosts + first + "0.18,usd,\"gpt-4o-mini, input\"\n", openAICosts},
			ours:    []string{ours("openai", "gpt-4o-mini", "2026-11-01", `"attempts":1,"cost_usd":0.18`)},
			matches: true,
		},
		"costs of which some name a model": {
			files:   []string{openAICosts + first + "0.10,usd,\"gpt-4o-mini, input\"\n" + first + "0.08,usd,\n"},
			ours:    []string{ours("openai", "gpt-4o-mini", "2026-11-01", `"attempts":1,"cost_usd":0.18`)},
			matches: true,
		},
		"a day before the oldest trace": {
			files: []string{openAICosts + strings.ReplaceAll(first, "2026-11-0", "2026-10-0") + "1,usd,\"gpt-4o-mini, input\"\n"},
			told:  []string{"those of this day went with the retention"}, not: []string{"recorded no attempt"},
		},
		"what the provider said is less than the list": {
			files: []string{openAICosts + first + "1,usd,\"gpt-4o-mini, input\"\n"},
			ours:  []string{ours("openai", "gpt-4o-mini", "2026-11-01", `"attempts":1,"cost_usd":0.25,"reported_cost_usd":0.25,"list_cost_usd":0.5`)},
			told:  []string{"ours has $0.25 that the provider said itself, which is $0.5 by the price list"},
		},
		"of all models": {
			files: []string{openAICosts + first + "1,usd,\n", openAIUsage + first + "1,1000,100,\n"},
			ours:  []string{ours("openai", "gpt-4o-mini", "2026-11-01", `"attempts":1,"prompt_tokens":1000,"completion_tokens":100,"cost_usd":0.25`)},
			told:  []string{"the tokens match and the prices do not"}, not: []string{"not for tokens of a known kind"},
		},
		"a model that the price list has by its name with the date, and its writes for an hour": {
			files: []string{
				claudeUsage + "2026-11-01,claude-3-opus-20240229,1000,2000,100\n",
				claudeCosts + "2026-11-01,claude-3-opus-20240229,token,input_no_cache,1\n2026-11-01,claude-3-opus-20240229,token,input_cache_write_1h,4\n",
			},
			ours: []string{ours("anthropic", "claude-3-opus-20240229", "2026-11-01", `"attempts":1,"prompt_tokens":3000,"cache_write_hour_tokens":2000,"completion_tokens":100,"cost_usd":0.25`)},
			told: []string{"what theirs costs for a million tokens: input $1000, written_hour $2000\n", ": input $15, written_hour $30, output $75\n"},
		},
		"days whose differences are opposite and not the same": {
			files: []string{openAIUsage + first + "1,1100,100,gpt-4o-mini\n" + second + "1,950,100,gpt-4o-mini\n"},
			ours: []string{
				ours("openai", "gpt-4o-mini", "2026-11-01", `"attempts":1,"prompt_tokens":1000,"completion_tokens":100`),
				ours("openai", "gpt-4o-mini", "2026-11-02", `"attempts":1,"prompt_tokens":1000,"completion_tokens":100`),
			},
			not: []string{"opposite difference"},
		},
		"calls around midnight": {
			files: []string{openAIUsage + first + "1,1100,100,gpt-4o-mini\n" + second + "1,900,100,gpt-4o-mini\n"},
			ours: []string{
				ours("openai", "gpt-4o-mini", "2026-11-01", `"attempts":1,"prompt_tokens":1000,"completion_tokens":100`),
				ours("openai", "gpt-4o-mini", "2026-11-02", `"attempts":1,"prompt_tokens":1000,"completion_tokens":100`),
			},
			told: []string{"2026-11-02 has the opposite difference", "2026-11-01 has the opposite difference"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"by":["provider","model","day"],"workspaces":["default"],"oldest":"2026-10-20T08:00:00Z","rows":[%s],"total":{}}`, strings.Join(test.ours, ","))
			}))
			defer server.Close()
			arguments := []string{"reconcile", "--address", server.Listener.Addr().String()}
			for n, text := range test.files {
				file := filepath.Join(t.TempDir(), fmt.Sprintf("bill%d.csv", n))
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				arguments = append(arguments, file)
			}
			var out, errors bytes.Buffer
			err := gatewayCommand(t.Context(), &out, &errors, arguments...)
			if (err == nil) != test.matches || err != nil && !strings.Contains(err.Error(), "the bill differs") {
				t.Errorf("error %v, want one: %t", err, !test.matches)
			}
			for _, told := range test.told {
				if !strings.Contains(out.String(), told) {
					t.Errorf("not told: %s", told)
				}
			}
			for _, not := range test.not {
				if strings.Contains(out.String(), not) {
					t.Errorf("told: %s", not)
				}
			}
			if t.Failed() {
				t.Logf("%s\n%s", &out, &errors)
			}
		})
	}
}
