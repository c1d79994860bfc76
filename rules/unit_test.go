package rules

import (
	"strings"
	"testing"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// TestUnits holds the units of reports and erasures to those that splits record.
func TestUnits(t *testing.T) {
	t.Parallel()
	hash := func(dst []byte, field, text string) []byte { return append(dst, field+"/"+text...) }
	model := func(coerce string) *Model {
		var errs document.Errors
		doc := document.Parse("context.yaml", []byte("coerce: "+coerce+`
fields:
  id:      { type: string }
  mail:    { type: string, ignore_case: true, trace: value }
  account: { type: number }
  plan:    { type: string, values: [free, pro] }
  session: { type: string, trace: none }
  tags:    { type: list }
computed:
  both: { type: string, expr: "id + mail" }
`), &errs)
		m := DecodeModel(doc, nil, &errs)
		if err := errs.Err(); err != nil {
			t.Fatal(err)
		}
		return m
	}
	coercing, strict := model("true"), model("false")
	for _, test := range []struct {
		m           *Model
		field, json string
		want        string // the unit, or else part of the error
	}{
		{coercing, "id", `"c-7"`, "id/c-7"},
		{coercing, "id", `7.0`, "id/7"},
		{coercing, "id", `["c-7"]`, "id/c-7"},
		{coercing, "id", `""`, "id/"},
		{coercing, "mail", `"Ada@X"`, "mail/ada@x"},
		{coercing, "account", `"12.50"`, "account/12.5"},
		{coercing, "account", `1250e-2`, "account/12.5"},
		{coercing, "plan", `"pro"`, "plan/pro"},
		{strict, "account", `12.50`, "account/12.5"},
		{strict, "account", `"12.50"`, "must be a number"},
		{strict, "id", `7`, "must be text, this is 7"},
		{coercing, "plan", `"gold"`, "does not allow"},
		{coercing, "id", `null`, "must be text, this is null"},
		{coercing, "id", `{}`, "must be text, this is an object"},
		{coercing, "session", `"x"`, "trace: none"},
		{coercing, "tags", `"x"`, "is a list"},
		{coercing, "both", `"x"`, "not a declared field"},
		{coercing, "acount", `1`, "did you mean account?"},
		{coercing, "now", `1`, "not a declared field"},
	} {
		b := new(Binding)
		for range 2 { // it is used again
			got, err := test.m.AppendUnit(nil, b, test.field, fastjson.MustParse(test.json), hash)
			if err != nil && !strings.Contains(err.Error(), test.want) || err == nil && string(got) != test.want {
				t.Errorf("%s %s: %q, %v; want %s", test.field, test.json, got, err, test.want)
			}
		}
	}
	for _, test := range []struct {
		m                       *Model
		field, text, unit, json string
		clear                   bool
	}{
		{coercing, "id", "c-\"7", "id/c-\"7", `"c-\"7"`, false},
		{coercing, "mail", "Ada@X", "mail/ada@x", `"Ada@X"`, true},
		{coercing, "account", "12.50", "account/12.5", "12.5", false},
		{strict, "account", "12.50", "account/12.5", "12.5", false},
		{strict, "account", "x", "", "", false},
		{strict, "id", "7", "id/7", `"7"`, false},
		{coercing, "session", "x", "", "", false},
	} {
		unit, json, clear, err := test.m.RecordedUnit(test.field, test.text, hash)
		if unit != test.unit || json != test.json || clear != test.clear || (err != nil) != (test.unit == "") {
			t.Errorf("%s=%s: %q %q %t %v", test.field, test.text, unit, json, clear, err)
		}
	}
}
