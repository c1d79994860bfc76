package limit

import (
	"encoding/binary"
	"math"
	"time"
)

const (
	chunk = 32 << 10 // the size of a record of several accounts, in bytes

	// Flags in the byte of a counter's measure: the counter is shared; the ledger has
	// nothing more for it.
	sharedMark = 0x80
	fullMark   = 0x40
)

// name identifies an account.
type name struct {
	bookName
	subject string
}

// saved is an account in a file.
type saved struct {
	calls int64
	cells []cell
}

// appendAccount appends the counts of an account. With a limit in dollars, ada's call sets
// 0.15 aside, and ends at 0.02:
//
//	"w" "budget" "ada": 1 call, money by the day since …: 4.80 used, 0.15 set aside
//	"w" "budget" "ada": 0 calls, money by the day since …: 4.82 used, 0 set aside
func (l *Limiter) appendAccount(dst []byte, a *account, now int64) []byte {
	dst = appendText(dst, a.book.workspace)
	dst = appendText(dst, a.book.limit)
	dst = appendText(dst, l.shown(a))
	dst = binary.AppendUvarint(dst, uint64(a.calls))
	length, cells := len(dst), byte(0)
	dst = append(dst, 0)
	for c := a.cells; c != nil; c = c.next {
		if !c.counts(now) || cells == math.MaxUint8 {
			continue
		}
		cells++
		kind := byte(c.measure)
		if p := c.portion; p != nil {
			kind |= sharedMark
			if p.full() {
				kind |= fullMark
			}
		}
		dst = append(dst, kind, c.levels)
		dst = binary.AppendUvarint(dst, uint64(c.window.Length))
		dst = binary.AppendVarint(dst, c.start)
		dst = binary.AppendUvarint(dst, uint64(c.used))
		dst = binary.AppendUvarint(dst, uint64(c.reserved))
		dst = binary.AppendUvarint(dst, uint64(c.crashed))
		if p := c.portion; p != nil {
			dst = binary.AppendUvarint(dst, uint64(max(p.granted-p.unbooked, 0)))
			dst = binary.AppendUvarint(dst, uint64(max(p.reported, 0)))
		}
	}
	dst[length] = cells
	return dst
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// reader reads the members of a record. A missing member reads as zero, and sets failed.
type reader struct {
	text   []byte
	failed bool
}

func (r *reader) number() uint64 {
	n, length := binary.Uvarint(r.text)
	if length <= 0 || n > math.MaxInt64 {
		r.text, r.failed = nil, true
		return 0
	}
	r.text = r.text[length:]
	return n
}

func (r *reader) signed() int64 {
	n, length := binary.Varint(r.text)
	if length <= 0 {
		r.text, r.failed = nil, true
		return 0
	}
	r.text = r.text[length:]
	return n
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.text)) {
		r.text, r.failed = nil, true
		return make([]byte, 2)
	}
	text := r.text[:n]
	r.text = r.text[n:]
	return text
}

// readAccounts reads the accounts of a record into found, and replaces earlier ones. It
// reports false if the record is malformed, which the record's checksum makes unlikely.
func readAccounts(record []byte, found map[name]*saved, words map[string]string) bool {
	r := reader{text: record}
	word := func() string {
		text := r.bytes(r.number())
		known, ok := words[string(text)]
		if !ok {
			known = string(text)
			words[known] = known
		}
		return known
	}
	for len(r.text) > 0 {
		full := name{bookName{word(), word()}, string(r.bytes(r.number()))}
		a := &saved{calls: int64(r.number())}
		for range r.bytes(1)[0] {
			kind := r.bytes(2)
			a.cells = append(a.cells, cell{
				measure: Measure(kind[0] &^ (sharedMark | fullMark)), levels: kind[1],
				window: Window{time.Duration(r.number())}, start: r.signed(),
				used: int64(r.number()), reserved: int64(r.number()), crashed: int64(r.number()),
			})
			c := &a.cells[len(a.cells)-1]
			if kind[0]&sharedMark != 0 {
				c.portion = &portion{granted: int64(r.number()), reported: int64(r.number()), known: kind[0]&fullMark != 0}
			}
			if r.failed || c.measure >= InFlight || kind[0]&(sharedMark|fullMark) == fullMark {
				return false
			}
		}
		if r.failed {
			return false
		}
		found[full] = a
	}
	return true
}
