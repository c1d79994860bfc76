package limit

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
)

// bookName is whose limit a book is of.
type bookName struct{ workspace, limit string }

// book has the accounts of a limit.
type book struct {
	bookName
	fleet    atomic.Pointer[fleet] // nil: its limit is not shared
	salt     uint64
	subjects atomic.Int64
	bytes    atomic.Int64                // that its accounts take
	erased   atomic.Int32                // of its accounts, whose subjects were
	accounts [shards]map[string]*account // each is under the lock of its number

	ranked  sync.Mutex
	ranking ranking
}

// account has the counters of one subject of a limit.
type account struct {
	book    *book
	subject string
	cells   *cell
	number  uint64 // in the file
	bytes   int32  // as they are counted
	calls   int32  // in flight
	shard   uint8
	named   bool // the file has its name
	erased  bool // its subject is shown to nobody
}

// cell is the counter of one measure in one window.
type cell struct {
	next     *cell
	portion  *portion // nil: the counter is not shared
	window   Window
	start    int64 // of the window, in nanoseconds since 1970
	used     int64
	reserved int64
	crashed  int64  // of used
	turn     uint32 // changes with the window that is counted
	measure  Measure
	told     uint8 // of the levels that Crossed has had: 1 for 80 percent, 2 for 100
}

// book returns that of a limit, nil where there is none and create is not set.
func (l *Limiter) book(workspace, limit string, create bool) *book {
	if b := (*l.books.Load())[bookName{workspace, limit}]; b != nil || !create {
		return b
	}
	l.adding.Lock()
	defer l.adding.Unlock()
	books := *l.books.Load()
	name := bookName{strings.Clone(workspace), strings.Clone(limit)}
	if b := books[name]; b != nil {
		return b
	}
	b := &book{bookName: name, salt: maphash.Comparable(l.seed, name)}
	b.fleet.Store(l.fleet(workspace))
	books = maps.Clone(books)
	books[name] = b
	l.books.Store(&books)
	return b
}

// shard returns the number of the lock that a subject of a book has.
func (l *Limiter) shard(b *book, subject string) uint8 {
	return uint8((maphash.String(l.seed, subject) ^ b.salt) % shards)
}

// account returns that of a subject, and makes it where there is none. It returns nil
// where the book has no room for another one. The lock of the shard is held.
func (l *Limiter) account(b *book, shard uint8, subject string, now int64) *account {
	all := b.accounts[shard]
	if a := all[subject]; a != nil {
		return a
	}
	left := looked
	for _, old := range all {
		if left == 0 {
			break
		}
		left--
		l.drop(old, now)
	}
	if subject != Others && !l.admits(b) {
		return nil
	}
	return l.add(b, shard, subject)
}

// add returns the account of a subject, and makes it where there is none, room or not.
// The lock of the shard is held.
func (l *Limiter) add(b *book, shard uint8, subject string) *account {
	all := b.accounts[shard]
	if a := all[subject]; a != nil {
		return a
	}
	if all == nil {
		all = make(map[string]*account)
		b.accounts[shard] = all
	}
	a := &account{book: b, subject: strings.Clone(subject), shard: shard, number: l.numbers.Add(1)}
	all[a.subject] = a
	b.subjects.Add(1)
	l.subjects.Add(1)
	if strings.HasPrefix(subject, erasedMark) {
		a.erased = true
		b.erased.Add(1)
	}
	l.takes(a, accountBytes+len(a.subject))
	return a
}

// takes counts the memory of an account. The lock of its shard is held.
func (l *Limiter) takes(a *account, bytes int) {
	a.bytes += int32(bytes)
	a.book.bytes.Add(int64(bytes))
	l.bytes.Add(int64(bytes))
}

// admits reports whether a book has room for another subject. Half of the room is
// divided among all books in equal parts, and any book may use the other half: no
// limit whose subjects callers can make up takes the part of another.
func (l *Limiter) admits(b *book) bool {
	if half := l.most.Load() / 2; l.bytes.Load() >= half {
		books := *l.books.Load()
		part := half / int64(len(books))
		if b.bytes.Load() < part {
			return true
		}
		var beyond int64
		for _, other := range books {
			beyond += max(other.bytes.Load()-part, 0)
		}
		return beyond < half
	}
	return true
}

// drop drops an account that counts nothing any more. The lock of its shard is held.
func (l *Limiter) drop(a *account, now int64) bool {
	if a.calls > 0 || l.any(a, now) {
		return false
	}
	delete(a.book.accounts[a.shard], a.subject)
	a.book.subjects.Add(-1)
	if a.erased {
		a.book.erased.Add(-1)
	}
	l.subjects.Add(-1)
	l.takes(a, -int(a.bytes))
	return true
}

// any reports whether an account has anything in a window that has not ended.
func (l *Limiter) any(a *account, now int64) bool {
	for c := a.cells; c != nil; c = c.next {
		if l.counts(c, now) {
			return true
		}
	}
	return false
}

// counts reports whether a cell has anything in a window that has not ended.
func (l *Limiter) counts(c *cell, now int64) bool {
	if p := c.portion; c.used == 0 && c.reserved == 0 && (p == nil || p.granted == 0 && p.queued == nil) {
		return false
	}
	_, end := l.span(c.window, c.start)
	return now < end
}

// find returns the cell of a ceiling, nil where there is none.
func (a *account) find(of *Ceiling) *cell {
	for c := a.cells; c != nil; c = c.next {
		if c.measure == of.Measure && c.window == of.Window {
			return c
		}
	}
	return nil
}

// cell returns the cell of a ceiling in the window of a time, and makes it where there
// is none.
func (l *Limiter) cell(a *account, of *Ceiling, now int64) *cell {
	c := a.find(of)
	if c == nil {
		c = &cell{window: of.Window, measure: of.Measure, start: math.MinInt64}
		at := &a.cells
		for *at != nil {
			if _, end := l.span((*at).window, (*at).start); now < end {
				at = &(*at).next
			} else {
				*at = (*at).next // of a ceiling that is no longer configured, perhaps
				l.takes(a, -cellBytes)
			}
		}
		*at = c
		l.takes(a, cellBytes)
	}
	l.roll(a, c, now)
	c.share(a.book.fleet.Load(), of, now)
	return c
}

// view returns what a cell shows at a time, without a change.
func (l *Limiter) view(c *cell, now int64) (used, reserved, crashed, end int64) {
	start, end := l.span(c.window, now)
	if start > c.start {
		return 0, 0, 0, end
	}
	if c.start <= end {
		_, end = l.span(c.window, c.start)
	}
	return c.total(), c.reserved, c.crashed, end
}

// roll begins the window of a time, where it is a later one. A clock that was set back
// goes on with the later window: up to the length of one, and beyond it the count
// moves.
func (l *Limiter) roll(a *account, c *cell, now int64) {
	start, end := l.span(c.window, now)
	switch {
	case start == c.start:
	case start > c.start:
		c.start, c.used, c.reserved, c.crashed, c.told = start, 0, 0, 0, 0
		c.turn++
		// What a shorter window has counted is a part of this one. The ceiling may be
		// new.
		for other := a.cells; other != nil; other = other.next {
			if other == c || other.measure != c.measure || other.start < start {
				continue
			}
			if _, ends := l.span(other.window, other.start); now < ends && ends <= end {
				c.used = max(c.used, sum(other.used, other.reserved))
			}
		}
		c.restart()
	case c.start > end:
		// The reservations end without this counter: they have been counted in full.
		c.start, c.used, c.reserved = start, sum(c.used, c.reserved), 0
		c.turn++
		c.restart()
	}
}

const (
	// longest is the length of the longest subject that is kept as it is, in bytes.
	longest = 64
	// hashed are the bytes of the hash that is kept of a longer one, behind its
	// beginning.
	hashed = 16

	// accountBytes is what an account takes beside its subject, with its place in the
	// map, and cellBytes what a counter does. TestMemoryOfSubjects measures both.
	accountBytes = 144
	cellBytes    = 64
)

// short returns a subject as it is counted: a longer one by its beginning and a hash.
func short(subject string) string {
	if len(subject) <= longest {
		return subject
	}
	hash := sha256.Sum256([]byte(subject))
	return strings.ToValidUTF8(subject[:longest-2*hashed], "") + hex.EncodeToString(hash[:hashed])
}
