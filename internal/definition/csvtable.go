package definition

import (
	"path"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
)

// csvOf returns the node that names the CSV file of a definition's matrix, or nil.
func csvOf(def *document.Node) *document.Node {
	if n := def.Get("matrix"); n != nil && n.Shape == document.Scalar && document.IsCSV(n.Text) {
		return n
	}
	return nil
}

// withTable returns a definition as if the columns and rows of its CSV file were in it.
func withTable(def, table *document.Node) *document.Node {
	whole := *def
	whole.Members = make([]document.Member, 0, len(def.Members)+1)
	for _, m := range def.Members {
		if m.Key.Text == "matrix" {
			columns := &document.Node{Shape: document.Scalar, Pos: table.Pos, Text: "columns"}
			whole.Members = append(whole.Members, document.Member{Key: columns, Value: table.Items[0]})
			m.Value = &document.Node{Shape: document.Sequence, Pos: table.Pos, Items: table.Items[1:]}
		}
		whole.Members = append(whole.Members, m)
	}
	return &whole
}

// parseTable parses a CSV file. An empty cell on a field is any, and an empty value is a
// mistake.
func (l *loader) parseTable(f *source, text string, errs *document.Errors) *document.Node {
	before := errs.Len()
	table := l.parseText(f, text, errs)
	if table == nil {
		if errs.Len() == before {
			errs.AddAt(l.position(f.path), "the file is empty: its first line has the names of the columns")
		}
		return nil
	}
	columns := table.Items[0].Items
	for _, row := range table.Items[1:] {
		for i, cell := range row.Items[:min(len(row.Items), len(columns))] {
			switch name := columns[i].Text; {
			case !cell.IsNull() || cell.Text != "":
			case name == "value" && i == len(columns)-1:
				errs.Add(cell, "the value of this row is empty: write '' for an empty text")
			case !rules.IsRowColumn(name):
				cell.Text = "any"
			}
		}
	}
	if errs.Len() > before {
		return nil
	}
	return table
}

// readTables parses the CSV files that definitions name, and gives each of these its
// rows. A definition without its rows is left as one with a mistake.
func (l *loader) readTables(files []*file) {
	there := make(map[string]*source, len(l.tables))
	for _, s := range l.tables {
		there[s.path] = s
	}
	owners := make(map[*source]*file)
	var (
		owned []*file   // definitions with a CSV file
		read  []*source // these files
	)
	for _, f := range files {
		f.whole = f.node
		if at := csvOf(f.node); at != nil {
			f.whole = nil
			s := there[path.Join(path.Dir(f.Path), at.Text)]
			if l.isTableOf(f, at, s, owners[s]) {
				owners[s] = f
				owned, read = append(owned, f), append(read, s)
			}
		}
	}
	tables := make([]*file, len(read))
	place := func(i int) document.Position { return l.position(read[i].path) }
	l.parallel("reading this file", len(read), place, func(i int, errs *document.Errors) {
		tables[i] = l.last.remembered(read[i], func(text string, errs *document.Errors) *document.Node { return l.parseTable(read[i], text, errs) })
		errs.Merge(&tables[i].errs)
		l.grow(tables[i].nodes, tables[i].bytes)
	})
	if l.stopped() {
		return
	}
	for i, t := range tables {
		l.next.files[t.Path] = t
		l.csv = append(l.csv, t)
		if f := owned[i]; t.node != nil {
			f.whole = withTable(f.node, t.node)
			if f.table != t {
				f.table, f.built, f.gateway = t, nil, gatewayFields(f.whole, "") // a matrix has no splits
			}
		}
	}
	for _, s := range l.tables {
		if owners[s] == nil {
			l.warn("not-read", s.path, "not read, it is the matrix of no definition in its folder")
		}
	}
}

// isTableOf reports whether a CSV file, nil if there is none of the name, can be the
// matrix of a definition. It reports why not. other is a definition whose matrix it is.
func (l *loader) isTableOf(f *file, at *document.Node, s *source, other *file) bool {
	before := l.errs.Len()
	switch columns := f.node.Get("columns"); {
	case strings.ContainsAny(at.Text, `/\`):
		l.errs.Add(at, "%s: a CSV file stands beside its definition, and is named without a folder", quoted(at.Text))
	case columns != nil:
		l.errs.Add(columns, "the first line of %s has the names of the columns: leave columns out", at.Text)
	case s == nil && !l.isLostFile(path.Join(path.Dir(f.Path), at.Text)):
		var names []string
		for _, s := range l.tables {
			if path.Dir(s.path) == path.Dir(f.Path) {
				names = append(names, path.Base(s.path))
			}
		}
		l.errs.Add(at, "there is no file %s beside this definition%s", quoted(at.Text), document.DidYouMean(at.Text, names))
	case other != nil:
		l.errs.Add(at, "%s is the matrix of %s: a CSV file belongs to one definition", at.Text, l.file(other.Path))
	}
	return s != nil && l.errs.Len() == before
}
