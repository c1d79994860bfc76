package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// MaxModels bounds the models of an answer: those with the most attempts.
const MaxModels = 200

// partHour is a part of costs that only models are summed by.
const partHour = "hour"

// ModelRow is what the attempts at a provider's model used, cost and took.
type ModelRow struct {
	Provider string `json:"provider"`
	Model    string `json:"model,omitempty"`
	CostSums        // Calls counts the hours or days apart
	// Of attempts that answered.
	Latency    Quantiles   `json:"latency_ms"`
	FirstToken Quantiles   `json:"first_token_ms"`
	Over       []ModelStep `json:"over"` // by time, without those that have no attempt
}

// ModelStep is an hour or a day (UTC) of a ModelRow.
type ModelStep struct {
	Start      time.Time `json:"start"`
	Attempts   int64     `json:"attempts"`
	Unanswered int64     `json:"unanswered"`
	Cost       float64   `json:"cost_usd"`
	P95        float64   `json:"p95_ms"`
}

// SumModels sums the attempts at each model of a workspace, and by the hour or, if daily is
// true, by the day. It reads the traces as SumCosts does.
func SumModels(ctx context.Context, source CostSource, f trace.Filter, daily bool) ([]ModelRow, error) {
	step, layout := partHour, time.RFC3339
	if daily {
		step, layout = "day", time.DateOnly
	}
	q := CostQuery{Filter: f, By: []string{"provider", "model", step}}
	s := newCostSummer(&q, maxCostGroups)
	s.times = true
	if err := s.read(ctx, source); err != nil {
		return nil, err
	}
	type sums struct {
		row ModelRow
		costGroup
	}
	all := make(map[[2]string]*sums)
	for name, g := range s.groups {
		parts := strings.SplitN(name, nameSeparator, 3)
		if parts[0] == missingPart {
			continue // calls without an attempt
		}
		model := strings.TrimPrefix(parts[1], missingPart)
		m := all[[2]string{parts[0], model}]
		if m == nil {
			m = &sums{row: ModelRow{Provider: parts[0], Model: model}}
			all[[2]string{parts[0], model}] = m
		}
		m.Add(&g.CostSums)
		m.latency.Merge(g.latency)
		m.firstToken.Merge(g.firstToken)
		start, err := time.Parse(layout, parts[2])
		if err != nil {
			return nil, err
		}
		m.row.Over = append(m.row.Over, ModelStep{start, g.Attempts, g.Unanswered, g.Cost, g.latency.Quantile(0.95)})
	}
	rows := make([]ModelRow, 0, len(all))
	for _, m := range all {
		m.row.CostSums, m.row.Latency, m.row.FirstToken = m.CostSums, quantilesOf(&m.latency), quantilesOf(&m.firstToken)
		slices.SortFunc(m.row.Over, func(a, b ModelStep) int { return a.Start.Compare(b.Start) })
		rows = append(rows, m.row)
	}
	slices.SortFunc(rows, func(a, b ModelRow) int {
		return cmp.Or(cmp.Compare(b.Attempts, a.Attempts), strings.Compare(a.Provider, b.Provider), strings.Compare(a.Model, b.Model))
	})
	return rows[:min(len(rows), MaxModels)], nil
}
