//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
)

// answerTypes are the types of a dialect's answers in its vendor's SDK.
var answerTypes = []struct {
	dialect, whole, event string
	beside                []string // members that the gateway adds, or that the types lack
}{
	{dialect: "messages", whole: "Message", event: "RawMessageStreamEvent"},
	{dialect: "chat", whole: "ChatCompletion", event: "ChatCompletionChunk", beside: []string{"reasoning_content", "reasoning_details"}},
	{dialect: "responses", whole: "Response", event: "ResponseStreamEvent", beside: []string{"store"}},
}

// answersFile returns a file with which TypeScript checks the golden answers of the
// dialects against the types of the vendors' SDKs. names has the answer of each line. A
// member that may be null may be absent, too: the APIs leave out some of those. The SDK
// itself makes output_text.
func answersFile(t *testing.T) (names []string, source []byte) {
	source = []byte(`import type { Message, RawMessageStreamEvent } from "@anthropic-ai/sdk/resources/messages";
import type { ChatCompletion, ChatCompletionChunk } from "openai/resources/chat/completions";
import type { Response, ResponseStreamEvent } from "openai/resources/responses/responses";
type Said<T> = T extends (infer E)[] ? Said<E>[] : T extends object ? { [K in keyof T as K extends "output_text" ? never : null extends T[K] ? never : K]: Said<T[K]> } & { [K in keyof T as null extends T[K] ? K : never]?: Said<T[K]> } : T;
`)
	names = make([]string, strings.Count(string(source), "\n"))
	for _, of := range answerTypes {
		all := dialecttest.GoldenAnswers(t, "../../internal/dialect/"+of.dialect+"/testdata")
		for _, text := range all {
			var answer map[string]any
			if err := json.Unmarshal(text, &answer); err != nil {
				t.Fatal(err)
			}
			without(answer, of.beside)
			wanted := of.event
			switch kind := answer["type"]; kind {
			case "ping", "error": // the types have neither, the libraries read them
				continue
			case "response.function_call_arguments.done":
				delete(answer, "name") // it is in the API's manual
			case "response.output_text.delta", "response.output_text.done":
				without(answer, []string{"bytes"}) // they are in the types of whole answers
			case nil, "message":
				if answer["object"] != "chat.completion.chunk" {
					wanted = of.whole
				} else {
					without(answer, []string{"annotations"}) // the API says them, the types of chunks lack them
				}
			}
			text, err := json.Marshal(answer)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, of.dialect+": "+string(text))
			source = fmt.Appendf(source, "(%s) satisfies Said<%s>;\n", text, wanted)
		}
		if len(all) < 20 {
			t.Errorf("%s: %d answers", of.dialect, len(all))
		}
	}
	return names, source
}

// without deletes members wherever they are.
func without(v any, members []string) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			without(element, members)
		}
	case map[string]any:
		for _, name := range members {
			delete(v, name)
		}
		for _, member := range v {
			without(member, members)
		}
	}
}
