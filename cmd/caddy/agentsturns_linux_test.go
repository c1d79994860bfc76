//go:build !race

package main

import (
	"bytes"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// agentNamed returns the agent of the list.
func agentNamed(name string) agent {
	return agents[slices.IndexFunc(agents, func(a agent) bool { return a.name == name })]
}

// builtIn is Codex as a client of OpenAI, whose address alone is the gateway's.
func builtIn() agent {
	codex := agentNamed("codex")
	codex.command = codexLogin + " && " + codex.command
	codex.doors = map[string][]string{"responses": {`model_provider = "cadenza"`, `openai_base_url = "http://localhost:8080/v1"`}}
	return codex
}

// codexLogin has Codex keep the key for its built-in provider.
const codexLogin = "printenv CADENZA_API_KEY | codex login --with-api-key"

// TestAgentsBuiltIn runs Codex with its built-in provider, and holds that it asks for one
// WebSocket, and by the answer 426 knows to send POST, with nothing sent again.
func TestAgentsBuiltIn(t *testing.T) {
	page, err := os.ReadFile("../../docs/apis.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, []byte("`"+codexLogin+"`")) {
		t.Errorf("docs/apis.md does not say: %s", codexLogin)
	}
	codex := builtIn()
	codex.command += ` 2>&1 | tee said
[ "$(grep -c 'failed to connect to Responses WebSocket' said)" = 1 ] && ! grep Reconnecting said`
	runAgents(t, []agent{codex}, "", func(c *agentCell) []*talk {
		return []*talk{{task: agentsTask, script: c.script(c.work)}}
	})
}

// tooLong is how providers say that a conversation is too long.
var tooLong = map[string]failure{
	"openai":    {status: http.StatusBadRequest, body: `{"error":{"message":"This model's maximum context length is 200000 tokens. However, your messages resulted in 210000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`},
	"responses": {status: http.StatusBadRequest, body: `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`},
	"anthropic": {status: http.StatusBadRequest, body: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`},
	"gemini":    {status: http.StatusBadRequest, body: `{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`},
}

// tooLongInStream is how they say it once their answer has begun.
var tooLongInStream = map[string]failure{
	"openai":    {status: http.StatusOK, body: "data: " + tooLong["openai"].body + "\n\n"},
	"responses": {status: http.StatusOK, body: failedResponse("context_length_exceeded", "Your input exceeds the context window of this model.")},
	"anthropic": {status: http.StatusOK, body: "event: error\ndata: " + tooLong["anthropic"].body + "\n\n"},
	"gemini":    {status: http.StatusOK, body: "data: " + tooLong["gemini"].body + "\n\n"},
}

// failedResponse returns a stream of the Responses API that fails.
func failedResponse(code, message string) string {
	var stream strings.Builder
	response := m{"id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "model": "scripted", "output": []any{}}
	sse(&stream, "response.created", m{"type": "response.created", "sequence_number": 0, "response": response})
	response["status"], response["error"] = "failed", m{"code": code, "message": message}
	sse(&stream, "response.failed", m{"type": "response.failed", "sequence_number": 1, "response": response})
	return stream.String()
}

// TestAgentsCompact has conversations of agents get too long, and holds that an agent has
// its conversation summarized, and with the summary in its place ends the task. The model
// refuses the conversation whole or in a stream, or has read about as much as it can.
func TestAgentsCompact(t *testing.T) {
	const summary = "Both files are read, and out.txt is still to be written."
	claude, codex := agentNamed("claude"), agentNamed("codex")
	// Codex ends its turn when it is refused, and makes the summary before the next one.
	refused := codex
	refused.command += ` || codex exec ` + codexArguments + ` resume --last "Go on."`
	// As a client of OpenAI it has the API make the summary.
	compacting := refused
	compacting.doors = map[string][]string{"responses": {`name = "Cadenza"`, `name = "OpenAI"`}}
	for _, way := range []struct {
		name    string
		agents  []agent
		asks    string // what the summary's call of Codex has
		refuses map[string]failure
	}{
		{"refused", []agent{claude, refused}, "CONTEXT CHECKPOINT COMPACTION", tooLong},
		{"refused in a stream", []agent{claude, compacting}, "Write a summary of the conversation above", tooLongInStream},
		{"nearly full", []agent{claude, codex}, "CONTEXT CHECKPOINT COMPACTION", nil},
		{"nearly full, of the built-in provider", []agent{builtIn()}, "Write a summary of the conversation above", nil},
	} {
		t.Run(way.name, func(t *testing.T) {
			runAgents(t, way.agents, "", func(c *agentCell) []*talk {
				steps := c.script(c.work)
				before, after := steps[:len(steps)-2], steps[len(steps)-2:]
				asks, summarized := way.asks, before
				if c.agent.name == "claude" {
					// Claude Code keeps the last calls as they are.
					asks, summarized, after = "Respond with TEXT ONLY", before[:len(before)-1], steps[len(before)-1:]
				}
				if why, ok := way.refuses[c.upstream]; ok {
					before = append(slices.Clone(before), scriptStep{fails: []failure{why}})
				} else {
					before = slices.Clone(before)
					before[len(before)-1].used = 990_000
				}
				return []*talk{
					{task: agentsTask, script: before},
					{task: asks, script: append(slices.Clone(summarized), scriptStep{say: "<summary>" + summary + "</summary>"})},
					{task: summary, script: after},
				}
			})
		})
	}
}

// statusOverloaded is Anthropic's own status.
const statusOverloaded = 529

// busy is how providers say that they have to be asked again: first with a time, then
// without.
var busy = map[string][2]failure{
	"openai": {
		{status: http.StatusTooManyRequests, header: "1", wait: time.Second, body: `{"error":{"message":"Rate limit reached for gpt-6-luna on requests per min (RPM). Please try again in 1s.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`},
		{status: http.StatusServiceUnavailable, body: `{"error":{"message":"The server is overloaded.","type":"server_error","param":null,"code":null}}`},
	},
	"responses": {
		{status: http.StatusTooManyRequests, header: "2", wait: 2 * time.Second, body: `{"error":{"message":"Rate limit reached for gpt-6-luna on tokens per min (TPM). Please try again in 2s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`},
		{status: http.StatusOK, body: failedResponse("server_error", "The server had an error while processing your request.")},
	},
	"anthropic": {
		{status: statusOverloaded, header: "1", wait: time.Second, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`},
		{status: http.StatusOK, body: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"},
	},
	"gemini": {
		{status: http.StatusTooManyRequests, wait: time.Second, body: `{"error":{"code":429,"message":"You exceeded your current quota. Please retry in 1s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1s"}]}}`},
		{status: http.StatusServiceUnavailable, body: `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`},
	},
}

// TestAgentsWait has providers turn the first calls of agents away, behind an endpoint that
// does not ask twice, and holds that an agent comes again, no earlier than it is told.
func TestAgentsWait(t *testing.T) {
	runAgents(t, []agent{agentNamed("claude"), agentNamed("codex")}, "retry: { count: 0 }\n", func(c *agentCell) []*talk {
		steps := c.script(c.work)
		for i, why := range busy[c.upstream] {
			if why.status == statusOverloaded && c.door != "messages" {
				why.wait = 0 // In OpenAI's APIs it is 502, with no time.
			}
			steps[i].fails = []failure{why}
		}
		return []*talk{{task: agentsTask, script: steps}}
	})
}

// agentID is the id of the agent that a tool of Codex has started.
var agentID = regexp.MustCompile(`"agent_id":"([^"]+)"`)

// TestAgentsStartOthers has agents start two others, which read a file each at the same
// time, and holds that each of the three has its own conversation.
func TestAgentsStartOthers(t *testing.T) {
	files := []string{"one.txt", "two.txt"}
	runAgents(t, []agent{agentNamed("claude"), agentNamed("codex")}, "", func(c *agentCell) []*talk {
		steps := c.script(c.work)
		own := &talk{task: agentsTask}
		talks := []*talk{own}
		var starts, waits []scriptCall
		for i, file := range files {
			task, end := "Say what is in the file "+file, "The content of "+file+" is known."
			talks = append(talks, &talk{task: task, script: []scriptStep{
				{say: "I read it.", calls: steps[0].calls[i : i+1]},
				{say: end},
			}})
			if c.agent.name == "claude" {
				starts = append(starts, scriptCall{tool: "Agent", result: end, arguments: m{"description": "Read a file", "prompt": task, "run_in_background": false}})
				continue
			}
			starts = append(starts, scriptCall{tool: "multi_agent_v1__spawn_agent", result: "agent_id", arguments: m{"message": task}})
			waits = append(waits, scriptCall{tool: "multi_agent_v1__wait_agent", result: end, argued: func(before []heldCall) map[string]any {
				return m{"targets": []any{agentID.FindStringSubmatch(before[i].results[0])[1]}}
			}})
		}
		own.script = []scriptStep{{say: "Others read.", calls: starts}}
		if len(waits) > 0 {
			own.script = append(own.script, scriptStep{say: "I wait.", calls: waits})
		}
		own.script = append(own.script, steps[len(steps)-2:]...)
		return talks
	})
}
