package price

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

const wholeFile = `
gpt-4o-mini: { prompt: 0.15, completion: 0.60 }
local/llama: { prompt: 0, completion: 0 }
azure/gpt-4o:
  prompt: 2.5
  completion: 10
  cache_read: 1.25
  cache_write: 3
  cache_write_hour: 5
  audio_in: 40
  audio_cache_read: 2.5
  image_in: 3
  reasoning: 11
  audio_out: 80
  image_out: 30
  web_search: 10
  file_search: 2.5
  code_execution: 30
  above:
    200000: { prompt: 5, completion: 15, factor: 1 }
  batch: 0.5
  flex: { factor: 0.5, prompt: 1, above: { 200000: { prompt: 2 } } }
  priority: { prompt: 5 }
  max_output: 16384
`

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	read := func(name, content string) (map[string]*Price, error) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadFile(path)
	}
	got, err := read("prices.yaml", wholeFile)
	if err != nil {
		t.Fatal(err)
	}
	n := dollars
	want := map[string]*Price{
		"gpt-4o-mini": {Prompt: 0.15, Completion: 0.60},
		"local/llama": {},
		"azure/gpt-4o": {
			Prompt: 2.5, Completion: 10,
			Parts: Parts{
				CacheRead: n(1.25), CacheWrite: n(3), CacheWriteHour: n(5), AudioIn: n(40), AudioCacheRead: n(2.5), ImageIn: n(3), Reasoning: n(11), AudioOut: n(80), ImageOut: n(30),
			},
			WebSearch: 10, FileSearch: 2.5, CodeExecution: 30,
			Above:     map[int64]Change{200_000: {Factor: n(1), Prompt: n(5), Completion: n(15)}},
			Batch:     &Class{Change: Change{Factor: n(0.5)}},
			Flex:      &Class{Change: Change{Factor: n(0.5), Prompt: n(1)}, Above: map[int64]Change{200_000: {Prompt: n(2)}}},
			Priority:  &Class{Change: Change{Prompt: n(5)}},
			MaxOutput: 16384,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// The JSON of Caddy's configuration is such a file.
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = read("prices.json", string(text)); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%s\n%v %s", text, err, cmp.Diff(want, got))
	}
	if got, err = read("empty.yaml", "# none yet\n"); err != nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
	if _, err := ReadFile(dir); err == nil {
		t.Error("a folder is a file of prices")
	}

	for _, test := range []struct{ content, want string }{
		{"[]", `:1:1: a file of prices must be a mapping such as gpt-6-luna: { prompt: 0.10, completion: 0.50 }, this is a list`},
		{"a: 3", `:1:4: the price of a must be a mapping, this is "3"`},
		{"a: { prompt: 1 }", `:1:1: the price of a must have completion: US dollars per million tokens, 0 where nothing is paid`},
		{"a: { completion: 1 }", `:1:1: the price of a must have prompt`},
		{"a: { prompt: 1, completion: 1, cache-read: 1 }", `:1:32: unknown member "cache-read" in the price of a: did you mean "cache_read"?`},
		{"a: { prompt: 1, completion: 1, bach: 0.5 }", `unknown member "bach" in the price of a: did you mean "batch"?`},
		{"a: { prompt: 1, completion: 1, batch: { promt: 1 } }", `unknown member "promt" in the class batch: did you mean "prompt"?`},
		{"a: { prompt: 1, completion: 1, batch: [] }", `the class batch must be a mapping, this is a list`},
		{"a: { prompt: 1, completion: 1, batch: {} }", `:1:32: the class batch of a must have prices, such as prompt: 2.5`},
		{"a: { prompt: 1, completion: 1, above: { 5: {} } }", `:1:41: above 5 of a must have prices, such as prompt: 2.5`},
		{`"": { prompt: 1, completion: 1 }`, `:1:1: a price must have the name of a model`},
		{"a: { prompt: 1, completion: 1, batch: half }", `batch.factor of a must be a number from 0 to 1000000000, this is "half"`},
		{"a: { prompt: 1, completion: 1, above: 200000 }", `above must be a mapping`},
		{"a: { prompt: 1, completion: 1, above: { 200k: { prompt: 2 } } }", `above has numbers of tokens of the prompt, such as 200000, this is "200k"`},
		{"a: { prompt: 1, completion: 1, above: { 0: { prompt: 2 } } }", `above has numbers of tokens of the prompt, such as 200000, this is "0"`},
		{"a: { prompt: 1, completion: 1, above: { 5: { web_search: 2 } } }", `unknown member "web_search" in above 5`},
		{"a: { prompt: 1, completion: 1, batch: { batch: 0.5 } }", `unknown member "batch" in the class batch`},
		{"a: { prompt: -1, completion: 1 }", `:1:14: prompt of a must be a number from 0 to 1000000000, this is "-1"`},
		{"a: { prompt: 0,15, completion: 1 }", `:1:`},
		{"a: { prompt: $1, completion: 1 }", `prompt of a must be a number from 0 to 1000000000, this is "$1"`},
		{"a: { prompt: 1, completion: 1, max_output: 1.5 }", `max_output of a must be a whole number from 0, this is "1.5"`},
		{"a: { prompt: 1, completion: 1 }\na: { prompt: 1, completion: 1 }", `:2:1:`},
	} {
		got, err := read("wrong.yaml", test.content)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "wrong.yaml:") {
			t.Errorf("%s: %v %v, want %s", test.content, got, err, test.want)
		}
	}
}

// TestCostsPage holds what docs/costs.md says of prices.
func TestCostsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/costs.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "as of **"+dateOf(shippedPrices)+"**") {
		t.Errorf("the page has another date than the prices, %s", dateOf(shippedPrices))
	}
	if !strings.Contains(string(page), "of **"+dateOf(shippedModels)+"**") {
		t.Errorf("the page has another date than the models, %s", dateOf(shippedModels))
	}
	for _, name := range slices.Concat(names[:], ModelMembers) {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("the page does not have %s", name)
		}
	}
	_, file, _ := strings.Cut(string(page), "```yaml\n")
	file, _, _ = strings.Cut(file, "```")
	if prices, err := parseFile("prices.yaml", []byte(file)); err != nil || len(prices) != 2 {
		t.Errorf("%v %v", prices, err)
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add(wholeFile, false)
	f.Add(`{"a": {"prompt": 1, "completion": 2, "above": {"5": {"prompt": 3}}, "batch": {"factor": 0.5}}}`, true)
	f.Fuzz(func(t *testing.T, text string, isJSON bool) {
		file := "p.yaml"
		if isJSON {
			file = "p.json"
		}
		prices, err := parseFile(file, []byte(text))
		if err != nil {
			return
		}
		for model, p := range prices {
			if err := p.Validate(); err != nil {
				t.Errorf("%s: %v", model, err)
			}
		}
	})
}

// TestPricesOfSeveralFiles: a model has its price in one file. The message names both
// files as the configuration does.
func TestPricesOfSeveralFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "m: { prompt: 1, completion: 2 }\n", "b.yaml": "n: { prompt: 3, completion: 4 }\n", "c.yaml": "m: { prompt: 5, completion: 6 }\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	resolve := func(file string) (string, error) { return filepath.Join(dir, file), nil }
	if all, err := ReadFiles([]string{"a.yaml", "b.yaml"}, resolve); err != nil || len(all) != 2 || all["m"].Prompt != 1 || all["n"].Prompt != 3 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := ReadFiles([]string{"a.yaml", "b.yaml", "c.yaml"}, resolve); err == nil || err.Error() != "prices c.yaml: m has a price in a.yaml too: delete one of them" {
		t.Error(err)
	}
}

// TestLargestFileOfPrices: a file that is a byte too long is refused, and not read in
// part.
func TestLargestFileOfPrices(t *testing.T) {
	const price = "m: { prompt: 1, completion: 2 }\n"
	file := filepath.Join(t.TempDir(), "prices.yaml")
	for _, more := range []int{0, 1} {
		text := price + "#" + strings.Repeat("x", document.MaxFileBytes-len(price)-1+more)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(file); (err != nil) != (more > 0) {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}
