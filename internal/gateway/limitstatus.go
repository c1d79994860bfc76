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

// SubjectStatus is how one subject stands with a limit.
type SubjectStatus struct {
	Name string `json:"name"`
	By   string `json:"by"` // as the configuration has it
	// Shared reports that the gateways of the workspace share the limit, and AwaySince
	// since when their database is away.
	Shared    bool      `json:"shared"`
	AwaySince time.Time `json:"away_since,omitzero"`
	// Percent is that of the ceiling of which the largest share is used.
	Percent  int          `json:"percent"`
	Ceilings []SubjectUse `json:"ceilings"` // as they are configured
}

// SubjectUse is how one subject stands with a ceiling.
type SubjectUse struct {
	LimitUse
	// Left is what is neither used nor set aside.
	Left  float64     `json:"left"`
	Lease *LimitLease `json:"lease,omitempty"` // of a limit that gateways share
}

// LimitLease is what this gateway has of what the gateways share, in the unit of
// LimitUse.Used.
type LimitLease struct {
	// Used is what calls of this gateway have used, and Others what those of the other
	// gateways had used when the database answered last; nil: it has not answered in
	// this window.
	Used   float64  `json:"used"`
	Others *float64 `json:"others,omitempty"`
	// Left is what this gateway may use before it has to ask the database for more.
	Left float64 `json:"left"`
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
			s.Shared, s.AwaySince = w.sharedLimit(limiter, l)
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

// sharedLimit reports whether gateways share a limit, and since when their database is
// away. Calls under way are each gateway's own.
func (w *Workspace) sharedLimit(limiter *limit.Limiter, l *limit.Limit) (shared bool, away time.Time) {
	if slices.ContainsFunc(l.Ceilings, func(c limit.Ceiling) bool { return c.Measure != limit.InFlight }) {
		shared, away, _ = limiter.Shared(w.Name)
	}
	return shared, away.UTC()
}

// SubjectStatus returns how a subject stands with each of the workspace's limits, in the
// order of the configuration. A limit by workspace counts all subjects together.
func (w *Workspace) SubjectStatus(subject string) []SubjectStatus {
	list := []SubjectStatus{}
	limiter := w.Store.Limiter()
	if limiter == nil {
		return list // no limit is configured
	}
	now := time.Now()
	for _, l := range w.CallLimits {
		s := SubjectStatus{Name: l.Name, By: ByText(l)}
		s.Shared, s.AwaySince = w.sharedLimit(limiter, l)
		ask := limit.Ask{Limit: l, Subject: subject}
		if l.By == limit.ByWorkspace {
			ask.Subject = ""
		}
		standings, leases := limiter.Inspect(w.Name, now, ask)
		for i := range standings {
			s.Ceilings = append(s.Ceilings, w.subjectUse(&standings[i], leases[i]))
			s.Percent = max(s.Percent, s.Ceilings[i].Percent)
		}
		list = append(list, s)
	}
	return list
}

func (w *Workspace) subjectUse(s *limit.Standing, lease *limit.Lease) SubjectUse {
	unit := unitOf(s.Ceiling.Measure)
	use := SubjectUse{LimitUse: w.limitUse(s), Left: float64(max(s.Ceiling.Most-s.Used-s.Reserved, 0)) / unit}
	if lease != nil {
		use.Lease = &LimitLease{Used: float64(lease.Used) / unit, Left: float64(lease.Left) / unit}
		if lease.Known {
			others := float64(max(s.Used-lease.Used, 0)) / unit
			use.Lease.Others = &others
		}
	}
	return use
}

// unitOf returns how many units of a measure are one in a status.
func unitOf(m limit.Measure) float64 {
	if m == limit.Money {
		return limit.Dollar
	}
	return 1
}

func (w *Workspace) limitUse(s *limit.Standing) LimitUse {
	unit := unitOf(s.Ceiling.Measure)
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
