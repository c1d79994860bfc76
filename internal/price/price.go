// Package price says what an answer costs: by the prices that ship with the gateway,
// and by those that its operator gives in their place.
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

// Price is what a model costs. Tokens have prices in US dollars per million, uses of
// the provider's own tools in US dollars per thousand. Zero is a price: nothing is
// paid.
//
// Where a price of a part of the tokens is not given, the part costs what the whole
// costs, as Parts says. For example, with Prompt 3, CacheRead 0.3 and Completion 15, a
// prompt of 1,000 tokens, of which 800 were read from the cache and 100 were written to
// it, and an answer of 50 tokens, of which 20 are thoughts, cost
//
//	(100*3 + 800*0.3 + 100*3 + 50*15) / 1,000,000 = 0.00159 US dollars
type Price struct {
	// All tokens of the prompt and of the answer but those below.
	Prompt     float64 `json:"prompt"`
	Completion float64 `json:"completion"`
	Parts
	// A thousand uses of the provider's tools. Not given: nothing.
	WebSearch     float64 `json:"web_search,omitempty"`
	FileSearch    float64 `json:"file_search,omitempty"`
	CodeExecution float64 `json:"code_execution,omitempty"`
	// Above has what changes for long prompts, by the number of tokens that a prompt must
	// exceed. All tokens of the request change their prices, those of the answer too. Of
	// several that a prompt exceeds the largest counts, and no other.
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
	// What is known of the model beside its price counts before what ships.
	Model
}

// Parts are the prices of those parts of the tokens that have others than the rest, in
// US dollars per million; nil where none is given.
type Parts struct {
	// Tokens of the prompt that the provider read from its cache. Not given: as Prompt.
	CacheRead *float64 `json:"cache_read,omitempty"`
	// Those that it wrote to its cache, for some minutes. Not given: as Prompt.
	CacheWrite *float64 `json:"cache_write,omitempty"`
	// Those that it wrote to its cache for an hour. Not given: as CacheWrite.
	CacheWriteHour *float64 `json:"cache_write_hour,omitempty"`
	// Tokens of sounds in the prompt. Not given: as Prompt.
	AudioIn *float64 `json:"audio_in,omitempty"`
	// Those of sounds that were read from the cache. Not given: as CacheRead where that
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

// Change is what prices change to. A price that it does not give stays as it was.
type Change struct {
	// Factor multiplies all prices of tokens, before those below count; nil: 1.
	Factor     *float64 `json:"factor,omitempty"`
	Prompt     *float64 `json:"prompt,omitempty"`
	Completion *float64 `json:"completion,omitempty"`
	Parts
}

// Class is the change for a class of service. It comes after that of a long prompt, and
// before that of its own Above. So a Factor counts for prompts of any length, and a
// price of a class for all that its Above does not change.
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

// of returns the price of a part by its name, nil where there is none of this name.
func (p *Parts) of(name string) **float64 {
	switch name {
	case names[cacheRead]:
		return &p.CacheRead
	case names[cacheWrite]:
		return &p.CacheWrite
	case names[cacheWriteHour]:
		return &p.CacheWriteHour
	case names[audioIn]:
		return &p.AudioIn
	case names[audioCacheRead]:
		return &p.AudioCacheRead
	case names[imageIn]:
		return &p.ImageIn
	case names[reasoning]:
		return &p.Reasoning
	case names[audioOut]:
		return &p.AudioOut
	case names[imageOut]:
		return &p.ImageOut
	}
	return nil
}

// of returns what a change gives by its name, nil where there is none of this name.
func (c *Change) of(name string) **float64 {
	switch name {
	case "factor":
		return &c.Factor
	case names[prompt]:
		return &c.Prompt
	case names[completion]:
		return &c.Completion
	}
	return c.Parts.of(name)
}

// rates are the prices of the parts, NaN where none is given.
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

// classOf returns where a class of service is, by its name; nil where there is none of
// this name.
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

// class returns what changes in a class of service, nil where nothing does.
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

// inherit gives a part that has no price that of another.
func (r *rates) inherit(part, of int) {
	if math.IsNaN(r[part]) {
		r[part] = r[of]
	}
}

// Cost returns what an answer costs that took u, in US dollars, whatever its provider
// says of that.
//
// Each token is paid for once. Where u has more tokens of a part than of the whole,
// those beyond the whole are left out. Tokens of sounds and images count as read from
// the cache only so far as the other tokens are fewer than those that were.
func (p *Price) Cost(u *providers.Usage) float64 {
	r := p.rates(p.class(u.Tier), u.PromptTokens)

	rest := max(u.PromptTokens, 0)
	hour := take(&rest, u.CacheWriteHourTokens)
	written := take(&rest, u.CacheWriteTokens)
	read := take(&rest, u.CachedTokens)
	// The tokens of media are among rest, or else among those read from the cache.
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

// Most returns the most that an answer can cost, in US dollars, for a prompt of at most
// so many tokens and an answer of at most so many, whichever parts they are of. Not
// counted are the uses of the provider's own tools, and classes of service that cost
// more than the usual one: see MostIn.
func (p *Price) Most(prompt, completion int64) float64 { return p.MostIn("", prompt, completion) }

// MostIn is Most for a request that asks for a class of service, as in
// providers.Usage.Tier. The provider may answer in the usual class, whatever was asked
// for.
func (p *Price) MostIn(tier string, prompt, completion int64) float64 {
	dollars := p.mostOf(nil, prompt, completion)
	if class := p.class(tier); class != nil {
		dollars = max(dollars, p.mostOf(class, prompt, completion))
	}
	return dollars
}

func (p *Price) mostOf(class *Class, promptTokens, completionTokens int64) float64 {
	promptTokens, completionTokens = max(promptTokens, 0), max(completionTokens, 0)
	var most float64
	at := func(tokens int64) {
		r := p.rates(class, tokens)
		in := max(r[prompt], r[cacheRead], r[cacheWrite], r[cacheWriteHour], r[audioIn], r[audioCacheRead], r[imageIn])
		out := max(r[completion], r[reasoning], r[audioOut], r[imageOut])
		most = max(most, (in*float64(tokens)+out*float64(completionTokens))/perPrice)
	}
	at(promptTokens)
	// A shorter prompt can cost more only where a tier costs less: at its end.
	for tokens := range p.Above {
		at(min(tokens, promptTokens))
	}
	if class != nil {
		for tokens := range class.Above {
			at(min(tokens, promptTokens))
		}
	}
	return most
}

// Validate refuses prices that are negative, above a billion or not a number, and those
// for prompts above no length.
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
