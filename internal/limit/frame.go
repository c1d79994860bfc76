package limit

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"
)

// A file is a header and frames. Each frame has the accounts of one call, or some of
// all, with all that they count: the last one of an account is what it has. The first
// frame of an account has its name, the others its number. An empty frame says that
// all accounts are in the file.
//
// Of a limit of dollars, ada's account is number 7. Her call sets 0.15 aside, and ends
// at 0.02:
//
//	7 "w" "budget" "ada": 1 call, money by the day since …: 4.80 used, 0.15 set aside
//	7: 0 calls, money by the day since …: 4.82 used, 0 set aside
const (
	headerSize = 16 // mark, generation, seed
	frameSize  = 8  // mark and length of what follows, sum
	frameMark  = 0xC5
	lengthMask = 1<<24 - 1 // of what follows, beside the mark
	chunk      = 32 << 10  // of accounts that are written together, in bytes
	version    = 1

	// What is added to the measure of a shared counter, and of one that the ledger
	// has nothing more for.
	sharedMark = 0x80
	fullMark   = 0x40
)

// fileMark are the first bytes of a file. The version follows.
const fileMark = "CzL"

func appendHeader(dst []byte, generation uint32, seed uint64) []byte {
	dst = append(append(dst, fileMark...), version)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(dst, generation), seed)
}

// seal completes the frame that begins at an offset of text.
func seal(text []byte, at int, seed uint64) {
	payload := text[at+frameSize:]
	binary.LittleEndian.PutUint32(text[at:], frameMark<<24|uint32(len(payload)))
	binary.LittleEndian.PutUint32(text[at+4:], check(payload, seed))
}

// check is the sum of a frame. A subject that looks like a frame is none: the seed is
// not known outside.
func check(payload []byte, seed uint64) uint32 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	_, _ = d.Write(payload)
	return uint32(d.Sum64())
}

// appendAccount appends what an account has, with its name unless that is known.
func (l *Limiter) appendAccount(dst []byte, a *account, named bool, now int64) []byte {
	number := a.number << 1
	if named {
		dst = binary.AppendUvarint(dst, number)
	} else {
		dst = binary.AppendUvarint(dst, number|1)
		dst = appendText(dst, a.book.workspace)
		dst = appendText(dst, a.book.limit)
		dst = appendText(dst, l.shown(a))
	}
	dst = binary.AppendUvarint(dst, uint64(a.calls))
	at, cells := len(dst), byte(0)
	dst = append(dst, 0)
	for c := a.cells; c != nil; c = c.next {
		if !l.counts(c, now) || cells == math.MaxUint8 {
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
		dst = append(dst, kind, c.told)
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
	dst[at] = cells
	return dst
}

func appendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// name is that of an account.
type name struct {
	bookName
	subject string
}

// state is what a file has.
type state struct {
	generation uint32
	whole      bool // all accounts are in it
	damaged    int  // frames that are not what was written, as far as they can be told apart
	accounts   map[name]*saved
}

// saved is an account in a file.
type saved struct {
	calls int64
	cells []cell
}

// readState reads a file of this version, or an empty one.
func readState(text []byte) *state {
	s := &state{accounts: make(map[name]*saved)}
	if len(text) < headerSize {
		if len(text) > 0 {
			s.damaged++
		}
		return s
	}
	s.generation = binary.LittleEndian.Uint32(text[4:])
	seed := binary.LittleEndian.Uint64(text[8:])
	names, numbered := make(map[uint64]name), make(map[uint64]*saved)
	words := make(map[string]string) // of workspaces and limits, each once
	sound := true
	for at := headerSize; at < len(text); {
		payload := frameAt(text[at:], seed)
		if payload == nil {
			if sound {
				s.damaged++
			}
			sound = false
			at++
			continue
		}
		sound = true
		at += frameSize + len(payload)
		if len(payload) == 0 {
			s.whole = true
		}
		for len(payload) > 0 {
			if payload = readAccount(payload, names, numbered, words); payload == nil {
				s.damaged++
			}
		}
	}
	// An account that was dropped and came again has a later number.
	latest := make(map[name]uint64)
	for number, a := range numbered {
		name, ok := names[number]
		switch {
		case !ok:
			s.damaged++
		case number >= latest[name]:
			latest[name], s.accounts[name] = number, a
		}
	}
	return s
}

// frameAt returns the payload of the frame that text begins with, nil where there is
// none.
func frameAt(text []byte, seed uint64) []byte {
	if len(text) < frameSize || text[3] != frameMark {
		return nil
	}
	length := int(binary.LittleEndian.Uint32(text) & lengthMask)
	if length > len(text)-frameSize {
		return nil
	}
	payload := text[frameSize : frameSize+length]
	if binary.LittleEndian.Uint32(text[4:]) != check(payload, seed) {
		return nil
	}
	return payload
}

// reader reads the members of a frame. What is missing reads as zero, and fails.
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

// readAccount reads the first account of a payload, and returns what follows it: nil
// where it is malformed, which the sum of the frame all but rules out.
func readAccount(payload []byte, names map[uint64]name, numbered map[uint64]*saved, words map[string]string) []byte {
	r := reader{text: payload}
	number := r.number()
	if number&1 == 1 {
		word := func() string {
			text := r.bytes(r.number())
			known, ok := words[string(text)]
			if !ok {
				known = string(text)
				words[known] = known
			}
			return known
		}
		full := name{bookName{word(), word()}, string(r.bytes(r.number()))}
		if !r.failed {
			names[number>>1] = full
		}
	}
	a := &saved{calls: int64(r.number())}
	for range r.bytes(1)[0] {
		kind := r.bytes(2)
		a.cells = append(a.cells, cell{
			measure: Measure(kind[0] &^ (sharedMark | fullMark)), told: kind[1],
			window: Window{time.Duration(r.number())}, start: r.signed(),
			used: int64(r.number()), reserved: int64(r.number()), crashed: int64(r.number()),
		})
		c := &a.cells[len(a.cells)-1]
		if kind[0]&sharedMark != 0 {
			c.portion = &portion{granted: int64(r.number()), reported: int64(r.number()), known: kind[0]&fullMark != 0}
		}
		if r.failed || c.measure >= InFlight || kind[0]&(sharedMark|fullMark) == fullMark {
			return nil
		}
	}
	if r.failed {
		return nil
	}
	numbered[number>>1] = a
	return r.text
}
