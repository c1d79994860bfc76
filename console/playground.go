package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
)

// playgroundPage is a form whose answers stand beside it.
type playgroundPage struct {
	gateway.Playable
	Needs     bool   // the visitor needs another role
	Bundle    bool   // the definitions come as one
	Of        string // "endpoint/KEY" or "prompt/KEY"; empty: nothing is chosen yet
	Fields    []tryField
	Context   string // as JSON
	Variables []playVariable
	Turns     []said // of the history, and empty ones to fill in
	Columns   []*playColumn
	Limits    []gateway.SubjectStatus // that count the visitor's calls
	Problem   string
	Test      string // of the prompt's table, as YAML
	File      string // of the prompt, below the folder of the definitions
}

// playVariable is a variable of the prompt with the visitor's value.
type playVariable struct {
	gateway.PlayableVariable
	Value string
}

// playColumn is one of the calls that stand next to each other.
type playColumn struct {
	ID, Name, Variant, Target string
	Messages                  []playMessage
	Edited                    bool
	Answer                    *gateway.Played
	Most                      string
	Problem                   string // of a request that called no model
}

// playMessage is a message of the column's variant. Fixed says what it is instead, if it is
// no text.
type playMessage struct{ Name, Role, Place, Saved, Text, Fixed string }

// playTurns is how many empty turns the form has for more of the history.
const playTurns = 2

func buildPlayground(v *visit) (any, error) {
	p := &playgroundPage{Needs: !v.Visitor.Role.Covers(gateway.RoleEditor)}
	if p.Needs {
		return p, nil
	}
	values := v.query
	if v.form != nil {
		values = v.form
	}
	loaded, err := v.loaded()
	if err != nil {
		return nil, err
	}
	var recorded *trace.Record
	if id := values.Get("trace"); id != "" {
		var s adminapi.TraceStory
		if err := v.ask("traces/"+id, nil, &s); err != nil {
			return nil, err
		}
		if recorded = s.Trace; recorded != nil {
			values = maps.Clone(values)
			setTrace(values, loaded.Fields, recorded)
		}
	}
	p.Of, p.Bundle = values.Get("of"), places{v, ""}.Fixed()
	for _, kind := range []string{"endpoint", "prompt"} {
		if key := values.Get(kind); key != "" {
			p.Of = kind + "/" + key
		}
	}
	kind, key, _ := strings.Cut(p.Of, "/")
	query := url.Values{}
	if key != "" {
		query.Set(kind, key)
	}
	if err := v.ask("play", query, &p.Playable); err != nil {
		return nil, err
	}
	if err := p.readLimits(v); err != nil || p.Chosen == nil {
		return p, err
	}
	p.File = places{v, loaded.Directory}.Below(p.Chosen.File)
	play := gateway.Play{Endpoint: key}
	if kind == "prompt" {
		play = gateway.Play{Prompt: key}
	}
	p.readForm(values, loaded.Fields, &play)
	if recorded != nil {
		p.Turns = slices.Concat(p.turnsOf(recorded), p.Turns)
	}
	if len(p.Turns) > 0 {
		play.Messages = made(json.Marshal(p.Turns))
	}
	v.Command = fmt.Sprintf("caddy cadenza eval %s --explain --context %s %s", shellWord(loaded.Directory), shellWord(p.Context), shellWord(key))
	names := []string{"a"}
	if values.Get("do") == "two" || values.Get("two") != "" && values.Get("do") != "one" {
		names = append(names, "b")
	}
	for i, id := range names {
		c := p.column(id, values)
		c.Name = []string{"First", "Second"}[i]
		p.Columns = append(p.Columns, c)
		if err := p.ask(v, c, play, v.form.Get("do") == "ask"); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// setTrace has a form ask what a recorded call asked.
func setTrace(values url.Values, fields []adminapi.DataField, r *trace.Record) {
	values.Set("of", r.Kind.String()+"/"+r.Key)
	values.Set("a.variant", r.Variant)
	maps.Copy(values, tryFields(fields, r.Context))
	for _, m := range adminapi.MembersOf(r.Variables) {
		values.Set("variable."+m.Name, plain(m.Value))
	}
}

// turnsOf returns the caller's turns of a recorded conversation, which stand among the
// messages of the variant that answered.
func (p *playgroundPage) turnsOf(r *trace.Record) []said {
	messages := messagesOf(r.Messages)
	for _, variant := range p.Chosen.Variants {
		if variant.Key != r.Variant {
			continue
		}
		for at, m := range variant.Messages {
			if end := at + 1 + len(messages) - len(variant.Messages); m.History && end > at && end <= len(messages) {
				return messages[at:end]
			}
		}
	}
	return nil
}

// readForm reads what all columns have in common.
func (p *playgroundPage) readForm(values url.Values, fields []adminapi.DataField, play *gateway.Play) {
	var context map[string]any
	p.Fields, context = formOf(fields, values)
	play.Context = made(json.Marshal(context))
	variables := make(map[string]string)
	p.Context = string(play.Context)
	for _, variable := range p.Chosen.Variables {
		value := lines(values.Get("variable." + variable.Name))
		p.Variables = append(p.Variables, playVariable{variable, value})
		if value != "" {
			variables[variable.Name] = value
		}
	}
	play.Variables = made(json.Marshal(variables))
	for i := 0; values.Has("turn." + strconv.Itoa(i)); i++ {
		if text := lines(values.Get("turn." + strconv.Itoa(i))); text != "" {
			p.Turns = append(p.Turns, said{values.Get("role." + strconv.Itoa(i)), text})
		}
	}
}

// Turn returns the turns of the form: those that there are, and empty ones.
func (p *playgroundPage) Turn() []said {
	all := slices.Clone(p.Turns)
	for len(all) < len(p.Turns)+playTurns {
		all = append(all, said{Role: []string{"user", "assistant"}[len(all)%2]})
	}
	return all
}

// made returns what is made of texts alone.
func made(text []byte, err error) json.RawMessage {
	if err != nil {
		panic(err)
	}
	return text
}

// lines returns a text of a form, whose lines end as a browser sends them.
func lines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// column reads a column of the form. Texts count for the variant that they were shown for.
func (p *playgroundPage) column(id string, values url.Values) *playColumn {
	c := &playColumn{ID: id, Variant: values.Get(id + ".variant"), Target: values.Get(id + ".target")}
	at := slices.IndexFunc(p.Chosen.Variants, func(v gateway.PlayableVariant) bool { return v.Key == c.Variant })
	if at < 0 {
		c.Variant = ""
		return c
	}
	edits := values.Get(id+".texts") == p.Of+"@"+c.Variant
	for i, m := range p.Chosen.Variants[at].Messages {
		shown := playMessage{Name: id + ".text." + strconv.Itoa(i), Role: m.Role, Place: m.Place[strings.LastIndex(m.Place, "/")+1:], Saved: m.Text, Text: m.Text}
		switch {
		case m.History:
			shown.Fixed = "the history"
		case m.Parts:
			shown.Fixed = "parts, as they are saved"
		case edits && values.Has(shown.Name):
			shown.Text = lines(values.Get(shown.Name))
			c.Edited = c.Edited || shown.Text != shown.Saved
		}
		c.Messages = append(c.Messages, shown)
	}
	return c
}

// ask finds what the column's call may cost, and makes the call if it is to be made.
func (p *playgroundPage) ask(v *visit, c *playColumn, play gateway.Play, call bool) error {
	play.Variant, play.Target = c.Variant, c.Target
	for i := range c.Messages {
		if c.Edited {
			play.Texts = append(play.Texts, nil)
			if m := &c.Messages[i]; m.Text != m.Saved {
				play.Texts[i] = &m.Text
			}
		}
	}
	var dry gateway.Played
	play.DryRun = true
	err := v.send(http.MethodPost, "play", nil, &play, &dry)
	if err == nil {
		c.Most = most(&dry)
		if p.Test == "" {
			p.Test = testOf(p.Context, dry.Row, v.Now)
		}
	}
	if err == nil && call {
		play.DryRun, c.Answer = false, new(gateway.Played)
		if err = v.send(http.MethodPost, "play", nil, &play, c.Answer); err != nil {
			c.Answer = nil
		}
	}
	if refusal, ok := errors.AsType[*adminapi.AskError](err); ok && refusal.Status < 500 || ok && refusal.Status == http.StatusServiceUnavailable {
		if call {
			c.Problem = refusal.Message
		}
		return nil
	}
	return err
}

// most returns what an attempt may use, in words.
func most(dry *gateway.Played) string {
	text := "An attempt at " + strings.Join(dry.Targets, " or ") + " may use at most " + count(dry.MostTokens) + " tokens"
	if dry.MostCost == nil {
		return text + "; not all targets have a known price."
	}
	return text + ", " + dollars(*dry.MostCost) + "."
}

// testOf returns a test of the row that answers a context, as a line of the member tests.
func testOf(context, row string, at time.Time) string {
	return fmt.Sprintf("tests:\n  - { at: %s, context: %s, rule: %s }", at.Truncate(time.Second).Format(time.RFC3339), context, made(json.Marshal(cmp.Or(row, "default"))))
}

// readLimits reads how the visitor's calls stand with the limits that count them.
func (p *playgroundPage) readLimits(v *visit) error {
	var limits adminapi.Limits
	if err := v.ask("limits", url.Values{"subject": {p.As}}, &limits); err != nil {
		return err
	}
	p.Limits = slices.DeleteFunc(limits.Workspaces[v.Visitor.Workspace].Limits, func(l gateway.SubjectStatus) bool {
		return l.By != "api_key" && l.By != "workspace"
	})
	return nil
}
