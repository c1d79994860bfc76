package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
)

// tracesPage is the list of traces that pass a filter.
type tracesPage struct {
	filter
	listAnswer
	Sort    string
	Older   string // the link to the next rows; empty: there are none
	Problem string // why the filter is refused
	Live    bool   // it is the first page, which new traces come to
	Export  string // the address of the list as JSON lines
	Editor  bool   // the visitor may see content
}

// filterField is a field of a filter's form.
type filterField struct{ Name, Label, Value, Hint string }

// filter is a form that narrows what a page shows, as it was filled in.
type filter struct {
	page    url.Values // the query of the page
	Filters []filterField
	Changed bool       // a field was given
	query   url.Values // the same for the API
	flags   string     // the same for the command line
}

// filter reads a form. Fields that are not given have their usual values. Each other parameter
// but those in more is a field, too: the API refuses what it does not have.
func (v *visit) filter(fields []filterField, more ...string) filter {
	for _, name := range slices.Sorted(maps.Keys(v.query)) {
		if !slices.Contains(more, name) && !slices.ContainsFunc(fields, func(f filterField) bool { return f.Name == name }) {
			fields = append(fields, filterField{Name: name, Label: name})
		}
	}
	f := filter{page: v.query, query: make(url.Values)}
	for _, field := range fields {
		if v.query.Has(field.Name) {
			field.Value = strings.TrimSpace(v.query.Get(field.Name))
			f.Changed = true
		}
		f.Filters = append(f.Filters, field)
		if field.Value != "" {
			f.query.Set(field.parameter())
			name, member, within := strings.Cut(field.Name, ".") // metadata.user
			f.flags += " --" + strings.ReplaceAll(name, "_", "-")
			switch {
			case within:
				f.flags += " " + shellWord(member+"="+field.Value)
			case name != "fallback": // this flag takes no value
				f.flags += " " + shellWord(field.Value)
			}
		}
	}
	return f
}

// filterFields are the fields of the form. The command takes the same as flags.
var filterFields = []filterField{
	{"since", "since", "24h", "90m, 7d or 2026-01-31"},
	{"until", "until", "", "now"},
	{"kind", "kind", "", "prompt, endpoint, remoteconfig"},
	{"key", "key", "", "support_chat"},
	{"api_key", "API key", "", "app"},
	{"row", "row", "", ""},
	{"variant", "variant", "", ""},
	{"arm", "arm", "", ""},
	{"provider", "provider", "", "openai"},
	{"model", "model", "", ""},
	{"status", "status", "", "ok, error or 502"},
	{"slower", "took at least", "", "2s"},
	{"score", "score", "", "..50"},
	{"label", "label", "", ""},
	{"conversation_id", "conversation", "", ""},
	{"chain_id", "chain", "", ""},
	{"metadata", "metadata", "", "user=u-1"},
	{"field", "field", "", "a field's value"},
}

// rareFields are those that are folded away until one is used.
var rareFields = []filterField{
	{"code", "error code", "", "upstream_error"},
	{"state", "state", "", "interrupted"},
	{"finish_reason", "finish reason", "", "length"},
	{"attempts", "attempts at least", "", "2"},
	{"fallback", "fallback", "", "true"},
	{"decision", "decision", "", ""},
	{"version", "version", "", ""},
	{"revision", "revision", "", ""},
}

// Usual returns the fields that are in sight.
func (p *tracesPage) Usual() []filterField { return p.Filters[:len(filterFields)] }

// Rare returns the other fields, with those that the address alone has.
func (p *tracesPage) Rare() []filterField { return p.Filters[len(filterFields):] }

// RareUsed reports whether one of them has a value.
func (p *tracesPage) RareUsed() bool {
	return slices.ContainsFunc(p.Rare(), func(f filterField) bool { return f.Value != "" })
}

func buildTraces(v *visit) (any, error) {
	p := &tracesPage{filter: v.filter(slices.Concat(filterFields, rareFields), "sort", "before", "limit", "follow", "wait", "format"), Sort: v.query.Get("sort"), Live: !v.query.Has("before")}
	v.Command = "caddy cadenza traces" + p.flags
	if p.Sort != "" {
		p.Changed = true
		v.Command += " --sort " + shellWord(p.Sort)
	}
	query := with(p.query, "limit", "50", "sort", p.Sort, "before", v.query.Get("before"))
	p.Export = prefix + "api/traces?" + with(query, "limit", strconv.Itoa(adminapi.MaxTraces), "format", "jsonl").Encode()
	p.Editor = v.Visitor.Role.Covers(gateway.RoleEditor)
	var err error
	p.Problem, err = refused(v.ask("traces", query, &p.listAnswer))
	if p.Next != "" {
		p.Older = prefix + "traces?" + with(v.query, "before", p.Next).Encode()
	}
	return p, err
}

// listAnswer is a page of the list of the API.
type listAnswer struct {
	Traces []adminapi.ListedTrace `json:"traces"`
	Next   string                 `json:"next"`
	// Complete reports whether the search looked at all traces. Otherwise it stopped
	// after a while, and goes on with Next.
	Complete bool `json:"complete"`
}

// with returns a query with other values of some names. An empty value removes the name.
func with(query url.Values, pairs ...string) url.Values {
	query = maps.Clone(query)
	for i := 0; i < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
		if pairs[i+1] == "" {
			query.Del(pairs[i])
		}
	}
	return query
}

// Sorted returns the address of the page sorted by a column.
func (p *tracesPage) Sorted(by string) string {
	return prefix + "traces?" + with(p.page, "sort", by, "before", "").Encode()
}

// parameter returns the parameter of the API that a field stands for.
func (f *filterField) parameter() (name, value string) {
	if within := map[string]string{"metadata": adminapi.MetadataParameter, "field": adminapi.InputParameter}[f.Name]; within != "" {
		member, of, _ := strings.Cut(f.Value, "=")
		return within + strings.TrimSpace(member), of
	}
	return f.Name, f.Value
}

// shellWord quotes a word for a shell, if that is necessary.
func shellWord(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@+"
	if strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// trouble returns how much the outcome of a trace needs somebody: bad, warn or nothing.
func trouble(r *trace.Record) string {
	switch {
	case r.Code != "" || r.State == trace.StateInterrupted || r.Status >= 400:
		return "bad"
	case r.FinishReason == "length" || r.FinishReason == "content_filter":
		return "warn"
	}
	return ""
}

// outcome returns the status of a trace with its error or with how its answer ended.
func outcome(r *trace.Record) string {
	text := ""
	if r.Status != 0 {
		text = strconv.Itoa(r.Status)
	}
	switch {
	case r.State != trace.StateEnded:
		text = r.State.String()
	case r.Code != "":
		text += " " + r.Code
	case trouble(r) == "warn":
		text += " " + r.FinishReason
	}
	if r.Cached {
		text += " cached"
	}
	if r.Answers > 0 {
		text += " ×" + strconv.Itoa(r.Answers)
	}
	return strings.TrimSpace(text)
}

// why returns in a few words what made a trace take its time or fail.
func why(t *trace.Record) string {
	retries, waited := 0, time.Duration(0)
	for i := range t.Attempts {
		a := &t.Attempts[i]
		waited += a.Wait
		if a.Code != "" {
			retries++
		}
	}
	last := len(t.Attempts) - 1
	switch {
	case last >= 0 && t.Code != "" && t.Attempts[last].Code != "":
		return t.Attempts[last].Code + ": " + t.Attempts[last].Error
	case retries > 0 && waited > 0:
		return countOf(retries, "failed attempt") + ", waited " + took(waited)
	case retries > 0:
		return countOf(retries, "failed attempt")
	}
	return ""
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(int64(n)) + " " + what + "s"
}
