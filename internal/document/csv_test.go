package document

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseCSV(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"commas":           {"plan,value\npro,1\nnot free,2\n", "[[plan value] [pro 1] [not free 2]]"},
		"semicolons":       {"plan;value\npro;1,5\n", "[[plan value] [pro 1,5]]"},
		"quotes":           {"plan,value\n\"pro, team\",\"say \"\"hi\"\"\"\n", `[[plan value] [pro, team say "hi"]]`},
		"byte order mark":  {"\ufeffplan,value\npro,1\n", "[[plan value] [pro 1]]"},
		"carriage returns": {"plan,value\r\npro,1\r\n\"a\r\nb\",2\r", "[[plan value] [pro 1] [a\nb 2]]"},
		"no last break":    {"plan,value\npro,1", "[[plan value] [pro 1]]"},
		"blanks":           {"plan , value\n pro , \"1\"\n\n", "[[plan value] [pro 1]]"},
		"empty cells":      {"plan,seats,value\n,,\n,10..,1\n", "[[plan seats value] [ 10.. 1]]"},
		"cells of YAML":    {"plan,value\n\"[pro, 'a b']\",{ rpm: 60 }\n{ not: x },\"{\"\"rpm\"\":60}\"\n'10',\"\"\"any\"\"\"\n", `[[plan value] [[pro "a b"] {rpm:60}] [{not:x} {"rpm":60}] ["10" "any"]]`},
		"no YAML":          {"plan,value\n*,a: b # c\n&x,!y\n- a,|\n", "[[plan value] [* a: b # c] [&x !y] [- a |]]"},
		"uneven":           {"plan,value\npro\nfree,1,2\n", "[[plan value] [pro] [free 1 2]]"},
		"nothing":          {"\n \n", "nil"},
		"only separators":  {",,\n", "nil"},
	} {
		var errs Errors
		n := Parse("t.csv", []byte(test.in), &errs)
		if got := outline(n); got != test.want || errs.Len() > 0 {
			t.Errorf("%s: %s, want %s. %v", name, got, test.want, errs.Err())
		}
	}
}

func TestParseCSVPositions(t *testing.T) {
	var errs Errors
	n := Parse("t.csv", []byte("é,plan,value\n\"a\nb\",\"日\",{ x: [y] }\nc, d,e\n"), &errs)
	if errs.Len() > 0 {
		t.Fatal(errs.Err())
	}
	var got []string
	for _, row := range n.Items {
		for _, cell := range row.Items {
			got = append(got, strings.TrimPrefix(cell.Pos.String(), "t.csv:"))
		}
	}
	got = append(got, n.Items[1].Items[2].Get("x").Items[0].Pos.String())
	if d := cmp.Diff([]string{"1:1", "1:3", "1:8", "2:1", "3:4", "3:8", "4:1", "4:4", "4:6", "t.csv:3:8"}, got); d != "" {
		t.Error(d)
	}
}

func TestParseCSVMistakes(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"a,b\nx\"y,1\n", "t.csv:2:2: invalid CSV: a quote within a cell that does not begin with one: put the cell in quotes, and double those in it"},
		{"a,b\n\"x\" y,1\n", "t.csv:2:3: invalid CSV: a quoted cell has no end, or more behind it: double the quotes within a cell"},
		{"a,b\nx,\"y\n", "t.csv:2:5: invalid CSV: a quoted cell has no end"},
		{"a,b\nx,\"y\nz,1\nw,2\n", "t.csv:2:1: invalid CSV: a quoted cell of this row has no end"},
		{"a,b\nx,\"[y\"\nz,'1\n\"[a,\",b]\n", "t.csv:2:3: invalid YAML: what begins here has no end: ] is missing\nt.csv:3:3: invalid YAML: the text that begins here has no closing quote\nt.csv:4:1: invalid YAML: the file ends here too early"},
		{"a,b\nx,{ y: {{z}} }\n", "t.csv:2:3: a key must be a single plain value: quote text that begins with {{"},
		{"\xff\xfea\x00", "t.csv:1:1: the file is in UTF-16: save it as UTF-8 (spreadsheets call it CSV UTF-8)"},
		{"a\x00,\x00b\x00", "t.csv:1:2: control character U+0000: save the file as UTF-8 (it may be in UTF-16), or delete the character"},
		{"a,b\nx,caf\xe9\n", "t.csv:2:6: the file is not valid UTF-8: byte 0xe9: save it as UTF-8 (spreadsheets call it CSV UTF-8)"},
		{"a,b\n<<<<<<< HEAD\n", "t.csv:2:1: two versions were merged here"},
		{strings.Repeat("x,", MaxNodes) + "\n", "t.csv:1:3600001: the file has more than 1800000 values and keys: split it"},
	} {
		var errs Errors
		begun := time.Now()
		if n := Parse("t.csv", []byte(test.in), &errs); n != nil || errs.Len() == 0 || !strings.HasPrefix(errs.Err().Error(), test.want) {
			t.Errorf("%.60q: %v, want %s", test.in, errs.Err(), test.want)
		}
		if took := time.Since(begun); took > quadratic {
			t.Errorf("%.60q took %v", test.in, took)
		}
	}
}

// FuzzCSV checks that the cells are the ones that encoding/csv reads, except for
// cells of YAML, and that their positions are right.
func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "a;b\n1;2\n", "a,b\n\"x\"\"y\",\"[1, 2]\"\n", "a\n\"x\ny\"\nz", "a,b\n'x','\n", ",\n\n,x", "é, b\r\n\"日\",{c: d}\r", "a,b\n[,]\n", "a\n\"[*x]\"\n[&x 1]\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var errs Errors
		n := Parse("f.csv", data, &errs)
		for _, e := range errs.List() {
			if e.Pos.Line < 1 || e.Pos.Column < 1 || e.Pos.File != "f.csv" {
				t.Fatalf("bad position: %v", e)
			}
		}
		if n == nil {
			return
		}
		text := unixLines(strings.TrimPrefix(string(data), "\ufeff"))
		in := csv.NewReader(strings.NewReader(text))
		in.FieldsPerRecord, in.TrimLeadingSpace = -1, true
		if Separator(text) == ';' {
			in.Comma = ';'
		}
		all, err := in.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for _, fields := range all {
			if strings.Join(fields, "") == "" {
				continue
			}
			row := n.Items[i]
			if i++; len(row.Items) != len(fields) {
				t.Fatalf("%s for %q", outline(row), fields)
			}
			for j, cell := range row.Items {
				field := strings.Trim(fields[j], " \t\n")
				if asYAML := i > 1 && field != "" && strings.IndexByte(`[{"'`, field[0]) >= 0; !asYAML && (cell.Text != field || cell.Quoted) {
					t.Errorf("%q for %q", cell.Text, field)
				}
			}
		}
		if i != len(n.Items) {
			t.Errorf("%d rows of %d", len(n.Items), i)
		}
	})
}
