package limit

import (
	"math"
	"os"
)

// peek counts what the files have where this process can't have them, and can read them:
// because another process has them, or the disk is not to be written. Once it has them,
// it counts what was added.
func (f *file) peek() {
	var states [2]*state
	some := false
	for i := range states {
		text, err := os.ReadFile(f.name(i))
		if err != nil || !known(text) {
			text = nil
		}
		some = some || len(text) > 0
		states[i] = readState(text)
	}
	if !some {
		return
	}
	found := states[newest(states)]
	f.before = make(map[name]*saved)
	f.merge(found, false)
	f.before = found.accounts
}

// merge counts what a file has. Where the process that wrote it is dead, what its calls
// had set aside counts in full. Where it lives, that is as much as they can use.
func (f *file) merge(found *state, dead bool) {
	l := f.limiter
	var calls int64
	for name, s := range found.accounts {
		b := l.book(name.workspace, name.limit, true)
		shard := l.shard(b, name.subject)
		l.locks[shard].Lock()
		a := l.add(b, shard, name.subject)
		for i := range s.cells {
			c := s.cells[i]
			if dead {
				c.crashed = sum(c.crashed, c.reserved)
			}
			c.used, c.reserved = sum(c.used, c.reserved), 0
			if p := c.portion; p != nil && !dead {
				p.granted = min(p.granted, c.used) // it may use the rest itself
			}
			f.count(a, name, &c)
		}
		l.locks[shard].Unlock()
		calls += s.calls
	}
	if !dead {
		return
	}
	f.mu.Lock()
	f.crashed += calls
	f.damaged += int64(found.damaged)
	f.mu.Unlock()
	if calls > 0 {
		f.logger.Warn("calls of a process that died count in full in their limits", "file", f.path, "calls", calls)
	}
	if found.damaged > 0 {
		f.logger.Warn("damaged records of limits were passed over", "file", f.path, "count", found.damaged)
	}
}

// count counts a cell of a file, less what was counted of it before.
func (f *file) count(a *account, of name, found *cell) {
	var counted int64
	var granted portion // with what was counted before
	if before := f.before[of]; before != nil {
		for i := range before.cells {
			c := &before.cells[i]
			if c.measure == found.measure && c.window == found.window && c.start == found.start {
				counted = sum(c.used, c.reserved)
				if p := c.portion; p != nil {
					granted = portion{granted: min(p.granted, counted), reported: p.reported}
				}
			}
		}
	}
	c := a.find(&Ceiling{Measure: found.measure, Window: found.window})
	if c == nil {
		c = &cell{next: a.cells, window: found.window, measure: found.measure, start: math.MinInt64}
		a.cells = c
		f.limiter.takes(a, cellBytes)
	}
	switch {
	case c.start > found.start:
		return
	case c.start < found.start:
		c.start, c.used, c.reserved, c.told, c.portion = found.start, found.used, 0, found.told, found.portion
		c.turn++
	default:
		c.used = max(sum(c.used, found.used)-counted, 0)
		if p, q := c.portion, found.portion; p != nil && q != nil {
			p.granted = max(sum(p.granted, q.granted)-granted.granted, 0)
			p.reported += q.reported - granted.reported
			p.known, p.remains = p.known || q.known, 0
		}
	}
	c.crashed = found.crashed
}
