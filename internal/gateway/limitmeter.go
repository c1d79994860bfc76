package gateway

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// callLimit is a limit with its properties that each request needs.
type callLimit struct {
	*limit.Limit
	routes  routeSet
	early   bool // the subject is known before the request's body is read
	metered bool // bounds tokens or money
	flying  bool // bounds requests under way
}

// callLimits are the limits of a workspace.
type callLimits struct {
	all          []callLimit
	routes, late routeSet // the routes of all limits, and of those that are not early
}

func newCallLimits(list []*limit.Limit) callLimits {
	var c callLimits
	for _, l := range list {
		made := callLimit{
			Limit: l, routes: routesOf(l), early: l.By == limit.ByAPIKey || l.By == limit.ByWorkspace || l.By == limit.ByClientIP,
			metered: metered(l), flying: bounds(l, limit.InFlight),
		}
		c.all = append(c.all, made)
		c.routes |= made.routes
		if !made.early {
			c.late |= made.routes
		}
	}
	return c
}

// bounds reports whether a limit has a ceiling of a measure.
func bounds(l *limit.Limit, m limit.Measure) bool {
	return slices.ContainsFunc(l.Ceilings, func(c limit.Ceiling) bool { return c.Measure == m })
}

// metered reports whether a limit has a ceiling of tokens or money, which attempts use.
func metered(l *limit.Limit) bool {
	return slices.ContainsFunc(l.Ceilings, func(c limit.Ceiling) bool { return limit.Measures[c.Measure].Metered })
}

// meter holds the amounts that a request's limits set aside for it, and what the request
// has used. The two lanes of a hedged call, and a provider that goes on after its call,
// may use it concurrently.
type meter struct {
	workspace *Workspace
	limiter   *limit.Limiter
	began     time.Time
	asks      []limit.Ask // including refused ones
	metered   bool        // one of asks bounds tokens or money
	flying    bool        // one of asks bounds requests under way

	mu      sync.Mutex
	held    []held
	most    []limit.Amounts // the most that one attempt may use, by the index of the target
	taken   limit.Amounts   // the most that the attempts so far may use
	used    limit.Amounts   // what the attempts have used, if counted
	counted bool
	refused bool // a limit refused the request, so it does not count
	settled bool

	// Memory that saves most requests an allocation.
	fewAsks [2]limit.Ask
	fewHeld [2]held
	first   limit.Reservation
}

// held is a reservation of some of a request's limits.
type held struct {
	*limit.Reservation
	asks  []limit.Ask
	aside limit.Amounts // tokens and money
}

// admitEarly counts the request for the early limits, or refuses it.
func (h *holdings) admitEarly() *wire.Error {
	limits := &h.workspace.callLimits
	if !limits.routes.has(h.route) {
		return nil
	}
	h.meter = &meter{workspace: h.workspace, limiter: h.workspace.Store.Limiter(), began: h.began}
	h.meter.asks, h.meter.held = h.meter.fewAsks[:0], h.meter.fewHeld[:0]
	return h.admit(true, "", true)
}

// admitLate counts the request for the other limits, or refuses it. The metadata must be
// parsed. endpoint is the key of the endpoint that the request calls; it is empty if the
// request calls no endpoint or an unknown one. found reports whether a definition that
// the request asks for exists. If not, limits by metadata don't count the request:
// otherwise callers could fill the counters with invented metadata.
func (h *holdings) admitLate(endpoint string, found bool) *wire.Error {
	if h.meter == nil || !h.workspace.callLimits.late.has(h.route) {
		return nil
	}
	return h.admit(false, endpoint, found)
}

// admit counts the request for its early limits, or for its other limits.
func (h *holdings) admit(early bool, endpoint string, found bool) *wire.Error {
	m, first := h.meter, len(h.meter.asks)
	for i := range h.workspace.callLimits.all {
		l := &h.workspace.callLimits.all[i]
		if l.early == early && l.routes.has(h.route) && (found || l.By != limit.ByMetadata) {
			m.asks = append(m.asks, limit.Ask{Limit: l.Limit, Subject: h.subject(l.Limit, endpoint)})
			m.metered, m.flying = m.metered || l.metered, m.flying || l.flying
		}
	}
	if len(m.asks) == first {
		return nil
	}
	reservation := &m.first
	if len(m.held) > 0 {
		reservation = new(limit.Reservation)
	}
	reservation.Context = h.r.Context()
	if refusal := m.limiter.ReserveInto(reservation, h.workspace.Name, m.began, m.asks[first:], limit.Amounts{limit.Requests: 1}); refusal != nil {
		if refusal.Loading {
			m.asks = m.asks[:first]
			err := wire.Errorf(wire.Overloaded, "", "The gateway is starting: it reads what has been used of the limits. Try again.")
			err.RetryAfter = retryLimited
			return err
		}
		return h.limited(*refusal, 1)
	}
	m.held = append(m.held, held{Reservation: reservation, asks: m.asks[first:]})
	h.nameLimits()
	return nil
}

// afford sets aside the most that the first attempt may use, or refuses the call before it
// has cost anything. If there is no room for the most expensive target, room for the
// cheapest is enough: the engine skips the others.
func (h *holdings) afford(targets []invoke.Target, messages []providers.Message) *wire.Error {
	m := h.meter
	if m == nil || !m.metered {
		return nil
	}
	m.measure(targets, messages, false)
	if m.fits() {
		return nil
	}
	// The bound is loose where a text has few tokens for its bytes.
	m.measure(targets, messages, true)
	if m.fits() {
		return nil
	}
	refusal, need := m.shortage()
	m.limiter.Refused(m.workspace.Name, m.began, &refusal)
	return h.limited(refusal, need)
}

// measure finds the most that an attempt at each target may use. A tight bound needs a
// tokenizer, which takes longer.
func (m *meter) measure(targets []invoke.Target, messages []providers.Message, tight bool) {
	m.most = m.most[:0]
	tokens := invoke.MostTokens
	if tight {
		tokens = invoke.TightTokens
	}
	prompt := tokens(messages, nil)
	for i := range targets {
		t := &targets[i]
		beside := t.Bounds.Beside
		if tight || beside == 0 {
			beside = t.Beside(tokens)
		}
		m.most = append(m.most, m.workspace.mostOf(t, prompt+beside))
	}
}

// weigh returns what a call would set aside first: the most that an attempt at the most
// expensive target may use. It uses the tight bound if the loose one is a percent or more
// of a ceiling.
func (m *meter) weigh(targets []invoke.Target, messages []providers.Message) limit.Amounts {
	m.measure(targets, messages, false)
	most := m.extreme(mostOf)
	if slices.ContainsFunc(m.asks, func(ask limit.Ask) bool { return shareOf(ask.Limit, most) > 0 }) {
		m.measure(targets, messages, true)
		most = m.extreme(mostOf)
	}
	return most
}

// shareOf returns the largest share, in percent, that amounts make up of a ceiling of the
// limit.
func shareOf(l *limit.Limit, a limit.Amounts) (share int) {
	for _, ceiling := range l.Ceilings {
		s := limit.Standing{Ceiling: ceiling}
		if s.Reserved = a.Of(ceiling.Measure); s.Reserved > 0 {
			share = max(share, s.Share())
		}
	}
	return share
}

// mostOf returns the most that an attempt at a target may use with a prompt of the given
// tokens. A target without a price costs nothing.
func (w *Workspace) mostOf(t *invoke.Target, prompt int64) limit.Amounts {
	return mostAt(w.prices, t, prompt)
}

func mostAt(prices *price.Table, t *invoke.Target, prompt int64) limit.Amounts {
	p := prices.Find(t.Name, t.Host, t.Model)
	answer, _ := mostAnswer(t, p)
	a := limit.Amounts{limit.Tokens: prompt + answer}
	if p != nil {
		most := p.MaxCostIn(t.Bounds.Tier, prompt, answer)
		if search := t.Parameters.FromCaller().Search; search != nil && t.Searches() {
			most += p.Cost(&providers.Usage{WebSearches: search.MaxUses})
		}
		a[limit.Money] = nanodollars(math.Ceil(most * limit.Dollar))
	}
	return a
}

// nanodollars returns an amount of money in the unit of limits, at most invoke.MaxBound:
// nine million US dollars.
func nanodollars(amount float64) int64 { return int64(min(amount, invoke.MaxBound)) }

// fits sets aside the most that an attempt at the most expensive target may use, or at the
// cheapest one if there is not that much room. It reports whether it did either.
func (m *meter) fits() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.setAside(m.extreme(mostOf)) || m.setAside(m.extreme(leastOf))
}

func mostOf(a, b int64) int64  { return max(a, b) }
func leastOf(a, b int64) int64 { return min(a, b) }

// extreme combines the most that an attempt may use over all targets, by leastOf or mostOf.
func (m *meter) extreme(combine func(a, b int64) int64) limit.Amounts {
	a := m.most[0]
	for _, b := range m.most[1:] {
		for measure := range a {
			a[measure] = combine(a[measure], b[measure])
		}
	}
	return a
}

// setAside grows the reservations until each covers the amounts, and reports whether there
// was room. The caller holds m.mu. If a reservation has no room, the others keep what they
// have set aside, for the next attempt.
func (m *meter) setAside(want limit.Amounts) bool {
	now := time.Now()
	for i := range m.held {
		h := &m.held[i]
		more := want.Less(h.aside)
		if more == (limit.Amounts{}) {
			continue
		}
		if !h.More(now, more) {
			return false
		}
		h.aside = h.aside.Plus(more)
	}
	return true
}

// Take sets aside what one more attempt may use.
func (m *meter) Take(target int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.taken.Plus(m.most[target])
	if m.settled || !m.setAside(next) {
		return false
	}
	m.taken = next
	return true
}

// Return takes back an attempt that was not made. The next attempt uses what was set aside
// for it.
func (m *meter) Return(target int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken = m.taken.Less(m.most[target])
}

// purse returns the meter if the engine has to ask it before each attempt, otherwise nil.
func (m *meter) purse() invoke.Purse {
	if m == nil || !m.metered || m.most == nil {
		return nil
	}
	return m
}

// spend counts what the attempts of a call have used. Their costs must be set.
func (m *meter) spend(result *invoke.Result) {
	if m == nil {
		return
	}
	m.mu.Lock()
	m.counted = true
	for i := range result.Attempts {
		a := &result.Attempts[i]
		// Some providers report the sum alone.
		m.used = m.used.Plus(limit.Amounts{
			limit.Tokens: max(a.PromptTokens+a.CompletionTokens, a.Usage.TotalTokens),
			limit.Money:  nanodollars(math.Round(a.Cost * limit.Dollar)),
		})
	}
	m.mu.Unlock()
	if !m.flying {
		// Frees the unused amounts for the caller's next request.
		m.settle()
	}
}

// counts reports whether the request counts for a limit.
func (m *meter) counts(l *limit.Limit) bool {
	return m != nil && slices.ContainsFunc(m.held, func(h held) bool {
		return slices.ContainsFunc(h.asks, func(ask limit.Ask) bool { return ask.Limit == l })
	})
}

// shareBefore returns the share of a limit, in percent, that a subject has used, together
// with the tokens and money that this request would set aside. It leaves the request
// itself out of the counts of requests, which include it if the limit applies to it.
func (e *evaluation) shareBefore(limiter *limit.Limiter, ask limit.Ask) (share int) {
	counted := e.meter.counts(ask.Limit)
	var room [8]limit.Standing
	for _, s := range limiter.AppendStandings(room[:0], e.workspace.Name, e.began, ask) {
		switch {
		case counted && s.Ceiling.Measure == limit.Requests:
			// Another request may have begun a later window, where it does not count.
			s.Reserved = max(s.Reserved-1, 0)
		case counted && s.Ceiling.Measure == limit.InFlight:
			s.Used--
		case counted:
			s.Reserved += e.own.Of(s.Ceiling.Measure)
		}
		share = max(share, s.Share())
	}
	return share
}

// settle replaces what was set aside by what the request has used. If that is unknown, as
// after a panic, settle counts the most that its attempts may have used.
func (m *meter) settle() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.settled {
		return
	}
	m.settled = true
	used := m.taken
	if m.counted {
		used = m.used
	}
	if !m.refused {
		used[limit.Requests] = 1
	}
	now := time.Now()
	for i := range m.held {
		m.held[i].Settle(now, used)
	}
}
