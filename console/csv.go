package console

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// csvParameter asks a page for one of its tables as CSV: csv=2 for the second. The table is
// read from what the page's template made, so it has what the visitor's role sees.
const csvParameter = "csv"

// htmlTable has the rows of a table of a page.
type htmlTable [][]string

// tablesOf reads the tables of a page. A table inside a cell is neither a table nor a part
// of that cell: it explains the row. A value that the page shows for people is what its
// <time> or <data> says: an RFC 3339 time, a number without commas.
func tablesOf(page []byte) (tables []htmlTable) {
	tokens := html.NewTokenizer(bytes.NewReader(page))
	var cell strings.Builder
	value, depth, inCell, span := 0, 0, false, 1
	for {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			return tables // the page is in memory: it is its end
		}
		token := tokens.Token()
		switch {
		case token.DataAtom == atom.Table && kind == html.StartTagToken:
			if depth++; depth == 1 {
				tables = append(tables, nil)
			}
		case token.DataAtom == atom.Table && kind == html.EndTagToken:
			depth--
		case depth != 1:
		case token.DataAtom == atom.Tr && kind == html.StartTagToken:
			last := &tables[len(tables)-1]
			*last = append(*last, nil)
		case (token.DataAtom == atom.Td || token.DataAtom == atom.Th) && kind == html.StartTagToken:
			inCell, span = true, 1
			if n, err := strconv.Atoi(attribute(&token, "colspan")); err == nil && n > 0 && n <= widest {
				span = n
			}
			cell.Reset()
		case (token.DataAtom == atom.Td || token.DataAtom == atom.Th) && kind == html.EndTagToken:
			rows := tables[len(tables)-1]
			row := &rows[len(rows)-1]
			*row = append(*row, strings.Join(strings.Fields(cell.String()), " "))
			*row = append(*row, make([]string, span-1)...)
			inCell = false
		case !inCell:
		case token.DataAtom == atom.Time || token.DataAtom == atom.Data:
			if kind == html.EndTagToken {
				value--
			} else {
				value++
				cell.WriteString(attribute(&token, map[atom.Atom]string{atom.Time: "datetime", atom.Data: "value"}[token.DataAtom]))
			}
		case kind == html.TextToken && value == 0:
			cell.WriteString(token.Data)
		case kind == html.StartTagToken || kind == html.SelfClosingTagToken:
			if token.DataAtom == atom.Br || token.DataAtom == atom.Summary || token.DataAtom == atom.P || token.DataAtom == atom.Pre || token.DataAtom == atom.Li {
				cell.WriteByte(' ')
			}
		}
	}
}

// widest bounds the cells that one cell of a page takes.
const widest = 100

func attribute(token *html.Token, name string) string {
	for _, a := range token.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// csvCell returns a cell that no spreadsheet takes for a formula: an apostrophe stands
// before what could begin one. A number is as it was, also a negative one, because it
// computes nothing, and a program that adds the numbers up needs it.
// https://owasp.org/www-community/attacks/CSV_Injection
func csvCell(text string) string {
	if text == "" || !strings.ContainsRune("=+-@\t\r\n＝＋－＠", []rune(text)[0]) {
		return text
	}
	if strings.Trim(text, "+-.0123456789eE") == "" {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return text
		}
	}
	return "'" + text
}

// writeCSV writes a table without the columns that have nothing but a picture.
func (t htmlTable) writeCSV(to io.Writer) error {
	width, used := 0, make(map[int]bool)
	for _, row := range t {
		width = max(width, len(row))
		for i, cell := range row {
			used[i] = used[i] || cell != ""
		}
	}
	var rows [][]string
	for _, row := range t {
		var cells []string
		for i, cell := range append(row, make([]string, width-len(row))...) {
			if used[i] {
				cells = append(cells, csvCell(cell))
			}
		}
		rows = append(rows, cells)
	}
	return csv.NewWriter(to).WriteAll(rows)
}

// serveCSV answers with a table of a page, by its number in the query.
func (h *Handler) serveCSV(w http.ResponseWriter, name, number string, main []byte) {
	tables := tablesOf(main)
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(tables) {
		h.write(w, http.StatusNotFound, "message.html", message{"There is no such table", fmt.Sprintf("The page has %d tables now. %s=1 asks for the first.", len(tables), csvParameter)})
		return
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
	attach(w, fmt.Sprintf("%s-%d.csv", name, n))
	_ = tables[n-1].writeCSV(w) // the visitor left
}

// withCSVLinks puts a link to its CSV below each table of a page. Templates escape each "<"
// of a text, so tags are found without reading the page.
func withCSVLinks(page string, address *url.URL) template.HTML {
	const begin, end = "<table", "</table>"
	var b strings.Builder
	b.Grow(len(page) + len(page)/16)
	query, depth, tables := address.Query(), 0, 0
	for {
		part, rest, found := strings.Cut(page, end)
		b.WriteString(part)
		if !found {
			return template.HTML(b.String()) //nolint:gosec // the template of the page made it
		}
		b.WriteString(end)
		if depth += strings.Count(part, begin) - 1; depth == 0 {
			tables++
			query.Set(csvParameter, strconv.Itoa(tables))
			fmt.Fprintf(&b, `<p class="csv"><a href="%s" download>CSV<span class="unseen"> of table %d</span></a></p>`, template.HTMLEscapeString(address.EscapedPath()+"?"+query.Encode()), tables)
		}
		page = rest
	}
}
