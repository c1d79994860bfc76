package command

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

func checkoutCommand() *cobra.Command {
	var client gatewayClient
	cmd := &cobra.Command{
		Use:   "checkout REVISION DIR",
		Short: "Writes a revision that was served as a folder of definitions",
		Long: `
Writes a set of definitions that a running gateway served, now or earlier, as a
folder that loads as the same revision: context.yaml as it was, and a file for
each definition. Comments, tests, descriptions and anchors are not stored, and
variants are written with all they inherit. REVISION may be the beginning of a
revision, 4 characters at least.

DIR must be empty or not exist. The folder appears when it is complete and was
loaded as that revision. A DIR that loads as the revision already is left as it
is. The exit status is 0 where DIR has the revision, and 1 otherwise: nothing was
written then.

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
	past := &definition.Past{Revision: answer.Revision, Context: []byte(answer.Context)}
	for _, d := range answer.Definitions {
		kind, known := trace.ParseKind(d.Kind)
		if !known {
			return nil, fmt.Errorf("revision %s has a definition of the kind %q, which this version of Cadenza does not know", answer.Revision, d.Kind)
		}
		past.Definitions = append(past.Definitions, definition.PastDefinition{Kind: kind, Key: d.Key, Version: d.Version, Content: d.Content})
	}
	return past, nil
}

// countPast counts the definitions of a revision.
func countPast(p *definition.Past) string {
	var prompts, endpoints, configs int
	for _, d := range p.Definitions {
		switch d.Kind {
		case trace.KindPrompt:
			prompts++
		case trace.KindEndpoint:
			endpoints++
		case trace.KindRemoteConfig:
			configs++
		}
	}
	return plural(prompts, "prompt") + ", " + plural(endpoints, "endpoint") + ", " + plural(configs, "remote configuration")
}
