package document

import "unicode/utf8"

// Nearest returns the known name that a misspelt one most likely means, or "" when
// none is near. Near means at most one edit for every three characters, and at
// least one. To insert, delete or replace a character or to swap two neighbours is
// one edit; a change of case is none.
//
// For example, "definitons" is near "definitions" (one edit, three allowed), and
// "ttl" is not near "key".
func Nearest(name string, among []string) string {
	const longest = 64
	if utf8.RuneCountInString(name) > longest {
		return ""
	}
	a := fold(name)
	best, bestDistance := "", max(len(a)/3, 1)
	for _, candidate := range among {
		if len(candidate) > longest*utf8.UTFMax {
			continue
		}
		b := fold(candidate)
		if max(len(a)-len(b), len(b)-len(a)) > bestDistance {
			continue
		}
		d := distance(a, b)
		if d > bestDistance || d >= max(len(a), len(b)) {
			continue
		}
		if d < bestDistance || best == "" {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// fold maps upper to lower case and one usual separator to the other.
func fold(s string) []rune {
	r := []rune(s)
	for i, c := range r {
		switch {
		case 'A' <= c && c <= 'Z':
			r[i] = c + 'a' - 'A'
		case c == '-':
			r[i] = '_'
		}
	}
	return r
}

// distance returns the optimal string alignment distance (Damerau-Levenshtein
// without repeated edits of one substring).
func distance(a, b []rune) int {
	older := make([]int, len(b)+1)
	old := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(b)]
}
