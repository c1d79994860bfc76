package definition

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/regular"
)

// ReadDataModel reads a workspace's data model as it is in its file, for tools that
// show or compare it. It returns nil where the workspace has none. For a file with
// a mistake the error is a *document.MultiError.
func ReadDataModel(dir string) (*document.Node, error) {
	for _, name := range []string{"context.yaml", "context.yml", "context.json"} {
		path := filepath.Join(dir, name)
		data, err := regular.ReadFile(path, document.MaxFileBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var errs document.Errors
		n := document.Parse(path, data, &errs)
		return n, errs.Err()
	}
	return nil, nil
}
