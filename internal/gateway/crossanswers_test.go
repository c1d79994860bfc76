package gateway_test

import (
	"maps"
	"slices"
	"strings"
)

// seen is what an answer says to a caller of any API.
type seen struct {
	Text     string
	Refusal  string // where the API tells it apart
	Thoughts string
	Secrets  int // signatures and encrypted thoughts, which are sealed
	Calls    []called
	Finish   string
	Usage    [3]float64 // of the prompt, of the answer, and cached
}

type called struct {
	Name      string
	Arguments any
}

// call adds a call with its arguments in JSON.
func (s *seen) call(name any, arguments any) {
	c := called{Name: name.(string), Arguments: arguments}
	if text, ok := arguments.(string); ok {
		c.Arguments = jsonOf(text)
	}
	s.Calls = append(s.Calls, c)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func count(v any, path ...string) float64 {
	for _, name := range path {
		o, _ := v.(object)
		v = o[name]
	}
	n, _ := v.(float64)
	return n
}

// reasoning reads the thoughts of a chat message.
func (s *seen) reasoning(m object) {
	s.Thoughts = text(m["reasoning_content"])
	details := ""
	for _, detail := range list(m["reasoning_details"]) {
		details += text(detail["text"])
		if sealed(detail["signature"]) || sealed(detail["data"]) {
			s.Secrets++
		}
	}
	if s.Secrets > 0 && details != s.Thoughts {
		s.Thoughts += " but in detail " + details
	}
}

func sealed(v any) bool { return strings.Contains(text(v), "cdz1_") }

func readNative(a object) (s seen) {
	s.Text, s.Finish = text(a["content"]), text(a["finish_reason"])
	s.reasoning(a)
	for _, c := range list(a["tool_calls"]) {
		s.call(c["name"], c["arguments"])
	}
	s.Usage = [3]float64{count(a, "usage", "prompt_tokens"), count(a, "usage", "completion_tokens"), count(a, "usage", "cached_tokens")}
	return s
}

func readChat(a object) (s seen) {
	choice := list(a["choices"])[0]
	m := choice["message"].(object)
	s.Text, s.Refusal, s.Finish = text(m["content"]), text(m["refusal"]), text(choice["finish_reason"])
	s.reasoning(m)
	for _, c := range list(m["tool_calls"]) {
		f := c["function"].(object)
		s.call(f["name"], f["arguments"])
	}
	s.Usage = [3]float64{count(a, "usage", "prompt_tokens"), count(a, "usage", "completion_tokens"), count(a, "usage", "prompt_tokens_details", "cached_tokens")}
	return s
}

func readMessages(a object) (s seen) {
	for _, b := range list(a["content"]) {
		switch b["type"] {
		case "text":
			s.Text += text(b["text"])
		case "thinking":
			s.Thoughts += text(b["thinking"])
		case "tool_use":
			s.call(b["name"], b["input"])
		}
		if sealed(b["signature"]) || sealed(b["data"]) {
			s.Secrets++
		}
	}
	s.Finish = text(a["stop_reason"])
	if details, ok := a["stop_details"].(object); ok {
		s.Refusal = text(details["explanation"])
	}
	cached := count(a, "usage", "cache_read_input_tokens")
	s.Usage = [3]float64{count(a, "usage", "input_tokens") + cached, count(a, "usage", "output_tokens"), cached}
	return s
}

func readResponses(a object) (s seen) {
	s.Finish = "stop"
	for _, item := range list(a["output"]) {
		for _, part := range append(list(item["content"]), list(item["summary"])...) {
			if item["type"] == "reasoning" {
				s.Thoughts += text(part["text"])
				continue
			}
			s.Text += text(part["text"])
			s.Refusal += text(part["refusal"])
		}
		if item["type"] == "function_call" {
			s.call(item["name"], item["arguments"])
		}
		if sealed(item["encrypted_content"]) {
			s.Secrets++
		}
	}
	if details, ok := a["incomplete_details"].(object); ok {
		s.Finish = text(details["reason"])
	}
	s.Usage = [3]float64{count(a, "usage", "input_tokens"), count(a, "usage", "output_tokens"), count(a, "usage", "input_tokens_details", "cached_tokens")}
	return s
}

// wholeNative is the answer that the events of a stream are.
func wholeNative(events []object) object {
	all, content := object{}, ""
	for _, e := range events {
		content += text(e["content"])
		maps.Copy(all, e)
	}
	all["content"] = content
	return all
}

func wholeChat(events []object) object {
	all, message, choice := object{}, object{"annotations": []any{}}, object{"logprobs": nil}
	for _, e := range events {
		for name, value := range e {
			if name != "choices" && value != nil {
				all[name] = value
			}
		}
		for _, c := range list(e["choices"]) {
			merge(message, c["delta"].(object))
			choice["index"], choice["finish_reason"] = c["index"], c["finish_reason"]
			if c["logprobs"] != nil {
				choice["logprobs"] = c["logprobs"]
			}
		}
	}
	for _, c := range list(message["tool_calls"]) {
		delete(c, "index")
	}
	choice["message"], all["object"], all["choices"] = message, "chat.completion", []any{choice}
	return all
}

// merge adds a delta to what is there: texts are joined, and elements by their index.
func merge(to, delta object) {
	for name, value := range delta {
		switch value := value.(type) {
		case string:
			if name != "role" && name != "id" && name != "type" {
				value = text(to[name]) + value
			}
			to[name] = value
		case object:
			below, _ := to[name].(object)
			if below == nil {
				below = object{}
				to[name] = below
			}
			merge(below, value)
		case []any:
			elements, _ := to[name].([]any)
			for _, element := range value {
				o := element.(object)
				at := slices.IndexFunc(elements, func(e any) bool { return e.(object)["index"] == o["index"] })
				if at < 0 {
					elements = append(elements, object{})
					at = len(elements) - 1
				}
				merge(elements[at].(object), o)
			}
			to[name] = elements
		default:
			if value != nil || to[name] == nil {
				to[name] = value
			}
		}
	}
}

func wholeMessages(events []object) object {
	var all object
	var content []any
	for _, e := range events {
		switch e["type"] {
		case "message_start":
			all = e["message"].(object)
		case "content_block_start":
			content = append(content, e["content_block"])
		case "content_block_delta":
			b, delta := content[int(e["index"].(float64))].(object), e["delta"].(object)
			delete(delta, "type")
			if piece, ok := delta["partial_json"]; ok {
				before, _ := b["input"].(string)
				b["input"] = before + text(piece)
				continue
			}
			merge(b, delta)
		case "message_delta":
			maps.Copy(all, e["delta"].(object))
			maps.Copy(all["usage"].(object), e["usage"].(object))
		}
	}
	for _, b := range content {
		if input, ok := b.(object)["input"].(string); ok && input != "" {
			b.(object)["input"] = jsonOf(input)
		}
	}
	all["content"] = content
	return all
}

// wholeResponses returns the last event's response. The deltas say the same, or it gets
// another text.
func wholeResponses(events []object) object {
	pieces := map[string]string{}
	var all object
	for _, e := range events {
		if kind := text(e["type"]); strings.HasSuffix(kind, ".delta") {
			pieces[text(e["item_id"])] += text(e["delta"])
		}
		if response, ok := e["response"].(object); ok {
			all = response
		}
	}
	for _, item := range list(all["output"]) {
		said := text(item["arguments"])
		for _, part := range append(list(item["content"]), list(item["summary"])...) {
			said += text(part["text"]) + text(part["refusal"])
		}
		if said != pieces[text(item["id"])] {
			item["deltas"] = pieces[text(item["id"])]
		}
	}
	return all
}

// callIDsOf returns the ids of an answer's calls.
func callIDsOf(answer object) (ids []string) {
	m := answer
	if choices := list(answer["choices"]); choices != nil {
		m = choices[0]["message"].(object)
	}
	for _, member := range []string{"tool_calls", "content", "output"} {
		for _, o := range list(m[member]) {
			switch o["type"] {
			case "function_call":
				ids = append(ids, text(o["call_id"]))
			case nil, "function", "tool_use":
				ids = append(ids, text(o["id"]))
			}
		}
	}
	return ids
}
