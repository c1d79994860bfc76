package rules

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// FindingKind is the kind of a finding.
type FindingKind uint8

// The kinds of findings.
const (
	// Unreachable: rows above answer everything a row matches.
	Unreachable FindingKind = iota + 1
	// Overlap: two rows with different values match the same context.
	Overlap
	// Gap: a context no row matches.
	Gap
	// DeadColumn: a column that never matters.
	DeadColumn
	// Expired: a row whose until has passed.
	Expired
	// Undecided: a question about a row or the table has no answer, because
	// the work bound was reached or the conditions are too complex.
	Undecided
	// Contradiction: a row that no context matches.
	Contradiction
	// MissingList: a cell that a missing list does not match, which is
	// perhaps not meant.
	MissingList
	// WithoutUnit: a row that is only reached without a field, because a split
	// above that divides by it takes all units.
	WithoutUnit
	// SameUnits: a row whose split gets no unit of the contexts that a row above
	// matches, too, because the splits of both have the same salt.
	SameUnits
)

var findingNames = [...]string{
	Unreachable: "unreachable", Overlap: "overlap", Gap: "gap", DeadColumn: "dead_column", Expired: "expired", Undecided: "undecided",
	Contradiction: "contradiction", MissingList: "missing_list",
	WithoutUnit: "without_unit", SameUnits: "same_units",
}

// String returns the kind as reports spell it.
func (k FindingKind) String() string {
	if k == 0 || int(k) >= len(findingNames) {
		return "unknown"
	}
	return findingNames[k]
}

// Finding is one result of an analysis.
type Finding struct {
	Kind FindingKind
	// Row is the row the finding is about, and Other the one it is compared
	// with; -1 for none.
	Row, Other int
	Pos        document.Position
	Message    string
	// Witness is a context (a JSON object) that proves the finding at the
	// instant At, or empty.
	Witness string
	At      time.Time
}
