package bill

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// csvShape is a CSV file of a console.
type csvShape struct {
	vendor, name string
	marks        []string // the columns by which it is known
	read         func(*csvRow) (line Line, day string)
	others       []string // columns that say nothing about what is compared
}

var csvShapes = []csvShape{
	{OpenAI, "usage of completions (CSV)", []string{"num_model_requests", "input_tokens", "output_tokens"}, readOpenAIUsage, []string{
		"project_id", "project_name", "user_id", "user_email", "api_key_id", "api_key_name", "service_tier", "organization_id", "organization_name", "api_source",
		"input_uncached_tokens", "input_text_tokens", "output_text_tokens", "input_cached_text_tokens", "input_audio_tokens", "input_cached_audio_tokens",
		"output_audio_tokens", "input_image_tokens", "input_cached_image_tokens", "output_image_tokens",
	}},
	{OpenAI, "costs (CSV)", []string{"amount_value", "amount_currency"}, readOpenAICost, []string{
		"quantity", "quantity_unit", "user_id", "user_email", "api_key_id", "api_key_name", "project_id", "project_name", "organization_id", "organization_name", "api_source",
	}},
	{Anthropic, "usage of messages (CSV)", []string{"usage_date_utc", "model_version", "usage_input_tokens_no_cache", "usage_output_tokens"}, readAnthropicUsage, []string{
		"api_key", "workspace", "context_window", "inference_geo", "speed", "web_search_count", "api_key_id", "api_key_status",
	}},
	{Anthropic, "costs (CSV)", []string{"usage_date_utc", "token_type", "cost_usd"}, readAnthropicCost, []string{
		"api_key", "workspace", "context_window", "inference_geo", "speed", "list_price_usd", "api_key_id", "api_key_status",
	}},
}

// csvRow is a row of a CSV file.
type csvRow struct {
	columns map[string]int
	cells   []string
	taken   map[string]bool // the columns that were read, of all rows
	err     error           // the first
}

// take returns a cell, empty where the file has no such column.
func (r *csvRow) take(name string) string {
	r.taken[name] = true
	if i, has := r.columns[name]; has {
		return strings.TrimSpace(r.cells[i])
	}
	return ""
}

func (r *csvRow) count(name string) int64 {
	n, err := parseCount(r.take(name))
	r.fail(name, err)
	return n
}

func (r *csvRow) money(name string) float64 {
	amount, err := parseMoney(r.take(name))
	r.fail(name, err)
	return amount
}

// fail keeps the first error.
func (r *csvRow) fail(name string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", name, err)
	}
}

// parseCSV reads a CSV file.
func parseCSV(in *file) (*Export, error) {
	reader := csv.NewReader(in.text)
	header, err := reader.Read()
	if err != nil {
		return nil, fmt.Errorf("it is neither JSON nor CSV: %w", err)
	}
	row := csvRow{columns: make(map[string]int), taken: make(map[string]bool)}
	for i, name := range header {
		row.columns[strings.ToLower(strings.TrimSpace(name))] = i
	}
	at := slices.IndexFunc(csvShapes, func(s csvShape) bool {
		return !slices.ContainsFunc(s.marks, func(name string) bool { _, has := row.columns[name]; return !has })
	})
	if at < 0 && len(header) == 1 && strings.ContainsAny(header[0], ";\t") {
		return nil, fmt.Errorf("its columns have no commas between: give it as it was exported, or save it with commas: %.300q", header[0])
	}
	if at < 0 {
		return nil, fmt.Errorf("its columns are those of no export that is known: %.300q", strings.Join(header, ", "))
	}
	shape := &csvShapes[at]
	e := &Export{Vendor: shape.vendor, Shape: shape.name}
	reader.ReuseRecord = true
	for {
		in.next()
		if row.cells, err = reader.Read(); errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, csv.ErrFieldCount) && len(row.cells) == 1 && strings.TrimSpace(row.cells[0]) == "" {
			continue // a line of blanks
		}
		if err != nil {
			return nil, err
		}
		number, _ := reader.FieldPos(0)
		line, day := shape.read(&row)
		if row.err != nil {
			return nil, fmt.Errorf("line %d: %w", number, row.err)
		}
		if err := e.covers(day); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if line.Model == "" && !line.some() {
			continue // it only says that nothing was used
		}
		line.Day = day
		e.Lines++
		if err := e.sums.add(&line); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	for _, name := range header {
		if name = strings.ToLower(strings.TrimSpace(name)); !slices.Contains(shape.others, name) && !row.taken[name] && e.Lines > 0 {
			e.notKnown(name)
		}
	}
	return e, nil
}

// openAIDay reads the times of a bucket, as Unix seconds or as text.
func (r *csvRow) openAIDay() string {
	at := func(name string) (time.Time, error) {
		if text := r.take(name); text != "" {
			seconds, err := strconv.ParseInt(text, 10, 64)
			_ = r.take(name + "_iso") // it says the same
			return time.Unix(seconds, 0), err
		}
		if text := r.take(name + "_iso"); text != "" {
			return parseDay(text)
		}
		return time.Time{}, nil
	}
	from, err := at("start_time")
	r.fail("start_time", err)
	until, err := at("end_time")
	r.fail("end_time", err)
	if r.err != nil {
		return ""
	}
	day, err := dayOf(from, until)
	r.fail("start_time", err)
	return day
}

func readOpenAIUsage(r *csvRow) (l Line, day string) {
	l = Line{Model: r.take("model"), HasTokens: true, Requests: r.count("num_model_requests"), Batch: strings.EqualFold(r.take("batch"), "true")}
	l.Tokens[Cached], l.Tokens[Written] = r.count("input_cached_tokens"), r.count("input_cache_write_tokens")
	l.Tokens[Input] = max(r.count("input_tokens")-l.Tokens[Cached]-l.Tokens[Written], 0)
	l.Tokens[Output] = r.count("output_tokens")
	return l, r.openAIDay()
}

func readOpenAICost(r *csvRow) (l Line, day string) {
	l.HasCost = true
	kind := Other
	if item := r.take("line_item"); item != "" {
		l.Model, kind = openAIItem(item)
	}
	r.fail("amount_currency", inDollars(r.take("amount_currency")))
	l.Cost[kind] = r.money("amount_value")
	return l, r.openAIDay()
}

// anthropicDay reads the day of a row.
func (r *csvRow) anthropicDay() (day string) {
	at, err := parseDay(r.take("usage_date_utc"))
	if err == nil {
		day, err = dayOf(at, time.Time{})
	}
	r.fail("usage_date_utc", err)
	return day
}

func readAnthropicUsage(r *csvRow) (l Line, day string) {
	l = Line{Model: r.take("model_version"), HasTokens: true, Batch: strings.EqualFold(r.take("usage_type"), "batch")}
	l.Tokens[Input], l.Tokens[Output] = r.count("usage_input_tokens_no_cache"), r.count("usage_output_tokens")
	l.Tokens[Cached] = r.count("usage_input_tokens_cache_read")
	l.Tokens[Written] = r.count("usage_input_tokens_cache_write_5m") + r.count("usage_input_tokens_cache_write")
	l.Tokens[WrittenHour] = r.count("usage_input_tokens_cache_write_1h")
	return l, r.anthropicDay()
}

func readAnthropicCost(r *csvRow) (l Line, day string) {
	l = Line{HasCost: true, Batch: strings.EqualFold(r.take("usage_type"), "batch")}
	var kind Kind
	l.Model, kind = anthropicCost(r.take("model"), r.take("cost_type"), r.take("token_type"))
	l.Cost[kind] = r.money("cost_usd")
	return l, r.anthropicDay()
}
