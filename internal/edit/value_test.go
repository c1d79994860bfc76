package edit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// TestReplace replaces the value that begins at ▸ in a file. Each answer is the file, or
// after "!" a part of the error.
func TestReplace(t *testing.T) {
	for name, test := range map[string]struct{ file, in, text, want string }{
		"plain":                            {"a.yaml", "a: 1\nb: ▸two # c\n", "three", "a: 1\nb: three # c\n"},
		"a condition stays one":            {"a.yaml", "m:\n  - [ ▸10..20, x ] # c\n", "30..", "m:\n  - [ 30.., x ] # c\n"},
		"quoted as the text needs it":      {"a.yaml", "a: ▸two # c\n", "it: is #1", "a: \"it: is #1\" # c\n"},
		"a comma in a list":                {"a.yaml", "m: [ ▸x, y ]\n", "a, b", "m: [ \"a, b\", y ]\n"},
		"a comma elsewhere":                {"a.yaml", "m: ▸x\n", "a, b", "m: a, b\n"},
		"an empty text":                    {"a.yaml", "m: [ ▸x, y ]\n", "", "m: [ \"\", y ]\n"},
		"blanks around":                    {"a.yaml", "m: ▸x\n", "  y ", "m: y\n"},
		"a list in place of a value":       {"a.yaml", "m: [ ▸x, y ] # [\n", "[a, 'b, c']", "m: [ [a, 'b, c'], y ] # [\n"},
		"a value in place of a list":       {"a.yaml", "m: [ ▸[pro, 'x]'], y ]\n", "any", "m: [ any, y ]\n"},
		"a mapping":                        {"a.yaml", "m:\n- [ x, ▸{ rpm: 60, b: \"}\" } ] # }\n", "{ rpm: 70 }", "m:\n- [ x, { rpm: 70 } ] # }\n"},
		"a mapping over several lines":     {"a.yaml", "m: ▸{ a: 1,\n  b: 2 }\nc: 3\n", "{}", "m: {}\nc: 3\n"},
		"a list without its end":           {"a.yaml", "m: [ ▸x, y ]\n", "[c1, c9", "!a.yaml:1:6: this can't be read by itself (invalid YAML: what begins here has no end: ] is missing"},
		"a mapping without its end":        {"a.yaml", "m: [ ▸x, y ]\n", " { any: [c1", "!a.yaml:1:6: this can't be read by itself ("},
		"a list in quotes":                 {"a.yaml", "m: [ ▸x, y ]\n", "'[c1'", "m: [ '[c1', y ]\n"},
		"a list that is text":              {"a.yaml", "m: [ ▸\"x\", y ]\n", "[c1", "m: [ \"[c1\", y ]\n"},
		"an alias in a mapping":            {"a.yaml", "a: &s 1\nb: ▸{ keep: *s, n: 8 }\n", "{ keep: *s, n: 9 }", "!a.yaml:2:4: this can't be read by itself (*s is read as a YAML alias"},
		"a comment after a list":           {"a.yaml", "m: [ ▸x, y ]\n", "[a] # c", "!a.yaml:1:6: this can't take the place of the value"},
		"an explicit quote":                {"a.yaml", "m: ▸x\n", "'10..20'", "m: '10..20'\n"},
		"double quotes":                    {"a.yaml", "m: ▸\"x\\\"y\" # c\n", "é\t\"\\\n✓", "m: \"é\\t\\\"\\\\\\n✓\" # c\n"},
		"single quotes":                    {"a.yaml", "m: ▸'it''s' # c\n", "that's", "m: 'that''s' # c\n"},
		"single quotes and a line break":   {"a.yaml", "m: ▸'x'\n", "a\nb", "m: \"a\\nb\"\n"},
		"quotes stay":                      {"a.yaml", "m: ▸\"x\"\n", "10", "m: \"10\"\n"},
		"quotes over several lines":        {"a.yaml", "m: ▸\"x\n  y\"\nn: 1\n", "z", "m: \"z\"\nn: 1\n"},
		"CRLF":                             {"a.yaml", "# é\r\nm:\r\n- { a: ▸x } # c\r\n- y\r\n", "z", "# é\r\nm:\r\n- { a: z } # c\r\n- y\r\n"},
		"CR":                               {"a.yaml", "a: 1\rb: ▸x\r", "y", "a: 1\rb: y\r"},
		"tabs":                             {"a.yaml", "m: [\t▸x\t,\ty\t]\t# c\n", "z", "m: [\tz\t,\ty\t]\t# c\n"},
		"characters before":                {"a.yaml", "m: [ 日本, e\u0301, 😀, ▸x ]\n", "é", "m: [ 日本, e\u0301, 😀, é ]\n"},
		"old line breaks":                  {"a.yaml", "m: [ \"\u2028\", ▸x ]\n", "y\u2029", "m: [ \"\u2028\", y\u2029 ]\n"},
		"byte order mark":                  {"a.yaml", "\ufeffm: ▸x\n", "y", "\ufeffm: y\n"},
		"an anchor that nothing repeats":   {"a.yaml", "m: &a ▸x # c\n", "y", "m: &a y # c\n"},
		"an alias":                         {"a.yaml", "a: &a x\nm: [ y, ▸*a ]\n", "y", "!a.yaml:2:9: this value comes from an alias"},
		"what an alias repeats":            {"a.yaml", "a: &a ▸x\nm: [ y, *a ]\n", "y", "!a.yaml:1:7: an alias repeats this value"},
		"a cell of a row an alias repeats": {"a.yaml", "m:\n- &r [ ▸x, 1 ]\n- *r\n", "y", "!an alias repeats this value"},
		"an anchor in the text":            {"a.yaml", "a: &a x\nm: [ ▸y, *a ]\n", "[&a z]", "!a.yaml:2:6: this can't take the place of the value"},
		"an alias in the text":             {"a.yaml", "a: &a x\nm: ▸y\n", "*a", "a: &a x\nm: \"*a\"\n"},
		"a block":                          {"a.yaml", "m:\n  t: ▸| # c\n    one\n\n      two\n\nn: 1 # d\n", "uno\n\n  due\ntre\n", "m:\n  t: | # c\n    uno\n\n      due\n    tre\n\nn: 1 # d\n"},
		"a block without its last break":   {"a.yaml", "t: ▸|-\n  one\n", "uno", "t: |-\n  uno\n"},
		"a block gets a last break":        {"a.yaml", "t: ▸|-\n  one\nn: 1\n", "uno\n", "t: |\n  uno\nn: 1\n"},
		"a block with CRLF":                {"a.yaml", "t: ▸|\r\n  one\r\n  two\r\nn: 1\r\n", "uno\r\ndue\r\n", "t: |\r\n  uno\r\n  due\r\nn: 1\r\n"},
		"a block with a comment after it":  {"a.yaml", "t: ▸|\n  one\n# c\nn: 1\n", "uno\n", "t: |\n  uno\n# c\nn: 1\n"},
		"a block that would change more":   {"a.yaml", "t: ▸|\n  one\nn: 1\n", " uno\ndue\n", "!a.yaml:1:4: this can't take the place of the value"},
		"a folded block":                   {"a.yaml", "t: ▸>\n  one\n  two\n", "x", "!a.yaml:1:4: this value can't be changed in its place"},
		"a block with an indentation":      {"a.yaml", "t: ▸|2\n   one\n", "x", "!this value can't be changed in its place"},
		"plain over several lines":         {"a.yaml", "t: ▸one\n  two\n", "x", "!this value can't be changed in its place"},
		"a block list":                     {"a.yaml", "t:\n  ▸- one\n", "x", "!this value can't be changed in its place"},
		"a comment in a list":              {"a.yaml", "t: ▸[ one, # ]\n  two ]\n", "x", "!this value can't be changed in its place"},
		"a name":                           {"a.yaml", "t: 1\n▸u: 2\n", "x", "!a.yaml:2:1: no value of its own begins here: edit the text of the file"},
		"no value":                         {"a.yaml", "t: o▸ne\n", "x", "!a.yaml:1:5: no value of its own begins here: edit the text of the file"},
		"no text":                          {"a.yaml", "▸", "x", "!a.yaml:1:1: no value of its own begins here: edit the text of the file"},
		"a broken file":                    {"a.yaml", "t: [▸x\n", "x", "!a.yaml:1:4"},
		"control characters":               {"a.yaml", "t: ▸x\n", "a\x00\x7fb", "t: \"a\\u0000\\u007fb\"\n"},

		"JSON text":            {"a.json", `{"a": "é", "b":▸"x\"y" }`, "1\n\"<", `{"a": "é", "b":"1\n\"<" }`},
		"a number of JSON":     {"a.json", "{\n\"b\":▸-1.5e3}", "2", "{\n\"b\":2}"},
		"JSON: no number":      {"a.json", `{"b":▸1}`, "x", `{"b":"x"}`},
		"a word of JSON":       {"a.json", `{"b":▸true, "c": 1}`, "null", `{"b":null, "c": 1}`},
		"a list of JSON":       {"a.json", `{"b":[▸["a]", "b"], 1]}`, `{"x": 1}`, `{"b":[{"x": 1}, 1]}`},
		"JSON within text":     {"a.json", `{"b":▸"x"}`, `[1]`, `{"b":"[1]"}`},
		"JSON: repeated names": {"a.json", `{"b":▸1}`, `{"a":1,"a":2}`, `!a.json:1:6: this can't be read by itself (duplicate member "a"`},
		"JSON: a list is cut":  {"a.json", `{"b":▸1}`, `[1`, `!a.json:1:6: this can't be read by itself (`},

		"CSV":                        {"a.csv", "id,plan,value\na,▸pro , 1\n", "free", "id,plan,value\na,free , 1\n"},
		"CSV: a comma":               {"a.csv", "id,value\na,▸x\n", "a, b", "id,value\na,\"a, b\"\n"},
		"CSV: semicolons":            {"a.csv", "id;value\na;▸x\n", "a, b", "id;value\na;a, b\n"},
		"CSV: a semicolon":           {"a.csv", "id;value\na;▸x\n", "a;b", "id;value\na;\"a;b\"\n"},
		"CSV: a list":                {"a.csv", "id,plan,value\na,▸\"[pro, \"\"x\"\"]\",1\n", "[a, 'b']", "id,plan,value\na,\"[a, 'b']\",1\n"},
		"CSV: a list without an end": {"a.csv", "id,plan,value\na,▸pro,1\n", "[a, b", "!a.csv:2:3: this can't be read by itself ("},
		"CSV: text":                  {"a.csv", "id,value\na,▸\"'10'\"\n", "it's \"20\"", "id,value\na,\"'it''s \"\"20\"\"'\"\n"},
		"CSV: an empty cell":         {"a.csv", "id,plan,value\na,▸,1\n", "pro", "id,plan,value\na,pro,1\n"},
		"CSV: the last cell":         {"a.csv", "id,value\na,▸", "pro", "id,value\na,pro"},
		"CSV: emptied":               {"a.csv", "id,plan,value\r\na,▸pro,1\r\n", "", "id,plan,value\r\na,,1\r\n"},
		"CSV: a row disappears":      {"a.csv", "id,value\n▸a,\n", "", "id,value\n\"\"\"\"\"\",\n"},
		"CSV: characters before":     {"a.csv", "id,value\né,\"日,\"\"\",▸x\n", "y", "id,value\né,\"日,\"\"\",y\n"},
		"CSV: a line break":          {"a.csv", "id,value\na,▸x\n", "a\nb", "id,value\na,\"a\nb\"\n"},
		"CSV: a quote in a cell":     {"a.csv", "id,value\na,▸x\n", "\"a", "id,value\na,\"\"\"\\\"\"a\"\"\"\n"},
		"CSV: the separator changes": {"a.csv", "id,▸value\na,1\n", "a;b", "!a.csv:1:4: this can't take"},
	} {
		t.Run(name, func(t *testing.T) {
			before, after, _ := strings.Cut(test.in, "▸")
			breaks := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(before, "\ufeff"))
			line := 1 + strings.Count(breaks, "\n")
			column := 1 + len([]rune(breaks[strings.LastIndex(breaks, "\n")+1:]))
			var got []byte
			v, err := At(test.file, []byte(before+after), line, column)
			if err == nil {
				got, err = v.Replace(test.text)
			}
			if problem, ok := strings.CutPrefix(test.want, "!"); ok {
				if err == nil || !strings.Contains(err.Error(), problem) {
					t.Errorf("got %q, %v", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := test.want; !strings.HasSuffix(string(got), want) || len(want) > len(before) && string(got) != want {
				t.Error(cmp.Diff(want, string(got)))
			}
			checkReplaced(t, test.file, before+after, string(got), line, column)
		})
	}
}

// TestAt looks at values in their places.
func TestAt(t *testing.T) {
	const matrix = "columns: [id, plan, value]\nmatrix:\n- [a, [pro, free], 1]\n"
	for _, test := range []struct {
		file, data        string
		line, column      int
		text, path, field string
		isText            bool
	}{
		{"a.yaml", matrix, 3, 7, "[pro, free]", "row 1, plan", "plan", false},
		{"a.yaml", matrix, 3, 8, "pro", "row 1, plan[1]", "plan", false},
		{"a.yaml", "rules:\n- { when: { plan: pro }, value: 'x' }\n", 2, 19, "pro", "row 1.when.plan", "plan", false},
		{"a.yaml", "rules:\n- { when: { plan: pro }, value: 'x''y' }\n", 2, 33, "x'y", "row 1.value", "", true},
		{"a.yaml", "variants:\n  en: { max_tokens: 10 }\n", 2, 21, "10", "variants.en.max_tokens", "", false},
		{"a.csv", "id,plan\na,\"[pro, \"\"x\"\"]\"\n", 2, 3, `[pro, "x"]`, "row 1, plan", "plan", false},
	} {
		v, err := At(test.file, []byte(test.data), test.line, test.column)
		if err != nil {
			t.Error(err)
			continue
		}
		if v.Text != test.text || v.Path != test.path || v.Field != test.field || v.IsText != test.isText {
			t.Errorf("got %q %q %q %t, want %+v", v.Text, v.Path, v.Field, v.IsText, test)
		}
	}
}

// checkReplaced checks what an edit promises: the file decodes to the old content but for
// one value, and all bytes but those of one range are the same.
func checkReplaced(t *testing.T, file, before, after string, line, column int) {
	t.Helper()
	var errs document.Errors
	a, b := document.Parse(file, []byte(before), &errs), document.Parse(file, []byte(after), &errs)
	if errs.Len() > 0 {
		t.Fatal(errs.Err())
	}
	if differ := differences(a, b); len(differ) > 1 || len(differ) == 1 && (differ[0].Pos.Line != line || differ[0].Pos.Column != column) {
		t.Errorf("%d values differ", len(differ))
	}
	same := 0
	for same < min(len(before), len(after)) && before[same] == after[same] {
		same++
	}
	at, ok := (&Value{name: file, data: before}).offset(line, column)
	if !ok || same < at && before != after {
		t.Errorf("bytes before the value differ: %q %q", before, after)
	}
}

// differences returns the values of a that b has not, the outermost ones.
func differences(a, b *document.Node) (list []*document.Node) {
	if a.Shape != b.Shape || a.Text != b.Text || a.Quoted != b.Quoted || len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members) {
		return []*document.Node{a}
	}
	for i := range a.Items {
		list = append(list, differences(a.Items[i], b.Items[i])...)
	}
	for i, m := range a.Members {
		if m.Key.Text != b.Members[i].Key.Text {
			return []*document.Node{a}
		}
		list = append(list, differences(m.Value, b.Members[i].Value)...)
	}
	if len(list) > 1 {
		// A list or a mapping was replaced by another of its shape.
		return []*document.Node{a}
	}
	return list
}

// FuzzReplace replaces values of files that are YAML, JSON or CSV.
func FuzzReplace(f *testing.F) {
	for i, seed := range []string{"a: [x, 'y', \"z\"] # c\nb: |\n  t\n", "{\"a\": [1, \"x\"]}", "id,value\na,\"[b, 'c']\"\n", "- &a x\r\n- [*a, {b: c}]\r\n", "\ufeffa:\t- 1\n  >-\n  b\n"} {
		for place := range uint16(12) {
			f.Add(byte(i), []byte(seed), place, "x: [y]")
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte, place uint16, text string) {
		file := []string{"a.yaml", "a.json", "a.csv"}[kind%3]
		var errs document.Errors
		tree := document.Parse(file, data, &errs)
		if tree == nil {
			return
		}
		var all []*document.Node
		var walk func(n *document.Node)
		walk = func(n *document.Node) {
			if len(all) > 1000 {
				return
			}
			all = append(all, n)
			for _, item := range n.Items {
				walk(item)
			}
			for _, m := range n.Members {
				walk(m.Value)
			}
		}
		walk(tree)
		at := all[int(place)%len(all)].Pos
		v, err := At(file, data, at.Line, at.Column)
		if err != nil {
			return
		}
		after, err := v.Replace(text)
		if err != nil {
			return
		}
		checkReplaced(t, file, string(data), string(after), at.Line, at.Column)
		if !strings.HasPrefix(string(after), string(data[:v.start])) || !strings.HasSuffix(string(after), string(data[v.end:])) {
			t.Errorf("bytes around the value changed: %q %q", data, after)
		}
	})
}
