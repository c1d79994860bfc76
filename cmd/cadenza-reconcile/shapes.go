package main

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The vendors with known exports.
const (
	openAI    = "openai"
	anthropic = "anthropic"
)

// kind is a kind of billed item.
type kind uint8

// Each prompt token of a bill has one of the first four kinds.
const (
	input       kind = iota // of the prompt, neither read from a cache nor written to it
	cached                  // of the prompt, read from a cache
	written                 // of the prompt, written to a cache for some minutes
	writtenHour             // of the prompt, written to a cache for an hour
	output                  // of the answer
	other                   // no tokens, or tokens of an unknown kind
	kinds
)

var kindNames = [kinds]string{"input", "cached", "written", "written_hour", "output", "other"}

// shape is a format of a vendor's usage or costs. A result of its API and a row of its
// console's CSV file have similar names.
type shape struct {
	vendor, name string
	costs        bool
	marks        [][]string // the names that identify a result, and a row
	read         func(*record) (model string, batch bool, line counts)
	ignored      []string // names of members that the comparison does not use
}

var shapes = []shape{
	{openAI, "usage of completions", false, [][]string{{"num_model_requests", "input_tokens", "output_tokens"}}, openAIUsage, []string{
		"object", "project_id", "project_name", "user_id", "user_email", "api_key_id", "api_key_name", "service_tier", "organization_id", "organization_name", "api_source",
		"input_uncached_tokens", "input_text_tokens", "output_text_tokens", "input_cached_text_tokens", "input_audio_tokens", "input_cached_audio_tokens",
		"output_audio_tokens", "input_image_tokens", "input_cached_image_tokens", "output_image_tokens",
	}},
	{openAI, "costs", true, [][]string{{"amount.value"}, {"amount_value", "amount_currency"}}, openAICosts, []string{
		"object", "quantity", "quantity_unit", "user_id", "user_email", "api_key_id", "api_key_name", "project_id", "project_name", "organization_id", "organization_name", "api_source",
	}},
	{anthropic, "usage of messages", false, [][]string{{"uncached_input_tokens"}, {"usage_date_utc", "usage_input_tokens_no_cache"}}, anthropicUsage, []string{
		"api_key", "workspace", "api_key_id", "api_key_status", "workspace_id", "context_window", "inference_geo", "speed", "server_tool_use", "web_search_count", "account_id", "service_account_id",
	}},
	{anthropic, "costs", true, [][]string{{"amount", "currency"}, {"usage_date_utc", "token_type", "cost_usd"}}, anthropicCosts, []string{
		"api_key", "workspace", "api_key_id", "api_key_status", "workspace_id", "context_window", "inference_geo", "speed", "description", "list_amount", "list_price_usd", "product", "requests",
	}},
}

// shapeOf returns the shape with these names, or nil.
func shapeOf(names []string) *shape {
	for i := range shapes {
		for _, marks := range shapes[i].marks {
			if !slices.ContainsFunc(marks, func(mark string) bool { return !slices.Contains(names, mark) }) {
				return &shapes[i]
			}
		}
	}
	return nil
}

func (s *shape) ignores(name string) bool {
	outer, _, _ := strings.Cut(name, ".")
	return slices.Contains(s.ignored, outer)
}

func openAIUsage(r *record) (model string, batch bool, line counts) {
	line.Requests = r.count("num_model_requests")
	line.Tokens[cached], line.Tokens[written] = r.count("input_cached_tokens"), r.count("input_cache_write_tokens")
	line.Tokens[input] = max(r.count("input_tokens")-line.Tokens[cached]-line.Tokens[written], 0)
	line.Tokens[output] = r.count("output_tokens")
	return r.text("model"), strings.EqualFold(r.text("batch"), "true"), line
}

// openAICosts reads an amount for a line item, such as "gpt-4o-2024-08-06, cached
// input". An item without a kind is treated as a model.
func openAICosts(r *record) (model string, _ bool, line counts) {
	model, item, _ := strings.Cut(r.text("line_item"), ", ")
	of := other
	switch strings.TrimSuffix(strings.ReplaceAll(strings.ToLower(strings.TrimSpace(item)), "_", " "), " tokens") {
	case "input":
		of = input
	case "cached input", "input cached":
		of = cached
	case "cache write", "input cache write":
		of = written
	case "output":
		of = output
	}
	r.inDollars("amount.currency", "amount_currency")
	line.Cost[of] = r.money("amount.value", "amount_value")
	return model, false, line
}

func anthropicUsage(r *record) (model string, batch bool, line counts) {
	line.Tokens = [kinds]int64{
		input:       r.count("uncached_input_tokens", "usage_input_tokens_no_cache"),
		cached:      r.count("cache_read_input_tokens", "usage_input_tokens_cache_read"),
		written:     r.count("cache_creation.ephemeral_5m_input_tokens", "usage_input_tokens_cache_write_5m", "usage_input_tokens_cache_write"),
		writtenHour: r.count("cache_creation.ephemeral_1h_input_tokens", "usage_input_tokens_cache_write_1h"),
		output:      r.count("output_tokens", "usage_output_tokens"),
	}
	return r.text("model", "model_version"), r.text("service_tier", "usage_type") == "batch", line
}

// anthropicKinds are the kinds of the token types of Anthropic's costs.
var anthropicKinds = map[string]kind{
	"uncached_input_tokens": input, "input_no_cache": input,
	"cache_read_input_tokens": cached, "input_cache_read": cached,
	"cache_creation.ephemeral_5m_input_tokens": written, "input_cache_write_5m": written,
	"cache_creation.ephemeral_1h_input_tokens": writtenHour, "input_cache_write_1h": writtenHour,
	"output_tokens": output, "output": output,
}

// anthropicCosts reads an amount for a type of tokens, or for another item such as web_search.
func anthropicCosts(r *record) (model string, batch bool, line counts) {
	of, known := anthropicKinds[r.text("token_type")]
	if !known {
		of = other
	}
	model = r.text("model")
	if item := r.text("cost_type"); model == "" && !strings.HasPrefix(item, "token") {
		model = item
	}
	r.inDollars("currency")
	line.Cost[of] = r.money("amount")/100 + r.money("cost_usd") // "123.45" is $1.2345 in the API
	return model, r.text("service_tier", "usage_type") == "batch", line
}

// record is a result of a page, or a row of a CSV file.
type record struct {
	fields map[string]string // null is an empty string
	taken  map[string]bool
	err    error // the first error
}

// flatten adds the members of an object. A member of an inner object has the name OUTER.INNER.
func (r *record) flatten(prefix string, members map[string]any) {
	for name, value := range members {
		switch value := value.(type) {
		case map[string]any:
			r.flatten(prefix+name+".", value)
		case nil:
			r.fields[prefix+name] = ""
		default:
			r.fields[prefix+name] = fmt.Sprint(value)
		}
	}
}

// text returns the first field that is set.
func (r *record) text(names ...string) (text string) {
	if r.taken == nil {
		r.taken = make(map[string]bool)
	}
	for _, name := range names {
		r.taken[name] = true
		text = cmp.Or(text, r.fields[name])
	}
	return text
}

// number returns the sum of some fields. valid must accept each of them.
func (r *record) number(what string, valid func(float64) bool, names []string) (sum float64) {
	for _, name := range names {
		text := r.text(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseFloat(text, 64) // some exports have 12.0 for 12
		if (err != nil || !valid(n)) && r.err == nil {
			r.err = fmt.Errorf("%s: %q is no %s", name, text, what)
		}
		sum += n
	}
	return sum
}

// count returns a number of tokens or requests.
func (r *record) count(names ...string) int64 {
	return int64(r.number("number of tokens or requests", func(n float64) bool { return n >= 0 && n <= 1e15 && n == math.Trunc(n) }, names))
}

// money returns an amount, which is negative for credits.
func (r *record) money(names ...string) float64 {
	return r.number("amount of money", func(n float64) bool { return math.Abs(n) <= 1e12 }, names)
}

// inDollars sets an error if the currency is not US dollars.
func (r *record) inDollars(names ...string) {
	if currency := r.text(names...); currency != "" && !strings.EqualFold(currency, "usd") && r.err == nil {
		r.err = fmt.Errorf("amounts are in %q: only US dollars can be compared", currency)
	}
}

// day returns the day of the record, which must end on this day.
func (r *record) day() (string, error) {
	from, err := parseTime(r.text("start_time", "starting_at", "usage_date_utc", "start_time_iso"))
	if err != nil {
		return "", err
	}
	if text := r.text("end_time", "ending_at", "end_time_iso"); text != "" {
		until, err := parseTime(text)
		if err != nil {
			return "", err
		}
		if until.Sub(from.Truncate(24*time.Hour)) > 24*time.Hour {
			return "", fmt.Errorf("a bucket from %s to %s is of more than one day: export days (bucket_width=1d), hours or minutes",
				from.Format(time.RFC3339), until.Format(time.RFC3339))
		}
	}
	return from.Format(time.DateOnly), nil
}

// parseTime parses a time in the formats of exports.
func parseTime(text string) (time.Time, error) {
	at, err := time.Time{}, error(nil)
	if seconds, notSeconds := strconv.ParseInt(text, 10, 64); notSeconds == nil {
		at = time.Unix(seconds, 0).UTC()
	} else {
		for _, layout := range []string{time.DateOnly, time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
			if at, err = time.Parse(layout, text); err == nil {
				break
			}
		}
	}
	if at = at.UTC(); err != nil || at.Year() < 2000 || at.Year() > 9999 {
		return at, fmt.Errorf("%q is no time of a bill, such as 2026-11-01 or 2026-11-01T00:00:00Z", text)
	}
	return at, nil
}

// dated matches the end of a model's name with a version:
// gpt-4o-mini-2024-07-18, claude-opus-4-20250514, gpt-4-0613, claude-3-5-haiku-latest.
var dated = regexp.MustCompile(`[-@](20\d\d-[01]\d-[0-3]\d|20\d\d[01]\d[0-3]\d|[01]\d[0-3]\d|latest)$`)

// generation matches the names of Anthropic's older models. Their display names have the
// words in the other order.
var generation = regexp.MustCompile(`^claude-(\d(?:-\d)?)-(opus|sonnet|haiku)$`)

// baseName returns the name of a model without its date. It is the same for all names of
// a model: in definitions, in exports, and display names such as "Claude Haiku 4.5".
func baseName(model string) string {
	name := strings.ToLower(strings.TrimSpace(model))
	if strings.HasPrefix(name, "claude ") {
		name = strings.NewReplacer(" ", "-", ".", "-").Replace(name)
	}
	name = dated.ReplaceAllString(name, "")
	return generation.ReplaceAllString(name, "claude-$2-$1")
}
