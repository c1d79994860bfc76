package limit

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"
)

const (
	// manySubjects is how many a limit has whose fullest are not looked for each time.
	manySubjects = 10_000
	// rankEvery is for how many times as long as it took an answer is given again.
	rankEvery = 200
)

// standing returns how an account stands with a ceiling. The cell is nil where nothing
// has been counted. The lock of the account's shard is held.
func (l *Limiter) standing(a *account, limit *Limit, of *Ceiling, c *cell, now int64) Standing {
	s := Standing{Ask: Ask{limit, l.shown(a)}, Ceiling: *of}
	if of.Measure == InFlight {
		s.Used = int64(a.calls)
		return s
	}
	var end int64
	if c == nil {
		_, end = l.span(of.Window, now)
	} else {
		s.Used, s.Reserved, s.Crashed, end = l.view(c, now)
	}
	s.Resets = time.Unix(0, end)
	return s
}

// none is the account of a subject that has none.
var none = new(account)

// look calls see with the account that a subject counts in, and its lock held.
func (l *Limiter) look(workspace string, ask Ask, see func(a *account)) {
	b := l.book(workspace, ask.Limit.Name, false)
	if b == nil {
		see(none)
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
			a = none
		}
		see(a)
		lock.Unlock()
		return
	}
}

// Share returns the share of a limit that is used, in percent: that of the fullest of
// its ceilings, with what is set aside. It is rounded down, and may be above 100.
func (l *Limiter) Share(workspace string, now time.Time, ask Ask) (share int) {
	at := now.UnixNano()
	l.look(workspace, ask, func(a *account) {
		for i := range ask.Limit.Ceilings {
			of := &ask.Limit.Ceilings[i]
			s := l.standing(a, ask.Limit, of, a.find(of), at)
			share = max(share, s.Share())
		}
	})
	return share
}

// AppendStandings appends how a subject stands with each ceiling of a limit, in their
// order.
func (l *Limiter) AppendStandings(dst []Standing, workspace string, now time.Time, ask Ask) []Standing {
	at := now.UnixNano()
	l.look(workspace, ask, func(a *account) {
		for i := range ask.Limit.Ceilings {
			of := &ask.Limit.Ceilings[i]
			s := l.standing(a, ask.Limit, of, a.find(of), at)
			s.Ask = ask
			dst = append(dst, s)
		}
	})
	return dst
}

// Subjects returns the subjects of a limit that use the largest shares of it, the
// largest first, most at most: each with the fullest of the limit's ceilings. Those
// that use nothing are left out. It looks at each subject of the limit once, 1/64 of
// them at a time, which calls for these wait for. Of a limit with 10,000 subjects or
// more the answer is given again until 200 times as long as it took has passed, so
// that no reader costs more than half a percent of a processor.
func (l *Limiter) Subjects(workspace string, now time.Time, limit *Limit, most int) []Standing {
	b := l.book(workspace, limit.Name, false)
	if b == nil || most <= 0 {
		return nil
	}
	if b.subjects.Load() < manySubjects {
		return l.rank(b, now.UnixNano(), limit, most)
	}
	asked := most
	b.ranked.Lock()
	defer b.ranked.Unlock()
	r := &b.ranking
	if r.of != limit || r.most < most || time.Now().After(r.until) {
		if r.of == limit {
			most = max(most, r.most) // another reader asks for so many
		}
		begun := time.Now()
		all := l.rank(b, now.UnixNano(), limit, most)
		*r = ranking{all, limit, most, time.Now().Add(rankEvery * time.Since(begun))}
	}
	return slices.Clone(r.all[:min(asked, len(r.all))])
}

// ranking is the last answer of Subjects, and until when it is given again.
type ranking struct {
	all   []Standing
	of    *Limit
	most  int
	until time.Time
}

// rank looks at all subjects of a limit.
func (l *Limiter) rank(b *book, at int64, limit *Limit, most int) []Standing {
	var found fullest
	for shard := range b.accounts {
		l.locks[shard].Lock()
		for _, a := range b.accounts[shard] {
			of, share := l.fullest(a, limit, at)
			if share > 0 && (len(found) < most || share >= found[0].share) {
				found.add(ranked{l.standing(a, limit, of, a.find(of), at), share}, most)
			}
		}
		l.locks[shard].Unlock()
	}
	slices.SortFunc(found, func(a, b ranked) int { return b.compare(a) })
	all := make([]Standing, len(found))
	for i := range found {
		all[i] = found[i].Standing
	}
	return all
}

// fullest returns the ceiling of which an account has the largest share, which is 1 for
// all of it, and 0 where nothing is used. The lock of the account's shard is held.
func (l *Limiter) fullest(a *account, limit *Limit, now int64) (fullest *Ceiling, share float64) {
	for i := range limit.Ceilings {
		of := &limit.Ceilings[i]
		amount := float64(a.calls)
		if of.Measure != InFlight {
			c := a.find(of)
			if c == nil {
				continue
			}
			used, reserved, _, _ := l.view(c, now)
			amount = float64(used) + float64(reserved)
		}
		is := amount / float64(max(of.Most, 1))
		if of.Most <= 0 && amount > 0 {
			is = 1
		}
		if is > share {
			fullest, share = of, is
		}
	}
	return fullest, share
}

// ranked is a subject with its share.
type ranked struct {
	Standing
	share float64
}

// compare orders by share, and by name among equals.
func (r ranked) compare(other ranked) int {
	return cmp.Or(cmp.Compare(r.share, other.share), strings.Compare(other.Subject, r.Subject))
}

// fullest is a heap of ranked subjects, the least full first.
type fullest []ranked

func (f fullest) Len() int           { return len(f) }
func (f fullest) Less(i, j int) bool { return f[i].compare(f[j]) < 0 }
func (f fullest) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *fullest) Push(r any)        { *f = append(*f, r.(ranked)) }
func (f *fullest) Pop() any          { panic("limit: nothing is taken from the heap") }

// add adds one, in the place of the least full where there are most already.
func (f *fullest) add(r ranked, most int) {
	switch {
	case len(*f) < most:
		heap.Push(f, r)
	case r.compare((*f)[0]) > 0:
		(*f)[0] = r
		heap.Fix(f, 0)
	}
}
