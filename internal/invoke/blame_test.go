package invoke

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// TestBlames reads what providers call invalid from the members and texts of their errors.
// The target has three tools.
func TestBlames(t *testing.T) {
	for _, test := range []struct {
		param, text string
		member      string
		tool        int
	}{
		{"tools[1].function.parameters", "Invalid schema for function 'find'", "tools", 2},
		{"tools[2].parameters", "", "tools", 1},
		{"tools", "", "tools", 0},
		{"tools[7].function", "", "tools", 0},
		{"response_format", "Invalid schema for response_format 'a'", "response_format", 0},
		{"text.format.schema", "", "response_format", 0},
		{"max_completion_tokens", "", "max_tokens", 0},
		{"temperature", "Unsupported value", "temperature", 0},
		{"messages[1].content[0].image_url", "Invalid value", MemberMedia, 0},
		{"messages[1].content", "Invalid value", MemberMessages, 0},
		{"input[3]", "Invalid value", MemberMessages, 0},
		{"", "tools.2.custom.input_schema: JSON schema is invalid.", "tools", 1},
		{"", "output_config.format.schema: Invalid schema", "response_format", 0},
		{"", "max_tokens: 128000 > 64000, which is the maximum", "max_tokens", 0},
		{"", "thinking.budget_tokens: Input should be greater than 1024", "reasoning_effort", 0},
		{"", "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum", MemberMedia, 0},
		{"", "messages: roles must alternate", MemberMessages, 0},
		{"", "Could not process image", MemberMedia, 0},
		{"", "The PDF specified was not valid.", MemberMedia, 0},
		{"", "* GenerateContentRequest.tools[0].function_declarations[2].parameters.properties[a].items: missing field.", "tools", 1},
		{"", `Invalid JSON payload received. Unknown name "x" at 'tools[0].function_declarations[0].parameters': Cannot find field.`, "tools", 3},
		{"", "Invalid value at 'generation_config.response_schema'", "response_format", 0},
		{"", "The value at toolConfig.tools.1.toolSpec.inputSchema.json.type must be one of the following: object.", "tools", 2},
		{"", "Invalid schema for function 'find': 'a' is not valid", "tools", 0},
		{"", "See the documentation: something is wrong with this request", "", 0},
		{"", "Malformed input request", "", 0},
	} {
		a := target("a", scripted(fails(&providers.Error{Status: 400, Param: test.param, Message: test.text})))
		a.Parameters.Tools = make([]providers.Tool, 3)
		_, err, _ := run(t, &Call{Targets: []Target{a}})
		if err == nil || err.Code != wire.UpstreamRejected || err.Member != test.member || err.Tool != test.tool {
			t.Errorf("%s: %s: %q, tool %d; want %q, tool %d", test.param, test.text, err.Member, err.Tool, test.member, test.tool)
		}
	}
}

// TestParametersThatTargetsLack: as of parts of messages, a target without a parameter was
// not asked, and the others decide.
func TestParametersThatTargetsLack(t *testing.T) {
	_, lacking := (&providers.Parameters{Stop: []string{"a"}}).Lacking("a")
	const told = "The endpoint's targets have no stop as it is asked for. Leave it out, or have the endpoint's definition name a target that has it."
	_, err, _ := run(t, &Call{Targets: []Target{target("a", scripted(fails(lacking))), target("b", scripted(fails(lacking)))}})
	if err == nil || err.Code != wire.UpstreamRejected || err.Member != "stop" || err.Message() != told {
		t.Errorf("%+v %s", err, err.Message())
	}
	_, err, _ = run(t, &Call{Targets: []Target{target("a", scripted(fails(lacking))), target("b", scripted(fails(status(500))))}, Policy: Policy{Retries: retries(0)}})
	if err == nil || err.Code != wire.UpstreamError || err.Member != "" {
		t.Errorf("%+v", err)
	}
}
