package openai

import (
	"encoding/json"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// SearchTool reads the tool s of the caller's API, which searches the web. It is ignored until
// the endpoint accepts it. name is what a choice calls it. Providers judge what it asks for.
func (r *Request) SearchTool(at *Path, o *fastjson.Object, s *providers.WebSearch, name string) (err *wire.Error) {
	r.IgnoreTool(at, true, name)
	of := r.Call.FromSearch(s.API)
	if of.Tool != nil {
		return nil // one searches
	}
	of.Tool, r.searchName, s.MaxUses = s, name, providers.DefaultSearches
	of.Given = append(of.Given, dialect.Given{Name: "web_search", Param: at.String()})
	of.Paths = append(of.Paths, at.String())
	r.searchMembers(at, o, s, &err)
	return err
}

// searchMembers reads the members of a tool that searches, of whichever API.
func (r *Request) searchMembers(at *Path, o *fastjson.Object, s *providers.WebSearch, err **wire.Error) {
	of := r.Call.Search
	o.Visit(func(key []byte, v *fastjson.Value) {
		if *err != nil || v.Type() == fastjson.TypeNull || v.Type() == fastjson.TypeArray && len(v.GetArray()) == 0 {
			return
		}
		name := string(key)
		here := at.Member(name)
		switch raw := json.RawMessage(jsontext.AppendValue(nil, v)); name {
		case "type", "name":
		case "allowed_domains":
			s.Allowed = raw
		case "blocked_domains":
			s.Blocked = raw
		case "filters":
			r.searchMembers(here, v.GetObject(), s, err)
		case "external_web_access":
			s.Cached = !v.GetBool()
		case "max_uses":
			var uses *int64
			if uses, *err = SearchUses(here, v); *err == nil {
				s.MaxUses = *uses
				of.Given = append(of.Given, dialect.Given{Name: name, Param: here.String()})
			}
		case "user_location":
			if inner := v.Get("approximate"); inner != nil { // as chat completions have it
				inner.Set("type", v.Get("type"))
				raw = jsontext.AppendValue(nil, inner)
			}
			s.Location = raw
			of.Given = append(of.Given, dialect.Given{Name: name, Param: here.String()})
		case "search_context_size":
			s.ContextSize = Text(v)
			of.Given = append(of.Given, dialect.Given{Name: name, Param: here.String()})
		case "allowed_callers":
			if list := v.GetArray(); len(list) != 1 || Text(list[0]) != "direct" {
				r.Ignore(here.String())
			}
		default:
			at.Unknown(r.Call, key)
		}
	})
}

// maxSearches bounds WebSearch.MaxUses.
const maxSearches = 1_000_000

// SearchUses reads how often the provider may search.
func SearchUses(at *Path, v *fastjson.Value) (*int64, *wire.Error) {
	return Whole(at, v, 1, maxSearches)
}

// Found returns the JSON of what a search left in the history, at a path that is ignored
// until the endpoint accepts searches.
func (r *Request) Found(api, path string, v *fastjson.Value) string {
	of := r.Call.FromSearch(api)
	of.History = append(of.History, path)
	return jsontext.View(jsontext.AppendValue(nil, v))
}
