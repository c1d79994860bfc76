package wire

import (
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// unitRecord reads a report on a unit. When it happened is checked by [CheckHappened], and
// the value of the field where the data model is known.
func (r *Request) unitRecord(body *fastjson.Object) (*MetricsRecord, *Error) {
	m := new(MetricsRecord)
	unit, notObject := body.Get("unit").Object()
	if notObject != nil || unit.Len() != 1 {
		return nil, Errorf(InvalidRequest, "unit", `"unit" must be an object of one field of the data model and its value, such as {"customer_id": "c-7"}.`)
	}
	unit.Visit(func(name []byte, v *fastjson.Value) { m.UnitField, m.NamedUnit = string(name), v })
	var err *Error
	body.Visit(func(name []byte, v *fastjson.Value) {
		switch string(name) {
		case "unit", "values", "time", "event_id":
		default:
			if err == nil && !IsNull(v) {
				param := Clip(string(name))
				err = Errorf(InvalidRequest, param, `A report on a unit has "unit", "values", "time" and "event_id", and no %q.`, param)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	values := body.Get("values")
	if IsNull(values) {
		return nil, Errorf(InvalidRequest, "values", `"values" is missing: a report on a unit has numbers by their names.`)
	}
	if m.Values, err = namedValues(values); err != nil {
		return nil, err
	}
	if m.Values == nil {
		return nil, Errorf(InvalidRequest, "values", `"values" is empty: a report on a unit has at least one number.`)
	}
	if v := body.Get("time"); !IsNull(v) {
		var parseErr error
		m.Happened, parseErr = time.Parse(time.RFC3339, jsontext.View(v.GetStringBytes()))
		if parseErr != nil || m.Happened.IsZero() {
			return nil, Errorf(InvalidRequest, "time", `"time" must be an instant with its zone, such as "2026-01-31T12:00:00Z".`)
		}
	}
	if v := body.Get("event_id"); !IsNull(v) {
		m.EventID = string(v.GetStringBytes())
		if m.EventID == "" || len(m.EventID) > maxIdempotencyKey || !visibleASCII(m.EventID) {
			return nil, Errorf(InvalidRequest, "event_id", `"event_id" must be a string of 1 to %d visible ASCII characters, without spaces.`, maxIdempotencyKey)
		}
	}
	return m, nil
}

const (
	// maxUnitAge is how long before its report an event may have happened.
	maxUnitAge = 30 * 24 * time.Hour
	// maxClockSkew is how far the clock of a reporter may be ahead.
	maxClockSkew = time.Minute
)

// CheckHappened checks when the event of a report on a unit happened; without a time it is
// now. With history it may be of any age.
func (m *MetricsRecord) CheckHappened(now time.Time, history bool) *Error {
	switch {
	case m.Happened.IsZero():
		m.Happened = now
	case m.Happened.After(now.Add(maxClockSkew)):
		return Errorf(InvalidRequest, "time", `"time" is in the future: it is %s here.`, now.UTC().Format(time.RFC3339))
	case m.Happened.Unix() < 0:
		return Errorf(InvalidRequest, "time", `"time" is before 1970: reports reach back to 1970-01-01T00:00:00Z.`)
	case m.Happened.Before(now.Add(-maxUnitAge)) && !history:
		return Errorf(InvalidRequest, "time", `"time" is more than 30 days ago. What is older is imported: caddy cadenza import-reports.`)
	}
	return nil
}
