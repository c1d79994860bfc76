package prompt

import (
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/rules"
)

// Configured is what variables take from a remote configuration: a text for each
// answer of its table. It is immutable and safe for concurrent use.
type Configured struct {
	Key      string // of the remote configuration
	Path     string // in its value; empty: the whole value
	table    *rules.Table
	texts    []text // by outcome
	fallback text   // if no row matches
}

// text is a text with its length in JSON, escaped.
type text struct {
	bytes   []byte // nil: there is none
	escaped int
}

func newText(bytes []byte) text { return text{bytes, jsontext.EscapedLen(bytes)} }

// NewConfigured makes a Configured. texts are the texts of the table's outcomes,
// fallback the text of its default. A text is nil if the value has no such path.
func NewConfigured(key, path string, table *rules.Table, texts [][]byte, fallback []byte) *Configured {
	c := &Configured{Key: key, Path: path, table: table, texts: make([]text, len(texts)), fallback: newText(fallback)}
	for i, t := range texts {
		c.texts[i] = newText(t)
	}
	return c
}

// Table returns the table of the remote configuration.
func (c *Configured) Table() *rules.Table { return c.table }

// textHeader estimates the memory of a text without its bytes.
const textHeader = 32

// Size returns about how many bytes of memory the texts take.
func (c *Configured) Size() int {
	size := len(c.fallback.bytes) + textHeader
	for _, t := range c.texts {
		size += len(t.bytes) + textHeader
	}
	return size
}

// choose returns the text for a binding. The table is evaluated once for all
// variables and prompts of a request.
func (c *Configured) choose(b *rules.Binding) *text {
	if d := c.table.EvaluateOnce(b); d.Outcome >= 0 {
		return &c.texts[d.Outcome]
	}
	return &c.fallback
}

// empty is the text of a variable that no message reads.
var empty = newText([]byte{})

// configure returns the text of a variable that has a configuration and is not
// supplied. read reports whether a message reads it.
func (values *Values) configure(s *slot, b *rules.Binding, read bool) *text {
	if !read {
		return &empty
	}
	if !slices.ContainsFunc(values.configured, func(c *Configured) bool { return c.table == s.config.table }) {
		values.configured = append(values.configured, s.config)
	}
	if t := s.config.choose(b); t.bytes != nil {
		return t
	}
	return &s.text
}

// Read returns the configurations that variables were taken from, each once, in the
// order of the declaration. It is nil for most requests, and valid until values are
// bound again.
func (values *Values) Read() []*Configured {
	if len(values.configured) == 0 {
		return nil
	}
	return values.configured
}

// forgetRead drops the configurations that were read.
func (values *Values) forgetRead() {
	clear(values.configured)
	values.configured = values.configured[:0]
}
