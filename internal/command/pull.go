package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func pullCommand() *cobra.Command {
	var client gatewayClient
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "pull",
		Short: "Has a running gateway fetch its bundle of definitions now",
		Long: `
Has a running gateway whose definitions come as bundles ask for the newest one
now, and says what came of it. A bundle that was refused is fetched and tried
again.

The exit status is 1 where the bundle is refused, or none came. What was served
is served on.

The gateway is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza pull\n  caddy cadenza pull -w shop --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := client.resolve(); err != nil {
				return err
			}
			var text json.RawMessage
			if err := client.ask(http.MethodPost, "/cadenza/pull", nil, &text); err != nil {
				return err
			}
			var answer adminapi.Pulled
			if err := decode(text, &answer); err != nil {
				return err
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(text); err != nil {
					return err
				}
			}
			if answer.IsRefused() {
				return errors.New("refused: " + answer.Refused)
			}
			if asJSON {
				return nil
			}
			return writeReport(cmd, nil, false, func(b *bytes.Buffer, _ styles) {
				fmt.Fprintf(b, "%s: revision %s is served, by bundle %s with serial %d from %s\n",
					answer.Result, answer.Revision, visible.Line(answer.Bundle), answer.Serial, visible.Line(answer.URL))
			})
		},
	}
	client.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer of the admin API")
	return cmd
}
