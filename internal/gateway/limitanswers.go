package gateway

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// The headers of draft-ietf-httpapi-ratelimit-headers.
const (
	headerRateLimit       = "Ratelimit"
	headerRateLimitPolicy = "Ratelimit-Policy"
)

// longestWait is the longest Retry-After that OpenAI's and Anthropic's libraries obey.
// After a longer one they repeat the request at once.
const longestWait = time.Minute

// retryLimited is the Retry-After of a request for which requests under way leave no
// room. It is a guess, as retryInFlight is.
const retryLimited = time.Second

// shortage returns the ceiling that has no room for an attempt at the cheapest target,
// with what such an attempt may use. Of several it is the one that has room last.
func (m *meter) shortage() (limit.Refusal, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	want := m.extreme(leastOf)
	var last limit.Refusal
	need, lacks := int64(0), false
	for i := range m.held {
		h := &m.held[i]
		for _, ask := range h.asks {
			for _, s := range m.limiter.AppendStandings(nil, m.workspace.Name, m.began, ask) {
				more, aside := want.Tokens, h.aside.Tokens
				switch s.Ceiling.Measure {
				case limit.Requests, limit.InFlight:
					continue
				case limit.Money:
					more, aside = want.Money, h.aside.Money
				}
				if m.settled {
					aside = 0
				}
				r := limit.Refusal{Ask: s.Ask, Ceiling: s.Ceiling, Never: more > s.Ceiling.Most}
				if s.Used+more > s.Ceiling.Most {
					r.RetryAfter = s.Resets.Sub(m.began)
				}
				// Reserved has what this request has set aside already. Room may have
				// come meanwhile: then any ceiling will do.
				full := s.Used+s.Reserved-aside+more > s.Ceiling.Most
				if last.Limit == nil || full && (!lacks || r.RetryAfter > last.RetryAfter) {
					last, need, lacks = r, more, full
				}
			}
		}
	}
	return last, need
}

// limited refuses the request because of a limit, of which it needs so much.
func (c *call) limited(r limit.Refusal, need int64) *wire.Error {
	m := c.meter
	m.mu.Lock()
	m.refused = true
	m.mu.Unlock()
	c.nameLimits()
	measure := MeasureName(r.Ceiling.Measure)
	c.gateway.metrics.limits.refuse(c.workspace, r.Limit.Name, measure)
	name := fmt.Sprintf("The limit %s (%s %s by %s)", r.Limit.Name, measure, CeilingText(r.Ceiling), ByText(r.Limit))
	if r.RetryAfter <= 0 {
		r.RetryAfter = retryLimited
	}
	seconds := int64(math.Ceil(r.RetryAfter.Seconds()))
	again := fmt.Sprintf("There is room again in %d s, at %s.", seconds, c.began.Add(r.RetryAfter).UTC().Format(time.RFC3339))
	var message string
	switch {
	case r.Ceiling.Measure == limit.InFlight:
		message = name + " has as many requests under way as it may have. Send the request again when one of them has ended."
	case r.Ceiling.Measure == limit.Requests:
		message = name + " is used up. " + again
	case r.Never:
		message = fmt.Sprintf("%s never has room for this call, which may use %s. Shorten it, or lower its max_tokens.", name, amountText(r.Ceiling.Measure, need))
	case r.RetryAfter == retryLimited:
		message = fmt.Sprintf("%s has no room for what this call may use, %s, as long as others are under way. Send the request again when one of them has ended.", name, amountText(r.Ceiling.Measure, need))
	case m.full(&r):
		message = name + " is used up. " + again
	default:
		message = fmt.Sprintf("%s has no room left for what this call may use, %s. %s A call with fewer max_tokens may fit.", name, amountText(r.Ceiling.Measure, need), again)
	}
	switch {
	case r.Subject != "":
	case r.Limit.By == limit.ByMetadata:
		message += " Requests without metadata." + r.Limit.Member + " are counted together."
	case r.Limit.By == limit.ByEndpoint:
		message += " Requests for unknown endpoints are counted together."
	}
	err := wire.Errorf(wire.RateLimited, "", "%s", message)
	err.RetryAfter, err.Limit, err.Subject = r.RetryAfter, r.Limit.Name, r.Subject
	err.Final = r.Never || r.RetryAfter > longestWait
	return err
}

// full reports whether nothing is left of the ceiling that refused the request.
func (m *meter) full(r *limit.Refusal) bool {
	return slices.ContainsFunc(m.limiter.AppendStandings(nil, m.workspace.Name, m.began, r.Ask), func(s limit.Standing) bool {
		return s.Ceiling == r.Ceiling && s.Used >= s.Ceiling.Most
	})
}

// amountText returns how much of tokens or money it is.
func amountText(m limit.Measure, amount int64) string {
	if m == limit.Money {
		return dollarsText(amount) + " US dollars"
	}
	return strconv.FormatInt(amount, 10) + " tokens"
}

// nameLimits sets the headers that say how the caller stands with the limits that apply
// to its request: for each limit, of its fullest ceiling.
func (c *call) nameLimits() {
	m := c.meter
	if m == nil {
		return
	}
	policies, limits := make([]byte, 0, 128), make([]byte, 0, 128)
	var fullest [limit.InFlight + 1]limit.Standing // without a limit: there is none
	var room [8]limit.Standing
	standings := room[:0]
	for _, ask := range m.asks {
		standings = m.limiter.AppendStandings(standings[:0], c.workspace.Name, c.began, ask)
		var first *limit.Standing
		for i := range standings {
			s := &standings[i]
			if first == nil || fuller(s, first) {
				first = s
			}
			if of := &fullest[s.Ceiling.Measure]; of.Limit == nil || fuller(s, of) {
				*of = *s
			}
		}
		if first != nil {
			policies, limits = c.appendLimit(policies, limits, first)
		}
	}
	if len(policies) == 0 {
		return
	}
	h := c.w.Header()
	values := [2]string{string(policies), string(limits)}
	h[headerRateLimitPolicy], h[headerRateLimit] = values[:1:1], values[1:]
	switch c.route.requestID {
	case openaiRequestID:
		c.nameForOpenAI("Requests", &fullest[limit.Requests])
		c.nameForOpenAI("Tokens", &fullest[limit.Tokens])
	case anthropicRequestID:
		c.nameForAnthropic("Requests", &fullest[limit.Requests])
		c.nameForAnthropic("Tokens", &fullest[limit.Tokens])
	}
}

// fuller reports whether a larger share of a is used than of b.
func fuller(a, b *limit.Standing) bool {
	return float64(a.Used+a.Reserved)*float64(b.Ceiling.Most) > float64(b.Used+b.Reserved)*float64(a.Ceiling.Most)
}

// left returns how much of a ceiling is left, and in how many seconds its window ends.
func (c *call) left(s *limit.Standing) (left, seconds int64) {
	left = max(s.Ceiling.Most-s.Used-s.Reserved, 0)
	if !s.Resets.IsZero() {
		seconds = max(int64(math.Ceil(s.Resets.Sub(c.began).Seconds())), 0)
	}
	return left, seconds
}

// appendLimit appends a ceiling to the values of both headers. Money is given in percent:
// the draft has no unit for it, and what a budget amounts to is no matter of callers.
func (c *call) appendLimit(policies, limits []byte, s *limit.Standing) (toPolicies, toLimits []byte) {
	if len(policies) > 0 {
		policies, limits = append(policies, ", "...), append(limits, ", "...)
	}
	left, seconds := c.left(s)
	most, unit := s.Ceiling.Most, ""
	switch s.Ceiling.Measure {
	case limit.Tokens:
		unit = `;qu="tokens"`
	case limit.Money:
		most, left, unit = 100, int64(float64(left)/float64(most)*100), `;qu="percent"`
	case limit.InFlight:
		unit = `;qu="concurrent-requests"`
	}
	policies = append(append(append(policies, '"'), s.Limit.Name...), `";q=`...)
	policies = append(strconv.AppendInt(policies, most, 10), unit...)
	limits = append(append(append(limits, '"'), s.Limit.Name...), `";r=`...)
	limits = strconv.AppendInt(limits, left, 10)
	if s.Ceiling.Measure != limit.InFlight {
		policies = strconv.AppendInt(append(policies, ";w="...), int64(lengthOf(s)/time.Second), 10)
		limits = strconv.AppendInt(append(limits, ";t="...), seconds, 10)
	}
	return policies, limits
}

// lengthOf returns the length of a ceiling's window, for a month that of the present one.
func lengthOf(s *limit.Standing) time.Duration {
	if s.Ceiling.Window.Length > 0 {
		return s.Ceiling.Window.Length
	}
	return s.Resets.Sub(s.Resets.AddDate(0, -1, 0))
}

// nameForOpenAI sets the headers that OpenAI's clients know: of requests or of tokens.
func (c *call) nameForOpenAI(what string, s *limit.Standing) {
	if s.Limit == nil {
		return
	}
	left, seconds := c.left(s)
	h := c.w.Header()
	h["X-Ratelimit-Limit-"+what] = []string{strconv.FormatInt(s.Ceiling.Most, 10)}
	h["X-Ratelimit-Remaining-"+what] = []string{strconv.FormatInt(left, 10)}
	h["X-Ratelimit-Reset-"+what] = []string{strconv.FormatInt(seconds, 10) + "s"}
}

// nameForAnthropic sets the headers that Anthropic's clients know.
func (c *call) nameForAnthropic(what string, s *limit.Standing) {
	if s.Limit == nil {
		return
	}
	left, _ := c.left(s)
	h := c.w.Header()
	h["Anthropic-Ratelimit-"+what+"-Limit"] = []string{strconv.FormatInt(s.Ceiling.Most, 10)}
	h["Anthropic-Ratelimit-"+what+"-Remaining"] = []string{strconv.FormatInt(left, 10)}
	h["Anthropic-Ratelimit-"+what+"-Reset"] = []string{s.Resets.UTC().Format(time.RFC3339)}
}
