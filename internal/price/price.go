// Package price computes the cost of an answer from the shipped prices and the
// operator's own.
package price

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/cadenza-gateway/cadenza/providers"
)

const (
	perPrice = 1e6 // tokens that a price is for
	perUses  = 1e3 // uses of a tool that a price is for
	dearest  = 1e9 // the largest price, so that a cost is a finite number
)

// Price is the price of a model. Tokens have prices in US dollars per million, uses of
// the provider's own tools in US dollars per thousand. Zero is a price: nothing is
// paid.
//
// A part of the tokens without a price of its own costs the same as the whole, as Parts
// says. For example, with Prompt 3, CacheRead 0.3 and Completion 15, a prompt of 1,000
// tokens, of which 800 were read from the cache and 100 were written to it, and an
// answer of 50 tokens, of which 20 are thoughts, cost
//
//	(100*3 + 800*0.3 + 100*3 + 50*15) / 1,000,000 = 0.00159 US dollars
type Price struct {
	// All tokens of the prompt and of the answer but the ones below.
	Prompt     float64 `json:"prompt"`
	Completion float64 `json:"completion"`
	Parts
	// A thousand uses of the provider's tools. Not given: nothing.
	WebSearch     float64 `json:"web_search,omitempty"`
	FileSearch    float64 `json:"file_search,omitempty"`
	CodeExecution float64 `json:"code_execution,omitempty"`
	// Above holds the changes for long prompts, by the number of tokens that a prompt
	// must exceed. All tokens of the request change their prices, the answer's too. Of
	// several numbers that a prompt exceeds only the largest counts.
	//
	// For example, with Prompt 1.25 and Above 200,000 a Prompt of 2.5, a prompt of
	// 200,000 tokens costs 0.25 US dollars, and one of 200,001 tokens 0.5000025.
	Above map[int64]Change `json:"above,omitempty"`
	// What changes in a class of service of the provider. Not given: nothing.
	Batch    *Class `json:"batch,omitempty"`
	Flex     *Class `json:"flex,omitempty"`
	Priority *Class `json:"priority,omitempty"`
	// MaxOutput is the most tokens that the model answers with; 0: not known.
	MaxOutput int64 `json:"max_output,omitempty"`
	// Facts given with the price win over shipped ones.
	Model
}

// Parts are the prices of parts of the tokens that cost more or less than the other
// ones, in US dollars per million; nil if not given.
type Parts struct {
	// Tokens of the prompt that the provider read from its cache. Not given: as Prompt.
	CacheRead *float64 `json:"cache_read,omitempty"`
	// Tokens that it wrote to its cache, for some minutes. Not given: as Prompt.
	CacheWrite *float64 `json:"cache_write,omitempty"`
	// Tokens that it wrote to its cache for an hour. Not given: as CacheWrite.
	CacheWriteHour *float64 `json:"cache_write_hour,omitempty"`
	// Tokens of sounds in the prompt. Not given: as Prompt.
	AudioIn *float64 `json:"audio_in,omitempty"`
	// Tokens of sounds that were read from the cache. Not given: as CacheRead if that
	// is given, else as AudioIn.
	AudioCacheRead *float64 `json:"audio_cache_read,omitempty"`
	// Tokens of images in the prompt. Not given: as Prompt.
	ImageIn *float64 `json:"image_in,omitempty"`
	// Tokens of the answer that the model thought with. Not given: as Completion.
	Reasoning *float64 `json:"reasoning,omitempty"`
	// Tokens of sounds in the answer. Not given: as Completion.
	AudioOut *float64 `json:"audio_out,omitempty"`
	// Tokens of images in the answer. Not given: as Completion.
	ImageOut *float64 `json:"image_out,omitempty"`
}

// Change holds changed prices. A price that is not given stays as it was.
type Change struct {
	// Factor multiplies all prices of tokens, before the prices below are applied; nil: 1.
	Factor     *float64 `json:"factor,omitempty"`
	Prompt     *float64 `json:"prompt,omitempty"`
	Completion *float64 `json:"completion,omitempty"`
	Parts
}

// Class is the change for a class of service. It is applied after the change for a long
// prompt, and before the class's own Above. So a Factor counts for prompts of any
// length, and a price of a class for all prompts whose price its Above does not change.
type Class struct {
	Change
	Above map[int64]Change `json:"above,omitempty"`
}

// The parts of tokens that have prices.
const (
	prompt = iota
	completion
	cacheRead
	cacheWrite
	cacheWriteHour
	audioIn
	audioCacheRead
	imageIn
	reasoning
	audioOut
	imageOut
	parts // their number
)

// names are the names of prices of tokens, in files and in messages.
var names = [parts]string{
	"prompt", "completion", "cache_read", "cache_write", "cache_write_hour", "audio_in", "audio_cache_read", "image_in", "reasoning", "audio_out", "image_out",
}

// fields returns the prices of parts in the order of names, from cacheRead on.
func (p *Parts) fields() [parts - cacheRead]**float64 {
	return [...]**float64{
		&p.CacheRead, &p.CacheWrite, &p.CacheWriteHour, &p.AudioIn, &p.AudioCacheRead, &p.ImageIn, &p.Reasoning, &p.AudioOut, &p.ImageOut,
	}
}

// member returns the price of a part by its name, or nil.
func (p *Parts) member(name string) **float64 {
	if i := slices.Index(names[cacheRead:], name); i >= 0 {
		return p.fields()[i]
	}
	return nil
}

// member returns a member of a change by its name, or nil.
func (c *Change) member(name string) **float64 {
	switch name {
	case "factor":
		return &c.Factor
	case names[prompt]:
		return &c.Prompt
	case names[completion]:
		return &c.Completion
	}
	return c.Parts.member(name)
}

// rates are the prices of the parts; NaN means not given.
type rates [parts]float64

// given returns the prices that a change gives, nil for others.
func (c *Change) given() [parts]*float64 {
	return [parts]*float64{
		c.Prompt, c.Completion, c.CacheRead, c.CacheWrite, c.CacheWriteHour, c.AudioIn, c.AudioCacheRead, c.ImageIn, c.Reasoning, c.AudioOut, c.ImageOut,
	}
}

// apply changes r.
func (c *Change) apply(r *rates) {
	if c.Factor != nil {
		for i := range r {
			r[i] *= *c.Factor
		}
	}
	for i, dollars := range c.given() {
		if dollars != nil {
			r[i] = *dollars
		}
	}
}

// applyTier changes r for a prompt of so many tokens.
func applyTier(tiers map[int64]Change, tokens int64, r *rates) {
	if len(tiers) == 0 {
		return
	}
	var largest int64 // no tier is at 0
	for above := range tiers {
		if tokens > above {
			largest = max(largest, above)
		}
	}
	if largest > 0 {
		tier := tiers[largest]
		tier.apply(r)
	}
}

// classOf returns the field of a class of service by its name, or nil.
func (p *Price) classOf(tier string) **Class {
	switch tier {
	case "batch":
		return &p.Batch
	case "flex":
		return &p.Flex
	case "priority":
		return &p.Priority
	}
	return nil
}

// class returns the change for a class of service, or nil.
func (p *Price) class(tier string) *Class {
	if class := p.classOf(tier); class != nil {
		return *class
	}
	return nil
}

// rates returns the prices of all parts for a prompt of so many tokens.
func (p *Price) rates(class *Class, tokens int64) rates {
	base := Change{Prompt: &p.Prompt, Completion: &p.Completion, Parts: p.Parts}
	var r rates
	for i := range r {
		r[i] = math.NaN()
	}
	base.apply(&r)
	applyTier(p.Above, tokens, &r)
	if class != nil {
		class.apply(&r)
		applyTier(class.Above, tokens, &r)
	}
	r.inherit(audioCacheRead, cacheRead)
	r.inherit(cacheRead, prompt)
	r.inherit(cacheWrite, prompt)
	r.inherit(cacheWriteHour, cacheWrite)
	r.inherit(audioIn, prompt)
	r.inherit(audioCacheRead, audioIn)
	r.inherit(imageIn, prompt)
	for _, part := range [...]int{reasoning, audioOut, imageOut} {
		r.inherit(part, completion)
	}
	return r
}

// inherit gives a part without a price the price of another.
func (r *rates) inherit(part, source int) {
	if math.IsNaN(r[part]) {
		r[part] = r[source]
	}
}

// Cost returns the cost of an answer with the usage u, in US dollars, regardless of
// any cost that its provider reports.
//
// Each token is paid for once. If u has more tokens of a part than of the whole, the
// excess is left out. Tokens of sounds and images count as read from the cache only
// if the other tokens are fewer than the cached ones.
func (p *Price) Cost(u *providers.Usage) float64 {
	r := p.rates(p.class(u.Tier), u.PromptTokens)

	rest := max(u.PromptTokens, 0)
	hour := take(&rest, u.CacheWriteHourTokens)
	written := take(&rest, u.CacheWriteTokens)
	read := take(&rest, u.CachedTokens)
	// The tokens of media are among rest, or else among the cached ones.
	audio := take(&rest, u.PromptAudioTokens)
	image := take(&rest, u.PromptImageTokens)
	audioRead := take(&read, u.PromptAudioTokens-audio)
	dollars := r[prompt]*float64(rest) + r[cacheWriteHour]*float64(hour) + r[cacheWrite]*float64(written) + r[cacheRead]*float64(read) +
		r[audioIn]*float64(audio) + r[audioCacheRead]*float64(audioRead) + r[imageIn]*float64(image)

	rest = max(u.CompletionTokens, 0)
	thought := take(&rest, u.ReasoningTokens)
	audio = take(&rest, u.CompletionAudioTokens)
	image = take(&rest, u.CompletionImageTokens)
	dollars += r[completion]*float64(rest) + r[reasoning]*float64(thought) + r[audioOut]*float64(audio) + r[imageOut]*float64(image)

	uses := p.WebSearch*float64(max(u.WebSearches, 0)) + p.FileSearch*float64(max(u.FileSearches, 0)) + p.CodeExecution*float64(max(u.CodeExecutions, 0))
	return dollars/perPrice + uses/perUses
}

// take takes so many tokens from rest, or as many as there are, and returns how many.
func take(rest *int64, tokens int64) int64 {
	tokens = min(max(tokens, 0), *rest)
	*rest -= tokens
	return tokens
}

// MaxCostIn returns an upper bound of an answer's cost, in US dollars, for the greatest
// numbers of tokens of the prompt and of the answer, whichever parts they are of. The
// request asks for a class of service, as in providers.Usage.Tier; the provider may answer
// in the usual class all the same. The bound leaves out uses of the provider's own tools.
func (p *Price) MaxCostIn(tier string, prompt, completion int64) float64 {
	dollars := p.maxCostOf(nil, prompt, completion)
	if class := p.class(tier); class != nil {
		dollars = max(dollars, p.maxCostOf(class, prompt, completion))
	}
	return dollars
}

func (p *Price) maxCostOf(class *Class, promptTokens, completionTokens int64) float64 {
	promptTokens, completionTokens = max(promptTokens, 0), max(completionTokens, 0)
	var dollars float64
	consider := func(tokens int64) {
		r := p.rates(class, tokens)
		in := max(r[prompt], r[cacheRead], r[cacheWrite], r[cacheWriteHour], r[audioIn], r[audioCacheRead], r[imageIn])
		out := max(r[completion], r[reasoning], r[audioOut], r[imageOut])
		dollars = max(dollars, (in*float64(tokens)+out*float64(completionTokens))/perPrice)
	}
	consider(promptTokens)
	// A shorter prompt can cost more only if a tier costs less: at its end.
	for tokens := range p.Above {
		consider(min(tokens, promptTokens))
	}
	if class != nil {
		for tokens := range class.Above {
			consider(min(tokens, promptTokens))
		}
	}
	return dollars
}

// Validate refuses prices that are negative, above a billion or not a number, and a
// negative or zero length in Above.
func (p *Price) Validate() error {
	base := Change{Prompt: &p.Prompt, Completion: &p.Completion, Parts: p.Parts}
	if err := base.validate(); err != nil {
		return err
	}
	for _, use := range [...]struct {
		name    string
		dollars float64
	}{{"web_search", p.WebSearch}, {"file_search", p.FileSearch}, {"code_execution", p.CodeExecution}} {
		if !legal(use.dollars) {
			return fmt.Errorf("%s %v must be a number of US dollars per thousand uses, from 0 to 1e9", use.name, use.dollars)
		}
	}
	if err := validateTiers(p.Above); err != nil {
		return err
	}
	for _, class := range [...]struct {
		name string
		*Class
	}{{"batch", p.Batch}, {"flex", p.Flex}, {"priority", p.Priority}} {
		if class.Class == nil {
			continue
		}
		if err := class.validate(); err != nil {
			return fmt.Errorf("%s: %w", class.name, err)
		}
		if err := validateTiers(class.Above); err != nil {
			return fmt.Errorf("%s: %w", class.name, err)
		}
	}
	if p.MaxOutput < 0 {
		return fmt.Errorf("max_output %d must be a number of tokens, 0 or more", p.MaxOutput)
	}
	return p.Model.Validate()
}

func (c *Change) validate() error {
	if c.Factor != nil && !legal(*c.Factor) {
		return fmt.Errorf("factor %v must be from 0 to 1e9, such as 0.5", *c.Factor)
	}
	for i, dollars := range c.given() {
		if dollars != nil && !legal(*dollars) {
			return fmt.Errorf("%s %v must be a number of US dollars per million tokens, from 0 to 1e9", names[i], *dollars)
		}
	}
	return nil
}

func validateTiers(tiers map[int64]Change) error {
	for _, tokens := range slices.Sorted(maps.Keys(tiers)) {
		if tokens <= 0 {
			return fmt.Errorf("above %d must be a number of tokens of the prompt, 1 or more", tokens)
		}
		change := tiers[tokens]
		if err := change.validate(); err != nil {
			return fmt.Errorf("above %d: %w", tokens, err)
		}
	}
	return nil
}

func legal(n float64) bool { return n >= 0 && n <= dearest }
