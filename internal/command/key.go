package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

func keyCommand() *cobra.Command {
	var asJSON bool
	var access gateway.Access
	cmd := &cobra.Command{
		Use:   "key [NAME]",
		Short: "Makes an API key and a keys file that lists it",
		Long: `
Makes a random API key and prints it, this once, and a keys file (the option
keys of the Caddyfile) that lists it. A file that lists other keys takes the
line between the brackets behind a comma. The file only holds the key's digest.
To revoke the key, add "revoked": true to its entry.

With --kind client the key is for browsers and phones: it is public, and reads
remote configurations with client: true alone. With --origin it serves pages of
these origins alone.

With --role the key opens the console: viewer, editor or admin. It calls only
with --app too. With --loopback its role counts on the gateway's own machine
alone.`,
		Example: "  caddy cadenza key mobile-app\n  caddy cadenza key --role admin ops\n  caddy cadenza key --kind client --origin https://app.example.com web",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "app"
			if len(args) == 1 {
				name = args[0]
			}
			key, entry, err := gateway.MakeKey(name, access)
			if err != nil {
				return err
			}
			line, err := entry.Line()
			if err != nil {
				return err
			}
			if asJSON {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "{\"key\":%q,\"entry\":%s}\n", key, line)
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "The key, which is shown only here:")
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), key); err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "A keys file with it (in one that lists other keys, add the line between the brackets behind a comma):")
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "[\n\t%s\n]\n", line)
			return err
		},
	}
	cmd.Flags().StringVar(&access.Kind, "kind", "", "The kind of the key: client, for browsers and phones")
	cmd.Flags().StringSliceVar(&access.Origins, "origin", nil, "An origin whose pages may call with the key, such as https://app.example.com")
	cmd.Flags().StringVar((*string)(&access.Role), "role", "", "What the key may do in the console: viewer, editor or admin")
	cmd.Flags().BoolVar(&access.Loopback, "loopback", false, "The role counts for visitors of the gateway's own machine alone")
	cmd.Flags().BoolVar(&access.App, "app", false, "The key calls too, beside its role")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write key and entry as JSON")
	return cmd
}
