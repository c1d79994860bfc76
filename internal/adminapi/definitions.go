package adminapi

import (
	"net/http"
	"time"

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
	Warnings    []inspect.Finding `json:"warnings"`
	// Errors are the present mistakes of the directory. While it has any, the last
	// good definitions are served.
	Errors []inspect.Finding `json:"errors"`
}

// serveDefinitions answers GET /cadenza/definitions: the definitions that each workspace
// serves, or one with ?workspace=NAME.
func serveDefinitions(w http.ResponseWriter, r *http.Request) error {
	if err := knownParameters(r.URL.Query(), []string{"workspace"}); err != nil {
		return err
	}
	all, err := askedFor(r)
	if err != nil {
		return err
	}
	answer := make(map[string]LoadedWorkspace, len(all))
	for name, w := range all {
		answer[name] = w.loaded()
	}
	return writeJSON(w, Definitions{answer})
}

func (w *Workspace) loaded() LoadedWorkspace {
	s := w.Definitions.Snapshot()
	return LoadedWorkspace{
		Directory: w.Definitions.Dir(), Revision: s.Revision, Loaded: s.Loaded.UTC(),
		Definitions: inspect.Summaries(s), Warnings: inspect.Findings(s.Warnings), Errors: w.mistakes(),
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
