package limit

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const (
	// manySubjects is the number of subjects at which Subjects begins to reuse answers.
	manySubjects = 10_000
	// rankEvery times the duration of a search is the time for which its answer is reused.
	rankEvery = 200
)

// standing returns the standing of an account with a ceiling. The cell is nil if nothing
// has been counted. The caller holds the lock of the account's shard.
func (l *Limiter) standing(a *account, limit *Limit, ceiling *Ceiling, c *cell, now int64) Standing {
	s := Standing{Ask: Ask{limit, l.shown(a)}, Ceiling: *ceiling}
	if ceiling.Measure == InFlight {
		s.Used = int64(a.calls)
		return s
	}
	var end int64
	if c == nil {
		_, end = ceiling.Window.span(now)
	} else {
		s.Used, s.Reserved, s.Crashed, end = c.view(now)
	}
	s.Resets = time.Unix(0, end)
	return s
}

// noAccount stands for the account of a subject that has none.
var noAccount = new(account)

// look calls see with the account under which a subject counts. It holds its lock.
func (l *Limiter) look(workspace string, ask Ask, see func(a *account)) {
	b := l.book(workspace, ask.Limit.Name, false)
	if b == nil {
		see(noAccount)
		return
	}
	subject := l.counted(b, ask.Subject)
	for {
		shard := l.shard(b, subject)
		lock := &l.locks[shard]
		lock.Lock()
		a := b.accounts[shard][subject]
		if a == nil && subject != Others && !l.admits(b) {
			lock.Unlock()
			subject = Others
			continue
		}
		if a == nil {
			a = noAccount
		}
		see(a)
		lock.Unlock()
		return
	}
}

// AppendStandings appends the standings of a subject with the ceilings of a limit, in
// their order.
func (l *Limiter) AppendStandings(dst []Standing, workspace string, now time.Time, ask Ask) []Standing {
	at := now.UnixNano()
	l.look(workspace, ask, func(a *account) {
		for i := range ask.Limit.Ceilings {
			ceiling := &ask.Limit.Ceilings[i]
			s := l.standing(a, ask.Limit, ceiling, a.find(ceiling), at)
			s.Ask = ask
			dst = append(dst, s)
		}
	})
	return dst
}

// Subjects returns the subjects of a limit that use the largest shares of it, largest
// first, up to count subjects: each with the fullest of the limit's ceilings. It omits
// subjects without use. It examines each subject of the limit once and locks 1/64 of them
// at a time; calls of these subjects wait meanwhile. If a limit has 10,000 subjects or
// more, Subjects reuses the answer for 200 times as long as the search took, so that
// readers use half a percent of a processor at most.
func (l *Limiter) Subjects(workspace string, now time.Time, limit *Limit, count int) []Standing {
	b := l.book(workspace, limit.Name, false)
	if b == nil || count <= 0 {
		return nil
	}
	if b.subjects.Load() < manySubjects {
		return l.rank(b, now.UnixNano(), limit, count)
	}
	asked := count
	b.ranked.Lock()
	defer b.ranked.Unlock()
	r := &b.ranking
	if r.limit != limit || r.count < count || time.Now().After(r.until) {
		if r.limit == limit {
			count = max(count, r.count) // another reader needs so many
		}
		begun := time.Now()
		all := l.rank(b, now.UnixNano(), limit, count)
		*r = ranking{all, limit, count, time.Now().Add(rankEvery * time.Since(begun))}
	}
	return slices.Clone(r.all[:min(asked, len(r.all))])
}

// ranking is the last answer of Subjects, which is reused until a time.
type ranking struct {
	all   []Standing
	limit *Limit
	count int
	until time.Time
}

// rank examines all subjects of a limit.
func (l *Limiter) rank(b *book, at int64, limit *Limit, count int) []Standing {
	var found []ranked
	for shard := range b.accounts {
		l.locks[shard].Lock()
		for _, a := range b.accounts[shard] {
			ceiling, share := l.fullest(a, limit, at)
			if share == 0 || len(found) == count && share < found[count-1].share {
				continue
			}
			r := ranked{l.standing(a, limit, ceiling, a.find(ceiling), at), share}
			place, _ := slices.BinarySearchFunc(found, r, ranked.compare)
			found = slices.Insert(found, place, r)
			found = found[:min(len(found), count)]
		}
		l.locks[shard].Unlock()
	}
	all := make([]Standing, len(found))
	for i := range found {
		all[i] = found[i].Standing
	}
	return all
}

// fullest returns the ceiling of which an account uses the largest share: 1 is all of it,
// 0 is no use. The caller holds the lock of the account's shard.
func (l *Limiter) fullest(a *account, limit *Limit, now int64) (fullest *Ceiling, share float64) {
	for i := range limit.Ceilings {
		ceiling := &limit.Ceilings[i]
		amount := float64(a.calls)
		if ceiling.Measure != InFlight {
			c := a.find(ceiling)
			if c == nil {
				continue
			}
			used, reserved, _, _ := c.view(now)
			amount = float64(used) + float64(reserved)
		}
		part := amount / float64(max(ceiling.Most, 1))
		if ceiling.Most <= 0 && amount > 0 {
			part = 1
		}
		if part > share {
			fullest, share = ceiling, part
		}
	}
	return fullest, share
}

// ranked is a subject with its share.
type ranked struct {
	Standing
	share float64
}

// compare orders subjects by share, largest first, then by name.
func (r ranked) compare(other ranked) int {
	return cmp.Or(cmp.Compare(other.share, r.share), strings.Compare(r.Subject, other.Subject))
}
