package command

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// keyPrefix begins the keys that `caddy cadenza key` makes, so that scanners
// for leaked secrets can know them.
const keyPrefix = "cdz_"

// keyEntry is an entry of a keys file.
type keyEntry struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

func keyCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "key [NAME]",
		Short: "Makes an API key and its entry for a keys file",
		Long: `
Makes a random API key and prints it, this once, with its entry for a keys file
(the option keys of the Caddyfile). The entry only holds the key's digest. To
revoke the key, add "revoked": true to the entry.`,
		Example: "  caddy cadenza key mobile-app",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "app"
			if len(args) == 1 {
				name = args[0]
			}
			if name == "" || len(name) > wire.MaxKeyName {
				return fmt.Errorf("the name of a key has 1 to %d bytes, this one %d", wire.MaxKeyName, len(name))
			}
			key := keyPrefix + rand.Text()
			sum := sha256.Sum256([]byte(key))
			entry := keyEntry{Name: name, SHA256: hex.EncodeToString(sum[:])}
			encoder := json.NewEncoder(cmd.OutOrStdout())
			encoder.SetEscapeHTML(false)
			if asJSON {
				return encoder.Encode(struct {
					Key   string   `json:"key"`
					Entry keyEntry `json:"entry"`
				}{key, entry})
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "The key, which is shown only here, and its entry for a keys file:")
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), key); err != nil {
				return err
			}
			return encoder.Encode(entry)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write key and entry as JSON")
	return cmd
}
