package rules

import "github.com/cadenza-gateway/cadenza/internal/document"

// ParseModel reads a data model from the content of a context.yaml, or of a
// JSON file where the name ends in .json. file is only used in messages. gateway are
// the names of the gateway's fields that its tables may read, each once. The error
// lists all mistakes, each with its file, line and column.
func ParseModel(file string, content []byte, gateway ...string) (*Model, error) {
	var errs document.Errors
	doc := document.Parse(file, content, &errs)
	if err := errs.Err(); err != nil {
		return nil, err
	}
	names := make([]*document.Node, len(gateway))
	for i, name := range gateway {
		names[i] = &document.Node{Shape: document.Scalar, Text: name}
	}
	m := DecodeModel(doc, names, &errs)
	return m, errs.Err()
}

// ParseTable compiles a table from the content of a file with the TableMembers
// and no others: columns and matrix, or rules. It reads the file and reports
// mistakes as ParseModel does.
//
// The values can be any that JSON knows: with d a decision of a row,
// t.Outcomes()[d.Outcome].Text is the text of a scalar, and
// t.Outcomes()[d.Outcome].AppendJSON(nil, nil) any value as JSON.
func ParseTable(m *Model, file string, content []byte, opts Options) (*Table, error) {
	var errs document.Errors
	doc := document.Parse(file, content, &errs)
	if errs.Len() > 0 || doc != nil && !doc.CheckMembers(&errs, "a table", TableMembers...) {
		return nil, errs.Err()
	}
	t := DecodeTable(m, doc, opts, &errs)
	for _, value := range t.outcomes {
		value.AppendJSON(nil, &errs)
	}
	return t, errs.Err()
}
