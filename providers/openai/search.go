package openai

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// webSearch is the type of the Responses API's tool that searches the web.
const webSearch = "web_search"

// searchCall is the type of the item that a search is.
const searchCall = "web_search_call"

// SearchAPI reports whether the Responses API searches the web for a request, see
// providers.SearchAPI. It can leave no domains out.
func (c *Client) SearchAPI(req *providers.Request) string {
	if _, own := req.Extra["tools"]; own || req.Parameters.FromCaller().Search.Blocked != nil || !c.responds(req) {
		return ""
	}
	return providers.APIResponses
}

// searchTool is the API's tool that searches the web.
type searchTool struct {
	Type        string                     `json:"type"`
	Filters     map[string]json.RawMessage `json:"filters,omitempty"`
	ContextSize string                     `json:"search_context_size,omitempty"`
	Location    json.RawMessage            `json:"user_location,omitempty"`
	Reaches     *bool                      `json:"external_web_access,omitempty"`
}

func newSearchTool(s *providers.WebSearch) *searchTool {
	t := &searchTool{Type: s.TypeOf(providers.APIResponses, webSearch), ContextSize: s.ContextSize, Location: s.Location}
	if s.Allowed != nil {
		t.Filters = map[string]json.RawMessage{"allowed_domains": s.Allowed}
	}
	if s.Cached {
		t.Reaches = new(bool)
	}
	return t
}

// searched takes in a search that has ended. Pages that the model opens cost nothing.
func (s *responseStream) searched(item *fastjson.Value) {
	action := item.Get("action")
	if kind := string(action.GetStringBytes("type")); kind == "" || kind == "search" {
		s.result.Usage.WebSearches++
	}
	if !s.searches {
		return
	}
	f := providers.Found{Kind: providers.FoundCall, API: providers.APIResponses, ID: s.Text(item.Get("id")), Query: s.Text(action.Get("query"))}
	if f.Query == "" {
		f.Query = s.Text(action.Get("url"))
	}
	results := f
	results.Kind = providers.FoundResults
	for _, source := range action.GetArray("sources") {
		if url := s.Text(source.Get("url")); url != "" {
			results.Sources = append(results.Sources, providers.Source{URL: url})
		}
	}
	f.Raw = string(jsontext.AppendValue(nil, item))
	s.Lookahead.Say(providers.Delta{Found: &f})
	s.Lookahead.Say(providers.Delta{Found: &results})
}

// cite takes in the citations of a part of a message that is whole.
func (s *responseStream) cite(part *fastjson.Value) {
	if !s.searches {
		return
	}
	said := utf8.RuneCount(part.GetStringBytes("text"))
	from := max(s.chars-said, 0)
	for _, a := range part.GetArray("annotations") {
		if string(a.GetStringBytes("type")) != "url_citation" {
			continue
		}
		begin, end := min(max(a.GetInt("start_index"), 0), said), min(max(a.GetInt("end_index"), 0), said)
		s.Lookahead.Say(providers.Delta{Found: &providers.Found{
			Kind: providers.FoundCitation, API: providers.APIResponses, From: from + begin, To: from + max(begin, end),
			Sources: []providers.Source{{URL: s.Text(a.Get("url")), Title: s.Text(a.Get("title"))}},
		}})
	}
}

// appendSaid appends the content of a text of the assistant's: the text, or a part with its
// citations.
func appendSaid(body []byte, p *providers.Part) []byte {
	if p.Raw == "" {
		return p.Text.Append(body)
	}
	body = append(append(body, `[{"type":"output_text","annotations":`...), p.Raw...)
	return append(p.Text.Append(append(body, `,"text":`...)), "}]"...)
}
