package command

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// starter is the workspace that `caddy cadenza init` makes.
//
//go:embed starter
var starter embed.FS

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init DIR",
		Short: "Makes a small workspace with comments to start from",
		Long: `
Makes a small workspace: a data model, a prompt, an endpoint and two remote
configurations, with comments. The directory must be empty or not exist.`,
		Example: "  caddy cadenza init ./definitions",
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			entries, err := os.ReadDir(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if len(entries) > 0 {
				return fmt.Errorf("%s is not empty: nothing was written", dir)
			}
			files, err := fs.Sub(starter, "starter")
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			if err := os.CopyFS(dir, files); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
				if err == nil && !entry.IsDir() {
					_, err = fmt.Fprintln(out, visible.Line(filepath.Join(dir, filepath.FromSlash(name))))
				}
				return err
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "\nTry:\n  caddy cadenza check %[1]s\n  caddy cadenza eval %[1]s limits --context '{environment: production, plan: pro}' --explain\n", visible.Line(dir))
			return err
		},
	}
}
