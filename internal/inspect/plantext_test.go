package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// TestPlanRenders: the forms of a plan, and that Markdown shows no value but listed ones,
// and nothing of a text as markup.
func TestPlanRenders(t *testing.T) {
	set := func(model, rows, key, aliases string) *definition.Snapshot {
		return load(t, workspace(t, "context.yaml", model, "remoteconfigs/c.yaml", "type: string\ndefault: none\nrules:\n"+rows, "remoteconfigs/"+key+".yaml", "type: number\ndefault: 1\n"+aliases))
	}
	const model = "fields:\n  plan: { type: string, values: [free, pro] }\n  name: { type: string, trace: value }\n  seats: number\n"
	old := set(model, "- { id: r, when: { plan: pro, name: present }, value: a }\n", "was", "")
	next := set(model, "- { id: r, when: { plan: pro, name: present }, value: 'b|@me #x' }\n- { id: s, when: { plan: free, seats: 5.. }, value: b }\n", "is", "aliases: [was]\n")
	p := planSets(old, next, PlanOptions{Hash: planHasher.Append, Witnesses: 1})
	for i, context := range []string{`{"plan":"pro","name":"Eve"}`, `{"plan":"pro","name":"Bob"}`, `{"plan":"free","name":"Bob"}`, `{"plan":"free","name":"Bob"}`} {
		a := asked{context: context, at: now.Add(time.Duration(i) * time.Hour)}
		must(t, p.Add(a.record(t, old, kind.RemoteConfig, "c", false), 1))
	}
	gone := asked{context: `{"plan":"pro"}`, at: now}.record(t, old, kind.RemoteConfig, "c", false)
	gone.Revision = "aaaaaaaaaaaa"
	must(t, p.Add(gone, 1))
	console := *gone
	console.APIKey = "console:eve"
	must(t, p.Add(&console, 1))
	if err := p.Add(gone, 0); err == nil {
		t.Error("a weight of 0 is taken")
	}
	plan := p.Report()
	var text, md bytes.Buffer
	must(t, errors.Join(plan.Text(&text), plan.Markdown(&md)))
	for _, want := range []string{
		"plan recorded -> " + next.Revision, "5 recorded decisions, 2026-11-01T12:00:00Z to 2026-11-01T15:00:00Z, which stand for 5 answers",
		"changed          2          40 %", "not decided      3          60 %", `2          40 %   "a" (r)     "b|@me #x" (r)`, `t-c {"plan":"pro","name":"Eve"}`,
		"seats           not recorded", "  trace: { always: [seats] } and trace: value\n", "  1          20 %   -\n", "not decided by  why ", "not decided  share\n", "the store has no revision aaaaaaaaaaaa", "no units of splits were recorded", "remoteconfig c: of 5 decisions 2 changed, 0 of another version, 3 not decided", "app      5",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &text)
		}
	}
	if got := md.String(); strings.Contains(got, "Eve") || strings.Contains(got, "b|") || strings.Contains(got, "@") || !strings.Contains(got, `t-c plan="pro" |`) || !strings.Contains(got, "| changed | 2 | 40 % |") {
		t.Errorf("the Markdown:\n%s", got)
	}
	raw, err := json.Marshal(plan)
	must(t, err)
	var read Plan
	must(t, json.Unmarshal(raw, &read))
	var again bytes.Buffer
	must(t, read.Markdown(&again))
	if again.String() != md.String() || plan.LeftOut != 1 {
		t.Errorf("from JSON:\n%s", &again)
	}
	var none bytes.Buffer
	must(t, planSets(old, next, PlanOptions{}).Report().Text(&none))
	if !strings.Contains(none.String(), "no decisions were recorded: nothing can be said") {
		t.Errorf("%s", &none)
	}
}

// FuzzPlan: no trace of another program ends the process, and what is not decided says why.
func FuzzPlan(f *testing.F) {
	s, good := tracedRamp(f)
	next, err := definition.Load(examples)
	must(f, err)
	f.Add(good)
	f.Add(strings.NewReplacer(`"remoteconfig"`, `"endpoint"`, "new_checkout", "support_chat").Replace(good))
	f.Add(strings.Replace(good, `"inputs":{`, `"inputs":[],"was":{`, 1))
	f.Fuzz(func(t *testing.T, text string) {
		traced := new(Traced)
		if json.Unmarshal([]byte(text), traced) != nil {
			return
		}
		traced.Revision = s.Revision
		p := planSets(s, next, PlanOptions{replayAll: true})
		v := p.verdict(p.definition(traced), traced)
		if v.class == planUndecided && v.reason == "" {
			t.Errorf("%+v", v)
		}
		must(t, p.Add(traced, 1))
		var b bytes.Buffer
		must(t, p.Report().Markdown(&b))
	})
}

// TestMarkdownText: a text that others chose makes no link, mention or picture.
func TestMarkdownText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"of 400: 11:08:21Z":      "of 400: 11:08:21Z",
		"see http://x.example":   "see http&#58;//x.example",
		"ask mailto:a@x.example": "ask mailto&#58;a&#64;x.example",
		"WWW.x.example":          "WWW&#46;x.example",
		"of :tada: and :+1:":     `of &#58;tada: and &#58;\+1:`,
		"[a](b) <b> \xff:":       `\[a\]\(b\) \<b\> \\xff:`,
	} {
		if got := (&planWriter{markdown: true}).text(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
