package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"
)

// declare reads a declaration of variables.
func declare(t testing.TB, src string) *Variables {
	t.Helper()
	var errs document.Errors
	v := DecodeVariables(document.Parse("v.yaml", []byte(src), &errs), nil, &errs)
	if err := errs.Err(); err != nil {
		t.Fatal(err)
	}
	return v
}

// compile compiles a text.
func compile(t testing.TB, vars *Variables, text string) *Template {
	t.Helper()
	var errs document.Errors
	tmpl := Compile(&document.Node{Shape: document.Scalar, Text: text, Quoted: true}, vars, &errs)
	if err := errs.Err(); err != nil {
		t.Fatal(err)
	}
	return tmpl
}

const decl = "{name: {default: World}, q: {required: true}, open: , a.b-c_1: {default: {x: [1, 2.50]}}, n: {default: 7}, empty: {default: ''}}"

func TestRender(t *testing.T) {
	vars := declare(t, decl)
	for _, tt := range []struct{ name, text, vars, want string }{
		{"default", "Hello {{name}}!", `{"q":""}`, "Hello World!"},
		{"given", "Hello {{ name }}{{name}}", `{"q":"","name":"Ann"}`, "Hello AnnAnn"},
		{"tabs", "{{\tname }}", `{"q":""}`, "World"},
		{"no re-scan", "{{q}} {{name}}", `{"q":"{{name}} \\{{x}} {env.HOME} {{{{"}`, `{{name}} \{{x}} {env.HOME} {{{{ World`},
		{"open", "[{{open}}]", `{"q":""}`, "[]"},
		{"null is not supplied", "{{name}}", `{"q":"","name":null}`, "World"},
		{"empty is supplied", "[{{name}}]", `{"q":"","name":""}`, "[]"},
		{"json default", "{{a.b-c_1}} {{n}} [{{empty}}]", `{"q":""}`, `{"x":[1,2.50]} 7 []`},
		{"json values", "{{q}}|{{name}}|{{n}}|{{open}}", `{"q":{"a":[1, "x\n\u2028\u0007"]},"name":true,"n":1.50,"open":[]}`, "{\"a\":[1,\"x\\n\\u2028\\u0007\"]}|true|1.50|[]"},
		{"escape", `\{{name}} {{name}}`, `{"q":""}`, "{{name}} World"},
		{"escaped backslash", `\\{{name}} \\\{{name}} \\ x\y`, `{"q":""}`, `\World \{{name}} \\ x\y`},
		{"lone braces", `{"a": {"b": 1}} } {`, `{"q":""}`, `{"a": {"b": 1}} } {`},
		{"adjacent", "{{name}}}", `{"q":""}`, "World}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var values Values
			if err := vars.Bind(fastjson.MustParse(tt.vars), nil, nil, &values); err != nil {
				t.Fatal(err)
			}
			tmpl := compile(t, vars, tt.text)
			if got := tmpl.Text(&values).Plain(); got != tt.want {
				t.Errorf("text %q, want %q", got, tt.want)
			}
			if got := len(tmpl.appendText(nil, &values)); got != len(tt.want) {
				t.Errorf("size %d, want %d", got, len(tt.want))
			}
			var a Answer
			a.Literal("[")
			a.Literal(`"`)
			a.Template(tmpl)
			a.Literal(`"]`)
			var list []string
			if err := json.Unmarshal(a.Append(nil, &values), &list); err != nil || list[0] != tt.want {
				t.Errorf("answer %q %v", list, err)
			}
			if size, rendered := a.Size(&values), len(a.Append(nil, &values)); size != rendered {
				t.Errorf("an answer of %d bytes, want %d", size, rendered)
			}
			if size, text := a.TextSize(&values), len(tmpl.appendText(nil, &values)); size != text {
				t.Errorf("a text of %d bytes, want %d", size, text)
			}
		})
	}
}

func TestBind(t *testing.T) {
	vars := declare(t, decl)
	var values Values
	for _, in := range []string{`null`, `{}`, `{"name":"x"}`, `{"q":null}`} {
		var missing *MissingError
		if err := vars.Bind(fastjson.MustParse(in), nil, nil, &values); !errors.As(err, &missing) || missing.Name != "q" {
			t.Errorf("%s: %v", in, err)
		}
	}
	if err := vars.Bind(nil, nil, nil, &values); err == nil {
		t.Error("nil: no error")
	}
	if err := vars.Bind(fastjson.MustParse(`{"q":1,"zz":2,"yy":null}`), nil, nil, &values); err != nil {
		t.Fatal(err)
	}
	if values.Undeclared() != 2 {
		t.Errorf("undeclared %d", values.Undeclared())
	}
	if d := cmp.Diff([]string{"open"}, values.Empty()); d != "" {
		t.Error(d)
	}
	got := map[string]string{}
	for i, name := range vars.Names() {
		got[name] = string(values.Text(i))
		if _, has := vars.Default(name); vars.Required(name) != (name == "q") || has == (name == "q" || name == "open") || vars.Configured(name) != nil {
			t.Errorf("%s: required %v, default %v", name, vars.Required(name), has)
		}
	}
	if d := cmp.Diff(map[string]string{"name": "World", "q": "1", "open": "", "a.b-c_1": `{"x":[1,2.50]}`, "n": "7", "empty": ""}, got); d != "" {
		t.Error(d)
	}
	// The variables of the last request are unbound.
	if err := vars.Bind(fastjson.MustParse(`{"q":"x","open":"y"}`), nil, nil, &values); err != nil {
		t.Fatal(err)
	}
	if values.Undeclared() != 0 || values.Empty() != nil {
		t.Errorf("kept %d %v", values.Undeclared(), values.Empty())
	}
	none := declare(t, "")
	if err := none.Bind(fastjson.MustParse(`{"q":1}`), nil, nil, &values); err != nil || values.Undeclared() != 1 {
		t.Errorf("%v %d", err, values.Undeclared())
	}
	values.Reset()
	if values.Undeclared() != 0 {
		t.Error("not reset")
	}
}

// TestBindPromptsOfOneRequest binds what one request sends to several
// declarations, as many variables as are looked up either way.
func TestBindPromptsOfOneRequest(t *testing.T) {
	for _, n := range []int{3, linearMembers, linearMembers + 1, 200} {
		var body strings.Builder
		for i := range n {
			fmt.Fprintf(&body, `,"v%d":[%d,"\u0001"]`, n-i, n-i)
		}
		vars := fastjson.MustParse("{" + body.String()[1:] + "}")
		var values Values
		for i := 1; i <= n; i++ {
			name := fmt.Sprintf("v%d", i)
			declared := declare(t, "{"+name+": {required: true}, other: {default: \"\\t\"}}")
			if declared.Bind(vars, nil, nil, &values) != nil || !values.BoundTo(declared) || values.Undeclared() != n-1 {
				t.Fatalf("%s of %d: %d undeclared", name, n, values.Undeclared())
			}
			var a Answer
			a.Template(compile(t, declared, "{{"+name+"}}{{other}}{{"+name+"}}"))
			text := fmt.Sprintf(`[%d,\"\\u0001\"]`, i)
			if got := string(a.Append(nil, &values)); got != text+`\t`+text || a.Size(&values) != len(got) {
				t.Errorf("%s of %d: %s, of %d bytes", name, n, got, a.Size(&values))
			}
		}
		if err := declare(t, "{v: {required: true}}").Bind(vars, nil, nil, &values); err == nil {
			t.Error("a variable that was not sent is there")
		}
	}
}

func TestMistakes(t *testing.T) {
	const src = `variables:
  company: { default: Acme, requird: true }
  9x: {}
  both: { default: 1, required: true }
  list: [1]
  odd: { default: 012 }
a: "{{compny}} and {{company}}"
b: "x {{na me}}"
c: "x {{company"
d: "{{{company}}}"
e: "{{}}"
`
	var errs document.Errors
	doc := document.Parse("p.yaml", []byte(src), &errs)
	vars := DecodeVariables(doc.Get("variables"), nil, &errs)
	for _, m := range []string{"a", "b", "c", "d", "e"} {
		if Compile(doc.Get(m), vars, &errs) == nil {
			t.Fatal("nil template")
		}
	}
	want := `p.yaml:2:29: unknown member "requird" in the variable company: did you mean "required"?
p.yaml:3:3: "9x" is not a variable name: a letter or _, then letters, digits, _, . or -
p.yaml:4:20: the variable both is required, so its default is never used: remove one of the two
p.yaml:5:9: the variable list must be a mapping, this is a list
p.yaml:6:19: 012 is not a JSON number: write 12 for the number or "012" for the text
p.yaml:7:4: {{compny}} is not declared under variables: did you mean "company"?
p.yaml:8:4: "{{na me}}" is not a placeholder: write {{name}}, or \{{ for the characters themselves
p.yaml:9:4: "{{company" is not a placeholder: write {{name}}, or \{{ for the characters themselves
p.yaml:10:4: "{{{company}}" is not a placeholder: write {{name}}, or \{{ for the characters themselves
p.yaml:11:4: "{{}}" is not a placeholder: write {{name}}, or \{{ for the characters themselves`
	if d := cmp.Diff(want, errs.Err().Error()); d != "" {
		t.Error(d)
	}
}

// appendText appends the rendered text as it is, without escapes.
func (t *Template) appendText(dst []byte, v *Values) []byte {
	for i := range t.parts {
		p := &t.parts[i]
		dst = append(dst, p.text...)
		if p.slot >= 0 {
			dst = append(dst, v.text[p.slot]...)
		}
	}
	return dst
}

// FuzzCompile checks that no template panics, and that what renders is text
// and JSON of the same content.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{"", "{{name}}", "{{ q }}", `\{{q}}`, `\\{{q}}`, "{{", "}}", "{{}}", "{{{q}}}", "a{{q}}b{{name}}c", "{{q\n}}", "{{\xff}}", "é{{q}}\u2028"} {
		f.Add(s, s)
	}
	vars := declare(f, decl)
	f.Fuzz(func(t *testing.T, text, q string) {
		var errs document.Errors
		tmpl := Compile(&document.Node{Shape: document.Scalar, Text: text}, vars, &errs)
		body, _ := json.Marshal(map[string]string{"q": q})
		var values Values
		if err := vars.Bind(fastjson.MustParseBytes(body), nil, nil, &values); err != nil {
			t.Fatal(err)
		}
		if got, want := tmpl.Text(&values).Plain(), string([]rune(string(tmpl.appendText(nil, &values)))); got != want {
			t.Fatalf("text %q, want %q", got, want)
		}
		var a Answer
		a.Template(tmpl)
		var decoded string
		if err := json.Unmarshal([]byte(`"`+string(a.Append(nil, &values))+`"`), &decoded); err != nil {
			t.Fatal(err)
		}
		if want := string([]rune(string(tmpl.appendText(nil, &values)))); decoded != want {
			t.Fatalf("JSON %q, text %q", decoded, want)
		}
		if size, rendered := a.Size(&values), len(a.Append(nil, &values)); size != rendered {
			t.Fatalf("an answer of %d bytes, want %d", size, rendered)
		}
		if size, text := a.TextSize(&values), len(tmpl.appendText(nil, &values)); size != text {
			t.Fatalf("a text of %d bytes, want %d", size, text)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	vars := declare(b, "{company: {default: Acme}, question: {required: true}}")
	var a Answer
	a.Literal(`{"name":"en","messages":[{"role":"system","content":"`)
	a.Template(compile(b, vars, "You are the support agent of {{company}}. Answer in English."))
	a.Literal(`"},{"role":"user","content":"`)
	a.Template(compile(b, vars, "{{question}}"))
	a.Literal(`"}],"provider":"openai","model":"gpt-4o-mini","temperature":0.2,"maxTokens":400}`)
	v := fastjson.MustParse(`{"question":"How do I \"cancel\" my order?"}`)
	var values Values
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		values.Reset()
		if err := vars.Bind(v, nil, nil, &values); err != nil {
			b.Fatal(err)
		}
		dst = a.Append(dst[:0], &values)
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, "a": true, "_": true, "Z9": true, "a.b-c_d": true, "9": false, ".a": false, "-a": false, "a b": false, "é": false, "a}": false,
		strings.Repeat("n", 128): true, strings.Repeat("n", 129): false,
	} {
		if ValidName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// TestUndeclared checks that as many names are appended as fit, of few members and
// of many.
func TestUndeclared(t *testing.T) {
	for _, test := range []struct {
		members, room int
		want          string
	}{{4, 9, "v0 v1 v3"}, {4, 2, "v0 v1"}, {4, 0, ""}, {40, 3, "v0 v1 v10"}, {40, 13, "v0 v1 v10 v11 v12 v13 v14 v15 v16 v17 v18 v19 v20"}} {
		members := make([]string, test.members)
		for i := range members {
			members[i] = fmt.Sprintf(`"v%d":null`, i)
		}
		var values Values
		err := declare(t, `{ v2: { default: x } }`).Bind(fastjson.MustParse("{"+strings.Join(members, ",")+"}"), nil, nil, &values)
		got := string(bytes.Join(values.AppendUndeclared(make([][]byte, 0, test.room)), []byte(" ")))
		if err != nil || got != test.want || values.Undeclared() != test.members-1 {
			t.Errorf("%+v: %q, %d, %v", test, got, values.Undeclared(), err)
		}
	}
}
