package script

import (
	"bytes"
	"encoding/json"
	"strings"
)

const (
	// deepest bounds how deep made arguments are nested: a schema may refer to itself.
	deepest = 8
	// maxMade bounds made arguments in bytes, about: each level may have a hundred
	// values or more. Beyond it values are null.
	maxMade = 8 << 20
	// ofValue is about how many bytes a value takes in memory.
	ofValue = 256
)

// Arguments makes arguments of a tool by its JSON Schema: the required members, each by
// its type, const, default or enum; a text says the name of its member. Of bounds
// minimum and minItems are looked at, so that not every schema is satisfied.
func Arguments(schema json.RawMessage) json.RawMessage {
	var root map[string]any
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	if d.Decode(&root) != nil {
		root = nil
	}
	m := &maker{root: root, size: len(schema), left: maxMade}
	value, ok := m.value(root, "value", 0).(map[string]any)
	if !ok {
		value = map[string]any{}
	}
	text, err := json.Marshal(value)
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}

// maker makes values of the schemas below root.
type maker struct {
	root map[string]any
	size int // of the schema as it is written, in bytes
	left int // of maxMade
}

func (m *maker) value(schema map[string]any, name string, depth int) any {
	if m.left -= ofValue + len(name); depth > deepest || m.left < 0 {
		return nil
	}
	if ref, ok := schema["$ref"].(string); ok {
		return m.value(m.at(ref), name, depth+1)
	}
	for _, word := range [...]string{"const", "default"} {
		if v, ok := schema[word]; ok {
			return m.written(v)
		}
	}
	if list, _ := schema["enum"].([]any); len(list) > 0 {
		return m.written(list[0])
	}
	for _, word := range [...]string{"anyOf", "oneOf", "allOf"} {
		if list, _ := schema[word].([]any); len(list) > 0 {
			one, _ := list[0].(map[string]any)
			return m.value(one, name, depth+1)
		}
	}
	switch typeOf(schema) {
	case "object":
		return m.object(schema, depth)
	case "array":
		items, _ := schema["items"].(map[string]any)
		size, _ := schema["minItems"].(json.Number)
		n, _ := size.Int64()
		list := make([]any, min(max(n, 0), 100))
		for i := range list {
			list[i] = m.value(items, name, depth+1)
		}
		return list
	case "integer", "number":
		if n, ok := schema["minimum"].(json.Number); ok {
			return n
		}
		return 1
	case "boolean":
		return true
	case "null":
		return nil
	}
	return name
}

// written returns a value that the schema has as it is, as long as there is space
// for the whole schema.
func (m *maker) written(v any) any {
	if m.left -= m.size; m.left < 0 {
		return nil
	}
	return v
}

func (m *maker) object(schema map[string]any, depth int) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	object := make(map[string]any, len(required))
	for _, r := range required {
		name, _ := r.(string)
		property, _ := properties[name].(map[string]any)
		object[name] = m.value(property, name, depth+1)
	}
	return object
}

// at returns the schema that a reference within the same document names.
func (m *maker) at(ref string) map[string]any {
	path, ok := strings.CutPrefix(ref, "#")
	schema := m.root
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		if name != "" {
			schema, _ = schema[name].(map[string]any)
		}
	}
	if !ok {
		return nil
	}
	return schema
}

// typeOf returns the type that a schema asks for, the first one that is not null.
func typeOf(schema map[string]any) string {
	switch t := schema["type"].(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, _ := one.(string); name != "null" {
				return name
			}
		}
		return "null"
	}
	if schema["properties"] != nil || schema["required"] != nil {
		return "object"
	}
	return "string"
}
