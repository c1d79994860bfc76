// Package secret holds references to secrets in place of secrets.
//
// A configuration is shown by Caddy's admin API and saved next to its data, so
// a secret may be in it only as a reference: a whole value {env.NAME} or
// {file.PATH}, which is resolved when the module is provisioned. A literal is
// refused, and so is the Caddyfile's {$NAME}, which becomes a literal before a
// module sees it.
package secret

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/regular"
)

// maxFileSize bounds a secret's file, in bytes.
const maxFileSize = 64 << 10

// ErrEmpty is wrapped by the error of Resolve if the variable or the file is
// absent or empty: the reference is sound, and there is no secret yet.
var ErrEmpty = errors.New("is empty")

// Reference is a configured reference to a secret: {env.NAME} or {file.PATH}.
// Its text is safe to log.
type Reference string

// Validate returns an error if r is no reference. The error never repeats r,
// which may be a secret that was pasted in place of a reference.
func (r Reference) Validate() error {
	if _, _, ok := r.parse(); !ok {
		return errors.New("a secret must be a reference, {env.NAME} or {file.PATH}: a literal (or {$NAME}, which expands to one) would show in Caddy's config export and autosave")
	}
	return nil
}

// Resolve reads the secret, without the white space around it, such as an editor's
// last newline. An error that wraps ErrEmpty names the variable or the file.
func (r Reference) Resolve() (string, error) {
	source, name, ok := r.parse()
	if !ok {
		return "", r.Validate()
	}
	var value string
	switch source {
	case "env":
		value = os.Getenv(name)
	case "file":
		text, err := regular.ReadFile(name, maxFileSize)
		if errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("%s: the file does not exist and so %w", string(r), ErrEmpty)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", string(r), err)
		}
		value = string(text)
	}
	value = strings.TrimSpace(value)
	if value == "" {
		return "", fmt.Errorf("%s %w", string(r), ErrEmpty)
	}
	return value, nil
}

func (r Reference) parse() (source, name string, ok bool) {
	inner, found := strings.CutPrefix(string(r), "{")
	if !found {
		return "", "", false
	}
	inner, found = strings.CutSuffix(inner, "}")
	if !found || strings.ContainsAny(inner, "{}") {
		return "", "", false
	}
	source, name, found = strings.Cut(inner, ".")
	if !found || name == "" || (source != "env" && source != "file") {
		return "", "", false
	}
	return source, name, true
}
