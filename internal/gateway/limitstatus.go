package gateway

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// LimitStatus is how a limit is used.
type LimitStatus struct {
	Name string `json:"name"`
	By   string `json:"by"` // as the configuration has it
	// Shared reports that the gateways of the workspace share the limit, and AwaySince
	// since when their database is away.
	Shared    bool      `json:"shared"`
	AwaySince time.Time `json:"away_since,omitzero"`
	// Percent is the share that the subject has used that has used most.
	Percent int `json:"percent"`
	// Fullest are the subjects that have used the largest shares, maxFullest at most.
	Fullest []LimitUse `json:"fullest"`
}

// LimitUse is how a subject stands with the ceiling of which it has used the largest
// share.
type LimitUse struct {
	// Subject is a key's name, an endpoint or a value of the metadata; empty: all
	// together, or the requests that have no such value.
	Subject string `json:"subject"`
	Measure string `json:"measure"`
	Ceiling string `json:"ceiling"` // as the configuration has it
	Percent int    `json:"percent"` // with what is set aside
	// Used and Reserved, which is set aside for calls under way, are numbers of
	// requests or tokens, or US dollars.
	Used     float64   `json:"used"`
	Reserved float64   `json:"reserved"`
	Resets   time.Time `json:"resets,omitzero"` // when the window ends
}

// maxFullest bounds the subjects of a limit in a status.
const maxFullest = 5

// nearlyUsed is from how many percent on a limit is shown as nearly used up.
const nearlyUsed = 80

// limitStatus returns how the workspace's limits are used, in the order of the
// configuration.
func (w *Workspace) limitStatus(now time.Time) []LimitStatus {
	list := []LimitStatus{}
	for _, l := range w.CallLimits {
		s := LimitStatus{Name: l.Name, By: ByText(l), Fullest: []LimitUse{}}
		if limiter := w.Store.Limiter(); limiter != nil {
			if slices.ContainsFunc(l.Ceilings, func(c limit.Ceiling) bool { return c.Measure != limit.InFlight }) {
				s.Shared, s.AwaySince, _ = limiter.Shared(w.Name)
			}
			for _, standing := range limiter.Subjects(w.Name, now, l, maxFullest) {
				s.Fullest = append(s.Fullest, w.limitUse(&standing))
			}
		}
		if len(s.Fullest) > 0 {
			s.Percent = s.Fullest[0].Percent
		}
		list = append(list, s)
	}
	return list
}

func (w *Workspace) limitUse(s *limit.Standing) LimitUse {
	unit := 1.0
	if s.Ceiling.Measure == limit.Money {
		unit = limit.Dollar
	}
	return LimitUse{
		Subject: w.redactor.String(s.Subject), Measure: MeasureName(s.Ceiling.Measure), Ceiling: CeilingText(s.Ceiling), Percent: s.Share(),
		Used: float64(s.Used) / unit, Reserved: float64(s.Reserved) / unit, Resets: s.Resets.UTC(),
	}
}

// usedPercent returns the share of a limit that the subject has used that has used most,
// in percent.
func (w *Workspace) usedPercent(l *limit.Limit, now time.Time) int {
	if limiter := w.Store.Limiter(); limiter != nil {
		if fullest := limiter.Subjects(w.Name, now, l, 1); len(fullest) > 0 {
			return fullest[0].Share()
		}
	}
	return 0
}

// crossed is called when a subject has used so many percent of a ceiling, 80 or 100,
// once for each in a window.
func (w *Workspace) crossed(s *limit.Standing, percent int) {
	event, message := EventLimitReached, "limit reached"
	if percent < 100 {
		if s.Ceiling.Measure == limit.Requests {
			return // no budget: a busy minute is nothing to report
		}
		event, message = EventBudget80, "budget nearly used up"
	}
	use := w.limitUse(s)
	w.Logger.Warn(message,
		zap.String("limit", s.Limit.Name), zap.String("by", ByText(s.Limit)), zap.String("subject", visible.Line(use.Subject)),
		zap.String("measure", use.Measure), zap.String("ceiling", use.Ceiling), zap.Float64("used", use.Used), zap.Time("resets", use.Resets))
	w.emit(event, map[string]any{
		"limit": s.Limit.Name, "by": ByText(s.Limit), "subject": use.Subject,
		"measure": use.Measure, "ceiling": use.Ceiling, "used": use.Used, "resets": use.Resets,
	})
}

// checkLimited warns of targets for which limits of money or tokens can't set the right
// amounts aside. One goroutine calls it at a time.
func (w *Workspace) checkLimited(snapshot *definition.Snapshot) {
	bounds := func(m limit.Measure) bool {
		return slices.ContainsFunc(w.CallLimits, func(l *limit.Limit) bool {
			return slices.ContainsFunc(l.Ceilings, func(c limit.Ceiling) bool { return c.Measure == m })
		})
	}
	money, tokens := bounds(limit.Money), bounds(limit.Tokens)
	if !money && !tokens {
		return
	}
	found := make(map[lack][]string) // endpoints
	for _, key := range slices.Sorted(maps.Keys(snapshot.Endpoints)) {
		for t := range snapshot.Endpoints[key].Called() {
			if w.Providers[t.Provider] == nil || t.Model == "" {
				continue // it can't be called, or costs nothing, as canned
			}
			p := w.prices.Find(t.Provider, w.hosts[t.Provider], t.Model)
			l := lack{t.Provider, t.Model, ""}
			target := &invoke.Target{Parameters: t.Parameters, Extra: t.Extra}
			target.Bounds = invoke.BoundsOf(target)
			if _, known := mostAnswer(target, p); !known {
				l.reason = "it has no max_tokens: limits set " + strconv.Itoa(defaultAnswer) + " tokens aside for its answer, and a longer one may exceed them"
			}
			if p == nil && money {
				l.reason = "it has no price: limits of money count nothing for it"
			}
			if l.reason != "" && !slices.Contains(found[l], key) {
				found[l] = append(found[l], key)
			}
		}
	}
	for l, endpoints := range found {
		// An unrelated edit must not repeat the warning.
		if !slices.Equal(w.unlimited[l], endpoints) {
			w.Logger.Warn("target is not bounded by limits", zap.String("provider", visible.Line(l.provider)), zap.String("model", visible.Line(l.model)),
				zap.Strings("endpoints", endpoints), zap.String("reason", l.reason))
		}
	}
	w.unlimited = found
}
