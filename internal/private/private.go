// Package private keeps files from all but their owner: what callers sent, and
// keys, stand in those that it is for.
package private

import (
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"
)

// mode is of files that their owner alone reads and writes.
const mode fs.FileMode = 0o600

// RestrictFile gives a file that was just made its mode, whatever the umask took
// from it. Where that can't be done Warn finds it.
func RestrictFile(file *os.File) { _ = file.Chmod(mode) }

// Restrict does the same to the file of a name.
func Restrict(path string) { _ = os.Chmod(path, mode) }

// Warn warns of those of the files that group or others can read or write, in
// one line with what mends it. Links are followed. What is not there, or has no
// such modes, is passed over.
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
