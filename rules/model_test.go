package rules

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

func TestDecodeModelWithoutFile(t *testing.T) {
	var errs document.Errors
	m := DecodeModel(nil, nil, &errs)
	if err := errs.Err(); err != nil {
		t.Fatal(err)
	}
	tab := table(t, m, "rules: [{ value: x }]")
	if got := outcome(tab, tab.Evaluate(bind(t, m, `{"a":1}`))); got != "x" {
		t.Errorf("got %s", got)
	}
}

func TestModelNames(t *testing.T) {
	m := model(t, everyField)
	want := []string{"env", "locale", "plan", "city", "seats", "level", "share", "beta", "since", "app", "ip", "tags", "roles"}
	if diff := cmp.Diff(want, m.FieldNames()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"staff", "paying", "paying_staff"}, m.SegmentNames()); diff != "" {
		t.Error(diff)
	}
}

func TestModelMistakes(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown member", "feilds: {}", `context.yaml:1:1: unknown member "feilds" in the data model: did you mean "fields"?`},
		{"not a mapping", "fields: [a]", `context.yaml:1:9: fields must be a mapping of names to fields, this is a list`},
		{"no type", "fields: { a: {} }", `context.yaml:1:14: the field "a" needs a type: boolean, date, list, number or string`},
		{"type", "fields: { a: { type: strin } }", `context.yaml:1:22: the type of the field "a" must be one of boolean, date, list, number, string, this is "strin": did you mean "string"?`},
		{"short type", "fields: { a: bool }", `context.yaml:1:14: the type of the field "a" must be one of boolean, date, list, number, string, this is "bool"`},
		{"option", "fields: { a: { type: number, valeus: [1] } }", `context.yaml:1:30: unknown member "valeus" in the field "a": did you mean "values"?`},
		{"option of another type", "fields: { a: { type: boolean, min: 1 } }", `context.yaml:1:31: min does not apply to the field "a", which is a boolean`},
		{"format", "fields: { a: { type: string, format: semvr } }", `context.yaml:1:38: format must be one of semver, ip, this is "semvr": did you mean "semver"?`},
		{"match", "fields: { a: { type: string, match: language } }", `context.yaml:1:37: match must be one of exact, language-range, this is "language"`},
		{"match and format", "fields: { a: { type: string, format: ip, ignore_case: true } }", `context.yaml:1:55: ignore_case does not go together with format`},
		{"empty values", "fields: { a: { type: string, values: [] } }", `context.yaml:1:38: values of the field "a" must be a list of at least one value`},
		{"values", "fields: { a: { type: number, values: [1, x] } }", `context.yaml:1:42: "x" is not a number the field "a" allows`},
		{"value twice", "fields: { a: { type: string, ignore_case: true, values: [a, A] } }", `context.yaml:1:61: "A" is listed twice in values of the field "a"`},
		{"version", "fields: { a: { type: string, format: semver, values: [x] } }", `context.yaml:1:55: "x" is not a version such as 2.1.3`},
		{"min and max", "fields: { a: { type: number, min: 2, max: 1 } }", `context.yaml:1:35: min of the field "a" is above its max`},
		{"required", "fields: { a: { type: number, required: maybe } }", `context.yaml:1:40: required must be true or false, this is "maybe"`},
		{"reserved", "fields: { segment: string }", `context.yaml:1:11: a field can't be called "segment", which has a meaning of its own in rules`},
		{"timezone", "timezone: Europe/Brusels", `context.yaml:1:11: unknown timezone "Europe/Brusels": it must be a name such as UTC or Europe/Brussels`},
		{"local", "timezone: Local", `context.yaml:1:11: unknown timezone "Local": it must be a name such as UTC or Europe/Brussels`},
		{"on_unknown_field", "on_unknown_field: rejct", `context.yaml:1:19: on_unknown_field must be one of ignore, warn, reject, this is "rejct": did you mean "reject"?`},
		{"on_type_mismatch", "on_type_mismatch: drop", `context.yaml:1:19: on_type_mismatch must be one of missing, reject, this is "drop"`},
		{"segment rows", "segments: { a: { b: c } }", `context.yaml:1:16: the segment "a" must be a list of rows, each a mapping of fields to cells`},
		{"segment row", "segments: { a: [b] }", `context.yaml:1:17: a row of the segment "a" must be a mapping of fields to cells`},
		{"segment field", "fields: { plan: string }\nsegments: { a: [ { plam: x } ] }", `context.yaml:2:20: unknown field "plam": did you mean "plan"?`},
		{"segment name", "segments: { any: [ { a: b } ] }", `context.yaml:1:13: "any" can't be the name of a segment: it must have 1 to 256 letters, digits and any of . _ : / -`},
		{"segment cycle", "segments:\n  a: [ { segment: b } ]\n  b: [ { segment: { none: [c] } } ]\n  c: [ { segment: a } ]", `context.yaml:2:3: the segment "a" refers to itself, directly or by way of another`},
		{"config in a segment", "segments: { a: [ { config: { x: true } } ] }", `context.yaml:1:20: a segment can't depend on a configuration`},
		{"computed", "computed: [a]", `context.yaml:1:11: computed must be a mapping of names to expressions, this is a list`},
		{"computed twice", "fields: { a: string }\ncomputed: { a: 'true' }", `context.yaml:2:13: "a" is a field already`},
		{"computed name", "fields: { plan: string }\ncomputed: { x: plam == 'a' }", `context.yaml:2:16: the expression of the computed field "x", character 1: unknown field "plam": did you mean "plan"?`},
		{"computed type", "fields: { seats: number }\ncomputed: { x: seats == 'a' }", `context.yaml:2:16: the expression of the computed field "x", character 7: == does not take a number and text: a number has no quotes, and string(n) makes text of one`},
		{"computed remainder", "fields: { seats: number }\ncomputed: { x: seats % 10 }", `context.yaml:2:16: the expression of the computed field "x", character 7: % does not take a number and a whole number: a remainder needs whole numbers, write int(n) % 10`},
		{"computed text", "fields: { seats: number }\ncomputed: { x: 'seats + 1 == \"a\"' }", `context.yaml:2:16: the expression of the computed field "x", character 11: == does not take a number and text: a number has no quotes, and string(n) makes text of one`},
		{"computed function", "fields: { plan: string }\ncomputed: { x: 'plan.startWith(\"a\")' }", `context.yaml:2:16: the expression of the computed field "x", character 15: unknown function "startWith": did you mean "startsWith"?`},
		{"computed global function", "fields: { plan: string }\ncomputed: { x: lowerAscii(plan) }", `context.yaml:2:16: the expression of the computed field "x", character 11: unknown function "lowerAscii"`},
		{"computed result", "computed: { x: '{1: 2}' }", `context.yaml:1:16: the expression of the computed field "x" gives map(int, int): it must give a bool, number, string, timestamp or list of strings`},
		{"computed declared type", "computed: { x: { expr: '1 + 1', type: string } }", `context.yaml:1:39: the computed field "x" gives a number, not string`},
		{"computed option", "computed: { x: { expr: '1 + 1', ignore_case: true } }", `context.yaml:1:33: ignore_case does not apply to the computed field "x", which is a number`},
		{"computed present", "computed: { x: present(nothing) }", `context.yaml:1:16: the expression of the computed field "x", character 9: unknown field "nothing"`},
		{"computed later", "computed: { x: y, y: 'true' }", `context.yaml:1:16: the expression of the computed field "x", character 1: unknown field "y"`},
		{"computed empty", "computed: { x: '' }", `context.yaml:1:16: the expression of the computed field "x", character 1: the expression ends too early`},
		{"computed long", "computed: { x: '" + strings.Repeat("1+", 3000) + "1' }", `context.yaml:1:16: the expression of the computed field "x" has 6001 bytes, at most 4096 are supported`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var errs document.Errors
			m := DecodeModel(parseYAML(t, "context.yaml", tt.text), nil, &errs)
			got := mistakes(&errs)
			if !strings.HasPrefix(got, tt.want) || errs.Len() != 1 {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			// The model must still be fit for finding the mistakes of other
			// files.
			var more document.Errors
			DecodeTable(m, parseYAML(t, "flag.yaml", "rules: [{ when: { a: x, segment: a }, value: 1 }]"), Options{}, &more)
		})
	}
}

func TestModelReportsAllMistakes(t *testing.T) {
	var errs document.Errors
	DecodeModel(parseYAML(t, "context.yaml", "timezone: Mars\nfields:\n  a: strin\n  b: { type: number, min: x }\nsegments:\n  s: [ { c: 1 } ]\n"), nil, &errs)
	if errs.Len() != 4 {
		t.Errorf("got %d mistakes:\n%s", errs.Len(), mistakes(&errs))
	}
}
