// Package configpath resolves paths that are written in a configuration file.
package configpath

import (
	"os"
	"path/filepath"
	"strings"
)

// braces escapes braces as Caddy's placeholders have them.
var braces = strings.NewReplacer("{", `\{`, "}", `\}`)

// Resolve returns a path that is written in file as an absolute path: a relative one
// is relative to the folder of file. A path that begins with a placeholder of Caddy
// stays as it is, because the placeholder may stand for an absolute path. Resolve
// escapes the braces of the folder, which are no placeholders.
//
// The path "definitions" in /etc/caddy/Caddyfile is /etc/caddy/definitions.
func Resolve(file, path string) (string, error) {
	if strings.HasPrefix(path, "{") || filepath.VolumeName(path) != "" || path != "" && os.IsPathSeparator(path[0]) {
		return path, nil
	}
	folder, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return "", err
	}
	return filepath.Join(braces.Replace(folder), path), nil
}
