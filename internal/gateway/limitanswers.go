package gateway

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/dialect/embeddings"
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

// retryLimited is the Retry-After of a request that finds no room because of requests
// under way. Like retryInFlight it is a guess.
const retryLimited = time.Second

// shortage returns the ceiling that has no room for an attempt at the cheapest target, and
// the amount that such an attempt may use. If several ceilings have no room, it returns
// the one that gets room last.
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
				if !limit.Measures[s.Ceiling.Measure].Metered {
					continue
				}
				more, aside := want.Of(s.Ceiling.Measure), h.aside.Of(s.Ceiling.Measure)
				if m.settled {
					aside = 0
				}
				r := limit.Refusal{Ask: s.Ask, Ceiling: s.Ceiling, Never: more > s.Ceiling.Most}
				if s.Used+more > s.Ceiling.Most {
					r.RetryAfter = s.Resets.Sub(m.began)
				}
				// Reserved includes what this request has set aside already. If there is room
				// again by now, any ceiling will do.
				full := s.Used+s.Reserved-aside+more > s.Ceiling.Most
				if last.Limit == nil || full && (!lacks || r.RetryAfter > last.RetryAfter) {
					last, need, lacks = r, more, full
				}
			}
		}
	}
	return last, need
}

// limited returns the error of a request that a limit refuses. need is the amount of the
// ceiling that the request needs.
func (h *holdings) limited(r limit.Refusal, need int64) *wire.Error {
	m := h.meter
	m.mu.Lock()
	m.refused = true
	m.mu.Unlock()
	h.nameLimits()
	measure := r.Ceiling.Measure
	h.gateway.metrics.limits.refuse(h.workspace.Name, r.Limit.Name, measure)
	name := fmt.Sprintf("The limit %s (%s %s by %s)", r.Limit.Name, measure, r.Ceiling, ByText(r.Limit))
	use := measure.Text(need) + " " + limit.Measures[measure].Noun
	if r.RetryAfter <= 0 {
		r.RetryAfter = retryLimited
	}
	seconds := int64(math.Ceil(r.RetryAfter.Seconds()))
	again := fmt.Sprintf("There is room again in %d s, at %s.", seconds, h.began.Add(r.RetryAfter).UTC().Format(time.RFC3339))
	less, fewer := "Shorten it, or lower its max_tokens.", "max_tokens"
	if h.route.dialect == embeddings.Dialect {
		less, fewer = "Send fewer inputs at a time.", "inputs"
	}
	var message string
	switch {
	case measure == limit.InFlight:
		message = name + " has as many requests under way as it may have. Send the request again when one of them has ended."
	case !limit.Measures[measure].Metered:
		message = name + " is used up. " + again
	case r.Never:
		message = fmt.Sprintf("%s never has room for this call, which may use %s. %s", name, use, less)
	case r.RetryAfter == retryLimited:
		message = fmt.Sprintf("%s has no room for what this call may use, %s, as long as others are under way. Send the request again when one of them has ended.", name, use)
	case m.full(&r):
		message = name + " is used up. " + again
	default:
		message = fmt.Sprintf("%s has no room left for what this call may use, %s. %s A call with fewer %s may fit.", name, use, again, fewer)
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

// full reports whether the ceiling that refused the request is used up.
func (m *meter) full(r *limit.Refusal) bool {
	return slices.ContainsFunc(m.limiter.AppendStandings(nil, m.workspace.Name, m.began, r.Ask), func(s limit.Standing) bool {
		return s.Ceiling == r.Ceiling && s.Used >= s.Ceiling.Most
	})
}

// nameLimits sets the rate limit headers. They show the fullest ceiling of each limit that
// applies to the request.
func (h *holdings) nameLimits() {
	m := h.meter
	if m == nil {
		return
	}
	policies, limits := make([]byte, 0, 128), make([]byte, 0, 128)
	var fullest [limit.InFlight + 1]limit.Standing // by measure; Limit is nil for unused measures
	var room [8]limit.Standing
	standings := room[:0]
	for _, ask := range m.asks {
		standings = m.limiter.AppendStandings(standings[:0], h.workspace.Name, h.began, ask)
		var first *limit.Standing
		for i := range standings {
			s := &standings[i]
			if first == nil || fuller(s, first) {
				first = s
			}
			if most := &fullest[s.Ceiling.Measure]; most.Limit == nil || fuller(s, most) {
				*most = *s
			}
		}
		if first != nil {
			policies, limits = h.appendLimit(policies, limits, first)
		}
	}
	if len(policies) == 0 {
		return
	}
	header := h.w.Header()
	values := [2]string{string(policies), string(limits)}
	header[headerRateLimitPolicy], header[headerRateLimit] = values[:1:1], values[1:]
	for m := range fullest {
		if s, word := &fullest[m], limit.Measures[m].Header; s.Limit != nil && word != "" && h.route.requestID != "" {
			h.nameForClients(word, s)
		}
	}
}

// fuller reports whether the used share of a is larger than that of b.
func fuller(a, b *limit.Standing) bool {
	return float64(a.Used+a.Reserved)*float64(b.Ceiling.Most) > float64(b.Used+b.Reserved)*float64(a.Ceiling.Most)
}

// left returns the amount that is left of a ceiling, and the seconds until its window ends.
func (in *incoming) left(s *limit.Standing) (left, seconds int64) {
	left = max(s.Ceiling.Most-s.Used-s.Reserved, 0)
	if !s.Resets.IsZero() {
		seconds = max(int64(math.Ceil(s.Resets.Sub(in.began).Seconds())), 0)
	}
	return left, seconds
}

// appendLimit appends a ceiling to the values of both headers. It writes money in percent:
// the draft has no unit for money, and callers need not know the size of a budget.
func (in *incoming) appendLimit(policies, limits []byte, s *limit.Standing) (toPolicies, toLimits []byte) {
	if len(policies) > 0 {
		policies, limits = append(policies, ", "...), append(limits, ", "...)
	}
	left, seconds := in.left(s)
	most, quota := s.Ceiling.Most, limit.Measures[s.Ceiling.Measure].Quota
	if quota == "percent" {
		most, left = 100, int64(float64(left)/float64(most)*100)
	}
	policies = append(append(append(policies, '"'), s.Limit.Name...), `";q=`...)
	policies = strconv.AppendInt(policies, most, 10)
	if quota != "" {
		policies = append(append(append(policies, `;qu="`...), quota...), '"')
	}
	limits = append(append(append(limits, '"'), s.Limit.Name...), `";r=`...)
	limits = strconv.AppendInt(limits, left, 10)
	if s.Ceiling.Measure != limit.InFlight {
		policies = strconv.AppendInt(append(policies, ";w="...), int64(lengthOf(s)/time.Second), 10)
		limits = strconv.AppendInt(append(limits, ";t="...), seconds, 10)
	}
	return policies, limits
}

// lengthOf returns the length of a ceiling's window. For a calendar month it is the length
// of the present month.
func lengthOf(s *limit.Standing) time.Duration {
	if s.Ceiling.Window.Length > 0 {
		return s.Ceiling.Window.Length
	}
	return s.Resets.Sub(s.Resets.AddDate(0, -1, 0))
}

// nameForClients sets the headers that OpenAI's or Anthropic's clients read. word is the
// measure's name in these headers.
func (in *incoming) nameForClients(word string, s *limit.Standing) {
	left, seconds := in.left(s)
	h := in.w.Header()
	most, remaining := []string{strconv.FormatInt(s.Ceiling.Most, 10)}, []string{strconv.FormatInt(left, 10)}
	switch in.route.requestID {
	case openaiRequestID:
		h["X-Ratelimit-Limit-"+word], h["X-Ratelimit-Remaining-"+word] = most, remaining
		h["X-Ratelimit-Reset-"+word] = []string{strconv.FormatInt(seconds, 10) + "s"}
	case anthropicRequestID:
		h["Anthropic-Ratelimit-"+word+"-Limit"], h["Anthropic-Ratelimit-"+word+"-Remaining"] = most, remaining
		h["Anthropic-Ratelimit-"+word+"-Reset"] = []string{s.Resets.UTC().Format(time.RFC3339)}
	}
}
