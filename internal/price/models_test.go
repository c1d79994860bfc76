package price

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func day(text string) Day {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err)
	}
	return Day{t}
}

// TestShippedModels reads all of the table that ships, which the gateway never does. No
// model is to be recommended that ends within the notice of the table's own day.
func TestShippedModels(t *testing.T) {
	date := day(dateOf(shippedModels))
	table := NewTable(nil)
	var section, previous string
	lines := 0
	for line := range strings.Lines(shippedModels) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case strings.HasPrefix(line, "["):
			section, previous = strings.Trim(line, "[]"), ""
			if sectionOf(shippedPrices, section) == "" {
				t.Errorf("the prices have no section %s", section)
			}
			continue
		}
		lines++
		name, rest, _ := strings.Cut(line, " ")
		m, err := parseModel(rest)
		if err != nil || name <= previous || m == (Model{}) {
			t.Errorf("%s behind %s: %v", line, previous, err)
		}
		previous = name
		for field := range strings.FieldsSeq(rest) {
			if member, _, _ := strings.Cut(field, "="); !slices.Contains(ModelMembers, member) {
				t.Errorf("%s: there is no member %s", line, member)
			}
		}
		host := map[string]string{"openai": "api.openai.com", "anthropic": "api.anthropic.com", "xai": "api.x.ai",
			"google": "generativelanguage.googleapis.com", "mistral": "api.mistral.ai", "cohere": "api.cohere.ai", "bedrock": "bedrock-runtime.us-east-1.amazonaws.com"}[section]
		if found := table.Model("p", host, name); found != m {
			t.Errorf("%s at %q: %+v", line, host, found)
		}
		if next := table.Model("p", host, m.Successor); m.Successor != "" && next.Ending(date.Time) != "" {
			t.Errorf("%s: its successor %s", line, next.Ending(date.Time))
		}
	}
	if lines < 50 {
		t.Errorf("%d lines", lines)
	}
}

// TestModel checks the places at which a model is looked for, and that given facts
// win.
func TestModel(t *testing.T) {
	given := NewTable(map[string]*Price{
		"gpt-5":       {Model: Model{ContextWindow: 5}},
		"openai/o3":   {Model: Model{Shutdown: day("2030-01-01"), Successor: "o9"}},
		"local/llama": {Model: Model{Shutdown: day("2027-01-01")}},
	})
	small := Model{128000, day("2026-10-14"), day("2027-01-14"), "gpt-6-luna"}
	for _, test := range []struct {
		provider, host, model string
		want                  Model
	}{
		{"openai", "api.openai.com:443", "gpt-4o-mini", small},
		{"other", "eu.api.openai.com", "gpt-4o-mini-2024-07-18", small},
		{"openai", "api.openai.com", "ft:gpt-4o-mini-2024-07-18:acme::abc123", small},
		{"openai", "api.openai.com", "gpt-4o-audio-preview", Model{}},
		{"azure", "acme.openai.azure.com", "gpt-4o-mini", Model{}}, // which has other dates
		{"openai", "localhost:8000", "gpt-4o-mini", Model{}},
		{"openai", "", "gpt-4o-mini", Model{}},
		{"anthropic", "api.anthropic.com", "claude-sonnet-4-5-20250929", Model{ContextWindow: 200000, Shutdown: day("2026-11-30"), Successor: "claude-sonnet-5-5"}},
		{"anthropic", "api.anthropic.com", "claude-sonnet-4-6", Model{ContextWindow: 1000000}},
		{"openai", "api.openai.com", "gpt-5", Model{5, day("2026-06-11"), day("2026-12-11"), "gpt-6.1-sol"}},
		{"openai", "api.openai.com", "o3", Model{200000, Day{}, day("2030-01-01"), "o9"}},
		{"local", "localhost", "llama", Model{Shutdown: day("2027-01-01")}},
	} {
		if got := given.Model(test.provider, test.host, test.model); got != test.want {
			t.Errorf("%s of %s at %s: %+v, want %+v", test.model, test.provider, test.host, got, test.want)
		}
	}
	if got := given.WithoutShipped().Model("openai", "api.openai.com", "gpt-4o"); got != (Model{}) {
		t.Errorf("without the lists that ship: %+v", got)
	}
}

func TestEnding(t *testing.T) {
	m := Model{Shutdown: day("2027-01-14")}
	for _, test := range []struct {
		before time.Duration
		want   string
	}{
		{91 * 24 * time.Hour, ""},
		{90*24*time.Hour + 1, ""},
		{90 * 24 * time.Hour, "ends on 2027-01-14, in 90 days"},
		{25 * time.Hour, "ends on 2027-01-14, in 2 days"},
		{24 * time.Hour, "ends on 2027-01-14, in 1 day"},
		{1, "ends on 2027-01-14, in 1 day"},
		{0, "ended on 2027-01-14"},
		{-1000 * time.Hour, "ended on 2027-01-14"},
	} {
		if got := m.Ending(m.Shutdown.Add(-test.before)); got != test.want {
			t.Errorf("%v before: %q, want %q", test.before, got, test.want)
		}
	}
	m.Successor = "gpt-6-luna"
	if got := m.Ending(m.Shutdown.Time); got != "ended on 2027-01-14; its successor is gpt-6-luna" {
		t.Error(got)
	}
	if got := new(Model).Ending(time.Now()); got != "" {
		t.Error(got)
	}
}

// TestGivenModels reads the facts about a model from files and JSON.
func TestGivenModels(t *testing.T) {
	want := Model{128000, day("2026-10-14"), day("2027-01-14"), "gpt-6-luna"}
	file := filepath.Join(t.TempDir(), "prices.yaml")
	read := func(text string) (map[string]*Price, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadFile(file)
	}
	got, err := read("m: { prompt: 1, completion: 2, context_window: 128000, deprecated: 2026-10-14, shutdown: 2027-01-14, successor: gpt-6-luna }\n")
	if err != nil || got["m"].Model != want {
		t.Fatalf("%v, %+v", err, got["m"])
	}
	text, err := json.Marshal(got)
	if err != nil || !strings.Contains(string(text), `"shutdown":"2027-01-14"`) {
		t.Fatalf("%v: %s", err, text)
	}
	if got, err = read(string(text)); err != nil || got["m"].Model != want {
		t.Errorf("%v, %+v", err, got["m"])
	}
	var decoded Price
	if err := json.Unmarshal([]byte(`{"shutdown":"soon"}`), &decoded); err == nil || !strings.Contains(err.Error(), `"soon" is not a day, such as 2027-01-14`) {
		t.Error(err)
	}
	for _, test := range []struct{ member, want string }{
		{"shutdown: soon", `:1:42: shutdown of m: "soon" is not a day, such as 2027-01-14`},
		{"context_window: 128k", `context_window of m: "128k" is not a number of tokens, such as 128000`},
		{"context_window: 0", `context_window of m: "0" is not a number of tokens`},
		{"context_window: {}", "context_window of m must be text, this is a mapping"},
		{"shutdown: 2026-01-01, deprecated: 2026-01-02", "the price of m: shutdown 2026-01-01 is before deprecated 2026-01-02"},
		{"batch: { shutdown: 2026-01-01 }", `unknown member "shutdown" in the class batch`},
	} {
		if _, err := read("m: { prompt: 1, completion: 2, " + test.member + " }"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.member, err, test.want)
		}
	}
}

// TestNamedModelsStay holds that the README, the manual and the examples name models that
// stay for a year from the day of the table.
func TestNamedModelsStay(t *testing.T) {
	root := "../.."
	files := []string{root + "/README.md", root + "/Caddyfile.example"}
	for _, folder := range []string{"docs", "examples", "internal/command/starter"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(path) != ".go" && filepath.Ext(path) != ".png" {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The words of a page about models that end.
	about := regexp.MustCompile("ends? on|shutdown|aliases:|^2026-11-01 gpt-4o-mini differs")
	name := regexp.MustCompile(`(?:gpt|claude|grok)-[a-z0-9.-]*[a-z0-9]|\bo[134](?:-mini|-pro)?\b`)
	year := day(dateOf(shippedModels)).AddDate(1, 0, 0)
	table := NewTable(nil)
	named := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for number, line := range strings.Split(string(text), "\n") {
			if about.MatchString(line) {
				continue
			}
			for _, model := range name.FindAllString(line, -1) {
				named++
				for _, host := range []string{"api.openai.com", "api.anthropic.com", "api.x.ai"} {
					if m := table.Model("", host, model); !m.Shutdown.IsZero() && m.Shutdown.Before(year) {
						t.Errorf("%s:%d: %s ends on %s", file, number+1, model, m.Shutdown)
					}
				}
			}
		}
	}
	if named < 20 {
		t.Errorf("%d models are named in %d files", named, len(files))
	}
}

// dateOf returns the day of a shipped table, as 2006-01-02.
func dateOf(table string) string {
	_, rest, _ := strings.Cut(table, "\n# date: ")
	date, _, _ := strings.Cut(rest, "\n")
	return date
}
