package definition

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/trace"
)

// experimented is a workspace with splits to read.
var experimented = map[string]string{
	"context.yaml": "fields:\n  customer_id: { type: string }\n  account: { type: string, trace: none }\n  plan: { type: string, values: [free, pro] }\n",
	"remoteconfigs/button.yaml": `
type: string
default: grey
aliases: [knob]
rules:
  - { id: pro, when: { plan: pro }, value: gold }
  - id: colours
    split: { by: customer_id, of: [ { name: blue, value: blue, share: 50% }, { name: green, value: green, share: 50% } ] }
`,
	"remoteconfigs/length.yaml": `
type: number
default: 100
rules:
  - id: some
    split: { by: customer_id, salt: l, coverage: 50%, of: [ { value: 50, share: 50% }, { value: 200, share: 50% } ] }
`,
	"prompts/reply.yaml": `
default: warm
variants:
  warm: { provider: x, model: m, messages: [ { role: user, content: "warm {{max}}" } ] }
  brief: { extends: warm, messages: [ { role: user, content: "brief {{max}}" } ] }
variables: { max: { config: length } }
rules:
  - id: wording
    split: { by: customer_id, of: [ { value: warm, share: 50% }, { value: brief, share: 50% } ] }
`,
	"endpoints/chat.yaml": "prompt: reply\n",
}

// started is the text of an experiment without its metrics.
const started = "on: remoteconfigs/button\nrule: colours\ncontrol: blue\nstart: 2126-11-01T00:00:00Z\nend: 2126-12-01T00:00:00Z\n"

const resolved = "primary: { value: resolved, as: rate, goal: up, smallest: 2% }\n"

// with returns files with some in the place of others, or in addition to them.
func with(files map[string]string, edits ...string) map[string]string {
	all := maps.Clone(files)
	for i := 0; i < len(edits); i += 2 {
		all[edits[i]] = edits[i+1]
	}
	return all
}

func TestExperiment(t *testing.T) {
	s := mustLoad(t, workspace(t, with(experimented,
		"experiments/wording.yaml", `
on: prompts/reply
rule: wording
control: warm
unit: customer_id
attribution: 7d
start: 2126-11-01T01:00:00+01:00
end: 2126-12-01T00:00:00.5Z
hypothesis: Brief answers help as much.
owner: growth@example.com
description: The first of two.
primary: { value: resolved, as: rate, goal: up, smallest: 2% }
others:
  - { measure: cost, smallest: 10% }
  - { measure: score, smallest: 0.1 }
  - { measure: tokens, as: mean, goal: up, smallest: "5 %", name: words }
guardrails:
  - { measure: latency, over: 3s, smallest: 0.02 }
  - { measure: first_token, as: rate, smallest: 7% }
`,
		"experiments/shop/Length.json", `{"on": "remoteconfigs/length", "rule": "some", "control": "passed_on", "start": "2126-11-01T00:00:00Z", "end": "2126-12-01T00:00:00Z",
  "primary": {"measure": "error", "smallest": "20%"}}`)))
	start, end := time.Date(2126, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2126, 12, 1, 0, 0, 0, 0, time.UTC)
	want := []experiment.Plan{
		{
			Name: "shop/Length", On: "remoteconfigs/length", Rule: "some", Salt: "l", Arms: []string{"1", "2"}, Control: experiment.PassedOn,
			Unit: "customer_id", Start: start, End: end,
			Metrics: []experiment.Metric{{Name: "error", Role: experiment.Primary, Measure: experiment.Error, As: experiment.Ratio, Smallest: 0.2, Relative: true}},
		},
		{
			Name: "wording", On: "prompts/reply", Rule: "wording", Salt: "wording", Arms: []string{"warm", "brief"}, Control: "warm",
			Unit: "customer_id", Attribution: 7 * 24 * time.Hour, Start: start, End: end.Add(time.Second / 2),
			Hypothesis: "Brief answers help as much.", Owner: "growth@example.com",
			Metrics: []experiment.Metric{
				{Name: "resolved", Role: experiment.Primary, Value: "resolved", As: experiment.Rate, Up: true, Smallest: 0.02, Relative: true},
				{Name: "cost", Role: experiment.Other, Measure: experiment.Cost, As: experiment.Ratio, Smallest: 0.1, Relative: true},
				{Name: "score", Role: experiment.Other, Measure: experiment.Score, As: experiment.Mean, Up: true, Smallest: 0.1},
				{Name: "words", Role: experiment.Other, Measure: experiment.Tokens, As: experiment.Mean, Up: true, Smallest: 0.05, Relative: true},
				{Name: "latency", Role: experiment.Guardrail, Measure: experiment.Latency, As: experiment.Ratio, Over: 3 * time.Second, Smallest: 0.02},
				{Name: "first_token", Role: experiment.Guardrail, Measure: experiment.FirstToken, As: experiment.Rate, Smallest: 0.07, Relative: true},
			},
		},
	}
	if diff := cmp.Diff(want, s.Experiments); diff != "" {
		t.Error(diff)
	}
	if len(s.Warnings) > 0 {
		t.Error(s.Warnings)
	}
	if len(s.ForClients().Experiments) > 0 {
		t.Error("clients see experiments")
	}
	if !slices.ContainsFunc(s.Files, func(f trace.File) bool { return f.Path == "experiments/shop/Length.json" }) || len(s.Definitions) != 4 {
		t.Errorf("%d definitions, %d files", len(s.Definitions), len(s.Files))
	}
	// What is read back from the store is the same plan.
	var again []experiment.Plan
	data, err := json.Marshal(s.Experiments)
	must(t, err)
	must(t, json.Unmarshal(data, &again))
	if diff := cmp.Diff(want, again); diff != "" {
		t.Error(diff)
	}
}

// TestExperimentRevision: the experiments are part of a set's revision, not their wording,
// and of past sets.
func TestExperimentRevision(t *testing.T) {
	revisionOf := func(text string) string {
		return mustLoad(t, workspace(t, with(experimented, "experiments/e.yaml", text))).Revision
	}
	without := mustLoad(t, workspace(t, experimented)).Revision
	one := revisionOf(started + resolved)
	if one == without || one == revisionOf(started+strings.ReplaceAll(resolved, "2%", "3%")) || one != revisionOf("# why\n"+resolved+started+"unit: customer_id\n") {
		t.Error("a revision is not that of the plans")
	}
	s := mustLoad(t, workspace(t, with(experimented, "experiments/e.yaml", started+resolved)))
	past := &Past{Revision: s.Revision, Files: s.Files}
	again, err := past.Load()
	must(t, err)
	if diff := cmp.Diff(s.Experiments, again.Experiments); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(s.Counts(), past.Counts()); diff != "" {
		t.Error(diff)
	}
	dir := t.TempDir()
	if written, err := past.WriteTo(dir + "/out"); err != nil || !written || mustLoad(t, dir+"/out").Revision != s.Revision {
		t.Error(written, err)
	}
}

// TestExperimentOfABundle: a bundle has the experiments, and an edit of one is proposed as
// that of a definition is.
func TestExperimentOfABundle(t *testing.T) {
	t.Parallel()
	dir := workspace(t, with(experimented, "experiments/e.yaml", started+resolved))
	s, err := Open(dir)
	must(t, err)
	defer s.Close()
	awaiting := Await("bundle")
	defer awaiting.Close()
	must(t, awaiting.Serve(s.Snapshot().Bundled()))
	if diff := cmp.Diff(s.Snapshot().Experiments, awaiting.Snapshot().Experiments); diff != "" || awaiting.Snapshot().Revision != s.Snapshot().Revision {
		t.Error(diff)
	}
	served, proposed, err := s.Propose(t.Context(), map[string][]byte{"experiments/e.yaml": []byte(strings.ReplaceAll(started+resolved, "up", "down"))})
	must(t, err)
	if !served.Experiments[0].Metrics[0].Up || proposed.Experiments[0].Metrics[0].Up {
		t.Errorf("%+v %+v", served.Experiments, proposed.Experiments)
	}
	_, proposed, err = s.Propose(t.Context(), map[string][]byte{"experiments/e.yaml": nil})
	if err != nil || len(proposed.Experiments) > 0 {
		t.Error(proposed, err)
	}
	_, _, err = s.Propose(t.Context(), map[string][]byte{"experiments/f.yaml": []byte(started)})
	wantErrors(t, dir, err, "experiments/f.yaml:1:1: primary is missing: the metric that decides, such as { value: resolved, as: rate, goal: up, smallest: 2% }")
}

// TestExperimentMistakes: each mistake has its place and what to write instead.
func TestExperimentMistakes(t *testing.T) {
	t.Parallel()
	files := with(experimented,
		"remoteconfigs/ramped.yaml", "type: boolean\ndefault: false\nrules:\n"+
			"  - { id: grows, value: true, ramp: { by: customer_id, start: 2126-01-01, end: 2126-02-01 } }\n"+
			"  - { id: both, split: { by: customer_id, of: [ { value: true, share: 50% } ] }, ramp: { start: 2126-01-01, end: 2126-02-01 } }\n"+
			"  - { id: odd, split: { by: customer_id, of: [ { name: passed_on, value: true, share: 5% }, { value: false, share: 5% } ] } }\n"+
			"  - { id: single, split: { by: customer_id, of: [ { name: on, value: true, share: 5% } ] } }\n",
		"remoteconfigs/many.yaml", "type: number\ndefault: 0\nrules:\n  - id: eleven\n    split: { by: customer_id, of: ["+strings.Repeat(" { value: 1, share: 1% },", 11)+" ] }\n",
	)
	metric := func(text string) string { return started + "primary: " + text + "\n" }
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"all":          {"{}", []string{"1:1: on is missing: the folder and key of the definition whose split the experiment reads, such as remoteconfigs/button", "1:1: rule is missing: the id of the row with the split", "1:1: control is missing: the arm that the others are compared with, or passed_on", "1:1: start is missing: from when on units count, such as 2026-11-01T00:00:00Z", "1:1: end is missing: until when units count, such as 2026-12-01T00:00:00Z", "1:1: primary is missing: the metric that decides, such as { value: resolved, as: rate, goal: up, smallest: 2% }"}},
		"points":       {metric("{ value: resolved, as: rate, goal: up, smallest: 5 }"), []string{"6:59: smallest is a part of units or of answers here, below 1: 5 points are 0.05"}},
		"misspelt":     {"ons: remoteconfigs/button\n", []string{`1:1: unknown member "ons" in an experiment: did you mean "on"?`}},
		"folder":       {strings.ReplaceAll(started, "remoteconfigs/button", "button") + resolved, []string{`1:5: on must be the folder and key of a definition such as remoteconfigs/button, this is "button"`}},
		"itself":       {strings.ReplaceAll(started, "remoteconfigs/button", "experiments/e") + resolved, []string{`1:5: on must be the folder and key of a definition such as remoteconfigs/button, this is "experiments/e"`}},
		"key":          {strings.ReplaceAll(started, "remoteconfigs/button", "remoteconfigs/buton") + resolved, []string{`1:5: there is no remote configuration "buton": did you mean "button"?`}},
		"alias":        {strings.ReplaceAll(started, "remoteconfigs/button", "remoteconfigs/knob") + resolved, []string{`1:5: there is no remote configuration "knob": it is an alias, which is for callers only: write the key "button"`}},
		"endpoint":     {strings.ReplaceAll(started, "remoteconfigs/button", "endpoints/chat") + resolved, []string{"1:5: the endpoint chat has no variants, and so no split: that of its prompt is on: prompts/reply"}},
		"rule":         {strings.ReplaceAll(started, "rule: colours", "rule: colors") + resolved, []string{`2:7: remoteconfigs/button has no row with the id "colors": did you mean "colours"?`}},
		"no split":     {strings.ReplaceAll(started, "rule: colours", "rule: pro") + resolved, []string{"2:7: the row pro of remoteconfigs/button has no split, so that it has no arms to compare"}},
		"ramp":         {strings.NewReplacer("button", "ramped", "colours", "grows").Replace(started) + resolved, []string{"2:7: the row grows of remoteconfigs/ramped has a ramp, whose shares change by the second: write a split with a coverage, and raise it by edits"}},
		"ramp, split":  {strings.NewReplacer("button", "ramped", "colours", "both").Replace(started) + resolved, []string{"2:7: the row both of remoteconfigs/ramped has a ramp, whose shares change by the second: write a split with a coverage, and raise it by edits"}},
		"name":         {strings.NewReplacer("button", "ramped", "colours", "odd").Replace(started) + resolved, []string{"2:7: the split odd of remoteconfigs/ramped has an arm called passed_on, which stands for the units that it leaves to the rows below: give the arm another name"}},
		"alone":        {strings.NewReplacer("button", "ramped", "colours", "single", "blue", "on").Replace(started) + resolved, []string{"3:10: the split single has no other arm than on to compare with: write control: passed_on"}},
		"arms":         {strings.NewReplacer("button", "many", "colours", "eleven").Replace(started) + resolved, []string{"2:7: the split eleven of remoteconfigs/many has 11 arms, an experiment has at most 10"}},
		"control":      {strings.ReplaceAll(started, "control: blue", "control: blu") + resolved, []string{`3:10: the split colours has no arm "blu": did you mean "blue"?`}},
		"passed on":    {strings.ReplaceAll(started, "control: blue", "control: passed_on") + resolved, []string{"3:10: the shares of the split colours come to 100%, so that it passes no unit on: control must be one of its arms (blue, green)"}},
		"unit":         {started + resolved + "unit: account\n", []string{`7:7: the split colours divides by customer_id: unit must be that, or be left out, this is "account"`}},
		"times":        {strings.NewReplacer("start: 2126-11-01T00:00:00Z", "start: 2126-11-01", "end: 2126-12-01T00:00:00Z", "end: soon").Replace(started) + resolved, []string{`4:8: start must be a time such as 2026-11-01T00:00:00Z (RFC 3339), this is "2126-11-01"`, `5:6: end must be a time such as 2026-11-01T00:00:00Z (RFC 3339), this is "soon"`}},
		"order":        {strings.ReplaceAll(started, "end: 2126-12", "end: 2126-11") + resolved, []string{"5:6: the end of an experiment must be after its start"}},
		"days":         {started + resolved + "attribution: 1 week\n", []string{`7:14: attribution must be a duration from 1m to 90d such as 7d or 36h, this is "1 week"`}},
		"long":         {started + resolved + "attribution: 91d\n", []string{`7:14: attribution must be a duration from 1m to 90d such as 7d or 36h, this is "91d"`}},
		"both":         {metric("{ value: a, measure: cost, as: mean, goal: up, smallest: 1 }"), []string{"6:31: a metric has a value of reports or a measure of the gateway, not both"}},
		"neither":      {metric("{ smallest: 1 }"), []string{"6:10: a metric needs a value, the name of a number of reports, or a measure: one of error, fallback, latency, first_token, cost, tokens, score"}},
		"words":        {metric("{ measure: costs, as: ratios, goal: less, smallest: 1 }"), []string{`6:21: measure must be one of error, fallback, latency, first_token, cost, tokens, score, this is "costs": did you mean "cost"?`, `6:32: as must be one of rate, mean, total, ratio, this is "ratios": did you mean "ratio"?`, `6:46: goal must be one of up, down, this is "less"`}},
		"of a value":   {metric("{ value: a }"), []string{"6:10: as is missing: what is made of the numbers of a unit, one of rate, mean, total, ratio", "6:10: goal is missing: up where more is better, or down", "6:10: smallest is missing: the smallest difference that matters, such as 0.02, or 10% of the control's number"}},
		"member":       {metric("{ measure: cost, smalest: 1 }"), []string{`6:27: unknown member "smalest" in a metric: did you mean "smallest"?`}},
		"over":         {metric("{ measure: cost, over: 3s, smallest: 1 }"), []string{"6:33: over is the threshold of the measures latency and first_token alone"}},
		"over a value": {metric("{ value: a, as: mean, goal: up, over: 3s, smallest: 1 }"), []string{"6:48: over is the threshold of the measures latency and first_token alone"}},
		"mean time":    {metric("{ measure: latency, as: mean, smallest: 1% }"), []string{"6:34: latency counts the answers that took longer than its threshold: as must be ratio, the share of answers, or rate, the share of units"}},
		"zero":         {metric("{ measure: cost, smallest: 0% }"), []string{`6:37: smallest must be a number above 0 such as 0.02, or a percentage of the control's number such as 10%, this is "0%"`}},
		"text":         {metric("{ measure: cost, smallest: \"1\" }"), []string{`6:37: smallest must be a number above 0 such as 0.02, or a percentage of the control's number such as 10%, this is "1"`}},
		"names":        {started + resolved + "others: [ { measure: cost, smallest: 1 }, { measure: cost, as: total, smallest: 1 } ]\nguardrails: [ { measure: error, name: resolved, smallest: 0.1 } ]\n", []string{"7:43: another metric is called cost too: give one of them a name", "8:15: another metric is called resolved too: give one of them a name"}},
		"bad names":    {metric("{ value: a b, name: c d, as: mean, goal: up, smallest: 1 }"), []string{`6:19: "a b" can't be the name of a value of reports: 1 to 256 letters, digits and . _ : / -`, `6:30: "c d" can't be the name of a metric: 1 to 256 letters, digits and . _ : / -`}},
		"lists":        {started + resolved + "others: { measure: cost }\nguardrails: [ cost ]\n", []string{"7:9: others must be a list of metrics such as [ { measure: cost, smallest: 10% } ], this is a mapping", `8:15: a metric must be a mapping, this is "cost"`}},
		"metrics":      {started + resolved + "others: [" + numbered(20, "{ measure: cost, name: m%d, smallest: 1 }") + "]\n", []string{"7:817: an experiment has at most 20 metrics: the more there are, the wider each one's interval is"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := workspace(t, with(files, "experiments/e.yaml", test.text))
			_, err := Load(dir)
			var got []string
			if err != nil {
				for line := range strings.Lines(err.Error()) {
					got = append(got, strings.TrimPrefix(strings.TrimSpace(line), dir+"/experiments/e.yaml:"))
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func numbered(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, ", ")
}

// TestExperimentOfAMistake: where a definition can't be read, its experiments add nothing.
func TestExperimentOfAMistake(t *testing.T) {
	dir := workspace(t, with(experimented,
		"experiments/e.yaml", strings.ReplaceAll(started, "blue", "red")+resolved,
		"remoteconfigs/button.yaml", "type: string\ndefault: grey\nrules: [ { id: x, valeu: red } ]\n"))
	_, err := Load(dir)
	wantErrors(t, dir, err, `remoteconfigs/button.yaml:3:19: unknown member "valeu" in a rule: did you mean "value"?`)
	// The folder of what it reads has another name.
	dir = workspace(t, map[string]string{"remoteconfig/a.yaml": "type: number\ndefault: 1\n", "experiments/e.yaml": started + resolved})
	_, err = Load(dir)
	wantErrors(t, dir, err, `remoteconfig:1:1: not read: did you mean "remoteconfigs"? a mistake follows from its absence`)
	dir = workspace(t, with(experimented, "experiments/e.yaml", started+resolved, "experiments/other.yaml", "key: e\n"+started+resolved))
	_, err = Load(dir)
	wantErrors(t, dir, err, `experiments/other.yaml:1:6: the key "e" is taken: `+dir+`/experiments/e.yaml:1:1 is the experiment "e" too`)
}

func TestExperimentWarnings(t *testing.T) {
	t.Parallel()
	error20 := "guardrails: [ { measure: error, smallest: 20% } ]\n"
	const colours = "{ name: blue, value: blue, share: 50% }, { name: green, value: green, share: 50% }"
	button := func(edits ...string) []string {
		return []string{"remoteconfigs/button.yaml", strings.NewReplacer(edits...).Replace(experimented["remoteconfigs/button.yaml"])}
	}
	none := Configuration{Log: LogNone}
	for name, test := range map[string]struct {
		files []string
		text  string
		known []Configuration
		want  []string
	}{
		"no":             {nil, started + resolved, nil, nil},
		"trace: none":    {button("by: customer_id", "by: account"), started + resolved, nil, []string{"unit-not-recorded 2:7: the units of colours are not recorded: account, or a field that it is computed from, has trace: none"}},
		"log: none":      {button("default:", "log: none\ndefault:"), started + resolved, nil, []string{"split-not-recorded 1:5: the answers of remoteconfigs/button leave no trace, because remoteconfigs/button has log: none"}},
		"of the gateway": {nil, started + resolved, []Configuration{none}, []string{"split-not-recorded 1:5: the answers of remoteconfigs/button leave no trace, because the workspace has log: none"}},
		"of one":         {nil, started + resolved, []Configuration{none, {}}, nil},
		"own":            {button("default:", "log: metadata\ndefault:"), started + resolved, []Configuration{none}, nil},
		"of its readers": {[]string{"remoteconfigs/length.yaml", experimented["remoteconfigs/length.yaml"] + "log: none\n", "prompts/reply.yaml", experimented["prompts/reply.yaml"] + "log: none\n"},
			strings.NewReplacer("button", "length", "colours", "some", "blue", "passed_on").Replace(started) + resolved + error20, nil, nil}, // the endpoint's traces have it
		"nobody's": {[]string{"remoteconfigs/length.yaml", experimented["remoteconfigs/length.yaml"] + "log: none\n", "prompts/reply.yaml", experimented["prompts/reply.yaml"] + "log: none\n", "endpoints/chat.yaml", "prompt: reply\nlog: none\n"},
			strings.NewReplacer("button", "length", "colours", "some", "blue", "passed_on").Replace(started) + resolved + error20, nil, []string{"split-not-recorded 1:5: the answers of remoteconfigs/length leave no trace, because remoteconfigs/length has log: none"}},
		"measured by nobody":      {nil, started + resolved + error20 + "others: [ { measure: score, smallest: 1 } ]\n", nil, []string{"nothing-measured 7:15: error is measured of the answers of prompts and endpoints, and none of them reads remoteconfigs/button"}},
		"measured of a condition": {[]string{"remoteconfigs/length.yaml", "type: number\ndefault: 1\nrules: [ { when: { config: { button: blue } }, value: 2 } ]\n"}, started + resolved + error20, nil, nil},
		"no share":                {button(colours, "{ name: blue, value: blue, share: 50% }, { name: green, value: green, share: 0% }"), started + resolved, nil, []string{"empty-arm 2:7: the arm green of colours has no share, so that no unit is in it"}},
		"same value":              {button("value: green", "value: \"blue\""), started + resolved, nil, []string{"same-arms 2:7: the arms blue and green of colours answer the same"}},
		"same variant": {[]string{"prompts/reply.yaml", strings.ReplaceAll(experimented["prompts/reply.yaml"], "brief {{", "warm {{")},
			strings.NewReplacer("remoteconfigs/button", "prompts/reply", "colours", "wording", "blue", "warm").Replace(started) + resolved, nil, []string{"same-arms 2:7: the arms warm and brief of wording answer the same"}},
		"salt": {button("rules:", "rules:\n  - { id: early, when: { plan: free }, split: { by: customer_id, salt: colours, of: [ { value: red, share: 1% } ] } }\n  - { id: other, when: { plan: free }, split: { by: plan, salt: colours, of: [ { value: red, share: 1% } ] } }"), started + resolved, nil,
			[]string{`shared-salt 2:7: the split colours has the salt "colours", and so has that of early: the arm of one says which units come to the other; give one another salt`}},
		"over": {nil, strings.ReplaceAll(started, "2126", "2025") + resolved, nil, []string{"experiment-over 5:6: the experiment is over: nothing is counted any more, and its numbers are kept until 2025-12-31"}},
		"rate": {nil, strings.NewReplacer("remoteconfigs/button", "prompts/reply", "colours", "wording", "blue", "warm").Replace(started) + "primary: { measure: error, as: rate, smallest: 20% }\nothers: [ { measure: fallback, as: rate, smallest: 20% }, { measure: latency, as: rate, smallest: 20% } ]\n", nil, []string{
			"saturated-rate 6:10: error counts once a unit, so that units that ask often all have it in each arm: use as: ratio, the share of answers",
			"saturated-rate 7:11: fallback counts once a unit, so that units that ask often all have it in each arm: use as: ratio, the share of answers",
		}},
		"overlap": {[]string{"experiments/a.yaml", strings.ReplaceAll(started, "2126-12", "2126-11-15T00:00:00Z #") + resolved, "experiments/f.yaml", strings.NewReplacer("2126-12-01", "2127-12-01", "2126-11-01", "2126-12-01").Replace(started) + resolved}, started + resolved, nil,
			[]string{"experiments-overlap 2:7: the experiment a reads the split colours of remoteconfigs/button at the same time, until 2126-11-15T00:00:00Z: one experiment with both metrics shares its chance of a false find among them"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := workspace(t, with(with(experimented, test.files...), "experiments/e.yaml", test.text))
			s, err := Load(dir, test.known...)
			must(t, err)
			var got []string
			for _, w := range s.Warnings {
				if place, ok := strings.CutPrefix(w.String(), dir+"/experiments/e.yaml:"); ok {
					got = append(got, w.Kind+" "+place)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestExperimentFollowsItsSplit: an edit of the table alone is in the plan, and one that
// takes the split away is a mistake in the experiment.
func TestExperimentFollowsItsSplit(t *testing.T) {
	t.Parallel()
	dir := workspace(t, with(experimented, "experiments/e.yaml", started+resolved))
	s, err := Open(dir)
	must(t, err)
	defer s.Close()
	first := s.Snapshot()
	edit := func(old, now string) error {
		text := experimented["remoteconfigs/button.yaml"]
		write(t, dir+"/remoteconfigs/button.yaml", strings.ReplaceAll(text, old, now))
		return s.Reload()
	}
	must(t, edit("share: 50% } ]", "share: 40% }, { name: red, value: red, share: 10% } ]"))
	if got := s.Snapshot().Experiments[0]; !slices.Equal(got.Arms, []string{"blue", "green", "red"}) || s.Snapshot().Revision == first.Revision {
		t.Errorf("%+v", got)
	}
	must(t, edit("by: customer_id", "by: plan, salt: s"))
	if got := s.Snapshot().Experiments[0]; got.Unit != "plan" || got.Salt != "s" {
		t.Errorf("%+v", got)
	}
	wantErrors(t, dir, edit("name: blue", "name: azure"), `experiments/e.yaml:3:10: the split colours has no arm "blue" (known: azure, green)`)
	// Experiments may go all at once.
	must(t, edit("", ""))
	must(t, os.RemoveAll(dir+"/experiments"))
	if must(t, s.Reload()); len(s.Snapshot().Experiments) > 0 || s.Snapshot().Revision == first.Revision {
		t.Error(s.Snapshot().Experiments)
	}
}
