package definition

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/rules"
)

// The bounds of a guard.
const (
	minEvery    = time.Minute
	maxEvery    = 30 * 24 * time.Hour
	defaultNeed = 300 // units from which on means and rates are judged at all
	maxNeed     = 1e9
	maxStops    = 20
	maxRatio    = 25
)

// guardMembers are the members of a guard, and stopMembers those of one of its stops.
var (
	guardMembers = []string{"new", "control", "steps", "every", "need", "stop", "then"}
	stopMembers  = []string{"metric", "value", "as", "over", "ratio"}
)

// readRollout is a rollout with what it was read from. It has no edition before the
// definition has its content.
type readRollout struct {
	rollout.Plan
	on    *Definition
	row   int // of the table of on
	node  *document.Node
	stops []*document.Node
}

// rollouts takes up the rollouts of the definitions.
func (r *experimentReader) rollouts() (plans []rollout.Plan) {
	for _, k := range []*kind.Kind{kind.Prompt, kind.Endpoint, kind.RemoteConfig} {
		for _, d := range r.docs[k] {
			if d.file.built == nil {
				continue
			}
			for _, p := range d.file.built.rollouts {
				p.on = d.definition
				p.Edition = experiment.Edition(p.on.content, p.Rule)
				r.guarded = append(r.guarded, p)
			}
		}
	}
	slices.SortStableFunc(r.guarded, func(a, b readRollout) int { return cmp.Compare(a.Name(), b.Name()) })
	for i := range r.guarded {
		p := &r.guarded[i]
		if i > 0 && p.Name() == r.guarded[i-1].Name() {
			r.errs.Add(p.node, "the rollout is called %s, and so is that of the row %s of %s: give its row another id", p.Name(), r.guarded[i-1].Rule, r.guarded[i-1].On)
		}
		plans = append(plans, p.Plan)
	}
	return plans
}

// readRollouts decodes the guards of a definition's table.
func (d *doc) readRollouts(t *rules.Table, errs *document.Errors) (list []readRollout) {
	for _, row := range t.Guards() {
		s := t.Divide(row, time.Time{})
		p := readRollout{row: row, node: s.Guard}
		p.On, p.Rule, p.Salt, p.Unit, p.New, p.Control = t.Name(), t.Rows()[row].ID, s.Salt, s.By, s.Arms[0], s.Arms[1]
		p.decode(errs)
		list = append(list, p)
	}
	return list
}

// decode reads what the guard says beside its two answers.
func (p *readRollout) decode(errs *document.Errors) {
	n, before := p.node, errs.Len()
	n.CheckMembers(errs, "a guard", guardMembers...)
	misspelt := errs.Len() > before // an unknown member may be the one that is missing
	missing := func(format string) {
		if !misspelt {
			errs.Add(n, "%s", format)
		}
	}
	switch steps := n.Get("steps"); {
	case steps == nil:
		missing("steps is missing: the shares of the new answer, one after the other, such as [1%, 5%, 25%, 50%, 100%]")
	case steps.Shape != document.Sequence || len(steps.Items) == 0:
		errs.Add(steps, "steps must be a list of one or more shares such as [1%%, 5%%, 25%%, 50%%, 100%%], this is %s", steps.Describe())
	default:
		p.readSteps(steps.Items, errs)
	}
	if every := n.Get("every"); every != nil {
		p.Every = readDays(every, "every", minEvery, maxEvery, errs)
	} else {
		missing("every is missing: how long a step lasts at least, such as 1h")
	}
	p.Need = defaultNeed
	if need := n.Get("need"); need != nil {
		p.Need = readUnits(need, errs)
	}
	switch stop := n.Get("stop"); {
	case stop == nil:
		missing("stop is missing: the harm that stops the rollout, such as [ { metric: error, ratio: 1.2 } ]")
	case stop.Shape != document.Sequence || len(stop.Items) == 0:
		errs.Add(stop, "stop must be a list of one or more such as [ { metric: error, ratio: 1.2 } ], this is %s", stop.Describe())
	default:
		for _, item := range stop.Items {
			if len(p.Stops) == maxStops {
				errs.Add(item, "a guard has at most %d stops: the more there are, the later each one sees harm", maxStops)
				break
			}
			p.readStop(item, errs)
		}
	}
	p.Then = rollout.ThenHold
	if then := n.Get("then"); then != nil {
		word, _ := then.ReadWord(errs, "then", string(rollout.ThenHold), string(rollout.ThenBack))
		p.Then = rollout.Then(word)
	}
}

// readSteps reads the steps of a guard.
func (p *readRollout) readSteps(items []*document.Node, errs *document.Errors) {
	last := 0
	for _, item := range items {
		width, ok := rules.ReadShare(item, "a step", errs)
		step := int(width)
		switch {
		case !ok:
			continue
		case step > rollout.Half && step < rollout.Whole:
			errs.Add(item, "a step above 50%% must be 100%%: as many units as have the new answer are the control that is compared with it")
		case step <= last:
			errs.Add(item, "the steps of a guard ascend from above 0%%, and %s is not above the one before", item.Text)
		}
		p.Steps, last = append(p.Steps, step), step
	}
}

// readUnits reads a number of units, such as 300 units.
func readUnits(n *document.Node, errs *document.Errors) int64 {
	number := *n
	for _, word := range []string{" units", " unit"} {
		if text, ok := strings.CutSuffix(n.Text, word); ok {
			number.Text, number.Quoted = text, false
			break
		}
	}
	var wrong document.Errors
	units, ok := number.ReadInt(&wrong, "need", 0, maxNeed)
	if !ok {
		errs.Add(n, "need must be a number of units such as 300 units, this is %s", n.Describe())
	}
	return units
}

// readStop reads what stops a rollout. It is among the stops even with a mistake, so that
// another of its name is found.
func (p *readRollout) readStop(n *document.Node, errs *document.Errors) {
	var s rollout.Stop
	before := errs.Len()
	if !n.CheckMembers(errs, "a stop", stopMembers...) {
		return
	}
	misspelt := errs.Len() > before
	metric, value, as, over := n.Get("metric"), n.Get("value"), n.Get("as"), n.Get("over")
	switch {
	case metric != nil && value != nil:
		errs.Add(metric, "a stop has a value of reports or a metric of the gateway, not both")
	case value != nil:
		s.Value = readValueName(value, errs)
		if as == nil && !misspelt {
			errs.Add(n, "as is missing: what is made of the numbers of a unit, one of %s, %s, %s", experiment.Rate, experiment.Mean, experiment.Total)
		} else if as != nil {
			word, _ := as.ReadWord(errs, "as", string(experiment.Rate), string(experiment.Mean), string(experiment.Total))
			s.As = experiment.As(word)
		}
	case metric != nil:
		word, _ := metric.ReadWord(errs, "metric", words(experiment.Measures)...)
		if s.Measure, s.As = experiment.Measure(word), experiment.Ratio; s.Measure == experiment.Score {
			s.As = experiment.Mean
		}
		if as != nil {
			errs.Add(as, "as is for a value of reports: the gateway's metrics are judged by all answers, and of those that happen or do not also by unit")
		}
	case !misspelt:
		errs.Add(n, "a stop needs a metric, one of %s, or the value of reports that it watches", strings.Join(words(experiment.Measures), ", "))
	}
	switch {
	case over == nil && (s.Measure == experiment.Latency || s.Measure == experiment.FirstToken):
		// The threshold of an experiment is found in the week before. A rollout begins before
		// anybody was compared.
		if !misspelt {
			errs.Add(n, "over is missing: from when on an answer is late, such as 2s")
		}
	case over == nil:
	case s.Measure == experiment.Latency || s.Measure == experiment.FirstToken:
		s.Over, _ = over.ReadDuration(errs, "over", time.Millisecond, time.Hour)
	case value != nil || s.Measure != "":
		errs.Add(over, "over is the threshold of the metrics %s and %s alone", experiment.Latency, experiment.FirstToken)
	}
	if ratio := n.Get("ratio"); ratio != nil {
		var wrong document.Errors
		s.Ratio, _ = ratio.ReadFloat(&wrong, "ratio", math.SmallestNonzeroFloat64, maxRatio)
		if wrong.Len() > 0 || s.Ratio == 1 {
			errs.Add(ratio, "ratio is how many times the control's number is tolerated: from above 1 to %d, or below 1 and above 0 where less is harm, this is %s", maxRatio, ratio.Describe())
		}
	} else if !misspelt {
		errs.Add(n, "ratio is missing: how many times the control's number is tolerated, such as 1.2, or 0.8 where less is harm")
	}
	if name := s.Name(); name != "" && slices.ContainsFunc(p.Stops, func(other rollout.Stop) bool { return other.Name() == name }) {
		errs.Add(n, "another stop watches %s too", strconv.Quote(name))
	}
	p.Stops, p.stops = append(p.Stops, s), append(p.stops, n)
}
