package command

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// starter has the files that `caddy cadenza init` writes: a workspace, and the Caddyfile
// beside it.
//
//go:embed starter
var starter embed.FS

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init DIR",
		Short: "Makes a small workspace with comments to start from",
		Long: `
Makes a small workspace: a data model, a prompt, an endpoint and two remote
configurations, with comments. The directory must be empty or not exist.
Beside it goes a Caddyfile that serves them, unless there is one.`,
		Example: "  caddy cadenza init ./definitions",
		RunE:    func(cmd *cobra.Command, args []string) error { return initWorkspace(cmd.OutOrStdout(), args[0]) },
	}
}

func initWorkspace(out io.Writer, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: nothing was written", dir)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	files, err := fs.Sub(starter, "starter/definitions")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return err
	}
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			_, err = fmt.Fprintln(out, visible.Line(filepath.Join(dir, filepath.FromSlash(name))))
		}
		return err
	})
	if err != nil {
		return err
	}
	caddyfile := filepath.Join(filepath.Dir(dir), "Caddyfile")
	if filepath.Base(dir) != filepath.Base(absolute) { // . or ..
		caddyfile = filepath.Join(filepath.Dir(absolute), "Caddyfile")
	}
	serve := fmt.Sprintf("CADENZA_API_KEY=cadenza-demo-key-0001 caddy run --config %s", visible.Line(caddyfile))
	switch err := writeCaddyfile(caddyfile, filepath.Base(absolute)); {
	case errors.Is(err, fs.ErrExist):
		serve = fmt.Sprintf("%s is left as it was. It serves the definitions with, in its cadenza block:\n    definitions %q\n    provider openai {\n      api_key {env.OPENAI_API_KEY}\n    }\n    provider canned", visible.Line(caddyfile), filepath.Base(absolute))
	case err != nil:
		return err
	default:
		if _, err := fmt.Fprintln(out, visible.Line(caddyfile)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "\nTry:\n  caddy cadenza check %[1]s\n  caddy cadenza eval %[1]s limits --context '{environment: production, plan: pro}' --explain\n  %[2]s\n", visible.Line(dir), serve)
	return err
}

// writeCaddyfile writes a Caddyfile that serves the definitions in a folder beside it. It
// fails with fs.ErrExist if there is a Caddyfile.
func writeCaddyfile(path, definitions string) error {
	text, err := starter.ReadFile("starter/Caddyfile")
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(strings.Replace(string(text), `"DEFINITIONS"`, strconv.Quote(definitions), 1))
	return errors.Join(err, file.Close())
}
