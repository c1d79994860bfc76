package bench

import (
	"testing"

	"github.com/launchdarkly/go-sdk-common/v3/ldcontext"
	"github.com/launchdarkly/go-sdk-common/v3/ldvalue"
	evaluation "github.com/launchdarkly/go-server-sdk-evaluation/v3"
	"github.com/launchdarkly/go-server-sdk-evaluation/v3/ldbuilders"
	"github.com/launchdarkly/go-server-sdk-evaluation/v3/ldmodel"
)

// launchDarkly is the table as their SDK holds it: a flag with a rule per row,
// preprocessed by its builder as it is when a server SDK receives it.
type launchDarkly struct {
	evaluator evaluation.Evaluator
	flag      ldmodel.FeatureFlag
}

// noReferences is their source of prerequisites and segments, of which the
// table has none.
type noReferences struct{}

func (noReferences) GetFeatureFlag(string) *ldmodel.FeatureFlag { return nil }
func (noReferences) GetSegment(string) *ldmodel.Segment         { return nil }

func newLaunchDarkly(w *workload) *launchDarkly {
	variations := make([]ldvalue.Value, 0, len(w.rules)+1)
	flag := ldbuilders.NewFlagBuilder("limits").On(true)
	for row := range w.rules {
		r := &w.rules[row]
		var clauses []ldmodel.Clause
		// Values have the types that requests send, so that each clause has
		// the operator and form that their evaluator is fastest with.
		clause := func(attribute string, op ldmodel.Operator, values ...ldvalue.Value) {
			clauses = append(clauses, ldbuilders.Clause(attribute, op, values...))
		}
		if r.environment != "" {
			clause("environment", ldmodel.OperatorIn, ldvalue.String(r.environment))
		}
		if r.locales != nil {
			values := make([]ldvalue.Value, len(r.locales))
			for i, locale := range r.locales {
				values[i] = ldvalue.String(locale)
			}
			clause("locale", ldmodel.OperatorIn, values...)
		}
		if r.plan != "" {
			clause("plan", ldmodel.OperatorIn, ldvalue.String(r.plan))
		}
		if r.seats != nil {
			clause("seats", ldmodel.OperatorGreaterThanOrEqual, ldvalue.Int(r.seats.low))
			clause("seats", ldmodel.OperatorLessThan, ldvalue.Int(r.seats.high))
		}
		if r.beta != nil {
			clause("beta", ldmodel.OperatorIn, ldvalue.Bool(*r.beta))
		}
		flag.AddRule(ldbuilders.NewRuleBuilder().Variation(row).Clauses(clauses...))
		variations = append(variations, ldvalue.Parse([]byte(value(row))))
	}
	flag.Variations(append(variations, ldvalue.Parse([]byte(value(-1))))...)
	flag.FallthroughVariation(len(w.rules))
	return &launchDarkly{evaluator: evaluation.NewEvaluator(noReferences{}), flag: flag.Build()}
}

// launchDarklyJSON is a context in their JSON form.
func launchDarklyJSON(q request) []byte { return contextJSON(q, `"kind":"user","key":"u",`) }

// bind is the work that their SDK leaves to its caller, once per request.
func (l *launchDarkly) bind(tb testing.TB, q request) ldcontext.Context {
	tb.Helper()
	return parseLaunchDarkly(tb, launchDarklyJSON(q))
}

func parseLaunchDarkly(tb testing.TB, data []byte) ldcontext.Context {
	var c ldcontext.Context
	if err := c.UnmarshalJSON(data); err != nil {
		tb.Fatal(err)
	}
	return c
}

// evaluate is the work done per flag.
func (l *launchDarkly) evaluate(c ldcontext.Context) ldvalue.Value {
	return l.evaluator.Evaluate(&l.flag, c, nil).Detail.Value
}
