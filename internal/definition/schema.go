package definition

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// valueSchema is a JSON Schema for values. A nil valueSchema accepts every value.
type valueSchema struct {
	compiled *jsonschema.Schema
	meter    *schemaMeter
}

// The ceiling of a check in steps. One step checks a part of the value against a
// part of the schema. The steps multiply where a part refers to another more than
// once.
const (
	schemaSteps        = 100_000
	schemaStepsForNode = 20 // and as many for each value and key
)

// schemaMeter counts the steps of a check.
type schemaMeter struct {
	left    int
	stopped func() bool // whether the loading was given up
}

// errSchemaSteps ends a check that takes too many steps.
var errSchemaSteps = errors.New("the check takes too many steps")

// schemaVocabulary is the name of the vocabulary that counts steps.
const schemaVocabulary = "cadenza:steps"

// vocabulary counts a step for each part of a schema that is checked. It has no
// keywords of its own. It replaces each part's format, because the validator checks
// formats before the keywords that lead to further parts.
func (m *schemaMeter) vocabulary() *jsonschema.Vocabulary {
	return &jsonschema.Vocabulary{
		URL: schemaVocabulary,
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			s := ctx.Enqueue(nil) // the part itself
			counted := jsonschema.Format{Validate: func(any) error { return nil }}
			if s.Format != nil {
				counted = *s.Format
				if counted.Name == "regex" {
					counted.Name = "regular expression" // or its check is not the format's
				}
			}
			validate := counted.Validate
			counted.Validate = func(v any) error {
				m.step()
				return validate(v)
			}
			s.Format = &counted
			return nil, nil
		},
	}
}

func (m *schemaMeter) step() {
	if m.left--; m.left < 0 || m.left%1024 == 0 && m.stopped() {
		panic(errSchemaSteps)
	}
}

// schemaURL names a definition's schema within the compiler.
const schemaURL = "cadenza:schema"

// noLoader refuses to fetch schemas: a definition must be complete.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is not read: a schema can't refer to others, only to its own $defs", url)
}

// compileSchema compiles the schema in a definition, JSON Schema 2020-12 unless it
// names another draft. A check ends early where stopped reports that the loading
// was given up.
func compileSchema(n *document.Node, stopped func() bool, errs *document.Errors) *valueSchema {
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
	meter := &schemaMeter{stopped: stopped}
	c.RegisterVocabulary(meter.vocabulary())
	c.AssertVocabs()
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
				// A wrong type is neither one of the types nor a list of them.
				seen := make(map[string]bool)
				eachCause(e, func(e *jsonschema.ValidationError) {
					place := strings.Join(e.InstanceLocation, "/")
					if seen[place] {
						return
					}
					seen[place] = true
					errs.Add(descend(n, e.InstanceLocation), "schema: %s", reason(e))
				})
				return nil
			}
		}
		errs.Add(n, "schema: %v", err)
		return nil
	}
	return &valueSchema{s, meter}
}

// check reports where a value does not match the schema. The value is given as a
// node and as JSON.
func (s *valueSchema) check(n *document.Node, raw []byte, errs *document.Errors) {
	if s == nil {
		return
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err == nil {
		nodes, _ := n.Size()
		s.meter.left = schemaSteps + schemaStepsForNode*nodes
		err = s.validate(v)
	}
	if errors.Is(err, errSchemaSteps) {
		errs.Add(n, "the value can't be checked in %d steps: the schema refers to the same parts too many times", schemaSteps)
		return
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

// validate checks a value until the meter ends it.
func (s *valueSchema) validate(v any) (err error) {
	defer func() {
		switch p := recover(); p {
		case nil:
		case errSchemaSteps:
			err = errSchemaSteps
		default:
			panic(p)
		}
	}()
	return s.compiled.Validate(v)
}

// eachCause calls f for each error that has no further cause.
func eachCause(e *jsonschema.ValidationError, f func(*jsonschema.ValidationError)) {
	if len(e.Causes) == 0 {
		f(e)
	}
	for _, c := range e.Causes {
		eachCause(c, f)
	}
}

// reason returns an error's text, with the place as a JSON Pointer.
func reason(e *jsonschema.ValidationError) string {
	return strings.TrimPrefix(e.Error(), "at '': ")
}

// descend follows a path into a value, and stops where the value has no such part.
func descend(n *document.Node, path []string) *document.Node {
	for _, step := range path {
		next := n.Get(step)
		if n.Shape == document.Sequence {
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
