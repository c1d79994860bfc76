package definition

import (
	_ "embed"
	"encoding/json"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// The JSON Schemas of the files, for editors. Loading is stricter: it knows
// the fields' types, the variants' names and the like.
var (
	//go:embed schemas/context.schema.json
	contextSchema []byte
	//go:embed schemas/prompt.schema.json
	promptSchema []byte
	//go:embed schemas/endpoint.schema.json
	endpointSchema []byte
	//go:embed schemas/remoteconfig.schema.json
	remoteConfigSchema []byte
)

// FileSchema is the JSON Schema (2020-12) of one kind of file.
type FileSchema struct {
	// Name is what the kind is called in file names: context, prompt, endpoint
	// or remoteconfig.
	Name string
	// Pattern matches the files, relative to the workspace.
	Pattern string
	Schema  []byte
}

// Schemas are the schemas of a workspace's files. With a data model, the
// parsed context.yaml or nil, editors also complete the names of its fields
// and know the other names to be mistakes.
func Schemas(model *document.Node) []FileSchema {
	list := []FileSchema{
		{"context", "context.yaml", contextSchema},
		{"prompt", "prompts/**/*.yaml", promptSchema},
		{"endpoint", "endpoints/**/*.yaml", endpointSchema},
		{"remoteconfig", "remoteconfigs/**/*.yaml", remoteConfigSchema},
	}
	names := modelNames(model)
	for i := range list {
		if list[i].Name == "prompt" || list[i].Name == "remoteconfig" {
			list[i].Schema = withFields(list[i].Schema, names)
		}
		list[i].Schema = slices.Clone(list[i].Schema)
	}
	return list
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

// withFields narrows the columns and the conditions of a schema to the fields
// there are.
func withFields(schema []byte, names []string) []byte {
	if len(names) == 0 {
		return schema
	}
	var root map[string]any
	if err := json.Unmarshal(schema, &root); err != nil {
		panic("definition: an embedded schema is not JSON: " + err.Error())
	}
	columns := root["properties"].(map[string]any)["columns"].(map[string]any)
	columns["items"] = map[string]any{"enum": slices.Concat(names, []string{"segment", "config", "id", "from", "until", "ramp", "value"})}
	when := root["$defs"].(map[string]any)["when"].(map[string]any)
	for _, name := range names {
		when["properties"].(map[string]any)[name] = map[string]any{"$ref": "#/$defs/cell"}
	}
	when["additionalProperties"] = false
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("definition: " + err.Error()) // it was JSON before
	}
	return append(out, '\n')
}
