package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/trace"
)

// exitUnproved is the exit status of `prove` if it can't say.
const exitUnproved = 2

// errDiffers is the failure of a proof.
var errDiffers = errors.New("the record is not what was decided")

func proveCommand() *cobra.Command {
	p := prover{pasts: make(map[string]*provable)}
	cmd := &cobra.Command{
		Use:   "prove [ID...]",
		Short: "Decides again what traces recorded, and says whether it comes out the same",
		Long: `
Takes a trace of a running gateway and the definitions of its revision, decides
again by the inputs that the trace has, at its time, and says whether reason,
row and arm come out the same. The seal of the record says whether anything else
was changed after it was made. ID is that of a trace or of a decision, whose
traces are all proved, or the beginning of one. Without an ID, the newest traces
that pass the flags are proved, as the command traces lists them.

A value that was recorded as a hash is present and may be any; one of a field
with trace: none may also be missing. Where the decision depends on it, the
command can't say, and names the row, the cell and the field. The bucket of a
split stands in for a unit that was not recorded. Nor can it say of a record
without a seal, or with one under another trace key.

The exit status is 0 where all come out the same, 1 where one differs, nothing
was proved or the gateway can't be asked, and 2 where none differs but the
command can't say of one.`,
		Example: "  caddy cadenza prove 0192f3a1-b2c3\n  caddy cadenza prove --key new_checkout --since 1d --limit 1000",
		RunE: func(cmd *cobra.Command, args []string) error {
			return exitOf(cmd, p.run(cmd, args))
		},
	}
	p.client.addFlags(cmd)
	addFilterFlags(cmd)
	cmd.Flags().IntVarP(&p.limit, "limit", "n", adminapi.DefaultTraces, "How many traces to prove at most, without an ID")
	cmd.Flags().BoolVar(&p.asJSON, "json", false, "Write each proof as a line of JSON")
	return cmd
}

// errUnproved ends the command with exitUnproved.
var errUnproved = errors.New("unproved")

// exitOf returns the error that ends a command. errUnproved ends it silently, because
// its output has said why.
func exitOf(cmd *cobra.Command, err error) error {
	if errors.Is(err, errUnproved) {
		return exitSilently(cmd, exitUnproved)
	}
	return err
}

// exitSilently returns the error that ends a command with an exit status, when its
// output has said why.
func exitSilently(cmd *cobra.Command, status int) error {
	cmd.SilenceErrors = true
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, nil })(cmd, nil)
}

// prover proves traces of a gateway.
type prover struct {
	client gatewayClient
	limit  int
	asJSON bool
	pasts  map[string]*provable // by workspace and revision
	counts map[string]int       // by result
}

// provable is a revision, or the reason why it can't be loaded.
type provable struct {
	snapshot *definition.Snapshot
	missing  string
}

func (p *prover) run(cmd *cobra.Command, ids []string) error {
	if err := p.client.resolve(); err != nil {
		return err
	}
	p.counts = make(map[string]int)
	several := len(ids) != 1
	var traces []*inspect.Traced
	for _, id := range ids {
		found, err := p.ask(id)
		if err != nil {
			return err
		}
		traces = append(traces, found...)
		several = several || len(found) != 1
	}
	if len(ids) == 0 {
		var err error
		if traces, err = p.list(cmd); err != nil {
			return err
		}
		if len(traces) == 0 {
			return errors.New("no traces pass the flags: nothing was proved")
		}
	}
	var b bytes.Buffer
	st := stylesFor(cmd.OutOrStdout())
	for _, t := range traces {
		proof, err := p.prove(t)
		if err != nil {
			return err
		}
		p.counts[proof.Result]++
		switch {
		case p.asJSON:
			line, err := json.Marshal(proof)
			if err != nil {
				return err
			}
			b.Write(append(visible.JSON(line), '\n'))
		case !several:
			writeProof(&b, st, proof)
		case proof.Result != inspect.Same:
			writeShortProof(&b, st, proof)
		}
	}
	if several && !p.asJSON {
		fmt.Fprintf(&b, "%s: %d same, %d differ, %d can't say\n", plural(len(traces), "trace"), p.counts[inspect.Same], p.counts[inspect.Differs], p.counts[inspect.Unknown])
	}
	if _, err := cmd.OutOrStdout().Write(b.Bytes()); err != nil {
		return err
	}
	switch {
	case p.counts[inspect.Differs] > 0:
		return errDiffers
	case p.counts[inspect.Unknown] > 0:
		return errUnproved
	}
	return nil
}

// list returns the traces that pass the flags, without their content.
func (p *prover) list(cmd *cobra.Command) (traces []*inspect.Traced, err error) {
	l := traceList{cmd: cmd, client: p.client, limit: p.limit}
	if l.values, err = filterValues(cmd, time.Now()); err != nil {
		return nil, err
	}
	if p.limit < 1 {
		return nil, fmt.Errorf("--limit must be at least 1, this is %d", p.limit)
	}
	_, err = l.pages(func(page []json.RawMessage) error {
		for _, text := range page {
			t, err := inspect.ReadTraced(text)
			if err != nil {
				return err
			}
			traces = append(traces, t)
		}
		return nil
	})
	return traces, err
}

// ask asks for a trace with its content, or for the traces of a decision without content.
func (p *prover) ask(id string) ([]*inspect.Traced, error) {
	var story struct {
		Trace        json.RawMessage    `json:"trace"`
		Traces       []json.RawMessage  `json:"traces"`
		Verification trace.Verification `json:"verification"`
	}
	if err := p.client.get("/cadenza/traces/"+url.PathEscape(id), nil, &story); err != nil {
		return nil, err
	}
	if story.Trace != nil {
		story.Traces = []json.RawMessage{story.Trace}
	}
	if len(story.Traces) == 0 {
		return nil, fmt.Errorf("of %s there are only reports: what they are on was not recorded, is past the retention, or is another gateway's", visible.Line(id))
	}
	traces := make([]*inspect.Traced, len(story.Traces))
	for i, text := range story.Traces {
		var err error
		if traces[i], err = inspect.ReadTraced(text); err != nil {
			return nil, err
		}
		traces[i].Verification = story.Verification
	}
	return traces, nil
}

// prove proves a trace with its content, if that was kept, and with the verdict on its
// seal. Lists have neither.
func (p *prover) prove(t *inspect.Traced) (*inspect.Proof, error) {
	if t.Verification.Result == "" && t.Unreadable == "" {
		// A trace that was erased since the list was made is proved as the list has it.
		if whole, err := p.ask(t.TraceID); err == nil && len(whole) == 1 {
			t = whole[0]
		}
		t.Verification.Result = cmp.Or(t.Verification.Result, trace.SealNone)
	}
	past, err := p.past(t)
	if err != nil {
		return nil, err
	}
	if past.snapshot == nil {
		return inspect.Unproved(t, past.missing), nil
	}
	return inspect.Prove(past.snapshot, t), nil
}

// past returns the definitions of a trace's revision.
func (p *prover) past(t *inspect.Traced) (*provable, error) {
	id := t.Workspace + "\x00" + t.Revision
	if known := p.pasts[id]; known != nil {
		return known, nil
	}
	found := new(provable)
	client := p.client
	client.workspace = t.Workspace
	past, err := client.past(t.Revision)
	refused, isRefused := errors.AsType[*gatewayError](err)
	switch {
	case isRefused && (refused.status == http.StatusNotFound || t.Revision == ""):
		found.missing = inspect.NoRevision(t.Revision)
	case err != nil:
		return nil, err
	default:
		if found.snapshot, err = past.Load(); err != nil {
			found.missing = err.Error()
		}
	}
	p.pasts[id] = found
	return found, nil
}

// resultWords are the results in words.
var resultWords = map[string]string{
	inspect.Same:    "same: the definitions decide what was recorded",
	inspect.Differs: "differs: the record is not what was decided",
	inspect.Unknown: "can't say: the trace has not all that a proof needs",
}

func (st styles) ofResult(result string) string {
	return map[string]string{inspect.Same: st.green, inspect.Differs: st.red, inspect.Unknown: st.yellow}[result]
}

// writeProof writes a proof for people.
func writeProof(b *bytes.Buffer, st styles, p *inspect.Proof) {
	var rows [][]cell
	add := func(label, text string) { rows = append(rows, plainRow(label, visible.Line(text))) }
	add("trace", p.TraceID+", "+p.Time.UTC().Format(time.RFC3339Nano))
	add(p.Kind, fmt.Sprintf("%s (version %s, revision %s)", p.Key, p.Version, p.Revision))
	add("recorded", p.Recorded.String())
	label := "decided"
	for _, d := range p.Possible {
		add(label, d.String())
		label = "or"
	}
	rows = append(rows, []cell{plainCell("result"), {resultWords[p.Result], st.ofResult(p.Result)}})
	if v := p.Verification; v.Result == trace.SealValid {
		add("seal", "valid, of trace key "+v.Key+": the record was not changed since it was made. Reports on it are not under its seal")
	}
	for _, text := range p.Differences {
		add("difference", text)
	}
	for _, text := range p.Missing {
		add("missing", text)
	}
	for _, text := range p.Notes {
		add("note", text)
	}
	new(columns).write(b, st, rows...)
	for _, table := range p.Tables {
		if len(table.Rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s\n", visible.Line(table.Definition))
		rows := make([][]cell, len(table.Rows))
		doubt := false
		for i, r := range table.Rows {
			doubt = doubt || r.Matched == "unknown"
			sign, color := "? ", st.yellow
			switch r.Matched {
			case "yes":
				sign, color = "+ ", st.green
			case "no":
				sign, color = "- ", st.dim
			}
			rows[i] = []cell{{sign + visible.Line(r.Row), color}, {visible.Line(strings.TrimPrefix(r.Why, r.Row+": ")), color}}
			switch {
			case r.Matched != "yes":
			case r.Why == "" && doubt:
				rows[i][1].text = "matches: answers where none above does"
			case r.Why == "":
				rows[i][1].text = "matches: answers"
			}
		}
		new(columns).write(b, st, rows...)
	}
}

// writeShortProof writes a line for a proof that failed, and why.
func writeShortProof(b *bytes.Buffer, st styles, p *inspect.Proof) {
	word := "differs"
	reasons := p.Differences
	if p.Result == inspect.Unknown {
		word, reasons = "can't say", p.Missing
	}
	fmt.Fprintf(b, "%s  %s %s  %s%s%s\n", p.TraceID, p.Kind, visible.Line(p.Key), st.ofResult(p.Result), word, st.reset)
	for _, text := range reasons {
		fmt.Fprintf(b, "  %s\n", visible.Line(text))
	}
}
