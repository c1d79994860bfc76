package command

import (
	"bytes"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

func refusedCommand() *cobra.Command {
	var client gatewayClient
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "refused",
		Short: "Shows whose requests a running gateway refused before a call, and why",
		Long: `
Counts the requests that a running gateway refused before it called a model, by
API key, route, error code, limit with its subject, and the key of the
definition that was asked for; those that were refused most often come first,
each with the last message that a caller got. --json has the last three.

They are counted by the hour: --since and --until, a time (RFC 3339), a date, or
how long ago it was, such as 2h or 7d, count the whole hours that contain them.
Beyond 1,000 rows in an hour, new subjects of limits share the subject *.
Requests without a valid API key have none in the table; they are counted for
all workspaces together, for 7 days, and a restart forgets them.

The gateway is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza refused --since 1d\n  caddy cadenza refused --api-key web --json | jq '.rows[].examples[].message'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showRows(cmd, &client, "/cadenza/refused", asJSON, writeRefused, func(answer *adminapi.Refused) []string {
				if len(answer.Rows) > 0 {
					return nil
				}
				return []string{"nothing was refused"}
			})
		},
	}
	client.addFlags(cmd)
	addFilterFlags(cmd, "key", "api-key")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer of the admin API")
	return cmd
}

// writeRefused writes the refused requests for people. It returns the names of the
// columns for which the terminal has no room.
func writeRefused(b *bytes.Buffer, st styles, answer *adminapi.Refused) (leftOut []string) {
	type column = statsColumn[sqlite.RefusalRow]
	text := visibleText[sqlite.RefusalRow]
	return writeStatsTable(b, st, []column{
		{"count", true, func(r *sqlite.RefusalRow) string { return strconv.FormatInt(r.Count, 10) }, 0, 0},
		{"api key", false, text(func(r *sqlite.RefusalRow) string { return r.APIKey }), 8, 0},
		{"status", true, func(r *sqlite.RefusalRow) string { return strconv.Itoa(r.Status) }, 0, 3},
		{"code", false, text(func(r *sqlite.RefusalRow) string { return r.Code }), 12, 0},
		{"limit", false, text(func(r *sqlite.RefusalRow) string { return r.Limit }), 8, 0},
		{"subject", false, text(func(r *sqlite.RefusalRow) string { return r.Subject }), 8, 0},
		{"key", false, text(func(r *sqlite.RefusalRow) string { return r.Key }), 8, 4},
		{"route", false, text(func(r *sqlite.RefusalRow) string { return r.Route }), 8, 2},
		{"last", false, func(r *sqlite.RefusalRow) string { return r.Last.UTC().Format(time.RFC3339) }, 0, 5},
		{"example", false, text(func(r *sqlite.RefusalRow) string {
			if len(r.Examples) == 0 {
				return ""
			}
			return r.Examples[0].Message
		}), 20, 1},
	}, answer.Rows)
}
