package responses

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
)

// found says what a search adds. A search is an item, which its results end.
func (w *writer) found(dst []byte, a *dialect.Answer, f *providers.Found) []byte {
	switch f.Kind {
	case providers.FoundCall:
		dst = w.end(dst, a, completed)
		w.open, w.search = search, f
		w.place = appendSearchID(append(w.room[:0], `,"item_id":`...), f)
		w.place = strconv.AppendInt(append(w.place, `,"output_index":`...), int64(w.items), 10)
		dst = append(w.event(dst, "response.output_item.added"), `,"output_index":`...)
		dst = append(strconv.AppendInt(dst, int64(w.items), 10), `,"item":`...)
		dst = endEvent(appendSearch(dst, &providers.Found{ID: f.ID, Query: f.Query, API: f.API}, inProgress, nil))
		dst = endEvent(w.eventOf(dst, "response.web_search_call.in_progress"))
		return endEvent(w.eventOf(dst, "response.web_search_call.searching"))
	case providers.FoundResults:
		if w.open == search && w.search.ID == f.ID {
			return w.endSearch(dst, f.Sources)
		}
	case providers.FoundCitation:
		if w.open != message {
			return dst
		}
		w.cited = separate(w.cited)
		start := len(w.cited)
		w.cited = appendCitation(w.cited, f, w.from)
		dst = append(w.eventOf(dst, "response.output_text.annotation.added"), `,"annotation_index":`...)
		dst = append(strconv.AppendInt(dst, int64(w.citations), 10), `,"annotation":`...)
		w.citations++
		return endEvent(append(dst, w.cited[start:]...))
	}
	return dst
}

func (w *writer) endSearch(dst []byte, sources []providers.Source) []byte {
	dst = endEvent(w.eventOf(dst, "response.web_search_call.completed"))
	w.output = separate(w.output)
	start := len(w.output)
	w.output = appendSearch(w.output, w.search, completed, sources)
	return w.endItem(dst, start)
}

// resultsOf returns the pages that the search with the id found.
func resultsOf(found []providers.Found, id string) []providers.Source {
	for i := range found {
		if f := &found[i]; f.Kind == providers.FoundResults && f.ID == id {
			return f.Sources
		}
	}
	return nil
}

// appendSearch appends the item of a search: as the API said it, or made of what another API
// says.
func appendSearch(dst []byte, f *providers.Found, status string, sources []providers.Source) []byte {
	if f.API == providers.APIResponses && f.Raw != "" {
		return append(dst, f.Raw...)
	}
	dst = appendSearchID(append(dst, `{"id":`...), f)
	dst = dialect.AppendMember(append(dst, `,"type":"web_search_call"`...), "status", status)
	dst = dialect.AppendMember(append(dst, `,"action":{"type":"search"`...), "query", f.Query)
	dst = append(jsontext.AppendString(append(dst, `,"queries":[`...), f.Query), ']')
	for i, s := range sources {
		if i == 0 {
			dst = append(dst, `,"sources":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = append(jsontext.AppendString(append(dst, `{"type":"url","url":`...), s.URL), '}')
		if i == len(sources)-1 {
			dst = append(dst, ']')
		}
	}
	return append(dst, `}}`...)
}

func appendSearchID(dst []byte, f *providers.Found) []byte {
	id := f.ID
	if f.API != providers.APIResponses {
		id = ownSearch + id
	}
	return jsontext.AppendString(dst, id)
}

// appendCitation appends a citation of a message that begins at a character of the answer.
func appendCitation(dst []byte, f *providers.Found, from int) []byte {
	dst = strconv.AppendInt(append(dst, `{"type":"url_citation","end_index":`...), int64(max(f.To-from, 0)), 10)
	dst = strconv.AppendInt(append(dst, `,"start_index":`...), int64(max(f.From-from, 0)), 10)
	dst = dialect.AppendMember(dst, "title", f.Sources[0].Title)
	return append(dialect.AppendMember(dst, "url", f.Sources[0].URL), '}')
}
