package console

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

func buildRollouts(v *visit) (any, error) {
	v.Command = "caddy cadenza rollout"
	p := new(adminapi.Rollouts)
	return p, v.ask("rollouts", nil, p)
}

// rolloutPage is one rollout, with what an editor may do.
type rolloutPage struct {
	gateway.Rollout
	Editor  bool
	Problem string // why what was asked is not done
}

func buildRollout(v *visit) (any, error) {
	v.Title, v.Command = "Rollout "+v.id, "caddy cadenza rollout "+shellWord(v.id)
	p := &rolloutPage{Editor: v.Visitor.Role.Covers(gateway.RoleEditor)}
	if v.form != nil {
		err := v.send(http.MethodPost, "rollouts/"+v.id, nil, map[string]string{"do": v.form.Get("do")}, new(struct{}))
		switch refusal, ok := errors.AsType[*adminapi.AskError](err); {
		case ok && refusal.Status != http.StatusForbidden: // a database that is away, too
			p.Problem = refusal.Message
		case err != nil:
			return nil, err
		default:
			v.to = rolloutLink(v.id)
		}
	}
	return p, v.ask("rollouts/"+v.id, nil, &p.Rollout)
}

// rolloutLink returns the address of a rollout's page.
func rolloutLink(name string) string { return pageLink("rollouts/", name) }

// rolloutOf returns how the rollout of a definition's row stands, or nil if it has none.
func (v *visit) rolloutOf(on, row string) *gateway.RolloutStatus {
	all := v.Workspace().Rollouts
	if i := slices.IndexFunc(all, func(r gateway.RolloutStatus) bool { return r.Name == on+"/"+row }); i >= 0 {
		return &all[i]
	}
	return nil
}

// Latest returns the rows, the latest first.
func (p *rolloutPage) Latest() []rollout.Row {
	rows := slices.Clone(p.Rows)
	slices.Reverse(rows)
	return rows
}

// Every returns how long a step lasts at least.
func (p *rolloutPage) Every() string {
	epoch := time.UnixMilli(0)
	return ago(epoch.Add(p.Plan.Every), epoch)
}

// guardRow is what a guard sees, with the metric of its numbers.
type guardRow struct {
	rollout.Guard
	metricView
}

// Guards returns what the guards see.
func (p *rolloutPage) Guards() (rows []guardRow) {
	metrics := p.Plan.Experiment(time.Time{}).Metrics
	for _, g := range p.Evidence.Guards {
		row := guardRow{Guard: g}
		if i := slices.IndexFunc(metrics, func(m experiment.Metric) bool { return m.Name == g.Name }); i >= 0 {
			row.Metric = metrics[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// way is what an editor may do with a rollout.
type way struct {
	Kind        rollout.Kind
	Word, Means string
}

// Ways returns what an editor may do now.
func (p *rolloutPage) Ways() (ways []way) {
	switch {
	case p.State == rollout.Held, p.State == rollout.Running && p.Overtaken:
		ways = append(ways, way{rollout.Resume, "Resume", "It goes on from its step. What the guards know begins anew."})
	case p.State == rollout.Returned:
		ways = append(ways, way{rollout.Resume, "Resume", "It begins again at its first step. What the guards know begins anew."})
	}
	if p.State == rollout.Running {
		ways = append(ways, way{rollout.Hold, "Hold", "It stays at its step until somebody resumes it."})
	}
	if p.State != rollout.Returned {
		ways = append(ways, way{rollout.Back, "Take back", "All units are answered as the control."})
	}
	if p.State != rollout.Finished {
		ways = append(ways, way{rollout.Finish, "Finish", "All units get the new answer."})
	}
	return ways
}

// stopper returns the row by which a rollout was held or taken back, or nil. A guard's has
// evidence, a person's has none.
func stopper(r gateway.Rollout) *rollout.Row {
	i := slices.IndexFunc(r.Rows, func(row rollout.Row) bool { return row.Number == r.Row })
	if i < 0 || r.State != rollout.Held && r.State != rollout.Returned {
		return nil
	}
	return &r.Rows[i]
}

// rolloutShape returns the name of a rollout's shape: bad where a guard stopped it.
func rolloutShape(r gateway.Rollout) string {
	row := stopper(r)
	switch {
	case row != nil && row.Evidence != nil:
		return "bad"
	case r.Overtaken, r.State == rollout.Running && r.Evidence != nil && r.Evidence.Mismatch:
		return "warn"
	case r.State == rollout.Finished:
		return "good"
	}
	return ""
}

// rolloutWord returns how a rollout stands, in words.
func rolloutWord(r gateway.Rollout) string {
	word := cmp.Or(string(r.State), "not begun")
	row := stopper(r)
	switch {
	case row == nil:
	case row.Evidence != nil:
		word += " by a guard"
	default:
		word += " by " + row.By
	}
	if r.Overtaken {
		word += ", overtaken"
	}
	return word
}
