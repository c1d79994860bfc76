package adminapi

import (
	"net/http"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// loadedWorkspace is a workspace as GET /cadenza/definitions shows it.
type loadedWorkspace struct {
	Directory   string            `json:"directory"`
	Revision    string            `json:"revision"`
	Loaded      time.Time         `json:"loaded"`
	Definitions []inspect.Summary `json:"definitions"`
	Warnings    []inspect.Finding `json:"warnings"`
	// Errors are the mistakes of the directory as it is now. While there are
	// any, the last good definitions are served.
	Errors []inspect.Finding `json:"errors"`
}

// serveDefinitions answers GET /cadenza/definitions: what each workspace serves,
// or one with ?workspace=NAME.
func serveDefinitions(w http.ResponseWriter, r *http.Request) error {
	all, err := askedFor(r)
	if err != nil {
		return err
	}
	answer := make(map[string]loadedWorkspace, len(all))
	for name, w := range all {
		answer[name] = w.loaded()
	}
	return writeJSON(w, map[string]any{"workspaces": answer})
}

func (w *Workspace) loaded() loadedWorkspace {
	s := w.Definitions.Snapshot()
	return loadedWorkspace{
		Directory: w.Definitions.Dir(), Revision: s.Revision, Loaded: s.Loaded.UTC(),
		Definitions: inspect.Summaries(s), Warnings: inspect.Findings(s.Warnings), Errors: w.mistakes(),
	}
}

// mistakes returns the mistakes of the directory as it is now.
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
