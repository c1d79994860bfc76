package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// rule is one row of the table both engines are given. A zero member is a cell
// that matches always.
type rule struct {
	environment string
	locales     []string // one of them
	plan        string
	seats       *span
	beta        *bool
}

// span is the whole numbers from low up to, not including, high.
type span struct{ low, high int }

// request is what a caller sends: one value for each column.
type request struct {
	Environment string `json:"environment"`
	Locale      string `json:"locale"`
	Plan        string `json:"plan"`
	Seats       int    `json:"seats"`
	Beta        bool   `json:"beta"`
}

// matches reports whether a row matches a request, without either engine.
func (r *rule) matches(q request) bool {
	return (r.environment == "" || r.environment == q.Environment) &&
		(r.locales == nil || slices.Contains(r.locales, q.Locale)) &&
		(r.plan == "" || r.plan == q.Plan) &&
		(r.seats == nil || r.seats.low <= q.Seats && q.Seats < r.seats.high) &&
		(r.beta == nil || *r.beta == q.Beta)
}

// contextsPerPath is how many contexts a measurement goes through. With few
// contexts, the processor's branch predictor would learn the answers.
const contextsPerPath = 256

// workload is a table and the contexts it is asked about.
type workload struct {
	rules  []rule
	hits   []request // each made to meet a row drawn at random
	misses []request // none of which meets a row
}

var (
	environments = []string{"production", "staging", "development"}
	plans        = []string{"free", "starter", "pro", "team", "business", "enterprise", "education", "trial"}
	locales      = []string{
		"bg", "cs", "da", "de", "de-AT", "de-CH", "el", "en", "en-GB", "en-US", "es", "es-MX", "et", "fi", "fr",
		"fr-BE", "fr-CA", "hr", "hu", "it", "lt", "lv", "nl", "nl-BE", "pl", "pt", "pt-BR", "ro", "sv", "tr",
	}
)

// maxSeats is greater than the seats of every row.
const maxSeats = 1050

// newWorkload draws a table of so many rows. The same number of rows always gives
// the same table. Its columns are an environment, up to three of thirty
// locales, one of eight plans, a range of seats and a flag. In four rows of ten
// one of the first four cells matches always, and so do half of the flags.
func newWorkload(tb testing.TB, rows int) *workload {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(2026, uint64(rows)))
	pick := func(from []string) string { return from[rnd.IntN(len(from))] }
	w := &workload{rules: make([]rule, rows)}
	for i := range w.rules {
		open := rnd.IntN(10) // the column that matches always, none from 4 on
		r := &w.rules[i]
		if open != 0 {
			r.environment = pick(environments)
		}
		if open != 1 {
			r.locales = []string{pick(locales), pick(locales), pick(locales)}
			slices.Sort(r.locales)
			r.locales = slices.Compact(r.locales)
		}
		if open != 2 {
			r.plan = pick(plans)
		}
		if open != 3 {
			low := rnd.IntN(1000)
			r.seats = &span{low, low + 1 + rnd.IntN(maxSeats-1000)}
		}
		if rnd.IntN(2) == 0 {
			beta := rnd.IntN(2) == 0
			r.beta = &beta
		}
	}
	anyone := func() request {
		return request{pick(environments), pick(locales), pick(plans), rnd.IntN(maxSeats), rnd.IntN(2) == 0}
	}
	for range contextsPerPath {
		q := anyone()
		r := &w.rules[rnd.IntN(rows)]
		if r.environment != "" {
			q.Environment = r.environment
		}
		if r.locales != nil {
			q.Locale = pick(r.locales)
		}
		if r.plan != "" {
			q.Plan = r.plan
		}
		if r.seats != nil {
			q.Seats = r.seats.low + rnd.IntN(r.seats.high-r.seats.low)
		}
		if r.beta != nil {
			q.Beta = *r.beta
		}
		w.hits = append(w.hits, q)
	}
	for try := 0; len(w.misses) < contextsPerPath; try++ {
		if try == 1_000_000 {
			tb.Fatalf("a table of %d rows leaves too little open", rows)
		}
		if q := anyone(); w.answer(q) < 0 {
			w.misses = append(w.misses, q)
		}
	}
	return w
}

// answer is the first row that matches, -1 for none.
func (w *workload) answer(q request) int {
	for row := range w.rules {
		if w.rules[row].matches(q) {
			return row
		}
	}
	return -1
}

// value is the answer of a row, or of the default for -1: a JSON object of the
// size of a small configuration.
func value(row int) string {
	return `{"row":` + strconv.Itoa(row) + `,"rpm":` + strconv.Itoa(60*(row+2)) + `,"model":"gpt-4o-mini"}`
}

// contexts are the requests of a path, "hit" or "miss".
func (w *workload) contexts(path string) []request {
	if path == "hit" {
		return w.hits
	}
	return w.misses
}

// contextJSON is a request's context as JSON, each engine's own members first.
func contextJSON(q request, own string) []byte {
	data, err := json.Marshal(q)
	if err != nil {
		panic(fmt.Sprintf("a struct of text and numbers: %v", err))
	}
	return append([]byte("{"+own), data[1:]...)
}
