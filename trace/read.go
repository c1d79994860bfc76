package trace

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// UnmarshalJSON implements [json.Unmarshaler]: it reads the output of AppendJSON.
// It ignores unknown members.
func (r *Record) UnmarshalJSON(text []byte) error { return readFields(text, RecordFields, r) }

// UnmarshalJSON implements [json.Unmarshaler]: it reads the output of AppendJSON.
// It ignores unknown members.
func (m *Metrics) UnmarshalJSON(text []byte) error { return readFields(text, MetricsFields, m) }

func readFields[T any](text []byte, fields []Field[T], into *T) error {
	groups := map[string]map[string]json.RawMessage{}
	var outermost map[string]json.RawMessage
	if err := json.Unmarshal(text, &outermost); err != nil {
		return err
	}
	groups[""] = outermost
	for i := range fields {
		f := &fields[i]
		members, read := groups[f.Group]
		if group := outermost[f.Group]; !read && group != nil {
			if err := json.Unmarshal(group, &members); err != nil {
				return fmt.Errorf("%s: %w", f.Group, err)
			}
			groups[f.Group] = members
		}
		value, ok := members[f.Name]
		if !ok || string(value) == "null" {
			continue
		}
		if err := readValue(value, f.At(into), f.Text); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if f.Known != nil {
			*f.Known(into) = true
		}
	}
	return nil
}

// readValue decodes JSON into the member at a pointer.
func readValue(value []byte, at any, isText bool) error {
	switch at := at.(type) {
	case *[]byte:
		if !isText {
			*at = append((*at)[:0], value...)
			return nil
		}
		var text string
		err := json.Unmarshal(value, &text)
		*at = append((*at)[:0], text...)
		return err
	case *time.Duration:
		var millis float64
		err := json.Unmarshal(value, &millis)
		*at = time.Duration(math.Round(millis*1000)) * time.Microsecond
		return err
	case *Kind:
		return readName(value, at, ParseKind)
	case *State:
		return readName(value, at, ParseState)
	case *[]Attempt:
		var all []json.RawMessage
		if err := json.Unmarshal(value, &all); err != nil {
			return err
		}
		*at = make([]Attempt, len(all))
		for i, one := range all {
			if err := readFields(one, attemptFields, &(*at)[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return json.Unmarshal(value, at)
}

// readName decodes a member whose JSON is the name of its value.
func readName[T any](value []byte, into *T, parse func(string) (T, bool)) error {
	var name string
	if err := json.Unmarshal(value, &name); err != nil {
		return err
	}
	parsed, ok := parse(name)
	if !ok {
		return fmt.Errorf("%q is unknown", name)
	}
	*into = parsed
	return nil
}
