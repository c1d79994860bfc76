package command

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// keyPrefix begins the keys that `caddy cadenza key` makes, so that scanners
// for leaked secrets recognize them.
const keyPrefix = "cdz_"

// keyEntry is an entry of a keys file.
type keyEntry struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	gateway.Access
}

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

With --role the key opens the console: viewer, editor or admin. It calls only
with --app too.`,
		Example: "  caddy cadenza key mobile-app\n  caddy cadenza key --role admin ops",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "app"
			if len(args) == 1 {
				name = args[0]
			}
			if name == "" || len(name) > wire.MaxKeyName {
				return fmt.Errorf("the name of a key has 1 to %d bytes, this one %d", wire.MaxKeyName, len(name))
			}
			if err := access.CheckAccess(); err != nil {
				return err
			}
			key := keyPrefix + rand.Text()
			sum := sha256.Sum256([]byte(key))
			entry := keyEntry{Name: name, SHA256: hex.EncodeToString(sum[:]), Access: access}
			var out bytes.Buffer
			encoder := json.NewEncoder(&out)
			encoder.SetEscapeHTML(false)
			if asJSON {
				if err := encoder.Encode(struct {
					Key   string   `json:"key"`
					Entry keyEntry `json:"entry"`
				}{key, entry}); err != nil {
					return err
				}
				_, err := cmd.OutOrStdout().Write(out.Bytes())
				return err
			}
			out.WriteString("[\n\t")
			if err := encoder.Encode(entry); err != nil {
				return err
			}
			out.WriteString("]\n")
			fmt.Fprintln(cmd.ErrOrStderr(), "The key, which is shown only here:")
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), key); err != nil {
				return err
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "A keys file with it (in one that lists other keys, add the line between the brackets behind a comma):")
			_, err := cmd.OutOrStdout().Write(out.Bytes())
			return err
		},
	}
	cmd.Flags().StringVar((*string)(&access.Role), "role", "", "What the key may do in the console: viewer, editor or admin")
	cmd.Flags().BoolVar(&access.App, "app", false, "The key calls too, beside its role")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write key and entry as JSON")
	return cmd
}
