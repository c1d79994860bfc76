package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/visible"
	"github.com/cadenza-gateway/cadenza/rules"
)

// UnitChange is the effect of an edit of a split or ramp on the units that meet its row.
type UnitChange struct {
	// Row is the row of the later version, and By the field whose values are the
	// units.
	Row string `json:"row"`
	By  string `json:"by"`
	// Share is how many of the units get another arm, as a part of 1.
	Share float64 `json:"share"`
	// Anew is why the units are dealt anew, such as "salt a -> b". Share is then the
	// expected share. Anew is empty if the units keep their buckets, by which Moves are
	// counted.
	Anew  string     `json:"anew,omitempty"`
	Moves []UnitMove `json:"moves,omitempty"`

	pos document.Position // of the row
}

// UnitMove is a part of the units that gets another arm. An arm is known by its name,
// or else by its value. It is empty for the units that a split leaves to the rows below.
type UnitMove struct {
	From  string  `json:"from,omitempty"`
	To    string  `json:"to,omitempty"`
	Share float64 `json:"share"`
}

// String returns the change for people, such as "colours (by customer_id): 10 % of
// units move from blue to green".
func (c UnitChange) String() string {
	if c.Anew != "" {
		return fmt.Sprintf("%s (by %s): units are dealt anew (%s), about %s of units get another arm", c.Row, c.By, c.Anew, percentText(c.Share, 1))
	}
	parts := make([]string, len(c.Moves))
	for i, m := range c.Moves {
		share := percentText(m.Share, 3) + " of units"
		switch {
		case m.From == "":
			parts[i] = share + " come to " + m.To + " from the rows below"
		case m.To == "":
			parts[i] = share + " go from " + m.From + " to the rows below"
		default:
			parts[i] = share + " move from " + m.From + " to " + m.To
		}
	}
	return fmt.Sprintf("%s (by %s): %s", c.Row, c.By, strings.Join(parts, ", "))
}

// betweenArms reports whether units that had an arm get another one, or may.
func (c UnitChange) betweenArms() bool {
	return c.Anew != "" || slices.ContainsFunc(c.Moves, UnitMove.between)
}

func (m UnitMove) between() bool { return m.From != "" && m.To != "" }

// percentText returns a part of 1 as a percentage with at most so many decimals.
func percentText(share float64, decimals int) string {
	text := strconv.FormatFloat(share*100, 'f', decimals, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " %"
}

// MovedUnits returns remarks on the splits of a workspace from which units get another
// arm than in an earlier version of it, at an instant.
func MovedUnits(before, after *definition.Snapshot, now time.Time) []Finding {
	models := modelChanges(before.DataModel, after.DataModel)
	findings := []Finding{}
	for _, d := range after.Definitions {
		old := before.Find(d.Kind, d.Key)
		if old == nil {
			continue
		}
		for _, c := range unitChanges(old, d, models, now) {
			if c.betweenArms() {
				findings = append(findings, Finding{File: c.pos.File, Line: c.pos.Line, Column: c.pos.Column, Message: c.String(), Rule: "moved-units"})
			}
		}
	}
	return findings
}

// unitChanges returns the changes for the units of each row of a definition's table
// that has a split in either version. It leaves out rows that only one version has, units
// that the data models read differently, and guarded splits.
func unitChanges(oldDef, newDef *definition.Definition, models changedModel, now time.Time) []UnitChange {
	old, next := oldDef.Table(), newDef.Table()
	if old == nil || next == nil {
		return nil
	}
	var changes []UnitChange
	for _, pair := range sameRows(old, next, oldDef, newDef) {
		a, b := old.Divide(pair[0], now), next.Divide(pair[1], now)
		by := cmp.Or(b.By, a.By)
		if a.Guard != nil || b.Guard != nil {
			continue // the share of a rollout says which units move
		}
		if by == "" || models.all || models.fields[a.By] || models.fields[b.By] {
			continue
		}
		c := UnitChange{Row: next.Rows()[pair[1]].ID, By: by, pos: next.Rows()[pair[1]].Pos}
		from, to := armsOf(old, a), armsOf(next, b)
		switch {
		case a.By != "" && b.By != "" && a.By != b.By:
			c.Anew = "by " + a.By + " -> " + b.By
		case a.By != "" && b.By != "" && a.Salt != b.Salt:
			c.Anew = "salt " + a.Salt + " -> " + b.Salt
		}
		if c.Anew != "" {
			c.Share = dealtAnew(from, to)
		} else {
			c.Moves = moves(from, to)
			for _, m := range c.Moves {
				c.Share += m.Share
			}
		}
		if c.Share >= 1.0/rules.Buckets {
			changes = append(changes, c)
		}
	}
	return changes
}

// arm is the buckets of one arm, from one to before another.
type arm struct {
	from, to int
	name     string
}

// armsOf returns the arms of a division, and between them, without a name, the buckets
// outside of all arms.
func armsOf(t *rules.Table, d rules.Division) []arm {
	var arms []arm
	at := 0
	for _, p := range d.Parts {
		name := p.Arm
		if _, err := strconv.Atoi(name); err == nil || name == "" {
			name = valueName(t.Outcomes()[p.Outcome])
		}
		arms = append(arms, arm{at, p.From, ""}, arm{p.From, p.To, name})
		at = p.To
	}
	arms = append(arms, arm{at, rules.Buckets, ""})
	return slices.DeleteFunc(arms, func(a arm) bool { return a.from == a.to })
}

// valueName returns a value as the name of its arm.
func valueName(n *document.Node) string {
	var v any
	raw := n.AppendJSON(nil, new(document.Errors))
	if json.Unmarshal(raw, &v) == nil {
		raw, _ = json.Marshal(v) // in one form: 1.0 is 1
	}
	if text, ok := v.(string); ok {
		raw = []byte(text)
	}
	return visible.Clip(string(raw), 60)
}

// moves counts the buckets that change their arm. Moves from one arm to another come
// first, then the larger ones. With
//
//	0..<20000 a, 20000..<50000 b
//	0..<30000 a, 30000..<60000 b
//
// the buckets 20000..<30000 move from b to a, and 50000..<60000 come to b.
func moves(from, to []arm) []UnitMove {
	counts := make(map[UnitMove]int)
	for i, j := 0, 0; i < len(from) && j < len(to); {
		start, end := max(from[i].from, to[j].from), min(from[i].to, to[j].to)
		if from[i].name != to[j].name {
			counts[UnitMove{From: from[i].name, To: to[j].name}] += end - start
		}
		if from[i].to == end {
			i++
		}
		if to[j].to == end {
			j++
		}
	}
	var list []UnitMove
	for m, n := range counts {
		m.Share = float64(n) / rules.Buckets
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b UnitMove) int {
		if a.between() != b.between() {
			if a.between() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return list
}

// dealtAnew returns the expected part of units that get another arm if their buckets in
// both versions are independent: all units but those that get the same arm by chance.
func dealtAnew(from, to []arm) float64 {
	same := 0.0
	for _, a := range from {
		for _, b := range to {
			if a.name == b.name {
				same += float64(a.to-a.from) / rules.Buckets * float64(b.to-b.from) / rules.Buckets
			}
		}
	}
	return 1 - same
}

// sameRows pairs the rows of two versions of a table by their ids, and the remaining
// rows by their conditions.
func sameRows(old, new *rules.Table, oldDef, newDef *definition.Definition) (pairs [][2]int) {
	left := make(map[string]int)
	for i, r := range old.Rows() {
		left[r.ID] = i
	}
	var rest []int
	for j, r := range new.Rows() {
		if i, ok := left[r.ID]; ok {
			pairs = append(pairs, [2]int{i, j})
			delete(left, r.ID)
			continue
		}
		rest = append(rest, j)
	}
	if len(rest) == 0 || len(left) == 0 {
		return pairs
	}
	oldRows, newRows := readRows(oldDef.Node()), readRows(newDef.Node())
	byConditions := make(map[string]int)
	for _, i := range left {
		text := nodeText(oldRows[i].rule())
		if first, taken := byConditions[text]; !taken || i < first {
			byConditions[text] = i
		}
	}
	for _, j := range rest {
		text := nodeText(newRows[j].rule())
		if i, ok := byConditions[text]; ok {
			pairs = append(pairs, [2]int{i, j})
			delete(byConditions, text)
		}
	}
	return pairs
}
