package wire

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/trace"
)

func TestReportsOnUnits(t *testing.T) {
	t.Parallel()
	m, err := parsed(t, `{"unit":{"customer_id":"c-7"},"values":{"paid":1,"amount":4.25e1},"time":"2026-01-31T13:00:00+01:00","event_id":"invoice/8831","trace_id":null}`).Metrics()
	if err != nil {
		t.Fatal(err)
	}
	if unit := string(m.NamedUnit.GetStringBytes()); unit != "c-7" {
		t.Errorf("the unit %q", unit)
	}
	want := &MetricsRecord{Metrics: trace.Metrics{
		UnitField: "customer_id", Values: []byte(`{"paid":1,"amount":42.5}`), Happened: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), EventID: "invoice/8831",
	}}
	if diff := cmp.Diff(want, m, cmpopts.IgnoreTypes(new(fastjson.Value)), cmpopts.EquateApproxTime(0)); diff != "" {
		t.Error(diff)
	}
	if m, err = parsed(t, `{"unit":{"seats":7},"values":{"n":0}}`).Metrics(); err != nil || !m.Happened.IsZero() || m.EventID != "" {
		t.Errorf("%+v, %v", m, err)
	}
	const unit = `"unit":{"id":"c-7"}`
	for body, param := range map[string]string{
		`{"unit":"c-7","values":{"n":1}}`:                     "unit",
		`{"unit":{},"values":{"n":1}}`:                        "unit",
		`{"unit":null,"values":{"n":1}}`:                      "unit",
		`{"unit":null,"trace_id":"T","values":{"n":1}}`:       "unit",
		`{"unit":{"id":"c-7","plan":"pro"},"values":{"n":1}}`: "unit",
		`{` + unit + `,"values":{"n":1},"trace_id":"T"}`:      "trace_id",
		`{` + unit + `,"values":{"n":1},"decision_id":"D"}`:   "decision_id",
		`{` + unit + `,"values":{"n":1},"score":1}`:           "score",
		`{` + unit + `,"values":{"n":1},"metadata":{"a":1}}`:  "metadata",
		`{` + unit + `,"values":{"n":1},"value":1}`:           "value",
		`{` + unit + `}`:                                                                "values",
		`{` + unit + `,"values":{}}`:                                                    "values",
		`{` + unit + `,"values":{"n":null}}`:                                            "values",
		`{` + unit + `,"values":{"n":"1"}}`:                                             "values.n",
		`{` + unit + `,"values":{"n":1},"time":"2026-01-31"}`:                           "time",
		`{` + unit + `,"values":{"n":1},"time":"2026-01-31T12:00:00"}`:                  "time",
		`{` + unit + `,"values":{"n":1},"time":1769860800}`:                             "time",
		`{` + unit + `,"values":{"n":1},"time":"0001-01-01T00:00:00Z"}`:                 "time",
		`{` + unit + `,"values":{"n":1},"event_id":""}`:                                 "event_id",
		`{` + unit + `,"values":{"n":1},"event_id":7}`:                                  "event_id",
		`{` + unit + `,"values":{"n":1},"event_id":"a b"}`:                              "event_id",
		`{` + unit + `,"values":{"n":1},"event_id":"é"}`:                                "event_id",
		`{` + unit + `,"values":{"n":1},"event_id":"` + strings.Repeat("e", 256) + `"}`: "event_id",
		`{"trace_id":"T","score":1,"time":"2026-01-31T12:00:00Z"}`:                      "time",
		`{"score":1,"event_id":"e"}`:                                                    "event_id",
	} {
		if m, err := parsed(t, body).Metrics(); err == nil || err.Name != "invalid_request" || err.Param != param {
			t.Errorf("%s: %+v, %v; want an error with the param %s", body, m, err, param)
		}
	}
}

func TestWhenAUnitWasReported(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		happened   time.Time
		now, later bool // whether it is taken, and as history
	}{
		{now, true, true},
		{now.Add(time.Minute), true, true},
		{now.Add(time.Minute + time.Millisecond), false, false},
		{now.Add(-30 * 24 * time.Hour), true, true},
		{now.Add(-30*24*time.Hour - time.Millisecond), false, true},
		{time.Unix(0, 0), false, true},
		{time.Unix(-1, 0), false, false},
	} {
		if err := (&MetricsRecord{Metrics: trace.Metrics{Happened: test.happened}}).CheckHappened(now, true); err != nil && test.happened.Before(now) && !strings.Contains(err.Message, "before 1970") {
			t.Errorf("at %s: %v", test.happened, err)
		}
		for history, taken := range map[bool]bool{false: test.now, true: test.later} {
			m := &MetricsRecord{Metrics: trace.Metrics{Happened: test.happened}}
			if err := m.CheckHappened(now, history); (err == nil) != taken || err != nil && err.Param != "time" {
				t.Errorf("at %s, history %t: %v", test.happened, history, err)
			}
		}
	}
	m := new(MetricsRecord)
	if err := m.CheckHappened(now, false); err != nil || !m.Happened.Equal(now) {
		t.Errorf("without a time: %s, %v", m.Happened, err)
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat(`{"score":1},`, n), ",") }
	for _, test := range []struct {
		name, body string
		lines      bool
		want       string // the score or the error's param of each; or else the error
	}{
		{"array", `[{"score":1},{"score":101},5,{"unit":{"a":1}},{"score":2}]`, false, "1 score  values 2"},
		{"lines", "{\"score\":1}\r\n\n  {\"score\":101}\n{\"score\":\n5\n{\"score\":2,\"score\":2}\n{\"score\":3}", true, "1 score   score 3"},
		{"no array", `{"score":1}`, false, "no report"},
		{"no report", `[]`, false, "no report"},
		{"no line", " \n\n", true, "no report"},
		{"as many as may be", "[" + many(1000) + "]", false, strings.TrimSuffix(strings.Repeat("1 ", 1000), " ")},
		{"too many", "[" + many(1001) + "]", false, "may have 1000 reports"},
		{"too many lines", strings.ReplaceAll(many(1001), ",", "\n"), true, "may have 1000 reports"},
		{"a mistake in the array", `[{"score":1},{"score":1,"score":2}]`, false, "more than once"},
		{"not closed", `[{"score":1}`, false, "not valid JSON"},
	} {
		var got []string
		err := parsed(t, test.body).EachReport(test.lines, func(m *MetricsRecord, err *Error) {
			if err != nil {
				got = append(got, err.Param)
				return
			}
			got = append(got, fmt.Sprint(*m.Score))
		})
		switch {
		case err != nil && (len(got) > 0 || !strings.Contains(err.Message, test.want)):
			t.Errorf("%s: %v after %q, want %s", test.name, err, got, test.want)
		case err == nil && strings.Join(got, " ") != test.want:
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	for _, test := range []struct {
		body, media  string
		lines, batch bool
	}{
		{`{}`, "application/json", false, false},
		{` [`, "", false, true},
		{`{}`, "application/x-ndjson", true, true},
		{`{}`, " Application/X-NDJSON; charset=utf-8", true, true},
		{``, "text/plain", false, false},
	} {
		if lines, batch := parsed(t, test.body).Batch(http.Header{"Content-Type": {test.media}}); lines != test.lines || batch != test.batch {
			t.Errorf("%s of type %s: lines %t, batch %t", test.body, test.media, lines, batch)
		}
	}
}
