package upstream

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Claude is what a model of Anthropic's takes. Its zero value is a model that neither
// thinks nor takes sampling parameters.
type Claude struct {
	// Sampling reports that it takes temperature, top_p and top_k. Claude models from
	// version 4.7 on answer any value but the default with a 400, and a fallback
	// takes over the parameters of the target before it.
	Sampling bool
	// Adaptive reports that it thinks as much as it finds right, Budget that it takes
	// a budget of tokens for its thoughts.
	Adaptive, Budget bool
	// Off is the type of thinking that has none; empty: it always thinks, or unless
	// it is asked never.
	Off string
	// Bound reports that it refuses thoughts where what was said before them has changed.
	Bound bool
	// Unforced reports that it refuses a choice that has it call a tool.
	Unforced bool
	// Efforts are the words of output_config.effort that it takes.
	Efforts []string
	// Other reports that the name is not of Claude's pattern: it belongs to another
	// service, of which nothing is known.
	Other bool
}

// The words of output_config.effort: max came with the models of 4.6, xhigh with 4.7.
var (
	effortsTo45 = []string{"low", "medium", "high"}
	effortsTo46 = []string{"low", "medium", "high", "max"}
	allEfforts  = []string{"low", "medium", "high", "xhigh", "max"}
)

// claudes are the models that differ in their thoughts, by family and least version: the
// first row that fits a model is its own. An empty family is any.
//
// The sources are Anthropic's pages on thinking, on effort, and on what is new in
// each model (https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking).
var claudes = []struct {
	family       string
	major, minor int
	Claude
}{
	{"sonnet", 5, 5, Claude{Adaptive: true, Off: "between_tools", Bound: true, Unforced: true, Efforts: allEfforts}},
	{"opus", 5, 5, Claude{Adaptive: true, Bound: true, Unforced: true, Efforts: allEfforts}},
	{"fable", 5, 1, Claude{Adaptive: true, Bound: true, Unforced: true, Efforts: allEfforts}},
	{"mythos", 5, 1, Claude{Adaptive: true, Bound: true, Efforts: allEfforts}},
	{"haiku", 5, 5, Claude{Adaptive: true, Off: "disabled", Bound: true, Efforts: allEfforts}},
	{"fable", 0, 0, Claude{Adaptive: true, Efforts: allEfforts}},
	{"mythos", 0, 0, Claude{Adaptive: true, Efforts: allEfforts}},
	{"", 4, 7, Claude{Adaptive: true, Off: "disabled", Efforts: allEfforts}},
	{"opus", 4, 6, Claude{Adaptive: true, Budget: true, Off: "disabled", Efforts: effortsTo46, Sampling: true}},
	{"sonnet", 4, 6, Claude{Adaptive: true, Budget: true, Off: "disabled", Efforts: effortsTo46, Sampling: true}},
	{"opus", 4, 5, Claude{Budget: true, Off: "disabled", Efforts: effortsTo45, Sampling: true}},
	{"", 4, 0, Claude{Budget: true, Sampling: true}},
}

// noVersion is the one model whose name has no version.
const noVersion = "claude-mythos-preview"

// generation matches the names of Claude models since version 4, with a minor version of
// one or two digits if there is one: the next digits may also be a date. The 3 series put
// the version first and the family after it.
var generation = regexp.MustCompile(`claude-([a-z]+)-(\d{1,2})(?:-(\d{1,2}))?(?:$|[^0-9])`)

// ClaudeOf returns what the model with the name takes.
func ClaudeOf(model string) Claude {
	m := generation.FindStringSubmatch(model)
	switch {
	case m != nil:
	case model == noVersion:
		return Claude{Adaptive: true, Efforts: effortsTo46}
	default:
		return Claude{Sampling: true, Budget: strings.Contains(model, "claude-3-7-"), Other: !strings.Contains(model, "claude-3-")}
	}
	major, _ := strconv.Atoi(m[2])
	minor, _ := strconv.Atoi(m[3])
	for i := range claudes {
		if c := &claudes[i]; (c.family == "" || c.family == m[1]) && (major > c.major || major == c.major && minor >= c.minor) {
			return c.Claude
		}
	}
	return Claude{Sampling: true}
}

// effort returns an effort in the model's words; empty: it has none.
func (c *Claude) effort(word string) string {
	switch {
	case word == "" || word == "none" || c.Efforts == nil:
		return ""
	case word == "minimal":
		return "low"
	case !slices.Contains(c.Efforts, word):
		return "high"
	}
	return word
}

// ClaudeThinking is the member thinking of Anthropic's API.
type ClaudeThinking struct {
	Type    string `json:"type"`
	Budget  int64  `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
}

// The types of ClaudeThinking that think.
const (
	adaptive = "adaptive"
	enabled  = "enabled"
)

// Thinks reports whether the model is to think.
func (t *ClaudeThinking) Thinks() bool { return t != nil && (t.Type == adaptive || t.Type == enabled) }

// leastThought is the least budget that the API takes, in tokens.
const leastThought = 1024

// budgets are the tokens of thoughts by effort, for models that take no effort.
var budgets = map[string]int64{"minimal": leastThought, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 32768}

// budgetWithin returns how many tokens the model may think of the most that its answer may have
// with its thoughts; 0: it can't think in so few.
//
//	asked 8192, of 20000: 8192
//	asked 8192, of  8192: 4096, so that as much is left for the answer
//	asked 8192, of  2000:    0
func budgetWithin(asked, most int64) int64 {
	asked = max(asked, leastThought)
	if asked >= most {
		asked = most / 2
	}
	if asked < leastThought {
		return 0
	}
	return asked
}

// Think returns the members thinking and output_config.effort for parameters, and the
// names of those that have no effect. most are the tokens that an answer may have.
// With an effort the model thinks, too, unless the effort is none. It can't where a tool
// has to be called.
func (c *Claude) Think(p *providers.Parameters, most int64) (t *ClaudeThinking, effort string, leftOut []string) {
	asked, word := p.Thoughts(), p.ReasoningEffort
	effort = c.effort(word)
	switch {
	case word == "none":
		if c.Off != "" {
			t = &ClaudeThinking{Type: c.Off}
		} else if c.Adaptive {
			leftOut = append(leftOut, "reasoning_effort")
		}
	case word == "" && !asked.On, calls(p):
	case c.Adaptive && (asked.Budget == 0 || !c.Budget), c.Other && asked.On && asked.Budget == 0:
		t = &ClaudeThinking{Type: adaptive, Display: asked.Display}
	case c.Budget, c.Other && asked.On:
		tokens := asked.Budget
		if tokens == 0 && word != "" {
			tokens = budgets[word]
		} else if tokens == 0 {
			tokens = budgets["medium"]
		}
		if tokens = budgetWithin(tokens, most); tokens > 0 {
			t = &ClaudeThinking{Type: enabled, Budget: tokens, Display: asked.Display}
		}
	}
	if p.Thinking != nil && !t.Thinks() {
		leftOut = append(leftOut, "thinking")
	}
	if word != "" && word != "none" && effort == "" && t == nil {
		leftOut = append(leftOut, "reasoning_effort")
	}
	return t, effort, leftOut
}

// Samples returns the parameters of sampling that a request may have. While the model
// thinks the API takes a temperature of 1 alone, a top_p from 0.95 on, and no top_k.
func (c *Claude) Samples(p *providers.Parameters, thinks bool) (names []string) {
	for name, takes := range map[string]bool{
		"temperature": !thinks || p.Temperature != nil && *p.Temperature == 1,
		"top_p":       !thinks || p.TopP != nil && *p.TopP >= 0.95,
		"top_k":       !thinks,
	} {
		if c.Sampling && takes {
			names = append(names, name)
		}
	}
	return names
}

// calls reports whether the model has to call a tool.
func calls(p *providers.Parameters) bool {
	return len(p.Tools) > 0 && p.ToolChoice != nil && (p.ToolChoice.Mode == providers.ToolsRequired || p.ToolChoice.Mode == providers.ToolsNamed)
}

// Unforced returns a request whose choice of tools the model takes, and what it lost: where
// the model may not be forced to call one, it decides.
func Unforced(req *providers.Request) (*providers.Request, []string) {
	if !calls(&req.Parameters) || !ClaudeOf(req.Model).Unforced {
		return req, nil
	}
	free := *req
	free.Parameters.ToolChoice = &providers.ToolChoice{Mode: providers.ToolsAuto}
	return &free, []string{"tool_choice"}
}

// Thoughtless returns a request without thinking, and the parameters that it lost, where
// the model would refuse the conversation with it: one that thinks within a budget has to
// begin the turn with its thoughts whose calls were answered last, and continues no turn.
// Any other request is returned as it is.
func Thoughtless(req *providers.Request) (*providers.Request, []string) {
	p := &req.Parameters
	if p.ReasoningEffort == "" && p.Thinking == nil || thoughtFirst(req.Messages) {
		return req, nil
	}
	c := ClaudeOf(req.Model)
	if t, _, _ := c.Think(p, leastThought*4); t == nil || t.Type != enabled {
		return req, nil
	}
	var lost []string
	if p.Thinking != nil {
		lost = append(lost, "thinking")
	}
	if p.ReasoningEffort != "" && c.Efforts == nil {
		lost = append(lost, "reasoning_effort")
	}
	plain := *req
	plain.Prepared, plain.Parameters.Thinking = nil, nil
	if plain.Parameters.ReasoningEffort != "" && c.Efforts == nil {
		plain.Parameters.ReasoningEffort = ""
	}
	return &plain, lost
}

// thoughtFirst reports whether a model that thinks may go on with a conversation: it ends
// with the user's words, or with results of calls before which the model has thought.
func thoughtFirst(messages []providers.Message) bool {
	asked, results := false, false
	for i := range slices.Backward(messages) {
		switch m := &messages[i]; m.Role {
		case "user":
			asked = true
		case "tool":
			results = true
		case "assistant":
			if !results {
				return asked
			}
			return slices.ContainsFunc(m.Parts, func(p providers.Part) bool { return p.Kind == providers.PartThinking && p.Opaque != "" })
		}
	}
	return true
}
