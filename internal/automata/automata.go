// Package automata finds the shortest text that meets a combination of tests,
// or proves that no text does.
//
// Each test (an end, a part, a set of texts, a regular expression) is a finite
// automaton that reads a text rune by rune. The search tries all texts at once:
// it goes through the states that the automata reach together, breadth first,
// so that the first state that meets the combination belongs to a shortest
// text. There are finitely many states; when all were seen and none met it, no
// text does.
//
// For example, a text that contains "ab" and does not end with "b":
//
//	runes: a, b and x, which stands for all others
//
//	text   contains "ab"   ends with "b"
//	""     0 read of it    0 read of it
//	"a"    1               0
//	"x"    0               0               the state of "": seen before
//	"b"    0               1
//	"aa"   1               0               the state of "a": seen before
//	"ax"   0               0               seen before
//	"ab"   found           1               contains it, but ends with b
//	"ba" … "bb"                            all seen before
//	"aba"  found           0               met: the example is aba
//
// Texts that lead to a state that was seen before are not continued: whatever
// follows them follows the earlier, shorter text as well.
package automata

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// automaton makes one test. Its states are strings, the only representation
// that fits all kinds of tests.
type automaton interface {
	start() string
	step(state string, r rune) string
	accepts(state string) bool
	// cuts are the runes at which the automaton may begin to behave
	// differently: between two of them all runes lead to the same state.
	cuts() []rune
	// cost is about what a step takes, in steps of the budget.
	cost() int
}

const (
	// maxTextStates bounds the states that one search looks at.
	maxTextStates = 20_000
	// patternCost is what compiling a regular expression takes, in steps of
	// the budget, beside one for each of its instructions.
	patternCost = 50
)

// Search is a search for a text. Each test that is added has a number, from 0
// on, by which Find's condition asks for it.
type Search struct {
	tests []*test
	runes []rune
	left  *int
}

// New starts a search. left is the budget in steps of very roughly 100 ns: the
// search lowers it and gives up when it is negative.
func New(left *int) *Search { return &Search{left: left} }

// test is an automaton with the states and steps that the search has seen.
type test struct {
	automaton
	states  []string
	numbers map[string]int32
	next    map[[2]int32]int32 // by the number of a state and the index of a rune
}

func (t *test) number(state string) int32 {
	n, ok := t.numbers[state]
	if !ok {
		n = int32(len(t.states))
		t.states = append(t.states, state)
		t.numbers[state] = n
	}
	return n
}

func (s *Search) add(a automaton) int {
	s.tests = append(s.tests, &test{automaton: a, numbers: make(map[string]int32), next: make(map[[2]int32]int32)})
	return len(s.tests) - 1
}

// Suffix adds a test for texts that end with a text.
func (s *Search) Suffix(text string) int { return s.add(&partTest{text: []rune(text), suffix: true}) }

// Part adds a test for texts that contain a text.
func (s *Search) Part(text string) int { return s.add(&partTest{text: []rune(text)}) }

// Set adds a test for membership of a set. ends are the bounds of the set in
// the order of bytes: contains must give the same result for all texts that lie
// between the same two bounds. A bound need not be valid UTF-8.
func (s *Search) Set(ends []string, contains func(text string) bool) int {
	ends = slices.Clone(ends)
	slices.Sort(ends)
	return s.add(&setTest{ends: ends, contains: contains})
}

// Pattern adds a test for texts in which a regular expression (RE2) is found.
// It reports whether the expression is valid.
func (s *Search) Pattern(expr string) (number int, ok bool) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return 0, false
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0, false
	}
	*s.left -= patternCost + len(prog.Inst)
	return s.add(&patternTest{prog: prog}), true
}

// niceRunes are preferred for examples, in this order.
const niceRunes = "ax0bcdefghijklmnopqrstuvwyz123456789-_. @/ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// alphabet chooses one rune for each range of runes that no test tells apart.
// It reports whether it found one that fits in each range.
func (s *Search) alphabet(fits func(rune) bool) bool {
	cuts := []rune{0, 0xd800, 0xe000, unicode.MaxRune + 1}
	for _, t := range s.tests {
		cuts = append(cuts, t.cuts()...)
	}
	if *s.left -= len(cuts); *s.left < 0 {
		return false
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	complete := true
	for i := range len(cuts) - 1 {
		lo, hi := cuts[i], cuts[i+1]
		if lo < 0 || lo == 0xd800 || lo > unicode.MaxRune {
			continue
		}
		r := rune(-1)
		for _, nice := range niceRunes {
			if lo <= nice && nice < hi && fits(nice) {
				r = nice
				break
			}
		}
		const far = 100
		for c := lo; r < 0 && c < hi && c < lo+far; c++ {
			if fits(c) {
				r = c
			}
		}
		if r < 0 {
			complete = complete && hi <= lo+far
			continue
		}
		s.runes = append(s.runes, r)
	}
	slices.SortFunc(s.runes, func(a, b rune) int { return niceness(a) - niceness(b) })
	return complete
}

// niceness orders runes for examples: the lower, the better.
func niceness(r rune) int {
	if i := strings.IndexRune(niceRunes, r); i >= 0 {
		return i
	}
	if unicode.IsPrint(r) {
		return len(niceRunes) + int(r)
	}
	return unicode.MaxRune + int(r)
}

// Find looks for a shortest text of runes that fit, for which holds reports
// true. holds combines the tests: accepts reports whether the text passes the
// test with a number. The empty text is the answer only where no other is.
// Without a text, decided reports whether none exists; otherwise the search
// ended at its bounds.
func (s *Search) Find(fits func(rune) bool, holds func(accepts func(number int) bool) bool) (text string, found, decided bool) {
	complete := s.alphabet(fits)
	if *s.left < 0 {
		return "", false, false
	}
	type node struct {
		states []int32 // by test
		from   int32   // the node before, -1 for the first
		r      rune    // read after it
	}
	first := node{states: make([]int32, len(s.tests)), from: -1}
	for i, t := range s.tests {
		first.states[i] = t.number(t.start())
	}
	states := first.states
	accepts := func(number int) bool {
		t := s.tests[number]
		return t.accepts(t.states[states[number]])
	}
	emptyText := holds(accepts)
	nodes := []node{first}
	seen := map[string]bool{stateKey(first.states): true}
	for i := 0; i < len(nodes); i++ {
		n := nodes[i]
		states = n.states
		if i > 0 && holds(accepts) {
			var text []rune
			for at := int32(i); at > 0; at = nodes[at].from {
				text = append(text, nodes[at].r)
			}
			slices.Reverse(text)
			return string(text), true, true
		}
		for c, r := range s.runes {
			if *s.left--; *s.left < 0 {
				return "", emptyText, false
			}
			next := node{states: make([]int32, len(s.tests)), from: int32(i), r: r}
			for j, t := range s.tests {
				key := [2]int32{n.states[j], int32(c)}
				to, ok := t.next[key]
				if !ok {
					*s.left -= t.cost()
					to = t.number(t.step(t.states[n.states[j]], r))
					t.next[key] = to
				}
				next.states[j] = to
			}
			if key := stateKey(next.states); !seen[key] {
				if len(nodes) >= maxTextStates {
					return "", emptyText, false
				}
				seen[key] = true
				nodes = append(nodes, next)
			}
		}
	}
	return "", emptyText, complete
}

func stateKey(states []int32) string {
	var b []byte
	for _, n := range states {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return string(b)
}

// partTest finds a text at the end, or anywhere. Its state is a count, as a
// rune: how many runes of the text the end of what was read already has. For
// "aab", that is 2 after "xaa", and still 2 after "xaaa".
type partTest struct {
	text   []rune
	suffix bool
}

func (t *partTest) start() string { return "\x00" }

func (t *partTest) step(state string, r rune) string {
	k, _ := utf8.DecodeRuneInString(state)
	n := int(k)
	if n == len(t.text) {
		if !t.suffix {
			return state
		}
	}
	read := append(slices.Clone(t.text[:n]), r)
	for from := max(0, len(read)-len(t.text)); from <= len(read); from++ {
		if tail := read[from:]; slices.Equal(tail, t.text[:len(tail)]) {
			return string(rune(len(tail)))
		}
	}
	return "\x00"
}

func (t *partTest) accepts(state string) bool {
	k, _ := utf8.DecodeRuneInString(state)
	return int(k) == len(t.text)
}

func (t *partTest) cuts() []rune { return cutsOf(t.text) }
func (t *partTest) cost() int    { return 1 + len(t.text)/16 }

// cutsOf cuts out single runes.
func cutsOf(text []rune) []rune {
	var cuts []rune
	for _, r := range text {
		cuts = append(cuts, r, r+1)
	}
	return cuts
}

// setTest tests membership of a set. Its state is the text read so far, as long
// as that text begins one of the bounds. After that, all continuations lie
// between the same bounds, and the state is setIn or setOut for good.
type setTest struct {
	ends     []string // sorted
	contains func(text string) bool
}

const (
	setOut = "\xff0"
	setIn  = "\xff1"
)

func (t *setTest) start() string { return "" }

func (t *setTest) step(state string, r rune) string {
	if state == setOut || state == setIn {
		return state
	}
	text := state + string(r)
	i, _ := slices.BinarySearch(t.ends, text)
	switch {
	case i < len(t.ends) && strings.HasPrefix(t.ends[i], text):
		return text
	case t.contains(text):
		return setIn
	}
	return setOut
}

func (t *setTest) accepts(state string) bool {
	return state == setIn || state != setOut && t.contains(state)
}

func (t *setTest) cuts() []rune {
	var cuts []rune
	for _, end := range t.ends {
		cuts = append(cuts, cutsOf([]rune(end))...)
		if n := len(end); !utf8.ValidString(end) {
			// A bound above all texts with a prefix: the prefix with its last
			// byte raised, here lowered again.
			cuts = append(cuts, cutsOf([]rune(end[:n-1]+string([]byte{end[n-1] - 1})))...)
		}
	}
	return cuts
}

func (t *setTest) cost() int { return 2 }

// patternTest finds a regular expression, as a machine that follows all
// alternatives at once. Its state is a byte for the kind of the rune before,
// which ^, $ and \b look at, and then the instructions that wait for a rune.
type patternTest struct{ prog *syntax.Prog }

const patternFound = "found"

// before are runes of each kind that an assertion tells apart: the beginning of
// the text, a line end, a character of a word, any other.
var before = [...]rune{-1, '\n', 'a', '-'}

// beforeOf is the index in before of a rune's kind.
func beforeOf(r rune) byte {
	switch {
	case r == '\n':
		return 1
	case syntax.IsWordChar(r):
		return 2
	}
	return 3
}

func (t *patternTest) start() string { return "\x00" }

// close follows the instructions that read nothing. It reports whether the
// expression is found; if not, it calls wait for each instruction that reads a
// rune. next is the rune to come, -1 at the end of the text.
func (t *patternTest) close(state string, next rune, wait func(*syntax.Inst)) bool {
	flags := syntax.EmptyOpContext(before[state[0]], next)
	seen := make([]bool, len(t.prog.Inst))
	stack := []uint32{uint32(t.prog.Start)} // the search begins at every place
	for rest := state[1:]; rest != ""; {
		pc, n := binary.Uvarint([]byte(rest))
		stack, rest = append(stack, uint32(pc)), rest[n:]
	}
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch in := &t.prog.Inst[pc]; in.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^flags == 0 {
				stack = append(stack, in.Out)
			}
		case syntax.InstMatch:
			return true
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if wait != nil {
				wait(in)
			}
		}
	}
	return false
}

func (t *patternTest) step(state string, r rune) string {
	if state == patternFound {
		return state
	}
	var next []uint32
	if t.close(state, r, func(in *syntax.Inst) {
		if in.MatchRune(r) {
			next = append(next, in.Out)
		}
	}) {
		return patternFound
	}
	slices.Sort(next)
	b := []byte{beforeOf(r)}
	for _, pc := range slices.Compact(next) {
		b = binary.AppendUvarint(b, uint64(pc))
	}
	return string(b)
}

func (t *patternTest) accepts(state string) bool {
	return state == patternFound || t.close(state, -1, nil)
}

func (t *patternTest) cuts() []rune {
	var cuts []rune
	for i := range t.prog.Inst {
		switch in := &t.prog.Inst[i]; in.Op {
		case syntax.InstEmptyWidth:
			cuts = append(cuts, '\n', '\n'+1, '0', '9'+1, 'A', 'Z'+1, '_', '_'+1, 'a', 'z'+1)
		case syntax.InstRuneAnyNotNL:
			cuts = append(cuts, '\n', '\n'+1)
		case syntax.InstRune, syntax.InstRune1:
			if len(in.Rune) == 1 {
				cuts = append(cuts, in.Rune[0], in.Rune[0]+1)
				for r := unicode.SimpleFold(in.Rune[0]); r != in.Rune[0]; r = unicode.SimpleFold(r) {
					cuts = append(cuts, r, r+1)
				}
				continue
			}
			for j := 0; j+1 < len(in.Rune); j += 2 {
				cuts = append(cuts, in.Rune[j], in.Rune[j+1]+1)
			}
		}
	}
	return cuts
}

func (t *patternTest) cost() int { return 2 + len(t.prog.Inst)/4 }
