package sqlite

import (
	"crypto/sha256"
	_ "embed" // for the schema
	"slices"
	"sort"
	"unicode/utf8"

	large "github.com/cadenza-gateway/cadenza/internal/buffers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// A caller sends a whole conversation with each turn, so the messages of a trace begin with
// those of the trace before it. The texts that they are cut into are stored once: of 200
// turns, a megabyte instead of a hundred.

//go:embed texts.sql
var textsSchema string

// textSize is the size of a text, in bytes. The last messages of a trace, fewer than these,
// are in its own row.
const textSize = 16 << 10

// ends returns where the texts of messages end: every textSize bytes, between characters.
// What comes later changes none but the last, if it ends within a character.
func ends(messages []byte) (ends []int) {
	for end := textSize; end <= len(messages); end += textSize {
		cut := end
		for n := 1; n < utf8.UTFMax && cut < len(messages) && !utf8.RuneStart(messages[cut]); n++ {
			cut--
		}
		ends = append(ends, cut)
	}
	return ends
}

// ownMessages returns the messages that the row of a trace has itself.
func ownMessages(r *trace.Record) any {
	if len(r.Messages) < textSize {
		return &r.Messages
	}
	list := ends(r.Messages)
	own := r.Messages[list[len(list)-1]:]
	return &own
}

const (
	findTextSQL      = "SELECT id FROM texts WHERE hash = ?"
	keepTextSQL      = "INSERT INTO texts (hash, parent, text) VALUES (?, ?, ?) RETURNING id"
	keepHistorySQL   = "INSERT INTO histories (trace_id, last, size) VALUES (?, ?, ?)"
	forgetHistorySQL = "DELETE FROM histories WHERE trace_id = ?"

	// historySize is the size of the texts of a trace t.
	historySize = "coalesce((SELECT size FROM histories AS h WHERE h.trace_id = t.id), 0)"
)

// wholeMessages is the expression of the messages of a trace in a query of traces.
const wholeMessages = "(SELECT messages FROM whole_messages WHERE trace_id = traces.id)"

// keepHistory stores the texts of a trace that are not stored yet, and refers to them. The
// trace may replace a call that was taken for interrupted, or itself if a commit succeeded
// that seemed to fail: what it referred to is deleted first.
func (s *statements) keepHistory(r *trace.Record) error {
	id := blobValue(r.ID[:])
	if err := s.forgetHistory.run(id); err != nil || len(r.Messages) < textSize {
		return err
	}
	list := ends(r.Messages)
	hashes := s.hashesOf(r, list)
	var last int64
	var failed error
	run := func(query string, values ...value) (id int64) {
		if failed == nil {
			failed = s.terms.writer.each(query, func(row *statement) error { id = row.integer(0); return nil }, values...)
		}
		return id
	}
	// The texts before a stored one are stored.
	first := sort.Search(len(list), func(i int) bool {
		id := run(findTextSQL, blobValue(hashes[i][:]))
		last = max(last, id) // a text has a greater id than those before it
		return id == 0
	})
	for i := first; i < len(list); i++ {
		begin, parent := 0, value{}
		if i > 0 {
			begin, parent = list[i-1], integerValue(last)
		}
		last = run(keepTextSQL, blobValue(hashes[i][:]), parent, content(r.Messages[begin:list[i]]))
	}
	if failed != nil {
		return failed
	}
	return s.history.run(id, integerValue(last), integerValue(int64(list[len(list)-1])))
}

// textHash is the hash of a text and all before it.
type textHash [sha256.Size]byte

// hashesOf returns the hashes of the texts of a record, which end there.
func (s *statements) hashesOf(r *trace.Record, ends []int) []textHash {
	all := r.Messages[:ends[len(ends)-1]]
	known := s.hashed.Longest(r.Workspace, all)
	hashes := slices.Clone(known.State)
	if n := len(hashes); n > len(ends) || n > 0 && ends[n-1] != known.Size { // it ended within a character
		hashes, known = nil, large.Beginning[string, []textHash]{}
	}
	if len(hashes) == len(ends) {
		return hashes
	}
	last, begin, sum := textHash(sha256.Sum256([]byte(r.Workspace))), 0, sha256.New()
	if n := len(hashes); n > 0 {
		last, begin = hashes[n-1], ends[n-1]
	}
	for _, end := range ends[len(hashes):] {
		sum.Reset()
		_, _ = sum.Write(last[:])
		_, _ = sum.Write(all[begin:end])
		sum.Sum(last[:0])
		hashes, begin = append(hashes, last), end
	}
	if large.Cut(all) > 0 {
		s.hashed.Keep(r.Workspace, all, known, hashes)
	}
	return hashes
}
