package rules

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// The ceilings of computed fields, in the units of CEL's cost model: about one
// per operation, and one for ten bytes of text that it copies or compares.
const (
	// maxCost bounds one expression.
	maxCost = 100_000
	// maxRequestCost bounds the cost of all expressions of a request together:
	// once it is reached, no further expression is evaluated.
	maxRequestCost = 2 * maxCost
	// maxFixedCost is the greatest cost that is not counted: an expression
	// that takes at most this, for any context, is taken to take all of it.
	// Counting takes longer than most expressions do.
	maxFixedCost = 1000
	// largestValue is a size that no text or list of a request can exceed.
	largestValue = 64 << 20
)

// measuredText is how many characters of text the functions below read for one
// unit. CEL's model takes each of their calls for one unit whatever the text.
const measuredText = 100

var readingText = []string{
	overloads.SizeString, overloads.SizeStringInst, overloads.StringToInt, overloads.StringToUint,
	overloads.StringToDouble, overloads.StringToTimestamp, overloads.StringToDuration,
}

// celCosts returns the options of a program whose cost is counted.
func celCosts() []cel.ProgramOption {
	track := func(args []ref.Val, _ ref.Val) *uint64 {
		n := uint64(1)
		if s, ok := args[0].(types.String); ok {
			n += uint64(len(s)) / measuredText
		}
		return &n
	}
	trackers := make([]interpreter.CostTrackerOption, len(readingText))
	for i, id := range readingText {
		trackers[i] = interpreter.OverloadCostTracker(id, track)
	}
	return []cel.ProgramOption{cel.CostLimit(maxCost), cel.CostTrackerOptions(trackers...)}
}

// estimateCost returns an upper bound of an expression's cost. sizes returns the
// greatest size of a field's text or list; its name is empty for other values of
// unknown size.
func estimateCost(env *cel.Env, checked *cel.Ast, sizes func(name string) uint64) (checker.CostEstimate, error) {
	e := costEstimator{sizes}
	read := func(estimator checker.CostEstimator, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
		if target == nil {
			target = &args[0]
		}
		size := (*target).ComputedSize()
		if size == nil {
			size = estimator.EstimateSize(*target)
		}
		n := uint64(largestValue)
		if size != nil {
			n = size.Max
		}
		return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Min: 1, Max: cost.SafeAdd(1, n/measuredText)}}
	}
	options := make([]checker.CostOption, len(readingText))
	for i, id := range readingText {
		options[i] = checker.OverloadCostEstimate(id, read)
	}
	return env.EstimateCost(checked, e, options...)
}

// costEstimator knows the sizes of fields.
type costEstimator struct{ sizes func(name string) uint64 }

// EstimateSize returns the size of a value that an expression reads.
func (e costEstimator) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	name := ""
	if path := n.Path(); len(path) > 0 {
		name = path[0]
	}
	return &checker.SizeEstimate{Max: e.sizes(name)}
}

// EstimateCallCost leaves calls to CEL's own model.
func (costEstimator) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// costOf returns two upper bounds of an expression's cost: small if every text
// and list of the context has a single character or element, and fixed for any
// context, or 0 if that exceeds maxFixedCost.
func (m *Model) costOf(env *cel.Env, checked *cel.Ast) (small, fixed uint64, err error) {
	const few = 10 // as the text of a number has
	low, err := estimateCost(env, checked, func(name string) uint64 {
		if slot, ok := m.slots[name]; ok && int(slot) >= m.declared {
			return max(m.fields[slot].grown, few)
		} else if !ok {
			return few
		}
		return 1
	})
	if err != nil {
		return 0, 0, err
	}
	high, err := estimateCost(env, checked, func(string) uint64 { return largestValue })
	if err != nil {
		return 0, 0, err
	}
	if high.Max <= maxFixedCost {
		fixed = max(high.Max, 1)
	}
	return low.Max, fixed, nil
}
