package providers

// Thinking is what a caller asks of the model's thoughts beside an effort.
type Thinking struct {
	// On asks the model to think. Without an effort or a budget it decides how much.
	On bool
	// Budget is the most tokens that it may think, as some models want it; 0: none.
	Budget int64
	// Display is how the answer has the thoughts, DisplaySummarized or DisplayOmitted;
	// empty: as the model does it.
	Display string
}

// The values of Thinking.Display.
const (
	DisplaySummarized = "summarized" // as the provider sums them up
	DisplayOmitted    = "omitted"    // their opaque data alone
)

// Effort returns the effort that comes closest to the budget; empty without one.
func (t *Thinking) Effort() string {
	switch {
	case t == nil || t.Budget == 0:
		return ""
	case t.Budget < 4096:
		return "low"
	case t.Budget < 16384:
		return "medium"
	}
	return "high"
}

// Thoughts returns what the parameters ask of thoughts, and never nil.
func (p *Parameters) Thoughts() Thinking {
	if p.Thinking == nil {
		return Thinking{}
	}
	return *p.Thinking
}
