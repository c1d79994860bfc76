package definition

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The bounds of the timeouts in an endpoint's policy. The defaults and the other
// ceilings are those of package invoke.
const (
	minTimeout = 10 * time.Millisecond
	maxTimeout = time.Hour
)

// Endpoint is a prompt that the gateway sends to a model, whose answer it returns.
// It is immutable and safe for concurrent use.
type Endpoint struct {
	Definition
	Prompt *Prompt
	Retry  Retry
	// MaxAttempts bounds the attempts over all targets. It is never less than
	// the number of targets.
	MaxAttempts int
	// Fallback are the targets after the variant's own, as written.
	Fallback []Target
	// Weights are the weights of the targets in the order of Targets: of the
	// variant's own target, then of the fallbacks. A target without a weight has
	// 0; Weights is nil where none has one. They must not be changed.
	Weights []int
	Timeout Timeout
	// HedgeAfter is how long a request waits for an answer until the next target
	// is called beside the first; 0 means never.
	HedgeAfter time.Duration
	// CacheTTL is how long a complete answer is cached for the same question; 0
	// means never.
	CacheTTL time.Duration
	// Idempotency has the answer to a request with an idempotency key stored, and
	// sent again where the request is repeated.
	Idempotency bool
	targets     map[*Variant][]Target
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

// Target is a model at a provider.
type Target struct {
	Provider string // the provider's instance name
	Model    string
	// Parameters are those of the target itself; Endpoint.Targets adds those of
	// the variant.
	Parameters providers.Parameters
	// Extra are raw parameters for this provider. It must not be changed.
	Extra map[string]json.RawMessage

	origin origin
}

// Targets returns the targets of a variant in the order in which they are tried:
// the variant's own, then the fallbacks. A fallback has the variant's parameters
// where it sets none of its own, but not its raw parameters, which are for one
// provider. The list must not be changed.
func (e *Endpoint) Targets(v *Variant) []Target { return e.targets[v] }

// endpointMembers are the members of an endpoint beside commonMembers.
var endpointMembers = []string{"prompt", "retry", "max_attempts", "fallback", "weight", "hedge", "timeout", "cache", "idempotency"}

func decodeEndpoint(l *loader, d *doc, errs *document.Errors) *Endpoint {
	e := &Endpoint{Definition: d.common(errs), MaxAttempts: invoke.DefaultMaxAttempts}
	e.CacheTTL = decodeCache(d.node.Get("cache"), errs)
	e.decodeIdempotency(d.node.Get("idempotency"), errs)
	if n := d.node.Get("tests"); n != nil {
		errs.Add(n, "an endpoint has no table to test: put the tests into its prompt")
	}
	mistakes := errs.Len()
	d.node.CheckMembers(errs, "an endpoint", slices.Concat(endpointMembers, commonMembers)...)

	if errs.Len() == mistakes || d.node.Get("prompt") != nil { // an unknown member may be the prompt
		e.Prompt = l.prompt(d, errs)
	}
	if n := d.node.Get("retry"); !n.IsNull() && n.CheckMapping(errs, "retry", "{ count: 2 }") && n.CheckMembers(errs, "retry", "count", "on_codes") {
		e.Retry = decodeRetry(n, errs)
	}
	if n := d.node.Get("fallback"); !n.IsNull() {
		e.Fallback = decodeFallback(n, errs)
	}
	e.decodeWeights(l, d.node, errs)
	e.decodeAttempts(d.node, errs)
	e.Timeout = decodeTimeout(l, d.node.Get("timeout"), errs)
	e.decodeHedge(l, d.node.Get("hedge"), errs)
	e.resolveTargets(d.node.Get("prompt"), errs)
	e.sealEndpoint(d.node)
	return e
}

// prompt resolves the prompt an endpoint refers to.
func (l *loader) prompt(d *doc, errs *document.Errors) *Prompt {
	n := d.node.Get("prompt")
	if n == nil {
		errs.Add(d.node, "prompt is missing: it names the prompt this endpoint renders")
		return nil
	}
	key, ok := n.ReadString(errs, "prompt")
	if !ok {
		return nil
	}
	p := l.snapshot.Prompts[key]
	if p == nil && l.missing(trace.KindPrompt, key) {
		errs.Report("unknown-prompt", n.Pos, "there is no prompt %q%s", key, document.DidYouMean(key, l.keys(trace.KindPrompt)))
	}
	return p
}

func decodeRetry(n *document.Node, errs *document.Errors) (r Retry) {
	if m := n.Get("count"); m != nil {
		if v, ok := m.ReadInt(errs, "count", 0, invoke.MaxAttempts-1); ok {
			count := int(v)
			r.Count = &count
		}
	}
	m := n.Get("on_codes")
	if m.IsNull() {
		return r
	}
	if m.Shape != document.Sequence {
		errs.Add(m, "on_codes must be a list of HTTP statuses, this is %s", m.Shape)
		return r
	}
	r.OnCodes = []int{} // an empty list means no status at all
	for _, item := range m.Items {
		if v, ok := item.ReadInt(errs, "an HTTP status", 400, 599); ok {
			r.OnCodes = append(r.OnCodes, int(v))
		}
	}
	slices.Sort(r.OnCodes)
	r.OnCodes = slices.Compact(r.OnCodes)
	return r
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
		if !item.CheckMapping(errs, "a fallback", "{ provider: openai, model: gpt-4o-mini }") || !item.CheckMembers(errs, "a fallback", append([]string{"provider", "model", "extra", "weight"}, parameterNames...)...) {
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
		}
		decodeParameters(item, &t.Parameters, errs)
		t.Extra = decodeExtra(item.Get("extra"), nil, &t.origin, errs)
		t.origin.broken = errs.Len() > before
		targets = append(targets, t)
	}
	return targets
}

// decodeWeights reads the weights of the targets. The endpoint's own weight is for
// the variant's target.
func (e *Endpoint) decodeWeights(l *loader, n *document.Node, errs *document.Errors) {
	weights := []int{readWeight(n, errs)}
	heaviest := 0 // of the fallbacks
	if fallback := n.Get("fallback"); fallback != nil {
		for _, item := range fallback.Items {
			w := readWeight(item, errs)
			heaviest = max(heaviest, w)
			weights = append(weights, w)
		}
	}
	switch own := weights[0]; {
	case own == 0 && heaviest == 0:
		return
	case own == 0:
		l.warnAt("weight", n.Get("fallback"), "the fallbacks have weights and the endpoint has none: they are tried before the variant's own target")
	case heaviest == 0:
		l.warnAt("weight", n.Get("weight"), "weight has no effect: no fallback has one to share requests with")
	}
	e.Weights = weights
}

func readWeight(n *document.Node, errs *document.Errors) int {
	m := n.Get("weight")
	if m == nil {
		return 0
	}
	v, _ := m.ReadInt(errs, "weight", 1, invoke.MaxWeight)
	return int(v)
}

// decodeHedge reads hedge. It is called after the timeout was read.
func (e *Endpoint) decodeHedge(l *loader, n *document.Node, errs *document.Errors) {
	if n.IsNull() || !n.CheckMapping(errs, "hedge", "{ after: 2s }") || !n.CheckMembers(errs, "hedge", "after") {
		return
	}
	after := n.Get("after")
	if after == nil {
		errs.Add(n, "after is missing: how long a request waits for an answer until the next target is asked too, such as 2s")
		return
	}
	d, ok := after.ReadDuration(errs, "after", minTimeout, maxTimeout)
	if !ok {
		return
	}
	e.HedgeAfter = d
	switch {
	case len(e.Fallback) == 0:
		l.warnAt("hedge", n, "hedge has no effect: there is no fallback to ask")
	case d >= e.Timeout.Total:
		l.warnAt("hedge", after, "after (%s) is not shorter than the timeout's total (%s), which ends the request first", d, e.Timeout.Total)
	}
}

// decodeAttempts reads max_attempts, which allows at least one attempt a target.
func (e *Endpoint) decodeAttempts(n *document.Node, errs *document.Errors) {
	targets := 1 + len(e.Fallback)
	e.MaxAttempts = max(invoke.DefaultMaxAttempts, targets)
	m := n.Get("max_attempts")
	if m == nil {
		return
	}
	v, ok := m.ReadInt(errs, "max_attempts", 1, invoke.MaxAttempts)
	if !ok {
		return
	}
	if int(v) < targets {
		errs.Add(m, "max_attempts is %d and there are %d targets: some could never be tried", v, targets)
		return
	}
	e.MaxAttempts = int(v)
}

func decodeTimeout(l *loader, n *document.Node, errs *document.Errors) Timeout {
	t := Timeout{invoke.DefaultTotal, invoke.DefaultFirstToken, invoke.DefaultIdle}
	if !n.IsNull() && n.CheckMapping(errs, "timeout", "{ total: 60s }") && n.CheckMembers(errs, "timeout", "total", "first_token", "idle") {
		for name, into := range map[string]*time.Duration{"total": &t.Total, "first_token": &t.FirstToken, "idle": &t.Idle} {
			m := n.Get(name)
			if m == nil {
				continue
			}
			if v, ok := m.ReadDuration(errs, name, minTimeout, maxTimeout); ok {
				*into = v
			}
		}
		for name, v := range map[string]time.Duration{"first_token": t.FirstToken, "idle": t.Idle} {
			if m := n.Get(name); m != nil && v > t.Total {
				l.warnAt("timeout", m, "%s (%s) is longer than total (%s), which ends the request first", name, v, t.Total)
			}
		}
	}
	t.FirstToken, t.Idle = min(t.FirstToken, t.Total), min(t.Idle, t.Total)
	return t
}

// resolveTargets lists the targets for every variant of the prompt.
func (e *Endpoint) resolveTargets(at *document.Node, errs *document.Errors) {
	if e.Prompt == nil {
		return
	}
	e.targets = make(map[*Variant][]Target, len(e.Prompt.variants))
	for _, v := range e.Prompt.variants {
		if v.origin.broken {
			continue // whose mistakes are the cause of what it lacks
		}
		if v.Provider == "" {
			errs.Report("missing-provider", at.Pos, "the variant %s of the prompt %s (%s) names no provider, which an endpoint needs", v.Key, e.Prompt.Key, v.origin.pos)
			continue
		}
		targets := make([]Target, 0, 1+len(e.Fallback))
		targets = append(targets, v.target())
		for _, t := range e.Fallback {
			t.Parameters = inherit(t.Parameters, v.Parameters)
			if problem := mischosen(&t.Parameters); problem != "" {
				errs.Add(at, "the fallback %s cannot answer for the variant %s: tool_choice: %s", t.Provider, v.Key, problem)
			}
			targets = append(targets, t)
		}
		e.targets[v] = targets
	}
}

// sealEndpoint gives the endpoint its content and version: its policy with the
// defaults filled in, and the key, not the content, of its prompt.
func (e *Endpoint) sealEndpoint(n *document.Node) {
	c := content{
		"max_attempts": e.MaxAttempts,
		"timeout": content{
			"total": e.Timeout.Total.String(), "first_token": e.Timeout.FirstToken.String(), "idle": e.Timeout.Idle.String(),
		},
	}
	c.members(n, "prompt")
	retry := content{}
	if e.Retry.Count != nil {
		retry["count"] = *e.Retry.Count
	}
	if e.Retry.OnCodes != nil {
		retry["on_codes"] = e.Retry.OnCodes
	}
	if len(retry) > 0 {
		c["retry"] = retry
	}
	if len(e.Fallback) > 0 {
		list := make([]any, len(e.Fallback))
		for i, t := range e.Fallback {
			target := t.content()
			if e.Weights != nil && e.Weights[i+1] > 0 {
				target["weight"] = e.Weights[i+1]
			}
			list[i] = target
		}
		c["fallback"] = list
	}
	if e.Weights != nil && e.Weights[0] > 0 {
		c["weight"] = e.Weights[0]
	}
	if e.HedgeAfter > 0 {
		c["hedge"] = content{"after": e.HedgeAfter.String()}
	}
	if e.CacheTTL > 0 {
		c["cache"] = content{"ttl": e.CacheTTL.String()}
	}
	if e.Idempotency {
		c["idempotency"] = true
	}
	e.seal(c)
}
