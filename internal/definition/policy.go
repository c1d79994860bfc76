package definition

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
)

// The bounds of the timeouts in an endpoint's policy, and of the time for which an answer
// is cached. The defaults and the other ceilings are those of package invoke.
const (
	minTimeout  = 10 * time.Millisecond
	maxTimeout  = time.Hour
	minCacheTTL = time.Second
	maxCacheTTL = 30 * 24 * time.Hour
)

// Policy says how an endpoint calls: it is one of the endpoint's variants, or what
// an endpoint without variants has. It is immutable and safe for concurrent use.
type Policy struct {
	// Key is the variant's key. It is empty where the endpoint has no variants.
	Key   string
	Retry Retry
	// MaxAttempts bounds the attempts over all targets. It is never less than
	// the number of targets.
	MaxAttempts int
	// Fallback are the targets after the prompt's own, as written.
	Fallback []Target
	// Weights are the weights of the targets in the order of Target: of the
	// prompt's own target, then of the fallbacks. A target without a weight has
	// 0; Weights is nil where none has one. They must not be changed.
	Weights []int
	Timeout Timeout
	// HedgeAfter is how long a request waits for an answer until the next target
	// is called in addition to the first; 0 means never.
	HedgeAfter time.Duration
	// CacheTTL is how long a complete answer is cached for the same question; 0
	// means never.
	CacheTTL time.Duration
}

// Retry says how a target is tried again.
type Retry struct {
	// Count is how many extra tries a target gets; nil means the default of
	// invoke.Policy.
	Count *int
	// OnCodes narrows the statuses of an upstream answer that are tried again; nil
	// means all that the class of failure allows.
	OnCodes []int
}

// Timeout bounds an invocation.
type Timeout struct {
	Total      time.Duration // from the request to the end of the answer
	FirstToken time.Duration // until an attempt's first content
	Idle       time.Duration // between two pieces of an answer
}

// Target returns target i of a call with a variant of the prompt, in the order in
// which targets are tried: the variant's own, then the fallbacks. A fallback has
// the variant's parameters if it sets none of its own, but not its raw
// parameters, which are for one provider.
func (p *Policy) Target(v *Variant, i int) Target {
	if i == 0 {
		return v.target()
	}
	t := p.Fallback[i-1]
	t.Parameters = inherit(t.Parameters, v.Parameters)
	return t
}

// Targets returns all targets of a call with a variant of the prompt.
func (p *Policy) Targets(v *Variant) []Target {
	targets := make([]Target, 1+len(p.Fallback))
	for i := range targets {
		targets[i] = p.Target(v, i)
	}
	return targets
}

// content returns the policy for the endpoint's content.
func (p *Policy) content() content {
	c := content{
		"max_attempts": p.MaxAttempts,
		"timeout": content{
			"total": p.Timeout.Total.String(), "first_token": p.Timeout.FirstToken.String(), "idle": p.Timeout.Idle.String(),
		},
	}
	retry := content{}
	if p.Retry.Count != nil {
		retry["count"] = *p.Retry.Count
	}
	if p.Retry.OnCodes != nil {
		retry["on_codes"] = p.Retry.OnCodes
	}
	if len(retry) > 0 {
		c["retry"] = retry
	}
	if len(p.Fallback) > 0 {
		list := make([]any, len(p.Fallback))
		for i, t := range p.Fallback {
			target := t.content()
			if p.Weights != nil && p.Weights[i+1] > 0 {
				target["weight"] = p.Weights[i+1]
			}
			list[i] = target
		}
		c["fallback"] = list
	}
	if p.Weights != nil && p.Weights[0] > 0 {
		c["weight"] = p.Weights[0]
	}
	if p.HedgeAfter > 0 {
		c["hedge"] = content{"after": p.HedgeAfter.String()}
	}
	if p.CacheTTL > 0 {
		c["cache"] = content{"ttl": p.CacheTTL.String()}
	}
	return c
}

// size estimates the bytes of the policy with all that it inherits.
func (p *Policy) size() int {
	size := 0
	for i := range p.Fallback {
		size += p.Fallback[i].size()
	}
	return size
}

// policyMembers are the members of an endpoint that say how it calls. A variant
// has them, too.
var policyMembers = []string{"retry", "max_attempts", "fallback", "weight", "hedge", "timeout", "cache"}

// writtenPolicy is a policy as it is written, with inherited members. The members
// that follow from several members is not worked out yet: a variant may inherit
// some of them.
type writtenPolicy struct {
	Policy              // without MaxAttempts and Weights; what Timeout lacks is 0
	maxAttempts int     // 0: not given
	weight      int     // of the prompt's own target
	weights     []int   // of the fallbacks
	places      members // of all that is given, inherited or not
	own         members // of the variant itself
	broken      bool    // it has a mistake, or the variant that it extends has one
}

// members are the values of members by their names. Those in timeout are called
// first_token and so on.
type members map[string]*document.Node

// policyReader reads the policies of an endpoint.
type policyReader struct {
	*loader
	errs *document.Errors
	// refused are the members that were reported: several variants may inherit one.
	refused map[*document.Node]bool
	// idle are members without an effect in a policy, by their values.
	idle map[*document.Node]*idleMember
}

// idleMember is the warning that a member has no effect.
type idleMember struct{ kind, message string }

// read reads the policy in n over the one that it inherits; nil: it is not one of a
// variant. Where a variant has null for a member, it has none.
func (r *policyReader) read(base *writtenPolicy, n *document.Node) *writtenPolicy {
	w := &writtenPolicy{}
	lightest := int64(1)
	if base != nil {
		*w = *base
		lightest = 0
	}
	if w.own, w.places = make(members), maps.Clone(w.places); w.places == nil {
		w.places = make(members)
	}
	get := func(name string) *document.Node {
		m := n.Get(name)
		if m != nil {
			w.own[name], w.places[name] = m, m
		}
		return m
	}
	if m := get("cache"); m != nil {
		w.CacheTTL = cacheSpan.decode(m, r.errs)
	}
	if m := get("retry"); m != nil {
		w.Retry.decode(m, r.errs)
	}
	if m := get("fallback"); m != nil {
		w.Fallback, w.weights = nil, nil
		if !m.IsNull() {
			w.Fallback = decodeFallback(m, r.errs)
			for _, item := range m.Items {
				w.weights = append(w.weights, int(readWhole(item.Get("weight"), "weight", 1, invoke.MaxWeight, r.errs)))
			}
		}
	}
	if m := get("weight"); m != nil {
		w.weight = 0
		if base == nil || !m.IsNull() {
			w.weight = int(readWhole(m, "weight", lightest, invoke.MaxWeight, r.errs))
		}
	}
	if m := get("max_attempts"); m != nil {
		w.maxAttempts = 0
		if base == nil || !m.IsNull() {
			w.maxAttempts = int(readWhole(m, "max_attempts", 1, invoke.MaxAttempts, r.errs))
		}
	}
	if m := get("timeout"); m != nil {
		w.readTimeout(m, r.errs)
	}
	if m := get("hedge"); m != nil {
		w.HedgeAfter = hedgeSpan.decode(m, r.errs)
	}
	return w
}

// readWhole reads a whole number. It returns 0 if there is none.
func readWhole(n *document.Node, what string, lo, hi int64, errs *document.Errors) int64 {
	if n == nil {
		return 0
	}
	v, _ := n.ReadInt(errs, what, lo, hi)
	return v
}

// decode reads retry over the inherited one. Null takes that away.
func (r *Retry) decode(n *document.Node, errs *document.Errors) {
	if n.IsNull() {
		*r = Retry{}
		return
	}
	if !n.CheckMapping(errs, "retry", "{ count: 2 }") || !n.CheckMembers(errs, "retry", "count", "on_codes") {
		return
	}
	if m := n.Get("count"); m != nil {
		if v, ok := m.ReadInt(errs, "count", 0, invoke.MaxAttempts-1); ok {
			count := int(v)
			r.Count = &count
		}
	}
	m := n.Get("on_codes")
	if m == nil {
		return
	}
	r.OnCodes = nil
	if m.IsNull() {
		return
	}
	if m.Shape != document.Sequence {
		errs.Add(m, "on_codes must be a list of HTTP statuses, this is %s", m.Shape)
		return
	}
	r.OnCodes = []int{} // an empty list means no status at all
	for _, item := range m.Items {
		if v, ok := item.ReadInt(errs, "an HTTP status", 400, 599); ok {
			r.OnCodes = append(r.OnCodes, int(v))
		}
	}
	slices.Sort(r.OnCodes)
	r.OnCodes = slices.Compact(r.OnCodes)
}

func decodeFallback(n *document.Node, errs *document.Errors) []Target {
	if n.Shape != document.Sequence {
		errs.Add(n, "fallback must be a list of {provider, model}, this is %s", n.Shape)
		return nil
	}
	if len(n.Items) >= invoke.MaxAttempts {
		errs.Add(n, "there are %d fallbacks, at most %d are possible", len(n.Items), invoke.MaxAttempts-1)
	}
	targets := make([]Target, 0, len(n.Items))
	for _, item := range n.Items {
		t, before := Target{origin: origin{pos: item.Pos}}, errs.Len()
		if !item.CheckMapping(errs, "a fallback", "{ provider: openai, model: gpt-6-luna }") || !item.CheckMembers(errs, "a fallback", append([]string{"provider", "model", "extra", "weight"}, parameterNames...)...) {
			continue
		}
		misspelt := errs.Len() > before
		if m := item.Get("provider"); m == nil && !misspelt {
			errs.Add(item, "a fallback needs a provider")
		} else if m != nil {
			t.Provider, _ = m.ReadName(errs, "provider")
			t.origin.provider = m.Pos
		}
		if m := item.Get("model"); m != nil {
			t.Model, _ = m.ReadName(errs, "model")
			t.origin.model = m.Pos
		}
		decodeParameters(item, &t.Parameters, errs)
		t.Extra = decodeExtra(item.Get("extra"), nil, &t.origin, errs)
		t.origin.broken = errs.Len() > before
		targets = append(targets, t)
	}
	return targets
}

// readTimeout reads timeout over the inherited one. Null takes that away.
func (w *writtenPolicy) readTimeout(n *document.Node, errs *document.Errors) {
	if n.IsNull() {
		w.Timeout = Timeout{}
		return
	}
	if !n.CheckMapping(errs, "timeout", "{ total: 60s }") || !n.CheckMembers(errs, "timeout", "total", "first_token", "idle") {
		return
	}
	for name, into := range map[string]*time.Duration{"total": &w.Timeout.Total, "first_token": &w.Timeout.FirstToken, "idle": &w.Timeout.Idle} {
		m := n.Get(name)
		if m == nil {
			continue
		}
		if v, ok := m.ReadDuration(errs, name, minTimeout, maxTimeout); ok {
			*into = v
			w.places[name] = m
		}
	}
}

// span is a member whose mapping has one duration, within its bounds.
type span struct {
	member, name     string
	meaning, example string // of the duration
	least, most      time.Duration
}

var (
	cacheSpan = span{"cache", "ttl", "how long an answer is given again", "10m", minCacheTTL, maxCacheTTL}
	hedgeSpan = span{"hedge", "after", "how long a request waits for an answer until the next target is asked too", "2s", minTimeout, maxTimeout}
)

// decode reads the duration, 0 without one.
func (s span) decode(n *document.Node, errs *document.Errors) time.Duration {
	if n.IsNull() || !n.CheckMapping(errs, s.member, "{ "+s.name+": "+s.example+" }") || !n.CheckMembers(errs, s.member, s.name) {
		return 0
	}
	at := n.Get(s.name)
	if at == nil {
		errs.Add(n, "%s is missing: %s, such as %s", s.name, s.meaning, s.example)
		return 0
	}
	d, _ := at.ReadDuration(errs, s.name, s.least, s.most)
	return d
}

// finish works out what follows from the members of a policy together.
func (r *policyReader) finish(w *writtenPolicy) *Policy {
	p := w.Policy
	r.finishAttempts(w, &p)
	r.finishWeights(w, &p)
	r.finishTimeout(w, &p)
	switch at := w.places["hedge"]; {
	case p.HedgeAfter == 0:
	case len(p.Fallback) == 0:
		r.warn("hedge", at, "hedge has no effect: there is no fallback to ask")
	case p.HedgeAfter >= p.Timeout.Total:
		r.warn("hedge", at.Get("after"), "after (%s) is not shorter than the timeout's total (%s), which ends the request first", p.HedgeAfter, p.Timeout.Total)
	default:
		r.works(at)
		r.works(at.Get("after"))
	}
	return &p
}

// finishAttempts works out max_attempts, which allows at least one attempt a target.
func (r *policyReader) finishAttempts(w *writtenPolicy, p *Policy) {
	targets := 1 + len(p.Fallback)
	p.MaxAttempts = max(invoke.DefaultMaxAttempts, targets)
	switch at := w.places["max_attempts"]; {
	case w.maxAttempts == 0:
		return
	case w.maxAttempts >= targets:
		p.MaxAttempts = w.maxAttempts
	case w.own["max_attempts"] == nil && w.own["fallback"] != nil:
		r.errs.Add(w.own["fallback"], "max_attempts is %d (%s) and there are %d targets: some could never be tried", w.maxAttempts, at.Pos, targets)
	case !r.refused[at]:
		r.refused[at] = true
		r.errs.Add(at, "max_attempts is %d and there are %d targets: some could never be tried", w.maxAttempts, targets)
	}
}

func (r *policyReader) finishWeights(w *writtenPolicy, p *Policy) {
	heaviest := 0
	for _, weight := range w.weights {
		heaviest = max(heaviest, weight)
	}
	switch own, given := w.weight, w.places["weight"]; {
	case own == 0 && heaviest == 0:
		return
	case own == 0 && p.Key != "" && given != nil && !given.IsNull(): // weight: 0
	case own == 0 && p.Key != "":
		r.warn("weight", w.places["fallback"], "the fallbacks have weights and the variant %s has none: they are tried before the prompt's own target (weight: 0 says that this is meant)", p.Key)
	case own == 0:
		r.warn("weight", w.places["fallback"], "the fallbacks have weights and the endpoint has none: they are tried before the variant's own target")
	case heaviest == 0:
		r.warn("weight", given, "weight has no effect: no fallback has one to share requests with")
	default:
		r.works(given)
	}
	p.Weights = append([]int{w.weight}, w.weights...)
}

func (r *policyReader) finishTimeout(w *writtenPolicy, p *Policy) {
	t := &p.Timeout
	t.Total, t.FirstToken, t.Idle = cmp.Or(t.Total, invoke.DefaultTotal), cmp.Or(t.FirstToken, invoke.DefaultFirstToken), cmp.Or(t.Idle, invoke.DefaultIdle)
	for name, v := range map[string]time.Duration{"first_token": w.Timeout.FirstToken, "idle": w.Timeout.Idle} {
		switch at := w.places[name]; {
		case v > t.Total:
			r.warn("timeout", at, "%s (%s) is longer than total (%s), which ends the request first", name, v, t.Total)
		case v > 0:
			r.works(at)
		}
	}
	t.FirstToken, t.Idle = min(t.FirstToken, t.Total), min(t.Idle, t.Total)
	r.checkChain(w, p)
}

// checkChain warns where a stream may wait so long for the targets before the last one
// that nothing of the total is left for that. A hedge does not wait for them, and of a
// whole answer's total each target has a share in any case.
func (r *policyReader) checkChain(w *writtenPolicy, p *Policy) {
	before := time.Duration(len(p.Fallback))
	at := cmp.Or(w.places["total"], w.places["fallback"])
	switch {
	case before == 0 || at == nil || w.Timeout.FirstToken > p.Timeout.Total: // which has a warning
	case p.HedgeAfter == 0 && p.Timeout.FirstToken >= p.Timeout.Total/before:
		r.warn("timeout", at, "a stream may wait %s (first_token) at each target before the last one (%d), and total is %s: the last is never tried then; with a first_token of %s each has its share",
			p.Timeout.FirstToken, before, p.Timeout.Total, (p.Timeout.Total / (before + 1)).Round(time.Millisecond))
	case at == w.places["total"]:
		r.works(at)
	}
}

// warn warns that a member has no effect in a policy, or another than it seems, if
// it has its effect in no other policy that inherits it.
func (r *policyReader) warn(kind string, at *document.Node, format string, args ...any) {
	if _, noted := r.idle[at]; !noted {
		r.idle[at] = &idleMember{kind, fmt.Sprintf(format, args...)}
	}
}

// works notes that a member has its effect in a policy.
func (r *policyReader) works(at *document.Node) { r.idle[at] = nil }

// giveWarnings gives the warnings of members that work in no policy.
func (r *policyReader) giveWarnings() {
	for at, m := range r.idle {
		if m != nil {
			r.warnAt(m.kind, at, "%s", m.message)
		}
	}
}
