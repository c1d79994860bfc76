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

// warn warns of experiments whose readout will say nothing, or less than it seems, and of
// rollouts that get no evidence.
func (r *experimentReader) warn() {
	for i := range r.guarded {
		r.warnUnseen(&r.guarded[i])
	}
	for i := range r.found {
		e := &r.found[i]
		n := e.doc.node
		if !e.End.After(r.now) {
			r.warnAt("experiment-over", n.Get("end"), "the experiment is over: nothing is counted any more, and its numbers are kept until %s", e.End.Add(experiment.Kept).Format(time.DateOnly))
		}
		r.warnUnread(e)
		r.warnArms(e)
		for j, m := range e.Metrics {
			if m.As == experiment.Rate && (m.Measure == experiment.Error || m.Measure == experiment.Fallback) {
				r.warnAt("saturated-rate", e.metrics[j], "%s counts once a unit, so that units that ask often all have it in each arm: use as: %s, the share of answers", m.Name, experiment.Ratio)
			}
		}
	}
	r.warnOverlaps()
}

// warnUnread warns of an experiment of whose units, or of whose answers, traces have
// nothing.
func (r *experimentReader) warnUnread(e *readExperiment) {
	r.warnUnrecorded(e.on, e.row, e.doc.node.Get("rule"), e.doc.node.Get("on"))
	for i, m := range e.Metrics {
		if r.isUnmeasured(e.on, m.Measure) {
			r.warnUnmeasured(e.metrics[i], m.Name, e.On)
			break
		}
	}
}

// warnUnseen warns of a rollout that gets no evidence, so that it takes no step.
func (r *experimentReader) warnUnseen(p *readRollout) {
	r.warnUnrecorded(p.on, p.row, p.node, p.node)
	for i := range p.Stops {
		if r.isUnmeasured(p.on, p.Stops[i].Measure) {
			r.warnUnmeasured(p.stops[i], p.Stops[i].Name(), p.On)
			break
		}
	}
}

// warnUnrecorded warns of a split of whose units, or of whose answers, traces have nothing.
func (r *experimentReader) warnUnrecorded(on *Definition, row int, rule, split *document.Node) {
	name := on.Kind.Folder + "/" + on.Key
	if s := r.splitsOf(on.table).splits[row]; !s.Recorded {
		r.warnAt("unit-not-recorded", rule, "the units of %s are not recorded: %s, or a field that it is computed from, has trace: none", on.table.Rows()[row].ID, s.By)
	}
	if _, recorded := r.answers(on); !r.records(on) && !recorded {
		whose := name
		if on.Log == Unset {
			whose = "the workspace"
		}
		r.warnAt("split-not-recorded", split, "the answers of %s leave no trace, because %s has log: none", name, whose)
	}
}

// isUnmeasured reports whether a measure is of answers that no split of a definition is in.
func (r *experimentReader) isUnmeasured(on *Definition, m experiment.Measure) bool {
	if m == "" || m == experiment.Score || on.Kind != kind.RemoteConfig {
		return false
	}
	answers, _ := r.answers(on)
	return !answers
}

func (r *experimentReader) warnUnmeasured(at *document.Node, name, on string) {
	r.warnAt("nothing-measured", at, "%s is measured of the answers of prompts and endpoints, and none of them reads %s", name, on)
}

// records reports whether the answers of a definition leave traces.
func (r *experimentReader) records(d *Definition) bool {
	return d.Log != LogNone && (d.Log != Unset || !r.unrecorded)
}

// answers reports whether a prompt or an endpoint reads a definition, by itself or by way
// of others, so that its traces have the splits, and whether one that leaves traces does.
func (r *experimentReader) answers(of *Definition) (any, recorded bool) {
	if r.answering == nil {
		r.answering = make(map[*Definition]bool)
		var follow func(d *doc, recorded bool)
		follow = func(d *doc, recorded bool) {
			if d.file.built == nil {
				return
			}
			for _, ref := range d.file.built.refs {
				if was, seen := r.answering[ref.target]; !seen || recorded && !was {
					r.answering[ref.target] = recorded
					follow(r.byKey[ref.kind][ref.key], recorded)
				}
			}
		}
		for _, k := range []*kind.Kind{kind.Prompt, kind.Endpoint} {
			for _, d := range r.docs[k] {
				follow(d, r.records(d.definition))
			}
		}
	}
	recorded, any = r.answering[of]
	return any, recorded
}

// warnArms warns of arms that can't be told apart, and of units that are in two splits at
// once.
func (r *experimentReader) warnArms(e *readExperiment) {
	at := e.doc.node.Get("rule")
	table := r.tables[e.on.table]
	answers := experiment.ArmAnswers(e.on.content, e.Rule)
	for i, arm := range e.Arms {
		if !slices.ContainsFunc(table.splits[e.row].Parts, func(p rules.Part) bool { return p.Arm == arm }) {
			r.warnAt("empty-arm", at, "the arm %s of %s has no share, so that no unit is in it", arm, e.Rule)
		}
		same := slices.IndexFunc(e.Arms[:i], func(other string) bool { return answers[other] == answers[arm] })
		if same >= 0 {
			r.warnAt("same-arms", at, "the arms %s and %s of %s answer the same", e.Arms[same], arm, e.Rule)
		}
	}
	var others []string
	for _, row := range table.alike[[2]string{e.Unit, e.Salt}] {
		if row != e.row {
			others = append(others, e.on.table.Rows()[row].ID)
		}
	}
	if len(others) > 0 {
		r.warnAt("shared-salt", at, "the split %s has the salt %q, and so has that of %s: the arm of one says which units come to the other; give one another salt", e.Rule, e.Salt, strings.Join(others[:min(len(others), 3)], ", "))
	}
}

// warnOverlaps warns of experiments that read the same split at the same time.
func (r *experimentReader) warnOverlaps() {
	type split struct{ on, rule string }
	bySplit := make(map[split][]*readExperiment)
	for i := range r.found {
		e := &r.found[i]
		bySplit[split{e.On, e.Rule}] = append(bySplit[split{e.On, e.Rule}], e)
	}
	for _, list := range bySplit {
		slices.SortStableFunc(list, func(a, b *readExperiment) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Name, b.Name)) })
		last := list[0]
		for _, e := range list[1:] {
			if e.Start.Before(last.End) {
				r.warnAt("experiments-overlap", e.doc.node.Get("rule"), "the experiment %s reads the split %s of %s at the same time, until %s: one experiment with both metrics shares its chance of a false find among them", last.Name, e.Rule, e.On, last.End.Format(time.RFC3339))
			}
			if e.End.After(last.End) {
				last = e
			}
		}
	}
}
