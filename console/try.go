package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// tryPage has the form of a context, and for all keys at once which row would answer.
type tryPage struct {
	Fields  []tryField
	At      string
	Context string // as JSON; empty: none was given
	Rows    []tried
	More    int // definitions that are not tried
	Problem string
}

// tryField is a field of the data model with the visitor's value.
type tryField struct {
	adminapi.DataField
	Value string
}

// tried is a definition's answer to the context.
type tried struct {
	Kind, Key, Row, Arm, Place, Answer string
	Problem                            string
	Others                             []tryRow
}

// tryRow is a row with why it answers or does not.
type tryRow struct {
	Row, Why, Place string
	Matched         bool
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
	p := &tryPage{At: strings.TrimSpace(v.query.Get("at"))}
	context := make(map[string]any)
	for _, f := range loaded.Fields {
		value := strings.TrimSpace(v.query.Get(tryPrefix + f.Name))
		p.Fields = append(p.Fields, tryField{f, value})
		if value != "" {
			setField(context, &f, value)
		}
	}
	text, err := json.Marshal(context)
	if err != nil {
		return nil, err
	}
	if len(context) > 0 {
		p.Context = string(text)
	}
	p.More = max(len(loaded.Definitions)-mostTried, 0)
	example := "KEY"
	for i := range loaded.Definitions[:len(loaded.Definitions)-p.More] {
		d := &loaded.Definitions[i]
		row, err := v.try(d.Kind, d.Key, context, p.At)
		if p.Problem, err = refused(err); err != nil {
			return nil, err
		}
		if p.Problem != "" {
			break // it is about the context or the time: the same for all
		}
		row.below(loaded.Directory)
		if len(row.Others) > 0 {
			example = d.Key
		}
		p.Rows = append(p.Rows, row)
	}
	v.command = fmt.Sprintf("caddy cadenza eval %s --explain --context %s %s", shellWord(loaded.Directory), shellWord(string(text)), shellWord(example))
	return p, nil
}

// setField puts a value into a context, as JSON with the members of the field's path.
func setField(context map[string]any, f *adminapi.DataField, value string) {
	path := strings.Split(f.Path, ".")
	if f.Path == "" {
		path = []string{f.Name}
	}
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

// try evaluates a definition.
func (v *visit) try(kind, key string, context map[string]any, at string) (tried, error) {
	var a inspect.Answer
	err := v.send(http.MethodPost, "evaluate", nil, map[string]any{
		"workspace": v.visitor.Workspace, "kind": kind, "key": key, "context": context, "at": at, "explain": true,
	}, &a)
	if err != nil {
		return tried{}, err
	}
	t := tried{Kind: kind, Key: key, Row: a.Row, Arm: a.Arm, Place: a.Position, Answer: string(a.Value), Problem: a.Problem}
	if a.Variant != "" {
		t.Answer = a.Variant
	}
	for _, r := range a.Rows {
		row := tryRow{Row: r.Row, Place: r.Position, Matched: r.Matched, Why: "matches"}
		if !r.Matched {
			row.Why = r.Field + " must be " + r.Cell + ", is " + r.Value
		}
		t.Others = append(t.Others, row)
	}
	return t, nil
}

// below shortens the places of a directory's files.
func (t *tried) below(directory string) {
	cut := func(place *string) { *place = strings.TrimPrefix(strings.TrimPrefix(*place, directory), "/") }
	cut(&t.Place)
	for i := range t.Others {
		cut(&t.Others[i].Place)
	}
}
