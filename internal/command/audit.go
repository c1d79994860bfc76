package command

import (
	"bytes"
	"cmp"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

func auditCommand() *cobra.Command {
	var client gatewayClient
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Shows what visitors of a running gateway's console did",
		Long: `
Lists what visitors of the console did, the latest first: signing in and out,
looks at content, edits, calls of the playground, labels, exports, erasures,
and keys that were made or revoked, also erasures and exports by the admin API.
Of what was erased it has a keyed hash.

Entries are kept for 400 days. The gateway is asked by its admin API, as with
caddy reload.`,
		Example: "  caddy cadenza audit --since 7d\n  caddy cadenza audit --action erase --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return showRows(cmd, &client, "/cadenza/audit", asJSON, writeAudit, func(answer *adminapi.Audit) []string {
				switch {
				case len(answer.Entries) == 0:
					return []string{"nothing was done"}
				case answer.Next > 0 && !asJSON:
					return []string{"there are older entries: --limit or --until shows them"}
				}
				return nil
			}, "by", "action", "limit")
		},
	}
	client.addFlags(cmd)
	cmd.Flags().String("since", "", "From when on: a time (RFC 3339), a date, or how long ago, such as 2h or 7d")
	cmd.Flags().String("until", "", "Until when, as --since")
	cmd.Flags().String("by", "", "Who did it: the name of an API key, or sso:USER")
	cmd.Flags().String("action", "", "What was done, such as look or erase")
	cmd.Flags().StringP("limit", "n", "", "How many entries, up to 1,000 (default 50)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer of the admin API")
	return cmd
}

// writeAudit writes entries for people. It returns the names of the columns for which the
// terminal has no room.
func writeAudit(b *bytes.Buffer, st styles, answer *adminapi.Audit) (leftOut []string) {
	type column = statsColumn[sqlite.AuditEntry]
	text := visibleText[sqlite.AuditEntry]
	return writeStatsTable(b, st, []column{
		{"time", false, func(e *sqlite.AuditEntry) string { return e.Time.UTC().Format(time.RFC3339) }, 0, 0},
		{"by", false, text(func(e *sqlite.AuditEntry) string { return cmp.Or(e.By, "-") }), 8, 0},
		{"role", false, text(func(e *sqlite.AuditEntry) string { return e.Role }), 0, 4},
		{"from", false, text(func(e *sqlite.AuditEntry) string { return e.From }), 0, 3},
		{"action", false, text(func(e *sqlite.AuditEntry) string { return e.Action }), 0, 0},
		{"subject", false, text(func(e *sqlite.AuditEntry) string { return e.Subject }), 20, 0},
		{"before", false, text(func(e *sqlite.AuditEntry) string { return e.Before }), 12, 2},
		{"after", false, text(func(e *sqlite.AuditEntry) string { return e.After }), 12, 1},
	}, answer.Entries)
}
