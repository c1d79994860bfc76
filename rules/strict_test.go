package rules

import (
	"strings"
	"testing"

	"github.com/valyala/fastjson"
)

// TestCheckContext checks the mistakes found in a test's context, whatever the
// model asks of requests.
func TestCheckContext(t *testing.T) {
	const fields = `
fields:
  locale:   { type: string }
  country:  { type: string, values: [NL, BE] }
  many:     { type: string, values: [a, b, c, d, e, f, g, h, i, j, k, l, m] }
  basket:   { type: number }
  age:      { type: number, min: 18 }
  share:    { type: number, min: 0, max: 1 }
  debt:     { type: number, max: 0 }
  level:    { type: number, values: [1, 2] }
  tags:     { type: list, values: [old, new] }
  since:    { type: date }
  app:      { type: string, format: semver }
  needed:   { type: string, required: true }
  zip:      { type: number, path: user.zip }
computed: { belgian: country == "BE" }
`
	for _, policy := range []string{"", "on_unknown_field: reject\non_type_mismatch: reject\n", "on_unknown_field: warn\n"} {
		m := model(t, policy+fields)
		for context, want := range map[string]string{
			`{"locale":"nl","country":"BE","basket":20,"age":"18","share":1,"level":2,"tags":"new","since":"2026-01-31","app":"1.2.3","user":{"zip":1}}`: "",
			`null`: "", `{}`: "", `7`: "", `{"locale":null}`: "",
			`{"langage":"nl"}`:           `context.langage is not a field of the data model`,
			`{"contry":"NL"}`:            `context.contry is not a field of the data model: did you mean "country"?`,
			`{"belgian":true}`:           `context.belgian is computed by the data model: a request does not send it`,
			`{"country":"USA"}`:          `context.country must be one of NL, BE, this is "USA"`,
			`{"country":"nl"}`:           `context.country must be one of NL, BE, this is "nl": did you mean "NL"?`,
			`{"many":"x"}`:               `context.many must be one of a, b, c, d, e, f, g, h, i, j, k, l, …, this is "x"`,
			`{"basket":"twenty"}`:        `context.basket must be a number, this is "twenty"`,
			`{"age":7}`:                  `context.age must be a number from 18, this is 7`,
			`{"share":2}`:                `context.share must be a number from 0 to 1, this is 2`,
			`{"debt":2}`:                 `context.debt must be a number up to 0, this is 2`,
			`{"level":3}`:                `context.level must be one of 1, 2, this is 3`,
			`{"tags":["new","odl"]}`:     `context.tags must be a list of one of old, new, this is a list`,
			`{"tags":"odl"}`:             `context.tags must be a list of one of old, new, this is "odl": did you mean "old"?`,
			`{"since":"31/01/2026"}`:     `context.since must be a date such as 2026-01-31 or 2026-01-31T12:00:00Z, this is "31/01/2026"`,
			`{"app":"latest"}`:           `context.app must be a version such as 2.1.3, this is "latest"`,
			`{"user":{"zpi":1}}`:         `context.user.zpi is not a field of the data model: did you mean "user.zip"?`,
			`{"zip":1}`:                  `context.zip is not where the field is: it is read from context.user.zip`,
			`{"user":1}`:                 `context.user must be an object, this is 1`,
			`{"basket":"x","contry":""}`: `context.basket must be a number, this is "x"; context.contry is not a field of the data model: did you mean "country"?`,
		} {
			var b Binding
			var got []string
			for _, e := range m.CheckContext(&b, fastjson.MustParse(context)) {
				got = append(got, e.Message)
			}
			if s := strings.Join(got, "; "); s != want {
				t.Errorf("%s\ngot  %s\nwant %s", context, s, want)
			}
		}
	}
}
