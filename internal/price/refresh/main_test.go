package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrite checks the lines for models with conditions, tiers, dates and other names.
func TestWrite(t *testing.T) {
	var providers strings.Builder
	for _, s := range sections {
		if s.name != "openai" && s.name != "bedrock" && s.name != "openrouter" {
			providers.WriteString(`,{"id":"` + s.source + `","models":[]}`)
		}
	}
	prices := `[
		{"id":"openai","models":[
			{"id":"gpt-5","match":{"or":[{"equals":"gpt-5"},{"equals":"gpt-5-2025-08-07"},{"starts_with":"gpt-5-chat"}]},"prices":[
				{"prices":{"input_mtok":9,"output_mtok":9}},
				{"constraint":{"type":"start_date","start_date":"2026-01-01"},"prices":{"input_mtok":{"base":1.25,"tiers":[{"start":271999,"price":2.5}]},"output_mtok":10,"cache_read_mtok":0.125,"web_searches_kcount":10}},
				{"constraint":{"type":"start_date","start_date":"2027-01-01"},"prices":{"input_mtok":7,"output_mtok":7}},
				{"constraint":{"type":"time_of_date","start_time":"01:00:00Z","end_time":"04:00:00Z"},"prices":{"input_mtok":8,"output_mtok":8}}]},
			{"id":"gpt-4o","match":{"equals":"gpt-4o"},"prices":{"input_mtok":2.5,"output_mtok":10}},
			{"id":"gpt-4o-2024-05-13","match":{"equals":"gpt-4o-2024-05-13"},"prices":{"input_mtok":5,"output_mtok":15}},
			{"id":"embedding","match":{"equals":"embedding"},"prices":{"input_mtok":5}},
			{"id":"davinci","match":{"equals":"davinci"},"prices":{"input_mtok":5,"output_mtok":5}}]},
		{"id":"aws","models":[
			{"id":"regional.anthropic.claude-x-20250101-v1:0","match":{"contains":"us.anthropic.claude-x-20250101"},"prices":{"input_mtok":3.3,"output_mtok":16.5,"cache_write_mtok":4.125}},
			{"id":"global.anthropic.claude-x-20250101-v1:0","match":{"contains":"global.anthropic.claude-x-20250101"},"prices":{"input_mtok":3,"output_mtok":15,"cache_write_mtok":3.75}}]},
		{"id":"openrouter","models":[
			{"id":"openai/gpt-4o","match":{"equals":"openai/gpt-4o"},"prices":{"input_mtok":2.5,"output_mtok":10}},
			{"id":"openai/gpt-4o:free","match":{"equals":"openai/gpt-4o:free"},"prices":{"input_mtok":1,"output_mtok":1}},
			{"id":"someone/model","match":{"equals":"someone/model"},"prices":{"input_mtok":1,"output_mtok":1}}]}` + providers.String() + `]`
	more := `{"openai":{"models":{"gpt-5":{"limit":{"output":128000}}}},"groq":{"models":{"New/Model":{"cost":{"input":1,"output":2,"cache_read":0.5}},"free":{"cost":{"input":0,"output":0}}}}}`
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var out bytes.Buffer
	if err := write(&out, "2026-09-23", file("prices.json", prices), file("more.json", more)); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"\n# date: 2026-09-23\n",
		"\n[openai] api.openai.com *.api.openai.com\n",
		"\ngpt-5 1.25 10 cache_read=0.125 web_search=10 above.271999.prompt=2.5 batch.factor=0.5 flex.factor=0.5 priority.factor=2 max_output=128000\n",
		"\ngpt-5-chat = gpt-5\n",
		"\ngpt-4o-2024-05-13 5 15\n",
		"\nanthropic.claude-x 3.3 16.5 cache_write=4.125 cache_write_hour=6.6\n",
		"\nglobal.anthropic.claude-x 3 15 cache_write=3.75 cache_write_hour=6\n",
		"\nnew/model 1 2 cache_read=0.5\n",
		"\nopenai/gpt-4o 2.5 10\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	for _, unwanted := range []string{"\nembedding ", "davinci", ":free", "someone", "2025-08-07", "\nfree "} {
		if strings.Contains(text, unwanted) {
			t.Errorf("%q is in\n%s", unwanted, text)
		}
	}
	if err := write(&out, "today", "", ""); err == nil || !strings.Contains(err.Error(), "-date") {
		t.Error(err)
	}
	if err := write(&out, "2026-09-23", file("prices.json", `[]`), file("more.json", `{}`)); err == nil || !strings.Contains(err.Error(), "has no provider openai") {
		t.Error(err)
	}
}
