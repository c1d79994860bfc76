package console

import (
	"net/http"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
)

func buildRollouts(v *visit) (any, error) {
	v.command = "caddy cadenza rollout"
	p := new(adminapi.Rollouts)
	return p, v.ask("rollouts", nil, p)
}

// rolloutPage is one rollout, with what an editor may do.
type rolloutPage struct {
	gateway.Rollout
	Editor  bool
	Problem string
}

func buildRollout(v *visit) (any, error) {
	v.title, v.command = "Rollout "+v.id, "caddy cadenza rollout "+shellWord(v.id)
	p := &rolloutPage{Editor: v.visitor.Role.Covers(gateway.RoleEditor)}
	if v.form != nil {
		var err error
		body := map[string]string{"do": v.form.Get("do")}
		if p.Problem, err = refused(v.send(http.MethodPost, "rollouts/"+v.id, nil, body, new(struct{}))); err != nil {
			return nil, err
		}
		if p.Problem == "" {
			v.to = prefix + "rollouts/" + v.id
		}
	}
	return p, v.ask("rollouts/"+v.id, nil, &p.Rollout)
}

// Latest returns the rows, the latest first.
func (p *rolloutPage) Latest() []rollout.Row {
	rows := slices.Clone(p.Rows)
	slices.Reverse(rows)
	return rows
}

// way is what an editor may do with a rollout.
type way struct {
	Kind        rollout.Kind
	Word, Means string
}

// Ways returns what an editor may do now.
func (p *rolloutPage) Ways() []way {
	hold := way{rollout.Hold, "Hold", "It stays at its step until somebody resumes it."}
	back := way{rollout.Back, "Take back", "All units are answered as the control."}
	finish := way{rollout.Finish, "Finish", "All units get the new answer."}
	switch p.State {
	case rollout.Running:
		return []way{hold, back, finish}
	case rollout.Held:
		return []way{{rollout.Resume, "Resume", "It goes on from its step. What the guards know begins anew."}, back, finish}
	case rollout.Returned:
		return []way{{rollout.Resume, "Resume", "It begins again at its first step. What the guards know begins anew."}, finish}
	}
	return []way{back}
}

// rolloutShape returns how a state looks: bad where a rollout was stopped.
func rolloutShape(r gateway.RolloutStatus) string {
	switch r.State {
	case rollout.Held, rollout.Returned:
		return "bad"
	case rollout.Finished:
		return "good"
	}
	return ""
}
