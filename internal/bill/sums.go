package bill

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// maxSums is how many models and days an export has at most.
const maxSums = 100_000

// errManySums refuses a file that has more.
var errManySums = fmt.Errorf("it has more than %d models and days: export fewer days", maxSums)

// sumKey is what a sum is of.
type sumKey struct {
	day, model string
	batch      bool
}

// sum is what the lines of a model on a day say together.
type sum struct {
	Line
	sample sample
}

// sums are what an export keeps of its lines: one sum of each model on each day. So a
// file of any size takes the memory of its models and days. An export by API key and
// user has thousands of lines of each.
type sums struct {
	list []sum // in the order in which the file has the first line of each
	at   map[sumKey]int
}

// of returns the sum of a model on a day, which it adds where there is none.
func (s *sums) of(key sumKey) (*sum, error) {
	at, has := s.at[key]
	if !has {
		if len(s.list) == maxSums {
			return nil, errManySums
		}
		if s.at == nil {
			s.at = make(map[sumKey]int)
		}
		key.model = strings.Clone(key.model) // a cell would keep its whole row
		at = len(s.list)
		s.at[key] = at
		s.list = append(s.list, sum{Line: Line{Day: key.day, Model: key.model, Batch: key.batch}})
	}
	return &s.list[at], nil
}

// add adds a line.
func (s *sums) add(l *Line) error {
	to, err := s.of(sumKey{l.Day, l.Model, l.Batch})
	if err != nil {
		return err
	}
	to.plus(l)
	if l.some() {
		to.sample.add(l.hash())
	}
	return nil
}

// addOf adds sums that were made before their day was known.
func (s *sums) addOf(day string, others *sums) error {
	for i := range others.list {
		o := &others.list[i]
		to, err := s.of(sumKey{day, o.Model, o.Batch})
		if err != nil {
			return err
		}
		to.plus(&o.Line)
		for _, hash := range o.sample {
			to.sample.add(hash)
		}
	}
	return nil
}

// plus adds another line of the same model.
func (l *Line) plus(o *Line) {
	l.HasTokens, l.HasCost = l.HasTokens || o.HasTokens, l.HasCost || o.HasCost
	l.Requests += o.Requests
	for kind := range Kinds {
		l.Tokens[kind] += o.Tokens[kind]
		l.Cost[kind] += o.Cost[kind]
	}
}

// sampleSize is how many lines of a sum are in its sample.
const sampleSize = 16

// sample has the lines of a sum whose hashes are the smallest, in their order. Of two
// files, the same lines get into the samples. So two samples have one in common where
// a good part of the lines are in both files, whatever their order and their number.
type sample []uint64

func (s *sample) add(hash uint64) {
	at, has := slices.BinarySearch(*s, hash)
	if has || at == sampleSize {
		return
	}
	if len(*s) == sampleSize {
		*s = (*s)[:sampleSize-1]
	}
	*s = slices.Insert(*s, at, hash)
}

// shares reports whether both samples have a line.
func (s sample) shares(other sample) bool {
	return slices.ContainsFunc(s, func(hash uint64) bool {
		_, has := slices.BinarySearch(other, hash)
		return has
	})
}

// seed is that of the hashes of lines, of all files.
var seed = maphash.MakeSeed()

// hash returns a hash of the numbers of the line. Its day is left out, as it may not be
// known yet: only lines of the same sum are compared.
func (l *Line) hash() uint64 {
	return maphash.Comparable(seed, struct {
		requests int64
		tokens   [Kinds]int64
		cost     [Kinds]float64
	}{l.Requests, l.Tokens, l.Cost})
}
