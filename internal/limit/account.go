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

// bookName identifies the limit of a book.
type bookName struct{ workspace, limit string }

// book contains the accounts of a limit.
type book struct {
	bookName
	fleet    atomic.Pointer[fleet] // nil: the limit is not shared
	salt     uint64
	subjects atomic.Int64
	bytes    atomic.Int64                // used by its accounts
	erased   atomic.Int32                // the number of accounts with erased subjects
	accounts [shards]map[string]*account // by subject; each map has the lock of its index

	ranked  sync.Mutex
	ranking ranking
}

// account has the counters of one subject of a limit.
type account struct {
	book    *book
	subject string
	cells   *cell
	bytes   int32 // the estimated memory
	calls   int32 // in flight
	shard   uint8
	erased  bool // only the hash of the subject is shown
}

// cell is the counter of one measure in one window.
type cell struct {
	next     *cell
	portion  *portion // nil: the counter is not shared
	window   Window
	start    int64 // of the window, in nanoseconds since 1970
	used     int64
	reserved int64
	crashed  int64  // the part of used from calls whose process died
	turn     uint32 // changes with each new window
	measure  Measure
	levels   uint8 // a mask of the levels reported to Crossed: 1 is 80 percent, 2 is 100
}

// book returns the book of a limit. If it does not exist, book creates it if create is
// true, and returns nil otherwise.
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

// shard returns the index of the lock of a subject of a book.
func (l *Limiter) shard(b *book, subject string) uint8 {
	return uint8((maphash.String(l.seed, subject) ^ b.salt) % shards)
}

// account returns the account of a subject, and creates it if it does not exist. It
// returns nil if the book may have no further account. The caller holds the shard's lock.
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

// add returns the account of a subject, and creates it if it does not exist, whatever the
// memory bound says. The caller holds the shard's lock.
func (l *Limiter) add(b *book, shard uint8, subject string) *account {
	all := b.accounts[shard]
	if a := all[subject]; a != nil {
		return a
	}
	if all == nil {
		all = make(map[string]*account)
		b.accounts[shard] = all
	}
	a := &account{book: b, subject: strings.Clone(subject), shard: shard}
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

// takes counts memory of an account. The caller holds its shard's lock.
func (l *Limiter) takes(a *account, bytes int) {
	a.bytes += int32(bytes)
	a.book.bytes.Add(int64(bytes))
	l.bytes.Add(int64(bytes))
}

// admits reports whether a book may have another subject. Half of the memory is divided
// equally among all books, and any book may use the other half. So a limit whose subjects
// callers can invent does not take the memory of another limit.
func (l *Limiter) admits(b *book) bool {
	if half := l.maxBytes.Load() / 2; l.bytes.Load() >= half {
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

// drop deletes an account that has no counts and no calls. It reports whether it did. The
// caller holds the lock of its shard.
func (l *Limiter) drop(a *account, now int64) bool {
	if a.calls > 0 || a.any(now) {
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

// any reports whether an account has a count in a window that has not ended.
func (a *account) any(now int64) bool {
	for c := a.cells; c != nil; c = c.next {
		if c.counts(now) {
			return true
		}
	}
	return false
}

// counts reports whether a cell has a count in a window that has not ended.
func (c *cell) counts(now int64) bool {
	if p := c.portion; c.used == 0 && c.reserved == 0 && (p == nil || p.granted == 0 && p.queued == nil) {
		return false
	}
	_, end := c.window.span(c.start)
	return now < end
}

// find returns the cell of a ceiling, or nil if there is none.
func (a *account) find(ceiling *Ceiling) *cell {
	for c := a.cells; c != nil; c = c.next {
		if c.measure == ceiling.Measure && c.window == ceiling.Window {
			return c
		}
	}
	return nil
}

// cell returns the cell of a ceiling in the window of a time. It creates a missing cell.
func (l *Limiter) cell(a *account, ceiling *Ceiling, now int64) *cell {
	c := a.find(ceiling)
	if c == nil {
		c = &cell{window: ceiling.Window, measure: ceiling.Measure, start: math.MinInt64}
		place := &a.cells
		for *place != nil {
			if _, end := (*place).window.span((*place).start); now < end {
				place = &(*place).next
			} else {
				*place = (*place).next // its ceiling may no longer be configured
				l.takes(a, -cellBytes)
			}
		}
		*place = c
		l.takes(a, cellBytes)
	}
	a.roll(c, now)
	c.share(a.book.fleet.Load(), ceiling, now)
	return c
}

// view returns the amounts of a cell at a time. It does not change the cell.
func (c *cell) view(now int64) (used, reserved, crashed, end int64) {
	start, end := c.window.span(now)
	if start > c.start {
		return 0, 0, 0, end
	}
	if c.start <= end {
		_, end = c.window.span(c.start)
	}
	return c.total(), c.reserved, c.crashed, end
}

// roll begins the window of a time if it is a later one. If the clock was set back by up
// to the length of a window, the later window continues; if by more, the count moves to
// the earlier window.
func (a *account) roll(c *cell, now int64) {
	start, end := c.window.span(now)
	switch {
	case start == c.start:
	case start > c.start:
		c.start, c.used, c.reserved, c.crashed, c.levels = start, 0, 0, 0, 0
		c.turn++
		// If the ceiling is new, its count starts with that of a shorter window in it.
		for other := a.cells; other != nil; other = other.next {
			if other == c || other.measure != c.measure || other.start < start {
				continue
			}
			if _, ends := other.window.span(other.start); now < ends && ends <= end {
				c.used = max(c.used, sum(other.used, other.reserved))
			}
		}
		c.restart()
	case c.start > end:
		// The reservations are counted as used now; their settlements skip this counter.
		c.start, c.used, c.reserved = start, sum(c.used, c.reserved), 0
		c.turn++
		c.restart()
	}
}

const (
	// longest is the length in bytes of the longest subject that is stored unchanged.
	longest = 64
	// hashed is the number of bytes of the hash that follows the beginning of a longer
	// subject.
	hashed = 16

	// accountBytes is the memory of an account without its subject, including the map
	// entry; cellBytes is the memory of a counter. TestMemoryOfSubjects measures both.
	accountBytes = 144
	cellBytes    = 64
)

// short returns the stored form of a subject: of a long one, its beginning and a hash.
func short(subject string) string {
	if len(subject) <= longest {
		return subject
	}
	hash := sha256.Sum256([]byte(subject))
	return strings.ToValidUTF8(subject[:longest-2*hashed], "") + hex.EncodeToString(hash[:hashed])
}
