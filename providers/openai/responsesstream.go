package openai

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// responseStream is an answer of the Responses API as it arrives: server-sent events, or
// one JSON value. Its output is a list of items: thoughts, messages and calls.
type responseStream struct {
	upstream.EventAnswer

	result  providers.Result
	began   bool  // an event was seen
	output  bool  // an item of the output was seen
	pieces  []int // the numbers of the items of which pieces were said
	content bool  // content was seen
	refusal bool  // the model refused to go on

	searches bool // searches are part of the answer
	chars    int  // Unicode code points of the answer so far, if so
}

func newResponseStream(k upstream.Call, body io.ReadCloser, leftOut []string) *responseStream {
	return &responseStream{
		EventAnswer: upstream.NewEventAnswer(k, body, "a response"),
		result:      providers.Result{LeftOut: leftOut},
	}
}

// Next returns the next delta.
func (s *responseStream) Next() (providers.Delta, error) { return s.Lookahead.Next(s) }

// Result is the answer as far as it is known.
func (s *responseStream) Result() providers.Result {
	r := s.result
	r.Thoughts, r.Found = s.Lookahead.Thoughts(), s.Lookahead.Found()
	r.Refusal, r.Refused = s.Lookahead.Refusal()
	return r
}

// Step reads one step of the answer.
func (s *responseStream) Step() (providers.Delta, error) {
	event, err := s.Event()
	if err != nil {
		return providers.Delta{}, s.Cut(err, !s.began)
	}
	if repeats(string(event.Name)) {
		return providers.Delta{}, nil
	}
	v, err := s.Parse(event)
	switch {
	case err != nil:
		return providers.Delta{}, s.Cut(err, !s.began)
	case v == nil:
		return providers.Delta{}, nil
	case event.Whole:
		return providers.Delta{}, s.end(v, "")
	}
	kind := string(v.GetStringBytes("type"))
	if kind == "" {
		kind = string(event.Name)
	}
	return s.take(kind, v)
}

// repeats reports whether an event of this name says nothing that others don't. Some of
// these are as large as the answer, or have the request's tools once more.
func repeats(event string) bool {
	return strings.HasSuffix(event, ".done") && event != "response.output_item.done" || event == "response.in_progress"
}

// take takes in an event. Events that repeat what others have said, and those of the
// API's own tools, are signs of life.
func (s *responseStream) take(kind string, v *fastjson.Value) (d providers.Delta, err error) {
	s.began = true
	item := v.GetInt("output_index")
	switch kind {
	case "response.output_text.delta":
		s.said(item)
		d.Content = s.text(v.GetStringBytes("delta"))
	case "response.refusal.delta":
		s.said(item)
		d, err = s.refuse(v.GetStringBytes("delta"))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		s.said(item)
		d.Thinking = s.Body.String(v.GetStringBytes("delta"))
	case "response.reasoning_summary_part.added":
		if slices.Contains(s.pieces, item) {
			d.Thinking = betweenSummaries
		}
	case "response.output_item.added":
		if i := v.Get("item"); string(i.GetStringBytes("type")) == "function_call" {
			s.call(item, i)
		}
	case "response.function_call_arguments.delta":
		s.said(item)
		if !s.Lookahead.Calls.Arguments(item, v.GetStringBytes("delta")) {
			err = s.Invalid("arguments of a call that did not begin")
		}
	case "response.output_item.done":
		s.output = true
		err = s.item(item, v.Get("item"))
	case "response.created":
		s.model(v.Get("response"))
	case "response.completed", "response.incomplete", "response.failed":
		err = s.end(v.Get("response"), strings.TrimPrefix(kind, "response."))
	case "error":
		err = s.failed(v, "")
	case "":
		if v.Type() == fastjson.TypeObject && hasError(v) {
			err = s.failed(v, "")
		} else {
			err = s.Invalid("neither an event of a response nor an error")
		}
	}
	return d, err
}

// said notes that a piece of an item was said, so that the whole item does not say it
// again.
func (s *responseStream) said(item int) {
	if s.output = true; !slices.Contains(s.pieces, item) {
		s.pieces = append(s.pieces, item)
	}
}

// text returns a text of the answer.
func (s *responseStream) text(text []byte) string {
	s.content = s.content || len(text) > 0
	if s.searches {
		s.chars += utf8.RuneCount(text)
	}
	return s.Body.String(text)
}

// refuse takes in a refusal, which is an error where it is all that the model says.
func (s *responseStream) refuse(text []byte) (providers.Delta, error) {
	if !s.content && !s.Lookahead.Calls.Any() {
		return providers.Delta{}, s.Refused("")
	}
	s.refusal = true
	return providers.Delta{Content: s.text(text), Refusal: true}, nil
}

// model reads the model's name.
func (s *responseStream) model(response *fastjson.Value) {
	if model := response.GetStringBytes("model"); len(model) > 0 && s.result.Model != string(model) {
		s.result.Model = string(model)
	}
}

// end ends the answer by the response as a whole, which is all of an answer that is not
// streamed. event is the last word of the event that it came with. The error is io.EOF
// if the answer is complete.
func (s *responseStream) end(response *fastjson.Value, event string) error {
	status := string(response.GetStringBytes("status"))
	switch {
	case status == "":
		status = event
	case status == "failed", status == "cancelled":
	case response.Type() == fastjson.TypeObject && hasError(response):
		status = "failed"
	}
	s.model(response)
	readResponseUsage(response, &s.result.Usage)
	switch status {
	case "completed", "incomplete":
	case "failed", "cancelled":
		return s.failed(response, status)
	default:
		if e := reported(s.Call, response); e != nil {
			return e
		}
		return s.Invalid("neither a response that ended nor an error")
	}
	if !s.output {
		for i, item := range response.GetArray("output") {
			if err := s.item(i, item); err != nil {
				return err
			}
		}
	}
	s.result.FinishReason = providers.FinishStop
	if status == "incomplete" {
		reason := response.GetStringBytes("incomplete_details", "reason")
		var e *providers.Error
		if s.result.FinishReason, e = incomplete(s.Call, reason); e != nil {
			return e
		}
	}
	return s.complete()
}

// failed is the error that a response or an event describes. Without any its code is
// that of how the response ended.
func (s *responseStream) failed(v *fastjson.Value, code string) error {
	e := s.Error(providers.Reported)
	if v == nil || code != "" && !hasError(v) || !describe(s.Call, e, v) {
		e.Code = code
	}
	return e
}

// complete ends an answer: it is whole, if its tool calls are.
func (s *responseStream) complete() error {
	calls, err := s.Lookahead.Calls.Finish()
	if err != nil {
		s.result.FinishReason = ""
		return s.Invalid("not a whole answer: " + err.Error())
	}
	s.result.ToolCalls = calls
	switch reason := &s.result.FinishReason; {
	case *reason == providers.FinishContentFilter && !s.content && len(calls) == 0:
		return s.Refused(string(*reason))
	case s.refusal:
		*reason = providers.FinishContentFilter
	case *reason == providers.FinishStop && len(calls) > 0:
		*reason = providers.FinishToolCalls
	}
	return io.EOF
}
