package upstream

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// deltas hands the texts of a list out, one a step.
type deltas struct {
	body  Body
	texts []string // JSON strings
}

func (d *deltas) Ready() bool { return false }

func (d *deltas) Step() (providers.Delta, error) {
	if len(d.texts) == 0 {
		return providers.Delta{}, io.EOF
	}
	v, err := d.body.Parse([]byte(d.texts[0]))
	d.texts = d.texts[1:]
	if err != nil {
		return providers.Delta{}, err
	}
	return providers.Delta{Content: d.body.String(v.GetStringBytes())}, nil
}

// read reads JSON strings as the deltas of an answer.
func readDeltas(texts ...string) ([]string, error) {
	var l Lookahead
	steps := &deltas{body: NewBody(io.NopCloser(strings.NewReader(""))), texts: texts}
	defer steps.body.Close()
	var got []string
	for {
		d, err := l.Next(steps)
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, d.Content)
	}
}

func TestHalvesOfCharacters(t *testing.T) {
	for _, test := range []struct {
		name  string
		texts []string
		want  []string
	}{
		{"none", []string{`"a😀b"`, `"\u00fc"`, `"\ud83d\ude00"`}, []string{"a😀b", "ü", "😀"}},
		{"split", []string{`"a\ud83d"`, `"\ude00b"`}, []string{"a", "😀b"}},
		{"split, upper case", []string{`"\uD83D"`, `"\uDE00"`}, []string{"", "😀"}},
		{"split twice", []string{`"a\ud83d"`, `"\ude00\ud83d"`, `"\ude01"`}, []string{"a", "😀", "😁"}},
		{"with nothing between", []string{`"\ud83d"`, `""`, `"\ude00"`}, []string{"", "", "😀"}},
		{"a first half alone", []string{`"a\ud83d"`, `"b"`}, []string{"a", "\ufffdb"}},
		{"a first half, twice", []string{`"\ud83d"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ud83d"`, `"\ude00"`}, []string{"", "\ufffd😀", "", "\ufffd", "😀"}},
		{"a first half at the end", []string{`"a\ud83d"`}, []string{"a", "\ufffd"}},
		{"a second half alone", []string{`"\ude00a"`, `"\ude00"`}, []string{"\ufffda", "\ufffd"}},
		{"within a text", []string{`"a\ud83db\ude00c"`, `"\ude00\ud83d\ude00"`}, []string{"a\ufffdb\ufffdc", "\ufffd😀"}},
		{"in the wrong order", []string{`"a\ude00\ud83db"`}, []string{"a\ufffd\ufffdb"}},
		{"a half before another escape", []string{`"\ud83d\u0041\n"`, `"\ud83d\n"`}, []string{"\ufffdA\n", "\ufffd\n"}},
		{"a half after a quote", []string{`"\"\ude00\ud83d\""`}, []string{"\"\ufffd\ufffd\""}},
		{"a half after a backslash", []string{`"\\\ude00"`, `"\\ud83d"`, `"\\\\ude00"`}, []string{`\` + "\ufffd", `\ud83d`, `\\ude00`}},
		{"a character of their own", []string{`"\ud7ff\ue000\uffff"`}, []string{"\ud7ff\ue000\uffff"}},
		{"bytes split in a character stay so", []string{"\"\xf0\x9f\"", "\"\x98\x80\""}, []string{"\xf0\x9f", "\x98\x80"}},
	} {
		got, err := readDeltas(test.texts...)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
}

func TestBadEscapesAreNoText(t *testing.T) {
	for _, text := range []string{`"\q"`, `"\u12"`, `"\u12g4"`, `"\u+123"`, `"\U0041"`, `"a\x41"`, `"\'"`, `"\ud83d\u12"`, `{"\q":1}`, `"\`} {
		if got, err := readDeltas(text); err == nil || !strings.Contains(err.Error(), "a bad escape") {
			t.Errorf("%s is read as %q: %v", text, got, err)
		}
	}
}

// TestOrdinaryTextIsNotCopied holds that checking escapes costs no allocation.
func TestOrdinaryTextIsNotCopied(t *testing.T) {
	data := []byte(`{"a":"a\"b\\c\n\u00fc\ud83d\ude00"}`)
	body := NewBody(io.NopCloser(strings.NewReader("")))
	defer body.Close()
	var h halves
	if n := testing.AllocsPerRun(1000, func() {
		v, err := body.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if h.join(body.String(v.GetStringBytes("a"))) == "" {
			t.Fatal("no text")
		}
	}); n >= 0.1 {
		t.Errorf("%v allocations", n)
	}
}

func TestSplitCharactersInArguments(t *testing.T) {
	body := NewBody(io.NopCloser(strings.NewReader("")))
	defer body.Close()
	var calls ToolCalls
	piece := func(index int, text string) {
		v, err := body.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		calls.Value(index, v)
	}
	calls.Begin(0, []byte("a"), []byte("f"))
	piece(0, `"{\"city\":\"\ud83d"`)
	piece(0, `"\ude00\ud83d\"}"`)
	// An object that fastjson would write as invalid JSON.
	calls.Begin(1, []byte("b"), []byte("f"))
	piece(1, `{"a":"\"\u001b[1m\u007f","b":"x\ud83d"}`)
	got, err := calls.Finish()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []map[string]string{{"city": "😀\ufffd"}, {"a": "\"\x1b[1m\x7f", "b": "x\ufffd"}} {
		var members map[string]string
		if err := json.Unmarshal([]byte(got[i].Arguments), &members); err != nil || !utf8.ValidString(got[i].Arguments) {
			t.Errorf("arguments %q: %v", got[i].Arguments, err)
		}
		for name, value := range members {
			if strings.Trim(value, "\ufffd") != strings.Trim(want[name], "\ufffd") || strings.Contains(value, "\ufffd") != strings.Contains(want[name], "\ufffd") {
				t.Errorf("%s is %q, want %q", name, value, want[name])
			}
		}
	}
}

// FuzzDeltas cuts a JSON text at any place, as services do, and reads the
// pieces back.
func FuzzDeltas(f *testing.F) {
	f.Add("a😀b", 2)
	f.Add("😀😁", 3)
	f.Add("\"\\\n", 1)
	f.Fuzz(func(t *testing.T, text string, at int) {
		if !utf8.ValidString(text) {
			return
		}
		// As UTF-16, of which each unit is an escape.
		var units []string
		for _, r := range text {
			var both []byte
			if r >= 0x10000 {
				r -= 0x10000
				both = appendUnit(both, 0xd800+r>>10)
				r = 0xdc00 + r&0x3ff
				units, both = append(units, string(both)), nil
			}
			units = append(units, string(appendUnit(both, r)))
		}
		if at < 0 || at > len(units) {
			return
		}
		got, err := readDeltas(`"`+strings.Join(units[:at], "")+`"`, `"`+strings.Join(units[at:], "")+`"`)
		if err != nil || strings.Join(got, "") != text {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
	})
}

func appendUnit(b []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	b = append(b, `\u`...)
	for shift := 12; shift >= 0; shift -= 4 {
		b = append(b, digits[unit>>shift&15])
	}
	return b
}
