package bill

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"time"
)

// pages reads pages of the APIs, one result at a time.
type pages struct {
	in      *file
	decoder *json.Decoder
	e       *Export
	count   int    // of the pages, with the one that is read
	vendor  string // of the last bucket

	// By a hash of what a page says: the pages that were read, as far as maxSums of
	// them go, and the one that is read, with the first of its days that has results.
	seen   map[uint64]bool
	said   maphash.Hash
	someOn string
}

// parseJSON reads pages, one after the other or in lists.
func parseJSON(in *file) (*Export, error) {
	p := &pages{in: in, decoder: json.NewDecoder(in.text), e: new(Export), seen: make(map[uint64]bool)}
	p.said.SetSeed(seed)
	for {
		p.in.next()
		first, err := p.decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, p.unreadable(err)
		}
		if first == json.Delim('[') {
			err = p.each(func() error {
				first, err := p.token()
				if err != nil {
					return err
				}
				return p.page(first)
			})
		} else {
			err = p.page(first)
		}
		if err != nil {
			return nil, err
		}
	}
	e := p.e
	if e.Vendor == "" && p.vendor != "" { // days on which nothing was used
		e.Vendor, e.Shape = p.vendor, quiet
	}
	if e.Vendor == "" {
		return nil, errors.New("no results of usage or costs are in it: it takes pages of OpenAI's /v1/organization/usage/completions and /v1/organization/costs, " +
			"and of Anthropic's /v1/organizations/usage_report/messages and /v1/organizations/cost_report")
	}
	return e, nil
}

// offset returns the position in the file, in bytes.
func (p *pages) offset() int64 { return p.in.skipped + p.decoder.InputOffset() }

// unreadable is the error of text that is no JSON, or that could not be read.
func (p *pages) unreadable(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the JSON can't be read after byte %d: %w", p.offset(), err)
}

// noPage is the error of JSON that is something else.
func (p *pages) noPage(format string, args ...any) error {
	return fmt.Errorf("page %d is no page of usage or costs: %w", p.count, fmt.Errorf(format, args...))
}

// token returns the next token within a value.
func (p *pages) token() (json.Token, error) {
	p.in.next()
	t, err := p.decoder.Token()
	if err != nil {
		return nil, p.unreadable(err)
	}
	return t, nil
}

// decode reads a value, which is small.
func (p *pages) decode(name string, into any) error {
	p.in.next()
	var raw json.RawMessage
	if err := p.decoder.Decode(&raw); err != nil {
		return p.unreadable(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return p.noPage("%s: %w", name, err)
	}
	return nil
}

// skip reads a value of any size, and leaves it out.
func (p *pages) skip() error {
	for depth := 0; ; {
		t, err := p.token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// each reads the elements of a list, or the names of an object's members, up to its
// end. Its beginning has been read. read has to read an element, or a member's value.
func (p *pages) each(read func() error) error {
	for p.decoder.More() {
		if err := read(); err != nil {
			return err
		}
	}
	_, err := p.token()
	return err
}

// members reads the members of an object, whose beginning has been read.
func (p *pages) members(read func(name string) error) error {
	return p.each(func() error {
		t, err := p.token()
		if err != nil {
			return err
		}
		name, _ := t.(string) // nothing else is a name
		return read(name)
	})
}

// list reads a member that is a list, or null.
func (p *pages) list(name string, read func() error) error {
	switch first, err := p.token(); {
	case err != nil:
		return err
	case first == nil:
		return nil
	case first != json.Delim('['):
		return p.noPage("%s is no list", name)
	}
	return p.each(read)
}

// page reads a page of any of the APIs, whose first token has been read.
func (p *pages) page(first json.Token) error {
	p.count++
	if first != json.Delim('{') {
		return p.noPage("it is no object")
	}
	p.e.More = false
	p.someOn = ""
	p.said.Reset()
	if err := p.members(func(name string) error {
		switch name {
		case "data":
			return p.list(name, p.bucket)
		case "has_more":
			return p.decode(name, &p.e.More)
		case "error": // in place of the rest, where the API refused the request
			var refused *struct {
				Message string `json:"message"`
			}
			if err := p.decode(name, &refused); err != nil || refused == nil {
				return err
			}
			return fmt.Errorf("the API refused the request, and gave no page: %q", refused.Message)
		}
		return p.skip()
	}); err != nil {
		return err
	}
	if p.someOn == "" {
		return nil
	}
	said := p.said.Sum64()
	if p.seen[said] && p.e.twice == "" {
		p.e.twice = p.someOn
	}
	if len(p.seen) < maxSums {
		p.seen[said] = true
	}
	return nil
}

// bucket is what has the results of a day.
type bucket struct {
	start, end       *json.Number // OpenAI: Unix seconds
	starting, ending string       // Anthropic: RFC 3339
}

// bucket reads a bucket. Its times may come after its results, as where a tool has
// sorted its members: until they are known the sums have no day.
func (p *pages) bucket() error {
	first, err := p.token()
	if err != nil {
		return err
	}
	if first != json.Delim('{') {
		return p.noPage("a bucket of data is no object")
	}
	var b bucket
	var found sums
	var wrong error // the first result that is, which is told with its day
	at := int64(0)
	if err := p.members(func(name string) error {
		switch name {
		case "start_time":
			return p.decode(name, &b.start)
		case "end_time":
			return p.decode(name, &b.end)
		case "starting_at":
			return p.decode(name, &b.starting)
		case "ending_at":
			return p.decode(name, &b.ending)
		case "results":
			return p.list(name, func() error {
				if wrong != nil {
					return p.skip()
				}
				at = p.offset()
				r, err := p.result()
				if err != nil {
					return err
				}
				wrong = r.addTo(&found, p.e)
				return nil
			})
		}
		return p.skip()
	}); err != nil {
		return err
	}
	day, err := b.day()
	if err != nil {
		return err
	}
	p.vendor = b.vendor()
	if wrong != nil {
		return fmt.Errorf("a result of %s, after byte %d: %w", day, at, wrong)
	}
	if err := p.e.covers(day); err != nil {
		return err
	}
	start := b.starting
	if b.start != nil {
		start = b.start.String()
	}
	for i := range found.list {
		if l := &found.list[i].Line; l.some() {
			p.someOn = cmp.Or(p.someOn, day)
			maphash.WriteComparable(&p.said, start)
			maphash.WriteComparable(&p.said, *l)
		}
	}
	return p.e.sums.addOf(day, &found)
}

// result reads a result.
func (p *pages) result() (*result, error) {
	p.in.next()
	r := new(result)
	var other *json.UnmarshalTypeError
	if err := p.decoder.Decode(&r.fields); errors.As(err, &other) {
		return nil, p.noPage("a result is no object")
	} else if err != nil {
		return nil, p.unreadable(err)
	}
	return r, nil
}

// vendor returns the vendor that writes such buckets.
func (b *bucket) vendor() string {
	if b.start == nil {
		return Anthropic
	}
	return OpenAI
}

// day returns the day of the bucket.
func (b *bucket) day() (string, error) {
	if b.vendor() == Anthropic {
		from, err := parseDay(b.starting)
		if err != nil {
			return "", fmt.Errorf("starting_at: %w", err)
		}
		var until time.Time
		if b.ending != "" {
			if until, err = parseDay(b.ending); err != nil {
				return "", fmt.Errorf("ending_at: %w", err)
			}
		}
		return dayOf(from, until)
	}
	from, err := b.start.Int64()
	if err != nil {
		return "", fmt.Errorf("start_time: %w", err)
	}
	var until time.Time
	if b.end != nil {
		seconds, err := b.end.Int64()
		if err != nil {
			return "", fmt.Errorf("end_time: %w", err)
		}
		until = time.Unix(seconds, 0)
	}
	return dayOf(time.Unix(from, 0), until)
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

// addTo adds the result's line to sums, and what is not known of it to the export.
func (r *result) addTo(found *sums, e *Export) error {
	line, err := r.line(e)
	if err == nil {
		err = r.err
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		e.notKnown(name)
	}
	e.Lines++
	return found.add(&line)
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
