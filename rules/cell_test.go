package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// everyField has a field of every kind.
const everyField = `
timezone: Europe/Brussels
fields:
  env:     { type: string, values: [production, staging, development] }
  locale:  { type: string, match: language-range }
  plan:    { type: string }
  city:    { type: string, ignore_case: true }
  seats:   { type: number }
  level:   { type: number, values: [1, 2, 3] }
  share:   { type: number, min: 0, max: 1 }
  beta:    { type: boolean }
  since:   { type: date }
  app:     { type: string, format: semver }
  ip:      { type: string, format: ip }
  tags:    { type: list }
  roles:   { type: list, values: [admin, editor], ignore_case: true }
segments:
  staff: [ { tags: employee }, { ip: 10.0.0.0/8 } ]
  paying: [ { plan: [pro, team] } ]
  paying_staff: [ { segment: { all: [staff, paying] } } ]
`

func TestCells(t *testing.T) {
	m := model(t, everyField)
	tests := []struct {
		field, cell string
		match, miss []string // values as JSON; "-" is a missing field
	}{
		// Words.
		{"plan", `any`, []string{`"x"`, `-`, `null`}, nil},
		{"plan", `"*"`, []string{`"x"`, `-`}, nil},
		{"plan", ``, []string{`"x"`, `-`}, nil},
		{"plan", `~`, []string{`"x"`, `-`}, nil},
		{"plan", `missing`, []string{`-`, `null`, `{}`}, []string{`"missing"`, `"x"`, `""`}},
		{"plan", `present`, []string{`"x"`, `""`}, []string{`-`, `null`}},
		{"plan", `not missing`, []string{`"x"`}, []string{`-`}},
		{"plan", `not present`, []string{`-`}, []string{`"x"`}},
		{"plan", `[missing, free]`, []string{`-`, `"free"`}, []string{`"x"`}},
		{"plan", `{ none: [missing, free] }`, []string{`"x"`}, []string{`-`, `"free"`}},
		{"plan", `"any"`, []string{`"any"`}, []string{`"x"`, `-`}},
		{"plan", `'missing'`, []string{`"missing"`}, []string{`"x"`, `-`}},
		{"plan", `"not x"`, []string{`"not x"`}, []string{`"y"`, `"x"`}},
		{"seats", `any`, []string{`1`, `-`}, nil},
		{"seats", `"*"`, []string{`1`, `-`}, nil},
		{"seats", `missing`, []string{`-`, `"many"`, `{}`}, []string{`0`}},
		// Text.
		{"plan", `pro`, []string{`"pro"`, `["pro"]`}, []string{`"Pro"`, `"pro "`, `-`, `["pro","x"]`, `true`}},
		{"plan", `not pro`, []string{`"Pro"`, `""`}, []string{`"pro"`, `-`, `null`, `7.5e999`, `true`}},
		{"plan", `not not pro`, []string{`"pro"`}, []string{`"x"`, `-`}},
		{"plan", `[pro, team]`, []string{`"pro"`, `"team"`}, []string{`"x"`, `-`}},
		{"plan", `[not pro, pro]`, []string{`"pro"`, `"x"`}, []string{`-`}},
		{"plan", `{ not: [pro, team] }`, []string{`"x"`}, []string{`"pro"`, `"team"`, `-`}},
		{"plan", `{ any: [pro*, team], not: proto }`, []string{`"pro"`, `"profi"`, `"team"`}, []string{`"proto"`, `"x"`, `-`}},
		{"plan", `{ all: ["*a*", "*b*"] }`, []string{`"ab"`, `"bxa"`}, []string{`"a"`, `"b"`, `-`}},
		{"plan", `{ none: ["*a*", "*b*"] }`, []string{`"c"`}, []string{`"a"`, `"b"`, `-`}},
		{"plan", `{ not: { all: ["*a*", "*b*"] } }`, []string{`"c"`, `"a"`, `"b"`}, []string{`"ab"`, `-`}},
		{"plan", `[a, b, c, d, e, f, g, h, i, j]`, []string{`"a"`, `"j"`}, []string{`"k"`, `""`, `-`}},
		{"plan", `{ none: [a, b, c, d, e, f, g, h, i, j] }`, []string{`"k"`, `""`}, []string{`"a"`, `"j"`, `-`}},
		{"plan", `1.10`, []string{`"1.10"`}, []string{`"1.1"`, `1.1`, `1.10`}},
		{"plan", `012`, []string{`"012"`}, []string{`"12"`, `10`, `12`}},
		{"plan", `12`, []string{`"12"`, `12`, `12.0`, `1.2e1`}, []string{`12.5`}},
		{"plan", `9007199254740993`, []string{`9007199254740993`}, []string{`9007199254740992`}},
		{"plan", `yes`, []string{`"yes"`}, []string{`true`}},
		{"plan", `pre*`, []string{`"pre"`, `"prefix"`}, []string{`"Pre"`, `"pr"`, `-`}},
		{"plan", `not pre*`, []string{`"pr"`, `"prf"`}, []string{`"pre"`, `"prefix"`, `-`}},
		{"plan", `"pre*"`, []string{`"pre*"`}, []string{`"pre"`}},
		{"plan", `"*fix"`, []string{`"fix"`, `"suffix"`}, []string{`"fixed"`, `-`}},
		{"plan", `"*mid*"`, []string{`"mid"`, `"amidst"`}, []string{`"mi"`, `-`}},
		{"plan", `{ is: "*mid*" }`, []string{`"*mid*"`}, []string{`"mid"`}},
		{"plan", `{ is: any }`, []string{`"any"`}, []string{`"x"`, `-`}},
		{"plan", `/^x+$/`, []string{`"x"`, `"xxx"`}, []string{`"y"`, `""`, `-`}},
		{"plan", `not /^x+$/`, []string{`"y"`, `""`}, []string{`"x"`, `-`}},
		{"plan", `{ matches: '^x{2}$' }`, []string{`"xx"`}, []string{`"x"`, `-`}},
		{"plan", `"/x/"`, []string{`"/x/"`}, []string{`"x"`}},
		{"plan", `/x`, []string{`"/x"`}, []string{`"x"`}},
		{"plan", `"a..b"`, []string{`"a..b"`}, []string{`"a"`}},
		{"city", `Brussels`, []string{`"brussels"`, `"BRUSSELS"`}, []string{`"brussel"`}},
		{"city", `Ä*`, []string{`"ärzte"`, `"Ä"`}, []string{`"a"`}},
		{"city", `/^b.*s$/`, []string{`"BruxelleS"`}, []string{`"x"`}},
		{"city", `"*sEls"`, []string{`"BRUSSELS"`}, []string{`"x"`}},
		{"city", `ſK`, []string{`"sk"`, `"S\u212a"`}, []string{`"s"`}},
		{"env", `not production`, []string{`"staging"`}, []string{`"production"`, `"prod"`, `-`}},
		{"env", `missing`, []string{`"prod"`, `-`}, []string{`"staging"`}},
		// Language ranges.
		{"locale", `nl`, []string{`"nl"`, `"nl-BE"`, `"NL-be"`, `"nl-Latn-BE"`}, []string{`"nla"`, `"en"`, `"n"`, `"nl_BE"`, `-`}},
		{"locale", `nl-BE`, []string{`"nl-be"`, `"nl-BE-x-a"`}, []string{`"nl"`, `"nl-NL"`, `"nl-BEL"`}},
		{"locale", `not nl`, []string{`"en"`, `"nlx"`}, []string{`"nl"`, `"nl-BE"`, `-`}},
		{"locale", `"*-BE"`, []string{`"nl-BE"`, `"fr-be"`}, []string{`"be"`}},
		{"locale", `[nl, fr-BE]`, []string{`"nl-NL"`, `"fr-BE"`}, []string{`"fr"`}},
		// Numbers.
		{"seats", `10`, []string{`10`, `10.0`, `1e1`, `"10"`, `[10]`}, []string{`11`, `"010"`, `"ten"`, `-`, `true`, `"+10"`, `"0xa"`}},
		{"seats", `0`, []string{`0`, `-0`, `0.0`}, []string{`1`}},
		{"seats", `not 10`, []string{`11`, `9.9`}, []string{`10`, `"ten"`, `-`}},
		{"seats", `[1, 2.5]`, []string{`1`, `2.5`}, []string{`2`, `-`}},
		{"seats", `10..20`, []string{`10`, `15.5`, `20`}, []string{`9.99`, `20.01`, `-`}},
		{"seats", `10..<20`, []string{`10`, `19.999999`}, []string{`20`, `9`}},
		{"seats", `10..`, []string{`10`, `1e308`}, []string{`9.99`, `-`}},
		{"seats", `..20`, []string{`20`, `-1e308`}, []string{`20.01`, `-`}},
		{"seats", `..<20`, []string{`19.9`}, []string{`20`}},
		{"seats", `-5..-1.5`, []string{`-5`, `-1.5`, `-2`}, []string{`-1`, `-6`}},
		{"seats", `not 10..20`, []string{`9`, `21`}, []string{`10`, `20`, `-`}},
		{"seats", `[..0, 5..6, 10..]`, []string{`-1`, `0`, `5.5`, `10`}, []string{`1`, `7`, `-`}},
		{"seats", `{ any: 0..100, none: [50, 60..70] }`, []string{`0`, `51`, `100`}, []string{`50`, `65`, `101`, `-`}},
		{"seats", `"10..20"`, []string{`15`}, []string{`9`}},
		{"level", `2..`, []string{`2`, `3`}, []string{`1`, `4`}},
		{"level", `missing`, []string{`4`, `-`}, []string{`1`}},
		{"share", `0.5..`, []string{`0.5`, `1`}, []string{`0.4`, `1.5`}},
		// Booleans.
		{"beta", `true`, []string{`true`, `"true"`, `[true]`}, []string{`false`, `"True"`, `1`, `-`}},
		{"beta", `not true`, []string{`false`, `"false"`}, []string{`true`, `-`, `"no"`}},
		{"beta", `[true, false]`, []string{`false`, `true`}, []string{`-`}},
		// Dates: Brussels is at +02:00 in summer, +01:00 in winter.
		{"since", `2026-06-01`, []string{`"2026-06-01"`, `"2026-05-31T22:00:00Z"`, `"2026-06-01T23:59:59.999999+02:00"`, `1780264800000`},
			[]string{`"2026-05-31"`, `"2026-06-02"`, `"2026-06-01T22:00:00Z"`, `"2026-05-31T21:59:59.999999Z"`, `-`, `"June"`}},
		{"since", `not 2026-06-01`, []string{`"2026-05-31"`}, []string{`"2026-06-01"`, `-`, `"x"`}},
		{"since", `2026-01-01..2026-01-31`, []string{`"2026-01-01"`, `"2026-01-31T22:59:59Z"`}, []string{`"2026-01-31T23:00:00Z"`, `"2025-12-31"`}},
		{"since", `2026-01-01..<2026-01-31`, []string{`"2026-01-30"`}, []string{`"2026-01-31"`}},
		{"since", `2026-06-01T12:00:00Z..`, []string{`"2026-06-01T12:00:00Z"`, `"2026-06-01T14:00:00+02:00"`}, []string{`"2026-06-01T11:59:59.999999Z"`, `"2026-06-01"`}},
		{"since", `..2026-03-29`, []string{`"2026-03-29T21:59:59Z"`}, []string{`"2026-03-29T22:00:00Z"`}}, // the day clocks change
		{"since", `"2026-06-01"`, []string{`"2026-06-01"`}, []string{`"2026-06-02"`}},
		// Versions.
		{"app", `2.1.3`, []string{`"2.1.3"`, `"v2.1.3"`, `"2.1.3+build.5"`}, []string{`"2.1.4"`, `"2.1.3-rc.1"`, `-`, `2.1`, `"two"`}},
		{"app", `2.1`, []string{`"2.1.0"`, `"2.1.99"`, `"2.1"`}, []string{`"2.2.0"`, `"2.10.0"`, `"2.0.9"`, `"2.2.0-alpha"`}},
		{"app", `1.10`, []string{`"1.10.0"`}, []string{`"1.1.0"`}},
		{"app", `^2.1`, []string{`"2.1.0"`, `"2.10.0"`, `"2.9.9-rc"`}, []string{`"2.0.9"`, `"3.0.0"`, `"3.0.0-alpha"`, `"2.1.0-beta"`, `-`}},
		{"app", `^0.2.3`, []string{`"0.2.3"`, `"0.2.9"`}, []string{`"0.3.0"`, `"0.2.2"`}},
		{"app", `^0.0.3`, []string{`"0.0.3"`}, []string{`"0.0.4"`, `"0.0.2"`}},
		{"app", `^0`, []string{`"0.0.1"`, `"0.9.0"`}, []string{`"1.0.0"`}},
		{"app", `~2.1.3`, []string{`"2.1.3"`, `"2.1.30"`}, []string{`"2.2.0"`, `"2.1.2"`}},
		{"app", `~2`, []string{`"2.0.0"`, `"2.9.0"`}, []string{`"3.0.0"`}},
		{"app", `2.1..<3`, []string{`"2.1.0"`, `"2.99.0"`}, []string{`"3.0.0"`, `"2.0.0"`}},
		{"app", `..1.9`, []string{`"1.9.9"`, `"0.1.0"`}, []string{`"1.10.0"`, `"2.0.0"`}},
		{"app", `2.0.0-rc.2..2.0.0`, []string{`"2.0.0-rc.2"`, `"2.0.0-rc.10"`, `"2.0.0"`}, []string{`"2.0.0-rc.1"`, `"2.0.1"`}},
		{"app", `not ^2.1`, []string{`"3.0.0"`}, []string{`"2.2.0"`, `-`, `"x"`}},
		{"app", `[1.0, ^3]`, []string{`"1.0.5"`, `"3.1.0"`}, []string{`"2.0.0"`}},
		// Addresses.
		{"ip", `10.0.0.0/8`, []string{`"10.0.0.0"`, `"10.255.255.255"`, `"::ffff:10.1.2.3"`}, []string{`"11.0.0.0"`, `"9.255.255.255"`, `"::1"`, `"10.0.0"`, `-`}},
		{"ip", `not 10.0.0.0/8`, []string{`"11.0.0.0"`, `"::1"`}, []string{`"10.0.0.1"`, `-`}},
		{"ip", `192.168.1.7`, []string{`"192.168.1.7"`}, []string{`"192.168.1.8"`}},
		{"ip", `2001:db8::/32`, []string{`"2001:db8::1"`, `"2001:DB8:ffff::"`}, []string{`"2001:db9::"`, `"1.2.3.4"`}},
		{"ip", `0.0.0.0/0`, []string{`"255.255.255.255"`, `"0.0.0.0"`}, []string{`"::"`}},
		{"ip", `[10.0.0.0/8, 172.16.0.0/12]`, []string{`"172.31.255.255"`}, []string{`"172.32.0.0"`}},
		{"ip", `10.0.0.5..10.0.0.9`, []string{`"10.0.0.5"`, `"10.0.0.9"`}, []string{`"10.0.0.10"`}},
		// Lists.
		{"tags", `a`, []string{`["a"]`, `["b","a"]`, `"a"`}, []string{`["b"]`, `[]`, `-`, `[{}]`, `{}`}},
		{"tags", `[a, b]`, []string{`["a"]`, `["b","c"]`}, []string{`["c"]`, `-`}},
		{"tags", `not a`, []string{`["b"]`}, []string{`["a","b"]`, `[]`, `-`, `null`}},
		{"tags", `missing`, []string{`[]`, `null`, `-`, `[null]`}, []string{`["a"]`}},
		{"tags", `{ any: [a, b] }`, []string{`["b"]`}, []string{`["c"]`, `-`}},
		{"tags", `{ all: [a, b] }`, []string{`["b","x","a"]`}, []string{`["a"]`, `["b"]`, `-`}},
		{"tags", `{ none: [a, b] }`, []string{`["c"]`}, []string{`["c","a"]`, `[]`, `-`}},
		{"tags", `{ size: 2 }`, []string{`["a","b"]`}, []string{`["a"]`, `[]`, `-`}},
		{"tags", `{ size: 2.. }`, []string{`["a","b"]`, `["a","b","c"]`}, []string{`["a"]`, `-`}},
		{"tags", `{ all: [a], none: [b], size: ..2 }`, []string{`["a"]`, `["a","c"]`}, []string{`["a","b"]`, `["a","c","d"]`, `["c"]`}},
		{"tags", `pre*`, []string{`["x","prefix"]`}, []string{`["x"]`}},
		{"tags", `{ all: [pre*, "*fix"] }`, []string{`["prefix"]`, `["pre","fix"]`}, []string{`["pre"]`}},
		{"tags", `{ matches: '^x' }`, []string{`["a","xy"]`}, []string{`["a"]`}},
		{"tags", `10`, []string{`[10]`, `[10.0]`, `["10"]`}, []string{`[1]`}},
		{"tags", `true`, []string{`[true]`, `"true"`}, []string{`[false]`}},
		{"roles", `admin`, []string{`["ADMIN"]`, `["admin","unknown"]`}, []string{`["editor"]`, `["unknown"]`}},
		{"roles", `{ size: 1 }`, []string{`["admin","unknown"]`}, []string{`["admin","editor"]`, `["unknown"]`}},
	}
	for _, tt := range tests {
		t.Run(tt.field+" "+tt.cell, func(t *testing.T) {
			tab := table(t, m, fmt.Sprintf("rules:\n  - when: { %s: %s }\n    value: hit\n", tt.field, tt.cell))
			check := func(value, want string) {
				t.Helper()
				context := fmt.Sprintf(`{"%s":%s}`, tt.field, value)
				if value == "-" {
					context = `{"other":1}`
				}
				b := bind(t, m, context)
				if got := outcome(tab, tab.Evaluate(b)); got != want {
					t.Errorf("%s: got %s, want %s", value, got, want)
				}
				if e := tab.Explain(b); e.Rows[0].Matched != (want == "hit") {
					t.Errorf("%s: explained as %s", value, e.Rows[0])
				}
			}
			for _, v := range tt.match {
				check(v, "hit")
			}
			for _, v := range tt.miss {
				check(v, "default")
			}
		})
	}
}

// In JSON text has to be quoted, so quotes say nothing.
func TestCellsOfJSONFiles(t *testing.T) {
	m := model(t, everyField)
	var errs document.Errors
	def := document.Parse("flag.json", []byte(`{"columns":["plan","seats","value"],"matrix":[["not pro*","10..","a"],[{"is":"pro*"},null,"b"],["any","missing","c"]]}`), &errs)
	tab := DecodeTable(m, def, Options{}, &errs)
	if err := errs.Err(); err != nil {
		t.Fatal(err)
	}
	for context, want := range map[string]string{
		`{"plan":"free","seats":10}`: "a",
		`{"plan":"pro*","seats":10}`: "b",
		`{"plan":"free","seats":9}`:  "default",
		`{"plan":"pro1"}`:            "c",
	} {
		if got := outcome(tab, tab.Evaluate(bind(t, m, context))); got != want {
			t.Errorf("%s: got %s, want %s", context, got, want)
		}
	}
}

func TestSegments(t *testing.T) {
	m := model(t, everyField)
	tests := []struct {
		cell        string
		match, miss []string
	}{
		{`staff`, []string{`{"tags":["employee"]}`, `{"ip":"10.1.1.1"}`}, []string{`{"tags":["x"],"ip":"11.0.0.0"}`, `{"plan":"pro"}`}},
		{`not staff`, []string{`{"plan":"pro"}`}, []string{`{"ip":"10.1.1.1"}`}},
		{`[staff, paying]`, []string{`{"plan":"pro"}`, `{"ip":"10.1.1.1"}`}, []string{`{"plan":"free"}`}},
		{`{ all: [staff, paying] }`, []string{`{"plan":"pro","tags":"employee"}`}, []string{`{"plan":"pro"}`, `{"tags":"employee"}`}},
		{`{ none: [staff, paying] }`, []string{`{"plan":"free"}`}, []string{`{"plan":"pro"}`, `{"tags":"employee"}`}},
		{`{ not: staff, any: [paying] }`, []string{`{"plan":"pro"}`}, []string{`{"plan":"pro","tags":"employee"}`}},
		{`paying_staff`, []string{`{"plan":"team","ip":"10.0.0.1"}`}, []string{`{"plan":"team"}`}},
		{`[not staff, paying]`, []string{`{"plan":"free"}`, `{"plan":"pro","tags":"employee"}`}, []string{`{"tags":"employee"}`}},
		{`any`, []string{`{"plan":"free"}`}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.cell, func(t *testing.T) {
			tab := table(t, m, "columns: [segment, value]\nmatrix:\n  - [ "+tt.cell+", hit ]\n")
			for _, c := range tt.match {
				if got := outcome(tab, tab.Evaluate(bind(t, m, c))); got != "hit" {
					t.Errorf("%s does not match", c)
				}
			}
			for _, c := range tt.miss {
				if got := outcome(tab, tab.Evaluate(bind(t, m, c))); got != "default" {
					t.Errorf("%s matches", c)
				}
			}
		})
	}
}

func TestCellMistakes(t *testing.T) {
	m := model(t, everyField)
	tests := []struct{ field, cell, want string }{
		{"plann", `pro`, `flag.yaml:2:13: unknown field "plann": did you mean "plan"?`},
		{"segmnt", `staff`, `flag.yaml:2:13: unknown field "segmnt": did you mean "segment"?`},
		{"env", `prodction`, `"prodction" is not one of the values of env: did you mean "production"?`},
		{"env", `[production, stagging]`, `"stagging" is not one of the values of env: did you mean "staging"?`},
		{"env", `not prod`, `"prod" is not one of the values of env (known: production, staging, development)`},
		{"env", `"*x"`, `*x matches none of the values of env (production, staging, development)`},
		{"env", `/^x/`, `/^x/ matches none of the values of env (production, staging, development)`},
		{"roles", `admn`, `"admn" is not one of the values of roles: did you mean "admin"?`},
		{"level", `4`, `4 matches none of the values of level (known: 1, 2, 3)`},
		{"level", `5..`, `5.. matches none of the values of level (known: 1, 2, 3)`},
		{"share", `2`, `2 is outside the min and max of share`},
		{"share", `..-1`, `..-1 is outside the min and max of share`},
		{"seats", `ten`, `seats: "ten" is not a number`},
		{"seats", `012`, `seats: "012" is not a number as JSON writes it, without leading zeros, + and _`},
		{"seats", `1_000`, `seats: "1_000" is not a number as JSON writes it, without leading zeros, + and _`},
		{"seats", `20..10`, `the range 20..10 is empty: nothing lies from 20 to 10`},
		{"seats", `10..<10`, `the range 10..<10 is empty: nothing lies from 10 to 10`},
		{"seats", `..`, `".." is a range without ends: write any for no condition`},
		{"seats", `10..<`, `"10..<" has no value behind <`},
		{"seats", `">= 10"`, `seats: ">= 10" is not a number: a range is written 10..`},
		{"seats", `"> 10"`, `seats: "> 10" is not a number (a range is written 10..20, 10..<20, 10.. or ..20)`},
		{"seats", `"<=10"`, `seats: "<=10" is not a number: a range is written ..10`},
		{"seats", `"< 10"`, `seats: "< 10" is not a number: a range is written ..<10`},
		{"seats", `10-20`, `seats: "10-20" is not a number: a range is written 10..20`},
		{"seats", `10 – 20`, `seats: "10 – 20" is not a number: a range is written 10..20`},
		{"seats", `10 to 20`, `seats: "10 to 20" is not a number: a range is written 10..20`},
		{"seats", `10 to x`, `seats: "10 to x" is not a number`},
		{"seats", `10...20`, `seats: "10...20" is not a number: a range is written 10..20`},
		{"seats", `1...`, `seats: "1..." is not a number: a range has two dots`},
		{"seats", `100+`, `seats: "100+" is not a number: a range is written 100..`},
		{"seats", `"1,000"`, `seats: "1,000" is not a number`},
		{"seats", `"3,5"`, `seats: "3,5" is not a number`},
		{"seats", `/^1/`, `seats: "/^1/" is not a number: a regular expression needs a field of text`},
		{"seats", `10..x`, `seats: "x" is not a number`},
		{"seats", `[]`, `an empty list of values never matches: write any for no condition`},
		{"seats", `{}`, `an empty mapping is not a condition: write any for no condition`},
		{"seats", `{ size: 1 }`, `unknown member "size" in a cell (known: any, all, none, not, is, matches)`},
		{"seats", `{ matches: x }`, `a regular expression needs a field of text: seats is a number`},
		{"seats", `not any`, `not any never matches`},
		{"seats", `{ all: [1, 2] }`, `{all: [1, 2]} never matches`},
		{"beta", `yes`, `"yes" is neither true nor false: write true`},
		{"beta", `off`, `"off" is neither true nor false: write false`},
		{"beta", `maybe`, `"maybe" is neither true nor false`},
		{"since", `2026-02-30`, `since: "2026-02-30" is not a date such as 2026-01-31 or 2026-01-31T12:00:00Z`},
		{"since", `2026-01-31T12:00:00`, `since: "2026-01-31T12:00:00" is not a date such as 2026-01-31 or 2026-01-31T12:00:00Z`},
		{"app", `^x`, `app: "x" is not a version such as 2.1.3`},
		{"app", `2.1.3.4`, `app: "2.1.3.4" is not a version such as 2.1.3`},
		{"app", `02.1`, `app: "02.1" is not a version such as 2.1.3`},
		{"ip", `10.0.0.1/8`, `ip: 10.0.0.1/8 is not the beginning of its network: write 10.0.0.0/8`},
		{"ip", `10.0.0/8`, `ip: "10.0.0/8" is not a network such as 10.0.0.0/8`},
		{"ip", `localhost`, `ip: "localhost" is not an IP address`},
		{"ip", `fe80::1%eth0`, `ip: "fe80::1%eth0" is not an IP address`},
		{"plan", `/x(/`, "invalid regular expression: missing closing ): `x(`"},
		{"plan", `/(?=x)/`, "invalid regular expression: (?= is not possible: regular expressions are RE2, which has no lookaround and no references back"},
		{"plan", `//`, `a regular expression must have 1 to 1000 bytes, this has 0`},
		{"plan", `a*b`, `"a*b": an asterisk stands at the beginning, the end or both; for the asterisk itself write {is: "a*b"}, for more a regular expression between slashes`},
		{"plan", `"**"`, `"**": an asterisk stands at the beginning, the end or both; for the asterisk itself write {is: "**"}, for more a regular expression between slashes`},
		{"plan", `10..20`, `10..20 looks like a range, but plan is a string: write {is: "10..20"} to mean the text itself`},
		{"plan", `{ al: [a] }`, `unknown member "al" in a cell: did you mean "all"?`},
		{"plan", `{ is: [a] }`, `is takes a single value`},
		{"locale", `nl_BE`, `"nl_BE" is not a language range such as nl or nl-BE`},
		{"tags", `{ size: ..-1 }`, `..-1 is outside the min and max of size`},
		{"tags", `{ sise: 1 }`, `unknown member "sise" in a cell: did you mean "size"?`},
		{"segment", `stuff`, `unknown segment "stuff": did you mean "staff"?`},
		{"segment", `[staff, [paying]]`, `the name of a segment must be text, this is a list`},
		{"segment", `[]`, `an empty list of segments never matches: write any for no condition`},
		{"config", `{ other: true }`, `config: is not possible here`},
		{"config", `true`, `config takes a mapping of the key of a configuration to the value it must have`},
	}
	for _, tt := range tests {
		t.Run(tt.field+" "+tt.cell, func(t *testing.T) {
			var errs document.Errors
			text := fmt.Sprintf("rules:\n  - when: { %s: %s }\n    value: hit\n", tt.field, tt.cell)
			DecodeTable(m, parseYAML(t, "flag.yaml", text), Options{}, &errs)
			got := mistakes(&errs)
			if strings.HasPrefix(tt.want, "flag.yaml") && got != tt.want || !strings.Contains(got, ": "+tt.want) && got != tt.want || errs.Len() != 1 {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if !strings.HasPrefix(got, "flag.yaml:2:") {
				t.Errorf("no position: %s", got)
			}
		})
	}
}
