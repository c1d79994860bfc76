package command

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// exitDegraded is the exit status of `status` if something is degraded. If the gateway
// can't be asked, the status is 1, as for all commands.
const exitDegraded = 2

// The most that a report shows. --json has everything.
const (
	shownMistakes = 5
	shownKeys     = 10
)

func statusCommand() *cobra.Command {
	var client gatewayClient
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Shows what a running gateway serves, and what is degraded since when",
		Long: `
Shows what a running gateway does: the definitions that it serves and the
mistakes of those on disk, every target that endpoints name, the store, the
sinks, the API keys (never the keys themselves) and the limits of callers, with
those that have used most. What is degraded comes
first, since when, and where the runbook says what to do.

The exit status is 0 where nothing is degraded, 2 where something is, and 1
where the gateway can't be asked.

The gateway is asked by its admin API, as with caddy reload. Without -w it shows
all workspaces.`,
		Example: "  caddy cadenza status\n  caddy cadenza status --json | jq '.workspaces[].degraded'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := show(cmd, &client, "/cadenza/status", nil, asJSON, func(b *bytes.Buffer, st styles, answer *adminapi.Status) {
				r := report{b: b, st: st, now: time.Now()}
				r.status(answer)
			})
			if err != nil || answer.Status == "ok" {
				return err
			}
			return exitSilently(cmd, exitDegraded) // the report says why
		},
	}
	client.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "Write the answer of the admin API")
	return cmd
}

// report writes a status for people.
type report struct {
	b   *bytes.Buffer
	st  styles
	now time.Time
}

const (
	// reportWidth is the width of a report, unless the terminal is narrower. Longer
	// words, such as paths, stay whole.
	reportWidth = 80
	// reportIndent is the column in which the texts of a report begin.
	reportIndent = 15
)

func (r *report) status(s *adminapi.Status) {
	r.line("", "", "cadenza "+s.Version+", caddy "+s.Caddy+", up "+age(r.now.Sub(s.Started))+" (since "+moment(s.Started)+")")
	for _, name := range slices.Sorted(maps.Keys(s.Workspaces)) {
		w := s.Workspaces[name]
		r.workspace(name, &w)
	}
}

func (r *report) workspace(name string, w *adminapi.WorkspaceStatus) {
	state, color := "ok", r.st.green
	if len(w.Degraded) > 0 {
		state, color = "degraded", r.st.red
	}
	fmt.Fprintf(r.b, "\n%sworkspace %s:%s %s%s%s\n", r.st.bold, visible.Line(name), r.st.reset, color, state, r.st.reset)
	for _, c := range w.Degraded {
		fmt.Fprintf(r.b, "  %s%s%s %s\n", r.st.red, visible.Line(c.Code), r.st.reset, visible.Line(c.Subject))
		r.line("    ", "", "for "+age(r.now.Sub(c.Since))+", since "+moment(c.Since))
		r.line("    ", "", c.Message)
		r.line("    ", "", "what to do: docs/runbook.md#"+c.Code)
	}
	r.definitions(&w.Definitions)
	r.targets(w.Targets)
	r.store(&w.Store)
	r.sinks(w.Sinks)
	r.keys(w.Keys, w.KeysFile)
	r.limits(w.Limits)
	label := "rollouts"
	for _, one := range w.Rollouts {
		r.line("  ", label, fmt.Sprintf("%s: %s at %s; %s", one.Name, rolloutState(&gateway.Rollout{RolloutStatus: one}), gateway.ShareText(one.Share), one.Says))
		label = ""
	}
}

func (r *report) definitions(d *adminapi.DefinitionsStatus) {
	r.line("  ", "definitions", fmt.Sprintf("revision %s: %s, %s, %s, %s", cmp.Or(d.Revision, "none yet"),
		plural(d.Prompts, "prompt"), plural(d.Endpoints, "endpoint"), plural(d.RemoteConfigs, "remote configuration"), plural(d.Warnings, "warning")))
	if d.Revision != "" {
		r.line("  ", "", "loaded "+age(r.now.Sub(d.Loaded))+" ago, "+moment(d.Loaded))
	}
	r.line("  ", "", d.Directory)
	r.source(d.Source)
	for i, e := range d.Errors {
		if i == shownMistakes {
			r.line("  ", "", fmt.Sprintf("and %d more: caddy cadenza check %s", len(d.Errors)-i, d.Directory))
			break
		}
		place := e.File
		if e.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
		}
		r.line("  ", "", place+": "+e.Message)
	}
}

// source shows the state of a source of bundles. What is refused is among the mistakes.
func (r *report) source(s *gateway.SourceStatus) {
	if s == nil {
		return
	}
	if !s.Confirmed.IsZero() {
		r.line("  ", "", fmt.Sprintf("bundle %s, serial %d, confirmed %s ago", visible.Line(s.Bundle), s.Serial, age(r.now.Sub(s.Confirmed))))
	}
	if s.Error != "" {
		r.line("  ", "", strings.TrimPrefix(s.Error, s.URL+": ")) // the line before has the URL
	}
}

func (r *report) targets(list []gateway.Target) {
	label := "targets"
	if len(list) == 0 {
		r.line("  ", label, "none: no endpoint is served")
	}
	for _, t := range list {
		text := t.Target + ": " + t.State
		if t.State != "ok" && t.Reason != "" {
			text += ", " + t.Reason
		}
		if t.Until.After(r.now) {
			text += ", left alone until " + moment(t.Until)
		}
		ends := price.Model{Shutdown: t.Shutdown, Successor: t.Successor}
		if ending := ends.Ending(r.now); ending != "" {
			text += ", " + ending + "; endpoints that name it: " + strings.Join(t.Endpoints, ", ")
		}
		r.line("  ", label, text)
		label = ""
	}
}

func (r *report) store(s *gateway.StoreStatus) {
	text := s.State
	if !s.Since.IsZero() {
		text += " for " + age(r.now.Sub(s.Since))
	}
	text += ", " + humanize.IBytes(uint64(max(s.Bytes, 0))) + ", " + plural(s.Queued, "record") + " waiting"
	if s.Dropped > 0 {
		text += fmt.Sprintf(", %d lost", s.Dropped)
	}
	r.line("  ", "store", text)
	r.line("  ", "", s.Path)
	if s.Error != "" {
		r.line("  ", "", s.Error)
	}
}

func (r *report) sinks(list []gateway.SinkState) {
	label := "sinks"
	for _, s := range list {
		text := s.Name + ": " + s.State
		if !s.Since.IsZero() {
			text += " for " + age(r.now.Sub(s.Since))
		}
		text += ", " + plural(int(s.Pending), "row") + " waiting"
		if s.LagSeconds >= 1 {
			text += ", the oldest for " + age(time.Duration(s.LagSeconds*float64(time.Second)))
		}
		if s.Error != "" {
			text += ": " + s.Error
		}
		r.line("  ", label, text)
		label = ""
	}
}

// limits names each limit with the subjects that have used most of it.
func (r *report) limits(list []gateway.LimitStatus) {
	label := "limits"
	for _, l := range list {
		r.line("  ", label, limitText(&l.LimitShare))
		label = ""
		for _, use := range l.Fullest {
			text := fmt.Sprintf("- %s: %d %% of %s %s", subjectText(use.Subject, l.By), use.Percent, use.Measure, use.Ceiling)
			if !use.Resets.IsZero() {
				text += ", until " + moment(use.Resets)
			}
			r.line("  ", "", text)
		}
	}
}

// keys counts the keys, also those that open the console, and names the keys that expire
// soon or can't be used any more.
func (r *report) keys(list []gateway.KeyState, file string) {
	usable, roles := 0, 0
	var ending []string
	for _, k := range list {
		switch k.State {
		case "expiring":
			ending = append(ending, fmt.Sprintf("%s expires in %s, %s", k.Name, age(k.NotAfter.Sub(r.now)), moment(k.NotAfter)))
			usable++
		case "expired":
			ending = append(ending, fmt.Sprintf("%s expired %s ago", k.Name, age(r.now.Sub(k.NotAfter))))
		case "revoked":
			ending = append(ending, k.Name+" is revoked")
		default:
			usable++
		}
		if k.Role != gateway.RoleNone && k.State != "expired" && k.State != "revoked" {
			roles++
		}
	}
	text := plural(usable, "usable key")
	if roles > 0 {
		text += fmt.Sprintf(", %d with a role", roles)
	}
	if file != "" {
		text += ", file " + file
	}
	r.line("  ", "keys", text)
	for i, line := range ending {
		if i == shownKeys {
			r.line("  ", "", fmt.Sprintf("and %d more: --json lists all", len(ending)-i))
			break
		}
		r.line("  ", "", line)
	}
}

// line writes a text after a label, in several lines if it is too long for one. A text
// without a label, but with the same indent, is in the column of the labelled texts.
func (r *report) line(indent, label, text string) {
	hang := indent
	if indent == "  " {
		hang = strings.Repeat(" ", reportIndent)
	}
	begin := hang
	if label != "" {
		begin = indent + r.st.dim + label + r.st.reset + strings.Repeat(" ", reportIndent-len(indent)-len(label))
	}
	width := reportWidth
	if r.st.width > 0 {
		width = min(width, r.st.width)
	}
	column := len(hang)
	r.b.WriteString(begin)
	for i, word := range strings.Fields(visible.Line(strings.ReplaceAll(text, "\n", " "))) {
		switch size := visible.Width(word); {
		case i == 0:
			column += size
		case column+1+size > width:
			r.b.WriteString("\n" + hang)
			column = len(hang) + size
		default:
			r.b.WriteByte(' ')
			column += 1 + size
		}
		r.b.WriteString(word)
	}
	r.b.WriteByte('\n')
}

// moment returns a time in the form of a report.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// age returns a duration in its two largest units, such as "3 d 4 h".
func age(d time.Duration) string {
	d = max(d, 0)
	days, hours := int(d/(24*time.Hour)), int(d/time.Hour)
	minutes, seconds := int(d/time.Minute), int(d/time.Second)
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %d h", days, hours%24)
	case hours > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes%60)
	case minutes > 0:
		return fmt.Sprintf("%d min %d s", minutes, seconds%60)
	}
	return fmt.Sprintf("%d s", seconds)
}
