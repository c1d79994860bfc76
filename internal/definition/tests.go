package definition

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/valyala/fastjson"
)

// testInstant is when tests of tables without a schedule run.
var testInstant = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// uncheckedContext is the member of a test whose context may be wrong, because it
// is about requests that are.
const uncheckedContext = "unchecked_context"

// runTests runs the tests of all definitions. Failures are mistakes.
func (l *loader) runTests() {
	for _, k := range kind.All {
		docs := l.docs[k]
		place := func(i int) document.Position { return docs[i].node.Pos }
		l.parallel("running these tests", len(docs), place, func(i int, errs *document.Errors) {
			if docs[i].node.Get("tests") != nil {
				l.testOnce(docs[i], errs)
			}
		})
	}
}

// testRun runs the tests of one definition.
type testRun struct {
	model *rules.Model
	table *rules.Table
	errs  *document.Errors
	count *atomic.Int64
	// stopped reports whether the loading was given up.
	stopped func() bool
	// check compares what a test expects with the decision.
	check func(test *document.Node, d rules.Decision)
	known []string
	// misspelt reports whether the test at hand has an unknown member, which may be
	// what it expects.
	misspelt bool

	binding rules.Binding
}

func (r *testRun) run(def *document.Node) {
	n := def.Get("tests")
	if n.IsNull() {
		return
	}
	if n.Shape != document.Sequence {
		r.errs.Add(n, "tests must be a list of {context, value}, this is %s", n.Shape)
		return
	}
	for _, test := range n.Items {
		if r.stopped() {
			return
		}
		before := r.errs.Len()
		if test.CheckMembers(r.errs, "a test", r.known...) {
			r.misspelt = r.errs.Len() > before
			r.one(test)
			r.count.Add(1)
		}
	}
}

// one runs one test.
func (r *testRun) one(test *document.Node) {
	before := r.errs.Len()
	at := r.instant(test)
	context := r.value(test.Get("context"), "context")
	unchecked := false
	if n := test.Get(uncheckedContext); n != nil {
		unchecked, _ = n.ReadBool(r.errs, uncheckedContext)
	}
	if r.errs.Len() == before && context != nil && !unchecked {
		r.checkContext(test.Get("context"), context)
	}
	if r.errs.Len() > before {
		return
	}
	if err := r.model.Simulate(&r.binding, context, at); err != nil {
		r.errs.Add(test.Get("context"), "test failed: the data model refuses the context: %v", err)
		return
	}
	d := r.table.Evaluate(&r.binding)
	if n := test.Get("rule"); n != nil {
		want, ok := n.ReadString(r.errs, "rule")
		if got := r.rowID(d); ok && got != want {
			r.errs.Add(n, "test failed: expected rule %q, got %q", want, got)
		}
	}
	r.check(test, d)
}

// checkContext reports members that no request is meant to send: a test of it says
// nothing about those that are.
func (r *testRun) checkContext(n *document.Node, context *fastjson.Value) {
	for _, e := range r.model.CheckContext(&r.binding, context) {
		at := n
		// A name may have dots of its own.
		for rest := e.Field; rest != ""; {
			next := slices.IndexFunc(at.Members, func(m document.Member) bool {
				return rest == m.Key.Text || strings.HasPrefix(rest, m.Key.Text+".")
			})
			if next < 0 {
				break
			}
			m := at.Members[next]
			rest = strings.TrimPrefix(strings.TrimPrefix(rest, m.Key.Text), ".")
			if at = m.Value; rest == "" && e.Unknown() {
				at = m.Key
			}
		}
		r.errs.Report("test-context", at.Pos, "%s (%s: true allows it)", e.Message, uncheckedContext)
	}
}

// rowID returns the id of the row that matched.
func (r *testRun) rowID(d rules.Decision) string {
	if d.Row < 0 {
		return "default"
	}
	return r.table.Rows()[d.Row].ID
}

// instant returns the time that a test is run for.
func (r *testRun) instant(test *document.Node) time.Time {
	n := test.Get("at")
	if n == nil {
		if r.table.HasSchedule() {
			r.errs.Add(test, "this table has a schedule, so its tests need an instant, at: 2026-01-31T09:00:00Z: without one they would break on the day")
		}
		return testInstant
	}
	text, ok := n.ReadString(r.errs, "at")
	if !ok {
		return testInstant
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	r.errs.Add(n, "at must be a time such as 2026-01-31T09:00:00Z (RFC 3339), this is %q", text)
	return testInstant
}

// value converts an object of a test to the value that a request would have. It
// returns nil if there is none.
func (r *testRun) value(n *document.Node, what string) *fastjson.Value {
	if n.IsNull() {
		return nil
	}
	if n.Shape != document.Mapping {
		r.errs.Add(n, "%s must be a mapping, this is %s", what, n.Shape)
		return nil
	}
	raw := n.AppendJSON(nil, r.errs)
	v, err := fastjson.ParseBytes(raw)
	if err != nil {
		r.errs.Add(n, "%s: %v", what, err)
	}
	return v
}

// testPrompt runs a prompt's tests.
func (l *loader) testPrompt(d *doc, errs *document.Errors) {
	p := l.snapshot.Prompts[d.key]
	r := &testRun{
		model: l.snapshot.Model, table: p.table, errs: errs, count: &l.tests, stopped: l.stopped,
		known: []string{"name", "context", uncheckedContext, "at", "variables", "variant", "value", "rule"},
	}
	r.check = func(test *document.Node, dec rules.Decision) {
		v := p.Variant(dec)
		r.checkVariant(test, v.Key, dec)
		if n := test.Get("variables"); n != nil {
			var values prompt.Values
			err := p.Bind(v, r.value(n, "variables"), &r.binding, &values)
			if err == nil {
				_, err = v.AppendJSON(nil, &values)
			}
			if err != nil {
				errs.Add(n, "test failed: %v", err)
			}
		}
	}
	r.run(d.node)
}

// checkVariant compares the variant that a test expects.
func (r *testRun) checkVariant(test *document.Node, got string, d rules.Decision) {
	asked := test.Get("rule") != nil || test.Get("variables") != nil
	for _, name := range []string{"variant", "value"} {
		n := test.Get(name)
		if n == nil {
			continue
		}
		asked = true
		if want, ok := n.ReadString(r.errs, name); ok && want != got {
			r.errs.Add(n, "test failed: expected the variant %q, got %q (%s)", want, got, r.rowID(d))
		}
	}
	if !asked && !r.misspelt {
		r.errs.Add(test, "the test expects nothing: add variant or rule")
	}
}

// testEndpoint runs the tests of an endpoint's own table. That of its prompt has
// tests of its own.
func (l *loader) testEndpoint(d *doc, errs *document.Errors) {
	e := l.snapshot.Endpoints[d.key]
	r := &testRun{
		model: l.snapshot.Model, table: e.table, errs: errs, count: &l.tests, stopped: l.stopped,
		known: []string{"name", "context", uncheckedContext, "at", "variant", "value", "rule"},
	}
	r.check = func(test *document.Node, dec rules.Decision) { r.checkVariant(test, e.Policy(dec).Key, dec) }
	r.run(d.node)
}

// testRemoteConfig runs a remote configuration's tests.
func (l *loader) testRemoteConfig(d *doc, errs *document.Errors) {
	c := l.snapshot.RemoteConfigs[d.key]
	r := &testRun{
		model: l.snapshot.Model, table: c.table, errs: errs, count: &l.tests, stopped: l.stopped,
		known: []string{"name", "context", uncheckedContext, "at", "value", "rule"},
	}
	r.check = func(test *document.Node, dec rules.Decision) {
		n := test.Get("value")
		if n == nil {
			if test.Get("rule") == nil && !r.misspelt {
				errs.Add(test, "the test expects nothing: add value or rule")
			}
			return
		}
		reader := valueReader{typ: c.typ}
		want := reader.read(n, "value", errs)
		if got := c.Value(dec); want != nil && !sameJSON(want, got) {
			errs.Add(n, "test failed: expected %s, got %s (%s)", clip(want), clip(got), r.rowID(dec))
		}
	}
	r.run(d.node)
}

// sameJSON reports whether two texts are the same JSON value: 1.0 is 1.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// clip shortens a value for a message.
func clip(raw []byte) string {
	const most = 200
	if len(raw) <= most {
		return string(raw)
	}
	return fmt.Sprintf("%.*s…", most, raw)
}
