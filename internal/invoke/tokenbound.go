package invoke

import (
	"encoding/json"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Upper bounds of the tokens of a prompt's parts that are not text.
const (
	// tokensPerMessage are the tokens around a message: its role and separators.
	tokensPerMessage = 8
	// tokensPerTool bounds the tokens around a tool, and tokensForTools the words by which
	// a provider introduces the tools to the model.
	tokensPerTool, tokensForTools = 32, 1000
	// tokensPerMedia bounds the tokens of an image of the largest size. A file or a
	// sound has a token for each mediaBytes bytes of its data in addition.
	tokensPerMedia, mediaBytes = 5000, 16
	// opaqueBytes is how many bytes of a provider's own data, such as an encrypted
	// thought, make a token.
	opaqueBytes = 4
)

// MostTokens returns an upper bound of the tokens of messages, of tools, and of other
// JSON that the model reads, such as the schema of its answer: no tokenizer of today's
// models has more. English text has about a third of the bound; if it is too large, use
// TightTokens.
//
// A token is at least a byte long, and longer among letters and spaces: see shares. An
// image counts as one of the largest size, because its size is not known. A file by URL
// counts as one too, which is no bound.
func MostTokens(messages []providers.Message, tools []providers.Tool, extra ...json.RawMessage) int64 {
	var all uint64
	for i := range messages {
		all += sharesOf(messages[i].Content.Plain())
		for p := range parts(messages[i].Parts) {
			all += sharesOf(p.Text.Plain()) + sharesOf(p.Call.Name) + sharesOf(p.Call.Arguments)
		}
	}
	for i := range tools {
		all += sharesOf(tools[i].Name) + sharesOf(tools[i].Description) + sharesOf(tools[i].Parameters)
	}
	for _, text := range extra {
		all += sharesOf(text)
	}
	return aroundTexts(messages, tools) + int64((all+sharesOfToken-1)/sharesOfToken)
}

// TightTokens returns a closer bound than MostTokens. For texts it takes CountTokens and
// marginOfCount, and for all else the numbers of MostTokens. It is a bound for the kinds
// of text that people write.
func TightTokens(messages []providers.Message, tools []providers.Tool, extra ...json.RawMessage) int64 {
	texts := countTexts(messages, tools, extra, maxCounted)
	return min(aroundTexts(messages, tools)+texts*(100+marginOfCount)/100, MostTokens(messages, tools, extra...))
}

// marginOfCount is the excess of other tokenizers over cl100k, in percent of its
// tokens. Claude's tokenizers have up to 54 percent more: cl100k counts up to 35
// percent too few for them.
const marginOfCount = 60

// aroundTexts returns an upper bound of the tokens that are not text: media, and the
// framing of messages and tools.
func aroundTexts(messages []providers.Message, tools []providers.Tool) int64 {
	tokens := int64(len(messages)+1) * tokensPerMessage
	for i := range messages {
		for p := range parts(messages[i].Parts) {
			tokens += tokensPerMessage
			switch p.Kind {
			case providers.PartImage:
				tokens += tokensPerMedia
			case providers.PartAudio, providers.PartFile:
				tokens += tokensPerMedia + int64(len(p.Media.Data)/mediaBytes)
			default:
				tokens += int64(len(p.Opaque) / opaqueBytes)
			}
		}
	}
	if len(tools) > 0 {
		tokens += tokensForTools + int64(len(tools))*tokensPerTool
	}
	return tokens
}

// sharesOfToken is the number of shares that make a token.
const sharesOfToken = 16

// sharesOf returns an upper bound of the shares of tokens in a text, by shares.
// For example, " cat," has 4+12+12+12+16 shares, and 16 for the text: 4.5 tokens,
// while it has two.
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

var byteClasses = func() (classes [256]uint8) {
	for b := range classes {
		switch {
		case b >= 'A' && b <= 'Z', b == 'j', b == 'q', b == 'x', b == 'z':
			classes[b] = rareByte
		case b >= 'a' && b <= 'z':
			classes[b] = lowerByte
		case b >= '0' && b <= '9':
			classes[b] = digitByte
		case b == ' ':
			classes[b] = spaceByte
		case b >= 0x80:
			classes[b] = highByte
		case b < ' ' || b == 0x7f:
			classes[b] = controlByte
		}
	}
	return classes
}()

// shares bounds the share of a token that a byte adds, by the class of the byte before
// it and its own. Any byte may be a token by itself, but:
//
//   - Of four small letters in a row at least two are in one token, whatever they are.
//   - A space is part of the token of the letter or sign after it. It is a token before
//     a digit, a line break, a character beyond ASCII, and another space.
var shares = func() (table [7 << 3]uint8) {
	for i := range table {
		before, class := uint8(i>>3), uint8(i&7)
		table[i] = sharesOfToken
		switch {
		case class == lowerByte && (before == lowerByte || before == spaceByte):
			table[i] = 12
		case class == rareByte && before == spaceByte:
			table[i] = 12
		case class == spaceByte && before != spaceByte:
			table[i] = 4
		case (class == digitByte || class == highByte || class == controlByte) && before == spaceByte:
			table[i] = 28
		}
	}
	return table
}()
