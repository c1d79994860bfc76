package definition

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
)

// The bounds of an experiment.
const (
	maxMetrics     = 20
	maxArms        = 10
	minAttribution = time.Minute
	maxAttribution = 90 * 24 * time.Hour
)

// experimentMembers are the members of an experiment.
var experimentMembers = []string{
	"key", "description", "on", "rule", "control", "hypothesis", "owner", "unit", "attribution", "start", "end",
	"primary", "others", "guardrails",
}

// metricMembers are the members of a metric.
var metricMembers = []string{"name", "value", "measure", "as", "over", "goal", "smallest"}

// experimentReader decodes the experiments of a workspace, and takes up its rollouts.
type experimentReader struct {
	*loader
	now        time.Time
	unrecorded bool // the workspace records nothing, unless a definition says otherwise
	found      []readExperiment
	guarded    []readRollout
	tables     map[*rules.Table]*splitTable
	// answering are the definitions that a prompt or an endpoint reads, and whether one that
	// leaves traces does. It is nil before answers.
	answering map[*Definition]bool
}

// readExperiment is an experiment with what it was read from.
type readExperiment struct {
	experiment.Plan
	doc *doc
	on  *Definition
	row int // of the table of on
	// metrics are where the metrics are.
	metrics []*document.Node
}

// splitTable are the splits of a table.
type splitTable struct {
	rows   map[string]int // by id
	splits map[int]rules.Division
	alike  map[[2]string][]int // the rows by the field and the salt of their splits
}

// readExperiments returns a reader. known are the gateways that will serve the set.
func (l *loader) readExperiments(known []Configuration, now time.Time) *experimentReader {
	recorded := func(c Configuration) bool { return c.Log != LogNone }
	r := &experimentReader{loader: l, now: now, tables: make(map[*rules.Table]*splitTable)}
	r.unrecorded = len(known) > 0 && !slices.ContainsFunc(known, recorded)
	return r
}

// experiments decodes the experiments, after the definitions whose splits they read.
// These may have been edited where an experiment was not, so that none is taken over from
// the last loading.
func (r *experimentReader) experiments() (plans []experiment.Plan) {
	for _, d := range r.docs[kind.Experiment] {
		if r.stopped() {
			return nil
		}
		var errs document.Errors
		e := r.decode(d, &errs)
		if errs.Len() == 0 && e.on != nil {
			r.found = append(r.found, *e)
			plans = append(plans, e.Plan)
		}
		r.errs.Merge(&errs)
	}
	return plans
}

// decode reads an experiment. Where a definition with a mistake keeps it from being read
// whole, on stays nil.
func (r *experimentReader) decode(d *doc, errs *document.Errors) *readExperiment {
	e := &readExperiment{Plan: experiment.Plan{Name: d.key}, doc: d}
	n := d.node
	n.CheckMembers(errs, "an experiment", experimentMembers...)
	misspelt := errs.Len() > 0 // an unknown member may be the one that is missing
	required := func(name, what string) *document.Node {
		m := n.Get(name)
		if m == nil && !misspelt {
			errs.Add(n, "%s is missing: %s", name, what)
		}
		return m
	}
	text := func(m *document.Node, name string) (s string) {
		if m != nil {
			s, _ = m.ReadString(errs, name)
		}
		return s
	}
	text(n.Get("description"), "description")
	e.Hypothesis, e.Owner = text(n.Get("hypothesis"), "hypothesis"), text(n.Get("owner"), "owner")
	e.On = text(required("on", "the folder and key of the definition whose split the experiment reads, such as remoteconfigs/button"), "on")
	e.Rule = text(required("rule", "the id of the row with the split"), "rule")
	e.Control = text(required("control", "the arm that the others are compared with, or "+experiment.PassedOn), "control")
	e.Start = readTime(required("start", "from when on units count, such as 2026-11-01T00:00:00Z"), "start", errs)
	e.End = readTime(required("end", "until when units count, such as 2026-12-01T00:00:00Z"), "end", errs)
	if !e.Start.IsZero() && !e.End.IsZero() && !e.End.After(e.Start) {
		errs.Add(n.Get("end"), "the end of an experiment must be after its start")
	}
	if m := n.Get("attribution"); m != nil {
		e.Attribution = readDays(m, "attribution", minAttribution, maxAttribution, errs)
	}
	e.readMetrics(n, required("primary", "the metric that decides, such as { value: resolved, as: rate, goal: up, smallest: 2% }"), errs)
	if e.On != "" && e.Rule != "" {
		r.readSplit(e, errs)
	}
	return e
}

// readTime reads an instant.
func readTime(n *document.Node, member string, errs *document.Errors) time.Time {
	if n == nil {
		return time.Time{}
	}
	text, ok := n.ReadString(errs, member)
	if !ok {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		errs.Add(n, "%s must be a time such as 2026-11-01T00:00:00Z (RFC 3339), this is %s", member, n.Describe())
	}
	return t.UTC()
}

// readDays reads a duration that may be a number of days.
func readDays(n *document.Node, member string, lo, hi time.Duration, errs *document.Errors) time.Duration {
	hours := *n
	if days, ok := strings.CutSuffix(n.Text, "d"); ok && n.Shape == document.Scalar {
		hours.Text = days + "h"
	}
	d, err := time.ParseDuration(hours.Text)
	if hours.Text != n.Text {
		d *= 24
	}
	if n.Shape != document.Scalar || err != nil || d < lo || d > hi {
		errs.Add(n, "%s must be a duration from %s to %dd such as 7d or 36h, this is %s", member, "1m", int(hi.Hours())/24, n.Describe())
		return 0
	}
	return d
}

// readSplit finds the split that an experiment reads, and checks its arms.
func (r *experimentReader) readSplit(e *readExperiment, errs *document.Errors) {
	on, rule, control, unit := e.doc.node.Get("on"), e.doc.node.Get("rule"), e.doc.node.Get("control"), e.doc.node.Get("unit")
	folder, key, _ := strings.Cut(e.On, "/")
	k := kind.InFolder(folder)
	if k == nil || k == kind.Experiment || key == "" {
		errs.Add(on, "on must be the folder and key of a definition such as remoteconfigs/button, this is %s", on.Describe())
		return
	}
	read := r.byKey[k][key]
	switch {
	case read == nil && r.missing(k, key):
		errs.Report(unknownRules[k].Rule, on.Pos, "there is no %s %q%s", k.Noun, key, r.didYouMean(k, key))
		return
	case read == nil || read.file.built == nil: // its mistakes are reported
		return
	}
	table := read.definition.table
	if table == nil {
		errs.Add(on, "the endpoint %s has no variants, and so no split: that of its prompt is on: %s/%s", key, kind.Prompt.Folder, read.definition.prompt.Key)
		return
	}
	splits := r.splitsOf(table)
	row, ok := splits.rows[e.Rule]
	if !ok {
		errs.Report("unknown-rule", rule.Pos, "%s has no row with the id %q%s", e.On, e.Rule, document.DidYouMean(e.Rule, splits.ids()))
		return
	}
	s, ok := splits.splits[row]
	switch {
	case !ok:
		errs.Add(rule, "the row %s of %s has no split, so that it has no arms to compare", e.Rule, e.On)
		return
	case s.Ramp:
		errs.Add(rule, "the row %s of %s has a ramp, whose shares change by the second: write a split with a coverage, and raise it by edits", e.Rule, e.On)
		return
	case len(s.Arms) > maxArms:
		errs.Add(rule, "the split %s of %s has %d arms, an experiment has at most %d", e.Rule, e.On, len(s.Arms), maxArms)
		return
	case slices.Contains(s.Arms, experiment.PassedOn):
		errs.Add(rule, "the split %s of %s has an arm called %s, which stands for the units that it leaves to the rows below: give the arm another name", e.Rule, e.On, experiment.PassedOn)
		return
	}
	e.Salt, e.Arms, e.Unit, e.row = s.Salt, s.Arms, s.By, row
	passedOn := rules.Buckets
	for _, p := range s.Parts {
		passedOn -= p.To - p.From
	}
	controls := e.Arms
	if passedOn > 0 {
		controls = append(slices.Clip(controls), experiment.PassedOn)
	}
	switch {
	case e.Control == "" || e.Control == experiment.PassedOn && passedOn > 0:
	case s.Guard != nil && e.Control != s.Arms[1]:
		errs.Report("unknown-arm", control.Pos, "the split %s is guarded: its control is %s", e.Rule, s.Arms[1])
	case e.Control == experiment.PassedOn:
		errs.Add(control, "the shares of the split %s come to 100%%, so that it passes no unit on: control must be one of its arms (%s)", e.Rule, strings.Join(e.Arms, ", "))
	case !slices.Contains(e.Arms, e.Control):
		errs.Report("unknown-arm", control.Pos, "the split %s has no arm %q%s", e.Rule, e.Control, document.DidYouMean(e.Control, controls))
	case len(e.Arms) == 1:
		errs.Add(control, "the split %s has no other arm than %s to compare with: write control: %s", e.Rule, e.Control, experiment.PassedOn)
	}
	if unit != nil {
		if name, ok := unit.ReadString(errs, "unit"); ok && name != e.Unit {
			errs.Add(unit, "the split %s divides by %s: unit must be that, or be left out, this is %q", e.Rule, e.Unit, name)
		}
	}
	e.on = read.definition
}

// unknownRules are the rules of the mistake that there is no definition of a kind.
var unknownRules = map[*kind.Kind]document.Error{
	kind.Prompt: {Rule: "unknown-prompt"}, kind.Endpoint: {Rule: "unknown-endpoint"}, kind.RemoteConfig: {Rule: "unknown-config"},
}

// splitsOf returns the splits of a table, which several experiments may read.
func (r *experimentReader) splitsOf(t *rules.Table) *splitTable {
	if s := r.tables[t]; s != nil {
		return s
	}
	s := &splitTable{make(map[string]int), make(map[int]rules.Division), make(map[[2]string][]int)}
	for i, row := range t.Rows() {
		s.rows[row.ID] = i
		if d := t.Divide(i, r.now); d.By != "" {
			s.splits[i] = d
			s.alike[[2]string{d.By, d.Salt}] = append(s.alike[[2]string{d.By, d.Salt}], i)
		}
	}
	r.tables[t] = s
	return s
}

// ids returns the ids of the rows with splits.
func (s *splitTable) ids() []string {
	var ids []string
	for id, row := range s.rows {
		if _, ok := s.splits[row]; ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// readMetrics reads the metrics, the primary one first.
func (e *readExperiment) readMetrics(n, primary *document.Node, errs *document.Errors) {
	if primary != nil {
		e.readMetric(primary, experiment.Primary, errs)
	}
	for _, list := range []struct {
		member string
		role   experiment.Role
	}{{"others", experiment.Other}, {"guardrails", experiment.Guardrail}} {
		m := n.Get(list.member)
		switch {
		case m.IsNull():
			continue
		case m.Shape != document.Sequence:
			errs.Add(m, "%s must be a list of metrics such as [ { measure: cost, smallest: 10%% } ], this is %s", list.member, m.Shape)
			continue
		}
		for _, item := range m.Items {
			if len(e.Metrics) == maxMetrics {
				errs.Add(item, "an experiment has at most %d metrics: the more there are, the wider each one's interval is", maxMetrics)
				return
			}
			e.readMetric(item, list.role, errs)
		}
	}
}

// readMetric reads a metric. It is among the metrics even with a mistake, so that another
// of its name is found.
func (e *readExperiment) readMetric(n *document.Node, role experiment.Role, errs *document.Errors) {
	m := experiment.Metric{Role: role}
	before := errs.Len()
	if !n.CheckMembers(errs, "a metric", metricMembers...) {
		return
	}
	misspelt := errs.Len() > before
	value, measure, as, over, goal := n.Get("value"), n.Get("measure"), n.Get("as"), n.Get("over"), n.Get("goal")
	switch {
	case value != nil && measure != nil:
		errs.Add(measure, "a metric has a value of reports or a measure of the gateway, not both")
	case value != nil:
		m.Value = readValueName(value, errs)
	case measure != nil:
		word, _ := measure.ReadWord(errs, "measure", words(experiment.Measures)...)
		m.Measure = experiment.Measure(word)
		m.As, m.Up = experiment.Ratio, false
		if m.Measure == experiment.Score {
			m.As, m.Up = experiment.Mean, true
		}
	case !misspelt:
		errs.Add(n, "a metric needs a value, the name of a number of reports, or a measure: one of %s", strings.Join(words(experiment.Measures), ", "))
	}
	if as != nil {
		word, _ := as.ReadWord(errs, "as", words(experiment.AllAs)...)
		m.As = experiment.As(word)
	} else if value != nil && !misspelt {
		errs.Add(n, "as is missing: what is made of the numbers of a unit, one of %s", strings.Join(words(experiment.AllAs), ", "))
	}
	timed := m.Measure == experiment.Latency || m.Measure == experiment.FirstToken
	switch {
	case timed && as != nil && m.As != "" && m.As != experiment.Ratio && m.As != experiment.Rate:
		errs.Add(as, "%s counts the answers that took longer than its threshold: as must be %s, the share of answers, or %s, the share of units", m.Measure, experiment.Ratio, experiment.Rate)
	case over == nil:
	case timed:
		m.Over, _ = over.ReadDuration(errs, "over", time.Millisecond, time.Hour)
	case value != nil || m.Measure != "":
		errs.Add(over, "over is the threshold of the measures %s and %s alone", experiment.Latency, experiment.FirstToken)
	}
	if goal != nil {
		word, _ := goal.ReadWord(errs, "goal", "up", "down")
		m.Up = word == "up"
	} else if value != nil && !misspelt {
		errs.Add(n, "goal is missing: up where more is better, or down")
	}
	m.Smallest, m.Relative = readSmallest(n, misspelt, errs)
	if m.IsPart() && !m.Relative && m.Smallest >= 1 {
		errs.Add(n.Get("smallest"), "smallest is a part of units or of answers here, below 1: %v points are %v", m.Smallest, m.Smallest/100)
	}
	m.Name = cmp.Or(m.Value, string(m.Measure))
	if name := n.Get("name"); name != nil {
		if m.Name, _ = name.ReadString(errs, "name"); m.Name != "" && !ValidKey(m.Name) {
			errs.Add(name, "%q can't be the name of a metric: 1 to 256 letters, digits and . _ : / -", m.Name)
		}
	}
	if m.Name != "" && slices.ContainsFunc(e.Metrics, func(other experiment.Metric) bool { return other.Name == m.Name }) {
		errs.Add(n, "another metric is called %s too: give one of them a name", m.Name)
	}
	e.Metrics, e.metrics = append(e.Metrics, m), append(e.metrics, n)
}

// readValueName reads the name of a value of reports.
func readValueName(n *document.Node, errs *document.Errors) string {
	name, _ := n.ReadString(errs, "value")
	if name != "" && !ValidKey(name) {
		errs.Add(n, "%q can't be the name of a value of reports: 1 to 256 letters, digits and . _ : / -", name)
	}
	return name
}

// readSmallest reads the smallest difference of a metric that matters.
func readSmallest(metric *document.Node, misspelt bool, errs *document.Errors) (smallest float64, relative bool) {
	n := metric.Get("smallest")
	if n == nil {
		if !misspelt {
			errs.Add(metric, "smallest is missing: the smallest difference that matters, such as 0.02, or 10%% of the control's number")
		}
		return 0, false
	}
	number := *n
	if number.Text, relative = strings.CutSuffix(n.Text, "%"); relative {
		number.Text, number.Quoted = strings.TrimSpace(number.Text), false
	}
	const most = 1e12
	var wrong document.Errors
	smallest, _ = number.ReadFloat(&wrong, "smallest", 0, most)
	if smallest <= 0 || wrong.Len() > 0 {
		errs.Add(n, "smallest must be a number above 0 such as 0.02, or a percentage of the control's number such as 10%%, this is %s", n.Describe())
	}
	if relative {
		smallest /= 100
	}
	return smallest, relative
}

// words returns words of a type of their own as text.
func words[T ~string](list []T) []string {
	text := make([]string, len(list))
	for i, w := range list {
		text[i] = string(w)
	}
	return text
}
