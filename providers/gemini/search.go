package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// api names the API in which searches are run, see providers.SearchAPI. No caller speaks it.
const api = "generateContent"

// SearchAPI reports whether the model searches the web for a request, see
// providers.SearchAPI. It can't be kept to some domains or to copies of pages, Vertex AI
// alone leaves domains out, and models before Gemini 3 do not search for an answer in JSON.
// Those from Gemini 3 on search beside functions, with Google AI alone.
func (c *Client) SearchAPI(req *providers.Request) string {
	p := &req.Parameters
	s, generation := p.FromCaller().Search, generationOf(req.Model)
	_, own := req.Extra["tools"]
	_, ownConfig := req.Extra["toolConfig"]
	switch {
	case own, generation < 2, s.Allowed != nil, s.Cached, s.Blocked != nil && !c.vertex(),
		generation < 3 && p.ResponseFormat != nil && p.ResponseFormat.Type != providers.FormatText,
		len(p.Tools) > 0 && (generation < 3 || c.vertex() || ownConfig):
		return ""
	}
	return api
}

// searchTool is the API's tool that searches the web.
type searchTool struct {
	Blocked json.RawMessage `json:"excludeDomains,omitempty"`
}

// searches returns the search that a request runs: nil if it asks for none, or for no tool
// to be called.
func searches(p *providers.Parameters) *providers.WebSearch {
	if p.ToolChoice != nil && p.ToolChoice.Mode == providers.ToolsNone {
		return nil
	}
	return p.FromCaller().Search
}

// combines reports whether a request has a search beside functions. The API then shows the
// parts that are its own, and wants them back.
func combines(p *providers.Parameters) bool { return len(p.Tools) > 0 && searches(p) != nil }

// ofPart begins the opaque data of a part of the API's own, as combines has them.
const ofPart = "part:"

// grounding are the members of groundingMetadata: what was searched for, the pages, and
// which text rests on them.
var grounding = [...]string{"webSearchQueries", "groundingChunks", "groundingSupports"}

// searching is what a stream knows of its searches. Without on, nothing of it is part of
// the answer.
//
// The API says what it found at the end, and callers' APIs have citations while a text goes
// on. So what is not text is held, once there is some, until the answer ends.
type searching struct {
	on, ends bool
	answer   string   // the API's id of it
	text     []byte   // the answer so far
	queries  []string // of the parts of the API's own
	found    [len(grounding)][]byte
	held     []held
	size     int // bytes of held

	at, chars int // a byte of text, and the characters before it
}

// held is a part that came after some bytes of text.
type held struct {
	after int
	part  []byte
}

var errHeld = errors.New("parts of the content are too large")

// hold keeps a part for the end of the answer.
func (s *searching) hold(after int, part []byte) error {
	if s.size += len(part); s.size > upstream.MaxBody {
		return errHeld
	}
	s.held = append(s.held, held{after, part})
	return nil
}

// holds reports whether parts that are no text are held, after some bytes of text.
func (s *searching) holds(text int) bool { return s.on && text > 0 && !s.ends }

// said takes in a piece of the answer's text. Of what is too large, the end has no citations.
func (s *searching) said(text []byte) {
	if s.on && len(s.text)+len(text) <= upstream.MaxBody {
		s.text = upstream.AppendText(s.text, text)
	}
}

// read takes in a chunk. Later metadata repeats what earlier one said.
func (s *searching) read(v *fastjson.Value, c *chunk) {
	s.answer = string(v.GetStringBytes("responseId"))
	for _, p := range c.parts {
		for _, query := range p.GetArray("toolCall", "args", "queries") {
			s.queries = append(s.queries, string(query.GetStringBytes()))
		}
	}
	metadata := c.candidate.Get("groundingMetadata")
	for i, name := range grounding {
		if len(metadata.GetArray(name)) > 0 {
			s.found[i] = jsontext.AppendValue(s.found[i][:0], metadata.Get(name))
		}
	}
}

// list returns a member of the metadata.
func (s *searching) list(i int) []*fastjson.Value {
	if s.found[i] == nil {
		return nil
	}
	v, err := fastjson.ParseBytes(s.found[i])
	if err != nil {
		panic("metadata of a search is not JSON: " + err.Error())
	}
	return v.GetArray()
}

// segment returns the characters of the answer that a segment names by its bytes in UTF-8.
// These count from the beginning of a part, which may be after that of the answer: the
// segment's text tells.
func (s *searching) segment(v *fastjson.Value) (from, to int) {
	size := len(s.text)
	from = min(max(v.GetInt("startIndex"), 0), size)
	to = min(max(v.GetInt("endIndex"), from), size)
	text := v.GetStringBytes("text")
	if i := bytes.Index(s.text[from:], text); i >= 0 && len(text) > 0 {
		from, to = from+i, from+i+len(text)
	}
	return s.charsBefore(from), s.charsBefore(to)
}

// charsBefore returns how many characters of the answer begin before a byte.
func (s *searching) charsBefore(end int) int {
	for end < len(s.text) && !utf8.RuneStart(s.text[end]) {
		end--
	}
	if end < s.at {
		s.at, s.chars = 0, 0
	}
	s.chars += utf8.RuneCount(s.text[s.at:end])
	s.at = end
	return s.chars
}

// found says what the searches of a whole answer found, then what was held for that.
func (s *stream) found() error {
	if !s.search.on {
		return nil
	}
	s.search.text = bytes.ToValidUTF8(s.search.text, []byte("\ufffd")) // a half of a character at its edge
	pages := s.cite()
	queries := s.search.queries
	if list := s.search.list(0); len(list) > 0 {
		queries = nil
		for _, v := range list {
			queries = append(queries, string(v.GetStringBytes()))
		}
	} else if s.result.Usage.WebSearches = int64(len(queries)); len(queries) == 0 && len(pages) > 0 {
		queries = []string{""}
	}
	for i, query := range queries {
		id := s.Redact(s.search.answer) + "_" + strconv.Itoa(i+1)
		results := providers.Found{Kind: providers.FoundResults, API: api, ID: id}
		if i == len(queries)-1 {
			results.Sources = pages // the API does not say which of them found a page
		}
		s.Lookahead.Say(providers.Delta{Found: &providers.Found{Kind: providers.FoundCall, API: api, ID: id, Query: s.Redact(query)}})
		s.Lookahead.Say(providers.Delta{Found: &results})
	}
	s.search.ends = true
	text := s.text
	for _, h := range s.search.held {
		v, err := fastjson.ParseBytes(h.part)
		if err == nil {
			s.text = h.after // its place
			_, err = s.part(v)
		}
		if err != nil {
			return s.Invalid(err.Error())
		}
		s.Lookahead.Say(s.flush())
	}
	s.text = text
	return nil
}

// cite says the citations, and returns the pages of the web.
func (s *stream) cite() (pages []providers.Source) {
	const most = 1000
	chunks, said := s.search.list(1), 0
	source := func(i int) (p providers.Source) {
		if i < 0 || i >= len(chunks) {
			return p
		}
		return providers.Source{URL: s.Text(chunks[i].Get("web", "uri")), Title: s.Text(chunks[i].Get("web", "title"))}
	}
	for i := range chunks {
		if p := source(i); p.URL != "" {
			pages = append(pages, p)
		}
	}
	for _, support := range s.search.list(2) {
		from, to := s.search.segment(support.Get("segment"))
		for _, index := range support.GetArray("groundingChunkIndices") {
			if p := source(index.GetInt()); p.URL != "" && said < most {
				said++
				s.Lookahead.Say(providers.Delta{Found: &providers.Found{
					Kind: providers.FoundCitation, API: api, From: from, To: to, Sources: []providers.Source{p},
				}})
			}
		}
	}
	return pages
}

// own takes in a part of the API's own, which goes back with the history as it is.
func (s *stream) own(p *fastjson.Value) {
	s.Lookahead.Say(s.flush())
	s.Lookahead.Say(providers.Delta{Thought: s.thought(ofPart, jsontext.AppendValue(nil, p))})
}
