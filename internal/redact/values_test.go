package redact

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

func knowing(detectors Detectors, values ...string) *Redactor {
	v := NewValues(values)
	return New(detectors, nil, func() *Values { return v })
}

func TestKnownValues(t *testing.T) {
	const gone = "[redacted:secret]"
	for _, value := range []string{
		"k3y-for-azure-0001", "p@ss:w/rd", `qu"ote\back`, "tab\tnew\nline", "schlüssel密码", "<&>'\u2028=%+ #",
		"nnnn1234", "u0041bcdef", "12345678901", "a]}b,c:{[", "0123456789abcdef" + strings.Repeat("x", 5000),
		"a passphrase of words", `\backslash first`, `"quote first`,
	} {
		r := knowing(0, value)
		for _, text := range []string{"%", "before % after", "glued%glued", "%%", "% and %", "ü%ü"} {
			want := strings.ReplaceAll(strings.ReplaceAll(text, "%%", gone), "%", gone)
			if got := r.String(strings.ReplaceAll(text, "%", value)); got != want {
				t.Errorf("%q in %q: %q", value, text, got)
			}
			if got := NewValues([]string{value}).Replace(strings.ReplaceAll(text, "%", value), gone); got != want {
				t.Errorf("%q in %q, replaced: %q", value, text, got)
			}
		}
		// In JSON, and in JSON within it.
		type level struct {
			Value string
			Names map[string]int
			Inner *string
		}
		inner, err := json.Marshal(level{Value: value, Names: map[string]int{value: 1}})
		if err != nil {
			t.Fatal(err)
		}
		asText := string(inner)
		outer, err := json.Marshal(level{Value: "see " + value + "!", Inner: &asText})
		if err != nil {
			t.Fatal(err)
		}
		redacted, n := r.JSON(outer)
		var got level
		if err := json.Unmarshal(redacted, &got); err != nil || got.Value != "see "+gone+"!" || n != 3 {
			t.Errorf("%q: %d findings, %v: %s", value, n, err, redacted)
			continue
		}
		var within level
		if err := json.Unmarshal([]byte(*got.Inner), &within); err != nil || within.Value != gone || within.Names[gone] != 1 {
			t.Errorf("%q: %v: %s", value, err, *got.Inner)
		}
		for _, u := range []string{"https://host/" + url.PathEscape(value), "https://host/?k=" + url.QueryEscape(value) + "&x=1"} {
			if got := r.String(u); strings.Contains(got, url.QueryEscape(value)) || !strings.Contains(got, gone) {
				t.Errorf("%q: %s", value, got)
			}
		}
	}
}

func TestKnownValuesInJSONLeaveJSON(t *testing.T) {
	for _, test := range []struct{ value, text, want string }{
		{"12345678901", `{"n":12345678901,"s":"12345678901"}`, `{"n":"[redacted:secret]","s":"[redacted:secret]"}`},
		{"12345678", `[123456789012]`, `["[redacted:secret]"]`},
		{"nabcdef9", `"\nabcdef9"`, `"\n[redacted:secret]"`},
		{"0041abcd", `"\u0041abcd"`, `"\u0041[redacted:secret]"`},
		{"nabcdef9", `"\\nabcdef9"`, `"\\[redacted:secret]"`},
		{"true,null", `[true,null]`, `[true,null]`},
		{`a","b":"c`, `{"x":"a","b":"c"}`, `{"x":"a","b":"c"}`},
		{`a","b":"c`, `{"x":"a\",\"b\":\"c"}`, `{"x":"[redacted:secret]"}`},
		{`"abcdefgh`, `{"x":"\\"abcdefgh}`, `{"x":"\\"abcdefgh}`},
	} {
		got, _ := knowing(0, test.value).JSON([]byte(test.text))
		if string(got) != test.want {
			t.Errorf("%q in %s: %s, want %s", test.value, test.text, got, test.want)
		}
	}
}

func TestWhatIsNotLookedFor(t *testing.T) {
	for value, found := range map[string]bool{
		"": false, "short12": false, "long1234": true, "password": false, "postgres": false, "abcdefghijklmno": false,
		"abcdefghijklmnop": true, "Password": true, "pass word": true,
	} {
		if CanBeFound(value) != found || (NewValues([]string{value}) != nil) != found {
			t.Errorf("%q: want %v", value, found)
		}
	}
	if got := (*Values)(nil).Replace("text", "x"); got != "text" {
		t.Error(got)
	}
}

// TestManyValues holds the search against the plain one, on texts of so few
// characters that values overlap and begin like each other.
func TestManyValues(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "aB1"[random.IntN(3)]
		}
		return string(b)
	}
	for range 300 {
		var values []string
		for range 1 + random.IntN(40) {
			values = append(values, text(minValue+random.IntN(6)))
		}
		content := text(random.IntN(400))
		covered := make([]bool, len(content))
		for _, value := range values {
			for i := range content {
				if strings.HasPrefix(content[i:], value) && CanBeFound(value) {
					for j := range value {
						covered[i+j] = true
					}
				}
			}
		}
		f := finder{text: []byte(content)}
		f.findValues(NewValues(values))
		got := make([]bool, len(content))
		for _, s := range f.spans {
			for i := s.start; i < s.end; i++ {
				got[i] = true
			}
		}
		for i := range got {
			if got[i] != covered[i] {
				t.Fatalf("%q in %q: byte %d is %v, want %v", values, content, i, got[i], covered[i])
			}
		}
	}
}

func TestValuesAreLookedForWithoutAllocating(t *testing.T) {
	if slow > 1 {
		t.Skip("the race detector allocates")
	}
	r := knowing(0, "k3y-for-azure-0001", "p@ss:w/rd")
	text := bytes.Repeat([]byte(`{"question":"Where is my order? It says p@ss: and k3y-for."},`), 100)
	if n := testing.AllocsPerRun(100, func() { r.JSON(text) }); n > 0 {
		t.Errorf("%v allocations where nothing is found", n)
	}
}

func BenchmarkKnownValues(b *testing.B) {
	text := bytes.Repeat([]byte(`{"question":"Where is my order? It says that the parcel was sent."},`), 16<<10)[:1<<20]
	for _, test := range []struct {
		name string
		n    int
	}{{"none", 0}, {"1", 1}, {"20", 20}, {"500", 500}} {
		var values []string
		for i := range test.n {
			values = append(values, "sk-"+invent(48+i, base62))
		}
		r := knowing(0, values...)
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				r.JSON(text)
			}
		})
	}
}
