package script

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

func TestArguments(t *testing.T) {
	for schema, want := range map[string]string{
		``:                  `{}`,
		`{"type":"object"}`: `{}`,
		`{"type":"string"}`: `{}`,
		`[]`:                `{}`,
		`{"type":"object","required":["city","days"],"properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":2},"more":{"type":"string"}}}`: `{"city":"city","days":2}`,
		`{"required":["a"],"properties":{"a":{"enum":["x","y"]}}}`: `{"a":"x"}`,
		`{"required":["a","b","c","d","e"],"properties":{"a":{"const":7},"b":{"default":[1]},"c":{"type":["null","boolean"]},"d":{"type":"null"},"e":{"type":"integer"}}}`: `{"a":7,"b":[1],"c":true,"d":null,"e":1}`,
		`{"required":["a"],"properties":{"a":{"type":"array","minItems":2,"items":{"type":"number"}}}}`:                                                                    `{"a":[1,1]}`,
		`{"required":["list"],"properties":{"list":{"type":"array"}}}`:                                                                                                     `{"list":[]}`,
		`{"required":["a"],"properties":{"a":{"anyOf":[{"type":"boolean"},{"type":"null"}]}}}`:                                                                             `{"a":true}`,
		`{"required":["a"],"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"object","required":["b"],"properties":{"b":{"type":"number","minimum":-5}}}}}`:    `{"a":{"b":-5}}`,
		`{"required":["a"],"properties":{"a":{"$ref":"https://example.com/x"}}}`:                                                                                           `{"a":"a"}`,
		`{"required":["free"]}`: `{"free":"free"}`,
	} {
		if got := Arguments(json.RawMessage(schema)); string(got) != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

// FuzzArguments has schemas of callers, which may refer to themselves.
func FuzzArguments(f *testing.F) {
	f.Add(`{"required":["a"],"properties":{"a":{"$ref":"#"}}}`)
	f.Add(`{"required":["a"],"properties":{"a":{"type":"array","minItems":9999999,"items":{"type":"string","minLength":99999999}}}}`)
	f.Add(`{"required":["a"],"properties":{"a":{"$ref":"#/properties/a"}}}`)
	f.Fuzz(func(t *testing.T, schema string) {
		var object map[string]any
		if got := Arguments(json.RawMessage(schema)); json.Unmarshal(got, &object) != nil {
			t.Errorf("%q: %s", schema, got)
		}
	})
}

// TestArgumentsAreBounded: a caller's schema of a few bytes asks for no more than a
// request may have.
func TestArgumentsAreBounded(t *testing.T) {
	nested := `{"type":"string","minLength":1000}`
	for range deepest - 1 {
		nested = `{"type":"array","minItems":100,"items":` + nested + `}`
	}
	var properties, required []string
	for i := range 100 {
		name := strconv.Quote("m" + strconv.Itoa(i))
		properties, required = append(properties, name+`:{"$ref":"#"}`), append(required, name)
	}
	for name, schema := range map[string]string{
		"lists":   `{"type":"object","required":["a"],"properties":{"a":` + nested + `}}`,
		"texts":   `{"type":"object","required":["a"],"properties":{"a":{"type":"array","minItems":100,"items":{"const":"` + strings.Repeat("x", 200_000) + `"}}}}`,
		"members": `{"type":"object","required":[` + strings.Join(required, ",") + `],"properties":{` + strings.Join(properties, ",") + `}}`,
	} {
		if text := Arguments(json.RawMessage(schema)); len(text) > maxMade || !json.Valid(text) {
			t.Errorf("%s: %d bytes", name, len(text))
		}
	}
}
