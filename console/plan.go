package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/edit"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// planPage shows what an edit would have answered to recorded decisions.
type planPage struct {
	Edit    edit.Edit
	Replay  string // since when
	Problem string
	Errors  []inspect.Finding // of definitions that would not be served
	Plan    *inspect.Plan
}

// mostPlanLink bounds the query of a link that makes the plan again: an edit with a larger
// text has the link of its file.
const mostPlanLink = 4 << 10

// buildPlan asks for the plan of an edit, which a form or the page's address has.
func buildPlan(v *visit) (any, error) {
	from := v.form
	if from == nil {
		from = v.query
	}
	p := &planPage{Edit: editFrom(from), Replay: cmp.Or(strings.TrimSpace(from.Get("replay")), "7d")}
	if p.Edit.File == "" {
		p.Problem = "There is no edit to plan: review one first, from Definitions."
		return p, nil
	}
	v.Title, v.Link = "Plan of "+p.Edit.File, prefix+"edit?"+editQuery(&p.Edit).Encode()
	again := with(from, "replay", p.Replay, "step", "")
	maps.DeleteFunc(again, func(name string, _ []string) bool { return again.Get(name) == "" })
	if query := again.Encode(); len(query) <= mostPlanLink {
		v.Link = prefix + "plan?" + query
	}
	var lines []adminapi.PlanLine
	err := v.send(http.MethodPost, "plan", url.Values{"replay": {p.Replay}, "against": {"served"}}, &p.Edit, &lines)
	if refusal, ok := errors.AsType[*adminapi.AskError](err); ok && refusal.Status == http.StatusUnprocessableEntity {
		var answer struct{ Errors []inspect.Finding }
		err = json.Unmarshal(refusal.Body, &answer)
		p.Errors = answer.Errors
		return p, err
	}
	if p.Problem, err = refused(err); err != nil || p.Problem != "" {
		return p, err
	}
	last := lines[len(lines)-1] // there is always one
	p.Plan, p.Problem = last.Plan, last.Error
	return p, nil
}
