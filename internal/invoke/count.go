package invoke

import (
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Estimates of the tokens of a prompt's parts that are not text.
const (
	tokensOfPrompt, tokensOfMessage, tokensOfTool = 3, 4, 8
	// mediaTokens is how many tokens an image, a sound or a file counts for: about
	// the tokens of an image of a megapixel.
	mediaTokens = 1000
)

const (
	// maxCounted bounds the bytes of which tokens are counted, so that a request of
	// megabytes takes some milliseconds, as one of 32 KiB does. Of a longer one
	// pieces are counted that are spread evenly. The rest is taken to be like them.
	maxCounted = 32 << 10
	// maxEstimated bounds the bytes of a prompt whose tokens are counted only for a
	// report and a record: that happens for each answer without usage.
	maxEstimated = 8 << 10
	// maxPiece is the length of a piece, in bytes. The tokenizer's time for a piece of
	// white space grows with the square of its length.
	maxPiece = 1 << 10
)

// cl100k is the tokenizer by which tokens are counted: GPT-4's, on whose
// vocabulary other models build (https://github.com/openai/tiktoken). OpenAI's
// newer tokenizers have fewer tokens for most languages. It is made at its
// first use, and takes 4 MB.
var cl100k = sync.OnceValue(codec.NewCl100kBase)

// CountTokens estimates the tokens of messages, of tools, and of other JSON that the
// model reads, by a tokenizer. The model's own tokenizer may count a quarter less, or
// half more.
func CountTokens(messages []providers.Message, tools []providers.Tool, extra ...json.RawMessage) int64 {
	return countMessages(messages, maxCounted) + countExtra(tools, extra, maxCounted)
}

// countMessages counts at most so many bytes.
func countMessages(messages []providers.Message, limit int) int64 {
	tokens := int64(tokensOfPrompt)
	for i := range messages {
		tokens += tokensOfMessage
		for p := range parts(messages[i].Parts) {
			if isMedia(p) {
				tokens += mediaTokens
			}
		}
	}
	return tokens + countTexts(messages, nil, nil, limit)
}

func countExtra(tools []providers.Tool, extra []json.RawMessage, limit int) int64 {
	return int64(len(tools)*tokensOfTool) + countTexts(nil, tools, extra, limit)
}

func isMedia(p *providers.Part) bool {
	return p.Kind == providers.PartImage || p.Kind == providers.PartAudio || p.Kind == providers.PartFile
}

// countTexts counts the tokens of all texts of a request, and of nothing else.
func countTexts(messages []providers.Message, tools []providers.Tool, extra []json.RawMessage, limit int) int64 {
	size := 0
	eachText(messages, tools, extra, func(text string) { size += len(text) })
	c := newCounter(size, limit)
	eachText(messages, tools, extra, c.add)
	return c.tokens()
}

func eachText(messages []providers.Message, tools []providers.Tool, extra []json.RawMessage, see func(text string)) {
	for i := range messages {
		see(messages[i].Content.Plain())
		for p := range parts(messages[i].Parts) {
			if !isMedia(p) {
				see(p.Text.Plain())
				see(p.Call.Name)
				see(p.Call.Arguments)
				see(p.Raw)
			}
		}
	}
	for i := range tools {
		see(tools[i].Name)
		see(tools[i].Description)
		see(string(tools[i].Parameters))
	}
	for _, text := range extra {
		see(string(text))
	}
}

// counter counts the tokens of texts of a given size in all.
type counter struct {
	every   int // one byte of so many is counted
	next    int // offset of the next piece to count
	size    int // bytes seen
	bytes   int // of them, counted
	counted int64
}

// newCounter returns a counter that counts at most so many bytes.
func newCounter(size, limit int) counter { return counter{every: max(1, (size+limit-1)/limit)} }

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
// before a space if one is near, as a word and the space before it are often one
// token.
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

// scaled returns the tokens of size bytes of the kind that was added.
func (c *counter) scaled(size int) int64 {
	if c.bytes == 0 {
		return 0
	}
	return (c.counted*int64(size) + int64(c.bytes) - 1) / int64(c.bytes)
}
