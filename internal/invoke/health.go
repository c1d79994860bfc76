package invoke

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// The breaker ejects a target when at least half of at least 20 answers in 30
// seconds failed. From then on it admits one try at a time, which decides whether
// the target comes back. The pause between two tries is 4 seconds, so that a
// target that works again serves soon. A try that failed late delayed its caller,
// so the pause after it is twice its time, two minutes at most.
//
// For example, the target ejected at 10:00:00 is tried at 10:00:04. If that try
// fails at once the next one is at 10:00:08; if it times out after 20 s, at
// 10:01:04.
const (
	slotLength = 5 * time.Second
	slots      = 6
	minAnswers = 20
	probeEvery = 4 * time.Second
	maxPause   = 2 * time.Minute
)

// The cool-downs. A target that limits the rate, or does not accept the account,
// is left alone for as long as it asks, else for these times.
const (
	coolRateLimit = 5 * time.Second
	coolAccount   = time.Minute
	maxCool       = 10 * time.Minute
)

// The retry bucket of a provider. Each answer adds to it and each retry takes from
// it, so retries stay near a fifth of the traffic.
const (
	bucketSize   = 10.0
	bucketIncome = 0.2
)

// maxHealth bounds the number of targets in the table. Above it, targets without a
// call for ten minutes are dropped.
const (
	maxHealth  = 4096
	healthIdle = 10 * time.Minute
)

// health is the state of one target: one model of one provider.
type health struct {
	provider, model string
	bucket          *bucket

	mu      sync.Mutex
	touched time.Time
	slots   [slots]slot
	until   time.Time // ejected until then; zero when closed
	probe   time.Time // when the deciding try began; zero when none runs
	cool    time.Time // cooling until then
	record  record
}

// slot counts the answers within one slotLength, and the first tries that began in
// it and still run. Retries are left out, because the wait before one would count
// as its running time.
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

// get returns the health of a target.
func (t *healthTable) get(provider, model string) *health {
	key := [2]string{provider, model}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.targets[key]; h != nil {
		h.mu.Lock()
		h.touched = now
		h.mu.Unlock()
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
	h := &health{provider: provider, model: model, bucket: b, touched: now}
	t.targets[key] = h
	return h
}

// all returns the health of all targets.
func (t *healthTable) all() []*health {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.targets))
}

// forget drops the targets without a recent call, or all of them if that is not
// enough. Their health is soon known again.
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

func (h *health) idle(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Sub(h.touched) > healthIdle
}

// admission is one call's part in a target's health.
type admission struct {
	*health
	decides time.Time // when it was let in to decide; zero when it does not
	began   int64     // the slot in which its first try began
	running bool      // that try runs, and is counted there
	slot    int64     // the slot that counts its answer; 0 before
}

// admits reports whether the target would admit a call.
func (h *health) admits(now time.Time) bool {
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

// opens returns when the target will admit a call; now or earlier if it does.
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

// permitRetry reports whether a failed try may be repeated.
//
//   - At a target in good health that is followed by others, the bucket decides.
//   - At an ejected target that is followed by others, never.
//   - At the last target, always while it is in good health.
//   - At the last target when it is ejected, the bucket decides, which an outage
//     leaves empty. A few failures in a row happen to targets that answer most
//     calls, and must not end a call that has attempts left. A light key's retry
//     does not need the bucket, which heavy keys empty.
//
// A target that cools down may be tried again: the wait before the retry is the
// one that it asked for.
func (h *health) permitRetry(last, light bool) bool {
	h.mu.Lock()
	closed := h.until.IsZero()
	h.mu.Unlock()
	switch {
	case closed && last:
		return true
	case !closed && !last:
		return false
	}
	return last && light || h.bucket.draw()
}

// admit admits a call if the target does so now. If the target is ejected, this
// call decides whether it comes back.
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

// decided ends the probe if this call is the probe, and returns how long it
// took. It returns false if the call is not the probe, or another call's answer
// was faster. The caller holds the health's mu.
func (a *admission) decided(now time.Time) (took time.Duration, probe bool) {
	probe = !a.decides.IsZero() && a.decides.Equal(a.probe)
	if probe {
		took, a.probe = now.Sub(a.probe), time.Time{}
	}
	a.decides = time.Time{}
	return took, probe
}

// begin records that the first try begins.
func (a *admission) begin(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.health.slot(now)
	s.running++
	a.began, a.running = s.start, true
}

// end records that the first try has ended. It holds the health's mu.
func (a *admission) end() {
	if s := a.counted(a.began); a.running && s != nil {
		s.running--
	}
	a.running = false
}

// counted returns the slot that began at start, nil when it is over or was
// cleared.
func (h *health) counted(start int64) *slot {
	if s := &h.slots[start%slots]; s.start == start {
		return s
	}
	return nil
}

// release takes back an admission without a verdict on the target.
func (a *admission) release() {
	a.mu.Lock()
	a.decided(time.Now())
	a.end()
	a.mu.Unlock()
}

// answered records an answer: a whole one, or a stream's first content. A stream
// that is the probe thus brings its target back before it ends. It returns
// the change of the target's health, nil for none.
func (a *admission) answered(now time.Time) *Change {
	h := a.health
	h.bucket.income()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touched = now
	a.decided(now)
	a.end()
	change := h.noteAnswer(now)
	if !h.until.IsZero() {
		h.close()
	}
	h.cool = time.Time{}
	s := h.slot(now)
	s.ok++
	a.slot = s.start
	return change
}

// close holds h.mu.
func (h *health) close() {
	h.until, h.probe = time.Time{}, time.Time{}
	for i := range h.slots {
		h.slots[i].ok, h.slots[i].failed = 0, 0
	}
}

// failed records a failed attempt: its class, the wait that the provider asked
// for and a text that explains it. It returns the change of the target's health,
// or nil.
func (a *admission) failed(now time.Time, class Class, hint time.Duration, text string) *Change {
	row := class.row()
	h := a.health
	h.mu.Lock()
	defer h.mu.Unlock()
	h.touched = now
	ejected, cooling := !h.until.IsZero(), now.Before(h.cool)
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
		// The target answers again, though with an error.
		h.close()
	}
	return h.noteFailure(Failure{class, text, now}, ejected, cooling)
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

// count records a failure against the target, of a try that began in that slot.
// The tries that began no later and still run have lasted longer, so they count as
// answers: otherwise a burst of calls would eject a target that fails some at once
// and answers the others slowly. It holds h.mu.
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
