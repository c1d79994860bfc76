package invoke

import (
	"sync"
	"sync/atomic"
	"time"
)

// The breaker: a target is ejected when at least half of at least 20 answers
// in 30 seconds failed. From then on one try at a time is let through; it
// decides. The pause between two of them is short, so that a target that is back
// serves again soon; but a try that took long held its caller up for as long, so
// the pause after it is twice that.
const (
	slotLength = 5 * time.Second
	slots      = 6
	minAnswers = 20
	probeEvery = 4 * time.Second
	maxPause   = 2 * time.Minute
)

// Cool-downs: a target that limits, or does not accept the account, is left
// alone for as long as it asks, else for so long.
const (
	coolRateLimit = 5 * time.Second
	coolAccount   = time.Minute
	maxCool       = 10 * time.Minute
)

// The retry bucket of a provider: each answer pays in, each retry draws out,
// so retries stay near a fifth of the traffic.
const (
	bucketSize   = 10.0
	bucketIncome = 0.2
)

// maxHealth bounds the targets that are remembered; past it the ones without
// news are forgotten.
const (
	maxHealth  = 4096
	healthIdle = 10 * time.Minute
)

// health is what is known of one target: one model of one provider.
type health struct {
	bucket *bucket
	stuck  atomic.Int32 // calls that go on though they have ended

	mu      sync.Mutex
	touched time.Time
	slots   [slots]slot
	until   time.Time // ejected until then; zero when closed
	probe   time.Time // when the try that decides began; zero when none runs
	cool    time.Time // cooling until then
}

// slot counts the answers of slotLength, and the first tries that began in it
// and run. A retry would be counted with the wait before it.
type slot struct {
	start               int64 // Unix time in slot lengths
	ok, failed, running int
}

// bucket is a provider's retry bucket.
type bucket struct {
	mu     sync.Mutex
	tokens float64
}

func (b *bucket) income() {
	b.mu.Lock()
	b.tokens = min(b.tokens+bucketIncome, bucketSize)
	b.mu.Unlock()
}

func (b *bucket) draw() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// healthTable holds the health of all targets.
type healthTable struct {
	mu      sync.Mutex
	targets map[[2]string]*health // by provider and model
	buckets map[string]*bucket    // by provider
}

// of returns the health of a target.
func (t *healthTable) of(provider, model string) *health {
	key := [2]string{provider, model}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.targets[key]; h != nil {
		h.touch(now)
		return h
	}
	if t.targets == nil {
		t.targets = make(map[[2]string]*health)
		t.buckets = make(map[string]*bucket)
	}
	if len(t.targets) >= maxHealth {
		t.forget(now)
	}
	b := t.buckets[provider]
	if b == nil {
		b = &bucket{tokens: bucketSize}
		t.buckets[provider] = b
	}
	h := &health{bucket: b, touched: now}
	t.targets[key] = h
	return h
}

// forget drops the targets without news, and all of them where that is not
// enough: what is known of them is known again soon.
func (t *healthTable) forget(now time.Time) {
	used := make(map[string]bool)
	for key, h := range t.targets {
		if h.idle(now) {
			delete(t.targets, key)
		} else {
			used[key[0]] = true
		}
	}
	for provider := range t.buckets {
		if !used[provider] {
			delete(t.buckets, provider)
		}
	}
	if len(t.targets) >= maxHealth {
		clear(t.targets)
		clear(t.buckets)
	}
}

func (h *health) touch(now time.Time) {
	h.mu.Lock()
	h.touched = now
	h.mu.Unlock()
}

func (h *health) idle(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Sub(h.touched) > healthIdle
}

// admission is what one call has to do with a target's health.
type admission struct {
	*health
	decides time.Time // when it was let in to decide; zero when it does not
	began   int64     // the slot in which its first try began
	running bool      // that try runs, and is counted there
	slot    int64     // where its answer was counted, 0 before
}

// lets reports whether the target would be let in.
func (h *health) lets(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed(now)
}

// closed holds h.mu.
func (h *health) closed(now time.Time) bool {
	if now.Before(h.cool) {
		return false
	}
	return h.until.IsZero() || !now.Before(h.until) && h.probe.IsZero()
}

// sound reports whether the target is neither ejected nor cooling, nor has to
// prove itself.
func (h *health) sound(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until.IsZero() && !now.Before(h.cool)
}

// opens tells when the target is let in again; now or before when it is.
func (h *health) opens(now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := now
	for _, later := range [...]time.Time{h.until, h.cool} {
		if later.After(t) {
			t = later
		}
	}
	return t
}

// permitRetry reports whether a failed try may be repeated. Where another target
// could take over the bucket decides, and never at an ejected target. The last
// target may always be tried again; one that is ejected from the bucket alone,
// which an outage leaves empty: a few failures in a row happen to a target that
// answers most calls, and they must not be the end of a call that has attempts
// left. A target that cools may be: the wait before the retry is what it asked
// for.
func (h *health) permitRetry(last bool) bool {
	h.mu.Lock()
	closed := h.until.IsZero()
	h.mu.Unlock()
	switch {
	case closed && last:
		return true
	case !closed && !last:
		return false
	}
	return h.bucket.draw()
}

// admit lets a call in. Where the target was ejected it is the one that
// decides whether it comes back.
func (a *admission) admit(now time.Time) bool {
	h := a.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed(now) {
		return false
	}
	if !h.until.IsZero() {
		h.probe, a.decides = now, now
	}
	return true
}

// decided ends the probe where this call is it, and returns how long it took.
// It is false where the call is not, or where another's answer was faster. It
// holds the health's mu.
func (a *admission) decided(now time.Time) (took time.Duration, probe bool) {
	probe = !a.decides.IsZero() && a.decides.Equal(a.probe)
	if probe {
		took, a.probe = now.Sub(a.probe), time.Time{}
	}
	a.decides = time.Time{}
	return took, probe
}

// begin notes that the first try begins.
func (a *admission) begin(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.health.slot(now)
	s.running++
	a.began, a.running = s.start, true
}

// end notes that the first try does not run any more. It holds the health's mu.
func (a *admission) end() {
	if s := a.counted(a.began); a.running && s != nil {
		s.running--
	}
	a.running = false
}

// counted is the slot that began then, nil when it is over or was cleared.
func (h *health) counted(start int64) *slot {
	if s := &h.slots[start%slots]; s.start == start {
		return s
	}
	return nil
}

// release takes back an admission that came to no verdict.
func (a *admission) release() {
	a.mu.Lock()
	a.decided(time.Now())
	a.end()
	a.mu.Unlock()
}

// answered notes that there is something to hand on: a whole answer, or a
// stream's first content. A stream that is the probe need not end before its
// target is back.
func (a *admission) answered(now time.Time) {
	h := a.health
	h.bucket.income()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touched = now
	a.decided(now)
	a.end()
	if !h.until.IsZero() {
		h.close()
	}
	h.cool = time.Time{}
	s := h.slot(now)
	s.ok++
	a.slot = s.start
}

// close holds h.mu.
func (h *health) close() {
	h.until, h.probe = time.Time{}, time.Time{}
	for i := range h.slots {
		h.slots[i].ok, h.slots[i].failed = 0, 0
	}
}

// failed notes a failed attempt, with the wait that the provider asked for.
func (a *admission) failed(now time.Time, class Class, hint time.Duration) {
	row := class.row()
	h := a.health
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touched = now
	took, probe := a.decided(now)
	a.end()
	if row.Cools {
		h.coolDown(now, class, hint)
	}
	switch {
	case row.Counts && probe:
		h.until = now.Add(min(max(probeEvery, 2*took), maxPause))
	case row.Counts:
		a.uncount()
		h.count(now, a.began)
	case !probe:
	case class == ClientGone || class == Superseded || class == Deadline:
		// Says nothing about the target: the next try decides.
		h.until = now.Add(took)
	default:
		// It answers again, though not to our liking.
		h.close()
	}
}

// uncount takes back an answer that broke off. It holds the health's mu.
func (a *admission) uncount() {
	if s := a.counted(a.slot); a.slot != 0 && s != nil && s.ok > 0 {
		s.ok--
	}
	a.slot = 0
}

// coolDown holds h.mu.
func (h *health) coolDown(now time.Time, class Class, hint time.Duration) {
	d := coolAccount
	if class == RateLimit {
		d = coolRateLimit
	}
	if hint > 0 {
		d = min(hint, maxCool)
	}
	if until := now.Add(d); until.After(h.cool) {
		h.cool = until
	}
}

// count notes a failure that speaks against the target, of a try that began in
// that slot. The tries that began no later and still run have lasted longer, so
// they count as answers: otherwise a burst of calls would eject a target that
// fails some at once and takes its time for the others. It holds h.mu.
func (h *health) count(now time.Time, began int64) {
	if !h.until.IsZero() {
		return
	}
	h.slot(now).failed++
	answers, failed, running := 0, 0, 0
	oldest := now.UnixNano()/int64(slotLength) - slots
	for i := range h.slots {
		s := &h.slots[i]
		if s.start <= oldest {
			continue
		}
		answers += s.ok + s.failed
		failed += s.failed
		if s.start <= began {
			running += s.running
		}
	}
	if answers >= minAnswers && 2*failed >= answers+running {
		h.until = now.Add(probeEvery)
	}
}

// slot holds h.mu.
func (h *health) slot(now time.Time) *slot {
	n := now.UnixNano() / int64(slotLength)
	s := &h.slots[n%slots]
	if s.start != n {
		*s = slot{start: n}
	}
	return s
}
