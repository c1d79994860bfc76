package invoke

import (
	"encoding/json"

	"github.com/cadenza-gateway/cadenza/providers"
)

// What a prompt takes beside its texts, in tokens, at most.
const (
	// mostOfMessage are those around a message: its role, and what separates it.
	mostOfMessage = 8
	// mostOfTool are those around a tool, and mostOfTools those of the words by which
	// a provider tells the model that there are tools.
	mostOfTool, mostOfTools = 32, 1000
	// mostOfMedia are those of an image of the largest size, and of a file or a sound
	// beside what its length adds: a token for mediaBytes bytes of its data.
	mostOfMedia, mediaBytes = 5000, 16
	// opaqueBytes is how many bytes of a provider's own data, such as an encrypted
	// thought, make a token.
	opaqueBytes = 4
)

// MostTokens returns a bound of the tokens of messages, of tools, and of other JSON that
// the model reads, such as the schema of its answer: no tokenizer of today's models has
// more. A text of English has about a third of it, so where the bound is too large
// TightTokens is the closer one.
//
// Tokens are made of at least a byte, and of more where letters and spaces are: see
// shares. An image counts as one of the largest size, because its size is not known.
// A file by URL counts as one too, which is no bound.
func MostTokens(messages []providers.Message, tools []providers.Tool, beside ...json.RawMessage) int64 {
	var all uint64
	for i := range messages {
		all += sharesOf(messages[i].Content)
		for p := range parts(messages[i].Parts) {
			all += sharesOf(p.Text) + sharesOf(p.Call.Name) + sharesOf(p.Call.Arguments)
		}
	}
	for i := range tools {
		all += sharesOf(tools[i].Name) + sharesOf(tools[i].Description) + sharesOf(tools[i].Parameters)
	}
	for _, text := range beside {
		all += sharesOf(text)
	}
	return aroundTexts(messages, tools) + int64((all+sharesOfToken-1)/sharesOfToken)
}

// TightTokens is MostTokens by a tokenizer, for where that bound is too large. The
// tokens of texts are those that CountTokens has and marginOfCount, and the rest is that
// of MostTokens. It is a bound for texts of the kinds that people write.
func TightTokens(messages []providers.Message, tools []providers.Tool, beside ...json.RawMessage) int64 {
	texts := countTexts(messages, tools, beside, maxCounted)
	return min(aroundTexts(messages, tools)+texts*(100+marginOfCount)/100, MostTokens(messages, tools, beside...))
}

// marginOfCount is what other tokenizers have beyond cl100k, in percent of its tokens.
// Those of Claude have up to 54: cl100k counts up to 35 percent too few for them.
const marginOfCount = 60

// aroundTexts returns the tokens at most of all but the texts: media, and what is around
// messages and tools.
func aroundTexts(messages []providers.Message, tools []providers.Tool) int64 {
	tokens := int64(len(messages)+1) * mostOfMessage
	for i := range messages {
		for p := range parts(messages[i].Parts) {
			tokens += mostOfMessage
			switch p.Kind {
			case providers.PartImage:
				tokens += mostOfMedia
			case providers.PartAudio, providers.PartFile:
				tokens += mostOfMedia + int64(len(p.Media.Data)/mediaBytes)
			default:
				tokens += int64(len(p.Opaque) / opaqueBytes)
			}
		}
	}
	if len(tools) > 0 {
		tokens += mostOfTools + int64(len(tools))*mostOfTool
	}
	return tokens
}

// sharesOfToken is the number of shares that make a token.
const sharesOfToken = 16

// sharesOf returns the shares of tokens that the bytes of a text make at most, by
// shares. For example, " cat," has 4+12+12+12+16 of them, and 16 for the text: 4.5
// tokens, where it has two.
func sharesOf[T string | json.RawMessage](text T) uint64 {
	if len(text) == 0 {
		return 0
	}
	before, sum := otherByte, uint64(sharesOfToken)
	for i := range len(text) {
		class := byteClasses[text[i]]
		sum += uint64(shares[before<<3|class])
		before = class
	}
	return sum
}

// The classes of bytes.
const (
	otherByte uint8 = iota // a sign, such as a comma
	lowerByte
	rareByte // of a capital, or of j, q, x and z, which few tokens have
	digitByte
	spaceByte
	highByte    // of a character beyond ASCII
	controlByte // a line break among them
)

var byteClasses = func() (of [256]uint8) {
	for b := range of {
		switch {
		case b >= 'A' && b <= 'Z', b == 'j', b == 'q', b == 'x', b == 'z':
			of[b] = rareByte
		case b >= 'a' && b <= 'z':
			of[b] = lowerByte
		case b >= '0' && b <= '9':
			of[b] = digitByte
		case b == ' ':
			of[b] = spaceByte
		case b >= 0x80:
			of[b] = highByte
		case b < ' ' || b == 0x7f:
			of[b] = controlByte
		}
	}
	return of
}()

// shares are the shares of tokens that a byte makes at most, by the classes of the
// byte before it and of its own. A byte of its own may be a token, but:
//
//   - Of four small letters in a row at least two are in one token, whatever they are.
//   - A space is part of the token of the letter or sign after it. It is a token before
//     a digit, a line break, a character beyond ASCII, and another space.
var shares = func() (of [7 << 3]uint8) {
	for i := range of {
		before, class := uint8(i>>3), uint8(i&7)
		of[i] = sharesOfToken
		switch {
		case class == lowerByte && (before == lowerByte || before == spaceByte):
			of[i] = 12
		case class == rareByte && before == spaceByte:
			of[i] = 12
		case class == spaceByte && before != spaceByte:
			of[i] = 4
		case (class == digitByte || class == highByte || class == controlByte) && before == spaceByte:
			of[i] = 28
		}
	}
	return of
}()
