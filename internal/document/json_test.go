package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestJSON(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"numbers keep their text", `[1.10, -0, 0.0, 1e3, 1E+2, 2e-07, 12345678901234567890.1]`, `[1.10 -0 0.0 1e3 1E+2 2e-07 12345678901234567890.1]`},
		{"words", `[true,false,null]`, `[true false null]`},
		{"a character YAML has to escape", "{\"a\u007fb\": \"\u007f\u0085\u2028\ufeff\"}", `{"a\x7fb":"\x7f\u0085\u2028\ufeff"}`},
		{"escapes", `"\"\\\/\b\f\n\r\t\u00e9\u0000\ud83d\ude00"`, `"\"\\/\b\f\n\r\té\x00😀"`},
		{"what YAML would read as something else", `{"<<": "*a", "b": "! x", "": "%"}`, `{"<<":"*a" "b":"! x" "":"%"}`},
		{"spaces", " {\r\n\t\"a\" : [ 1 , { } , [ ] ] } \n", `{"a":[1 {} []]}`},
		{"byte order mark", "\xef\xbb\xbf[1]", "[1]"},
		{"depth", strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100), strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var errs Errors
			n := Parse("a.json", []byte(tt.in), &errs)
			if err := errs.Err(); err != nil {
				t.Fatal(err)
			}
			if got := outline(n); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestJSONErrors(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"line break in text", "{\"é\":\n \"x\n y\"}", "2:2: invalid JSON: the text that begins here has no closing quote in its line: a line break is written \\n"},
		{"tab in text", "[\"\té\"]", "1:3: invalid JSON: control character U+0009: write it as an escape, \\u0009"},
		{"text without an end", "[\n\"x", "2:1: invalid JSON: the text that begins here has no closing quote"},
		{"escape", `["a\d"]`, `1:4: invalid JSON: malformed escape: write \\ for a backslash`},
		{"escape of a number", `["\x41"]`, `1:3: invalid JSON: malformed escape`},
		{"short escape", `["\u12"]`, `1:3: invalid JSON: malformed escape`},
		{"signed escape", `["\u+123"]`, `1:3: invalid JSON: malformed escape`},
		{"first half of a pair", `["\ud83d"]`, `1:3: invalid JSON: \ud83d is half of a surrogate pair`},
		{"two first halves", `["\ud83d\ud83d"]`, `1:3: invalid JSON: \ud83d is half of a surrogate pair`},
		{"second half of a pair", `["\ude00"]`, `1:3: invalid JSON: \ude00 is half of a surrogate pair`},
		{"names that become one", `{"a":1,"\u0061":2}`, `1:8: duplicate member "a", first given in line 1`},
		{"leading zero", "[-01]", "1:4: invalid JSON: unexpected '1' where a comma or ] has to come"},
		{"nothing before the point", "[.5]", "1:2: invalid JSON: unexpected '.' where a value has to begin"},
		{"nothing behind the point", "[1.]", "1:4: invalid JSON: unexpected ']' within a number"},
		{"no exponent", "[1e+]", "1:5: invalid JSON: unexpected ']' within a number"},
		{"plus", "[+1]", "1:2: invalid JSON: unexpected '+' where a value has to begin"},
		{"minus", "[-]", "1:3: invalid JSON: unexpected ']' within a number"},
		{"a number that YAML knows", "[0x1f]", "1:3: invalid JSON: unexpected 'x' where a comma or ] has to come"},
		{"a word", "[yes]", "1:2: invalid JSON: unexpected 'y' where a value has to begin"},
		{"a longer word", "[nulls]", "1:6: invalid JSON: unexpected 's' where a comma or ] has to come"},
		{"comma before the end of a list", "[1, ]", "1:5: invalid JSON: unexpected ']' behind a comma"},
		{"comma before the end of a mapping", `{"a": 1,}`, "1:9: invalid JSON: unexpected '}' behind a comma"},
		{"only a comma", "[,]", "1:2: invalid JSON: unexpected ',' where a value has to begin"},
		{"name without quotes", "{a: 1}", "1:2: invalid JSON: unexpected 'a' where a name in double quotes has to begin"},
		{"name in single quotes", "{'a': 1}", "1:2: invalid JSON: unexpected '\\'' where a name in double quotes has to begin: text stands in double quotes"},
		{"name in curly quotes", "{“a”: 1}", "1:2: invalid JSON: unexpected '“' where a name in double quotes has to begin: text stands in double quotes"},
		{"number for a name", "{1: 1}", "1:2: invalid JSON: unexpected '1' where a name in double quotes has to begin"},
		{"no colon", `{"a" 1}`, "1:6: invalid JSON: unexpected '1' where a colon has to come"},
		{"no value", `{"a":}`, "1:6: invalid JSON: unexpected '}' where a value has to begin"},
		{"another bracket", `{"a":1]`, "1:7: invalid JSON: unexpected ']' where a comma or } has to come"},
		{"comment", "[1 # x\n]", "1:4: invalid JSON: unexpected '#' where a comma or ] has to come: JSON has no comments"},
		{"no-break space", "[\u00a01]", "1:2: invalid JSON: unexpected '\\u00a0' where a value has to begin"},
		{"NUL", "[\x001]", "1:2: invalid JSON: unexpected '\\x00' where a value has to begin"},
		{"end in a mapping", "{\"a\": 1\n\n", "3:1: invalid JSON: the file ends too early, where a comma or } has to come"},
		{"end in a word", "[nul", "1:2: invalid JSON: unexpected 'n' where a value has to begin"},
		{"merge conflict", "{\n<<<<<<< HEAD\n\"a\": 1\n=======\n\"a\": 2\n>>>>>>> x\n}\n", "2:1: two versions were merged here and the conflict is still open"},
		{"depth", strings.Repeat("[", 101) + "1" + strings.Repeat("]", 101), "1:101: lists and mappings nest more than 100 deep"},
		{"depth without an end", strings.Repeat(`{"a":`, 1<<19), "1:501: lists and mappings nest more than 100 deep"},
		{"members", "{" + strings.Repeat(`"a":1,`, 20_000) + `"b":1}`, `1:8: duplicate member "a"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var errs Errors
			if n := Parse("a.json", []byte(tt.in), &errs); n != nil {
				t.Fatalf("read as %s", outline(n))
			}
			if got := errs.Err().Error(); !strings.HasPrefix(got, "a.json:"+tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestJSONOnOneLine reads a file as programs write them, without a line break.
func TestJSONOnOneLine(t *testing.T) {
	in := "[" + strings.Repeat(`{"plan":"é"},`, 100_000) + "1]"
	var errs Errors
	start := time.Now()
	n := Parse("a.json", []byte(in), &errs)
	if n == nil {
		t.Fatal(errs.Err())
	}
	if d := time.Since(start); d > quadratic {
		t.Errorf("took %v for %d bytes", d, len(in))
	}
	if got := n.Items[100_000].Pos.Column; got != 1_300_002 {
		t.Errorf("the last value stands in column %d", got)
	}
}

// decoded is a tree as encoding/json decodes it, with numbers as they are
// written.
func decoded(n *Node) any {
	switch {
	case n.Shape == Sequence:
		list := make([]any, 0, len(n.Items))
		for _, item := range n.Items {
			list = append(list, decoded(item))
		}
		return list
	case n.Shape == Mapping:
		members := make(map[string]any, len(n.Members))
		for _, m := range n.Members {
			members[m.Key.Text] = decoded(m.Value)
		}
		return members
	case n.Quoted:
		return n.Text
	case n.Text == "null":
		return nil
	case n.Text == "true", n.Text == "false":
		return n.Text == "true"
	}
	return json.Number(n.Text)
}

// differsFromJSON says how a file is read otherwise than encoding/json does.
// What only that one accepts is refused with a reason.
func differsFromJSON(data []byte) string {
	var errs Errors
	n := Parse("f.json", data, &errs)
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if err := errs.Err(); err != nil {
		if json.Valid(data) && strings.Contains(err.Error(), "invalid JSON") && !strings.Contains(err.Error(), "surrogate") {
			return "refused: " + err.Error()
		}
		return ""
	}
	if n == nil {
		return ""
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var want any
	if err := dec.Decode(&want); err != nil || !json.Valid(data) {
		return fmt.Sprintf("accepted, and is no JSON: %v", err)
	}
	if got := decoded(n); !reflect.DeepEqual(got, want) {
		return fmt.Sprintf("read as %v, want %v", got, want)
	}
	return ""
}

// FuzzJSON compares the reader with encoding/json.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"a": [1, -2.5e3, "x", null, true, false], "é": {}}`, `"\u00e9\ud83d\ude00\n\/"`, "[0, 01, 1., .1, 1e]", `{"a":1,"a":2}`,
		"\xef\xbb\xbf[]", "[1,]", "\"\u007f\u2028\"", `"\ud800"`, " \t\r\n0 ", "[[[[]]]]", `{"":{"":""}}`, "nul", "-", "\"\x01\"", "\"\xff\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if how := differsFromJSON(data); how != "" {
			t.Errorf("%q %s", data, how)
		}
	})
}
