package gateway

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
)

// subject returns the subject under which a limit counts the request. It is empty if the
// request has no value of the limit's dimension. endpoint is the key of the endpoint that
// the request calls, or empty.
func (in *incoming) subject(l *limit.Limit, endpoint string) string {
	switch l.By {
	case limit.ByAPIKey:
		return in.key.name
	case limit.ByEndpoint:
		return endpoint
	case limit.ByMetadata:
		return subjectOf(in.metadata.Get(l.Member))
	case limit.ByClientIP:
		return networkOf(in.gateway.clientIP(in.r))
	}
	return ""
}

// networkOf returns the subject that a client's address stands for: an IPv4 address, or the
// /64 of an IPv6 address, because one machine has all addresses of a /64. It is empty if the
// address is unknown.
func networkOf(text string) string {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	if addr = addr.Unmap().WithZone(""); addr.Is4() {
		return addr.String()
	}
	return netip.PrefixFrom(addr, 64).Masked().String()
}

// subjectOf returns the subject that a value of the metadata stands for: 7 and "7" are the
// same customer.
func subjectOf(v *fastjson.Value) string {
	if v == nil || v.Type() == fastjson.TypeNull {
		return ""
	}
	if v.Type() == fastjson.TypeString {
		return string(v.GetStringBytes())
	}
	return string(v.MarshalTo(nil))
}

// limitsSuffix is what the name of the file with a store's limits adds to the database's.
const limitsSuffix = "-limits"

// Limiter returns the counters of the limits of the store's workspaces. It is nil if no
// workspace has had limits yet.
func (s *Store) Limiter() *limit.Limiter { return s.limiter.Load() }

// openLimits opens the limiter, unless it is open. It does not need the database.
func (s *Store) openLimits() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limiter.Load() != nil {
		return
	}
	l := limit.Open(limit.Options{Path: s.Path + limitsSuffix, Crossed: s.crossed, Logger: s.logger, Background: true}) // Err reports trouble with the file
	s.limiter.Store(l)
}

// limitsFailure returns why the limits' counters can't be saved, and since when that is
// known.
func (s *Store) limitsFailure() (since time.Time, err error) {
	if l := s.limiter.Load(); l != nil {
		err = l.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.unsaved = time.Time{}
	case s.unsaved.IsZero():
		s.unsaved = time.Now()
	}
	return s.unsaved, err
}

// crossed is limit.Options.Crossed.
func (s *Store) crossed(workspace string, at limit.Standing, percent int) {
	if w := s.process.metrics.names.newest(workspace); w != nil {
		w.crossed(&at, percent)
	}
}

// closeLimits closes the limiter. The calls that it counts have ended or are given up.
func (s *Store) closeLimits() error {
	if l := s.limiter.Load(); l != nil {
		return l.Close()
	}
	return nil
}

// startLimits begins to enforce the workspace's limits. When the workspace ends, the
// counters and their ledger stay: requests under way still use them.
func (w *Workspace) startLimits() {
	if len(w.CallLimits) > 0 {
		w.Store.openLimits()
		w.Store.Limiter().SetLedger(w.Name, w.ledger())
		w.Store.Limiter().SetMaxMemory(w.gateway.maxLimitMemory)
	}
}

// hashSubject returns the keyed hash that stands for an erased subject of the workspace's
// limits.
func (w *Workspace) hashSubject(subject string) string {
	return string(w.ids.Load().hasher.Append(nil, "\x00limit\x00", subject))
}

// HashAudited returns the hash that stands for a value of a caller's in the audit.
func (w *Workspace) HashAudited(value string) string {
	return string(w.ids.Load().hasher.Append(nil, "\x00audit\x00", value))
}

// EraseSubject erases a subject from the workspace's limits by a member of the metadata:
// see limit.Limiter.Erase. value is the member's value as JSON.
func (w *Workspace) EraseSubject(ctx context.Context, member, value string) error {
	limiter := w.Store.Limiter()
	if limiter == nil {
		return nil
	}
	parsed, err := fastjson.Parse(value)
	if err != nil {
		return err
	}
	return limiter.Erase(ctx, w.Name, subjectOf(parsed), func(name string) bool {
		return !slices.ContainsFunc(w.CallLimits, func(l *limit.Limit) bool {
			return l.Name == name && (l.By != limit.ByMetadata || l.Member != member)
		})
	})
}

// ledger returns the ledger through which gateways share the workspace's limits: the
// ledger of the first sink that has one. It is nil if the gateways share no limits.
func (w *Workspace) ledger() limit.Ledger {
	for i := range w.Sinks {
		source, ok := w.Sinks[i].Sink.(interface {
			Ledger(workspace string) limit.Ledger
		})
		if !ok {
			continue
		}
		if ledger := source.Ledger(w.Name); ledger != nil {
			return ledger
		}
	}
	return nil
}

// defaultAnswer is the assumed maximum of an answer's tokens if neither the definition nor
// the model's price has one.
const defaultAnswer = 4096

// mostAnswer returns the most tokens that a target's answer may have. known is false if
// that is defaultAnswer.
func mostAnswer(t *invoke.Target, p *price.Price) (tokens int64, known bool) {
	b := &t.Bounds
	switch {
	case b.Answer > 0:
		tokens, known = b.Answer, true
	case !b.HasAnswer && t.Parameters.MaxTokens != nil:
		tokens, known = *t.Parameters.MaxTokens, true
	case p != nil && p.MaxOutput > 0:
		tokens, known = p.MaxOutput, true
	default:
		tokens = defaultAnswer
	}
	tokens = min(max(tokens, 0), invoke.MaxBound)
	if b.Answers > 1 {
		tokens = min(tokens, invoke.MaxBound/b.Answers) * b.Answers
	}
	return tokens, known
}
