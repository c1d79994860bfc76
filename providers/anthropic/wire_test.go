package anthropic

import (
	"fmt"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// The Messages API's wire format, byte by byte as the service sends it, the
// blanks before some closing braces included.

const (
	messageStart = "event: message_start\n" +
		`data: {"type":"message_start","message":{"model":"claude-sonnet-4-5-20250929","id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}}   }` + "\n\n"
	blockStart = "event: content_block_start\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}          }` + "\n\n"
	ping      = "event: ping\ndata: {\"type\": \"ping\"}\n\n"
	blockStop = "event: content_block_stop\n" +
		`data: {"type":"content_block_stop","index":0       }` + "\n\n"
	messageStop = "event: message_stop\n" +
		`data: {"type":"message_stop"      }` + "\n\n"

	thinkingStart = "event: content_block_start\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}` + "\n\n"
	thinkingDelta = "event: content_block_delta\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}` + "\n\n"
	signatureDelta = "event: content_block_delta\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}}` + "\n\n"
	toolStart = "event: content_block_start\n" +
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6","name":"get_weather","input":{}}}` + "\n\n"
	toolDelta = "event: content_block_delta\n" +
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"location\":"}}` + "\n\n"
	toolRest = "event: content_block_delta\n" +
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":" \"Gent\"}"}}` + "\n\n"
)

// textDelta is a piece of text.
func textDelta(text string) string {
	return "event: content_block_delta\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + quote(text) + `}      }` + "\n\n"
}

// messageDelta tells why the model stopped, and the usage.
func messageDelta(stopReason string, output int) string {
	return "event: message_delta\n" +
		fmt.Sprintf(`data: {"type":"message_delta","delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"input_tokens":9,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":%d}   }`, quote(stopReason), output) + "\n\n"
}

// toolBlock are the events of a tool call.
func toolBlock(index int, c providers.ToolCall) []string {
	event := func(name, rest string) string {
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"index\":%d%s}\n\n", name, name, index, rest)
	}
	delta := func(text string) string {
		return event("content_block_delta", `,"delta":{"type":"input_json_delta","partial_json":`+quote(text)+`}`)
	}
	events := []string{
		event("content_block_start", `,"content_block":{"type":"tool_use","id":`+quote(c.ID)+`,"name":`+quote(c.Name)+`,"input":{}}`), delta(""),
	}
	if c.Arguments != "{}" { // which the API does not say
		events = append(events, delta(c.Arguments[:2]), delta(c.Arguments[2:]))
	}
	return append(events, event("content_block_stop", ""))
}

// toolAnswer is a whole message that calls tools.
func toolAnswer(text string, calls []providers.ToolCall) pt.Reply {
	var blocks []string
	if text != "" {
		blocks = append(blocks, `{"type":"text","text":`+quote(text)+`}`)
	}
	for _, c := range calls {
		blocks = append(blocks, `{"type":"tool_use","id":`+quote(c.ID)+`,"name":`+quote(c.Name)+`,"input":`+c.Arguments+`}`)
	}
	r := answer("", "tool_use", 9)
	r.Body[0] = strings.Replace(r.Body[0], `{"type":"text","text":""}`, strings.Join(blocks, ","), 1)
	return r
}

// opening are the events before the first text.
func opening() []string { return []string{messageStart, blockStart, ping} }

// closing are the events after the last text.
func closing(stopReason string, output int) []string {
	return []string{blockStop, messageDelta(stopReason, output), messageStop}
}

// deltas are the events of some text.
func deltas(words ...string) []string {
	events := make([]string, len(words))
	for i, w := range words {
		events[i] = textDelta(w)
	}
	return events
}

// sse is a stream of pieces.
func sse(pieces ...[]string) pt.Reply {
	var all []string
	for _, p := range pieces {
		all = append(all, p...)
	}
	return pt.SSE(all...)
}

// wholeStream is a stream without faults.
func wholeStream(words ...string) pt.Reply {
	return sse(opening(), deltas(words...), closing("end_turn", len(words)))
}

// answer is a whole message.
func answer(text, stopReason string, output int) pt.Reply {
	return pt.JSON(200, fmt.Sprintf(`{"model":"claude-sonnet-4-5-20250929","id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","content":[{"type":"text","text":%s}],"stop_reason":%s,"stop_sequence":null,"usage":{"input_tokens":9,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":%d,"service_tier":"standard"}}`, quote(text), quote(stopReason), output))
}

// errorBody is the JSON of an error.
func errorBody(kind, message string) string {
	return `{"type":"error","error":{"details":null,"type":` + quote(kind) + `,"message":` + quote(message) + `},"request_id":"req_011CSHoEeqs5C35K2UUqR7Fy"}`
}

// errorEvent is an error in a stream.
func errorEvent(kind, message string) string {
	return "event: error\ndata: " + errorBody(kind, message) + "\n\n"
}

func quote(s string) string { return pt.Quote(s) }

func joined(r pt.Reply) string { return r.Text() }
