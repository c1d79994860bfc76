package definition

import (
	"strings"
	"testing"
)

func TestPlaceholdersOfOthers(t *testing.T) {
	for text, want := range map[string]string{
		"{{text}} {% if text %}":       "prompts/p.yaml:4:27: {% if text %} is sent to the model as it is: a message has {{name}} only, so make it a variant, or decide it in the caller",
		"{{text}} and {text}":          "prompts/p.yaml:4:27: {text} is sent to the model as it is: write {{text}} for the variable",
		"{{text}} ${text} {text}":      "prompts/p.yaml:4:27: ${text} is sent to the model as it is: write {{text}} for the variable",
		"{{text}} {name}":              "",
		`{{text}} \\{{text}}`:          "",
		`{{text}} {\"text\": 1}`:       "",
		"{{text}} 100 % of {} and {%}": "",
	} {
		dir := workspace(t, map[string]string{
			"prompts/p.yaml": "variables: { text: { required: true } }\nvariants:\n  a:\n    messages: [ { role: user, content: \"" + text + "\" } ]\n  b: { extends: a }\ndefault: a\n",
		})
		s, err := Load(dir)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, w := range s.Warnings {
			got = append(got, strings.TrimPrefix(w.String(), dir+"/"))
		}
		if strings.Join(got, "\n") != strings.Replace(want, "4:27", "4:40", 1) {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}
