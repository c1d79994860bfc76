package messages

import (
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// found says what a search adds. A search has its input in a delta, as all calls have.
func (w *writer) found(dst []byte, f *providers.Found) []byte {
	switch f.Kind {
	case providers.FoundText:
		return w.stop(dst)
	case providers.FoundCitation:
		if w.open != text {
			return dst
		}
		dst = append(w.eventOf(dst, "content_block_delta"), `,"delta":{"type":"citations_delta","citation":`...)
		return endEvent(append(appendFound(dst, f), `}}`...))
	case providers.FoundResults:
		return w.stop(endEvent(append(appendFound(w.start(dst, serverTool), f), '}')))
	}
	block, err := fastjson.ParseBytes(appendFound(nil, f))
	if err != nil {
		panic("a block of a search is not JSON: " + err.Error())
	}
	input := jsontext.AppendValue(nil, block.Get("input"))
	block.Set("input", fastjson.MustParse("{}"))
	dst = endEvent(append(jsontext.AppendValue(w.start(dst, serverTool), block), '}'))
	return w.stop(w.piecesOf(dst, `{"type":"input_json_delta","partial_json":`, string(input)))
}

// appendFound appends the block of a search or of its results, or a citation: as the API said
// it, or made of what another API says.
func appendFound(dst []byte, f *providers.Found) []byte {
	if f.API == providers.APIMessages {
		return append(dst, f.Raw...)
	}
	switch f.Kind {
	case providers.FoundCitation:
		dst = dialect.AppendMember(append(dst, `{"type":"web_search_result_location"`...), "url", f.Sources[0].URL)
		dst = dialect.AppendMember(dst, "title", f.Sources[0].Title)
		dst = dialect.AppendMember(append(dst, `,"encrypted_index":""`...), "cited_text", f.Cited)
		return append(dst, '}')
	case providers.FoundResults:
		dst = dialect.AppendMember(append(dst, `{"type":"web_search_tool_result"`...), "tool_use_id", ownSearch+f.ID)
		dst = append(dst, `,"caller":{"type":"direct"},"content":[`...)
		for i, s := range f.Sources {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = dialect.AppendMember(append(dst, `{"type":"web_search_result"`...), "url", s.URL)
			dst = append(dialect.AppendMember(dst, "title", s.Title), `,"encrypted_content":"","page_age":null}`...)
		}
		return append(dst, `]}`...)
	}
	dst = dialect.AppendMember(append(dst, `{"type":"server_tool_use"`...), "id", ownSearch+f.ID)
	dst = append(dst, `,"name":"web_search","caller":{"type":"direct"},"input":{"query":`...)
	return append(jsontext.AppendString(dst, f.Query), `}}`...)
}
