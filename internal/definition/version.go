package definition

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// content collects the members of a definition, by name, for its canonical JSON.
type content map[string]any

// canonicalJSON writes a value with sorted members and without white space.
func canonicalJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Contents are made of maps, lists, text and json.Number only.
		panic("definition: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// version returns the first 12 hexadecimal digits of the SHA-256 of a content.
func version(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

// freeValue returns a JSON value for a content. Numbers keep their text.
func freeValue(raw []byte) any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	_ = dec.Decode(&v) // raw comes from AppendJSON, which writes valid JSON
	return v
}

// cellValue returns the content of a cell, or of another value whose meaning depends
// on its field: the text as it was written. A text keeps its quotes where they may
// change its meaning.
func cellValue(n *document.Node) any {
	switch {
	case n == nil:
		return nil
	case n.Shape == document.Sequence:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = cellValue(item)
		}
		return list
	case n.Shape == document.Mapping:
		m := make(content, len(n.Members))
		for _, member := range n.Members {
			m[member.Key.Text] = cellValue(member.Value)
		}
		return m
	case n.IsNull():
		return nil
	case n.Quoted && quotesMatter(n):
		return strconv.Quote(n.Text)
	}
	return n.Text
}

// quotesMatter reports whether a quoted scalar could be read otherwise without
// its quotes.
func quotesMatter(n *document.Node) bool {
	if strings.HasPrefix(n.Text, `"`) {
		return true // or it would look like text that kept its quotes
	}
	plain := document.Node{Shape: document.Scalar, Text: n.Text}
	var errs document.Errors
	if raw := plain.AppendJSON(nil, &errs); errs.Len() > 0 || raw[0] != '"' {
		return true
	}
	if n.JSON {
		return false
	}
	switch n.Text {
	case "any", "missing", "present":
		return true
	}
	return strings.Contains(n.Text, "..") ||
		strings.Trim(n.Text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") != ""
}

// members copies the named members of a definition as cells.
func (c content) members(n *document.Node, names ...string) {
	for _, name := range names {
		if v := n.Get(name); v != nil {
			c[name] = cellValue(v)
		}
	}
}
