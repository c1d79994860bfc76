package command

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// planFormats are the formats of a plan.
var planFormats = []string{"text", "json", "markdown"}

func planCommand() *cobra.Command {
	p := planner{}
	cmd := &cobra.Command{
		Use:   "plan NEW [--against OLD]",
		Short: "Shows what new definitions would have answered to recorded decisions",
		Long: `
Asks a running gateway what the definitions in the directory NEW would have
answered to the decisions that it recorded: how many are answered otherwise, by
definition, row, arm and API key, with the first traces of each change. The
gateway gets the definitions, and serves none of them.

What is compared is the recorded answer or, with --against, what other
definitions would have answered: those of a directory, or served for those that
the gateway serves. NEW and OLD may be revision:ID, a revision that the gateway
stores.

What the records do not tell is not decided: the plan has its share, and names
the field whose value would tell.

The exit status is 1 where more than --fail-over are answered otherwise, NEW
does not load (its mistakes are shown as check shows them), nothing was recorded
or the gateway can't be asked. Ctrl-C shows what was seen so far, with status 1.`,
		Example: "  caddy cadenza plan ./definitions\n  caddy cadenza plan ./definitions --replay 1d --fail-over 5%\n  caddy cadenza plan ./definitions --against served --format markdown",
		RunE:    p.run,
	}
	p.client.addFlags(cmd)
	cmd.Flags().StringVar(&p.against, "against", "", "Compare with these definitions: a directory, revision:ID or served; default: with what was answered")
	cmd.Flags().StringVar(&p.replay, "replay", "7d", "From when on decisions are replayed: a time (RFC 3339), a date, or how long ago")
	cmd.Flags().StringVar(&p.format, "format", "text", "text, json or markdown")
	cmd.Flags().StringVar(&p.failOver, "fail-over", "", "Exit with status 1 when more than this share is answered otherwise, such as 5%")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(planFormats, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

// planner asks a gateway for a plan.
type planner struct {
	client                            gatewayClient
	against, replay, format, failOver string
}

func (p *planner) run(cmd *cobra.Command, args []string) error {
	if !slices.Contains(planFormats, p.format) {
		return fmt.Errorf("unknown format %q%s", p.format, document.DidYouMean(p.format, planFormats))
	}
	most, err := strconv.ParseFloat(strings.TrimSuffix(p.failOver, "%"), 64)
	if p.failOver != "" && (err != nil || !strings.HasSuffix(p.failOver, "%") || !(most >= 0 && most <= 100)) {
		return fmt.Errorf("--fail-over must be a share such as 5%% or 0.1%%, this is %q", p.failOver)
	}
	values := url.Values{"replay": {p.replay}}
	sets, folder := []string{args[0]}, ""
	switch p.against {
	case "":
	case "served":
		values.Set("against", p.against)
	default:
		sets, folder = append(sets, p.against), "new/"
	}
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	for i, argument := range sets {
		if err := p.pack(cmd, archive, argument, folder, i == 0); err != nil {
			return err
		}
		folder = "against/"
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := p.client.resolve(); err != nil {
		return err
	}
	resp, err := p.client.send(http.MethodPost, "/cadenza/plan", values, http.Header{"Content-Type": {"application/x-tar"}}, &packed)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	plan, broken := readPlan(cmd, resp.Body)
	if plan == nil {
		return broken
	}
	switch p.format {
	case "markdown":
		err = plan.Markdown(cmd.OutOrStdout())
	case "text":
		err = plan.Text(cmd.OutOrStdout())
	default:
		err = writeReport(cmd, plan, true, nil)
	}
	if err = errors.Join(broken, err); err == nil && p.failOver != "" && plan.FailOver(most/100) {
		err = fmt.Errorf("%.2f %% of the decisions are answered otherwise, more than %s", 100*plan.ChangedShare, p.failOver)
	}
	return err
}

// pack adds the definitions of an argument to a tar, or writes their mistakes as check does.
// Of NEW there must be some: a plan without any is one of a wrong directory.
func (p *planner) pack(cmd *cobra.Command, archive *tar.Writer, argument, folder string, isNew bool) error {
	place, err := p.client.place(argument)
	if err != nil {
		return err
	}
	c, err := checkPlace(place, false, 0)
	if err != nil {
		return err
	}
	if c.target = argument; !c.OK {
		return errors.Join(checkFormats["text"](cmd, c), fmt.Errorf("%s: %s", argument, c.counts()))
	}
	if isNew && len(c.snapshot.Definitions) == 0 {
		return fmt.Errorf("%s has no definition: they are in its folders endpoints, prompts and remoteconfigs", argument)
	}
	for _, f := range c.snapshot.Bundled() {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: folder + f.Path, Mode: 0o644, Size: int64(len(f.Content))}); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, f.Content); err != nil {
			return err
		}
	}
	return nil
}

// readPlan reads the lines of an answer, and shows on a terminal how far they are. The plan
// is the last one that came; the error says why it is not the whole.
func readPlan(cmd *cobra.Command, answer io.ReadCloser) (*inspect.Plan, error) {
	// Before, Ctrl-C ends the command as usual.
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = answer.Close() })()
	shown := isTerminal(cmd.ErrOrStderr())
	if shown {
		defer fmt.Fprint(cmd.ErrOrStderr(), "\r\x1b[K")
	}
	var last adminapi.PlanLine
	for lines := json.NewDecoder(answer); ; {
		var line adminapi.PlanLine
		err := lines.Decode(&line)
		seen := "anything was seen"
		if done := last.Progress; done != nil {
			seen = fmt.Sprintf("all was seen: this is the plan of %s of %s traces", humanize.Comma(done.Seen), humanize.Comma(done.Of))
		}
		switch {
		case ctx.Err() != nil:
			return last.Plan, fmt.Errorf("interrupted before %s", seen)
		case err != nil:
			return last.Plan, fmt.Errorf("the gateway's answer broke off before %s: %w", seen, err)
		case line.Error != "":
			return last.Plan, fmt.Errorf("the gateway gave up before %s: %s", seen, visible.Lines(line.Error))
		case line.Progress == nil:
			return line.Plan, nil
		}
		if last = line; shown {
			fmt.Fprintf(cmd.ErrOrStderr(), "\r\x1b[K%s of %s traces: %.2f %% changed, %.2f %% not decided", humanize.Comma(line.Progress.Seen), humanize.Comma(line.Progress.Of),
				100*line.Plan.ChangedShare, 100*line.Plan.NotDecidedShare)
		}
	}
}
