// Command refresh writes internal/price/prices.txt, the shipped prices, from two
// collections of facts about models. It is run by hand, and its result is read as a diff:
//
//	npm pack @pydantic/genai-prices      # or prices/new_data/v2/data.json of its repository
//	go run ./internal/price/refresh -date 2026-09-23 -prices data.json -more api.json > prices.txt
//
// The file of -prices has the form of genai-prices' data.json. The file of -more has the
// form of https://models.dev/api.json: it adds the limit of an answer's tokens, and the
// models that the other file lacks. The other table, models.txt, is kept by hand.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const head = `# What models cost. One line per model, by the name that its API has for it:
#
#   NAME PROMPT COMPLETION [MEMBER=NUMBER …]    or    NAME = OTHER-NAME
#
# unit: US dollars per million tokens; of web_search, file_search and code_execution US
#   dollars per thousand uses; of factor the factor; of max_output tokens. The members
#   are those of price.Price, above.TOKENS.MEMBER those of a tier, batch.MEMBER and so on
#   those of a class of service. Names have no date where no other price has the same name.
# source: genai-prices by Pydantic (MIT), https://github.com/pydantic/genai-prices; the
#   most tokens of an answer, and models that it lacks: models.dev (MIT),
#   https://models.dev. Facts only; no text of theirs is here. Classes of service, and
#   lines where these two are behind, are kept by hand in internal/price/refresh, and no
#   source checks them: the provider's page counts.
# A price that changes with the hour is the one of most hours of a day.
# Written by go run ./internal/price/refresh.
# date: `

// sections are the providers to take, by the names of both sources, with the hosts that
// serve them, and the sections whose prices a host has too.
var sections = []struct{ name, source, more, hosts, also string }{
	{"openai", "openai", "", "api.openai.com *.api.openai.com", ""},
	{"anthropic", "anthropic", "", "api.anthropic.com", ""},
	{"google", "google", "", "generativelanguage.googleapis.com aiplatform.googleapis.com *-aiplatform.googleapis.com aiplatform.*.rep.googleapis.com", "anthropic"},
	{"azure", "azure", "", "*.openai.azure.com *.services.ai.azure.com *.cognitiveservices.azure.com", "openai anthropic deepseek xai moonshot"},
	{"bedrock", "aws", "amazon-bedrock", "bedrock-runtime.*.amazonaws.com bedrock-runtime-fips.*.amazonaws.com bedrock-runtime.*.amazonaws.com.cn", ""},
	{"groq", "groq", "groq", "api.groq.com", ""},
	{"mistral", "mistral", "mistral", "api.mistral.ai codestral.mistral.ai", ""},
	{"deepseek", "deepseek", "", "api.deepseek.com", ""},
	{"xai", "x-ai", "", "api.x.ai *.api.x.ai", ""},
	{"cohere", "cohere", "", "api.cohere.com api.cohere.ai", ""},
	{"together", "together", "togetherai", "api.together.xyz api.together.ai", ""},
	{"fireworks", "fireworks", "fireworks-ai", "api.fireworks.ai", ""},
	{"perplexity", "perplexity", "", "api.perplexity.ai", ""},
	{"cerebras", "cerebras", "cerebras", "api.cerebras.ai", ""},
	{"moonshot", "moonshotai", "", "api.moonshot.ai api.moonshot.cn", ""},
	{"zai", "zai", "", "api.z.ai", ""},
	{"openrouter", "openrouter", "", "openrouter.ai api.openrouter.ai", ""},
}

// makers are the makers whose models are taken from OpenRouter, which has hundreds.
var makers = []string{"anthropic", "openai", "google", "meta-llama", "mistralai", "deepseek", "x-ai", "qwen", "moonshotai", "z-ai", "cohere", "perplexity", "minimax", "amazon", "nvidia"}

// classes are prices of classes of service, by section and names. The first that fits
// counts.
var classes = []struct {
	section string
	names   *regexp.Regexp
	text    string
}{
	{"openai", regexp.MustCompile(`^gpt-5-mini$`), "batch.factor=0.5 flex.factor=0.5 priority.factor=1.8"},
	{"openai", regexp.MustCompile(`^gpt-5(\.\d)?(-sol|-terra|-luna|-mini)?$`), "batch.factor=0.5 flex.factor=0.5 priority.factor=2"},
	{"openai", regexp.MustCompile(`^gpt-5(\.\d)?(-pro|-nano)$`), "batch.factor=0.5 flex.factor=0.5"},
	{"openai", regexp.MustCompile(`^gpt-5(\.\d)?-codex$`), "priority.factor=2"},
	{"openai", regexp.MustCompile(`^gpt-4\.1(-mini)?$`), "batch.factor=0.5 priority.factor=1.75"},
	{"openai", regexp.MustCompile(`^gpt-4\.1-nano$`), "batch.factor=0.5 priority.factor=2"},
	{"openai", regexp.MustCompile(`^gpt-4o$`), "batch.factor=0.5 priority.factor=1.7"},
	{"openai", regexp.MustCompile(`^gpt-4o-mini$`), "batch.factor=0.5 priority.prompt=0.25 priority.completion=1 priority.cache_read=0.125"},
	{"openai", regexp.MustCompile(`^o3$`), "batch.factor=0.5 flex.factor=0.5 priority.factor=1.75"},
	{"openai", regexp.MustCompile(`^o4-mini$`), "batch.factor=0.5 flex.factor=0.5 priority.prompt=2 priority.completion=8 priority.cache_read=0.5"},
	{"openai", regexp.MustCompile(`^(gpt-3\.5-turbo|gpt-4|gpt-4-turbo|o1|o1-pro|o3-mini|o3-pro)$`), "batch.factor=0.5"},
	{"anthropic", regexp.MustCompile(`^claude-`), "batch.factor=0.5"},
	{"google", regexp.MustCompile(`^gemini-(2\.5|3(\.\d)?)-(pro|flash)(-lite)?(-preview)?$`), "batch.factor=0.5 flex.factor=0.5 priority.factor=1.8"},
	{"google", regexp.MustCompile(`^gemini-`), "batch.factor=0.5"},
}

// regional are Bedrock's names with a region.
var regional = regexp.MustCompile(`^(us|eu|apac|au|jp|us-gov|global)\.`)

// retired are models that their provider does not offer.
var retired = regexp.MustCompile(`^(ada|babbage|curie|davinci|text-davinci-00\d|gpt-oss-.*)$`)

// mended replaces lines for which the source is out of date, or mixes models, and has those
// of models that make vectors, which no source has.
var mended = map[string]map[string]string{
	"openai": {
		"gpt-4o-audio-preview":      "2.5 10 audio_in=40 audio_out=80",
		"gpt-4o-mini-audio-preview": "0.15 0.6 audio_in=10 audio_out=20",
		"text-embedding-3-large":    "0.13 0",
		"text-embedding-3-small":    "0.02 0",
		"text-embedding-ada-002":    "0.1 0",
	},
	"google": {"gemini-embedding-001": "0.15 0"},
	"cohere": {"embed-english-v3.0": "0.1 0", "embed-multilingual-v3.0": "0.1 0", "embed-v4.0": "0.12 0"},
	"bedrock": {
		"amazon.titan-embed-text-v1": "0.1 0", "amazon.titan-embed-text-v2": "0.02 0",
		"cohere.embed-english-v3": "0.1 0", "cohere.embed-multilingual-v3": "0.1 0", "cohere.embed-v4": "0.12 0",
	},
	"deepseek": {
		"deepseek-chat":     "0.28 0.42 cache_read=0.028",
		"deepseek-reasoner": "0.28 0.42 cache_read=0.028",
	},
	"groq": {"openai/gpt-oss-safeguard-20b": "0.075 0.3 cache_read=0.037"},
	"mistral": {
		"codestral-embed":      "0.15 0",
		"mistral-embed":        "0.1 0",
		"mistral-large-latest": "= mistral-large-2512",
		"mistral-small-latest": "= mistral-small",
		"mistral-small-2506":   "0.1 0.3",
		"mistral-medium-2604":  "= mistral-medium-3-5",
	},
}

// members are the names that genai-prices has for ours.
var members = map[string]string{
	"input_mtok": "prompt", "output_mtok": "completion", "cache_read_mtok": "cache_read", "cache_write_mtok": "cache_write", "cache_write_1h_mtok": "cache_write_hour",
	"input_audio_mtok": "audio_in", "cache_audio_read_mtok": "audio_cache_read", "output_audio_mtok": "audio_out", "input_image_mtok": "image_in",
	"output_image_mtok": "image_out", "output_reasoning_mtok": "reasoning", "web_searches_kcount": "web_search", "storage_searches_kcount": "file_search",
}

// order is the order of the members in a line.
var order = []string{
	"prompt", "completion", "cache_read", "cache_write", "cache_write_hour", "audio_in", "audio_cache_read", "image_in", "reasoning", "audio_out", "image_out", "web_search", "file_search",
}

type provider struct {
	ID     string
	Models []struct {
		ID     string
		Match  match
		Prices json.RawMessage
	}
}

type match struct {
	Equals     string
	StartsWith string `json:"starts_with"`
	Contains   string
	EndsWith   string `json:"ends_with"`
	Or         []match
}

type conditional struct {
	Constraint *struct {
		Type      string
		StartDate string `json:"start_date"`
		StartTime string `json:"start_time"`
		EndTime   string `json:"end_time"`
	}
	Prices map[string]json.RawMessage
}

// catalog is the other source, by the provider's name.
type catalog map[string]struct {
	Models map[string]struct {
		Limit struct{ Output int64 }
		Cost  struct {
			Input, Output float64
			CacheRead     float64 `json:"cache_read"`
			CacheWrite    float64 `json:"cache_write"`
		}
	}
}

func main() {
	date := flag.String("date", "", "the day of the prices, as 2006-01-02")
	prices := flag.String("prices", "", "the file of the form of genai-prices' data.json")
	more := flag.String("more", "", "the file of the form of models.dev's api.json")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	if err := write(out, *date, *prices, *more); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(out io.Writer, date, prices, more string) error {
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return fmt.Errorf("-date: %w", err)
	}
	var all []provider
	if err := read(prices, &all); err != nil {
		return err
	}
	var known catalog
	if err := read(more, &known); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s%s\n", head, date)
	for _, s := range sections {
		i := slices.IndexFunc(all, func(p provider) bool { return p.ID == s.source })
		if i < 0 {
			return fmt.Errorf("%s has no provider %s", prices, s.source)
		}
		fmt.Fprintf(out, "\n[%s] %s", s.name, s.hosts)
		if s.also != "" {
			fmt.Fprintf(out, " + %s", s.also)
		}
		fmt.Fprintln(out)
		lines, err := linesOf(s.name, &all[i], date, known)
		if err != nil {
			return err
		}
		for id, m := range known[s.more].Models {
			name := undated(strings.TrimPrefix(strings.ToLower(id), "accounts/fireworks/models/"))
			if m.Cost.Input == 0 || lines[name] != "" || regional.MatchString(name) {
				continue
			}
			line := number(m.Cost.Input) + " " + number(m.Cost.Output)
			if m.Cost.CacheRead > 0 {
				line += " cache_read=" + number(m.Cost.CacheRead)
			}
			if m.Cost.CacheWrite > 0 {
				line += " cache_write=" + number(m.Cost.CacheWrite)
			}
			lines[name] = line
		}
		maps.Copy(lines, mended[s.name])
		for _, name := range slices.Sorted(maps.Keys(lines)) {
			fmt.Fprintf(out, "%s %s\n", name, lines[name])
		}
	}
	return nil
}

func read(file string, into any) error {
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// linesOf returns the lines of a section, by the names of models.
func linesOf(section string, p *provider, date string, known catalog) (map[string]string, error) {
	lines := make(map[string]string)
	type named struct{ name, line, main string } // main is the model's first name
	var all []named
	for _, m := range p.Models {
		if retired.MatchString(m.ID) && section == "openai" {
			continue
		}
		if section == "openrouter" {
			maker, _, _ := strings.Cut(m.ID, "/")
			if !slices.Contains(makers, maker) || strings.HasSuffix(m.ID, ":free") {
				continue
			}
		}
		own := namesOf(section, m.ID, m.Match)
		line, err := lineOf(section, own, m.Prices, date, known)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.ID, err)
		}
		if line == "" {
			continue
		}
		for _, name := range own {
			all = append(all, named{name, line, undated(own[0])})
		}
	}
	// A name that is whole counts before one that has lost its date.
	for _, n := range all {
		if undated(n.name) == n.name && lines[n.name] == "" {
			lines[n.name] = n.line
		}
	}
	for _, n := range all {
		switch short := undated(n.name); lines[short] {
		case n.line:
		case "":
			lines[short] = n.line
		default:
			if lines[n.name] == "" {
				lines[n.name] = n.line
			}
		}
	}
	for _, n := range all {
		if name := undated(n.name); name != n.main && lines[name] == n.line && lines[n.main] == n.line {
			lines[name] = "= " + n.main
		}
	}
	return lines, nil
}

// namesOf returns the names of a model, the one to refer to first.
func namesOf(section, id string, m match) []string {
	var names []string
	add := func(name string) {
		name = strings.TrimRight(strings.ToLower(name), "@-.")
		switch {
		case section == "bedrock":
			name = strings.TrimPrefix(name, "regional.")
			for _, region := range [...]string{"us.", "au.", "apac.", "eu.", "jp.", "us-gov.", "in."} {
				name = strings.TrimPrefix(name, region)
			}
			if strings.HasPrefix(name, "claude-") {
				name = "anthropic." + name
			}
		case section != "openrouter" && strings.HasSuffix(name, ":free"):
			return
		}
		if name != "" && !strings.ContainsAny(name, " \\") && name != "gemini-2.0-flash-0" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(id)
	var walk func(m match)
	walk = func(m match) {
		for _, name := range [...]string{m.Equals, m.StartsWith, m.Contains, m.EndsWith} {
			// A name with a maker or a prefix of another section's is another's.
			if strings.ContainsAny(name, "/:") && !strings.ContainsAny(id, "/:") {
				continue
			}
			add(name)
		}
		for _, other := range m.Or {
			walk(other)
		}
	}
	walk(m)
	return names
}

var dated = regexp.MustCompile(`(:\d+|@\d+|-v[012]|-\d{4}-\d{2}-\d{2}|-\d{2}-\d{4}|-\d{8}|-\d{4}|-\d{3}|-latest)$`)

// undated returns a name without what price.Shipped takes off its end and is no word.
func undated(name string) string {
	for {
		short := dated.ReplaceAllString(name, "")
		if short == name || short == "" {
			return name
		}
		name = short
	}
}

// lineOf returns the line of a model, or "" if its tokens have no price.
func lineOf(section string, names []string, raw json.RawMessage, date string, known catalog) (string, error) {
	prices, err := current(raw, date)
	if err != nil {
		return "", err
	}
	base, tiers := make(map[string]float64), make(map[int64]map[string]float64)
	for name, value := range prices {
		member := members[name]
		if member == "" {
			continue
		}
		var tiered struct {
			Base  float64
			Tiers []struct{ Start, Price float64 }
		}
		if err := json.Unmarshal(value, &tiered.Base); err != nil {
			if err := json.Unmarshal(value, &tiered); err != nil {
				return "", err
			}
		}
		base[member] = tiered.Base
		for _, t := range tiered.Tiers {
			if tiers[int64(t.Start)] == nil {
				tiers[int64(t.Start)] = make(map[string]float64)
			}
			tiers[int64(t.Start)][member] = t.Price
		}
	}
	_, prompt := base["prompt"]
	_, completion := base["completion"]
	if !prompt || !completion {
		return "", nil
	}
	// Anthropic's writes for an hour cost twice the prompt wherever they are sold.
	if _, hour := base["cache_write_hour"]; base["cache_write"] > 0 && !hour && strings.Contains(names[0], "claude") {
		base["cache_write_hour"] = 2 * base["prompt"]
		for _, t := range tiers {
			t["cache_write_hour"] = 2 * cmp.Or(t["prompt"], base["prompt"])
		}
	}
	line := []string{number(base["prompt"]), number(base["completion"])}
	line = appendMembers(line, "", base, order[2:])
	for _, tokens := range slices.Sorted(maps.Keys(tiers)) {
		line = appendMembers(line, "above."+strconv.FormatInt(tokens, 10)+".", tiers[tokens], order)
	}
	for _, c := range classes {
		if c.section == section && c.names.MatchString(names[0]) {
			line = append(line, c.text)
			break
		}
	}
	if tokens := maxOutput(names[0], known); tokens > 0 {
		line = append(line, "max_output="+strconv.FormatInt(tokens, 10))
	}
	return strings.Join(line, " "), nil
}

func appendMembers(line []string, prefix string, values map[string]float64, names []string) []string {
	for _, name := range names {
		if value, given := values[name]; given {
			line = append(line, prefix+name+"="+number(value))
		}
	}
	return line
}

func number(n float64) string { return strconv.FormatFloat(n, 'g', 12, 64) }

// maxOutput returns the limit of a model's answers in tokens, or 0 if it is unknown.
func maxOutput(name string, known catalog) int64 {
	name = undated(strings.TrimPrefix(strings.TrimPrefix(name, "global."), "anthropic."))
	var tokens int64
	for _, maker := range [...]string{"openai", "anthropic", "google"} {
		for other, m := range known[maker].Models {
			if undated(other) == name {
				tokens = max(tokens, m.Limit.Output)
			}
		}
	}
	return tokens
}

// current returns the prices of a day: the latest that have begun by then and hold for
// more than half of the day.
func current(raw json.RawMessage, date string) (map[string]json.RawMessage, error) {
	var all []conditional
	if err := json.Unmarshal(raw, &all); err != nil {
		var one map[string]json.RawMessage
		return one, json.Unmarshal(raw, &one)
	}
	var found map[string]json.RawMessage
	for _, c := range all {
		if c.Constraint != nil {
			if c.Constraint.StartDate > date {
				continue
			}
			if c.Constraint.StartTime != "" {
				start, err := time.Parse("15:04:05Z", c.Constraint.StartTime)
				if err != nil {
					return nil, err
				}
				end, err := time.Parse("15:04:05Z", c.Constraint.EndTime)
				if err != nil {
					return nil, err
				}
				if end.Sub(start) < 12*time.Hour {
					continue
				}
			}
		}
		found = c.Prices
	}
	return found, nil
}
