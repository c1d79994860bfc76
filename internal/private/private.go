// Package private protects files with keys or content of callers from other users, and
// files that one process writes from other processes.
package private

import (
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"
)

// mode allows only the owner to read and write a file.
const mode fs.FileMode = 0o600

// RestrictFile sets the mode of a new file so that only its owner can read and write it,
// whatever the umask is. If that fails, Warn warns of the file.
func RestrictFile(file *os.File) { _ = file.Chmod(mode) }

// Restrict does the same by the path of a file.
func Restrict(path string) { _ = os.Chmod(path, mode) }

// Warn logs a warning that names the files that group or others can read or write, with the
// command that mends it. It follows links. It ignores a path without a file, and every path
// on Windows, which has no such modes.
func Warn(logger *slog.Logger, paths ...string) {
	if runtime.GOOS == "windows" {
		return
	}
	var open []string
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o066 != 0 {
			open = append(open, path)
		}
	}
	if len(open) > 0 {
		logger.Warn("group or others can read or write files of traces, which hold what callers sent; to keep them out, run: chmod 600 "+quote(open),
			"files", open)
	}
}

// quote quotes arguments for a shell.
func quote(arguments []string) string {
	quoted := make([]string, len(arguments))
	for i, argument := range arguments {
		quoted[i] = argument
		if strings.ContainsFunc(argument, func(r rune) bool {
			return !strings.ContainsRune("/._-+:@%,=", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		}) {
			quoted[i] = "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
