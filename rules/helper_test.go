package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/valyala/fastjson"
)

// noon is the instant tests bind contexts at.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// parseYAML reads a document that must be right.
func parseYAML(t testing.TB, file, text string) *document.Node {
	t.Helper()
	var errs document.Errors
	n := document.Parse(file, []byte(text), &errs)
	if err := errs.Err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return n
}

// model decodes a model that must be right, with the gateway's fields of these names.
func model(t testing.TB, text string, gateway ...string) *Model {
	t.Helper()
	m, err := ParseModel("context.yaml", []byte(text), gateway...)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

// table decodes a table that must be right.
func table(t testing.TB, m *Model, text string) *Table {
	t.Helper()
	tab, err := ParseTable(m, "flag.yaml", []byte(text), Options{Key: "flag", Name: "remoteconfigs/flag"})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return tab
}

// bind binds a JSON context that the model must accept.
func bind(t testing.TB, m *Model, context string) *Binding {
	t.Helper()
	return bindAt(t, m, context, noon)
}

func bindAt(t testing.TB, m *Model, context string, now time.Time) *Binding {
	t.Helper()
	var b Binding
	if err := m.Bind(&b, parseJSON(t, context), now); err != nil {
		t.Fatalf("%v\n%s", err, context)
	}
	return &b
}

func parseJSON(t testing.TB, text string) *fastjson.Value {
	t.Helper()
	v, err := fastjson.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}

// outcome is the text of a decision's value, or default.
func outcome(tab *Table, d Decision) string {
	if d.Outcome < 0 {
		return "default"
	}
	return tab.Outcomes()[d.Outcome].Text
}

// mistakes are the messages of errs, one a line.
func mistakes(errs *document.Errors) string {
	var lines []string
	for _, e := range errs.List() {
		lines = append(lines, e.Error())
	}
	return strings.Join(lines, "\n")
}
