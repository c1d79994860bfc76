package bill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Parse reads a file: pages of the APIs for usage and costs as JSON, one after the
// other or in a list, or a CSV file of a console.
func Parse(data []byte) (*Export, error) {
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	switch {
	case len(data) == 0:
		return nil, errors.New("the file is empty")
	case bytes.IndexByte(data[:min(len(data), 1000)], 0) >= 0:
		return nil, errors.New("the file is no text in UTF-8: give it as it was exported, or save it as CSV in UTF-8")
	}
	if data[0] == '{' || data[0] == '[' {
		return parseJSON(data)
	}
	return parseCSV(data)
}

// page is a page of any of the APIs.
type page struct {
	Data    []bucket `json:"data"`
	HasMore bool     `json:"has_more"`

	// Error is in place of the rest where the API refused the request.
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// bucket has the results of a day.
type bucket struct {
	Start    *json.Number `json:"start_time"` // OpenAI: Unix seconds
	End      *json.Number `json:"end_time"`
	Starting string       `json:"starting_at"` // Anthropic: RFC 3339
	Ending   string       `json:"ending_at"`

	Results []map[string]json.RawMessage `json:"results"`
}

// vendor returns the vendor that writes such buckets.
func (b *bucket) vendor() string {
	if b.Start == nil {
		return Anthropic
	}
	return OpenAI
}

// day returns the day of the bucket.
func (b *bucket) day() (string, error) {
	if b.vendor() == Anthropic {
		from, err := parseDay(b.Starting)
		if err != nil {
			return "", fmt.Errorf("starting_at: %w", err)
		}
		var until time.Time
		if b.Ending != "" {
			if until, err = parseDay(b.Ending); err != nil {
				return "", fmt.Errorf("ending_at: %w", err)
			}
		}
		return dayOf(from, until)
	}
	from, err := b.Start.Int64()
	if err != nil {
		return "", fmt.Errorf("start_time: %w", err)
	}
	var until time.Time
	if b.End != nil {
		seconds, err := b.End.Int64()
		if err != nil {
			return "", fmt.Errorf("end_time: %w", err)
		}
		until = time.Unix(seconds, 0)
	}
	return dayOf(time.Unix(from, 0), until)
}

// parseJSON reads pages.
func parseJSON(data []byte) (*Export, error) {
	e, vendor := new(Export), ""
	decoder := json.NewDecoder(bytes.NewReader(data))
	for n := 1; ; n++ {
		var text json.RawMessage
		if err := decoder.Decode(&text); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("the JSON can't be read: %w", err)
		}
		var pages []page
		if text[0] == '[' {
			if err := json.Unmarshal(text, &pages); err != nil {
				return nil, fmt.Errorf("the list is not one of pages: %w", err)
			}
		} else {
			var one page
			if err := json.Unmarshal(text, &one); err != nil {
				return nil, fmt.Errorf("page %d is no page of usage or costs: %w", n, err)
			}
			pages = []page{one}
		}
		for i := range pages {
			p := &pages[i]
			if p.Error != nil {
				return nil, fmt.Errorf("the API refused the request, and gave no page: %q", p.Error.Message)
			}
			if err := e.addPage(p); err != nil {
				return nil, err
			}
			if len(p.Data) > 0 {
				vendor = p.Data[0].vendor()
			}
		}
	}
	if e.Vendor == "" && vendor != "" { // days on which nothing was used
		e.Vendor, e.Shape = vendor, quiet
	}
	if e.Vendor == "" {
		return nil, errors.New("no results of usage or costs are in it: it takes pages of OpenAI's /v1/organization/usage/completions and /v1/organization/costs, " +
			"and of Anthropic's /v1/organizations/usage_report/messages and /v1/organizations/cost_report")
	}
	return e, nil
}

func (e *Export) addPage(p *page) error {
	e.More = p.HasMore
	for i := range p.Data {
		b := &p.Data[i]
		day, err := b.day()
		if err != nil {
			return err
		}
		if err := e.covers(day); err != nil {
			return err
		}
		for _, fields := range b.Results {
			r := result{fields: fields}
			line, err := r.line(e)
			if err == nil {
				err = r.err
			}
			if err != nil {
				return fmt.Errorf("a result of %s: %w", day, err)
			}
			for _, name := range slices.Sorted(maps.Keys(r.fields)) {
				e.notKnown(name)
			}
			line.Day = day
			e.Lines++
			if err := e.sums.add(&line); err != nil {
				return err
			}
		}
	}
	return nil
}

// of says which vendor and shape the export has, and refuses another one after it.
func (e *Export) of(vendor, shape string) error {
	if e.Vendor == "" {
		e.Vendor, e.Shape = vendor, shape
	}
	if e.Vendor != vendor || e.Shape != shape {
		return fmt.Errorf("%s's %s after %s's %s: give each in a file of its own", vendor, shape, e.Vendor, e.Shape)
	}
	return nil
}

// result is a result of a page. What is read of it is taken out.
type result struct {
	fields map[string]json.RawMessage
	err    error // the first
}

// take returns a member as text, empty for none and for null.
func (r *result) take(name string) string {
	raw := r.fields[name]
	delete(r.fields, name)
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if raw[0] != '"' {
		return string(raw)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", name, err)
	}
	return text
}

func (r *result) count(name string) int64 {
	n, err := parseCount(r.take(name))
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", name, err)
	}
	return n
}

// object returns a member that is an object.
func (r *result) object(name string) *result {
	o := result{}
	if raw := r.fields[name]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &o.fields); err != nil && r.err == nil {
			r.err = fmt.Errorf("%s is no object: %w", name, err)
		}
	}
	delete(r.fields, name)
	return &o
}

// also adds what is not known of an object that was taken out of the result.
func (r *result) also(name string, o *result) {
	if o.err != nil && r.err == nil {
		r.err = fmt.Errorf("%s.%w", name, o.err)
	}
	for member, raw := range o.fields {
		r.fields[name+"."+member] = raw
	}
}

// drop leaves members out that say nothing about what is compared.
func (r *result) drop(names ...string) {
	for _, name := range names {
		delete(r.fields, name)
	}
}

// line reads the result of any shape.
func (r *result) line(e *Export) (Line, error) {
	object := r.take("object")
	switch {
	case object == "organization.usage.completions.result":
		return r.openAIUsage(), e.of(OpenAI, "usage of completions")
	case object == "organization.costs.result":
		return r.openAICost(), e.of(OpenAI, "costs")
	case object != "":
		return Line{}, fmt.Errorf("the gateway makes no calls of which there is %s: leave this export out", object)
	case r.fields["uncached_input_tokens"] != nil:
		return r.anthropicUsage(), e.of(Anthropic, "usage of messages")
	case r.fields["amount"] != nil:
		return r.anthropicCost(), e.of(Anthropic, "costs")
	}
	return Line{}, errors.New("it is one of no API that is known: it has neither an object, nor uncached_input_tokens, nor an amount")
}

func (r *result) openAIUsage() Line {
	l := Line{Model: r.take("model"), HasTokens: true, Requests: r.count("num_model_requests"), Batch: r.take("batch") == "true"}
	l.Tokens[Cached], l.Tokens[Written] = r.count("input_cached_tokens"), r.count("input_cache_write_tokens")
	l.Tokens[Input] = max(r.count("input_tokens")-l.Tokens[Cached]-l.Tokens[Written], 0)
	l.Tokens[Output] = r.count("output_tokens")
	r.drop("project_id", "user_id", "api_key_id", "service_tier", "organization_id", "input_uncached_tokens", "input_text_tokens", "output_text_tokens",
		"input_cached_text_tokens", "input_audio_tokens", "input_cached_audio_tokens", "output_audio_tokens", "input_image_tokens", "input_cached_image_tokens", "output_image_tokens")
	return l
}

func (r *result) openAICost() Line {
	l := Line{HasCost: true}
	amount := r.object("amount")
	kind := Other
	if item := r.take("line_item"); item != "" {
		l.Model, kind = openAIItem(item)
	}
	value, err := parseMoney(amount.take("value"))
	r.fail("amount.value", err)
	r.fail("amount.currency", inDollars(amount.take("currency")))
	r.also("amount", amount)
	l.Cost[kind] = value
	r.drop("project_id", "project_name", "organization_id", "organization_name", "api_key_id", "user_id", "quantity", "quantity_unit")
	return l
}

func (r *result) anthropicUsage() Line {
	l := Line{Model: r.take("model"), HasTokens: true, Batch: r.take("service_tier") == "batch"}
	l.Tokens[Input], l.Tokens[Cached], l.Tokens[Output] = r.count("uncached_input_tokens"), r.count("cache_read_input_tokens"), r.count("output_tokens")
	written := r.object("cache_creation")
	l.Tokens[Written], l.Tokens[WrittenHour] = written.count("ephemeral_5m_input_tokens"), written.count("ephemeral_1h_input_tokens")
	r.also("cache_creation", written)
	r.drop("api_key_id", "workspace_id", "context_window", "inference_geo", "speed", "server_tool_use", "account_id", "service_account_id")
	return l
}

func (r *result) anthropicCost() Line {
	l := Line{HasCost: true}
	var kind Kind
	l.Model, kind = anthropicCost(r.take("model"), r.take("cost_type"), r.take("token_type"))
	cents, err := parseMoney(r.take("amount")) // "123.45" is $1.2345
	r.fail("amount", err)
	r.fail("currency", inDollars(r.take("currency")))
	l.Cost[kind] = cents / 100
	l.Batch = r.take("service_tier") == "batch"
	r.drop("description", "workspace_id", "context_window", "inference_geo", "speed", "list_amount", "product", "requests")
	return l
}

// fail keeps the first error.
func (r *result) fail(name string, err error) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", name, err)
	}
}
