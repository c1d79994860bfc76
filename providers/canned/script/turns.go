package script

import (
	"fmt"
	"slices"

	"github.com/cadenza-gateway/cadenza/providers"
)

// At returns the script of the answer to a request with the messages: s itself, or
// that of the turn which comes now.
//
// The number of answers among the messages decides which turn that is: messages of
// the assistant in a row are one answer. After the last turn the first one follows
// again.
//
// For example, the turns are a call of a tool and a text. A question, with no answer
// before it, gets the call. The tool's result, with one answer before it, gets the
// text. The next question, with two, gets the call again.
func (s *Script) At(messages []providers.Message) *Script {
	if len(s.Turns) == 0 {
		return s
	}
	answers := 0
	for i := range messages {
		if messages[i].Role == "assistant" && (i == 0 || messages[i-1].Role != "assistant") {
			answers++
		}
	}
	return &s.Turns[answers%len(s.Turns)]
}

// Calls returns the tools that the answer to a request calls. The member call_tool calls
// none where the request offers none or forbids calls and, outside of turns, where the
// last question has a result. The name of a tool_choice wins over that of call_tool. The
// error is an *Error: the request does not offer the tool of call_tool.
func (s *Script) Calls(req *providers.Request) ([]providers.ToolCall, error) {
	calls := slices.Clone(s.Tools)
	if s.CallTool != "" {
		tools, err := s.toolsToCall(req)
		if err != nil {
			return nil, err
		}
		for i := range tools {
			calls = append(calls, providers.ToolCall{Name: tools[i].Name, Arguments: string(Arguments(tools[i].Parameters))})
		}
	}
	if len(s.Thinking) > 0 {
		for i := range calls {
			calls[i].Opaque = Sign(calls[i].Name)
		}
	}
	return calls, nil
}

func (s *Script) toolsToCall(req *providers.Request) ([]providers.Tool, error) {
	p := &req.Parameters
	name := s.CallTool
	if c := p.ToolChoice; c != nil && c.Mode == providers.ToolsNone || len(p.Tools) == 0 || !s.inTurn && hasResult(req.Messages) {
		return nil, nil
	} else if c != nil && c.Mode == providers.ToolsNamed {
		name = c.Name
	}
	switch name {
	case FirstTool:
		return p.Tools[:1], nil
	case AllTools:
		return p.Tools, nil
	}
	for i := range p.Tools {
		if p.Tools[i].Name == name {
			return p.Tools[i : i+1], nil
		}
	}
	return nil, &Error{Member: "call_tool", Reason: fmt.Sprintf("is %q, but the request offers no such tool", name)}
}

// hasResult reports whether the last question has a tool's result.
func hasResult(messages []providers.Message) bool {
	for i := len(messages) - 1; i >= 0 && messages[i].Role != "user"; i-- {
		if messages[i].Role == "tool" {
			return true
		}
	}
	return false
}
