package definition

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/document"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// valueSchema is a JSON Schema that values are checked against. Nil checks
// nothing.
type valueSchema struct {
	compiled *jsonschema.Schema
}

// schemaURL names a definition's schema within the compiler.
const schemaURL = "cadenza:schema"

// noLoader refuses to fetch schemas: a definition stands for itself.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not read: a schema can't refer to others, only to its own $defs", url)
}

// compileSchema compiles the schema in a definition, JSON Schema 2020-12
// unless it names another draft.
func compileSchema(n *document.Node, errs *document.Errors) *valueSchema {
	if n.IsNull() {
		return nil
	}
	before := errs.Len()
	raw := n.AppendJSON(nil, errs)
	if errs.Len() > before {
		return nil
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	c.AssertFormat()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = c.AddResource(schemaURL, doc)
	}
	if err != nil {
		errs.Add(n, "schema: %v", err)
		return nil
	}
	s, err := c.Compile(schemaURL)
	if err != nil {
		if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
			if e, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
				eachCause(e, func(e *jsonschema.ValidationError) {
					errs.Add(descend(n, e.InstanceLocation), "schema: %s", reason(e))
				})
				return nil
			}
		}
		errs.Add(n, "schema: %v", err)
		return nil
	}
	return &valueSchema{s}
}

// check reports where a value, given as a node and as JSON, breaks the schema.
func (s *valueSchema) check(n *document.Node, raw []byte, errs *document.Errors) {
	if s == nil {
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		err = s.compiled.Validate(v)
	}
	if err == nil {
		return
	}
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		errs.Add(n, "schema: %v", err)
		return
	}
	eachCause(e, func(e *jsonschema.ValidationError) {
		errs.Add(descend(n, e.InstanceLocation), "the value breaks the schema: %s", reason(e))
	})
}

// eachCause calls f for the errors that have no cause of their own.
func eachCause(e *jsonschema.ValidationError, f func(*jsonschema.ValidationError)) {
	if len(e.Causes) == 0 {
		f(e)
	}
	for _, c := range e.Causes {
		eachCause(c, f)
	}
}

// reason is an error's text, the place named as a JSON Pointer.
func reason(e *jsonschema.ValidationError) string {
	return strings.TrimPrefix(e.Error(), "at '': ")
}

// descend follows a path into a value as far as it leads.
func descend(n *document.Node, path []string) *document.Node {
	for _, step := range path {
		next := n.Get(step)
		if n.Kind == document.Sequence {
			if i, err := strconv.Atoi(step); err == nil && i < len(n.Items) {
				next = n.Items[i]
			}
		}
		if next == nil {
			break
		}
		n = next
	}
	return n
}
