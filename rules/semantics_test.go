package rules

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

// Without coercion the elements of a list are text, and nothing is made text.
func TestListsWithoutCoercion(t *testing.T) {
	for context, want := range map[string]string{
		`{"exact":["99"]}`:      "text",
		`{"exact":[99]}`:        "default",
		`{"exact":[true]}`:      "default",
		`{"exact":["99",1]}`:    "default", // the value is none of a list of text
		`{"exact":["true"]}`:    "true",
		`{"exact":[null,"99"]}`: "text",
		`{"loose":[99]}`:        "text",
		`{"loose":[true,99.0]}`: "text",
		`{"loose":[true]}`:      "true",
	} {
		m := model(t, "fields: { exact: { type: list, coerce: false }, loose: { type: list } }")
		tab := table(t, m, `rules: [{ when: { exact: "99" }, value: text }, { when: { exact: "true" }, value: "true" }, { when: { loose: "99" }, value: text }, { when: { loose: "true" }, value: "true" }]`)
		b := bind(t, m, context)
		if got := outcome(tab, tab.Evaluate(b)); got != want {
			t.Errorf("%s: %s, want %s", context, got, want)
		}
		if noted := len(b.Notes()) > 0; noted != (want == "default") {
			t.Errorf("%s: notes %v", context, b.Notes())
		}
	}
}

// A range of addresses is of one family, also where an end is open.
func TestAddressRanges(t *testing.T) {
	addresses := []string{"0.0.0.0", "10.0.0.0", "10.0.0.1", "255.255.255.255", "::", "::1", "::ffff:10.0.0.1", "2001:db8::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}
	m := model(t, "fields: { ip: { type: string, format: ip } }")
	for cell, want := range map[string][]int{
		`"10.0.0.1.."`:                {2, 3, 6},
		`"..10.0.0.1"`:                {0, 1, 2, 6},
		`"..<10.0.0.1"`:               {0, 1},
		`"10.0.0.0..10.0.0.1"`:        {1, 2, 6},
		`"0.0.0.0.."`:                 {0, 1, 2, 3, 6},
		`"::1.."`:                     {5, 7, 8},
		`"..::1"`:                     {4, 5},
		`"..<::1"`:                    {4},
		`"::.."`:                      {4, 5, 7, 8},
		`"not 10.0.0.1.."`:            {0, 1, 4, 5, 7, 8},
		`["0.0.0.0..", "::.."]`:       {0, 1, 2, 3, 4, 5, 6, 7, 8},
		`{ all: ["..::1", "::1.."] }`: {5},
	} {
		tab := table(t, m, "rules: [{ when: { ip: "+cell+" }, value: hit }]")
		var got []int
		for i, a := range addresses {
			if outcome(tab, tab.Evaluate(bind(t, m, `{"ip":"`+a+`"}`))) == "hit" {
				got = append(got, i)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", cell, diff)
		}
	}
	var errs document.Errors
	DecodeTable(m, parseYAML(t, "flag.yaml", `rules: [{ when: { ip: "10.0.0.1..::1" }, value: 1 }]`), Options{Key: "flag"}, &errs)
	if got, want := mistakes(&errs), `flag.yaml:1:23: the range 10.0.0.1..::1 goes from an IPv4 address to one of IPv6: write a list of two ranges`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDocumentedMeaning checks the matches of a part of a version, a
// pre-release and the words for presence.
func TestDocumentedMeaning(t *testing.T) {
	m := model(t, "fields: { v: { type: string, format: semver }, s: string, l: list }")
	for _, tt := range []struct{ cell, yes, no string }{
		{"v: 2.1", `"2.1.0" "2.1.7" "2.1.7-rc.1" "v2.1.0" "2.1"`, `"2.1.0-rc.1" "2.2.0-rc.1" "2.0.9" "2.2.0" "2.1-rc.1"`},
		{`v: "..2.1"`, `"2.1.7" "2.1.0-rc.1" "1.0.0"`, `"2.2.0-rc.1" "2.2.0"`},
		{`v: "2.1.."`, `"2.1.0" "2.2.0-rc.1" "3.0.0"`, `"2.1.0-rc.1" "2.0.0"`},
		{`v: "^2.1"`, `"2.1.0" "2.9.0" "2.2.0-rc.1"`, `"2.1.0-rc.1" "3.0.0-rc.1" "3.0.0"`},
		{`v: "2.1.0-0..<2.2.0-0"`, `"2.1.0-rc.1" "2.1.0" "2.1.9"`, `"2.2.0-rc.1" "2.0.9"`},
		{"s: { not: present }", "null", `"a" ""`},
		{"s: { none: [present] }", "null", `"a" ""`},
		{"s: { not: missing }", `"a" ""`, "null"},
		{"s: { not: a }", `"b"`, `null "a"`},
		{"s: { none: [a, missing] }", `"b"`, `null "a"`},
		{"l: { not: a }", `"b" ["b"]`, `null [] ["a"] ["b","a"]`},
		{"l: [missing, { not: a }]", `"b" ["b"] null []`, `["a"] ["b","a"]`},
	} {
		tab := table(t, m, "rules: [{ when: { "+tt.cell+" }, value: hit }]")
		name, _, _ := strings.Cut(tt.cell, ":")
		for value := range strings.FieldsSeq(tt.yes) {
			if outcome(tab, tab.Evaluate(bind(t, m, `{"other":1,"`+name+`":`+value+`}`))) != "hit" {
				t.Errorf("%s does not match %s", tt.cell, value)
			}
		}
		for value := range strings.FieldsSeq(tt.no) {
			if outcome(tab, tab.Evaluate(bind(t, m, `{"other":1,"`+name+`":`+value+`}`))) == "hit" {
				t.Errorf("%s matches %s", tt.cell, value)
			}
		}
	}
}

// The years that can be bound are those RFC 3339 can write, to the microsecond
// at both ends, however a date came to be.
func TestDateBounds(t *testing.T) {
	m := model(t, "fields: { d: date }\ncomputed: { later: 'd + duration(\"1s\")', sooner: 'd - duration(\"1s\")' }")
	later := table(t, m, "rules: [{ when: { later: present }, value: yes }]")
	sooner := table(t, m, "rules: [{ when: { sooner: present }, value: yes }]")
	for _, tt := range []struct{ date, later, sooner string }{
		{`"9999-12-31T23:59:58.999999Z"`, "yes", "yes"},
		{`"9999-12-31T23:59:59Z"`, "default", "yes"},
		{`"0001-01-01T00:00:01Z"`, "yes", "yes"}, // CEL knows no year 0
		{`"0001-01-01T00:00:00Z"`, "yes", "default"},
	} {
		b := bind(t, m, `{"d":`+tt.date+`}`)
		if got := outcome(later, later.Evaluate(b)); got != tt.later {
			t.Errorf("%s a second later: %s", tt.date, got)
		}
		if got := outcome(sooner, sooner.Evaluate(b)); got != tt.sooner {
			t.Errorf("%s a second sooner: %s", tt.date, got)
		}
	}
	for date, present := range map[string]bool{
		`"9999-12-31T23:59:59.999999Z"`: true, `"9999-12-31T23:59:59-01:00"`: false, `"9999-12-31T23:59:59+01:00"`: true,
		`"0000-01-01T00:00:00Z"`: true, `"0000-01-01T00:00:00+01:00"`: false,
		"253402300799999": true, "253402300799999.9": true, "253402300800000": false,
		"-62167219200000": true, "-62167219200001": false,
	} {
		tab := table(t, m, "rules: [{ when: { d: present }, value: yes }]")
		if got := outcome(tab, tab.Evaluate(bind(t, m, `{"d":`+date+`}`))) == "yes"; got != present {
			t.Errorf("%s: %v", date, got)
		}
	}
}
