// Package private keeps files to their owner: those that hold keys or what callers sent
// from other users, and those that one process writes from other processes.
package private

import (
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"
)

// mode lets only the owner read and write a file.
const mode fs.FileMode = 0o600

// RestrictFile gives a new file the mode that lets only its owner read and write
// it, whatever the umask is. Where that fails, Warn warns of the file.
func RestrictFile(file *os.File) { _ = file.Chmod(mode) }

// Restrict does the same by the path of a file.
func Restrict(path string) { _ = os.Chmod(path, mode) }

// Warn logs a warning that names those of the files that group or others can read
// or write, with the command that mends it. Links are followed. A path without a
// file, or on a system without such modes, is passed over.
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

// quote writes arguments for a shell.
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
