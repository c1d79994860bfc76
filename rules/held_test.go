package rules

import (
	"testing"
	"time"

	"github.com/valyala/fastjson"
)

// heldModel is in package rules' own words: an enumeration, a number, a path.
const heldModel = "fields:\n  environment: { type: string, values: [production, test] }\n  seats: { type: number, max: 100 }\n  plan: { type: string, path: user.plan }\n  tags: { type: list }\n"

// TestHeld binds contexts with three fields held, however their sender writes them.
func TestHeld(t *testing.T) {
	m := model(t, heldModel)
	var held Held
	for _, f := range [][2]string{{"environment", "production"}, {"seats", "5"}, {"plan", "pro"}} {
		if err := held.Hold(m, f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	const full = `{"environment":"production","seats":5,"user":{"plan":"pro"}}`
	for _, c := range []struct{ name, context, filled, refused string }{
		{"none", "", full, ""},
		{"empty", "{}", full, ""},
		{"null", `{"environment":null}`, full, ""},
		{"the same", full, full, ""},
		{"beside", `{"user":{"id":"7"},"seats":5,"environment":"production"}`, `{"user":{"id":"7","plan":"pro"},"seats":5,"environment":"production"}`, ""},
		{"another", `{"environment":"test"}`, "", "environment"},
		{"not allowed", `{"environment":"stage"}`, "", "environment"},
		{"wrong type", `{"seats":"many"}`, "", "seats"},
		{"another number", `{"seats":6}`, "", "seats"},
		{"nested", `{"user":{"plan":"free"}}`, "", "user.plan"},
		{"no object", `{"user":"free"}`, "", "user.plan"},
		{"twice, the last", `{"environment":"production","environment":"test"}`, "", "environment"},
		{"twice, after null", `{"environment":null,"environment":"test"}`, "", "environment"},
		{"twice, after an object", `{"user":{"plan":"pro"},"user":{"plan":"free"}}`, "", "user.plan"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var context *fastjson.Value
			if c.context != "" {
				context = fastjson.MustParse(c.context)
			}
			var b Binding
			filled, err := held.Bind(m, &b, context, time.Time{})
			if c.refused != "" {
				if e, ok := err.(*BindError); !ok || e.Field != c.refused {
					t.Fatalf("the error is %v, want one of %s", err, c.refused)
				}
				return
			}
			if err != nil || filled.String() != c.filled {
				t.Fatalf("the context is %s, %v, want %s", filled, err, c.filled)
			}
			if context != nil && context.String() != c.context {
				t.Errorf("the sender's context became %s", context)
			}
		})
	}
}

// TestHoldMistakes checks that the errors name the valid members.
func TestHoldMistakes(t *testing.T) {
	m := model(t, heldModel)
	for _, c := range []struct{ name, value, want string }{
		{"enviroment", "production", "context.enviroment is not a field of the data model: did you mean \"environment\"?"},
		{"environment", "prod", "context.environment must be one of production, test, this is \"prod\""},
		{"seats", "many", "context.seats must be a number, this is \"many\""},
		{"seats", "500", "context.seats must be a number up to 100, this is 500"},
		{"tags", "a", "context.tags is a list: only a field with one value can be held to it"},
	} {
		if err := new(Held).Hold(m, c.name, c.value); err == nil || err.Error() != c.want {
			t.Errorf("%s=%s: %v\nwant %s", c.name, c.value, err, c.want)
		}
	}
}
