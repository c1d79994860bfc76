package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/valyala/fastjson"
)

func TestCutVectors(t *testing.T) {
	long := strings.Repeat("AAAAPwAA", 16)
	for _, test := range []struct {
		data, want string
		cut        []string
	}{
		{`{"data":[{"embedding":[0.5, -1e-7,0],"index":0}],"usage":{"total_tokens":3}}`, `{"data":[{"embedding":"#0","index":0}],"usage":{"total_tokens":3}}`, []string{`[0.5, -1e-7,0]`}},
		{`{"float":[[1],[ 2.25E+2 ]]}`, `{"float":["#0","#1"]}`, []string{`[1]`, `[ 2.25E+2 ]`}},
		{`{"embedding":"` + long + `"}`, `{"embedding":"#0"}`, []string{`"` + long + `"`}},
		{`{"message":"[1,2] and \"[3]\" ` + strings.Repeat("a ", 64) + `"}`, `{"message":"[1,2] and \"[3]\" ` + strings.Repeat("a ", 64) + `"}`, nil},
		{`[]`, `[]`, nil},
		{`[1,]`, `[1,]`, nil},
		{`[1,,2]`, `[1,,2]`, nil},
		{`[01]`, `[01]`, nil},
		{`[1.]`, `[1.]`, nil},
		{`[.5]`, `[.5]`, nil},
		{`[-]`, `[-]`, nil},
		{`[1e]`, `[1e]`, nil},
		{`[NaN]`, `[NaN]`, nil},
		{`[1,null]`, `[1,null]`, nil},
		{`[1`, `[1`, nil},
		{`"\`, `"\`, nil},
		{`"`, `"`, nil},
	} {
		v := cutVectors([]byte(test.data))
		if string(v.JSON) != test.want || len(v.cut) != len(test.cut) {
			t.Errorf("%s: %s and %q", test.data, v.JSON, v.cut)
			continue
		}
		for i, want := range test.cut {
			if got := v.Of(fastjson.MustParse(`"#` + strconv.Itoa(i) + `"`)); string(got) != want {
				t.Errorf("%s: vector %d is %s", test.data, i, got)
			}
		}
	}
}

func TestVectorOfOtherValues(t *testing.T) {
	v := cutVectors([]byte(`[1]`))
	for value, want := range map[string]string{`"#1"`: "", `"#-1"`: "", `"#x"`: "", `5`: "", `[]`: "", `null`: "", `"AAAAPw=="`: `"AAAAPw=="`} {
		if got := v.Of(fastjson.MustParse(value)); string(got) != want {
			t.Errorf("%s: %s, want %s", value, got, want)
		}
	}
	if v.Of(nil) != nil {
		t.Error("a value that is not there has a vector")
	}
}

func TestReadVectorsFails(t *testing.T) {
	if _, err := ReadVectors(io.MultiReader(strings.NewReader("["), iotest.ErrReader(io.ErrUnexpectedEOF))); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
	if _, err := ReadVectors(io.LimitReader(zeros{}, MaxBody+1)); err != ErrTooLarge {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// FuzzCutVectors checks that an answer keeps its meaning: with the vectors back in their
// places it is the same, and each of them is JSON.
func FuzzCutVectors(f *testing.F) {
	f.Add([]byte(`{"data":[{"embedding":[0.5, -1e-7,0],"index":0},{"embedding":[1]}],"m":"\"[1]"}`))
	f.Add([]byte(`["` + strings.Repeat("A", 70) + `"]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v := cutVectors(data)
		if json.Valid(data) != json.Valid(v.JSON) {
			t.Fatalf("%s is cut to %s", data, v.JSON)
		}
		if bytes.Contains(data, []byte{'#'}) {
			return
		}
		whole := v.JSON
		for i, raw := range v.cut {
			if !json.Valid(raw) {
				t.Fatalf("%q is no JSON", raw)
			}
			whole = bytes.Replace(whole, []byte(`"#`+strconv.Itoa(i)+`"`), raw, 1)
		}
		if !bytes.Equal(whole, data) {
			t.Fatalf("%s became %s", data, whole)
		}
	})
}

func BenchmarkCutVectors(b *testing.B) {
	data := []byte(`{"data":[{"embedding":[` + strings.Repeat("-0.012345678,", 1535) + `0.1],"index":0}]}`)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		cutVectors(data)
	}
}
