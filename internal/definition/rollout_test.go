package definition

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/rules"
)

// guarded is a workspace with rollouts, of a value and of a variant.
var guarded = map[string]string{
	"context.yaml": "fields:\n  customer_id: { type: string }\n  account: { type: string, trace: none }\n  plan: { type: string, values: [free, pro] }\n",
	"remoteconfigs/button.yaml": `
type: string
default: grey
rules:
  - { id: pro, when: { plan: pro }, value: gold }
  - id: colours
    split:
      by: customer_id
      guard:
        new: blue
        control: green
        steps: [0.001%, 5%, 50%, 100%]
        every: 1h
        stop: [ { metric: error, ratio: 1.2 } ]
`,
	"prompts/reply.yaml": `
default: warm
variants:
  warm: { provider: x, model: m, messages: [ { role: user, content: "warm {{colour}}" } ] }
  brief: { extends: warm, name: Brief, messages: [ { role: user, content: "brief {{colour}}" } ] }
variables: { colour: { config: button } }
rules:
  - id: wording
    split:
      by: customer_id
      salt: s
      guard:
        new: brief
        control: warm
        steps: [1%]
        every: 2d
        need: 1000 units
        stop:
          - { metric: latency, over: 3s, ratio: 2 }
          - { metric: score, ratio: 0.9 }
          - { value: resolved, as: rate, ratio: 0.8 }
        then: back
`,
	"endpoints/chat.yaml": "prompt: reply\n",
}

func TestRollouts(t *testing.T) {
	// A test gives a share, as a question does.
	const tests = `
tests:
  - { context: { customer_id: a }, value: green, rule: colours }
  - { context: { customer_id: a, rollout.remoteconfigs/button/colours: 100000 }, value: blue, rule: colours }
`
	s := mustLoad(t, workspace(t, with(guarded, "remoteconfigs/button.yaml", guarded["remoteconfigs/button.yaml"]+tests)))
	want := []rollout.Plan{
		{
			On: "prompts/reply", Rule: "wording", Salt: "s", Unit: "customer_id", New: "brief", Control: "warm",
			Steps: []int{1000}, Every: 48 * time.Hour, Need: 1000, Then: rollout.ThenBack,
			Stops: []rollout.Stop{
				{Measure: experiment.Latency, As: experiment.Ratio, Over: 3 * time.Second, Ratio: 2},
				{Measure: experiment.Score, As: experiment.Mean, Ratio: 0.9},
				{Value: "resolved", As: experiment.Rate, Ratio: 0.8},
			},
		},
		{
			On: "remoteconfigs/button", Rule: "colours", Salt: "colours", Unit: "customer_id", New: rollout.New, Control: rollout.Control,
			Steps: []int{1, 5000, 50_000, 100_000}, Every: time.Hour, Need: 300, Then: rollout.ThenHold,
			Stops: []rollout.Stop{{Measure: experiment.Error, As: experiment.Ratio, Ratio: 1.2}},
		},
	}
	editions := make(map[string]bool)
	got := slices.Clone(s.Rollouts)
	for i := range got {
		editions[got[i].Edition] = true
		got[i].Edition = ""
	}
	if diff := cmp.Diff(want, got); diff != "" || len(editions) != 2 || editions[""] {
		t.Errorf("editions %v: %s", editions, diff)
	}
	if len(s.Warnings) > 0 || len(s.ForClients().Rollouts) > 0 {
		t.Errorf("warnings %v, of clients %v", s.Warnings, s.ForClients().Rollouts)
	}
	if names := s.Model.GatewayNames(); !slices.Equal(names, []string{"rollout.prompts/reply/wording", "rollout.remoteconfigs/button/colours"}) {
		t.Error(names)
	}
	for _, c := range []struct{ share, want string }{{"", `"green"`}, {`,"rollout.remoteconfigs/button/colours":100000`, `"blue"`}} {
		var b rules.Binding
		must(t, s.Model.Simulate(&b, fastjson.MustParse(`{"customer_id":"a"`+c.share+`}`), s.Loaded))
		d := s.RemoteConfigs["button"]
		if got := string(d.Answer(d.Table().Evaluate(&b))); got != c.want {
			t.Errorf("%s: %s", c.share, got)
		}
	}
	// Buckets, and the arms of a configuration, have the same names everywhere.
	d := s.RemoteConfigs["button"].Table().Divide(1, s.Loaded)
	if rules.Buckets != rollout.Whole || d.Parts[0].To != rollout.Half || d.Parts[0].Arm != rollout.New || d.Parts[1].Arm != rollout.Control {
		t.Errorf("%+v", d)
	}
}

// TestEditions: an edit of the guard, or of what new answers, starts a rollout anew, and no
// other edit does.
func TestEditions(t *testing.T) {
	edition := func(t *testing.T, file, old, now string) string {
		t.Helper()
		files := with(guarded, "remoteconfigs/plain.yaml", "type: number\ndefault: 0\nrules: [ { id: r, split: { by: plan, guard: { new: 5, control: 1, steps: [1%], every: 1h, stop: [ { value: x, as: mean, ratio: 2 } ] } } } ]\n")
		if !strings.Contains(files[file], old) {
			t.Fatalf("%s has no %s", file, old)
		}
		files[file] = strings.Replace(files[file], old, now, 1)
		for _, p := range mustLoad(t, workspace(t, files)).Rollouts {
			if strings.HasPrefix(file, p.On+".") {
				return p.Edition
			}
		}
		t.Fatal("no rollout")
		return ""
	}
	for _, tt := range []struct {
		kind, old, now string
		anew           bool
	}{
		{"remoteconfigs/button", "new: blue", "new: navy", true},
		{"remoteconfigs/button", "1h", "2h", true},
		{"remoteconfigs/button", "5%,", "6%,", true},
		{"remoteconfigs/button", "1.2", "1.3", true},
		{"remoteconfigs/button", "metric: error", "metric: cost", true},
		{"remoteconfigs/button", "every: 1h", "every: 1h\n        then: back", true},
		{"remoteconfigs/button", "every: 1h", "every: 1h\n        need: 5", true},
		{"remoteconfigs/button", "by: customer_id", "by: plan", true},
		{"remoteconfigs/button", "by: customer_id", "by: customer_id\n      salt: x", true},
		{"remoteconfigs/button", "by: customer_id", "by: customer_id\n      salt: colours", false},
		{"remoteconfigs/button", "control: green", "control: teal", false},
		{"remoteconfigs/button", "default: grey", "default: black", false},
		{"remoteconfigs/plain", "control: 1", "control: 2", false},
		{"remoteconfigs/plain", "new: 5", "new: 6", true},
		{"remoteconfigs/plain", "new: 5", "new: 5.0", false},
		{"remoteconfigs/button", "plan: pro", "plan: free", false},
		{"remoteconfigs/button", "- id: colours", "- id: colours\n    when: { plan: free }", false},
		{"remoteconfigs/button", "type: string", "type: string\ndescription: x\nlog: content", false},
		{"remoteconfigs/button", "new: blue\n        control: green", "control: green # first\n        new: 'blue'", false},
		{"prompts/reply", "brief {{colour}}", "briefly {{colour}}", true},
		// Inherited, it is part of what new answers; the control's alone is not.
		{"prompts/reply", "provider: x", "provider: y", true},
		{"prompts/reply", "warm {{colour}}", "warmly {{colour}}", false},
		{"prompts/reply", "name: Brief", "name: Short", false},
		{"prompts/reply", "ratio: 0.9", "ratio: 0.8", true},
		{"prompts/reply", "salt: s", "salt: t", true},
		{"prompts/reply", "rules:", "tests: [ { variables: {}, variant: warm } ]\nrules:", false},
	} {
		first := edition(t, tt.kind+".yaml", "rules:", "rules:")
		if got := edition(t, tt.kind+".yaml", tt.old, tt.now); (got != first) != tt.anew {
			t.Errorf("%s: %q to %q: anew is %t", tt.kind, tt.old, tt.now, got != first)
		}
	}
}

// TestRolloutIsTakenOver: a definition that is not decoded again has its rollout still.
func TestRolloutIsTakenOver(t *testing.T) {
	dir := workspace(t, guarded)
	s, err := Open(dir)
	must(t, err)
	defer s.Close()
	first := s.Snapshot()
	write(t, dir+"/endpoints/other.yaml", "prompt: reply\n")
	must(t, s.Reload())
	if got := s.Snapshot(); len(got.Rollouts) != 2 || !slices.EqualFunc(got.Rollouts, first.Rollouts, func(a, b rollout.Plan) bool { return a.Edition == b.Edition && a.Name() == b.Name() }) || got.RemoteConfigs["button"] != first.RemoteConfigs["button"] {
		t.Errorf("%+v", got.Rollouts)
	}
}

func TestGuardMistakes(t *testing.T) {
	const file = "remoteconfigs/button.yaml"
	for _, tt := range []struct{ old, now, want string }{
		{"steps: [0.001%, 5%, 50%, 100%]", "", "10:9: steps is missing: the shares of the new answer, one after the other, such as [1%, 5%, 25%, 50%, 100%]"},
		{"[0.001%, 5%, 50%, 100%]", "[]", "12:16: steps must be a list of one or more shares such as [1%, 5%, 25%, 50%, 100%], this is a list"},
		{"[0.001%, 5%, 50%, 100%]", "5%", `12:16: steps must be a list of one or more shares such as [1%, 5%, 25%, 50%, 100%], this is "5%"`},
		{"5%, 50%", "50%, 5%", "12:30: the steps of a guard ascend from above 0%, and 5% is not above the one before"},
		{"5%, 50%", "5%, 5%", "12:29: the steps of a guard ascend from above 0%, and 5% is not above the one before"},
		{"0.001%", "0%", "12:17: the steps of a guard ascend from above 0%, and 0% is not above the one before"},
		{"50%, 100%", "51%, 100%", "12:29: a step above 50% must be 100%: as many units as have the new answer are the control that is compared with it"},
		{"0.001%", "0.0001%", `12:17: a step must be a percentage from 0% to 100% such as 20% or 0.125%, with at most three decimals, this is "0.0001%"`},
		{"every: 1h", "", "10:9: every is missing: how long a step lasts at least, such as 1h"},
		{"every: 1h", "every: 30s", `13:16: every must be a duration from 1m to 30d such as 7d or 36h, this is "30s"`},
		{"every: 1h", "every: 31d", `13:16: every must be a duration from 1m to 30d such as 7d or 36h, this is "31d"`},
		{"every: 1h", "every: 1h\n        need: many", `14:15: need must be a number of units such as 300 units, this is "many"`},
		{"every: 1h", "every: 1h\n        need: -1 units", `14:15: need must be a number of units such as 300 units, this is "-1 units"`},
		{"every: 1h", "every: 1h\n        then: stop", `14:15: then must be one of hold, back, this is "stop"`},
		{"every: 1h", "every: 1h\n        evry: 1h", `14:9: unknown member "evry" in a guard: did you mean "every"?`},
		{"stop: [ { metric: error, ratio: 1.2 } ]", "", "10:9: stop is missing: the harm that stops the rollout, such as [ { metric: error, ratio: 1.2 } ]"},
		{"[ { metric: error, ratio: 1.2 } ]", "[]", "14:15: stop must be a list of one or more such as [ { metric: error, ratio: 1.2 } ], this is a list"},
		{"metric: error, ", "", "14:17: a stop needs a metric, one of error, fallback, latency, first_token, cost, tokens, score, or the value of reports that it watches"},
		{"metric: error", "metric: erorr", `14:27: metric must be one of error, fallback, latency, first_token, cost, tokens, score, this is "erorr": did you mean "error"?`},
		{"metric: error", "metric: error, value: x, as: rate", "14:27: a stop has a value of reports or a metric of the gateway, not both"},
		{"metric: error", "metric: error, as: rate", "14:38: as is for a value of reports: the gateway's metrics are judged by all answers, and of those that happen or do not also by unit"},
		{"metric: error", "metric: error, over: 1s", "14:40: over is the threshold of the metrics latency and first_token alone"},
		{"metric: error", "metric: latency, over: 1ns", `14:42: over must be a duration from 1ms to 1h such as 500ms, 30s or 1m30s, this is "1ns"`},
		{"metric: error", "metric: latency", "14:17: over is missing: from when on an answer is late, such as 2s"},
		{"metric: error", "value: resolved", "14:17: as is missing: what is made of the numbers of a unit, one of rate, mean, total"},
		{"metric: error", "value: resolved, as: ratio", `14:40: as must be one of rate, mean, total, this is "ratio"`},
		{"metric: error", "value: a b, as: rate", `14:26: "a b" can't be the name of a value of reports: 1 to 256 letters, digits and . _ : / -`},
		{", ratio: 1.2", "", "14:17: ratio is missing: how many times the control's number is tolerated, such as 1.2, or 0.8 where less is harm"},
		{"ratio: 1.2", "ratio: 1.0", "14:41: ratio is how many times the control's number is tolerated: from above 1 to 25, or below 1 and above 0 where less is harm, this is \"1.0\""},
		{"ratio: 1.2", "ratio: 0", "14:41: ratio is how many times the control's number is tolerated: from above 1 to 25, or below 1 and above 0 where less is harm, this is \"0\""},
		{"ratio: 1.2", "ratio: 25.1", "14:41: ratio is how many times the control's number is tolerated: from above 1 to 25, or below 1 and above 0 where less is harm, this is \"25.1\""},
		{"{ metric: error, ratio: 1.2 }", "{ metric: error, ratio: 1.2 }, { value: error, as: mean, ratio: 2 }", `14:48: another stop watches "error" too`},
		{"new: blue", "new: [1]", "10:14: value must be of type string, this is a list"},
	} {
		text := guarded[file]
		if strings.Count(text, tt.old) != 1 {
			t.Fatalf("%q occurs %d times", tt.old, strings.Count(text, tt.old))
		}
		_, err := Load(workspace(t, with(guarded, file, strings.Replace(text, tt.old, tt.now, 1))))
		_, got, _ := strings.Cut(fmt.Sprint(err), file+":")
		if got != tt.want {
			t.Errorf("%q to %q:\n%s, want\n%s", tt.old, tt.now, got, tt.want)
		}
	}
	// Names of rollouts are of a path and an id, which may look alike.
	const flag = "type: boolean\ndefault: false\nrules: [ { id: %s, split: { by: customer_id, guard: { new: true, control: false, steps: [1%%], every: 1h, stop: [ { metric: cost, ratio: 2 } ] } } } ]\n"
	dir := workspace(t, with(guarded, "remoteconfigs/a.yaml", fmt.Sprintf(flag, "b/c"), "remoteconfigs/a/b.yaml", fmt.Sprintf(flag, "c")))
	_, err := Load(dir)
	wantErrors(t, dir, err, "remoteconfigs/a/b.yaml:3:52: the rollout is called remoteconfigs/a/b/c, and so is that of the row b/c of remoteconfigs/a: give its row another id")
}

// TestRolloutWarnings: a rollout that gets no evidence takes no step.
func TestRolloutWarnings(t *testing.T) {
	button := guarded["remoteconfigs/button.yaml"]
	alone := map[string]string{"context.yaml": guarded["context.yaml"], "remoteconfigs/button.yaml": button}
	for _, tt := range []struct {
		name  string
		files map[string]string
		known []Configuration
		want  string
	}{
		{"measured", guarded, nil, ""},
		{"unit", with(guarded, "remoteconfigs/button.yaml", strings.Replace(button, "customer_id", "account", 1)), nil, "the units of colours are not recorded: account, or a field that it is computed from, has trace: none"},
		{"alone", alone, nil, "error is measured of the answers of prompts and endpoints, and none of them reads remoteconfigs/button"},
		{"a value", with(alone, "remoteconfigs/button.yaml", strings.Replace(button, "metric: error", "value: error, as: rate", 1)), nil, ""},
		{"no log", with(alone, "remoteconfigs/button.yaml", strings.Replace(button, "metric: error", "value: error, as: rate", 1)+"log: none\n"), nil, "the answers of remoteconfigs/button leave no trace, because remoteconfigs/button has log: none"},
		{"nothing recorded", with(alone, "remoteconfigs/button.yaml", strings.Replace(button, "metric: error", "value: error, as: rate", 1)), []Configuration{{Log: LogNone}}, "the answers of remoteconfigs/button leave no trace, because the workspace has log: none"},
		{"shadowed", with(guarded, "context.yaml", guarded["context.yaml"]+"  rollout.remoteconfigs/button/colours: { type: number }\n"), nil, "the data model has a field rollout.remoteconfigs/button/colours of its own, so tables read what callers send, and not what the gateway knows by this name"},
	} {
		s, err := Load(workspace(t, tt.files), tt.known...)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var got []string
		for _, w := range s.Warnings {
			got = append(got, w.Message)
		}
		if strings.Join(got, "\n") != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// An experiment may read a guarded split, by its own control.
func TestExperimentOfGuard(t *testing.T) {
	for control, want := range map[string]string{"control": "", "new": "its control is control", "passed_on": "its control is control"} {
		dir := workspace(t, with(guarded, "experiments/e.yaml", strings.Replace(started, "control: blue", "control: "+control, 1)+resolved))
		s, err := Load(dir)
		if want != "" {
			wantErrors(t, dir, err, "experiments/e.yaml:3:10: the split colours is guarded: "+want)
			continue
		}
		must(t, err)
		if e := s.Experiments[0]; e.Salt != "colours" || !slices.Equal(e.Arms, []string{"new", "control"}) || e.Control != "control" {
			t.Errorf("%+v", e)
		}
	}
}
