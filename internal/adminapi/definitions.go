package adminapi

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// Definitions is the answer of GET /cadenza/definitions.
type Definitions struct {
	Workspaces map[string]LoadedWorkspace `json:"workspaces"`
}

// LoadedWorkspace is a workspace as GET /cadenza/definitions shows it.
type LoadedWorkspace struct {
	Directory   string            `json:"directory"`
	Revision    string            `json:"revision"`
	Loaded      time.Time         `json:"loaded"`
	Definitions []inspect.Summary `json:"definitions"`
	// Fields are the fields of the data model, in the order of its file.
	Fields   []DataField       `json:"fields"`
	Warnings []inspect.Finding `json:"warnings"`
	// Errors are the present mistakes of the directory. While it has any, the last
	// good definitions are served.
	Errors []inspect.Finding `json:"errors"`
}

// DataField is a field of the data model that a context may have.
type DataField struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Path is the member of the context that has the value, with dots between its parts;
	// empty: it has the field's name.
	Path string `json:"path,omitempty"`
	// Values are all values that the field may have; empty: any.
	Values []string `json:"values,omitempty"`
}

// dataFields reads the fields of a valid data model.
func dataFields(model *document.Node) []DataField {
	list := []DataField{}
	fields := model.Get("fields")
	if fields == nil {
		return list
	}
	for _, m := range fields.Members {
		f := DataField{Name: m.Key.Text}
		for name, into := range map[string]*string{"type": &f.Type, "path": &f.Path} {
			if n := m.Value.Get(name); n != nil {
				*into = n.Text
			}
		}
		if values := m.Value.Get("values"); values != nil {
			for _, value := range values.Items {
				f.Values = append(f.Values, value.Text)
			}
		}
		list = append(list, f)
	}
	return list
}

// loaded answers GET /cadenza/definitions: the definitions that the workspace serves.
func (w *Workspace) loaded() LoadedWorkspace {
	s := w.Definitions.Snapshot()
	return LoadedWorkspace{
		Directory: w.Definitions.Dir(), Revision: s.Revision, Loaded: s.Loaded.UTC(),
		Definitions: inspect.Summaries(s), Fields: dataFields(s.DataModel), Warnings: inspect.Findings(s.Warnings), Errors: w.mistakes(),
	}
}

// mistakes returns the present mistakes of the directory.
func (w *Workspace) mistakes() []inspect.Finding {
	err := w.Definitions.LastError()
	if err == nil {
		return []inspect.Finding{}
	}
	if mistakes, ok := inspect.Mistakes(err); ok {
		return mistakes
	}
	return []inspect.Finding{{File: w.Definitions.Dir(), Message: err.Error()}}
}
