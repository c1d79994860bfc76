package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/edit"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// editPage has the form of an edit, and after a first step what it would change.
type editPage struct {
	Edit    edit.Edit
	Allowed bool // the visitor's role may edit
	Value   *edit.Value
	Field   *adminapi.DataField // that the value is a condition on
	Problem string              // why the edit can't be made

	Review    *adminapi.Review
	Answers   []changedAnswer
	More      int // answers that are not shown
	Undecided bool
	Here      []lineFinding // in the edited file
	Elsewhere []inspect.Finding

	Conflict *adminapi.Conflict
	Saved    *adminapi.Saved
}

// mostShown bounds the answers that one page shows.
const mostShown = 1000

// changedAnswer is a context that gets another answer.
type changedAnswer struct {
	inspect.Change
	inspect.AnswerChange
	Try string // the address of the page that tries it
}

// lineFinding is a finding with the line that it is about.
type lineFinding struct {
	inspect.Finding
	Source  string
	Warning bool
}

// Again reports whether the edit serves a revision again: that of its To.
func (p *editPage) Again() bool { return p.Edit.Action == "again" }

// Rows returns how high the field for a text is.
func (p *editPage) Rows() int { return min(max(strings.Count(p.Edit.Text, "\n")+2, 4), 40) }

// Tall reports whether a value needs a field of several lines.
func (p *editPage) Tall() bool { return strings.Contains(p.Edit.Text, "\n") }

func buildEdit(v *visit) (any, error) {
	p := &editPage{Allowed: v.Visitor.Role.Covers(gateway.RoleEditor)}
	if v.form != nil {
		return p, v.postEdit(p)
	}
	if kind := v.query.Get("new"); kind != "" {
		v.Title = "New " + kind
		p.Edit.Action = "text"
		var err error
		p.Edit.File, p.Edit.Text, err = v.starter(kind)
		return p, err
	}
	if p.Edit.File = v.query.Get("file"); p.Edit.File == "" {
		v.to = prefix + "definitions"
		return p, nil
	}
	p.Edit.Line, p.Edit.Column = number(v.query.Get("line")), number(v.query.Get("column"))
	return p, v.readEdited(p)
}

// editQuery returns the query of the page that edits what an edit changes.
func editQuery(e *edit.Edit) url.Values {
	query := url.Values{"file": {e.File}}
	if e.Line > 0 {
		query.Set("line", strconv.Itoa(e.Line))
		query.Set("column", strconv.Itoa(e.Column))
	}
	return query
}

// editFrom reads the edit of a form.
func editFrom(form url.Values) edit.Edit {
	return edit.Edit{
		Action: form.Get("action"), File: strings.TrimSpace(form.Get("file")), Base: form.Get("base"), Text: form.Get("text"), To: strings.TrimSpace(form.Get("to")),
		Line: number(form.Get("line")), Column: number(form.Get("column")),
	}
}

// number reads a number of a form. One that is missing or malformed is 0.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// readEdited asks for the file or the value that is to be edited.
func (v *visit) readEdited(p *editPage) error {
	v.Title = "Edit " + p.Edit.File
	var file adminapi.EditedFile
	if err := v.ask("edit", editQuery(&p.Edit), &file); err != nil {
		return err
	}
	v.Command = "caddy cadenza check " + shellWord(v.Workspace().Definitions.Directory+"/"+p.Edit.File)
	p.Edit.Base, p.Edit.Text, p.Edit.Action, p.Problem = file.Base, file.Text, "text", file.Problem
	if file.Value != nil {
		p.Value, p.Edit.Action, p.Edit.Text = file.Value, "value", file.Value.Text
		loaded, err := v.loaded()
		if i := slices.IndexFunc(loaded.Fields, func(f adminapi.DataField) bool { return f.Name == p.Value.Field }); i >= 0 {
			p.Field = &loaded.Fields[i]
		}
		return err
	}
	return nil
}

// postEdit answers a step of the form: review says what would change, patch is that as a
// file, and save saves it.
func (v *visit) postEdit(p *editPage) error {
	sent := editFrom(v.form)
	p.Edit = sent
	if sent.File != "" && sent.Base != "" {
		if _, err := refused(v.readEdited(p)); err != nil {
			return err // a file that is gone is a conflict below
		}
	}
	p.Edit, p.Problem = sent, ""
	v.Title, v.Link = "Before saving", prefix+"edit?"+editQuery(&sent).Encode()
	save, review, asked := "edit", "review", url.Values(nil)
	var body any = sent
	if p.Again() {
		v.Link = prefix + "revisions"
		save, asked, body = "revisions/"+sent.To, url.Values{"dry_run": {"true"}}, map[string]string{"base": sent.Base}
		review = save
	}
	step, err := v.form.Get("step"), error(nil)
	if step == "save" {
		saved := new(adminapi.Saved)
		if err = v.send(http.MethodPost, save, nil, body, saved); err == nil {
			p.Saved, v.Title = saved, "Saved"
			return nil
		}
	} else {
		p.Review = new(adminapi.Review)
		err = v.send(http.MethodPost, review, asked, body, p.Review)
	}
	if refusal, ok := errors.AsType[*adminapi.AskError](err); ok {
		if p.Review = nil; refusal.Status == http.StatusForbidden || refusal.Status >= 500 {
			return err
		}
		p.Problem, err = refusal.Message, nil
		switch refusal.Status {
		case http.StatusConflict:
			p.Conflict = new(adminapi.Conflict)
			err = json.Unmarshal(refusal.Body, p.Conflict)
		case http.StatusUnprocessableEntity:
			var answer struct{ Review *adminapi.Review }
			err = json.Unmarshal(refusal.Body, &answer)
			p.Review = answer.Review
		}
	}
	if err != nil || p.Review == nil {
		return err
	}
	if p.Again() {
		p.Edit.Base = p.Review.Base
	}
	name := strings.TrimSuffix(path.Base(p.Review.File), path.Ext(p.Review.File)) + ".patch"
	v.Command = "git apply " + shellWord(name)
	if step == "patch" {
		v.file, v.text = name, p.Review.Patch
		return nil
	}
	return v.showReview(p)
}

// showReview sets what the page says about a review.
func (v *visit) showReview(p *editPage) error {
	directory := v.Workspace().Definitions.Directory + "/"
	sort := func(list []inspect.Finding, warning bool) {
		for _, f := range list {
			if f.File = strings.TrimPrefix(f.File, directory); f.File != p.Review.File && f.File != p.Edit.File {
				p.Elsewhere = append(p.Elsewhere, f)
				continue
			}
			source := ""
			if i := slices.IndexFunc(p.Review.Diff, func(l inspect.TextLine) bool { return l.New == f.Line && f.Line > 0 }); i >= 0 {
				for _, part := range p.Review.Diff[i].Parts {
					source += part.Text
				}
			} else if all := strings.Split(p.Edit.Text, "\n"); p.Edit.Action == "text" && f.Line > 0 && f.Line <= len(all) {
				source = all[f.Line-1]
			}
			p.Here = append(p.Here, lineFinding{f, strings.TrimSpace(source), warning})
		}
	}
	sort(p.Review.Errors, false)
	sort(p.Review.Warnings, true)
	if p.Review.Comparison == nil {
		return nil
	}
	loaded, err := v.loaded()
	p.addAnswers(loaded.Fields)
	return err
}

// addAnswers sets the contexts whose answer changes.
func (p *editPage) addAnswers(fields []adminapi.DataField) {
	for _, c := range p.Review.Comparison.Definitions {
		p.Undecided = p.Undecided || c.Undecided
		for _, a := range c.Answers {
			if len(p.Answers) == mostShown {
				p.More++
				continue
			}
			p.Answers = append(p.Answers, changedAnswer{c, a, tryAddress(tryFields(fields, a.Context), a.At)})
		}
	}
}

// starter returns the file and the text that a new definition begins with.
func (v *visit) starter(kind string) (file, text string, err error) {
	switch kind {
	case "prompt":
		model := "provider: canned\n    extra: { answer: \"We will come back to you.\" }"
		for _, t := range v.Workspace().Targets {
			if t.Model != "" {
				model = fmt.Sprintf("provider: %s\n    model: %s", t.Provider, strconv.Quote(t.Model))
				break
			}
		}
		return "prompts/new.yaml", "variables: { question: { required: true } }\nvariants:\n  only:\n    " + model + "\n    messages:\n      - { role: user, content: \"{{question}}\" }\n", nil
	case "endpoint":
		loaded, err := v.loaded()
		for _, d := range loaded.Definitions {
			if d.Kind == "prompt" {
				return "endpoints/new.yaml", "prompt: " + d.Key + "\n", err
			}
		}
		return "endpoints/new.yaml", "prompt: new\n", err
	case "remoteconfig":
		return "remoteconfigs/new.yaml", "type: boolean\ndefault: false\n", nil
	}
	return "", "", &adminapi.AskError{Status: http.StatusNotFound, Message: "there are prompts, endpoints and remote configurations: new is prompt, endpoint or remoteconfig"}
}
