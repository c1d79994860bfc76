package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

func eraseCommand() *cobra.Command {
	var client gatewayClient
	var conversation, decision, metadata, unit string
	var yes, dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "erase",
		Short: "Erases a conversation's or a person's traces for good",
		Long: `
Erases what a running gateway has recorded of a conversation or a decision, with
a member of the metadata such as a user's id, or of a unit, the value of a field
that splits go by: traces, the metrics on them and on the unit, and the answers
that are kept for repeated requests. The bytes are overwritten
in the gateway's database, and its sinks are told to erase the same. Backups and
exports stay as they are.

A VALUE such as 8842 or true matches the number or truth value and the text; in
quotes of its own ('"8842"'), the text only.

Without --yes nothing is erased, and with --dry-run it is counted. The value is
sent in the body of a request, so that no log of the admin API has it. The
gateway is asked by its admin API, as with caddy reload.`,
		Example: "  caddy cadenza erase --metadata user_id=u-8842 --dry-run\n  caddy cadenza erase --metadata user_id=u-8842 --yes\n  caddy cadenza erase --unit customer_id=c-7 --yes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			values := url.Values{}
			var what string
			if conversation != "" {
				values.Set("conversation_id", conversation)
				what = fmt.Sprintf("of the conversation %q", conversation)
			}
			if decision != "" {
				values.Set("decision", decision)
				what = fmt.Sprintf("of the decision %q", decision)
			}
			if metadata != "" {
				name, value, err := splitMember("metadata", metadata)
				if err != nil {
					return err
				}
				values.Set(adminapi.MetadataParameter+name, value)
				what = fmt.Sprintf("with the metadata %q", metadata)
			}
			if unit != "" {
				name, value, _ := strings.Cut(unit, "=")
				if name == "" || value == "" {
					return fmt.Errorf("--unit takes FIELD=VALUE, this is %q", unit)
				}
				values.Set(adminapi.UnitParameter+name, value)
				what = fmt.Sprintf("of the unit %q", unit)
			}
			if len(values) != 1 {
				return errors.New("what is to be erased? Give one of --conversation-id ID, --decision ID, --metadata NAME=VALUE and --unit FIELD=VALUE")
			}
			if dry {
				values.Set("dry_run", "true")
			}
			if !yes && !dry {
				return fmt.Errorf("this erases for good what was recorded %s: add --yes if that is meant, or --dry-run to count it", what)
			}
			if err := client.resolve(); err != nil {
				return err
			}
			var text json.RawMessage
			if err := client.ask(http.MethodDelete, "/cadenza/traces", values, &text); err != nil {
				return err
			}
			var answer struct {
				Erased, Found *struct{ Traces, Metrics, Replies int }
			}
			if err := decode(text, &answer); err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(text)
			}
			e, done := answer.Erased, "erased"
			if e == nil {
				e, done = answer.Found, "would erase"
			}
			if e == nil {
				return errors.New("the gateway's answer has no counts; is it of another version?")
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s, %s and %s\n",
				done, plural(e.Traces, "trace"), plural(e.Metrics, "report"), plural(e.Replies, "kept answer"))
			return err
		},
	}
	client.addFlags(cmd)
	cmd.Flags().StringVar(&conversation, "conversation-id", "", "Erase what was reported with, or bears, this conversation's id")
	cmd.Flags().StringVar(&decision, "decision", "", "Erase this decision, all its traces with it: its id, or the beginning of it")
	cmd.Flags().StringVar(&metadata, "metadata", "", "Erase what has this member in its metadata, as NAME=VALUE")
	cmd.Flags().StringVar(&unit, "unit", "", "Erase what is of this unit, as FIELD=VALUE of the data model")
	cmd.Flags().BoolVar(&yes, "yes", false, "Erase for good")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "Count what would be erased, and erase nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the counts as JSON")
	return cmd
}
