package rules

import (
	"math"
	"math/bits"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cespare/xxhash/v2"
)

// Buckets is how many parts a split divides its units into: a share has a
// resolution of a thousandth of a percent.
const Buckets = 100_000

// split divides the units that meet a row between outcomes, or leaves them to
// the rows below. A unit is a value of the field by, such as a customer's id:
// its hash gives it a bucket, and each outcome owns a range of buckets. Of the
// shares 20 % and 30 % with a coverage of 50 %,
//
//	outcome 0 owns 0..<20000, of which 0..<10000 are covered
//	outcome 1 owns 20000..<50000, of which 20000..<35000 are covered
//
// A unit whose bucket is 12000 is left to the rows below. With a coverage of
// 60 % it gets outcome 0: as ranges begin at fixed places, more coverage only
// adds units and moves none to another outcome.
type split struct {
	by int32 // slot of the field whose values are the units
	// seed has hashed everything but the unit.
	seed     xxhash.Digest
	salt     string
	shares   []share
	first    int      // the outcome of the first of the parts in arms
	arms     []string // the names of the parts in traces, including parts without buckets
	coverage uint32   // of each share's width, in buckets of buckets
	ramp     *ramp    // gives the coverage, when there is one
	armsJSON []byte   // the share of each arm, as traces have it; nil where shares change
	node     *document.Node
	guarded  bool  // see guard.go
	rollout  int32 // of a guard: the slot of its share, -1 for none
}

// share is the buckets of one outcome at full coverage.
type share struct {
	from, width uint32
	outcome     int
}

// newSplit prepares the hash: XXH64 with seed 0 over key, 0x00, salt, 0x00,
// unit. The zero bytes keep ("ab", "c") and ("a", "bc") apart.
func newSplit(by int32, key, salt string) *split {
	s := &split{by: by, salt: salt, coverage: Buckets}
	s.seed.Reset()
	for _, part := range []string{key, "\x00", salt, "\x00"} {
		_, _ = s.seed.WriteString(part) // never fails
	}
	return s
}

// bucket returns where the binding's unit falls, from 0 to buckets-1. ok is false
// without a unit.
func (s *split) bucket(b *Binding) (bucket uint32, ok bool) {
	v := &b.values[s.by]
	if v.state != present {
		return 0, false
	}
	hash := s.seed
	if b.model.fields[s.by].typ == numberField {
		var text [32]byte
		_, _ = hash.Write(appendNumber(text[:0], numberOf(v.key)))
	} else {
		_, _ = hash.WriteString(b.unit(s.by))
	}
	return uint32(hash.Sum64() % Buckets), true
}

// choose returns the outcome for the binding's unit, or false when it falls
// outside all shares or has none.
func (s *split) choose(b *Binding) (outcome int, ok bool) {
	bucket, ok := s.bucket(b)
	if !ok {
		return 0, false
	}
	part := s.part(bucket, s.covers(b))
	if part < 0 {
		return 0, false
	}
	return s.shares[part].outcome, true
}

// part returns the index of the share that covers a bucket, or -1.
func (s *split) part(bucket, coverage uint32) int {
	if s.guarded {
		return guardedPart(bucket, coverage)
	}
	i := sort.Search(len(s.shares), func(i int) bool { return s.shares[i].from > bucket }) - 1
	if i < 0 || bucket-s.shares[i].from >= s.shares[i].covered(coverage) {
		return -1
	}
	return i
}

// covered returns how many of the share's buckets are covered.
func (sh *share) covered(coverage uint32) uint32 {
	return uint32(uint64(sh.width) * uint64(coverage) / Buckets)
}

// covered returns how many buckets of a part are covered; of a guard, how many are compared.
func (s *split) covered(part int, coverage uint32) uint32 {
	if s.guarded {
		return guardedShare(part, coverage)
	}
	return s.shares[part].covered(coverage)
}

// covers returns the coverage at the binding's instant, or the share of a rollout.
func (s *split) covers(b *Binding) uint32 {
	if s.guarded {
		return s.rolledOut(b)
	}
	return s.coverageAt(b.values[b.model.nowSlot()].key)
}

func (s *split) coverageAt(now int64) uint32 {
	if s.ramp != nil {
		return s.ramp.at(now)
	}
	return s.coverage
}

// ramp is a coverage that grows by schedule.
type ramp struct {
	from, to   uint32 // in buckets
	start, end int64  // date keys
}

// at returns the coverage at an instant: nothing before the start, then from,
// which rises to to by the second. It never falls, so that a unit that is covered
// stays covered.
func (r *ramp) at(now int64) uint32 {
	switch {
	case now < r.start:
		return 0
	case now >= r.end:
		return r.to
	}
	const second = 1_000_000
	passed, all := uint64(now-r.start)/second, uint64(r.end-r.start)/second
	hi, lo := bits.Mul64(uint64(r.to-r.from), passed)
	grown, _ := bits.Div64(hi, lo, max(all, 1))
	return r.from + uint32(grown)
}

// parseShare reads a percentage in buckets.
func parseShare(s string) (uint32, bool) {
	text, ok := strings.CutSuffix(s, "%")
	if !ok {
		return 0, false
	}
	v, ok := parseNumber(strings.TrimSpace(text))
	if !ok || v < 0 || v > 100 {
		return 0, false
	}
	n := math.Round(v * (Buckets / 100))
	return uint32(n), math.Abs(n-v*(Buckets/100)) < 1e-6
}

// shareText returns a number of buckets as a percentage.
func shareText(n uint32) string {
	return strconv.FormatFloat(float64(n)/(Buckets/100), 'f', -1, 64) + "%"
}

// ReadShare reads a percentage of a definition, in Buckets.
func ReadShare(n *document.Node, what string, errs *document.Errors) (uint32, bool) {
	text, ok := n.ReadString(errs, what)
	if !ok {
		return 0, false
	}
	v, ok := parseShare(text)
	if !ok {
		errs.Add(n, "%s must be a percentage from 0%% to 100%% such as 20%% or 0.125%%, with at most three decimals, this is %q", what, shorten(text))
	}
	return v, ok
}

// Division is how a row divides its units at an instant.
type Division struct {
	// By is the field whose values are the units. Salt is hashed with them and the
	// key of the definition. Both are empty for a row that divides nothing: it
	// answers all.
	By, Salt string
	// Recorded reports whether traces have the units, as keyed hashes, and Ramp whether the
	// parts grow by the second.
	Recorded, Ramp bool
	// Arms are those of the split, each once, also those of which no unit is now.
	Arms []string
	// Parts ascend. A unit whose bucket is in none of them is left to the rows below. Of a
	// guard they are the units that each answer has, or is compared by, in the end.
	Parts []Part
	// Guard is what a guarded split says, else nil. Its arms are the new answer and the
	// control, and which of the two a unit has depends on the rollout's share.
	Guard *document.Node
}

// Part is the buckets of one outcome, from From to before To.
type Part struct {
	From, To int
	Outcome  int    // index into Outcomes
	Arm      string // of Table.Arm
}

// Divide returns how a row divides its units at an instant.
func (t *Table) Divide(row int, at time.Time) Division {
	a := &t.answers[row]
	if a.split == nil {
		return Division{Parts: []Part{{To: Buckets, Outcome: a.outcome, Arm: t.arm(nil, a.outcome)}}}
	}
	s, coverage := a.split, a.split.coverageAt(dateKey(at))
	f := &t.model.fields[s.by]
	d := Division{By: f.name, Salt: s.salt, Recorded: f.records(t.model), Ramp: s.ramp != nil}
	if s.guarded {
		d.Guard = s.node.Get("guard")
	}
	for i := range s.arms {
		if arm := t.arm(s, s.first+i); !t.isArmOf(s, arm, i) {
			d.Arms = append(d.Arms, arm)
		}
	}
	for i := range s.shares {
		if sh := &s.shares[i]; sh.covered(coverage) > 0 {
			d.Parts = append(d.Parts, Part{int(sh.from), int(sh.from + sh.covered(coverage)), sh.outcome, t.arm(s, sh.outcome)})
		}
	}
	return d
}
