package rules

import (
	"fmt"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// MissingLists finds cells that only exclude elements of a list. As no
// condition matches a missing field, such a cell does not match a context
// without the list: tags: not beta fails for a caller without tags. Each cell is
// found once. A cell that covers the case, such as [missing, not beta] or
// {all: [present, not beta]}, is not found.
func (t *Table) MissingLists() []Finding {
	var findings []Finding
	seen := make(map[string]bool)
	for row := range t.rows {
		atoms, cells := t.rowAtoms(row), t.rowCells(row)
		for i := range atoms {
			a := &atoms[i]
			if a.onMissing || a.op != atomPred || int(a.slot) >= t.model.declared {
				continue
			}
			f := &t.model.fields[a.slot]
			if f.typ != listField || f.required || mentions(cells[i].node, presentWord) || !onlyNegative(a.more.pred) {
				continue
			}
			text := CellText(cells[i].node)
			if key := f.name + "\x00" + text; seen[key] || len(findings) >= maxFindings {
				continue
			} else {
				seen[key] = true
			}
			findings = append(findings, Finding{Kind: MissingList, Row: row, Other: -1, Pos: cells[i].node.Pos, Message: fmt.Sprintf(
				"%s: %s does not match a context without %s: write [missing, %s] if it should, {all: [present, %s]} if not", f.name, text, f.name, text, text)})
		}
	}
	return findings
}

// onlyNegative reports whether a list can meet a predicate only by elements that
// it does not have.
func onlyNegative(p *pred) bool {
	ways, ok := listWays(p)
	return ok && slices.ContainsFunc(ways, func(w listWay) bool {
		return len(w.some) == 0 && len(w.excluded) > 0 && intDomain.isAll(w.sizes)
	})
}

// mentions reports whether a cell has a word in it.
func mentions(n *document.Node, word string) bool {
	if n == nil {
		return false
	}
	return n.Shape == document.Scalar && n.Text == word ||
		slices.ContainsFunc(n.Items, func(n *document.Node) bool { return mentions(n, word) }) ||
		slices.ContainsFunc(n.Members, func(m document.Member) bool { return mentions(m.Value, word) })
}
