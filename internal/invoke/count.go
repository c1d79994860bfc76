package invoke

import (
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/cadenza-gateway/cadenza/providers"
)

// What a prompt takes beside its texts, in tokens, about.
const (
	tokensOfPrompt, tokensOfMessage, tokensOfTool = 3, 4, 8
	// mediaTokens is how many tokens an image, a sound or a file counts for: about
	// what models take for an image of a megapixel.
	mediaTokens = 1000
)

const (
	// maxCounted bounds the bytes of which tokens are counted, so that a request of
	// megabytes takes some milliseconds, as one of 32 KiB does. Of a longer one
	// pieces are counted that are spread evenly. The rest is taken to be like them.
	maxCounted = 32 << 10
	// maxEstimated bounds the bytes of a prompt of which tokens are counted where the
	// number is only told and recorded: that of each answer without usage.
	maxEstimated = 8 << 10
	// maxPiece is the length of a piece, in bytes. The tokenizer's time for a piece of
	// white space grows with the square of its length.
	maxPiece = 1 << 10
)

// cl100k is the tokenizer that tokens are counted by: that of GPT-4, on whose
// vocabulary other models build. OpenAI's newer ones have fewer tokens for most
// languages. It is made at its first use, and takes 4 MB.
var cl100k = sync.OnceValue(codec.NewCl100kBase)

// CountTokens estimates the tokens of messages, of tools, and of other JSON that the
// model reads, by a tokenizer. That of the model may count a quarter less, or half more.
func CountTokens(messages []providers.Message, tools []providers.Tool, beside ...json.RawMessage) int64 {
	return countMessages(messages, maxCounted) + countBeside(tools, beside, maxCounted)
}

// countMessages counts at most so many bytes.
func countMessages(messages []providers.Message, most int) int64 {
	tokens := int64(tokensOfPrompt)
	for i := range messages {
		tokens += tokensOfMessage
		for p := range parts(messages[i].Parts) {
			if isMedia(p) {
				tokens += mediaTokens
			}
		}
	}
	return tokens + countTexts(messages, nil, nil, most)
}

func countBeside(tools []providers.Tool, beside []json.RawMessage, most int) int64 {
	return int64(len(tools)*tokensOfTool) + countTexts(nil, tools, beside, most)
}

func isMedia(p *providers.Part) bool {
	return p.Kind == providers.PartImage || p.Kind == providers.PartAudio || p.Kind == providers.PartFile
}

// countTexts counts the tokens of all texts of a request, and of nothing else.
func countTexts(messages []providers.Message, tools []providers.Tool, beside []json.RawMessage, most int) int64 {
	size := 0
	eachText(messages, tools, beside, func(text string) { size += len(text) })
	c := newCounter(size, most)
	eachText(messages, tools, beside, c.add)
	return c.tokens()
}

func eachText(messages []providers.Message, tools []providers.Tool, beside []json.RawMessage, see func(text string)) {
	for i := range messages {
		see(messages[i].Content)
		for p := range parts(messages[i].Parts) {
			if !isMedia(p) {
				see(p.Text)
				see(p.Call.Name)
				see(p.Call.Arguments)
			}
		}
	}
	for i := range tools {
		see(tools[i].Name)
		see(tools[i].Description)
		see(string(tools[i].Parameters))
	}
	for _, text := range beside {
		see(string(text))
	}
}

// counter counts the tokens of texts of a given size in all.
type counter struct {
	every   int // one byte of so many is counted
	next    int // where the next piece begins that is counted
	size    int // bytes seen
	bytes   int // of them, counted
	counted int64
}

// newCounter returns a counter that counts at most so many bytes.
func newCounter(size, most int) counter { return counter{every: max(1, (size+most-1)/most)} }

// add takes in a text. For example, of 1 MiB every 32nd piece of a KiB is counted.
func (c *counter) add(text string) {
	for text != "" {
		n := len(text)
		if n > maxPiece {
			n = piece(text)
		}
		if c.size >= c.next {
			c.counted += countWords(text[:n])
			c.bytes += n
			c.next = c.size + n*c.every
		}
		c.size += n
		text = text[n:]
	}
}

// piece returns the length of the first piece of a text longer than maxPiece. It ends
// before a space, where there is one near, as a word and the space before it are often
// one token.
func piece(text string) int {
	if i := strings.LastIndexByte(text[:maxPiece], ' '); i > maxPiece*7/8 {
		return i
	}
	n := maxPiece
	for n > maxPiece-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// tokens returns the tokens of all that was added.
func (c *counter) tokens() int64 { return c.scaled(c.size) }

// scaled returns the tokens of so many bytes that are like those that were added.
func (c *counter) scaled(size int) int64 {
	if c.bytes == 0 {
		return 0
	}
	return (c.counted*int64(size) + int64(c.bytes) - 1) / int64(c.bytes)
}
