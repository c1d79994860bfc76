//go:build linux

package main

import (
	"bufio"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report has the results of a run, in the form of -json.
type report struct {
	Date    time.Time   `json:"date"`
	Machine string      `json:"machine"`
	Load    string      `json:"load"`   // the load averages at the start
	Binary  string      `json:"binary"` // the commit from which it was built
	Rounds  int         `json:"rounds"`
	Seconds float64     `json:"round_seconds"`
	Between float64     `json:"between"` // the maximum share of a processor used by a server between its rounds
	Works   []*measured `json:"works"`
	Memory  []memory    `json:"memory,omitempty"`
	Streams []streams   `json:"streams,omitempty"`

	Overload *overloads `json:"overload,omitempty"`
	Readers  *reading   `json:"readers,omitempty"`
}

// measured has the figures of one work on all targets.
type measured struct {
	work    work
	Name    string             `json:"name"`
	Title   string             `json:"title"`
	Targets map[string]*figure `json:"targets"`
}

// figure has the rounds and medians of one work on one target.
type figure struct {
	Answers []int     `json:"answers"`
	CPU     []float64 `json:"cpu_us"`   // CPU time of the server per request, in microseconds
	Rate    []float64 `json:"rate"`     // requests a second
	First50 []float64 `json:"first_50"` // milliseconds to the first bytes of the body
	First99 []float64 `json:"first_99"`
	Ratio   float64   `json:"ratio,omitempty"` // against plain Caddy
}

func newMeasured(w work) *measured {
	return &measured{work: w, Name: w.name, Title: w.title, Targets: map[string]*figure{}}
}

// add adds a round.
func (m *measured) add(target string, got result, used, d time.Duration) {
	f := m.Targets[target]
	if f == nil {
		f = &figure{}
		m.Targets[target] = f
	}
	f.Answers = append(f.Answers, got.answers)
	f.CPU = append(f.CPU, float64(used)/float64(time.Microsecond)/float64(got.answers))
	f.Rate = append(f.Rate, float64(got.answers)/d.Seconds())
	f.First50 = append(f.First50, milliseconds(got.first[len(got.first)/2]))
	f.First99 = append(f.First99, milliseconds(got.first[len(got.first)*99/100]))
}

// compare computes the ratios when all rounds are measured. It does so for each round,
// because the machine's speed changes between them.
func (m *measured) compare() {
	for target, f := range m.Targets {
		if target != plain && target != direct {
			f.Ratio = median(ratios(f.CPU, m.Targets[plain].CPU))
		}
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func ratios(a, b []float64) (list []float64) {
	for i := range min(len(a), len(b)) {
		list = append(list, a[i]/b[i])
	}
	return list
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func newReport(o options) (*report, error) {
	info, err := buildinfo.ReadFile(o.binary)
	if err != nil {
		return nil, err
	}
	r := &report{Date: time.Now().UTC(), Rounds: o.rounds, Seconds: o.round.Seconds(), Binary: "an unknown commit"}
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			r.Binary = setting.Value[:min(12, len(setting.Value))]
		case setting.Key == "vcs.modified" && setting.Value == "true":
			r.Binary += " with changes"
		}
	}
	r.Binary += ", " + info.GoVersion
	r.Machine = fmt.Sprintf("%s, %d processors, %s/%s", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		r.Machine += ", kernel " + strings.TrimSpace(string(kernel))
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.Load = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	return r, nil
}

// processor returns the name of the machine's processor.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "an unknown processor"
}

// markdown returns the report for a page.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; %s; load average %s at the start. Built from %s. Medians of %d rounds of %g s, by turns.",
		r.Date.Format("2006-01-02 15:04 UTC"), r.Machine, r.Load, r.Binary, r.Rounds, r.Seconds)
	if len(r.Works) > 0 {
		fmt.Fprintf(&b, " Between its rounds a server used %.1f %% of a processor at most.", r.Between*100)
	}
	b.WriteString("\n")
	r.ratios(&b)
	r.latency(&b)
	r.reports(&b)
	r.memory(&b)
	r.streams(&b)
	r.overload(&b)
	r.readers(&b)
	return b.String()
}

// columns returns the measured gateways.
func (m *measured) columns() (names []string) {
	for _, level := range logs {
		if m.Targets[level] != nil {
			names = append(names, level)
		}
	}
	return names
}

func (r *report) ratios(b *strings.Builder) {
	begun := false
	for _, m := range r.Works {
		if m.Name == reports {
			continue
		}
		if !begun {
			begun = true
			fmt.Fprintf(b, "\n| work | plain Caddy, CPU a request | %s | to reach, at metadata | and at content |\n|---|---:|%s---|---|\n",
				strings.Join(m.columns(), " | "), strings.Repeat("---:|", len(m.columns())))
		}
		fmt.Fprintf(b, "| %s | %.0f µs |", m.Title, median(m.Targets[plain].CPU))
		for _, level := range m.columns() {
			fmt.Fprintf(b, " %.2f × |", m.Targets[level].Ratio)
		}
		if m.work.metadata == 0 {
			b.WriteString(" | |\n")
			continue
		}
		fmt.Fprintf(b, " %g × | %g × |\n", m.work.metadata, m.work.logged)
	}
}

// latency writes the table of times to the first token.
func (r *report) latency(b *strings.Builder) {
	for _, m := range r.Works {
		base := m.Targets[direct]
		if base == nil {
			continue
		}
		b.WriteString("\n| time to first token | p50 | p99 | added to the mock's, p50 | p99 | over plain Caddy's, p50 | p99 |\n|---|---:|---:|---:|---:|---:|---:|\n")
		caddy := m.Targets[plain]
		for _, target := range append([]string{direct, plain}, m.columns()...) {
			f := m.Targets[target]
			fmt.Fprintf(b, "| %s | %.2f ms | %.2f ms |", target, median(f.First50), median(f.First99))
			for _, reference := range []*figure{base, caddy} {
				fmt.Fprintf(b, " %+.2f ms | %+.2f ms |", median(f.First50)-median(reference.First50), median(f.First99)-median(reference.First99))
			}
			b.WriteString("\n")
		}
		b.WriteString("\nTo reach at metadata, over plain Caddy's: 0.1 ms at p50, 1 ms at p99.\n")
	}
}

// reports writes the table of durable answers.
func (r *report) reports(b *strings.Builder) {
	for _, m := range r.Works {
		if m.Name != reports {
			continue
		}
		fmt.Fprintf(b, "\n| %s | answers/s | against an empty POST | p50 | p99 | CPU a request |\n|---|---:|---:|---:|---:|---:|\n", m.Title)
		base := m.Targets[plain]
		for _, target := range append([]string{plain}, m.columns()...) {
			f := m.Targets[target]
			fmt.Fprintf(b, "| %s | %.0f | %.2f × | %.1f ms | %.1f ms | %.0f µs |\n", target, median(f.Rate), median(ratios(f.Rate, base.Rate)),
				median(f.First50), median(f.First99), median(f.CPU))
		}
		b.WriteString("\nTo reach: 0.33 × at metadata.\n")
	}
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }

func (r *report) memory(b *strings.Builder) {
	for i, m := range r.Memory {
		if i == 0 {
			fmt.Fprintf(b, "\n| resident memory | at the start | after %d calls | over plain Caddy |\n|---|---:|---:|---:|\n", m.Calls)
		}
		fmt.Fprintf(b, "| %s | %.0f MB | %.0f MB | %+.0f MB |\n", m.Target, megabytes(m.Started), megabytes(m.After), megabytes(m.After-r.Memory[0].After))
	}
	if len(r.Memory) > 0 {
		b.WriteString("\nTo reach: +20 MB at metadata.\n")
	}
}

func (r *report) streams(b *strings.Builder) {
	for i, s := range r.Streams {
		if i == 0 {
			b.WriteString("\n| streams at a time | asked for | open together | errors | resident memory at most | a stream |\n|---|---:|---:|---:|---:|---:|\n")
		}
		fmt.Fprintf(b, "| %s | %d | %d | %d | %.0f MB | %.0f kB |\n", s.Title, s.Asked, s.Open, s.Errors, megabytes(s.Peak), s.PerOne/1e3)
	}
	if len(r.Streams) > 0 {
		b.WriteString("\nTo reach: no error, less than 1,074 MB (1 GiB), and at most 100 kB a stream.\n")
	}
}

// overload writes the table of answers under overload.
func (r *report) overload(b *strings.Builder) {
	o := r.Overload
	if o == nil {
		return
	}
	fmt.Fprintf(b, "\n| a refusal | CPU | against `respond` | of an answer's | to reach, against `respond` |\n|---|---:|---:|---:|---|\n")
	fmt.Fprintf(b, "| before the body, `in_flight { process 1 }` | %.0f µs | %.2f × | %.2f | %g × |\n",
		median(o.Refusal.CPU), median(ratios(o.Refusal.CPU, o.Refusal.Respond)), o.Refusal.part(), o.Refusal.Goal)
	b.WriteString("\n| more than the gateway bears | offered, of the peak | answered | a second | refused a second | processor time, of that at the peak | to reach |\n|---|---:|---:|---:|---:|---:|---|\n")
	free := median(o.Crowds[0].Share)
	for _, c := range o.Crowds {
		goal := c.Goal
		if c.Within {
			goal = max(goal, free-0.1)
		}
		c.row(b, goal)
	}
	c := o.Refusal.part()
	o.Open.row(b, 0.9*max(0, (1-times*c)/(1-c)))
}

func (c *crowd) row(b *strings.Builder, goal float64) {
	fmt.Fprintf(b, "| %s | %.1f × | %.0f %% | %.0f | %.0f | %.0f %% | %.0f %% |\n", c.Title, median(c.Offered), 100*median(c.Share), median(c.Answers), median(c.Refused), 100*median(c.Busy), 100*goal)
}

// The marks before and after the figures in a page.
const (
	pageBegin = "<!-- figures: begin -->\n"
	pageEnd   = "<!-- figures: end -->"
)

// putInto replaces the figures of a page.
func putInto(page, figures string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), pageBegin)
	_, after, closed := strings.Cut(rest, pageEnd)
	if !ok || !closed {
		return fmt.Errorf("%s: the lines %q and %q are not there, in this order", page, strings.TrimSpace(pageBegin), pageEnd)
	}
	return os.WriteFile(page, []byte(before+pageBegin+figures+pageEnd+after), 0o644)
}
