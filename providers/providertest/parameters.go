package providertest

import (
	"encoding/json"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Schema is a JSON Schema whose members are not sorted.
const Schema = `{"type":"object","properties":{"z":{"type":"string"},"a":{"enum":["<&>"]}},"required":["z","a"],"additionalProperties":false}`

// Everything returns all parameters except the ones for sampling.
func Everything() providers.Parameters {
	seed := int64(7)
	return providers.Parameters{
		Seed: &seed, Stop: []string{"END", "\n\n"}, ReasoningEffort: "low",
		ResponseFormat: &providers.ResponseFormat{Type: providers.FormatSchema, Name: "verdict", Schema: json.RawMessage(Schema), Strict: true},
		Tools:          Tools(),
		ToolChoice:     &providers.ToolChoice{Mode: providers.ToolsRequired},
	}
}

// Tools returns a tool with all members, and one with only a name.
func Tools() []providers.Tool {
	return []providers.Tool{
		{Name: "get_weather", Description: "Says what the weather is.", Parameters: json.RawMessage(Schema), Strict: true},
		{Name: "get_time"},
	}
}

// Messages makes messages from pairs of a role and a text.
func Messages(pairs ...string) []providers.Message {
	var m []providers.Message
	for i := 0; i < len(pairs); i += 2 {
		m = append(m, providers.Message{Role: pairs[i], Content: providers.Escape(pairs[i+1])})
	}
	return m
}
