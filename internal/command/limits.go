package command

import (
	"bytes"
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
			values := url.Values{"subject": {args[0]}}
			setGiven(values, "limit", limit)
			_, err := show(cmd, &client, "/cadenza/limits", values, asJSON, func(b *bytes.Buffer, st styles, answer *adminapi.Limits) {
				r := report{b: b, st: st, now: time.Now()}
				r.subject(answer)
			})
			return err
		},
	}
	client.addFlags(cmd)
	cmd.Flags().StringVar(&limit, "limit", "", "Show this limit alone")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer of the admin API")
	return cmd
}

// subject shows a subject's use of the limits of each workspace.
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
			r.line("  ", label, limitText(&l.LimitShare))
			label = ""
			for j := range l.Ceilings {
				r.ceiling(l.By, &l.Ceilings[j])
			}
		}
	}
}

// ceiling shows a subject's use of one ceiling.
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

// limitText returns the total use of a limit.
func limitText(l *gateway.LimitShare) string {
	text := fmt.Sprintf("%s by %s: %d %% used", l.Name, l.By, l.Percent)
	if l.Shared {
		text += ", shared"
	}
	if !l.AwaySince.IsZero() {
		text += ", the database away since " + moment(l.AwaySince)
	}
	return text
}

// subjectText names the subject of a limit's use.
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
