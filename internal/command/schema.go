package command

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// schemaFolder is where a workspace's schemas are written. It is not read as
// definitions: its name begins with a dot.
const schemaFolder = ".schema"

func schemaCommand() *cobra.Command {
	kinds := slices.Concat([]string{"context"}, kind.Names(), []string{kind.Experiment.String()})
	last := len(kinds) - 1
	var kind string
	cmd := &cobra.Command{
		Use:   "schema [DIR]",
		Short: "Writes JSON Schemas of the definition files, for editors",
		Long: `
Writes the JSON Schemas of a workspace's files into its folder .schema, and
shows the settings with which an editor uses them. They hold the fields of the
workspace's data model: write them again when context.yaml changes.

With --kind, one schema is written to the standard output and nothing else.`,
		Example: "  caddy cadenza schema ./definitions\n  caddy cadenza schema --kind prompt",
		RunE: func(cmd *cobra.Command, args []string) error {
			var model *document.Node
			if len(args) == 1 {
				info, err := os.Stat(args[0])
				if err != nil {
					return err
				}
				if !info.IsDir() {
					return fmt.Errorf("%s is not a directory", args[0])
				}
				if model, err = definition.ReadDataModel(args[0]); err != nil {
					return err
				}
			}
			schemas := definition.Schemas(model)
			if kind != "" {
				return printSchema(cmd, schemas, kind)
			}
			if len(args) == 0 {
				return fmt.Errorf("give the workspace to write schemas for, or --kind to print one")
			}
			return writeSchemas(cmd, args[0], schemas)
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "Print the schema of one kind: "+strings.Join(kinds[:last], ", ")+" or "+kinds[last])
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// printSchema writes the schema of one kind.
func printSchema(cmd *cobra.Command, schemas []definition.FileSchema, kind string) error {
	names := make([]string, len(schemas))
	for i, s := range schemas {
		if names[i] = s.Name; s.Name == kind {
			_, err := cmd.OutOrStdout().Write(visible.JSON(s.Schema))
			return err
		}
	}
	return fmt.Errorf("unknown kind %q%s", kind, document.DidYouMean(kind, names))
}

// writeSchemas writes the schemas below a workspace, and how editors use them.
func writeSchemas(cmd *cobra.Command, dir string, schemas []definition.FileSchema) error {
	folder := filepath.Join(dir, schemaFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, s := range schemas {
		if err := os.WriteFile(filepath.Join(folder, s.Name+".schema.json"), s.Schema, 0o644); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s in %s\n\n", plural(len(schemas), "schema"), visible.Line(folder))
	fmt.Fprintf(out, "Editors with yaml-language-server (VS Code: the extension redhat.vscode-yaml), in their settings:\n\n")
	fmt.Fprint(out, "  \"yaml.schemas\": {\n")
	for i, s := range schemas {
		comma := ","
		if i == len(schemas)-1 {
			comma = ""
		}
		fmt.Fprintf(out, "    %q: %q%s\n", filepath.ToSlash(filepath.Join(folder, s.Name+".schema.json")),
			filepath.ToSlash(filepath.Join(dir, filepath.FromSlash(s.Pattern))), comma)
	}
	fmt.Fprint(out, "  }\n\nOr as the first line of a file, for example of one in remoteconfigs:\n\n")
	_, err := fmt.Fprintf(out, "  # yaml-language-server: $schema=../%s/remoteconfig.schema.json\n", schemaFolder)
	return err
}
