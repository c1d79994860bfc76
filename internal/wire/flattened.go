package wire

import (
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// Flattened parses the body of a request for prompts or remote configurations. Clients of
// June 2023 name the keys in the member list, and put the members of context and metadata
// beside it. isField tells those of the context. Any other body is as everywhere.
func (r *Request) Flattened(list string, variables bool, isField func(name string) bool) (Evaluation, *Error) {
	return r.evaluation(variables, list, isField)
}

func (r *Request) flattened(body *fastjson.Object, list string, isField func(name string) bool) (e Evaluation, err *Error) {
	if e.Keys, err = r.KeyList(list, body.Get(list), 1, MaxKeys); err != nil {
		return Evaluation{}, err
	}
	context := new(fastjson.Arena).NewObject()
	metadata := append(r.scratch[:0], '{')
	body.Visit(func(name []byte, v *fastjson.Value) {
		switch member := jsontext.View(name); {
		case member == list:
		case isField(member):
			context.Set(member, v)
		default:
			if len(metadata) > len("{") {
				metadata = append(metadata, ',')
			}
			metadata = append(jsontext.AppendString(metadata, member), ':')
			metadata = jsontext.AppendValue(metadata, v)
		}
	})
	r.scratch = append(metadata, '}')
	if err := r.checkMetadata(r.scratch); err != nil {
		return Evaluation{}, err
	}
	if context.GetObject().Len() > 0 {
		e.Context = context
	}
	// The limit of metadata bounds this second copy.
	if rest := fastjson.MustParseBytes(r.scratch); rest.GetObject().Len() > 0 {
		e.Metadata = rest
	}
	return e, nil
}
