package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

func revisionsCommand() *cobra.Command {
	var client gatewayClient
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revisions",
		Short: "Lists the revisions that were served",
		Long: `
Lists the sets of definitions that a running gateway served and still stores, the
latest first: when each began to be served, the first time and the last time. The
store keeps the last 100, as long as the retention and the room for their files
allow.

check, eval and diff take revision:ID in place of a directory, and checkout writes
a revision as a folder. ID may be the beginning of one, 4 characters at least.

The gateway is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza revisions\n  caddy cadenza diff revision:9abb3beb ./definitions",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := client.resolve(); err != nil {
				return err
			}
			var text json.RawMessage
			if err := client.get("/cadenza/revisions", nil, &text); err != nil {
				return err
			}
			var answer adminapi.Revisions
			if err := decode(text, &answer); err != nil {
				return err
			}
			return writeReport(cmd, text, asJSON, func(b *bytes.Buffer, st styles) { writeRevisions(b, st, &answer) })
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

// placeIn returns a place below a directory as it is below a name of that, and any other
// place as it is.
func placeIn(place, dir, name string) string {
	if inside, ok := strings.CutPrefix(place, dir); ok {
		return name + filepath.ToSlash(inside)
	}
	return place
}

// folder returns the directory that an argument names. Of revision:ID it is a
// temporary one, to which the revision that the gateway stores was written. remove is
// to be called once the directory is not needed any more.
func (g *gatewayClient) folder(argument string) (dir string, remove func(), err error) {
	id, isRevision := strings.CutPrefix(argument, revisionPrefix)
	if !isRevision {
		return argument, func() {}, nil
	}
	if err := g.resolve(); err != nil {
		return "", nil, err
	}
	past, err := g.past(id)
	if err != nil {
		return "", nil, err
	}
	parent, err := os.MkdirTemp("", "cadenza-revision-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(parent) }
	dir = filepath.Join(parent, "definitions")
	if _, err := past.WriteTo(dir); err != nil {
		remove()
		return "", nil, err
	}
	return dir, remove, nil
}
