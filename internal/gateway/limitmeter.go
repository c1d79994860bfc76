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

// callLimit is a limit with what requests ask of it.
type callLimit struct {
	*limit.Limit
	routes routeSet
	// early: nothing of a request's body says whose use it counts for.
	early bool
	// metered: tokens or money are bounded. flying: requests under way are.
	metered, flying bool
}

// callLimits are the limits of a workspace.
type callLimits struct {
	all []callLimit
	// Routes to which a limit applies, and those to which one does that is not early.
	routes, late routeSet
}

func newCallLimits(list []*limit.Limit) callLimits {
	var c callLimits
	for _, l := range list {
		made := callLimit{
			Limit: l, routes: routesOf(l), early: l.By == limit.ByAPIKey || l.By == limit.ByWorkspace,
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

// metered reports whether a limit bounds tokens or money.
func metered(l *limit.Limit) bool { return bounds(l, limit.Tokens) || bounds(l, limit.Money) }

// meter is what a request's limits set aside for it and what it has used. The two lanes
// of a hedged call, and a provider that goes on after its call, may use it at the same
// time.
type meter struct {
	workspace *Workspace
	limiter   *limit.Limiter
	began     time.Time
	asks      []limit.Ask // those that were refused, too
	metered   bool        // one of asks bounds tokens or money
	flying    bool        // one of asks bounds requests under way

	mu      sync.Mutex
	held    []held
	most    []limit.Amounts // that one attempt may use, by the target
	taken   limit.Amounts   // of the attempts that began
	used    limit.Amounts   // by the attempts, where counted
	counted bool
	refused bool // by a limit: the request does not count
	settled bool

	// Memory for what most requests need.
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

// admitEarly counts the request for the limits that need nothing of its body, or
// refuses it.
func (c *call) admitEarly() *wire.Error {
	limits := &c.workspace.callLimits
	if !limits.routes.has(c.route) {
		return nil
	}
	c.meter = &meter{workspace: c.workspace, limiter: c.workspace.Store.Limiter(), began: c.began}
	c.meter.asks, c.meter.held = c.meter.fewAsks[:0], c.meter.fewHeld[:0]
	return c.admit(true, "", true)
}

// admitLate counts the request for the other limits, or refuses it. Its metadata is
// known by now. endpoint is the key of the endpoint that it calls, empty where it calls
// none, or one that there is not. found is whether there is any definition that it asks
// for: else it does not count by its metadata, of which callers could make up as much as
// they like.
func (c *call) admitLate(endpoint string, found bool) *wire.Error {
	if c.meter == nil || !c.workspace.callLimits.late.has(c.route) {
		return nil
	}
	return c.admit(false, endpoint, found)
}

// knowsOne reports whether there is one of the prompts and configurations.
func (c *call) knowsOne(prompts, remoteconfigs []string) bool {
	return slices.ContainsFunc(prompts, func(key string) bool { return c.snapshot.Prompt(key) != nil }) ||
		slices.ContainsFunc(remoteconfigs, func(key string) bool { return c.snapshot.RemoteConfig(key) != nil })
}

// admit counts the request for its limits that are early, or for those that are not.
func (c *call) admit(early bool, endpoint string, found bool) *wire.Error {
	m, first := c.meter, len(c.meter.asks)
	for i := range c.workspace.callLimits.all {
		l := &c.workspace.callLimits.all[i]
		if l.early == early && l.routes.has(c.route) && (found || l.By != limit.ByMetadata) {
			m.asks = append(m.asks, limit.Ask{Limit: l.Limit, Subject: c.subject(l.Limit, endpoint)})
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
	reservation.Context = c.r.Context()
	if refusal := m.limiter.ReserveInto(reservation, c.workspace.Name, m.began, m.asks[first:], limit.Amounts{Requests: 1}); refusal != nil {
		if refusal.Loading {
			m.asks = m.asks[:first]
			err := wire.Errorf(wire.Overloaded, "", "The gateway is starting: it reads what has been used of the limits. Try again.")
			err.RetryAfter = retryLimited
			return err
		}
		return c.limited(*refusal, 1)
	}
	m.held = append(m.held, held{Reservation: reservation, asks: m.asks[first:]})
	c.nameLimits()
	return nil
}

// afford sets aside what the first attempt may use at most, or refuses the call before
// it has cost anything. Where the most expensive target has no room it is enough that
// the cheapest has some: the others are skipped.
func (c *call) afford(targets []invoke.Target, messages []providers.Message) *wire.Error {
	m := c.meter
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
	return c.limited(refusal, need)
}

// measure finds what an attempt may use at most, by the target. A tight bound takes a
// tokenizer.
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

// weigh returns what a call would set aside first: the most that an attempt at the
// dearest target may use. Its texts are counted where they could make a percent of a
// ceiling.
func (m *meter) weigh(targets []invoke.Target, messages []providers.Message) limit.Amounts {
	m.measure(targets, messages, false)
	most := m.extreme(mostOf)
	if slices.ContainsFunc(m.asks, func(ask limit.Ask) bool { return shareOf(ask.Limit, most) > 0 }) {
		m.measure(targets, messages, true)
		most = m.extreme(mostOf)
	}
	return most
}

// shareOf returns the share that amounts are of the ceilings of tokens and money of a
// limit, in percent: of that of which it is the largest.
func shareOf(l *limit.Limit, a limit.Amounts) (share int) {
	for _, of := range l.Ceilings {
		s := limit.Standing{Ceiling: of}
		if s.Reserved = a.Of(of.Measure); s.Reserved > 0 {
			share = max(share, s.Share())
		}
	}
	return share
}

// mostOf returns what an attempt at a target may use at most, with so many tokens of
// its prompt. A target without a price costs nothing.
func (w *Workspace) mostOf(t *invoke.Target, prompt int64) limit.Amounts {
	return mostAt(w.prices, t, prompt)
}

func mostAt(prices *price.Table, t *invoke.Target, prompt int64) limit.Amounts {
	p := prices.Find(t.Name, t.Host, t.Model)
	answer, _ := mostAnswer(t, p)
	a := limit.Amounts{Tokens: prompt + answer}
	if p != nil {
		a.Money = nanodollars(math.Ceil(p.MostIn(t.Bounds.Tier, prompt, answer) * limit.Dollar))
	}
	return a
}

// nanodollars returns an amount of money in the unit of limits, at most invoke.MaxBound:
// nine million US dollars.
func nanodollars(amount float64) int64 { return int64(min(amount, invoke.MaxBound)) }

// fits sets aside what an attempt at the most expensive target may use, or else at the
// cheapest one.
func (m *meter) fits() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.setAside(m.extreme(mostOf)) || m.setAside(m.extreme(leastOf))
}

func mostOf(a, b int64) int64  { return max(a, b) }
func leastOf(a, b int64) int64 { return min(a, b) }

// extreme returns the least or the most that an attempt may use, over the targets.
func (m *meter) extreme(of func(a, b int64) int64) limit.Amounts {
	a := m.most[0]
	for _, b := range m.most[1:] {
		a.Tokens, a.Money = of(a.Tokens, b.Tokens), of(a.Money, b.Money)
	}
	return a
}

// setAside has the reservations cover an amount, and reports whether there is room for
// it. m.mu is locked. What one of them has set aside stays for the next attempt where
// another has no room.
func (m *meter) setAside(want limit.Amounts) bool {
	now := time.Now()
	for i := range m.held {
		h := &m.held[i]
		more := limit.Amounts{Tokens: max(want.Tokens-h.aside.Tokens, 0), Money: max(want.Money-h.aside.Money, 0)}
		if more == (limit.Amounts{}) {
			continue
		}
		if !h.More(now, more) {
			return false
		}
		h.aside.Tokens += more.Tokens
		h.aside.Money += more.Money
	}
	return true
}

// Take sets aside what one more attempt may use.
func (m *meter) Take(target int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := m.taken
	next.Tokens += m.most[target].Tokens
	next.Money += m.most[target].Money
	if m.settled || !m.setAside(next) {
		return false
	}
	m.taken = next
	return true
}

// Return takes an attempt back that was not made. What was set aside for it is for the
// next one.
func (m *meter) Return(target int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken.Tokens -= m.most[target].Tokens
	m.taken.Money -= m.most[target].Money
}

// purse returns what the engine asks before each attempt, nil where nothing bounds what
// attempts use.
func (c *call) purse() invoke.Purse {
	if c.meter == nil || !c.meter.metered || c.meter.most == nil {
		return nil
	}
	return c.meter
}

// spend counts what a call has used, whose costs are set. A provider that was left
// behind may go on as long as it likes, so its attempt counts as the most that it may
// use.
func (c *call) spend(result *invoke.Result) {
	m := c.meter
	if m == nil {
		return
	}
	m.mu.Lock()
	m.counted = true
	for i := range result.Attempts {
		a := &result.Attempts[i]
		// A provider may say no more than the sum.
		used := limit.Amounts{Tokens: max(a.PromptTokens+a.CompletionTokens, a.Usage.TotalTokens), Money: nanodollars(math.Round(a.Cost * limit.Dollar))}
		if a.Abandoned && a.Target < len(m.most) {
			used.Tokens, used.Money = max(used.Tokens, m.most[a.Target].Tokens), max(used.Money, m.most[a.Target].Money)
		}
		m.used.Tokens += used.Tokens
		m.used.Money += used.Money
	}
	m.mu.Unlock()
	if !m.flying {
		// The caller's next request finds room for what this one has not used.
		m.settle()
	}
}

// counts reports whether the request counts for a limit.
func (m *meter) counts(l *limit.Limit) bool {
	return m != nil && slices.ContainsFunc(m.held, func(h held) bool {
		return slices.ContainsFunc(h.asks, func(ask limit.Ask) bool { return ask.Limit == l })
	})
}

// shareBefore returns the share of a limit that a subject has used without this request,
// in percent, and with what the request would set aside of tokens and money. The request
// is counted already where the limit applies to it.
func (c *call) shareBefore(limiter *limit.Limiter, ask limit.Ask) (share int) {
	counted := c.meter.counts(ask.Limit)
	var room [8]limit.Standing
	for _, s := range limiter.AppendStandings(room[:0], c.workspace.Name, c.began, ask) {
		switch {
		case counted && s.Ceiling.Measure == limit.Requests:
			// Another request may have begun a later window, where it does not count.
			s.Reserved = max(s.Reserved-1, 0)
		case counted && s.Ceiling.Measure == limit.InFlight:
			s.Used--
		case counted:
			s.Reserved += c.own.Of(s.Ceiling.Measure)
		}
		share = max(share, s.Share())
	}
	return share
}

// settle counts what the request has used in place of what was set aside. Where that is
// unknown, as after a panic, it is all that its attempts may have used.
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
		used.Requests = 1
	}
	now := time.Now()
	for i := range m.held {
		m.held[i].Settle(now, used)
	}
}
