package console

import (
	"net/url"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// modelsPage has the models with what they did over time.
type modelsPage struct {
	Over    string    // 24h, by the hour, or 7d, by the day
	At      time.Time // when they were summed
	Models  []modelRow
	Steps   []modelSteps // by time, the latest first
	Names   []string     // of the models with attempts
	Problem string
}

// modelRow is a model with its bars.
type modelRow struct {
	adminapi.Model
	Target  string
	Trouble string
	Ends    bool   // soon, or it has
	Traces  string // the address of its traces
	Bars    []bar  // attempts
	Failed  []bar  // of these, those that did not answer
}

// modelSteps is an hour or a day of all models.
type modelSteps struct {
	Start time.Time
	Cells []sqlite.ModelStep
}

// soonEnds is how long before its end a model is marked.
const soonEnds = 90 * 24 * time.Hour

func buildModels(v *visit) (any, error) {
	p := &modelsPage{Over: v.spanOf("over", "24h")}
	length, steps := time.Hour, 24
	if p.Over != "24h" {
		p.Over, length, steps = "7d", 24*time.Hour, 7
	}
	v.Command = "caddy cadenza costs --by provider,model --since " + p.Over
	end := v.Now.Truncate(length).Add(length)
	since := end.Add(-time.Duration(steps) * length)
	answer, at, err := askSeldom[adminapi.Models](v, "models", url.Values{"since": {since.Format(time.RFC3339)}, "interval": {map[string]string{"24h": "hour", "7d": "day"}[p.Over]}})
	p.At = at
	if p.Problem, err = refused(err); err != nil || p.Problem != "" {
		return p, err
	}
	for i := range steps {
		p.Steps = append(p.Steps, modelSteps{Start: end.Add(-time.Duration(i+1) * length)})
	}
	for i := range answer.Models {
		m := modelRow{Model: answer.Models[i]}
		m.Target = (&invoke.Target{Name: m.Provider, Model: m.ModelRow.Model}).String()
		m.Traces = prefix + "traces?" + url.Values{"since": {p.Over}, "provider": {m.Provider}, "model": {m.ModelRow.Model}}.Encode()
		m.Ends = !m.Shutdown.IsZero() && m.Shutdown.Sub(v.Now) < soonEnds
		if m.Ends || m.Model.Target != nil && targetTrouble(*m.Model.Target) != "" {
			m.Trouble = "warn"
		}
		attempts, failed := make([]float64, steps), make([]float64, steps)
		cells := make([]sqlite.ModelStep, steps)
		for _, step := range m.Over {
			if at := int(end.Sub(step.Start)/length) - 1; at >= 0 && at < steps {
				cells[at] = step
				attempts[steps-1-at], failed[steps-1-at] = float64(step.Attempts), float64(step.Unanswered)
			}
		}
		if m.Attempts > 0 {
			p.Names = append(p.Names, m.Target)
			m.Bars = barsOf(attempts, 0)
			m.Failed = barsOf(failed, greatest(attempts))
			for i := range cells {
				p.Steps[i].Cells = append(p.Steps[i].Cells, cells[i])
			}
		}
		p.Models = append(p.Models, m)
	}
	return p, nil
}
