package bedrock

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/aws/smithy-go/eventstream"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// These functions write Bedrock's messages, byte by byte. Messages are framed
// by AWS's own encoder, so that ours is tested against it.

func frame(payload string, headers ...string) string {
	var b bytes.Buffer
	var hs eventstream.Headers
	for i := 0; i < len(headers); i += 2 {
		hs.Set(headers[i], eventstream.StringValue(headers[i+1]))
	}
	if err := eventstream.NewEncoder().Encode(&b, eventstream.Message{Headers: hs, Payload: []byte(payload)}); err != nil {
		panic(err) // strings of these lengths always encode
	}
	return b.String()
}

func event(name, payload string) string {
	return frame(payload, ":event-type", name, ":content-type", "application/json", ":message-type", "event")
}

func exception(name, payload string) string {
	return frame(payload, ":exception-type", name, ":content-type", "application/json", ":message-type", "exception")
}

func quote(s string) string { return pt.Quote(s) }

func start() string { return event("messageStart", `{"p":"abcdefghijklmn","role":"assistant"}`) }

// delta is a piece of text. Its member p is padding of a random length, against
// guessing words by their length.
func delta(text string) string {
	return event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":`+quote(text)+`},"p":"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO"}`)
}

func reasoning(text string) string {
	return event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":`+quote(text)+`}},"p":"abc"}`)
}

func blockStop() string { return event("contentBlockStop", `{"contentBlockIndex":0,"p":"abcdefg"}`) }

func stop(reason string) string {
	return event("messageStop", `{"p":"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST","stopReason":`+quote(reason)+`}`)
}

func metadata(input, output int) string {
	return event("metadata", fmt.Sprintf(`{"metrics":{"latencyMs":551},"p":"abcdefghijklmnopqrstuvwxyz","usage":{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d}}`, input, output, input+output))
}

// streamed is a reply of ConverseStream.
func streamed(pieces ...string) pt.Reply {
	return pt.Reply{
		Header: map[string]string{"Content-Type": "application/vnd.amazon.eventstream", "X-Amzn-Requestid": "a8d2d2c8"},
		Body:   pieces,
	}
}

func ending(how pt.End, pieces ...string) pt.Reply {
	r := streamed(pieces...)
	r.End = how
	return r
}

func wholeStream(words ...string) []string {
	pieces := []string{start()}
	for _, w := range words {
		pieces = append(pieces, delta(w))
	}
	return append(pieces, blockStop(), stop("end_turn"), metadata(9, len(words)))
}

// answer is a reply of Converse.
func answer(text, reason string, input, output int) pt.Reply {
	return pt.JSON(200, fmt.Sprintf(`{"metrics":{"latencyMs":1275},"output":{"message":{"content":[{"text":%s}],"role":"assistant"}},"stopReason":%s,"usage":{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d}}`,
		quote(text), quote(reason), input, output, input+output))
}

// toolBlock are the events of a tool call.
func toolBlock(index int, c providers.ToolCall) []string {
	piece := func(text string) string {
		return event("contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":%d,"delta":{"toolUse":{"input":%s}},"p":"abc"}`, index, quote(text)))
	}
	events := []string{
		event("contentBlockStart", fmt.Sprintf(`{"contentBlockIndex":%d,"p":"ab","start":{"toolUse":{"name":%s,"toolUseId":%s}}}`, index, quote(c.Name), quote(c.ID))), piece(""),
	}
	if c.Arguments != "{}" {
		events = append(events, piece(c.Arguments[:2]), piece(c.Arguments[2:]))
	}
	return append(events, event("contentBlockStop", fmt.Sprintf(`{"contentBlockIndex":%d,"p":"abcdefg"}`, index)))
}

// toolAnswer is a reply of Converse that calls tools.
func toolAnswer(text string, calls []providers.ToolCall) pt.Reply {
	var blocks []string
	if text != "" {
		blocks = append(blocks, `{"text":`+quote(text)+`}`)
	}
	for _, c := range calls {
		blocks = append(blocks, `{"toolUse":{"input":`+c.Arguments+`,"name":`+quote(c.Name)+`,"toolUseId":`+quote(c.ID)+`}}`)
	}
	r := answer("", "tool_use", 9, 9)
	r.Body[0] = strings.Replace(r.Body[0], `{"text":""}`, strings.Join(blocks, ","), 1)
	return r
}

// failure is an error of the service.
func failure(status int, name, message string) pt.Reply {
	r := pt.JSON(status, `{"message":`+quote(message)+`}`)
	r.Header["X-Amzn-Errortype"] = name + ":http://internal.amazon.com/coral/com.amazon.bedrock/"
	return r
}

func join(pieces []string) string { return strings.Join(pieces, "") }
