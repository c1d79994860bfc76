package definition

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/providers"
)

// Accept describes the members that callers of an endpoint may set in addition to its
// variables. Its zero value accepts nothing. It is immutable and safe for concurrent
// use.
type Accept struct {
	// History accepts the caller's messages, and Tools its tools and tool_choice.
	History, Tools bool
	// System accepts system and developer messages among them.
	System bool
	// Variants permits callers to name a variant of the prompt, as KEY@VARIANT.
	Variants bool
	// RefuseUnknown refuses members that the gateway does not know. They are ignored
	// otherwise.
	RefuseUnknown bool
	// RefuseHosted refuses tools that the service of an API runs itself. They are ignored
	// otherwise.
	RefuseHosted bool
	// WebSearch accepts the tool by which OpenAI and Anthropic search the web.
	WebSearch bool
	// Betas are the previews of Anthropic's API that callers may ask for.
	Betas []string
	// MaxBodySize bounds a request's body in bytes; 0: see BodyLimit.
	MaxBodySize int64

	parameters map[string]ceiling // by their names in definitions
}

// The sizes of the bodies that an endpoint takes, in bytes.
const (
	// DefaultMaxBody is the least that an endpoint takes that accepts history and says
	// no other.
	DefaultMaxBody  = 8 << 20
	maxAcceptedBody = 64 << 20
)

// BodyLimit returns how many bytes a request's body may have, where the workspace has a
// limit of its own for all others.
func (a *Accept) BodyLimit(workspace int64) int64 {
	switch {
	case a.MaxBodySize > 0:
		return a.MaxBodySize
	case a.History:
		return max(workspace, DefaultMaxBody)
	}
	return workspace
}

// acceptMembers are the members of accept.
var acceptMembers = []string{"history", "tools", "system", "variants", "parameters", "unknown", "betas", "max_body_size"}

// acceptable is a parameter that callers may set.
type acceptable struct {
	name, other string // its spellings
	// A number has the bounds lo and hi; whole is one without a fraction.
	lo, hi float64
	whole  bool
	number func(p *providers.Parameters) (value float64, set bool)
	// words are the values of a parameter that is one of a few words.
	words []string
	word  func(p *providers.Parameters) string
}

// acceptables are the parameters that callers may set. Their bounds are those of
// decodeParameters.
var acceptables = []acceptable{
	{name: "temperature", hi: 2, number: func(p *providers.Parameters) (float64, bool) { return numberOf(p.Temperature) }},
	{name: "max_tokens", other: "maxTokens", lo: 1, hi: 100_000_000, whole: true, number: func(p *providers.Parameters) (float64, bool) { return numberOf(p.MaxTokens) }},
	{name: "top_p", other: "topP", hi: 1, number: func(p *providers.Parameters) (float64, bool) { return numberOf(p.TopP) }},
	{name: "top_k", other: "topK", hi: 1_000_000, whole: true, number: func(p *providers.Parameters) (float64, bool) { return numberOf(p.TopK) }},
	{name: "frequency_penalty", other: "frequencyPenalty", lo: -2, hi: 2, number: func(p *providers.Parameters) (float64, bool) { return numberOf(p.FrequencyPenalty) }},
	{name: "presence_penalty", other: "presencePenalty", lo: -2, hi: 2, number: func(p *providers.Parameters) (float64, bool) { return numberOf(p.PresencePenalty) }},
	{name: "seed", hi: maxSeed, whole: true, number: func(p *providers.Parameters) (float64, bool) { return numberOf(p.Seed) }},
	{name: "logprobs", hi: 20, whole: true, number: func(p *providers.Parameters) (float64, bool) { return numberOf(p.Logprobs) }},
	{name: reasoningEffort, other: "reasoningEffort", words: efforts, word: func(p *providers.Parameters) string { return p.ReasoningEffort }},
	{name: "response_format", other: "responseFormat", words: []string{providers.FormatText, providers.FormatJSON, providers.FormatSchema}, word: formatOf},
	{name: "service_tier", other: "serviceTier", words: []string{"auto", "default", "flex", "priority"}, word: func(p *providers.Parameters) string { return p.FromCaller().Tier }},
	{name: "stop"},
	{name: "parallel_tool_calls", other: "parallelToolCalls"},
}

func numberOf[N int64 | float64](v *N) (float64, bool) {
	if v == nil {
		return 0, false
	}
	return float64(*v), true
}

func formatOf(p *providers.Parameters) string {
	if p.ResponseFormat == nil {
		return ""
	}
	return p.ResponseFormat.Type
}

// findAcceptable returns the parameter with the name, in one of its spellings.
func findAcceptable(name string) *acceptable {
	for i := range acceptables {
		if a := &acceptables[i]; a.name == name || a.other == name && name != "" {
			return a
		}
	}
	return nil
}

// ceiling is the values of a parameter that an endpoint accepts.
type ceiling struct {
	of     *acceptable
	lo, hi float64
	below  bool     // hi itself is not accepted
	words  []string // of a parameter that has words
	any    bool     // the definition says no more than true
}

// NotAccepted returns the end of a sentence about a member that an endpoint does not
// accept, with the member of accept that accepts it.
func NotAccepted(member string) string {
	return "is not accepted by this endpoint, unless its definition says accept: { " + member + " }"
}

// Check returns why the endpoint does not accept the parameters that a caller has
// set in p for the parameter with the name, as the end of a sentence; "": it does.
// The names are tools, tool_choice, and those of parameters in definitions.
func (a *Accept) Check(name string, p *providers.Parameters) (problem string) {
	switch name {
	case "tools", "tool_choice":
		if !a.Tools {
			return NotAccepted("tools: true")
		}
		return "" // each API has a limit of their number
	}
	switch name {
	case "prompt_cache_key", "prompt_cache_retention": // change neither the answer nor its price
		return ""
	case "betas", "web_search", "max_uses", "user_location", "search_context_size": // only accepted ones are given
		return ""
	}
	if name == "attribution" {
		if !a.System {
			return NotAccepted("system: true")
		}
		return ""
	}
	if name == "thinking" {
		if c, ok := a.parameters[reasoningEffort]; ok {
			return c.checkWord(p.Thinking.Effort())
		}
		name = reasoningEffort
	}
	c, ok := a.parameters[name]
	if !ok {
		return NotAccepted("parameters: [" + name + "]")
	}
	if name == "stop" && len(p.Stop) > maxStop {
		return fmt.Sprintf("has %d texts, but at most %d are possible", len(p.Stop), maxStop)
	}
	return c.check(p)
}

// Optional reports whether a parameter that the endpoint does not accept may be left out,
// as agents send it to every endpoint: that the model thinks, without saying how much, and
// a class of service that is the usual one.
func (a *Accept) Optional(name string, p *providers.Parameters) bool {
	if name == "service_tier" {
		_, accepts := a.parameters[name]
		tier := p.FromCaller().Tier
		return !accepts && (tier == "auto" || tier == "default")
	}
	_, accepts := a.parameters[reasoningEffort]
	return name == "thinking" && !accepts
}

// reasoningEffort is the parameter that bounds how much a model may think.
const reasoningEffort = "reasoning_effort"

// check returns why the value in p is not accepted; "": it is, or there is none.
func (c *ceiling) check(p *providers.Parameters) string {
	if c.of.word != nil {
		return c.checkWord(c.of.word(p))
	}
	if c.of.number != nil {
		if v, set := c.of.number(p); set {
			return c.checkNumber(v)
		}
	}
	return ""
}

func (c *ceiling) checkNumber(v float64) string {
	switch {
	case v < c.of.lo || v > c.of.hi:
		return fmt.Sprintf("is %s, but must be from %s to %s", digits(v), digits(c.of.lo), digits(c.of.hi))
	case v < c.lo:
		return fmt.Sprintf("is %s, but this endpoint accepts at least %s", digits(v), digits(c.lo))
	case c.below && v >= c.hi:
		return fmt.Sprintf("is %s, but this endpoint accepts less than %s", digits(v), digits(c.hi))
	case v > c.hi:
		return fmt.Sprintf("is %s, but this endpoint accepts at most %s", digits(v), digits(c.hi))
	}
	return ""
}

func (c *ceiling) checkWord(word string) string {
	switch {
	case word == "" || slices.Contains(c.words, word):
		return ""
	case !slices.Contains(c.of.words, word):
		return "must be one of " + strings.Join(c.of.words, ", ")
	}
	return "is " + word + ", but this endpoint accepts " + strings.Join(c.words, ", ")
}

// digits returns a number as it is written in definitions.
func digits(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// decodeAccept reads what callers of the endpoint may bring.
func (e *Endpoint) decodeAccept(n *document.Node, errs *document.Errors) {
	if n.IsNull() || !n.CheckMapping(errs, "accept", "{ history: true, parameters: [max_tokens] }") || !n.CheckMembers(errs, "accept", acceptMembers...) {
		return
	}
	a := &e.Accept
	for name, into := range map[string]*bool{"history": &a.History, "system": &a.System, "variants": &a.Variants} {
		if m := n.Get(name); m != nil {
			*into, _ = m.ReadBool(errs, name)
		}
	}
	if m := n.Get("tools"); m != nil {
		a.decodeTools(m, errs)
	}
	if a.System && !a.History {
		errs.Add(n.Get("system"), "system is about the caller's messages, which are not accepted: add history: true")
	}
	if m := n.Get("parameters"); m != nil {
		a.parameters = decodeCeilings(m, errs)
	}
	if m := n.Get("unknown"); m != nil {
		a.RefuseUnknown = refuses(m, "unknown", errs)
	}
	if m := n.Get("betas"); m != nil {
		a.Betas = decodeBetas(m, errs)
	}
	if m := n.Get("max_body_size"); m != nil {
		a.MaxBodySize, _ = readSize(m, "max_body_size", maxAcceptedBody, errs)
	}
}

// hosted are the tools of a service that definitions can accept.
var hosted = []string{"web_search"}

// decodeTools reads which tools callers may bring: true, { hosted: refuse } or
// { hosted: [web_search] }.
func (a *Accept) decodeTools(n *document.Node, errs *document.Errors) {
	if n.Shape != document.Mapping {
		a.Tools, _ = n.ReadBool(errs, "tools")
		return
	}
	a.Tools = n.CheckMembers(errs, "tools", "hosted")
	m := n.Get("hosted")
	switch {
	case m == nil:
	case m.Shape != document.Sequence:
		a.RefuseHosted = refuses(m, "hosted", errs)
	case len(m.Items) == 0:
		errs.Add(m, "hosted is an empty list: write hosted: ignore, or name the tools that callers may use: %s", strings.Join(hosted, ", "))
	default:
		for _, item := range m.Items {
			_, known := item.ReadWord(errs, "a tool of hosted", hosted...)
			a.WebSearch = a.WebSearch || known
		}
	}
}

// refuses reads whether a thing that has no effect is refused, or ignored.
func refuses(n *document.Node, what string, errs *document.Errors) bool {
	word, _ := n.ReadWord(errs, what, "ignore", "refuse")
	return word == "refuse"
}

// maxBetas bounds the previews of an endpoint.
const maxBetas = 100

// decodeBetas reads the names of previews, which a header lists.
func decodeBetas(n *document.Node, errs *document.Errors) (betas []string) {
	if n.Shape != document.Sequence || len(n.Items) > maxBetas {
		errs.Add(n, "betas must be a list of at most %d names such as [context-1m-2025-08-07], this is %s", maxBetas, n.Describe())
		return nil
	}
	for _, item := range n.Items {
		name, ok := item.ReadString(errs, "a name of betas")
		switch {
		case !ok:
		case name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }):
			errs.Add(item, "a name of betas must be of visible ASCII without spaces and commas, this is %s", item.Describe())
		case !slices.Contains(betas, name):
			betas = append(betas, name)
		}
	}
	return betas
}

// checkHistory checks that the caller's messages have a place in each variant where the
// endpoint accepts them, and that no variant consists of them if it does not.
func (e *Endpoint) checkHistory(accept, at *document.Node, errs *document.Errors) {
	if e.Prompt == nil {
		return
	}
	for _, v := range e.Prompt.variants {
		switch {
		case v.origin.broken:
		case e.Accept.History && !v.takesHistory:
			errs.Report("history", accept.Get("history").Pos, "the variant %s of the prompt %s (%s) has no place for the caller's messages: add - { history: true } to its messages", v.Key, e.Prompt.Key, v.origin.pos)
		case !e.Accept.History && v.takesHistory && len(v.messages) == 1:
			errs.Report("history", at.Pos, "the variant %s of the prompt %s (%s) has no messages but the caller's, which this endpoint does not accept: add accept: { history: true }", v.Key, e.Prompt.Key, v.origin.pos)
		}
	}
}

// worthwhileHistory is how many messages a conversation with tools takes at least: the
// question, and two calls with their results. A model that does not see its last call
// makes it again.
const worthwhileHistory = 5

// warnAccept warns of accepted members that the endpoint's prompt makes no use
// of.
func (e *Endpoint) warnAccept(l *loader, accept *document.Node) {
	if e.Prompt == nil || accept == nil {
		return
	}
	parameters := accept.Get("parameters")
	for _, v := range e.Prompt.variants {
		if v.origin.broken {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(e.Accept.parameters)) {
			c := e.Accept.parameters[name]
			if problem := c.check(&v.Parameters); problem != "" {
				l.warnAt("accept", parameters, "the %s of the variant %s of the prompt %s %s: a caller that sets it can't ask for as much as one that does not", name, v.Key, e.Prompt.Key, problem)
			}
		}
		if !e.Accept.History {
			continue
		}
		h := v.messages[slices.IndexFunc(v.messages, func(m message) bool { return m.history != nil })].history
		switch {
		case !e.Accept.Tools && len(v.Parameters.Tools) == 0:
		case h.roles != nil && !slices.Contains(h.roles, "tool"):
			l.warnAt("accept", accept.Get("history"), "the variant %s of the prompt %s leaves calls of tools and their results out of the caller's messages, so the model never learns what its calls came to: add tool to the roles of its place", v.Key, e.Prompt.Key)
		case h.maxMessages > 0 && h.maxMessages < worthwhileHistory:
			l.warnAt("accept", accept.Get("history"), "the variant %s of the prompt %s takes %d of the caller's messages: a loop of tools needs %d at least, or the model forgets its calls and makes them again", v.Key, e.Prompt.Key, h.maxMessages, worthwhileHistory)
		}
	}
}

// readSize reads a number of bytes from 1 to most, such as 64KiB.
func readSize(n *document.Node, what string, most uint64, errs *document.Errors) (int64, bool) {
	if n.Shape == document.Scalar && !n.IsNull() {
		size, err := humanize.ParseBytes(n.Text)
		if err == nil && size > 0 && size <= most && !strings.Contains(n.Text, ",") { // a comma would be left out
			return int64(size), true
		}
	}
	errs.Add(n, "%s must be a number of bytes from 1 to %s such as 500kB, 64KiB or 1.5MiB, this is %s", what, strings.ReplaceAll(humanize.IBytes(most), " ", ""), n.Describe())
	return 0, false
}

// decodeCeilings reads the parameters that callers may set: a mapping, or a list of
// names and of mappings.
//
//	[temperature, { max_tokens: ..800 }]
//	{ temperature: true, max_tokens: ..800 }
func decodeCeilings(n *document.Node, errs *document.Errors) map[string]ceiling {
	set := make(map[string]ceiling)
	add := func(key, value *document.Node) {
		of := findAcceptable(key.Text)
		if of == nil {
			reportParameter(key, errs)
			return
		}
		if _, twice := set[of.name]; twice {
			errs.Add(key, "%s is there already: give it once", of.name)
			return
		}
		if c, accepted := of.decode(value, errs); accepted {
			set[of.name] = c
		}
	}
	members := func(n *document.Node) {
		for _, m := range n.Members {
			add(m.Key, m.Value)
		}
	}
	switch n.Shape {
	case document.Mapping:
		members(n)
		return set
	case document.Sequence:
		for _, item := range n.Items {
			switch {
			case item.Shape == document.Mapping:
				members(item)
			case item.Shape == document.Scalar && !item.IsNull():
				add(item, nil)
			default:
				errs.Add(item, "a parameter must be a name, or a mapping such as { max_tokens: ..800 }, this is %s", item.Describe())
			}
		}
		return set
	}
	errs.Add(n, "parameters must be a list such as [temperature, { max_tokens: ..800 }], this is %s", n.Describe())
	return nil
}

// reportParameter reports a name that is no parameter which callers may set.
func reportParameter(key *document.Node, errs *document.Errors) {
	names := make([]string, len(acceptables))
	for i, a := range acceptables {
		names[i] = a.name
	}
	hint := " (known: " + strings.Join(names, ", ") + ")"
	switch near := document.Nearest(key.Text, names); {
	case key.Text == "tools" || key.Text == "tool_choice" || key.Text == "toolChoice":
		hint = ": write tools: true beside parameters, which accepts both"
	case slices.Contains([]string{"model", "provider", "extra", "messages"}, key.Text):
		hint = ": only definitions say it"
		if key.Text == "messages" {
			hint = ": write history: true beside parameters"
		}
	case near != "":
		hint = ": did you mean " + quoted(near) + "?"
	}
	errs.Report("unknown-member", key.Pos, "%q is no parameter that callers can set%s", key.Text, hint)
}

// decode reads the accepted values of a parameter. Nil, as true, is any value.
func (of *acceptable) decode(n *document.Node, errs *document.Errors) (c ceiling, accepted bool) {
	c = ceiling{of: of, lo: of.lo, hi: of.hi, words: of.words, any: true}
	if n == nil {
		return c, true
	}
	if n.Shape == document.Scalar && !n.Quoted && (n.Text == "true" || n.Text == "false") {
		return c, n.Text == "true"
	}
	c.any = false
	switch {
	case of.number != nil:
		return c, c.decodeRange(n, errs)
	case of.words != nil:
		return c, c.decodeWords(n, errs)
	}
	n.ReadBool(errs, of.name) // which reports its shape
	return c, false
}

// decodeRange reads a range as rules have them: ..800, 1..800, 1.. or 0..<1.
func (c *ceiling) decodeRange(n *document.Node, errs *document.Errors) bool {
	what := c.of.name
	if n.Shape != document.Scalar || !strings.Contains(n.Text, "..") {
		hint := ""
		if n.Shape == document.Scalar && n.Text != "" && strings.Trim(n.Text, "0123456789.") == "" {
			hint = fmt.Sprintf(": write ..%[1]s for at most %[1]s, %[1]s..%[1]s for nothing else", n.Text)
		}
		errs.Add(n, "what is accepted of %s must be true, or a range such as %s, this is %s%s", what, c.of.example(), n.Describe(), hint)
		return false
	}
	lo, hi, _ := strings.Cut(n.Text, "..")
	hi, c.below = strings.CutPrefix(strings.TrimSpace(hi), "<")
	lo, hi = strings.TrimSpace(lo), strings.TrimSpace(hi)
	if lo == "" && hi == "" {
		errs.Add(n, "%q is a range without ends: write true for any value", n.Text)
		return false
	}
	end := func(text string, into *float64) bool {
		if text == "" {
			return true
		}
		at := &document.Node{Shape: document.Scalar, Pos: n.Pos, Text: text}
		v, ok := at.ReadFloat(errs, what, c.of.lo, c.of.hi)
		if ok && c.of.whole && v != math.Trunc(v) {
			_, ok = at.ReadInt(errs, what, int64(c.of.lo), int64(c.of.hi))
		}
		*into = v
		return ok
	}
	if hi == "" && c.below {
		errs.Add(n, "%q has no value behind <", n.Text)
		return false
	}
	if !end(lo, &c.lo) || !end(hi, &c.hi) {
		return false
	}
	if c.lo > c.hi || c.below && c.lo == c.hi {
		errs.Add(n, "the range %s is empty", n.Text)
		return false
	}
	return true
}

// example is a range of the parameter, for messages.
func (of *acceptable) example() string {
	if of.whole {
		return "..800"
	}
	return "..1"
}

// decodeWords reads a word, or a list of words.
func (c *ceiling) decodeWords(n *document.Node, errs *document.Errors) bool {
	items := []*document.Node{n}
	if n.Shape == document.Sequence {
		items = n.Items
	}
	if len(items) == 0 {
		errs.Add(n, "what is accepted of %s must be true, or one of %s at least", c.of.name, strings.Join(c.of.words, ", "))
	}
	c.words = nil
	for _, item := range items {
		if word, ok := item.ReadWord(errs, c.of.name, c.of.words...); ok && !slices.Contains(c.words, word) {
			c.words = append(c.words, word)
		}
	}
	return len(c.words) > 0
}

// content returns the ceiling for a definition's content, in a form that decode reads.
func (c *ceiling) content() any {
	switch {
	case c.any:
		return true
	case c.of.number == nil:
		return c.words
	}
	text := ".."
	if c.lo > c.of.lo {
		text = digits(c.lo) + text
	}
	if c.below {
		text += "<"
	}
	if c.below || c.hi < c.of.hi || text == ".." {
		text += digits(c.hi)
	}
	return text
}

// JSON returns the accepted members as in a definition; nil: none.
func (a *Accept) JSON() json.RawMessage {
	if c := a.content(); c != nil {
		return canonicalJSON(c)
	}
	return nil
}

// content returns the accepted members for the endpoint's content; nil: none.
func (a *Accept) content() any {
	c := content{}
	for name, accepted := range map[string]bool{"history": a.History, "tools": a.Tools, "system": a.System, "variants": a.Variants} {
		if accepted {
			c[name] = true
		}
	}
	if a.RefuseHosted {
		c["tools"] = content{"hosted": "refuse"}
	}
	if a.WebSearch {
		c["tools"] = content{"hosted": hosted}
	}
	if len(a.parameters) > 0 {
		parameters := make(content, len(a.parameters))
		for name, ceiling := range a.parameters {
			parameters[name] = ceiling.content()
		}
		c["parameters"] = parameters
	}
	if a.RefuseUnknown {
		c["unknown"] = "refuse"
	}
	if len(a.Betas) > 0 {
		c["betas"] = a.Betas
	}
	if a.MaxBodySize > 0 {
		c["max_body_size"] = a.MaxBodySize
	}
	if len(c) == 0 {
		return nil
	}
	return c
}
