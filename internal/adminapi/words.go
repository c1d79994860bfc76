package adminapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
)

// Words is the answer of GET /cadenza/words: what may be written in a file.
type Words struct {
	Keys   map[string]string   `json:"keys"`   // of members and fields, with what each means
	Values map[string][]string `json:"values"` // of some of these, in order
}

// serveWords answers GET /cadenza/words?file=PATH: what the schema of the file has, the
// fields of the data model, and what is configured and served.
func serveWords(w http.ResponseWriter, r *http.Request) error {
	q, err := newTraceQuery(r, "workspace", "file")
	if err != nil {
		return err
	}
	served := q.workspace.Definitions.Snapshot()
	words := Words{map[string]string{}, map[string][]string{"provider": slices.Collect(maps.Keys(q.workspace.Providers))}}
	folder := folderOf(q.values.Get("file"))
	for _, file := range definition.Schemas(served.DataModel) {
		var schema any
		if folderOf(file.Pattern) == folder && json.Unmarshal(file.Schema, &schema) == nil {
			words.add(schema)
		}
	}
	for _, t := range q.workspace.Targets() {
		words.Values["model"] = append(words.Values["model"], t.Model)
	}
	for _, d := range served.Definitions {
		name := cmp.Or(map[string]string{"remoteconfig": "config"}[d.Kind.String()], d.Kind.String())
		words.Values[name] = append(words.Values[name], d.Key)
	}
	for name, list := range words.Values {
		slices.Sort(list)
		words.Values[name] = slices.DeleteFunc(slices.Compact(list), func(value string) bool { return value == "" })
	}
	return writeJSON(w, words)
}

// folderOf returns the folder of a file, or the name of one that is in none.
func folderOf(file string) string {
	folder, _, _ := strings.Cut(file, "/")
	return strings.TrimSuffix(folder, path.Ext(folder))
}

// add adds the properties of a part of a schema, with the texts that each may be.
func (words *Words) add(part any) {
	switch part := part.(type) {
	case []any:
		for _, item := range part {
			words.add(item)
		}
	case map[string]any:
		properties, _ := part["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			property, _ := properties[name].(map[string]any)
			about, _ := property["description"].(string)
			words.Keys[name] = cmp.Or(words.Keys[name], about)
			texts, _ := property["enum"].([]any)
			for _, value := range texts {
				if text, ok := value.(string); ok {
					words.Values[name] = append(words.Values[name], text)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(part)) {
			words.add(part[name])
		}
	}
}
