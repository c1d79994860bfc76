package document

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAppendJSON(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"{b: 1, a: [x, 2.50, -0.5, 1e3, 1E+2]}", `{"b":1,"a":["x",2.50,-0.5,1e3,1E+2]}`},
		{"[true, True, FALSE, yes, no, on, off, y]", `[true,true,false,"yes","no","on","off","y"]`},
		{"[null, ~, '', 'null', \"true\", '12']", `[null,null,"","null","true","12"]`},
		{"a:", `{"a":null}`},
		{"[2026-01-31, 1.2.3, 10..20, 1-2, 0, +, ., 'a\"<>&']", `["2026-01-31","1.2.3","10..20","1-2",0,"+",".","a\"<>&"]`},
		{"[1e, e1, 0xZZ, .e1, _1, 1__]", `["1e","e1","0xZZ",".e1","_1",null]`},
		{"12345678901234567890.123456789", "12345678901234567890.123456789"},
	} {
		var errs Errors
		got := string(Parse("a.yaml", []byte(tt.in), &errs).AppendJSON(nil, &errs))
		if got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.in, got, tt.want)
		}
	}
}

func TestAppendJSONRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"012":     `write 12 for the number or "012" for the text`,
		".5":      `write 0.5 for the number or ".5" for the text`,
		"+3":      `write 3 for the number or "+3" for the text`,
		"-012.50": `write -12.50 for the number`,
		"0x1f":    `write 31 for the number`,
		"0o17":    `write 15 for the number`,
		"0b101":   `write 5 for the number`,
		"1_000":   `write 1000 for the number`,
		"3.":      `write 3 for the number`,
		".inf":    `write ".inf" for the text`,
		"-.INF":   `write "-.INF" for the text`,
		".nan":    `write ".nan" for the text`,
		"1e999":   `the number 1e999 is too large`,
	} {
		var errs Errors
		n := Parse("a.yaml", []byte("a:\n  - "+in), &errs)
		out := n.AppendJSON(nil, &errs)
		if errs.Len() != 1 || !strings.HasPrefix(errs.Err().Error(), "a.yaml:2:5: ") || !strings.Contains(errs.Err().Error(), want) {
			t.Errorf("%s: %v, want %q", in, errs.Err(), want)
		}
		if string(out) != `{"a":[null]}` {
			t.Errorf("%s: %s", in, out)
		}
	}
}

func TestNearest(t *testing.T) {
	members := []string{"temperature", "max_tokens", "messages", "model", "provider", "default", "nl", "en", "de"}
	for in, want := range map[string]string{
		"temprature": "temperature", "Temperature": "temperature", "maxtokens": "max_tokens", "max-tokens": "max_tokens",
		"mesages": "messages", "modle": "model", "provdier": "provider", "defualt": "default", "xyz": "", "": "",
		"dde": "de", "fr": "", "temperature_of_the_room": "", strings.Repeat("a", 1000): "",
	} {
		if got := Nearest(in, members); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Nearest("a", nil); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestReaders(t *testing.T) {
	const doc = "s: text\nq: '1'\nb: true\nf: 0.5\ni: 7\nd: 1m30s\nl: [1]\nn:\nw: frist\n"
	var errs Errors
	n := Parse("a.yaml", []byte(doc), &errs)
	if v, ok := n.Get("s").ReadString(&errs, "s"); v != "text" || !ok {
		t.Error(v, ok)
	}
	if v, ok := n.Get("b").ReadBool(&errs, "b"); !v || !ok {
		t.Error(v, ok)
	}
	if v, ok := n.Get("f").ReadFloat(&errs, "f", 0, 2); v != 0.5 || !ok {
		t.Error(v, ok)
	}
	if v, ok := n.Get("i").ReadInt(&errs, "i", 0, 10); v != 7 || !ok {
		t.Error(v, ok)
	}
	if v, ok := n.Get("d").ReadDuration(&errs, "d", 0, time.Hour); v != 90*time.Second || !ok {
		t.Error(v, ok)
	}
	if errs.Len() > 0 {
		t.Fatal(errs.Err())
	}
	for _, read := range []func() (any, bool){
		func() (any, bool) { return n.Get("l").ReadString(&errs, "l") },
		func() (any, bool) { return n.Get("n").ReadString(&errs, "n") },
		func() (any, bool) { return n.Get("s").ReadBool(&errs, "s") },
		func() (any, bool) { return n.Get("i").ReadFloat(&errs, "i", 0, 2) },
		func() (any, bool) { return n.Get("q").ReadInt(&errs, "q", 0, 10) },
		func() (any, bool) { return n.Get("f").ReadInt(&errs, "f", 0, 10) },
		func() (any, bool) { return n.Get("i").ReadDuration(&errs, "i", time.Second, 24*time.Hour) },
		func() (any, bool) { return n.Get("w").ReadWord(&errs, "w", "first", "unique") },
		func() (any, bool) { return n.Get("none").ReadWord(&errs, "none", "first", "unique") },
	} {
		if v, ok := read(); ok || !reflect.ValueOf(v).IsZero() {
			t.Errorf("read as %v, %v", v, ok)
		}
	}
	n.Get("l").CheckMembers(&errs, "a variant")
	n.CheckMembers(&errs, "a definition", "s", "q", "b", "f", "i", "d", "l", "wo")
	want := `: none must be one of first, unique, this is missing
a.yaml:1:4: s must be true or false, this is "text"
a.yaml:2:4: q must be a whole number from 0 to 10, this is "1": leave the quotes out
a.yaml:4:4: f must be a whole number from 0 to 10, this is "0.5"
a.yaml:5:4: i must be a number from 0 to 2, this is "7"
a.yaml:5:4: i must be a duration from 1s to 24h such as 1m30s, 2h or 24h, this is "7"
a.yaml:7:4: l must be text, this is a list
a.yaml:7:4: a variant must be a mapping, this is a list
a.yaml:8:1: unknown member "n" in a definition (known: s, q, b, f, i, d, l, wo)
a.yaml:8:3: n must be text, this is empty
a.yaml:9:1: unknown member "w" in a definition: did you mean "wo"?
a.yaml:9:4: w must be one of first, unique, this is "frist": did you mean "first"?`
	if got := errs.Err().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestUnrecognized(t *testing.T) {
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"retenton", []string{"retention", "max_size"}, `unrecognized store option "retenton", did you mean "retention"?`},
		{"keep", []string{"retention", "max_size"}, `unrecognized store option "keep", known: retention, max_size`},
		{"keep", nil, `unrecognized store option "keep": there is none`},
	} {
		if got := Unrecognized("store option", c.name, c.known); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
