package command

import (
	"bytes"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/definition"
)

func revisionsCommand() *cobra.Command {
	var client gatewayClient
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revisions",
		Short: "Lists the revisions that were served",
		Long: `
Lists the sets of definitions that a running gateway served and still stores,
the latest first: when each began to be served, the first time and the last
time. The store keeps the last 100, as long as the retention and the room for
their files allow.

check, eval and diff take revision:ID in place of a directory, and checkout
writes a revision as a folder. ID may be the beginning of one, 4 characters at
least.

The gateway is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza revisions\n  caddy cadenza diff revision:9abb3beb ./definitions",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := show(cmd, &client, "/cadenza/revisions", nil, asJSON, writeRevisions)
			return err
		},
	}
	client.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer of the admin API")
	return cmd
}

// writeRevisions writes a list of revisions for people.
func writeRevisions(b *bytes.Buffer, st styles, answer *adminapi.Revisions) {
	if len(answer.Revisions) == 0 {
		b.WriteString("no revision is stored\n")
		return
	}
	rows := [][]cell{plainRow("revision", "first served", "last served", "")}
	for _, r := range answer.Revisions {
		latest := ""
		if r.Latest {
			latest = "latest"
		}
		rows = append(rows, plainRow(r.Revision, moment(r.FirstSeen), moment(r.Served), latest))
	}
	new(columns).write(b, st, rows...)
}

// revisionPrefix begins an argument that names a stored revision in place of a
// directory.
const revisionPrefix = "revision:"

// place returns the place of an argument's definitions: a directory or, for revision:ID,
// a revision that the gateway stores.
func (g *gatewayClient) place(argument string) (definition.Place, error) {
	place := definition.Place{Dir: argument}
	id, isRevision := strings.CutPrefix(argument, revisionPrefix)
	if !isRevision {
		return place, nil
	}
	if err := g.resolve(); err != nil {
		return place, err
	}
	var err error
	place.Past, err = g.past(id)
	return place, err
}
