package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
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
	places
}

// tryField is a field of the data model with the visitor's value.
type tryField struct {
	adminapi.DataField
	Value string
}

// mostTried bounds the definitions that one page evaluates.
const mostTried = 200

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
	example := "KEY"
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
		if len(row.Rows) > 0 {
			example = d.Key
		}
		p.Rows = append(p.Rows, row)
	}
	v.Command = fmt.Sprintf("caddy cadenza eval %s --explain --context %s %s", shellWord(loaded.Directory), shellWord(string(text)), shellWord(example))
	return p, nil
}

// formOf reads the form of a context.
func formOf(fields []adminapi.DataField, values url.Values) (form []tryField, context map[string]any) {
	context = make(map[string]any)
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
	if f.Type == "list" {
		var list []string
		for item := range strings.SplitSeq(value, ",") {
			list = append(list, strings.TrimSpace(item))
		}
		typed = list
	}
	context[path[len(path)-1]] = typed
}
