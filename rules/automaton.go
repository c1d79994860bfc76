package rules

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A condition on text is a tree of tests, each of which a finite automaton
// that reads the text rune by rune can make. So whether any text at all meets
// a tree is decided by searching the automata's common states, the shortest
// texts first: the first text found is the example, and when all states were
// seen without one, there is none.

// textTest is the automaton of one test. A state is a string, for want of
// anything else that all kinds share.
type textTest interface {
	start() string
	step(state string, r rune) string
	accepts(state string) bool
	// cuts are the runes from which on, one after the other, the automaton
	// may go elsewhere than on the rune before.
	cuts() []rune
	// cost is about what a step takes, in steps of Analysis.Budget.
	cost() int
}

const (
	// maxTextStates bounds the states that are looked at for one condition.
	maxTextStates = 20_000
	// patternCost is what compiling a pattern takes, in steps of
	// Analysis.Budget, beside one for each of its instructions.
	patternCost = 50
)

// textSearch searches a text that meets a predicate.
type textSearch struct {
	root   *pred
	leaves map[*pred]int
	tests  []*lazyTest
	runes  []rune
	left   *int
}

// lazyTest remembers the states and steps of a test.
type lazyTest struct {
	textTest
	states  []string
	numbers map[string]int32
	next    map[[2]int32]int32 // by state and rune's index
}

func (l *lazyTest) number(state string) int32 {
	n, ok := l.numbers[state]
	if !ok {
		n = int32(len(l.states))
		l.states = append(l.states, state)
		l.numbers[state] = n
	}
	return n
}

// findText looks for a text of a field that meets a predicate: the shortest.
// left bounds the work.
func findText(f *field, p *pred, left *int) (string, verdict) {
	s := textSearch{root: p, leaves: make(map[*pred]int), left: left}
	if !s.add(p) {
		return "", open
	}
	complete := s.alphabet(f)
	if *left < 0 {
		return "", open
	}
	text, v := s.run()
	if v == empty && !complete {
		v = open
	}
	return text, v
}

// add makes the automata of a tree's tests.
func (s *textSearch) add(p *pred) bool {
	var t textTest
	switch p.op {
	case never, always:
		return true
	case allOf, oneOf, negation:
		for _, arg := range p.args {
			if !s.add(arg) {
				return false
			}
		}
		return true
	case inStrs:
		t = newSetTest(p.strs)
	case suffix, contains:
		if len(p.text) > maxPattern {
			return false
		}
		t = &partTest{text: []rune(p.text), suffix: p.op == suffix}
	case matches:
		re, err := syntax.Parse(p.re.String(), syntax.Perl)
		if err != nil {
			return false
		}
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			return false
		}
		*s.left -= patternCost + len(prog.Inst)
		t = &patternTest{prog: prog}
	default:
		return false
	}
	if _, ok := s.leaves[p]; !ok {
		s.leaves[p] = len(s.tests)
		s.tests = append(s.tests, &lazyTest{textTest: t, numbers: make(map[string]int32), next: make(map[[2]int32]int32)})
	}
	return true
}

// niceRunes are those that examples are made of where there is a choice.
const niceRunes = "ax0bcdefghijklmnopqrstuvwyz123456789-_. @/ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// alphabet finds runes that stand for all others. It reports whether they do.
func (s *textSearch) alphabet(f *field) bool {
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
	fits := func(r rune) bool { return !f.foldCase || foldRune(r) == r }
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

func niceness(r rune) int {
	if i := strings.IndexRune(niceRunes, r); i >= 0 {
		return i
	}
	if unicode.IsPrint(r) {
		return len(niceRunes) + int(r)
	}
	return unicode.MaxRune + int(r)
}

// run searches, shortest texts first.
func (s *textSearch) run() (string, verdict) {
	type node struct {
		states []int32
		from   int32
		r      rune
	}
	first := node{states: make([]int32, len(s.tests)), from: -1}
	none := empty
	for i, t := range s.tests {
		first.states[i] = t.number(t.start())
	}
	if s.holds(s.root, first.states) {
		none = met
	}
	nodes := []node{first}
	seen := map[string]bool{stateKey(first.states): true}
	for i := 0; i < len(nodes); i++ {
		n := nodes[i]
		// The empty text is an example for want of a better one.
		if i > 0 && s.holds(s.root, n.states) {
			var text []rune
			for at := int32(i); at > 0; at = nodes[at].from {
				text = append(text, nodes[at].r)
			}
			slices.Reverse(text)
			return string(text), met
		}
		for c, r := range s.runes {
			if *s.left--; *s.left < 0 {
				return "", max(none, open)
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
					return "", max(none, open)
				}
				seen[key] = true
				nodes = append(nodes, next)
			}
		}
	}
	return "", none
}

func stateKey(states []int32) string {
	var b []byte
	for _, n := range states {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return string(b)
}

// holds evaluates the tree where the tests are in the given states.
func (s *textSearch) holds(p *pred, states []int32) bool {
	switch p.op {
	case never:
		return false
	case always:
		return true
	case allOf:
		for _, arg := range p.args {
			if !s.holds(arg, states) {
				return false
			}
		}
		return true
	case oneOf:
		for _, arg := range p.args {
			if s.holds(arg, states) {
				return true
			}
		}
		return false
	case negation:
		return !s.holds(p.args[0], states)
	}
	i := s.leaves[p]
	return s.tests[i].accepts(s.tests[i].states[states[i]])
}

// partTest finds a text at the end, or anywhere. Its state is how much of the
// text what was read ends with, as a rune.
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

// setTest is membership of a set of texts. Its state is what was read as long
// as that could still be the beginning of an end of a span; then, whether the
// text is in the set is decided.
type setTest struct {
	set  strSet
	ends []string // sorted
}

const (
	setOut = "\xff0"
	setIn  = "\xff1"
)

func newSetTest(s strSet) *setTest {
	t := &setTest{set: s}
	for _, sp := range s {
		t.ends = append(t.ends, sp.lo)
		if sp.hi != strDomain.open {
			t.ends = append(t.ends, sp.hi)
		}
	}
	slices.Sort(t.ends)
	return t
}

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
	case strDomain.contains(t.set, text):
		return setIn
	}
	return setOut
}

func (t *setTest) accepts(state string) bool {
	return state == setIn || state != setOut && strDomain.contains(t.set, state)
}

func (t *setTest) cuts() []rune {
	var cuts []rune
	for _, end := range t.ends {
		cuts = append(cuts, cutsOf([]rune(end))...)
		if n := len(end); !utf8.ValidString(end) {
			// The least text above all that begin with a prefix.
			cuts = append(cuts, cutsOf([]rune(end[:n-1]+string([]byte{end[n-1] - 1})))...)
		}
	}
	return cuts
}

func (t *setTest) cost() int { return 2 }

// patternTest finds a regular expression. Its state is the instructions that
// wait for a rune, behind a byte for the rune before.
type patternTest struct{ prog *syntax.Prog }

const patternFound = "found"

// before are runes that stand for all there can be before a place.
var before = [...]rune{-1, '\n', 'a', '-'}

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
// expression is found, and otherwise calls wait for those that read a rune.
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
