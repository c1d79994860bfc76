package calls

import "math/bits"

// slots is which slots of a file are taken, a bit each. The first is the file's
// own.
type slots struct {
	taken []uint64
	least int // no word before it has room
}

// take takes the first n slots in a row that are free below most, and returns the
// first of them, or -1.
func (s *slots) take(n, most int) int {
	for s.least < len(s.taken) && s.taken[s.least] == ^uint64(0) {
		s.least++
	}
	run := 0
	for at := s.least * 64; at < most; at++ {
		word := at / 64
		if word >= len(s.taken) {
			s.taken = append(s.taken, 0)
		}
		if rest := s.taken[word] >> (at % 64); rest&1 == 1 {
			at += bits.TrailingZeros64(^rest) - 1 // to the last that is taken
			run = 0
			continue
		}
		if run++; run == n {
			s.set(at-n+1, n)
			return at - n + 1
		}
	}
	return -1
}

// set takes n slots from first on.
func (s *slots) set(first, n int) {
	for at := first; at < first+n; at++ {
		for at/64 >= len(s.taken) {
			s.taken = append(s.taken, 0)
		}
		s.taken[at/64] |= 1 << (at % 64)
	}
}

// free gives n slots back, from first on.
func (s *slots) free(first, n int) {
	for at := first; at < first+n; at++ {
		s.taken[at/64] &^= 1 << (at % 64)
	}
	s.least = min(s.least, first/64)
}

// end returns the slot after the last one that is taken.
func (s *slots) end() int {
	for word := len(s.taken) - 1; word >= 0; word-- {
		if s.taken[word] != 0 {
			return word*64 + bits.Len64(s.taken[word])
		}
	}
	return 0
}
