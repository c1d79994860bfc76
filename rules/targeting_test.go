package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fastjson"
)

func TestTargetingKey(t *testing.T) {
	const table = "rules: [ { id: me, when: { customer_id: c-1 }, value: 1 }, { id: here, when: { customer_id: present }, value: 2 } ]\n"
	const plain = "fields: { customer_id: string, n: number }\n"
	for _, test := range []struct{ model, context, want string }{
		{"targeting_key: customer_id\n" + plain, `{"targetingKey":"c-1"}`, "me"},
		{"targeting_key: customer_id\n" + plain, `{"targetingKey":"c-2","other":1}`, "here"},
		{"targeting_key: customer_id\n" + plain, `{"targetingKey":"c-1","customer_id":"c-2"}`, "here"},
		{"targeting_key: customer_id\n" + plain, `{"customer_id":"c-2","targetingKey":"c-1"}`, "here"},
		{"targeting_key: customer_id\n" + plain, `{"customer_id":null,"targetingKey":"c-1"}`, "me"},
		{"targeting_key: customer_id\n" + plain, `{"targetingKey":null}`, ""},
		{"targeting_key: customer_id\n" + plain, `{"targetingKey":{"a":1}}`, ""},
		{"targeting_key: customer_id\n" + plain, `{"customerId":"c-1"}`, ""},
		{"targeting_key: customer_id\non_type_mismatch: reject\n" + plain, `{"targetingKey":["c-1","c-2"]}`, "context.customer_id must be text"},
		{"targeting_key: customer_id\non_unknown_field: reject\n" + plain, `{"targetingKey":"c-1"}`, "me"},
		{"targeting_key: customer_id\non_type_mismatch: reject\nfields: { customer_id: { type: string, required: true } }\n", `{"targetingKey":"c-1"}`, "me"},
		{"targeting_key: customer_id\non_type_mismatch: reject\nfields: { customer_id: { type: string, required: true } }\n", `{"a":1}`, "no targeting key: context.customer_id is required"},
		{"targeting_key: customer_id\nfields: { customer_id: { type: string, path: user.id } }\n", `{"targetingKey":"c-1"}`, "me"},
		{"targeting_key: customer_id\nfields: { customer_id: { type: string, path: user.id } }\n", `{"targetingKey":"c-1","user":{"id":"c-2"}}`, "here"},
		// Without targeting_key, a field may be read from the member, and otherwise it is ignored.
		{plain, `{"targetingKey":"c-1"}`, ""},
		{"on_unknown_field: reject\n" + plain, `{"targetingKey":"c-1"}`, ""},
		{"on_unknown_field: reject\n" + plain, `{"targetingkey":"c-1"}`, "context.targetingkey is not a field"},
		{"fields: { customer_id: { type: string, path: targetingKey } }\n", `{"targetingKey":"c-1"}`, "me"},
		{"on_type_mismatch: reject\nfields: { customer_id: { type: string, path: targetingKey, required: true } }\n", `{"a":1}`, "no targeting key: context.targetingKey is required"},
		{"on_type_mismatch: reject\nfields: { customer_id: string, n: { type: number, required: true } }\n", `{"a":1}`, "context.n is required"},
	} {
		m, err := ParseModel("context.yaml", []byte(test.model))
		if err != nil {
			t.Fatal(test.model, err)
		}
		tab, err := ParseTable(m, "t.yaml", []byte(table), Options{})
		if err != nil {
			t.Fatal(test.model, err)
		}
		var b Binding
		got := ""
		if err := m.Bind(&b, fastjson.MustParse(test.context), time.Time{}); err != nil {
			if got = err.Error(); must[*BindError](t, err).TargetingKeyMissing() {
				got = "no targeting key: " + got
			}
		} else if d := tab.Evaluate(&b); d.Row >= 0 {
			got = tab.Rows()[d.Row].ID
		} else if d.Reason == NoContext {
			got = "no context"
		}
		if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s%s: %s, want %s", test.model, test.context, got, test.want)
		}
	}
}

func must[E error](t *testing.T, err error) E {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("%T: %v", err, err)
	}
	return e
}

func TestTargetingKeyMistakes(t *testing.T) {
	for _, test := range []struct{ model, want string }{
		{"targeting_key: customer_id\n", "context.yaml:1:16: unknown field \"customer_id\": the data model (context.yaml) declares none"},
		{"targeting_key: custmer_id\nfields: { customer_id: string }\n", `1:16: unknown field "custmer_id": did you mean "customer_id"?`},
		{"targeting_key: seats\nfields: { seats: number }\n", `1:16: targeting_key must name a field of type string, "seats" is a number`},
		{"targeting_key: tags\nfields: { tags: list }\n", `"tags" is a list`},
		{"targeting_key: [a]\nfields: { a: string }\n", "targeting_key must be"},
		{"targeting_key: a\nfields: { a: string, targetingKey: string }\n", "a field is read from context.targetingKey already: leave targeting_key out"},
		{"targeting_key: a\nfields: { a: string, b: { type: string, path: targetingKey.id } }\n", "leave targeting_key out"},
		{"targeting_key: budget.day\nfields: { a: string }\n", "unknown field"},
		{"targeting_key: b\nfields: { a: string }\ncomputed: { b: a + \"x\" }\n", `unknown field "b"`},
		{"targeting_key: targetingKey\nfields: { targetingKey: string }\n", ""},
	} {
		_, err := ParseModel("context.yaml", []byte(test.model))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.model, err, test.want)
		}
	}
}
