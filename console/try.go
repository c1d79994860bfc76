package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// tryPage has the form of a context, and for all keys at once which row would answer.
type tryPage struct {
	Fields  []tryField
	At      string
	Context string // as JSON; empty: none was given
	Rows    []inspect.Answer
	More    int // definitions that are not tried
	Problem string
	Notes   []string // on the context
	Curl    string   // asks for the same by HTTP; empty: nothing would answer
	places
}

// tryField is a field of the data model with the visitor's value.
type tryField struct {
	adminapi.DataField
	Value string
}

// mostTried bounds the definitions that one page evaluates.
const mostTried = 200

// mostDecided is the most keys that one request for decisions may have: wire.MaxKeys, which
// the console does not import.
const mostDecided = 100

// tryPrefix begins the names of the form's fields of the data model.
const tryPrefix = "field."

func buildTry(v *visit) (any, error) {
	loaded, err := v.loaded()
	if err != nil {
		return nil, err
	}
	p := &tryPage{At: strings.TrimSpace(v.query.Get("at")), places: places{v, loaded.Directory}}
	var context map[string]any
	p.Fields, context = formOf(loaded.Fields, v.query)
	text := made(json.Marshal(context))
	if len(context) > 0 {
		p.Context = string(text)
	}
	p.More = max(len(loaded.Definitions)-mostTried, 0)
	example, keys := "KEY", map[string][]string{}
	for i := range loaded.Definitions[:len(loaded.Definitions)-p.More] {
		d := &loaded.Definitions[i]
		var row inspect.Answer
		err := v.send(http.MethodPost, "evaluate", nil, map[string]any{
			"kind": d.Kind, "key": d.Key, "context": context, "at": p.At, "explain": true,
		}, &row)
		if p.Problem, err = refused(err); err != nil {
			return nil, err
		}
		if p.Problem != "" {
			break // it is about the context or the time: the same for all
		}
		for _, note := range row.Notes {
			if !slices.Contains(p.Notes, note) {
				p.Notes = append(p.Notes, note)
			}
		}
		if len(row.Rows) > 0 {
			example = d.Key
		}
		// One key that is refused, as for a variable, would have the whole request refused.
		if list := d.Kind + "s"; d.Kind != "endpoint" && row.Problem == "" && len(keys["prompts"])+len(keys["remoteconfigs"]) < mostDecided {
			keys[list] = append(keys[list], d.Key)
		}
		p.Rows = append(p.Rows, row)
	}
	if len(keys) > 0 {
		body := map[string]any{"context": context}
		for list, of := range keys {
			body[list] = of
		}
		p.Curl = "curl " + shellWord(v.site+"/v1/decisions") + ` -H "Authorization: Bearer $CADENZA_API_KEY" -d ` + shellWord(string(made(json.Marshal(body))))
	}
	v.Command = fmt.Sprintf("caddy cadenza eval %s --explain --context %s %s", shellWord(loaded.Directory), shellWord(string(text)), shellWord(example))
	return p, nil
}

// formOf reads the form of a context. A field that the data model does not have is part of it,
// too: what evaluates the context says so.
func formOf(fields []adminapi.DataField, values url.Values) (form []tryField, context map[string]any) {
	context = make(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, field := strings.TrimSpace(values.Get(name)), strings.TrimPrefix(name, tryPrefix)
		if field != name && value != "" && !slices.ContainsFunc(fields, func(f adminapi.DataField) bool { return f.Name == field }) {
			setField(context, &adminapi.DataField{Name: field}, value)
		}
	}
	for _, f := range fields {
		value := strings.TrimSpace(values.Get(tryPrefix + f.Name))
		form = append(form, tryField{f, value})
		if value != "" {
			setField(context, &f, value)
		}
	}
	return form, context
}

// setField puts a value into a context, as JSON with the members of the field's path.
func setField(context map[string]any, f *adminapi.DataField, value string) {
	path := strings.Split(cmp.Or(f.Path, f.Name), ".")
	for _, name := range path[:len(path)-1] {
		below, ok := context[name].(map[string]any)
		if !ok {
			below = make(map[string]any)
			context[name] = below
		}
		context = below
	}
	var typed any = value
	switch {
	case (f.Type == "number" || f.Type == "boolean") && json.Valid([]byte(value)):
		typed = json.RawMessage(value)
	case f.Type == "list":
		var list []string
		for item := range strings.SplitSeq(value, ",") {
			list = append(list, strings.TrimSpace(item))
		}
		typed = list
	}
	context[path[len(path)-1]] = typed
}
