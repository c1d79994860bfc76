package upstream

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
)

func TestAppendInputs(t *testing.T) {
	inputs := []providers.EmbeddingInput{{Text: "a \"b\"\n"}, {Tokens: json.RawMessage(`[1,2]`), Count: 2}}
	got := AppendInputs([]byte(`"input":`), inputs)
	if want := `"input":["a \"b\"\n",[1,2]]`; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := AppendInputs(nil, nil); string(got) != `[]` {
		t.Errorf("%s", got)
	}
	if size := InputSize(inputs, 3); size != 6+5+2*3 {
		t.Errorf("%d bytes", size)
	}
	s := &Service{Name: "x", RejectionCode: "refused"}
	if err := s.CheckTexts(inputs[:1]); err != nil {
		t.Error(err)
	}
	if e, ok := errors.AsType[*providers.Error](s.CheckTexts(inputs)); !ok || e.Param != "input" || e.Lacks != "input of tokens" || e.Code != "refused" {
		t.Errorf("%+v", e)
	}
}

// TestVectorsAreBounded has answers of which little is a vector, and much has to be parsed,
// and vectors without an end.
func TestVectorsAreBounded(t *testing.T) {
	k := Call{Provider: "x"}
	for _, text := range []string{`[],`, `{},`, `"a",`, `[1],`} {
		for count, whole := range map[int]bool{maxValues/2 - 2: true, maxValues + 1: false} {
			_, _, err := k.Vectors(strings.NewReader(`[` + strings.Repeat(text, count) + `0]`))
			if e, _ := errors.AsType[*providers.Error](err); whole && err != nil || !whole && (e == nil || e.Kind != providers.Invalid || !strings.Contains(e.Reason, "larger")) {
				t.Errorf("%d × %s: %v", count, text, err)
			}
		}
	}
	if v := cutVectors([]byte(strings.Repeat(`[1],`, 2*maxValues))); len(v.cut) > maxValues+1 {
		t.Errorf("%d vectors are cut out of an answer that is refused", len(v.cut))
	}
	counted := &counter{Reader: strings.NewReader(`[` + strings.Repeat(`{},`, 1000) + `0]`)}
	if _, _, err := k.Vectors(counted); err != nil || counted.bytes < 1000*valueSize {
		t.Errorf("%d bytes are counted: %v", counted.bytes, err)
	}
}

// counter counts what is held for its reader.
type counter struct {
	io.Reader
	bytes int
}

func (c *counter) Hold(bytes int) error { c.bytes += bytes; return nil }

func TestVectorsOfEach(t *testing.T) {
	v := cutVectors([]byte(`[{"a":{"b":[1]}},{"a":{"b":[2]}},{"a":{}}]`))
	list := fastjson.MustParseBytes(v.JSON).GetArray()
	all, err := v.OfEach(Call{}, list[:2], 2, "a", "b")
	if err != nil || string(all[0]) != "[1]" || string(all[1]) != "[2]" {
		t.Errorf("%s: %v", all, err)
	}
	for reason, got := range map[string][]*fastjson.Value{"the answer has 1 vectors for 2 inputs": list[:1], "vector 1 is neither numbers nor base64": list[1:]} {
		_, err := v.OfEach(Call{}, got, 2, "a", "b")
		if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Invalid || e.Reason != reason {
			t.Errorf("%v, want %q", err, reason)
		}
	}
}
