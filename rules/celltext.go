package rules

import (
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// maxCellText is how much of a cell messages and explanations show.
const maxCellText = 200

// CellText returns a cell as it was written, on one line. Of a long one it returns the
// beginning.
func CellText(n *document.Node) string {
	s := string(appendCell(nil, n))
	if len(s) <= maxCellText {
		return s
	}
	return strings.ToValidUTF8(s[:maxCellText], "") + "…"
}

func appendCell(dst []byte, n *document.Node) []byte {
	if len(dst) > maxCellText {
		return dst
	}
	switch {
	case n == nil || n.IsNull():
		return append(dst, anyWord...)
	case n.Shape == document.Sequence:
		dst = append(dst, '[')
		for i, item := range n.Items {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendCell(dst, item)
		}
		return append(dst, ']')
	case n.Shape == document.Mapping:
		dst = append(dst, '{')
		for i, m := range n.Members {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(dst, m.Key.Text...)
			dst = append(dst, ": "...)
			dst = appendCell(dst, m.Value)
		}
		return append(dst, '}')
	case n.Quoted && !n.JSON:
		return strconv.AppendQuote(dst, n.Text)
	}
	return append(dst, n.Text...)
}
