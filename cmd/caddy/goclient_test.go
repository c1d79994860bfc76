package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
)

// The Go clients of docs/clients.md, unchanged.

var gateway = cmp.Or(os.Getenv("CADENZA_URL"), "http://localhost:8080")

// call asks the gateway, and decodes its answer.
func call(ctx context.Context, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("CADENZA_API_KEY"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

var names = map[string]string{
	"messages": "messages", "model": "model", "temperature": "temperature", "maxTokens": "max_tokens",
	"topP": "top_p", "frequencyPenalty": "frequency_penalty", "presencePenalty": "presence_penalty",
	"seed": "seed", "stop": "stop", "reasoningEffort": "reasoning_effort",
}

// arguments turns a prompt into the parameters of a chat completion.
func arguments(prompt map[string]any) openai.ChatCompletionNewParams {
	found := map[string]any{}
	for name, value := range prompt {
		if argument, known := names[name]; known {
			found[argument] = value
		}
	}
	function := func(value any) any { return map[string]any{"type": "function", "function": value} }
	if tools, ok := prompt["tools"].([]any); ok {
		var list []any
		for _, tool := range tools {
			list = append(list, function(tool))
		}
		found["tools"] = list
	}
	switch choice := prompt["toolChoice"].(type) {
	case string:
		found["tool_choice"] = choice
	case map[string]any:
		found["tool_choice"] = function(choice)
	}
	switch form := prompt["responseFormat"].(type) {
	case string:
		found["response_format"] = map[string]any{"type": map[string]string{"json": "json_object", "text": "text"}[form]}
	case map[string]any:
		found["response_format"] = map[string]any{"type": "json_schema", "json_schema": form["jsonSchema"]}
	}
	return param.Override[openai.ChatCompletionNewParams](found)
}

func supportReply(ctx context.Context, question string) (string, error) {
	var prompts map[string]struct {
		Value   map[string]any
		TraceID string `json:"trace_id"`
	}
	err := call(ctx, "/v1/prompts", map[string]any{
		"keys": []string{"support_reply"}, "context": map[string]any{"locale": "nl-BE"}, "variables": map[string]any{"question": question},
	}, &prompts)
	if err != nil {
		return "", err
	}
	client, began := openai.NewClient(), time.Now()
	completion, err := client.Chat.Completions.New(ctx, arguments(prompts["support_reply"].Value))
	if err != nil {
		return "", err
	}
	var stored struct{ OK bool }
	return completion.Choices[0].Message.Content, call(ctx, "/v1/metrics", map[string]any{
		"trace_id":  prompts["support_reply"].TraceID,
		"latency":   time.Since(began).Milliseconds(),
		"economics": map[string]any{"prompt_tokens": completion.Usage.PromptTokens, "completion_tokens": completion.Usage.CompletionTokens},
	}, &stored)
}

// Event is an event of a stream.
type Event struct {
	TraceID string `json:"trace_id"`
	Content string
	IsFinal bool `json:"is_final"`
	Error   *struct{ Code, Message string }
}

// stream calls an endpoint, and hands each event to a function.
func stream(ctx context.Context, key string, variables map[string]any, each func(Event)) error {
	text, err := json.Marshal(map[string]any{"key": key, "stream": true, "variables": variables})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway+"/v1/endpoints", bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("CADENZA_API_KEY"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	for lines := bufio.NewReader(response.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the answer broke off: %w", err)
		}
		data, found := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case !found:
			continue
		case data == "[DONE]":
			return nil
		}
		var e Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return err
		}
		if e.Error != nil {
			return errors.New(e.Error.Message)
		}
		each(e)
	}
}
