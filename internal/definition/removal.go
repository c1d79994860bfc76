package definition

import (
	"fmt"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// allowEmpty is the name of the file whose presence in a workspace's directory
// allows edits that remove most of it.
const allowEmpty = ".cadenza-allow-empty"

// Counts are how many definitions and experiments a workspace has, by their kind.
type Counts map[*kind.Kind]int

// total returns how many definitions there are of all kinds. Experiments are not among
// them: to delete those that are over is no accident, and no app misses them.
func (c Counts) total() int {
	total := 0
	for _, k := range kind.All {
		total += c[k]
	}
	return total
}

// Counts counts the definitions and experiments.
func (s *Snapshot) Counts() Counts {
	counts := make(Counts, len(kind.All))
	for _, k := range kind.All {
		counts[k] = 0
	}
	for _, d := range s.Definitions {
		counts[d.Kind]++
	}
	counts[kind.Experiment] = len(s.Experiments)
	return counts
}

// removal returns why next may not replace a served set with these definitions: it
// has none of a kind that the served set has, or less than half of all. That is how
// a volume that is not mounted, a wrong path and half a copy look. Definitions are
// counted, not compared, so a new key is no removal. It returns nil where the file
// allowEmpty is next to the definitions.
//
//	served                  next                    refused
//	3 prompts, 5 configs    1 prompt, 3 configs     no: half is left
//	3 prompts, 5 configs    3 configs, 2 endpoints  yes: no prompt is left
//	3 prompts, 5 configs    1 prompt, 2 configs     yes: 3 of 8 are left
//	1 prompt                1 prompt, another key   no
func removal(dir string, served Counts, next *Snapshot) error {
	if next.emptying {
		return nil
	}
	now := next.Counts()
	var lost []string
	for _, k := range kind.All {
		switch n := served[k]; {
		case now[k] > 0 || n == 0:
		case n == 1:
			lost = append(lost, "the only "+k.Noun)
		default:
			lost = append(lost, fmt.Sprintf("all %d %ss", n, k.Noun))
		}
	}
	if len(lost) == 0 && 2*now.total() < served.total() {
		lost = append(lost, fmt.Sprintf("%d of %d definitions", served.total()-now.total(), served.total()))
	}
	if len(lost) == 0 {
		return nil
	}
	return &document.MultiError{List: []*document.Error{{
		Pos: document.Position{File: dir},
		Message: fmt.Sprintf("%s would be gone, which is refused: if that is meant, put an empty file %s into the directory, and delete it afterwards",
			strings.Join(lost, " and "), allowEmpty),
	}}}
}
