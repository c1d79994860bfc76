package anthropic

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// webSearch is the name of the API's tool that searches the web, and plainSearch its type in
// the version that runs no code.
const (
	webSearch   = "web_search"
	plainSearch = "web_search_20250305"
)

// SearchAPI reports that the API searches the web, see providers.SearchAPI. It can't be kept
// from reaching out.
func (c *Client) SearchAPI(req *providers.Request) string {
	if _, own := req.Extra["tools"]; own || req.Parameters.FromCaller().Search.Cached {
		return ""
	}
	return providers.APIMessages
}

// searchTool is the API's tool that searches the web.
type searchTool struct {
	Type     string          `json:"type"`
	Name     string          `json:"name"`
	MaxUses  int64           `json:"max_uses"`
	Allowed  json.RawMessage `json:"allowed_domains,omitempty"`
	Blocked  json.RawMessage `json:"blocked_domains,omitempty"`
	Location json.RawMessage `json:"user_location,omitempty"`
	Callers  []string        `json:"allowed_callers,omitempty"`
}

// newSearchTool returns the tool. Versions that may be called by code are called by the
// model alone: running code is another tool.
func newSearchTool(s *providers.WebSearch) *searchTool {
	t := &searchTool{
		Type: s.TypeOf(providers.APIMessages, plainSearch), Name: webSearch,
		MaxUses: s.MaxUses, Allowed: s.Allowed, Blocked: s.Blocked, Location: s.Location,
	}
	if t.Type != plainSearch {
		t.Callers = []string{"direct"}
	}
	return t
}

// searching is what a stream knows of its searches and of the text between them. Without
// on, nothing of it is part of the answer.
type searching struct {
	on bool
	// paused reports that the answer ended in a search.
	paused bool
	call   []byte // the block of a search that goes on, without its input
	input  []byte // what there is of that
	text   bool   // the last block was a text
	chars  int    // Unicode code points of the answer so far
	from   int    // of them, before the block
	cites  []*providers.Found
}

// beginSearched takes in a block of content, or the beginning of one.
func (s *stream) beginSearched(b *fastjson.Value) {
	kind := string(b.GetStringBytes("type"))
	text := kind == "text"
	if s.search.from = s.search.chars; text && s.search.text {
		s.Lookahead.Say(providers.Delta{Found: &providers.Found{Kind: providers.FoundText}})
	}
	s.search.text = text
	switch kind {
	case "text":
		for _, c := range b.GetArray("citations") {
			s.cite(c)
		}
	case "server_tool_use":
		s.said = true
		s.search.call, s.search.input = jsontext.AppendValue(nil, b), nil
	case "web_search_tool_result":
		s.said = true
		f := &providers.Found{Kind: providers.FoundResults, API: providers.APIMessages, ID: s.Text(b.Get("tool_use_id"))}
		for _, r := range b.GetArray("content") {
			f.Sources = append(f.Sources, providers.Source{URL: s.Text(r.Get("url")), Title: s.Text(r.Get("title")), Age: s.Text(r.Get("page_age"))})
		}
		f.Raw = string(jsontext.AppendValue(nil, b))
		s.Lookahead.Say(providers.Delta{Found: f})
	}
}

// cite keeps a citation until the end of its block, up to which it goes.
func (s *stream) cite(c *fastjson.Value) {
	const most = 1000 // of a block
	if !s.search.on || string(c.GetStringBytes("type")) != "web_search_result_location" || len(s.search.cites) == most {
		return
	}
	s.search.cites = append(s.search.cites, &providers.Found{
		Kind: providers.FoundCitation, API: providers.APIMessages, Cited: s.Text(c.Get("cited_text")), Raw: string(jsontext.AppendValue(nil, c)),
		Sources: []providers.Source{{URL: s.Text(c.Get("url")), Title: s.Text(c.Get("title"))}},
	})
}

// endSearched ends a block.
func (s *stream) endSearched() {
	for _, f := range s.search.cites {
		f.From, f.To = s.search.from, s.search.chars
		s.Lookahead.Say(providers.Delta{Found: f})
	}
	s.search.cites = nil
	if s.search.call == nil {
		return
	}
	block, err := fastjson.ParseBytes(s.search.call)
	if input, bad := fastjson.ParseBytes(s.search.input); err == nil && bad == nil && len(bytes.TrimSpace(s.search.input)) > 0 {
		block.Set("input", input)
	}
	s.search.call = nil
	s.Lookahead.Say(providers.Delta{Found: &providers.Found{
		Kind: providers.FoundCall, API: providers.APIMessages, Raw: string(jsontext.AppendValue(nil, block)),
		ID: s.Text(block.Get("id")), Query: s.Text(block.Get("input", "query")),
	}})
}

// counted counts the characters of a text.
func (s *searching) counted(text []byte) {
	if s.on {
		s.chars += utf8.RuneCount(text)
	}
}
