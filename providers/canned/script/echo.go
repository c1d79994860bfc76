package script

import (
	"fmt"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Echo returns the last message as a text or, where tools' results are last, all of
// these, a line each. Parts that are no text are described in brackets, such as
// [image image/png, 1234 bytes].
func Echo(messages []providers.Message) string {
	first := len(messages) - 1
	for first > 0 && messages[first].Role == "tool" && messages[first-1].Role == "tool" {
		first--
	}
	var b strings.Builder
	for i := max(first, 0); i < len(messages); i++ {
		if i > first {
			b.WriteByte('\n')
		}
		b.WriteString(messages[i].Content.Plain())
		echoParts(&b, messages[i].Parts)
	}
	return b.String()
}

func echoParts(b *strings.Builder, parts []providers.Part) {
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case providers.PartToolCall:
			fmt.Fprintf(b, "[%s %s(%s)]", p.Kind, p.Call.Name, p.Call.Arguments)
		case providers.PartToolResult:
			if i > 0 {
				b.WriteByte('\n')
			}
			if p.Result.Failed {
				b.WriteString("[failed] ")
			}
			echoParts(b, p.Result.Content)
		case providers.PartImage, providers.PartAudio, providers.PartFile:
			b.WriteString("[" + p.Describe() + "]")
		default:
			b.WriteString(p.Text.Plain())
		}
	}
}

// pieceSize is how many bytes of a tool call's arguments are in a piece.
const pieceSize = 16

// Pieces returns the pieces in which tool calls are streamed: their ids and names
// first, then their arguments.
func Pieces(calls []providers.ToolCall) []providers.CallPiece {
	var pieces []providers.CallPiece
	for i, c := range calls {
		pieces = append(pieces, providers.CallPiece{Index: i, ID: c.ID, Name: c.Name, Opaque: c.Opaque})
		start := 0
		for at := range c.Arguments { // the beginnings of characters
			if at-start >= pieceSize {
				pieces = append(pieces, providers.CallPiece{Index: i, Arguments: c.Arguments[start:at]})
				start = at
			}
		}
		if start < len(c.Arguments) {
			pieces = append(pieces, providers.CallPiece{Index: i, Arguments: c.Arguments[start:]})
		}
	}
	return pieces
}
