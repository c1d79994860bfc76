package providers

import (
	"encoding/json"
	"slices"
)

// The APIs whose own JSON of a search goes from callers to providers and back as it is.
const (
	APIMessages  = "messages"  // Anthropic's
	APIResponses = "responses" // OpenAI's
)

// WebSearch is a tool that the provider runs itself: it searches the web for its answer.
type WebSearch struct {
	// Version is the type of the tool in API, the caller's. Other APIs get a type of theirs.
	Version, API string
	// MaxUses bounds how often the provider searches; it is never 0.
	MaxUses int64
	// Allowed are the only domains of results, Blocked domains of which none come: lists of
	// texts. Location is where the user is: {"type":"approximate","city":…}. The APIs have
	// them alike, and each is nil where the caller has none.
	Allowed, Blocked, Location json.RawMessage
	// ContextSize is how much the model reads of results: low, medium, high, or empty.
	ContextSize string
	// Cached has the provider read its own copies of pages alone, and never reach out.
	Cached bool
	// Sources asks for the pages that were found, where the answer may be without.
	Sources bool
}

// DefaultSearches is WebSearch.MaxUses where the caller gives no other.
const DefaultSearches = 10

// TypeOf returns the tool's type in an API, which is other unless the caller speaks it.
func (s *WebSearch) TypeOf(api, other string) string {
	if s.API == api {
		return s.Version
	}
	return other
}

// FoundKind is a kind of Found.
type FoundKind uint8

// The kinds of what a search adds to an answer.
const (
	// FoundCall is a search, with ID and Query.
	FoundCall FoundKind = iota + 1
	// FoundResults are the Sources of the search with an ID.
	FoundResults
	// FoundText begins a text that is apart from the one before it.
	FoundText
	// FoundCitation says that the answer's characters (Unicode code points) from From to
	// before To rest on Sources[0], which says Cited.
	FoundCitation
)

// Found is what a search adds to an answer, in its place between thoughts and text.
type Found struct {
	Kind      FoundKind
	ID, Query string
	Sources   []Source
	From, To  int
	Cited     string
	// Raw is the JSON of it in API, where that has a JSON of its own. It goes to callers of
	// the API as it is, and comes back as Part.Raw.
	Raw, API string
	// Opaque is Raw for the history of callers of another API, see Part.Opaque.
	Opaque string
	// Before and Thoughts are how much came before it: bytes of content, and thoughts.
	Before, Thoughts int
}

// Source is a page that a search found.
type Source struct{ URL, Title, Age string }

// Size returns the bytes of its texts.
func (f *Found) Size() int {
	size := len(f.ID) + len(f.Query) + len(f.Cited) + len(f.Raw)
	for _, s := range f.Sources {
		size += len(s.URL) + len(s.Title) + len(s.Age)
	}
	return size
}

// SearchAPI returns the API in which p would run the search of a request; empty: it runs
// none. A provider that searches has a method SearchAPI(*Request) string.
func SearchAPI(p Provider, req *Request) string {
	if s, ok := p.(interface{ SearchAPI(req *Request) string }); ok {
		return s.SearchAPI(req)
	}
	return ""
}

// FitSearch removes from the request what it has of searches and p can't use. It returns the
// names of that for Result.LeftOut: web_search, tool_choice, and web_search_results for
// parts of the history, which go with the tool alone.
func (r *Request) FitSearch(p Provider) (lost []string) {
	c, api := r.Parameters.FromCaller(), ""
	if c.Search != nil {
		if api = SearchAPI(p, r); api == "" {
			lost = append(lost, "web_search")
			c.Search = nil
			if choice := r.Parameters.ToolChoice; choice != nil && (choice.Mode == ToolsSearch || choice.Mode == ToolsRequired && len(r.Parameters.Tools) == 0) {
				lost = append(lost, "tool_choice")
				r.Parameters.ToolChoice = nil
			}
			r.Prepared = nil
		}
	}
	if c.Searched != "" && c.Searched != api {
		lost = append(lost, "web_search_results")
		c.Searched, r.Messages = "", Unsearched(r.Messages)
	}
	r.Parameters.Caller = &c
	return lost
}

// Unsearched returns messages without what searches have left in them. The messages
// themselves are not changed.
func Unsearched(messages []Message) []Message {
	searched := func(p Part) bool { return p.Raw != "" }
	own := slices.Clone(messages)
	for i := range own {
		m := &own[i]
		if !slices.ContainsFunc(m.Parts, searched) {
			continue
		}
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), func(p Part) bool { return p.Kind == PartFound })
		for j := range m.Parts {
			m.Parts[j].Raw = ""
		}
		if len(m.Parts) == 0 || len(m.Parts) == 1 && m.Parts[0].Kind == PartText && m.Parts[0].Cache == 0 {
			m.Content, m.Parts = textOf(m.Parts), nil
		}
	}
	return own
}
