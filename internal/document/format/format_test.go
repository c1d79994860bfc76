package format

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

func TestSource(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"aligns below the columns": {
			in: `type: object # the type
columns: [environment,plan,   seats, value]
matrix:
  # the big ones
  - [production, enterprise, 100.., {rpm: 6000}]   # a comment, [with, brackets]

  - [staging,[pro,  starter],any,{rpm: 1,  burst: 2}]
default: {rpm:   1}
`,
			want: `type: object # the type
columns: [ environment, plan,            seats, value ]
matrix:
  # the big ones
  - [ production,       enterprise,      100.., {rpm: 6000} ]   # a comment, [with, brackets]

  - [ staging,          [pro,  starter], any,   {rpm: 1,  burst: 2} ]
default: {rpm:   1}
`,
		},
		"quotes, separators in them, and apostrophes": {
			in: `columns: [a, b, value]
matrix:
  - ["x, ]", 'it''s, [', it's]
  - [x:y, {is: "a,b"}, "\"],"]
`,
			want: `columns: [ a, b,           value ]
matrix:
  - [ "x, ]", 'it''s, [',  it's ]
  - [ x:y,    {is: "a,b"}, "\"]," ]
`,
		},
		"wide and combining characters": {
			in:   "columns: [ a, b, value ]\nmatrix:\n  - [ 日本, x, 1 ]\n  - [ e\u0301, x, 1 ]\n",
			want: "columns: [ a, b, value ]\nmatrix:\n  - [ 日本,   x, 1 ]\n  - [ e\u0301,      x, 1 ]\n",
		},
		"a row with a comment in it stays": {
			in:   "columns: [ a, b, value ]\nmatrix:\n  - [ x, y, # here\n      1 ]\n  - [ xx, y, # [ not here ]\n      2 ]\n  - [ x, yyyy, # 2 ]\n      3 ]\n",
			want: "columns: [ a, b, value ]\nmatrix:\n  - [ x, y, # here\n      1 ]\n  - [ xx, y, # [ not here ]\n      2 ]\n  - [ x, yyyy, # 2 ]\n      3 ]\n",
		},
		"rows of several lines stay": {
			in: `columns: [a, b, value]
matrix:
- [aaaaaaaaaaaaaaaaaa,
   b, 1]
- - x
  - y
  - 2
- [a,b,3]
`,
			want: `columns: [ a, b, value ]
matrix:
- [aaaaaaaaaaaaaaaaaa,
   b, 1]
- - x
  - y
  - 2
- [ a,        b, 3 ]
`,
		},
		"columns as a block, a trailing comma": {
			in:   "columns:\n- a\n- value\nmatrix:\n- [aaa,1,]\n- [a,1]\n",
			want: "columns:\n- a\n- value\nmatrix:\n- [ aaa, 1, ]\n- [ a,   1 ]\n",
		},
		"line ends stay": {
			in:   "columns: [a, value]\r\nmatrix:\r\n- [aaaaaaaaaaaaaaaa,1]\r\n- [a,1]",
			want: "columns: [ a,         value ]\r\nmatrix:\r\n- [ aaaaaaaaaaaaaaaa, 1 ]\r\n- [ a,                1 ]",
		},
		"matrix in one line":  {in: "columns: [a, value]\nmatrix: [[a,1],[b,2]]\n", want: "columns: [ a, value ]\nmatrix: [[a,1],[b,2]]\n"},
		"no matrix":           {in: "type: boolean\ndefault:   true\n", want: "type: boolean\ndefault:   true\n"},
		"empty":               {in: "", want: ""},
		"matrix of no kind":   {in: "matrix: 3\n", want: "matrix: 3\n"},
		"aliases and anchors": {in: "columns: [ a, value ]\nmatrix:\n- &r [ a, 1 ]\n- *r\n", want: "columns: [ a, value ]\nmatrix:\n- &r [ a,     1 ]\n- *r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Source("x.yaml", []byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if test.want != "" || test.in == "" {
				if diff := cmp.Diff(test.want, string(got)); diff != "" {
					t.Error(diff)
				}
			}
			checkFormatted(t, "x.yaml", []byte(test.in), got)
		})
	}
}

// checkFormatted checks the invariants of any layout: its content is the same,
// only spaces differ, and formatting it again changes nothing.
func checkFormatted(t *testing.T, name string, in, out []byte) {
	t.Helper()
	var errs document.Errors
	if !same(document.Parse(name, in, &errs), document.Parse(name, out, &errs)) || errs.Len() > 0 {
		t.Errorf("the meaning changed:\n%s\n%s", in, out)
	}
	spaceless := func(b []byte) string {
		return strings.NewReplacer(" ", "", "\t", "").Replace(string(b))
	}
	if spaceless(in) != spaceless(out) {
		t.Errorf("more than spaces changed:\n%q\n%q", in, out)
	}
	again, err := Source(name, out)
	if err != nil || !bytes.Equal(again, out) {
		t.Errorf("laid out twice, it differs (%v):\n%s", err, cmp.Diff(string(out), string(again)))
	}
}

func TestSourceError(t *testing.T) {
	_, err := Source("x.yaml", []byte("matrix: [\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:") {
		t.Errorf("got %v", err)
	}
	got, err := Source("x.JSON", []byte(`{"matrix":`))
	if err != nil || string(got) != `{"matrix":` {
		t.Errorf("JSON is left alone, got %q, %v", got, err)
	}
}

// TestExamples holds the example workspace to the layout.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/definitions/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Source(file, data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(data), string(got)); diff != "" {
			t.Errorf("%s is not laid out:\n%s", file, diff)
		}
	}
}

func FuzzSource(f *testing.F) {
	f.Add([]byte("columns: [a, b, value]\nmatrix:\n- [x, [y, 'z'], \"{\"] # c\n- [any,{is: x},1]\n"))
	f.Add([]byte("matrix:\n- [a'b, c]\n- [ , ]\n- [a: b, ? c]\n- [!x y, &a b, *a]\n"))
	f.Add([]byte("matrix:\r- [a,b]\r- [c\u00a0,d]\n- [\"\\\n\", e]"))
	f.Add([]byte("\ufeffmatrix:\n  - [\ta\t,\tb]\n  - [a #b, c#d]\n  - [a:'b, c', d]"))
	f.Add([]byte("matrix: [[a,b],\n[c,dd]]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Source("x.yaml", data)
		if err != nil {
			return
		}
		checkFormatted(t, "x.yaml", data, out)
	})
}

func BenchmarkSource(b *testing.B) {
	var s strings.Builder
	s.WriteString("type: object\ndefault: {}\ncolumns: [environment, plan, locale, seats, value]\nmatrix:\n")
	for range 1000 {
		s.WriteString("  - [production, [pro, starter], nl-BE, 10..<100, {rpm: 600, burst: 60}]\n")
	}
	data := []byte(s.String())
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Source("x.yaml", data); err != nil {
			b.Fatal(err)
		}
	}
}
