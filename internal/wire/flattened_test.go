package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// isField is a data model with two fields.
func isField(name string) bool { return name == "environments" || name == "user-role" }

func TestFlattened(t *testing.T) {
	for body, want := range map[string][4]string{
		`{"rules":["a"],"environments":"production","user-role":["x"],"chain_id":"c","n":{"m":[1.50]}}`: {"a", `{"environments":"production","user-role":["x"]}`, `{"chain_id":"c","n":{"m":[1.50]}}`, ""},
		`{"rules":["a","b","a"]}`:               {"a b", "", "", ""},
		`{"rules":["a"],"user-role":null}`:      {"a", `{"user-role":null}`, "", ""},
		`{"rules":["a"],"x":1}`:                 {"a", "", `{"x":1}`, ""},
		`{"rules":["a"],"context":{"a":1}}`:     {"a", "", `{"context":{"a":1}}`, ""},
		`{"rules":["a"],"variables":{"b":2}}`:   {"a", "", `{"variables":{"b":2}}`, ""},
		`{"environments":"x","rules":["a"]}`:    {"a", `{"environments":"x"}`, "", ""},
		`{"rules":["a"],"\u0061\n\"":"\u0041"}`: {"a", "", `{"a\n\"":"A"}`, ""},
		// A body with keys is as everywhere.
		`{"keys":["k"],"rules":["a"],"environments":"x"}`:                         {"k", "", "", ""},
		`{"keys":["k"],"context":{"c":1},"metadata":{"m":2},"variables":{"v":3}}`: {"k", `{"c":1}`, `{"m":2}`, `{"v":3}`},
	} {
		got, err := parsed(t, body).Flattened("rules", true, isField)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if diff := cmp.Diff(want, [4]string{strings.Join(got.Keys, " "), text(got.Context), text(got.Metadata), text(got.Variables)}); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
	for body, want := range map[string]string{
		`{}`:                            "invalid_request keys",
		`{"rules":null}`:                "invalid_request keys",
		`{"prompts":["a"]}`:             "invalid_request keys",
		`{"rules":[]}`:                  "invalid_request rules",
		`{"rules":"a"}`:                 "invalid_request rules",
		`{"rules":["a b"]}`:             "invalid_request rules[0]",
		`{"keys":[],"rules":["a"]}`:     "invalid_request keys",
		`{"rules":["a"],"rules":["b"]}`: "invalid_json rules",
		`{"rules":["a"],"long":"` + strings.Repeat("x", DefaultMetadataLimit) + `"}`: "invalid_request metadata",
	} {
		if _, err := parsed(t, body).Flattened("rules", true, isField); err == nil || err.Name+" "+err.Param != want {
			t.Errorf("%.80s: %v, want %s", body, err, want)
		}
	}
	// Fields of the context count as no metadata.
	long := `{"rules":["a"],"environments":"` + strings.Repeat("x", DefaultMetadataLimit) + `"}`
	if _, err := parsed(t, long).Flattened("rules", true, isField); err != nil {
		t.Error(err)
	}
	if _, err := parsed(t, `{"rules":["a"]}`).RemoteConfigs(); err == nil || err.Param != "keys" {
		t.Errorf("elsewhere: %v", err)
	}
}
