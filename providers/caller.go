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

// Caller is what a caller may bring that only some providers have, beside the parameters
// that definitions may set.
type Caller struct {
	// Marks reports that tools or parts of messages have Cache set. A provider that
	// caches by itself needs no marks; any other one that does not take them leaves out
	// cache_control.
	Marks bool
	// CacheKey and CacheRetention are OpenAI's prompt_cache_key, by which similar requests
	// find one another's cache, and prompt_cache_retention.
	CacheKey, CacheRetention string
	// User is the caller's own user, as OpenAI's safety_identifier.
	User string
	// Tier is the class of service: auto, default, flex or priority.
	Tier string
	// Betas are the previews of Anthropic's API that the caller asks for.
	Betas []string
	// Attribution is the first text of a caller's system messages that tells Anthropic
	// which agent asks. It differs with each request, so that others who get it have
	// nothing in their caches that begins alike.
	Attribution string
	// Search has the provider search the web. Searched is the API whose JSON parts of the
	// messages have in Raw; empty: none has.
	Search   *WebSearch
	Searched string
}

// FromCaller returns what the parameters have of a caller alone; zero if that is nothing.
func (p *Parameters) FromCaller() Caller {
	if p.Caller == nil {
		return Caller{}
	}
	return *p.Caller
}

// Thoughts returns what the parameters ask of thoughts, and never nil.
func (p *Parameters) Thoughts() Thinking {
	if p.Thinking == nil {
		return Thinking{}
	}
	return *p.Thinking
}
