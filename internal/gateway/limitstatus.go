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

// LimitShare is the used share of a limit.
type LimitShare struct {
	Name string `json:"name"`
	By   string `json:"by"` // the dimension, in the configuration's words
	// Shared reports whether the gateways of the workspace share the limit. AwaySince is
	// since when their database is unreachable.
	Shared    bool      `json:"shared"`
	AwaySince time.Time `json:"away_since,omitzero"`
	// Percent is the largest used share of a ceiling, of all shown subjects.
	Percent int `json:"percent"`
}

// LimitStatus is the use of a limit by its fullest subjects.
type LimitStatus struct {
	LimitShare
	// Fullest are the subjects with the largest used shares.
	Fullest []LimitUse `json:"fullest"`
	// Ceilings are all ceilings of the limit, in the configuration's words. Routes are the
	// routes whose requests count; empty: those of endpoints.
	Ceilings []string `json:"ceilings"`
	Routes   []string `json:"routes,omitempty"`
}

// LimitUse is a subject's use of a ceiling. In LimitStatus it is the ceiling of which the
// subject has used the largest share.
type LimitUse struct {
	// Subject is the name of an API key, an endpoint or a value of the metadata. It is
	// empty for all requests together, and for the requests without such a value.
	Subject string `json:"subject"`
	Measure string `json:"measure"`
	Ceiling string `json:"ceiling"` // in the configuration's words
	Percent int    `json:"percent"` // of Used and Reserved
	// Used and Reserved are requests, tokens or US dollars. Reserved is set aside for calls
	// under way.
	Used     float64   `json:"used"`
	Reserved float64   `json:"reserved"`
	Since    time.Time `json:"since,omitzero"`  // when the window began
	Resets   time.Time `json:"resets,omitzero"` // when the window ends
	// FullAt is when the ceiling is used up at the pace since the window began. It is zero
	// if the window ends before that, or if too little of it has passed.
	FullAt time.Time `json:"full_at,omitzero"`
}

// SubjectStatus is one subject's use of a limit.
type SubjectStatus struct {
	LimitShare
	Ceilings []SubjectUse `json:"ceilings"` // in the order of the configuration
}

// SubjectUse is one subject's use of a ceiling.
type SubjectUse struct {
	LimitUse
	// Left is the amount that is neither used nor set aside.
	Left  float64     `json:"left"`
	Lease *LimitLease `json:"lease,omitempty"` // nil: gateways don't share the limit
}

// LimitLease is this gateway's part of a shared ceiling, in the unit of LimitUse.Used.
type LimitLease struct {
	// Used is the use by calls of this gateway. Others is the use by calls of the other
	// gateways when the database answered last; nil: it has not answered in this window.
	Used   float64  `json:"used"`
	Others *float64 `json:"others,omitempty"`
	// Left is the amount that this gateway may use before it has to ask the database.
	Left float64 `json:"left"`
}

// maxFullest bounds the subjects of a limit in a status.
const maxFullest = 5

// nearlyUsed is the percentage from which a limit is shown as nearly used up.
const nearlyUsed = 80

// LimitStatus returns the use of the workspace's limits by so many of their fullest
// subjects each, in the order of the configuration.
func (w *Workspace) LimitStatus(subjects int) []LimitStatus {
	list := []LimitStatus{}
	for _, l := range w.CallLimits {
		s := LimitStatus{LimitShare: w.limitShare(l), Fullest: []LimitUse{}, Routes: l.Routes}
		for _, c := range l.Ceilings {
			s.Ceilings = append(s.Ceilings, c.Measure.String()+" "+c.String())
		}
		if limiter := w.Store.Limiter(); limiter != nil {
			for _, standing := range limiter.Subjects(w.Name, time.Now(), l, subjects) {
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

// limitShare returns a LimitShare without use. A limit of requests under way alone is never
// shared.
func (w *Workspace) limitShare(l *limit.Limit) LimitShare {
	s := LimitShare{Name: l.Name, By: ByText(l)}
	limiter := w.Store.Limiter()
	if limiter != nil && slices.ContainsFunc(l.Ceilings, func(c limit.Ceiling) bool { return c.Measure != limit.InFlight }) {
		s.Shared, s.AwaySince, _ = limiter.Shared(w.Name)
	}
	s.AwaySince = s.AwaySince.UTC()
	return s
}

// SubjectStatus returns a subject's use of each of the workspace's limits, in the order of
// the configuration. A limit by workspace counts all subjects together.
func (w *Workspace) SubjectStatus(subject string) []SubjectStatus {
	list := []SubjectStatus{}
	limiter := w.Store.Limiter()
	if limiter == nil {
		return list // no limit is configured
	}
	now := time.Now()
	for _, l := range w.CallLimits {
		s := SubjectStatus{LimitShare: w.limitShare(l)}
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
	unit := float64(limit.Measures[s.Ceiling.Measure].Scale)
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

func (w *Workspace) limitUse(s *limit.Standing) LimitUse {
	unit := float64(limit.Measures[s.Ceiling.Measure].Scale)
	return LimitUse{
		Subject: w.redactor.String(s.Subject), Measure: s.Ceiling.Measure.String(), Ceiling: s.Ceiling.String(), Percent: s.Share(),
		Used: float64(s.Used) / unit, Reserved: float64(s.Reserved) / unit, Since: s.Ceiling.Window.Began(s.Resets).UTC(), Resets: s.Resets.UTC(), FullAt: fullAt(s, time.Now()),
	}
}

// fullAt returns when a ceiling is used up at the pace since its window began. A window of
// less than an hour ends before anybody reads that, and the first 20th of one tells little.
func fullAt(s *limit.Standing, now time.Time) time.Time {
	began := s.Ceiling.Window.Began(s.Resets)
	length, passed := s.Resets.Sub(began), now.Sub(began)
	if length < time.Hour || passed < length/20 || s.Used <= 0 || s.Used >= s.Ceiling.Most {
		return time.Time{}
	}
	left := float64(s.Ceiling.Most-s.Used) / float64(s.Used) * float64(passed)
	if left >= float64(s.Resets.Sub(now)) {
		return time.Time{}
	}
	return now.Add(time.Duration(left)).UTC().Truncate(time.Second)
}

// usedPercent returns the largest share of a limit, in percent, that a subject has used.
func (w *Workspace) usedPercent(l *limit.Limit, now time.Time) int {
	if limiter := w.Store.Limiter(); limiter != nil {
		if fullest := limiter.Subjects(w.Name, now, l, 1); len(fullest) > 0 {
			return fullest[0].Share()
		}
	}
	return 0
}

// crossed is called when a subject reaches 80 and 100 percent of a ceiling, once for each in
// a window.
func (w *Workspace) crossed(s *limit.Standing, percent int) {
	event, message := EventLimitReached, "limit reached"
	if percent < 100 {
		if !limit.Measures[s.Ceiling.Measure].Metered {
			return // 80 percent of a limit of requests is no news
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

// checkLimited warns of targets for which limits of money or tokens can't set aside the
// right amounts. One goroutine calls it at a time.
func (w *Workspace) checkLimited(snapshot *definition.Snapshot) {
	if !slices.ContainsFunc(w.CallLimits, metered) {
		return
	}
	money := slices.ContainsFunc(w.CallLimits, func(l *limit.Limit) bool { return bounds(l, limit.Money) })
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
	w.warnOfLacks("target is not bounded by limits", w.unlimited, found)
	w.unlimited = found
}
