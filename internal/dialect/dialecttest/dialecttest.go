// Package dialecttest has what the tests of all dialects share: requests, calls and
// answers, and checks of a dialect's table of members.
package dialecttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/openai"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Request returns a request with the body, which is released with the test.
func Request(t testing.TB, body string) *wire.Request {
	t.Helper()
	r := wire.AcquireRequest()
	t.Cleanup(r.Release)
	if err := r.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(body)), 64<<20, time.Minute, 0, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// Parse reads a body with a dialect, and again with all texts in their places: both say
// the same.
func Parse(t testing.TB, d dialect.Dialect, body string) (*dialect.Call, dialect.Writer, *wire.Error) {
	t.Helper()
	whole := Request(t, body)
	_, _, _ = d.Parse(whole)
	whole.Unread(true)
	want, plain, wrong := d.Parse(whole)
	_, cut, _ := dialect.Parse(d, Request(t, body))
	call, writer, err := dialect.Parse(d, Request(t, body))
	if diff := cmp.Diff(wrong, err, cmp.AllowUnexported(wire.Error{})); diff != "" {
		t.Errorf("%s: -all texts in their places +literals\n%s", body, diff)
	}
	if err == nil {
		if diff := cmp.Diff(Describe(want)+strings.Join(want.Ignored, ", "), Describe(call)+strings.Join(call.Ignored, ", ")); diff != "" {
			t.Errorf("%s: -all texts in their places +literals\n%s", body, diff)
		}
		answer := dialect.Answer{Key: "support", Content: "Hello", Seal: func(s string) string { return s }}
		if diff := cmp.Diff(string(plain.Answer(nil, &answer)), string(cut.Answer(nil, &answer))); diff != "" {
			t.Errorf("%s: -all texts in their places +literals\n%s", body, diff)
		}
	}
	return call, writer, err
}

// Strict returns the error of a call as an endpoint has it that refuses what is not known.
func Strict(c *dialect.Call, err *wire.Error) *wire.Error {
	if err == nil && c.Unknown != "" {
		return dialect.NotKnown(c.Unknown)
	}
	return err
}

// Describe returns the turns of a call in a short form, each with its path.
func Describe(c *dialect.Call) string {
	var b strings.Builder
	for i, m := range c.Turns {
		fmt.Fprintf(&b, "%s %s:", c.Turn(i), m.Role)
		if m.Parts == nil {
			fmt.Fprintf(&b, " %q", m.Content.Plain())
		}
		describeParts(&b, m.Parts)
		b.WriteByte('\n')
	}
	return b.String()
}

func describeParts(b *strings.Builder, parts []providers.Part) {
	for _, p := range parts {
		fmt.Fprintf(b, " %s", p.Kind)
		switch p.Kind {
		case providers.PartText:
			fmt.Fprintf(b, "(%s)", p.Text.Plain())
		case providers.PartThinking:
			fmt.Fprintf(b, "(%s|%s)", p.Text.Plain(), p.Opaque)
		case providers.PartToolCall:
			fmt.Fprintf(b, "(%s %s %s|%s)", p.Call.ID, p.Call.Name, p.Call.Arguments, p.Opaque)
		case providers.PartToolResult:
			fmt.Fprintf(b, "(%s %s", p.Result.Call, p.Result.Name)
			if p.Result.Failed {
				b.WriteString(" failed")
			}
			describeParts(b, p.Result.Content)
			b.WriteByte(')')
		default:
			fmt.Fprintf(b, "(%s%s %s %s", p.Media.URL, p.Media.Data, p.Media.Type, p.Media.Name)
			if p.Media.Detail != "" {
				b.WriteString(" " + p.Media.Detail)
			}
			b.WriteByte(')')
		}
		b.WriteString([...]string{"", "+5m", "+1h"}[p.Cache])
	}
}

// CheckCall checks what holds of each call that a dialect parses: each turn has a path,
// parts of the assistant have their order, and each tool call has a result.
func CheckCall(t testing.TB, c *dialect.Call) {
	t.Helper()
	if c.TurnParams != nil && len(c.TurnParams) != len(c.Turns) {
		t.Errorf("%d paths of %d turns", len(c.TurnParams), len(c.Turns))
	}
	open := map[string]int{}
	for _, m := range c.Turns {
		if m.Role == "assistant" && !slices.IsSortedFunc(m.Parts, dialect.CompareParts) {
			t.Errorf("parts in another order: %+v", m.Parts)
		}
		for _, p := range m.Parts {
			switch p.Kind {
			case providers.PartToolCall:
				open[p.Call.ID]++
			case providers.PartToolResult:
				open[p.Result.Call]--
			}
		}
	}
	for id, n := range open {
		if n != 0 {
			t.Errorf("the call %s has %d results too few", id, n)
		}
	}
}

// Answer returns an answer with a trace, an endpoint, a time and a revision.
func Answer(a dialect.Answer) *dialect.Answer {
	a.TraceID, a.Key, a.Time, a.Revision = "01890a5d-ac96-874b-b6a4-5a2bffe32a01", "support/chat", time.Unix(1700000000, 0), "0123456789abcdef"
	return &a
}

// Usage has a number for each part that a caller may get.
var Usage = providers.Usage{
	PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, CachedTokens: 10, CacheWriteTokens: 20, CacheWriteHourTokens: 30,
	PromptAudioTokens: 4, PromptImageTokens: 5, ReasoningTokens: 6, CompletionAudioTokens: 7, CompletionImageTokens: 8, WebSearches: 9,
}

// Searched returns an answer of a model that has searched, whole and as it is streamed: with
// a search before the text that rests on it, and one after it, as Gemini says them.
func Searched() (dialect.Answer, []providers.Delta) {
	const api, text = "generateContent", "Né en 1916. 🙂"
	page := func(name string) providers.Source {
		return providers.Source{URL: "https://e.org/" + name, Title: "<" + name + ">"}
	}
	a := dialect.Answer{
		Content: text, Thoughts: []providers.Thought{{Text: "Hm.", Opaque: "cdz1_a"}, {Opaque: "cdz1_b"}}, FinishReason: providers.FinishStop,
		Usage: providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, WebSearches: 2},
		Found: []providers.Found{
			{Kind: providers.FoundCall, API: api, ID: "x_1", Query: "shannon né", Thoughts: 1},
			{Kind: providers.FoundResults, API: api, ID: "x_1", Sources: []providers.Source{page("a"), page("b")}, Thoughts: 1},
			{Kind: providers.FoundCitation, API: api, To: 11, Sources: []providers.Source{page("a")}, Before: len(text), Thoughts: 1},
			{Kind: providers.FoundCitation, API: api, From: 3, To: 13, Sources: []providers.Source{page("b")}, Before: len(text), Thoughts: 1},
			{Kind: providers.FoundCall, API: api, ID: "x_2", Before: len(text), Thoughts: 1},
			{Kind: providers.FoundResults, API: api, ID: "x_2", Before: len(text), Thoughts: 1},
		},
	}
	found := func(i int) providers.Delta { return providers.Delta{Found: &a.Found[i]} }
	return a, []providers.Delta{
		{Thinking: "Hm."}, {Thought: &a.Thoughts[0]}, found(0), found(1), {Content: "Né "}, {Content: "en 1916. 🙂"},
		found(2), found(3), found(4), found(5), {Thought: &a.Thoughts[1]},
	}
}

// Golden compares bytes with a file of testdata. UPDATE=1 writes the file.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s: -want +got\n%s", file, diff)
	}
}

// CheckDocumented checks that docs/apis.md has the table of a dialect's members.
func CheckDocumented[P any](t *testing.T, members []openai.Member[P]) {
	t.Helper()
	var table strings.Builder
	for _, m := range members {
		fate, note := string(m.Fate), m.Note
		switch m.Fate {
		case dialect.Fixed:
			fate = "only `" + m.Only + "`"
		case dialect.Refused: // it may be the end of a message
			note = strings.ToUpper(note[:1]) + note[1:]
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", m.Path, fate, note)
	}
	for _, name := range []string{"apis.md", "embeddings.md"} {
		page, err := os.ReadFile("../../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(page), "|---|---|---|\n"+table.String()+"\n") {
			return
		}
	}
	t.Errorf("no page has this table:\n%s", table.String())
}

// CheckFates sends each known member with each of the values, in JSON. None is dropped in
// silence.
func CheckFates[P any](t *testing.T, d dialect.Dialect, members []openai.Member[P], values []string) {
	t.Helper()
	for _, m := range members {
		taken := false
		for _, value := range values {
			body := `"` + m.Path + `":` + value
			if outer, inner, ok := strings.Cut(m.Path, "."); ok {
				body = `"` + outer + `":{"` + inner + `":` + value + `}`
			}
			if m.Path != "model" {
				body = `"model":"m",` + body
			}
			call, _, err := dialect.Parse(d, Request(t, "{"+body+"}"))
			if err != nil {
				if !strings.HasPrefix(err.Param, m.Path) {
					t.Errorf("%s: %s: %s", body, err.Param, err.Message)
				}
				continue
			}
			taken = true
			named := strings.Join(call.Ignored, " ")
			switch m.Fate {
			case dialect.Refused:
				t.Errorf("%s is taken", body)
			case dialect.Ignored:
				if named != m.Path && value != "false" {
					t.Errorf("%s: Cadenza-Ignored would be %s", body, named)
				}
			case dialect.Fixed:
				if value != m.Only && value != `"`+m.Only+`"` || named != "" {
					t.Errorf("%s is taken", body)
				}
			case dialect.Forwarded:
				if len(call.Given) != 1 && len(call.Turns) != 1 && !strings.HasPrefix(named, m.Path) && value != "[]" {
					t.Errorf("%s is dropped", body)
				}
			}
		}
		if taken == (m.Fate == dialect.Refused) {
			t.Errorf("%s is %s, and taken: %v", m.Path, m.Fate, taken)
		}
	}
}

// CheckNulls checks which members are null in the golden files: those that recorded answers
// of the API itself have as null. A client may read another null as a mistake.
func CheckNulls(t *testing.T, want ...string) {
	t.Helper()
	got := map[string]bool{}
	for _, text := range GoldenAnswers(t, "testdata") {
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		addNulls(got, "", v)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("members that are null: -want +got\n%s", diff)
	}
}

func addNulls(to map[string]bool, path string, v any) {
	switch v := v.(type) {
	case nil:
		to[path] = true
	case []any:
		for _, element := range v {
			addNulls(to, path+"[]", element)
		}
	case map[string]any:
		for name, member := range v {
			addNulls(to, strings.TrimPrefix(path+"."+name, "."), member)
		}
	}
}

// GoldenAnswers returns the JSON of the golden files in a directory: of whole answers, and
// of the events of streams.
func GoldenAnswers(t testing.TB, dir string) (all [][]byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch filepath.Ext(file) {
		case ".json":
			all = append(all, text)
		case ".sse":
			for line := range bytes.Lines(text) {
				if data, ok := bytes.CutPrefix(line, []byte("data: {")); ok {
					all = append(all, append([]byte("{"), data...))
				}
			}
		}
	}
	return all
}
