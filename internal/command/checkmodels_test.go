package command_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestCheckWarnsOfEndingModels holds that a model is a warning from 90 days before its
// end and after it, with the place, the day and the successor, and asks nobody for that.
func TestCheckWarnsOfEndingModels(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	t.Setenv("CADENZA_ADMIN", "127.0.0.1:1")
	dir := t.TempDir()
	writeFiles(t, dir,
		"prompts/p.yaml", "provider: openai\nmodel: gpt-4o-mini\nmessages: [ { role: user, content: x } ]\n",
		"prompts/q.yaml", "provider: azure\nmodel: gpt-4o-mini\nmessages: [ { role: user, content: x } ]\n")
	end := time.Date(2027, 1, 14, 0, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		before time.Duration
		want   string
	}{
		{91 * 24 * time.Hour, ""},
		{90 * 24 * time.Hour, "p.yaml:2:8: warning: the model gpt-4o-mini of openai ends on 2027-01-14, in 90 days; its successor is gpt-6-luna, with a context window of 1050000 tokens instead of 128000\n"},
		{-24 * time.Hour, "p.yaml:2:8: warning: the model gpt-4o-mini of openai ended on 2027-01-14; its successor is gpt-6-luna, with a context window of 1050000 tokens instead of 128000\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(end.Add(-test.before)))
			r := command(t, "check", dir)
			warnings := 0
			if test.want != "" {
				warnings = 1
			}
			if r.err != nil || !strings.Contains(r.out, test.want) || strings.Count(r.out, "warning: ") != warnings {
				t.Errorf("%v before: %v\n%s", test.before, r.err, r.out)
			}
			if r := command(t, "check", "--strict", dir); (r.err != nil) != (warnings > 0) {
				t.Errorf("%v before, strictly: %v", test.before, r.err)
			}
			if r := command(t, "check", "--json", dir); warnings > 0 && (!strings.Contains(r.out, `"rule": "model-ends"`) || !strings.Contains(r.out, `"suggestion": "gpt-6-luna"`)) {
				t.Errorf("%v before: %s", test.before, r.out)
			}
		})
	}
}

// TestCheckAsksForTheShare holds that a gateway which is asked for says which part of
// last week's decisions picks a model that ends; and that without an answer the check
// fails, as it was asked for.
func TestCheckAsksForTheShare(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	dir := t.TempDir()
	writeFiles(t, dir,
		"caddy.json", fmt.Sprintf(`{"apps":{"cadenza":{"workspaces":{"default":{"definitions":%q,"providers":{"last":{"module":"canned"}},"prices":{
			"last/old":{"prompt":0,"completion":0,"shutdown":"2001-02-03"},"last/rare":{"prompt":0,"completion":0,"shutdown":"2001-02-03","successor":"new"}}}}}}}`, filepath.Join(dir, "definitions")),
		"definitions/prompts/p.yaml", "default: a\nvariants:\n  a: { provider: last, model: old, messages: [ { role: user, content: x } ], extra: { answer: x } }\n  b: { extends: a, model: new }\n",
		"definitions/prompts/q.yaml", "provider: last\nmodel: rare\nmessages: [ { role: user, content: x } ]\n",
		"definitions/endpoints/e.yaml", "prompt: p\n")
	rows, asked := "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		fmt.Fprintf(w, `{"rows":[%s]}`, rows)
	}))
	defer server.Close()
	config := filepath.Join(dir, "caddy.json")
	address := server.Listener.Addr().String()
	row := func(kind, key, variant string, traces int) string {
		return fmt.Sprintf(`{"kind":%q,"key":%q,"variant":%q,"traces":%d}`, kind, key, variant, traces)
	}
	for _, test := range []struct {
		rows      []string
		old, rare string
	}{
		{nil, "; no decision of the last week is recorded\n", "; no decision of the last week is recorded\n"},
		{[]string{
			row("endpoint", "e", "a", 300), row("prompt", "p", "a", 75), row("prompt", "p", "b", 500), row("prompt", "q", "q", 1),
			row("endpoint", "gone", "a", 100), row("prompt", "p", "renamed", 24), row("remoteconfig", "c", "1", 5000),
		}, "; 38 % of last week's decisions pick it\n", "; its successor is new; less than 1 % of last week's decisions pick it\n"},
		{[]string{row("prompt", "p", "b", 10)}, "; 0 % of last week's decisions pick it\n", "; 0 % of last week's decisions pick it\n"},
	} {
		rows = strings.Join(test.rows, ",")
		r := command(t, "check", "--config", config, "--address", address)
		if r.err != nil || !strings.Contains(r.out, "the model old of last ended on 2001-02-03"+test.old) || !strings.Contains(r.out, test.rare) {
			t.Errorf("%v: %v\n%s", test.rows, r.err, r.out)
		}
		if asked != "/cadenza/stats?since=7d&workspace=default" {
			t.Error(asked)
		}
	}
	asked = ""
	if r := command(t, "check", "--config", config); r.err != nil || !strings.Contains(r.out, "the model old of last ended on 2001-02-03\n") || asked != "" {
		t.Errorf("%v: %s, asked for %q", r.err, r.out, asked)
	}
	if r := command(t, "check", "--config", config, "--address", "127.0.0.1:1"); r.err == nil || !strings.Contains(r.err.Error(), "the gateway's admin API does not answer at 127.0.0.1:1") {
		t.Errorf("%v: %s", r.err, r.out)
	}
}
