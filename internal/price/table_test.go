package price

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// TestShippedLines reads all of the table that ships, which the gateway never does.
func TestShippedLines(t *testing.T) {
	if _, err := time.Parse(time.DateOnly, dateOf(shippedPrices)); err != nil {
		t.Error(err)
	}
	legal := regexp.MustCompile(`^[a-z0-9._:/+-]+$`)
	var sections, models int
	var head, previous string
	for number, line := range strings.Split(strings.TrimSuffix(shippedPrices, "\n"), "\n") {
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, "["):
			sections++
			head, previous = line, ""
			_, patterns, _ := strings.Cut(line, "] ")
			patterns, also, _ := strings.Cut(patterns, " + ")
			for pattern := range strings.FieldsSeq(patterns) {
				if !Public(strings.Replace(pattern, "*", "x", 1) + ":443") {
					t.Errorf("%s: %s is not found", head, pattern)
				}
			}
			for name := range strings.FieldsSeq(also) {
				if sectionOf(shippedPrices, name) == "" {
					t.Errorf("%s: there is no section %s", head, name)
				}
			}
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		if !legal.MatchString(name) || name <= previous {
			t.Errorf("line %d: %s follows %s", number+1, name, previous)
		}
		previous = name
		pattern, _, _ := strings.Cut(head[strings.Index(head, "] ")+2:], " ")
		host := strings.Replace(pattern, "*", "x", 1)
		found := Shipped(host, name)
		if found == nil {
			t.Errorf("line %d: %s is not found at %s", number+1, name, host)
			continue
		}
		if err := found.Validate(); err != nil {
			t.Errorf("line %d: %v", number+1, err)
		}
		if strings.HasPrefix(rest, "= ") {
			continue
		}
		models++
		if p, err := parseLine(rest); err != nil || p.Prompt != found.Prompt || p.Completion != found.Completion {
			t.Errorf("line %d: %v", number+1, err)
		}
		for _, tier := range found.Above {
			if tier.Prompt == nil || tier.Completion == nil || *tier.Prompt < found.Prompt {
				t.Errorf("line %d: a tier does not cost more", number+1)
			}
		}
		if found.CacheRead != nil && *found.CacheRead > found.Prompt {
			t.Errorf("line %d: tokens from the cache cost more than others", number+1)
		}
		if found.Prompt > 500 || found.Completion > 1000 || found.MaxOutput > 1e6 || found.MaxOutput > 0 && found.MaxOutput < 1000 {
			t.Errorf("line %d: is the unit right?", number+1)
		}
	}
	if sections < 15 || models < 600 {
		t.Errorf("%d sections with %d models", sections, models)
	}
}

func TestParseLine(t *testing.T) {
	p, err := parseLine("1.25 10 cache_read=0.125 web_search=10 file_search=2.5 code_execution=30 above.200000.prompt=2.5 above.200000.completion=15 batch.factor=0.5 priority.prompt=2 priority.above.5.cache_write_hour=3 max_output=65536")
	if err != nil {
		t.Fatal(err)
	}
	want := "Prompt 1.25, Completion 10, CacheRead 0.125, tools 10 2.5 30, above 200000 2.5 15, batch 0.5, priority 2 above 5 3, most 65536"
	got := fmt.Sprintf("Prompt %v, Completion %v, CacheRead %v, tools %v %v %v, above %d %v %v, batch %v, priority %v above %d %v, most %d",
		p.Prompt, p.Completion, *p.CacheRead, p.WebSearch, p.FileSearch, p.CodeExecution, 200000, *p.Above[200000].Prompt, *p.Above[200000].Completion,
		*p.Batch.Factor, *p.Priority.Prompt, 5, *p.Priority.Above[5].CacheWriteHour, p.MaxOutput)
	if got != want || len(p.Above) != 1 {
		t.Errorf("%s\nwant %s", got, want)
	}
	for _, line := range []string{"", "1", "1 2 3", "1 x", "prompt=1 2", "1 2 cached=3", "1 2 slow.prompt=3", "1 2 above.x.prompt=3", "1 2 above.5.cached=3", "1 2 batch.cached=3", "-1 2", "1 2 above.0.prompt=1", "1 2 max_output=1.5"} {
		if p, err := parseLine(line); err == nil && p != nil {
			t.Errorf("%q is a line: %+v", line, p)
		}
	}
}

func TestFindShipped(t *testing.T) {
	const (
		openai, anthropic, gemini = "api.openai.com:443", "api.anthropic.com:443", "generativelanguage.googleapis.com:443"
		vertex, azure             = "europe-west4-aiplatform.googleapis.com:443", "acme.openai.azure.com:443"
		bedrock, openrouter       = "bedrock-runtime.eu-central-1.amazonaws.com:443", "openrouter.ai:443"
	)
	for _, test := range []struct {
		host, model string
		same        string // the model of the host whose line it is; empty: none
	}{
		{openai, "gpt-4o-mini", "gpt-4o-mini"},
		{openai, "gpt-4o-2024-08-06", "gpt-4o"},
		{openai, "gpt-4o-mini-2024-07-18", "gpt-4o-mini"},
		{openai, "GPT-4o", "gpt-4o"},
		{openai, "gpt-5.1-2025-11-13", "gpt-5.1"},
		{openai, "gpt-5.6", "gpt-5.6-sol"},
		{openai, "ft:gpt-4o-mini-2024-07-18:acme::abc123", "ft:gpt-4o-mini"},
		{openai, "gpt-4o-2099-01-01-preview", "gpt-4o"},
		{openai, "gpt-99", ""},
		{openai, "gpt", ""},
		{openai, "", ""},
		{openai, "gpt-4o-mini 0.15", ""},
		{openai, "\ngpt-4o", ""},
		{openai, "#", ""},
		{openai, "claude-sonnet-4-5", ""},
		{"api.openai.com", "gpt-4o", "gpt-4o"},
		{"eu.api.openai.com:443", "gpt-4o", "gpt-4o"},
		{"API.OpenAI.com:443", "gpt-4o", "gpt-4o"},
		{"api.openai.com.example:443", "gpt-4o", ""},
		{"localhost:8000", "gpt-4o", ""},
		{"127.0.0.1:8000", "gpt-4o", ""},
		{"[::1]:8000", "gpt-4o", ""},
		{"[::1]", "gpt-4o", ""},
		{"vllm.internal", "gpt-4o", ""},
		{"", "gpt-4o", ""},
		{anthropic, "claude-sonnet-4-5-20250929", "claude-sonnet-4-5"},
		{anthropic, "claude-sonnet-4-20250514", "claude-sonnet-4"},
		{anthropic, "claude-3-5-haiku-latest", "claude-3-5-haiku"},
		{gemini, "models/gemini-2.5-pro", "gemini-2.5-pro"},
		{gemini, "gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"},
		{gemini, "gemini-2.0-flash-001", "gemini-2.0-flash"},
		{gemini, "gemini-2.5-pro-exp-03-25", "gemini-2.5-pro"},
		{gemini, "gemini-2.0-flash-lite-001", "gemini-2.0-flash-lite"},
		{gemini, "gemini-2.5-flash-preview-09-2025", "gemini-2.5-flash-preview-09-2025"},
		{vertex, "publishers/google/models/gemini-2.5-flash", "gemini-2.5-flash"},
		{vertex, "projects/p/locations/l/publishers/anthropic/models/claude-sonnet-4-5@20250929", "claude-sonnet-4-5"},
		{vertex, "claude-haiku-4-5@20251001", "claude-haiku-4-5"},
		{azure, "gpt-4o-2024-11-20", "gpt-4o"},
		{azure, "phi-4", "phi-4"},
		{azure, "our-deployment", ""},
		{"acme.services.ai.azure.com:443", "gpt-5-mini", "gpt-5-mini"},
		{bedrock, "anthropic.claude-3-5-sonnet-20241022-v2:0", "anthropic.claude-3-5-sonnet"},
		{bedrock, "eu.anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic.claude-haiku-4-5"},
		{bedrock, "global.anthropic.claude-haiku-4-5-20251001-v1:0", "global.anthropic.claude-haiku-4-5"},
		{bedrock, "us.meta.llama3-3-70b-instruct-v1:0", "meta.llama3-3-70b-instruct"},
		{bedrock, "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic.claude-haiku-4-5"},
		{bedrock, "arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-lite-v1:0", "amazon.nova-lite"},
		{openrouter, "anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4.5"},
		{openrouter, "openai/gpt-4o:nitro", "openai/gpt-4o"},
		{"api.fireworks.ai:443", "accounts/fireworks/models/gpt-oss-120b", "gpt-oss-120b"},
		{"api.together.xyz:443", "meta-llama/Llama-3.3-70B-Instruct-Turbo", "meta-llama/llama-3.3-70b-instruct-turbo"},
	} {
		got := Shipped(test.host, test.model)
		if test.same == "" {
			if got != nil {
				t.Errorf("%s at %s has a price: %+v", test.model, test.host, got)
			}
			continue
		}
		want := Shipped(test.host, test.same)
		if got == nil || want == nil || fmt.Sprint(got.Prompt, got.Completion) != fmt.Sprint(want.Prompt, want.Completion) {
			t.Errorf("%s at %s: %+v, want that of %s: %+v", test.model, test.host, got, test.same, want)
		}
	}
	if p := Shipped(openrouter, "deepseek/deepseek-r1:free"); p == nil || p.Prompt != 0 || p.Completion != 0 {
		t.Errorf("a free model costs %+v", p)
	}
	if a, b := Shipped(bedrock, "anthropic.claude-haiku-4-5"), Shipped(bedrock, "global.anthropic.claude-haiku-4-5"); a.Prompt <= b.Prompt {
		t.Errorf("a model in a region costs %v, everywhere %v", a.Prompt, b.Prompt)
	}
	if p := Shipped(anthropic, "claude-haiku-4-5"); p.Prompt != 1 || p.Completion != 5 || *p.CacheRead != 0.1 || *p.CacheWrite != 1.25 || *p.CacheWriteHour != 2 || p.MaxOutput != 64000 {
		t.Errorf("claude-haiku-4-5 costs %+v", p)
	}
}

func TestFind(t *testing.T) {
	const host = "api.openai.com:443"
	small, smallHere, router := &Price{Prompt: 1}, &Price{Prompt: 2}, &Price{Prompt: 3}
	table := NewTable(map[string]*Price{"gpt-4o-mini": small, "openai/gpt-4o-mini": smallHere, "router": router})
	for _, test := range []struct {
		provider, host, served, model string
		want                          *Price
	}{
		{"openai", host, "", "gpt-4o-mini", smallHere},
		{"groq", host, "", "gpt-4o-mini", small},
		{"groq", "", "", "gpt-4o-mini", small},
		{"openai", host, "gpt-4o-mini-2024-07-18", "gpt-4o-mini", smallHere}, // given for the model that was asked for
		{"openai", host, "gpt-4o-mini", "router", smallHere},
		{"openai", host, "gpt-4o-2024-08-06", "router", router},
		{"openai", host, "", "gpt-4o-mini-2024-07-18", smallHere}, // given without its date
		{"azure", "acme.openai.azure.com", "gpt-4o-mini-2024-07-18", "our-deployment", small},
		{"openai", "localhost:1", "gpt-4o-2024-08-06", "gpt-4o", nil},
		{"openai", host, "gpt-99", "gpt-98", nil},
	} {
		for range 2 { // found, and remembered
			if got := table.FindServed(test.provider, test.host, test.served, test.model); got != test.want {
				t.Errorf("%+v: %+v", test, got)
			}
		}
	}
	if got := table.FindServed("azure", "acme.openai.azure.com", "gpt-4o-2024-08-06", "our-deployment"); got == nil || got.Prompt != 2.5 {
		t.Errorf("a deployment does not have the price of its model: %+v", got)
	}
	if got := table.FindServed("openai", host, "gpt-4o-2024-05-13", "gpt-4o"); got == nil || got.Prompt != 5 {
		t.Errorf("the model that served does not have its own price: %+v", got)
	}
	if got := table.FindServed("openai", host, "unknown", "gpt-4o"); got == nil || got.Prompt != 2.5 {
		t.Errorf("the model asked for does not have a price: %+v", got)
	}
	first := table.Find("openai", host, "gpt-4o")
	if again := table.Find("openai", host, "gpt-4o"); first == nil || again != first {
		t.Error("a price is read again")
	}
	given := table.WithoutShipped()
	if got := given.Find("openai", host, "gpt-4o"); got != nil || given.Find("openai", host, "router") != router {
		t.Errorf("a table without shipped prices has %+v", got)
	}
	for _, test := range []struct {
		table          *Table
		host, model    string
		given          string
		found, shipped bool
	}{
		{table, host, "gpt-4o", "", true, true},
		{table, host, "gpt-4o-mini-2024-07-18", "openai/gpt-4o-mini", true, true},
		{table, host, "gpt-99", "", false, true},
		{table, "localhost", "gpt-4o", "", false, false},
		{table, "localhost", "router", "router", true, false},
		{given, host, "gpt-4o", "", false, false},
	} {
		if name, found, shipped := test.table.Check("openai", test.host, test.model); name != test.given || found != test.found || shipped != test.shipped {
			t.Errorf("%s at %s: %q %v %v", test.model, test.host, name, found, shipped)
		}
	}
}

func TestFindRemembersFew(t *testing.T) {
	table := NewTable(nil)
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for j := range maxFound {
				if table.Find("openai", "api.openai.com:443", fmt.Sprintf("model-%d-%d", i, j)) != nil {
					t.Error("found")
				}
			}
		})
	}
	wait.Wait()
	if n := len(*table.found.Load()); n != maxFound {
		t.Errorf("%d searches are remembered", n)
	}
	if table.Find("openai", "api.openai.com:443", "gpt-4o") == nil {
		t.Error("a full table finds no more")
	}
}

// TestFoundNamesAreCopies: providers name models in buffers that are used again.
func TestFoundNamesAreCopies(t *testing.T) {
	table := NewTable(nil)
	buffer := []byte("gpt-4o")
	table.Find("openai", "api.openai.com", unsafe.String(&buffer[0], len(buffer)))
	copy(buffer, "gpt-99")
	for known := range *table.found.Load() {
		if known.model != "gpt-4o" {
			t.Errorf("%s was found", known.model)
		}
	}
}

func TestFindDoesNotAllocate(t *testing.T) {
	table := NewTable(nil)
	find := func() { table.FindServed("openai", "api.openai.com:443", "gpt-4o-2024-08-06", "gpt-4o") }
	find()
	if n := testing.AllocsPerRun(100, find); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzShipped(f *testing.F) {
	f.Add("api.openai.com:443", "gpt-4o-2024-08-06")
	f.Add("bedrock-runtime.x.amazonaws.com", "arn:aws:bedrock:x::foundation-model/us.a-b-v1:0")
	f.Add("openrouter.ai", "models/publishers/@:-latest-2024-01-01")
	f.Fuzz(func(t *testing.T, host, model string) {
		if p := Shipped(host, model); p != nil && (!Public(host) || p.Validate() != nil) {
			t.Errorf("%+v", p)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	table := NewTable(nil)
	b.ReportAllocs()
	for b.Loop() {
		table.Find("openai", "api.openai.com:443", "gpt-4o-mini")
	}
}

// BenchmarkShipped searches the table, as the first lookup of a model does.
func BenchmarkShipped(b *testing.B) {
	for _, model := range []string{"gpt-4o-mini", "gpt-4o-2024-08-06", "unknown-2024-08-06"} {
		b.Run(model, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Shipped("openrouter.ai:443", "openai/"+model)
			}
		})
	}
}

func BenchmarkNewTable(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		NewTable(nil)
	}
}
