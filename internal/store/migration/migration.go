// Package migration reads the scripts that bring a database's schema up to date.
package migration

import (
	"io/fs"
	"slices"
)

// Scripts returns the files migrations/*.sql in the order of their names: the
// n-th takes a schema from version n-1 to n.
func Scripts(files fs.FS) ([]string, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	scripts := make([]string, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		scripts[i] = string(text)
	}
	return scripts, nil
}
