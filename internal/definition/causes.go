package definition

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// LoadError is a workspace with mistakes: all of them, and the warnings,
// which may be their cause.
type LoadError struct {
	Mistakes *document.MultiError
	Warnings []Warning // as in a Snapshot
}

// Error lists the mistakes.
func (e *LoadError) Error() string { return e.Mistakes.Error() }

// Unwrap returns the mistakes.
func (e *LoadError) Unwrap() error { return e.Mistakes }

// consequences are the rules of the mistakes that follow where an entry of the
// workspace is missing.
var consequences = map[string][]string{
	"context.yaml":           {"unknown-field", "unknown-segment", "test-context"},
	kind.Prompt.Folder:       {"unknown-prompt"},
	kind.Endpoint.Folder:     {"unknown-endpoint"},
	kind.RemoteConfig.Folder: {"unknown-config"},
}

// nameCauses replaces mistakes by the one that they follow from: a missing entry of
// which another one has nearly the name, or a data model that can't be read.
//
// For example, a workspace with contxt.yaml has as many mistakes as its tables have
// columns, and one cause.
func (l *loader) nameCauses() {
	if l.errs.Len() == 0 {
		return
	}
	unread := l.context != nil && (l.model == nil && l.next.context.errs.Len() > 0 || l.next.model == nil && len(l.snapshot.Model.FieldNames()) == 0)
	if unread || slices.ContainsFunc(l.lost, isContext) {
		l.errs.Drop(consequences["context.yaml"])
	}
	for _, meant := range slices.Sorted(maps.Keys(l.misnamed)) {
		k := kind.InFolder(meant)
		if meant == "context.yaml" && l.context != nil || len(l.docs[k])+len(l.broken[k]) > 0 {
			continue
		}
		name := l.misnamed[meant]
		n := l.errs.Drop(consequences[meant])
		if n == 0 {
			continue
		}
		l.warnings = slices.DeleteFunc(l.warnings, func(w Warning) bool { return w.Pos.File == l.file(name) })
		follow := "a mistake follows"
		if n > 1 {
			follow = fmt.Sprintf("%d mistakes follow", n)
		}
		l.errs.Report("misnamed", l.position(name), "not read: did you mean %q? %s from its absence", meant, follow)
	}
}

// isContext reports whether an entry is the data model.
func isContext(name string) bool {
	base, ok := definitionName(name)
	return ok && base == "context"
}
