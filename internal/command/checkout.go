package command

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

func checkoutCommand() *cobra.Command {
	var client gatewayClient
	cmd := &cobra.Command{
		Use:   "checkout REVISION DIR",
		Short: "Writes a revision that was served as a folder of definitions",
		Long: `
Writes a set of definitions that a running gateway served, now or earlier, as a
folder: all files as they were, with their comments and tests. A revision does
not depend on those, so the files are those of the last time that it was served.
REVISION may be the beginning of a revision, 4 characters at least.

DIR must be empty or not exist. The folder appears when it is complete. A DIR
that has these files already is left as it is. The exit status is 0 where DIR
has the revision, and 1 otherwise: nothing was written then.

The gateway is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza checkout 9abb3beb24ff /tmp/then\n  caddy cadenza diff /tmp/then ./definitions",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := client.resolve(); err != nil {
				return err
			}
			past, err := client.past(args[0])
			if err != nil {
				return err
			}
			written, err := past.WriteTo(args[1])
			if err != nil {
				return err
			}
			verb := "has revision"
			if written {
				verb = "is revision"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s: %s\n", visible.Line(args[1]), verb, past.Revision, countPast(past))
			return err
		},
	}
	client.addFlags(cmd)
	return cmd
}

// past asks the gateway for a revision, by its beginning.
func (g *gatewayClient) past(revision string) (*definition.Past, error) {
	var answer adminapi.Revision
	if err := g.ask(http.MethodGet, "/cadenza/revisions/"+url.PathEscape(revision), nil, &answer); err != nil {
		return nil, err
	}
	return &definition.Past{Revision: answer.Revision, Since: answer.Served, Files: answer.Files}, nil
}

// countPast counts the definitions of a revision, and its experiments if it has any.
func countPast(p *definition.Past) string {
	counts := p.Counts()
	list := make([]string, len(kind.All))
	for i, k := range kind.All {
		list[i] = plural(counts[k], k.Noun)
	}
	if n := counts[kind.Experiment]; n > 0 {
		list = append(list, plural(n, kind.Experiment.Noun))
	}
	return strings.Join(list, ", ")
}
