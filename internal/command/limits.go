package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func limitsCommand() *cobra.Command {
	var client gatewayClient
	var limit string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "limits SUBJECT",
		Short: "Shows how much of the limits one caller has used, and what is left",
		Long: `
Shows how one subject stands with the limits of a running gateway: what it has
used, what is set aside for its calls under way, what is left, and until when.
SUBJECT is what a limit counts by: the name of an API key, the key of an
endpoint, or a value of the metadata, such as a customer. Limits by workspace
count all subjects together, and are shown for each. '' stands for the requests
that have no value.

A subject that has made no calls has used nothing: the gateway knows no list of
subjects. Of a limit that gateways share, the lease is what this gateway may use
before it asks the database for more; what the others have used is what they had
reported when the database answered this gateway last.

The gateway is asked by its admin API, as with caddy reload. Without -w it shows
all workspaces.`,
		Example: "  caddy cadenza limits acme\n  caddy cadenza limits acme --limit customers\n  caddy cadenza limits acme --json | jq '.workspaces[].limits[].ceilings[].left'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := client.resolve(); err != nil {
				return err
			}
			values := url.Values{"subject": {args[0]}}
			setGiven(values, "limit", limit)
			var text json.RawMessage
			if err := client.get("/cadenza/limits", values, &text); err != nil {
				return err
			}
			var answer adminapi.Limits
			if err := decode(text, &answer); err != nil {
				return err
			}
			return writeReport(cmd, text, asJSON, func(b *bytes.Buffer, st styles) {
				r := report{b: b, st: st, now: time.Now()}
				r.subject(&answer)
			})
		},
	}
	client.addFlags(cmd)
	cmd.Flags().StringVar(&limit, "limit", "", "Show this limit alone")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer of the admin API")
	return cmd
}

// subject shows how a subject stands with the limits of each workspace.
func (r *report) subject(answer *adminapi.Limits) {
	for i, name := range slices.Sorted(maps.Keys(answer.Workspaces)) {
		if i > 0 {
			r.b.WriteByte('\n')
		}
		fmt.Fprintf(r.b, "%sworkspace %s:%s\n", r.st.bold, visible.Line(name), r.st.reset)
		list := answer.Workspaces[name].Limits
		if len(list) == 0 {
			r.line("  ", "limits", "none")
		}
		label := "limits"
		for i := range list {
			l := &list[i]
			r.line("  ", label, limitText(l.Name, l.By, l.Percent, l.Shared, l.AwaySince))
			label = ""
			for j := range l.Ceilings {
				r.ceiling(l.By, &l.Ceilings[j])
			}
		}
	}
}

// ceiling shows how a subject stands with a ceiling.
func (r *report) ceiling(by string, use *gateway.SubjectUse) {
	amount := func(n float64) string {
		text := strconv.FormatFloat(n, 'f', -1, 64)
		if use.Measure == "money" {
			text += "usd"
		}
		return text
	}
	text := fmt.Sprintf("- %s: %d %% of %s %s: %s used", subjectText(use.Subject, by), use.Percent, use.Measure, use.Ceiling, amount(use.Used))
	if use.Reserved > 0 {
		text += ", " + amount(use.Reserved) + " set aside"
	}
	text += ", " + amount(use.Left) + " left"
	if !use.Resets.IsZero() {
		text += ", until " + moment(use.Resets) + ", in " + age(use.Resets.Sub(r.now))
	}
	r.line("  ", "", text)
	if lease := use.Lease; lease != nil {
		others := "not known yet"
		if lease.Others != nil {
			others = amount(*lease.Others)
		}
		r.line("  ", "", fmt.Sprintf("used here %s, by other gateways %s; the lease has %s left", amount(lease.Used), others, amount(lease.Left)))
	}
}

// limitText returns how a limit is used in all.
func limitText(name, by string, percent int, shared bool, away time.Time) string {
	text := fmt.Sprintf("%s by %s: %d %% used", name, by, percent)
	if shared {
		text += ", shared"
	}
	if !away.IsZero() {
		text += ", the database away since " + moment(away)
	}
	return text
}

// subjectText returns whose use of a limit it is.
func subjectText(subject, by string) string {
	switch {
	case by == "workspace":
		return "all together"
	case subject == "" && by == "endpoint":
		return "(unknown endpoints)"
	case subject == "":
		return "(no value)"
	}
	return subject
}
