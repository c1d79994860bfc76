package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// export has the contents of a vendor's file.
type export struct {
	Name    string   `json:"name"`
	Vendor  string   `json:"vendor"`
	Shape   string   `json:"shape"` // empty: it has no results, so its shape is unknown
	First   string   `json:"first"` // its first day, with or without lines; empty: it has no days
	Last    string   `json:"last"`
	Lines   int      `json:"lines"`             // results or rows
	Unknown []string `json:"unknown,omitempty"` // members or columns
	More    bool     `json:"more,omitempty"`    // there are more pages after its last one
	Twice   bool     `json:"twice,omitempty"`   // it has a page twice

	costs bool // it is of costs, not of usage
	lines map[lineKey]*counts
}

// lineKey is a day, and a model or another item of a bill.
type lineKey struct {
	day, model string // model is empty if the export has only the sum of all models
	batch      bool
}

// parse reads a file: pages of the APIs for usage and costs as JSON, or a CSV file of a
// console. It keeps one sum for each model and day, and no more text than one page or row.
func (e *export) parse(in io.Reader) error {
	e.lines = make(map[lineKey]*counts)
	text := bufio.NewReader(in)
	if mark, _ := text.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = text.Discard(len(mark)) // never fails after Peek
	}
	head, err := text.Peek(1000)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	begin := bytes.TrimLeft(head, " \t\r\n")
	switch {
	case len(begin) == 0:
		return errors.New("the file is empty")
	case bytes.IndexByte(head, 0) >= 0:
		return errors.New("the file is no text in UTF-8: give it as it was exported, or save it as CSV in UTF-8")
	case begin[0] == '{', begin[0] == '[':
		return e.parseJSON(text)
	}
	return e.parseCSV(text)
}

// page is a page of any of the APIs.
type page struct {
	Data []struct {
		Start    json.Number      `json:"start_time"` // OpenAI: Unix seconds
		End      json.Number      `json:"end_time"`
		Starting string           `json:"starting_at"` // Anthropic: RFC 3339
		Ending   string           `json:"ending_at"`
		Results  []map[string]any `json:"results"`
	} `json:"data"`
	More  bool `json:"has_more"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"` // the only member if the API refused the request
}

// parseJSON reads pages, one after the other or in lists.
func (e *export) parseJSON(in io.Reader) error {
	seen := make(map[[sha256.Size]byte]bool)
	for decoder := json.NewDecoder(in); ; {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("the JSON can't be read after byte %d: %w", decoder.InputOffset(), err)
		}
		pages := []json.RawMessage{raw}
		if raw[0] == '[' {
			if err := json.Unmarshal(raw, &pages); err != nil {
				return err
			}
		}
		for _, text := range pages {
			lines := e.Lines
			if err := e.page(text); err != nil {
				return err
			}
			sum := sha256.Sum256(text)
			e.Twice = e.Twice || seen[sum] && e.Lines > lines
			seen[sum] = true
		}
	}
	if e.Vendor == "" {
		return errors.New("no results of usage or costs are in it: it takes pages of OpenAI's /v1/organization/usage/completions and /v1/organization/costs, " +
			"and of Anthropic's /v1/organizations/usage_report/messages and /v1/organizations/cost_report")
	}
	return nil
}

// page reads a page.
func (e *export) page(text []byte) error {
	var p page
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&p); err != nil {
		return fmt.Errorf("it has a page that is none of usage or costs: %w", err)
	}
	if p.Error != nil {
		return fmt.Errorf("the API refused the request, and gave no page: %q", p.Error.Message)
	}
	e.More = p.More
	for _, b := range p.Data {
		times := map[string]string{"start_time": b.Start.String(), "end_time": b.End.String(), "starting_at": b.Starting, "ending_at": b.Ending}
		day, err := (&record{fields: times}).day()
		if err != nil {
			return err
		}
		e.covers(day)
		if e.Vendor == "" {
			e.Vendor = anthropic
			if b.Start != "" {
				e.Vendor = openAI
			}
		}
		for _, result := range b.Results {
			r := &record{fields: maps.Clone(times)}
			r.flatten("", result)
			if err := e.add(r); err != nil {
				return fmt.Errorf("a result of %s: %w", day, err)
			}
		}
	}
	return nil
}

// parseCSV reads a CSV file.
func (e *export) parseCSV(in io.Reader) error {
	reader := csv.NewReader(in)
	header, err := reader.Read()
	if err != nil {
		return fmt.Errorf("it is neither JSON nor CSV: %w", err)
	}
	for i, name := range header {
		header[i] = strings.ToLower(strings.TrimSpace(name))
	}
	if shapeOf(header) == nil {
		return fmt.Errorf("its columns are of no export that is known: %.300q", strings.Join(header, ", "))
	}
	for {
		row, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r := &record{fields: make(map[string]string)}
		for i, name := range header {
			r.fields[name] = strings.TrimSpace(row[i])
		}
		if err := e.add(r); err != nil {
			number, _ := reader.FieldPos(0)
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
}

// covers adds a day of the export.
func (e *export) covers(day string) {
	if e.First == "" || day < e.First {
		e.First = day
	}
	e.Last = max(e.Last, day)
}

// namedUnknown is the maximum number of unknown members that are named.
const namedUnknown = 20

// add adds a result of a page, or a row.
func (e *export) add(r *record) error {
	names := slices.Sorted(maps.Keys(r.fields))
	s := shapeOf(names)
	if s == nil {
		return fmt.Errorf("it is of no API that is known, or of calls that the gateway does not make: it has %.300q", strings.Join(names, ", "))
	}
	if e.Shape == "" {
		e.Vendor, e.Shape, e.costs = s.vendor, s.name, s.costs
	}
	if e.Vendor != s.vendor || e.Shape != s.name {
		return fmt.Errorf("%s's %s after %s's %s: give each in a file of its own", s.vendor, s.name, e.Vendor, e.Shape)
	}
	var key lineKey
	var line counts
	key.model, key.batch, line = s.read(r)
	day, err := r.day()
	if err := errors.Join(r.err, err); err != nil {
		return err
	}
	e.covers(day)
	if key.model == "" && line == (counts{}) {
		return nil // nothing was used
	}
	key.day = day
	e.Lines++
	for _, name := range names {
		if known := r.taken[name] || s.ignores(name); !known && len(e.Unknown) < namedUnknown && !slices.Contains(e.Unknown, name) {
			e.Unknown = append(e.Unknown, name)
		}
	}
	sum := e.lines[key]
	if sum == nil {
		sum = new(counts)
		key.model = strings.Clone(key.model) // a cell refers to its whole row
		e.lines[key] = sum
	}
	sum.add(&line)
	return nil
}
