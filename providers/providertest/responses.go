package providertest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/providers"
)

// The wire format of OpenAI's Responses API, with the bytes that the service sends:
// https://platform.openai.com/docs/api-reference/responses-streaming

// ResponsesItem is an item of an answer's output: a thought, a call, or else a message of
// words.
type ResponsesItem struct {
	Words   []string
	Call    *providers.ToolCall
	Thought *providers.Thought
}

// ResponsesEnd is how an answer ends. Its zero value completes it.
type ResponsesEnd struct {
	// Incomplete is the reason of an answer that is incomplete.
	Incomplete string
	// Code is the code of an answer that failed.
	Code string
}

// ResponsesAnswer returns a whole answer.
func ResponsesAnswer(end ResponsesEnd, items ...ResponsesItem) Reply {
	return JSON(200, end.response(items)+"\n")
}

// ResponsesStream returns a whole stream.
func ResponsesStream(end ResponsesEnd, items ...ResponsesItem) Reply {
	w := &responsesWriter{}
	w.begin()
	for i := range items {
		w.item(i, &items[i])
	}
	w.end(end, items)
	return SSE(w.body...)
}

// ResponsesEvent returns an event of a stream: its type, and its other members as JSON.
func ResponsesEvent(kind string, sequence int, members string) string {
	return "event: " + kind + "\ndata: {\"type\":" + Quote(kind) + ",\"sequence_number\":" + strconv.Itoa(sequence) + "," + members + "}\n\n"
}

// ResponsesBehaviour returns the reply of a behaviour in the format of the Responses API.
func ResponsesBehaviour(b Behaviour, stream bool) Reply {
	if b.Status != 0 {
		return b.Rejection(ErrorObject("requests", b.Code, "Slow down."))
	}
	var items []ResponsesItem
	if b.Thought != nil {
		items = append(items, ResponsesItem{Thought: b.Thought})
	}
	if len(b.Words) > 0 {
		items = append(items, ResponsesItem{Words: b.Words})
	}
	for i := range b.Tools {
		items = append(items, ResponsesItem{Call: &b.Tools[i]})
	}
	end := ResponsesEnd{Incomplete: b.Reason("", "max_output_tokens", "content_filter")}
	if !stream {
		return b.Whole(ResponsesAnswer(end, items...), ResponsesAnswer(ResponsesEnd{Code: "server_error"}, items...))
	}
	r := ResponsesStream(end, items...)
	last := len(r.Body) - 1
	ended := r.Body[last]
	r.Body = r.Body[:last]
	return b.Streamed(r, ResponsesEvent("error", last, `"code":"boom","message":"It broke.","param":null`), ended)
}

// RefusesTools returns OpenAI's answer to a request of chat completions that has function
// tools beside reasoning. ok is false for a request that it does not refuse. Models after
// GPT-5.4 reason unless they are told not to.
func RefusesTools(r Request) (refusal Reply, ok bool) {
	var body struct {
		Model  string            `json:"model"`
		Tools  []json.RawMessage `json:"tools"`
		Effort *string           `json:"reasoning_effort"`
	}
	if !strings.HasSuffix(r.Path, "/chat/completions") || json.Unmarshal([]byte(r.Body), &body) != nil || len(body.Tools) == 0 {
		return Reply{}, false
	}
	named := body.Effort != nil
	switch {
	case strings.Contains(body.Model, "-chat"): // they do not reason
	case strings.HasPrefix(body.Model, "gpt-5.2"), strings.HasPrefix(body.Model, "gpt-5.4"):
		ok = named
	case strings.HasPrefix(body.Model, "gpt-5.5"), strings.HasPrefix(body.Model, "gpt-5.6"), strings.HasPrefix(body.Model, "gpt-6"):
		ok = !named || *body.Effort != "none"
	}
	message := "Function tools with reasoning_effort are not supported for " + body.Model + " in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
	return JSON(400, `{"error":{"message":`+Quote(message)+`,"type":"invalid_request_error","param":"reasoning_effort","code":null}}`), ok
}

// response is the object that the answer is.
func (e ResponsesEnd) response(items []ResponsesItem) string {
	status, failure, details := "completed", "null", "null"
	switch {
	case e.Code != "":
		status, failure = "failed", `{"code":`+Quote(e.Code)+`,"message":"It broke."}`
	case e.Incomplete != "":
		status, details = "incomplete", `{"reason":`+Quote(e.Incomplete)+`}`
	}
	output := make([]string, len(items))
	words, thoughts := 0, 0
	for i := range items {
		output[i] = items[i].whole(i, "completed")
		words += len(items[i].Words) + len(callArguments(items[i].Call))
		if items[i].Thought != nil {
			thoughts += 7
		}
	}
	usage := fmt.Sprintf(`{"input_tokens":9,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`, words+thoughts, thoughts, 9+words+thoughts)
	return responseObject(status, failure, details, strings.Join(output, ","), usage)
}

func responseObject(status, failure, details, output, usage string) string {
	return `{"id":"resp_1","object":"response","created_at":1763720000,"status":` + Quote(status) + `,"background":false,"error":` + failure +
		`,"incomplete_details":` + details + `,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"gpt-5.6-sol-2026-08-01","output":[` + output +
		`],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":"medium","summary":null},"safety_identifier":null,"service_tier":"default","store":false,"temperature":1.0,"text":{"format":{"type":"text"},"verbosity":"medium"},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","usage":` + usage + `,"user":null,"metadata":{}}`
}

// callArguments returns the arguments of a call, of which there may be none.
func callArguments(c *providers.ToolCall) string {
	if c == nil {
		return ""
	}
	return c.Arguments
}

// whole is the item as JSON.
func (item *ResponsesItem) whole(at int, status string) string {
	begun := status == "in_progress"
	switch {
	case item.Thought != nil:
		summary := ""
		if !begun && item.Thought.Text != "" {
			summary = `{"type":"summary_text","text":` + Quote(item.Thought.Text) + `}`
		}
		return fmt.Sprintf(`{"id":"rs_%d","type":"reasoning","encrypted_content":%s,"summary":[%s]}`, at, Quote(item.Thought.Opaque), summary)
	case item.Call != nil:
		arguments := item.Call.Arguments
		if begun {
			arguments = ""
		}
		return fmt.Sprintf(`{"id":"fc_%d","type":"function_call","status":%q,"arguments":%s,"call_id":%s,"name":%s}`, at, status, Quote(arguments), Quote(item.Call.ID), Quote(item.Call.Name))
	}
	content := ""
	if !begun {
		content = outputText(strings.Join(item.Words, ""))
	}
	return fmt.Sprintf(`{"id":"msg_%d","type":"message","status":%q,"content":[%s],"role":"assistant"}`, at, status, content)
}

func outputText(text string) string {
	return `{"type":"output_text","annotations":[],"logprobs":[],"text":` + Quote(text) + `}`
}

// responsesWriter writes the events of a stream.
type responsesWriter struct{ body []string }

func (w *responsesWriter) event(kind, members string) {
	w.body = append(w.body, ResponsesEvent(kind, len(w.body), members))
}

func (w *responsesWriter) begin() {
	begun := `"response":` + responseObject("in_progress", "null", "null", "", "null")
	w.event("response.created", begun)
	w.event("response.in_progress", begun)
}

func (w *responsesWriter) end(end ResponsesEnd, items []ResponsesItem) {
	kind := "response.completed"
	switch {
	case end.Code != "":
		kind = "response.failed"
	case end.Incomplete != "":
		kind = "response.incomplete"
	}
	w.event(kind, `"response":`+end.response(items))
}

// item writes the events of an item.
func (w *responsesWriter) item(at int, item *ResponsesItem) {
	place := fmt.Sprintf(`"output_index":%d`, at)
	w.event("response.output_item.added", place+`,"item":`+item.whole(at, "in_progress"))
	switch {
	case item.Thought != nil:
		w.summary(fmt.Sprintf(`"item_id":"rs_%d",%s,"summary_index":0,`, at, place), item.Thought.Text)
	case item.Call != nil:
		in := fmt.Sprintf(`"item_id":"fc_%d",%s,`, at, place)
		for _, piece := range halvesOf(item.Call.Arguments) {
			w.event("response.function_call_arguments.delta", in+`"delta":`+Quote(piece)+`,"obfuscation":"x"`)
		}
		w.event("response.function_call_arguments.done", in+`"arguments":`+Quote(item.Call.Arguments))
	default:
		in := fmt.Sprintf(`"item_id":"msg_%d",%s,"content_index":0,`, at, place)
		w.event("response.content_part.added", in+`"part":`+outputText(""))
		for _, word := range item.Words {
			w.event("response.output_text.delta", in+`"delta":`+Quote(word)+`,"logprobs":[],"obfuscation":"x"`)
		}
		text := strings.Join(item.Words, "")
		w.event("response.output_text.done", in+`"text":`+Quote(text)+`,"logprobs":[]`)
		w.event("response.content_part.done", in+`"part":`+outputText(text))
	}
	w.event("response.output_item.done", place+`,"item":`+item.whole(at, "completed"))
}

// summary writes the events of a thought's summary, if it has one.
func (w *responsesWriter) summary(in, text string) {
	if text == "" {
		return
	}
	w.event("response.reasoning_summary_part.added", in+`"part":{"type":"summary_text","text":""}`)
	for _, piece := range halvesOf(text) {
		w.event("response.reasoning_summary_text.delta", in+`"delta":`+Quote(piece)+`,"obfuscation":"x"`)
	}
	w.event("response.reasoning_summary_text.done", in+`"text":`+Quote(text))
	w.event("response.reasoning_summary_part.done", in+`"part":{"type":"summary_text","text":`+Quote(text)+`}`)
}
