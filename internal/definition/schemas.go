package definition

import (
	"embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// schemaFiles are the JSON Schemas of the files, for editors. Loading is
// stricter: it knows the fields' types, the variants' names and the like.
//
// What several schemas share is written once, in shared.json: $defs, of which
// each schema gets the ones that it refers to, and groups of properties, which
// an object takes over with a member $include. The schemas that users get are
// whole and have no $include.
//
//go:embed schemas
var schemaFiles embed.FS

// FileSchema is the JSON Schema (2020-12) of one kind of file.
type FileSchema struct {
	// Name is the kind's name in file names: context, prompt, endpoint,
	// remoteconfig or experiment.
	Name string
	// Pattern matches the files, relative to the workspace.
	Pattern string
	Schema  []byte
}

// Schemas are the schemas of a workspace's files. With a data model, the
// parsed context.yaml or nil, editors also complete the names of its fields
// and know the other names to be mistakes.
func Schemas(model *document.Node) []FileSchema {
	list := []FileSchema{{Name: "context", Pattern: "context.yaml"}}
	for _, folder := range kind.Folders() {
		k := kind.InFolder(folder)
		list = append(list, FileSchema{Name: k.String(), Pattern: k.Folder + "/**/*.yaml"})
	}
	names := modelNames(model)
	for i, file := range list {
		schema := embeddedSchema(file.Name + ".schema.json")
		complete(schema, schema, embeddedSchema("shared.json"))
		if file.Name != "context" && file.Name != kind.Experiment.String() {
			narrow(schema, names)
		}
		list[i].Schema, _ = json.MarshalIndent(schema, "", "  ") // can't fail: it was JSON before
		list[i].Schema = append(list[i].Schema, '\n')
	}
	return list
}

// object is a JSON object.
type object = map[string]any

// embeddedSchema reads an embedded file.
func embeddedSchema(name string) (schema object) {
	data, err := schemaFiles.ReadFile("schemas/" + name)
	if err == nil {
		err = json.Unmarshal(data, &schema)
	}
	if err != nil {
		panic("definition: an embedded schema: " + err.Error())
	}
	return schema
}

// complete gives part, a part of root, the properties that it includes, and
// root the definitions that part refers to.
func complete(part any, root, shared object) {
	switch part := part.(type) {
	case []any:
		for _, item := range part {
			complete(item, root, shared)
		}
	case object:
		if groups, ok := part["$include"].([]any); ok {
			delete(part, "$include")
			for _, group := range groups {
				maps.Copy(part["properties"].(object), shared["properties"].(object)[group.(string)].(object))
			}
		}
		if ref, ok := part["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/$defs/")
			if root["$defs"] == nil {
				root["$defs"] = object{}
			}
			if defs := root["$defs"].(object); defs[name] == nil {
				defs[name] = shared["$defs"].(object)[name]
				complete(defs[name], root, shared)
			}
		}
		for _, member := range part {
			complete(member, root, shared)
		}
	}
}

// modelNames are the names of the fields of a data model, computed ones too.
func modelNames(model *document.Node) []string {
	var names []string
	for _, member := range []string{"fields", "computed"} {
		n := model.Get(member)
		if n == nil {
			continue
		}
		for _, m := range n.Members {
			names = append(names, m.Key.Text)
		}
	}
	return names
}

// narrow restricts the columns and the conditions of a schema to the fields of
// a data model and of the gateway. Without fields, any name is accepted.
func narrow(schema object, names []string) {
	if len(names) == 0 {
		return
	}
	columns := schema["properties"].(object)["columns"].(object)
	when := schema["$defs"].(object)["when"].(object)
	column := []object{{"enum": slices.Concat(names, []string{"segment", "config", "id", "from", "until", "ramp", "value"})}}
	for _, pattern := range slices.Sorted(maps.Keys(when["patternProperties"].(object))) { // the gateway's fields
		column = append(column, object{"pattern": pattern})
	}
	columns["items"] = object{"type": "string", "anyOf": column}
	for _, name := range names {
		when["properties"].(object)[name] = object{"$ref": "#/$defs/cell"}
	}
	when["additionalProperties"] = false
}
