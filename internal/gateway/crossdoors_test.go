package gateway_test

import (
	"cmp"
	"encoding/json"
	"strings"
)

func rawNumber(text string) json.Number { return json.Number(text) }

// jsonOf is the value of a JSON text.
func jsonOf(text string) (v any) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return v
}

// native writes the conversation for /v1/endpoints.
func (d *drawing) native() object {
	body := d.chat()
	parameters := object{}
	for name, value := range body {
		if name != "messages" && name != "tools" && name != "tool_choice" {
			parameters[name] = value
			delete(body, name)
		}
	}
	if len(parameters) > 0 {
		body["parameters"] = parameters
	}
	return body
}

// chat writes the conversation for chat completions.
func (d *drawing) chat() object {
	var list []any
	for _, t := range d.turns {
		switch t.role {
		case "own":
			list = append(list, ownChat(d.own.(object)))
		case "tool":
			for _, b := range t.blocks {
				var content any = ""
				if len(b.content) > 0 {
					content = d.chatContent(b.content)
				}
				list = append(list, object{"role": "tool", "tool_call_id": b.id, "content": content})
			}
		case "assistant":
			m := object{"role": "assistant", "content": nil}
			var calls []any
			for _, b := range t.blocks {
				switch b.kind {
				case "text":
					m["content"] = b.text
				case "thought":
					m["reasoning_content"] = b.text
				case "call":
					calls = append(calls, object{"id": b.id, "type": "function", "function": object{"name": b.name, "arguments": b.text}})
				}
			}
			if calls != nil {
				m["tool_calls"] = calls
			}
			list = append(list, m)
		default:
			list = append(list, object{"role": t.role, "content": d.chatContent(t.blocks)})
		}
	}
	body := object{"messages": list}
	for name, value := range d.set {
		body[name] = value
	}
	if text, ok := d.set["response_format"]; ok {
		body["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "f", "schema": schemaOf(text.(string))}}
	}
	if choice, ok := d.set["tool_choice"].(string); ok && choice == "tool_0" {
		body["tool_choice"] = object{"type": "function", "function": object{"name": choice}}
	}
	var tools []any
	for _, t := range d.tools {
		function := object{"name": t.name}
		if t.text != "" {
			function["description"] = t.text
		}
		if t.id != "" {
			function["parameters"] = schemaOf(t.id)
		}
		tools = append(tools, object{"type": "function", "function": function})
	}
	if tools != nil {
		body["tools"] = tools
	}
	return body
}

func (d *drawing) chatContent(blocks []block) any {
	if len(blocks) == 1 && blocks[0].kind == "text" && d.chance(2) {
		return blocks[0].text
	}
	var parts []any
	for _, b := range blocks {
		switch b.kind {
		case "text":
			parts = append(parts, object{"type": "text", "text": b.text})
		case "image", "imageURL":
			image := object{"url": cmp.Or(b.url, "data:image/png;base64,"+b.text)}
			if b.detailed {
				image["detail"] = "low"
			}
			parts = append(parts, object{"type": "image_url", "image_url": image})
		case "audio":
			parts = append(parts, object{"type": "input_audio", "input_audio": object{"data": b.text, "format": "wav"}})
		case "file":
			file := object{"file_data": "data:application/pdf;base64," + b.text}
			if b.name != "" {
				file["filename"] = b.name
			}
			parts = append(parts, object{"type": "file", "file": file})
		}
	}
	return parts
}

// ownChat is the message of an answer, as an app sends it back.
func ownChat(answer object) object {
	if choices, ok := answer["choices"].([]any); ok {
		return choices[0].(object)["message"].(object)
	}
	m := object{"role": "assistant"}
	for _, name := range []string{"content", "reasoning_content", "reasoning_details"} {
		if answer[name] != nil {
			m[name] = answer[name]
		}
	}
	var calls []any
	for _, c := range list(answer["tool_calls"]) {
		calls = append(calls, object{"id": c["id"], "type": "function", "function": object{"name": c["name"], "arguments": c["arguments"]}})
	}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return m
}

// list returns the objects of a list.
func list(v any) (all []object) {
	elements, _ := v.([]any)
	for _, element := range elements {
		all = append(all, element.(object))
	}
	return all
}

// messages writes the conversation for Anthropic's API.
func (d *drawing) messages() object {
	body := object{"max_tokens": rawNumber("64000")}
	var all []any
	for i, t := range d.turns {
		switch {
		case t.role == "own":
			all = append(all, object{"role": "assistant", "content": d.own.(object)["content"]})
		case t.role == "system" || t.role == "developer":
			if i == 0 {
				body["system"] = d.blocks(t.blocks)
			} else {
				all = append(all, object{"role": "system", "content": d.blocks(t.blocks)})
			}
		default:
			role := t.role
			if role == "tool" {
				role = "user"
			}
			content := d.blocks(t.blocks)
			if last := len(all) - 1; i > 0 && t.role == "user" && d.turns[i-1].role == "tool" && d.chance(2) {
				if more, ok := content.([]any); ok {
					all[last].(object)["content"] = append(all[last].(object)["content"].([]any), more...)
					continue
				}
			}
			all = append(all, object{"role": role, "content": content})
		}
	}
	body["messages"] = all
	for name, value := range d.set {
		switch name {
		case "stop":
			body["stop_sequences"] = []any{value}
		case "temperature", "top_p", "top_k", "max_tokens":
			body[name] = value
		case "reasoning_effort", "response_format":
			config, _ := body["output_config"].(object)
			if config == nil {
				config = object{}
				body["output_config"] = config
			}
			if name == "reasoning_effort" {
				config["effort"] = value
			} else {
				config["format"] = object{"type": "json_schema", "schema": schemaOf(value.(string))}
			}
		case "tool_choice":
			choice := object{"type": map[any]string{"auto": "auto", "none": "none", "required": "any", "tool_0": "tool"}[value]}
			if value == "tool_0" {
				choice["name"] = value
			}
			body[name] = choice
		}
	}
	if parallel, ok := d.set["parallel_tool_calls"].(bool); ok && d.set["tool_choice"] != nil && d.set["tool_choice"] != "none" {
		body["tool_choice"].(object)["disable_parallel_tool_use"] = !parallel
	}
	var tools []any
	for _, t := range d.tools {
		tool := marked(object{"name": t.name, "input_schema": object{"type": "object"}}, t.cached)
		if t.text != "" {
			tool["description"] = t.text
		}
		if t.id != "" {
			tool["input_schema"] = schemaOf(t.id)
		}
		tools = append(tools, tool)
	}
	if tools != nil {
		body["tools"] = tools
	}
	return body
}

func marked(o object, cached bool) object {
	if cached {
		o["cache_control"] = object{"type": "ephemeral"}
	}
	return o
}

// blocks writes the content of a message of Anthropic's API.
func (d *drawing) blocks(blocks []block) any {
	if len(blocks) == 1 && blocks[0].kind == "text" && !blocks[0].cached && d.chance(2) {
		return blocks[0].text
	}
	all := []any{}
	for _, b := range blocks {
		var o object
		switch b.kind {
		case "text":
			o = object{"type": "text", "text": b.text}
		case "image", "imageURL", "file", "fileURL":
			kind, media := "image", "image/png"
			if strings.HasPrefix(b.kind, "file") {
				kind, media = "document", "application/pdf"
			}
			source := object{"type": "base64", "media_type": media, "data": b.text}
			if b.url != "" {
				source = object{"type": "url", "url": b.url}
			}
			o = object{"type": kind, "source": source}
			if b.name != "" {
				o["title"] = b.name
			}
		case "document":
			o = object{"type": "document", "source": object{"type": "text", "media_type": "text/plain", "data": b.text}}
		case "thought":
			o = object{"type": "thinking", "thinking": b.text, "signature": b.id}
		case "call":
			o = object{"type": "tool_use", "id": b.id, "name": b.name, "input": jsonOf(b.text)}
		case "result":
			o = object{"type": "tool_result", "tool_use_id": b.id}
			if b.content != nil {
				o["content"] = d.blocks(b.content)
			}
			if b.failed {
				o["is_error"] = true
			}
		}
		all = append(all, marked(o, b.cached))
	}
	return all
}

// responses writes the conversation for the Responses API.
func (d *drawing) responses() object {
	body := object{}
	var items []any
	for i, t := range d.turns {
		switch {
		case t.role == "own":
			items = append(items, d.own.(object)["output"].([]any)...)
		case i == 0 && t.role == "system" && d.chance(2):
			body["instructions"] = t.blocks[0].text
		case t.role == "tool":
			for _, b := range t.blocks {
				var output any = ""
				if b.content != nil {
					output = d.inputs(b.content)
				}
				items = append(items, object{"type": "function_call_output", "call_id": b.id, "output": output})
			}
		case t.role == "assistant":
			for _, b := range t.blocks {
				switch b.kind {
				case "text":
					items = append(items, object{"type": "message", "role": "assistant", "content": []any{object{"type": "output_text", "text": b.text, "annotations": []any{}}}})
				case "thought":
					o := object{"type": "reasoning", "summary": []any{object{"type": "summary_text", "text": b.text}}}
					if b.id != "" {
						o["encrypted_content"] = b.id
					}
					items = append(items, o)
				case "call":
					items = append(items, object{"type": "function_call", "call_id": b.id, "name": b.name, "arguments": b.text})
				}
			}
		default:
			items = append(items, object{"role": t.role, "content": d.inputs(t.blocks)})
		}
	}
	body["input"] = items
	for name, value := range d.set {
		switch name {
		case "max_tokens":
			body["max_output_tokens"] = value
		case "reasoning_effort":
			body["reasoning"] = object{"effort": value}
		case "response_format":
			body["text"] = object{"format": object{"type": "json_schema", "name": "f", "schema": schemaOf(value.(string))}}
		default:
			body[name] = value
		}
	}
	if body["tool_choice"] == "tool_0" {
		body["tool_choice"] = object{"type": "function", "name": "tool_0"}
	}
	var tools []any
	for _, t := range d.tools {
		tool := object{"type": "function", "name": t.name}
		if t.text != "" {
			tool["description"] = t.text
		}
		if t.id != "" {
			tool["parameters"] = schemaOf(t.id)
		}
		tools = append(tools, tool)
	}
	if tools != nil {
		body["tools"] = tools
	}
	return body
}

func (d *drawing) inputs(blocks []block) any {
	if len(blocks) == 1 && blocks[0].kind == "text" && d.chance(2) {
		return blocks[0].text
	}
	var parts []any
	for _, b := range blocks {
		switch b.kind {
		case "text":
			parts = append(parts, object{"type": "input_text", "text": b.text})
		case "image", "imageURL":
			image := object{"type": "input_image", "image_url": cmp.Or(b.url, "data:image/png;base64,"+b.text)}
			if b.detailed {
				image["detail"] = "low"
			}
			parts = append(parts, image)
		case "audio":
			parts = append(parts, object{"type": "input_audio", "input_audio": object{"data": b.text, "format": "wav"}})
		case "file", "fileURL":
			o := object{"type": "input_file"}
			if b.url != "" {
				o["file_url"] = b.url
			} else {
				o["file_data"] = "data:application/pdf;base64," + b.text
			}
			if b.name != "" {
				o["filename"] = b.name
			}
			parts = append(parts, o)
		}
	}
	return parts
}
