//go:build !race

// Not under the race detector: what runs here are programs of others.

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

const (
	// agentsProject is the directory of the coding agents that npm installs.
	agentsProject = "../../testdata/agents"
	// agentsRequired is the environment variable with the names of the agents without
	// which the test fails, rather than skips them: "pi qwen", or all.
	agentsRequired = "CADENZA_REQUIRE_AGENTS"
	// agentsTask is what a person asks of each agent.
	agentsTask = "Read one.txt and two.txt, and write both into out.txt."
	// agentsEnd is the last that its model says.
	agentsEnd = "Both files are in out.txt now."
	// agentsLook is what its model says before it reads a picture.
	agentsLook = "I look."
	// agentsPatience is how long an agent may take on a machine that is busy.
	agentsPatience = 5 * time.Minute
)

// agent is a coding agent as its users have it, with the lines of docs/apis.md, or a loop
// of a library.
type agent struct {
	name    string
	section string // its heading on the page; a library has none
	// program is its file below node_modules. One that ends in .js runs in Node.
	program string
	// command runs it without a person.
	command string
	// doors are the APIs through which it reaches the gateway, each with what is other in
	// the page's lines: pairs of old and new.
	doors map[string][]string
	// loses are the doors with upstreams, DOOR/UPSTREAM, of which it does not send back all
	// signatures.
	loses []string
	// script is what its model asks for, in tools that it has.
	script func(work string) []scriptStep
}

// upstreams are what stands behind the gateway, each with the lines of its variant.
var agentUpstreams = map[string]string{
	"openai":    "    provider: NAME\n    model: gpt-6-luna\n",
	"responses": "    provider: NAME\n    model: gpt-6-luna\n",
	"anthropic": "    provider: NAME\n    model: claude-sonnet-5\n",
	"gemini":    "    provider: NAME\n    model: gemini-3-pro-preview\n",
}

// script returns a script of two parallel calls that read, one that writes, and the end.
func script(reads func(file string) scriptCall, write scriptCall) []scriptStep {
	one, two := reads("one.txt"), reads("two.txt")
	one.result, two.result = "The first file.", "The second file."
	return []scriptStep{
		{say: "I read both.", calls: []scriptCall{one, two}},
		{say: "I write.", calls: []scriptCall{write}},
		{say: agentsEnd},
	}
}

// files returns a script in tools that take a path and a content.
func files(read, write, path string) func(work string) []scriptStep {
	return func(work string) []scriptStep {
		return script(func(file string) scriptCall {
			return scriptCall{tool: read, arguments: m{path: filepath.Join(work, file)}}
		}, scriptCall{tool: write, arguments: m{path: filepath.Join(work, "out.txt"), "content": "Both.\n"}})
	}
}

// looking returns a script that reads a picture, too, with the tool of its first call.
func looking(script func(work string) []scriptStep) func(work string) []scriptStep {
	return func(work string) []scriptStep {
		steps := script(work)
		call := scriptCall{tool: steps[0].calls[0].tool, arguments: m{}}
		for name := range steps[0].calls[0].arguments {
			call.arguments[name] = filepath.Join(work, "pixel.png")
		}
		return slices.Insert(steps, 1, scriptStep{say: agentsLook, calls: []scriptCall{call}})
	}
}

// agentsPixel is an image of one pixel.
const agentsPixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

var agents = []agent{
	{
		name: "claude", section: "Claude Code", program: "@anthropic-ai/claude-code-" + nodePlatform + "/claude",
		command: `claude -p "$TASK" --allowedTools Read Write Edit`,
		doors:   map[string][]string{"messages": nil},
		script:  looking(files("Read", "Write", "file_path")),
	}, {
		name: "codex", section: "Codex", program: "@openai/codex-" + nodePlatform + "/vendor/*/bin/codex",
		command: `codex exec ` + codexArguments + ` "$TASK"`,
		doors:   map[string][]string{"responses": nil},
		script: func(string) []scriptStep {
			return script(func(file string) scriptCall {
				return scriptCall{tool: "exec_command", arguments: m{"cmd": "cat " + file}}
			}, scriptCall{tool: "exec_command", arguments: m{"cmd": "echo Both. >out.txt"}})
		},
	}, {
		name: "opencode", section: "opencode", program: "opencode-" + nodePlatform + "/bin/opencode",
		command: `opencode run "$TASK"`,
		doors: map[string][]string{
			"messages":  nil,
			"responses": {"@ai-sdk/anthropic", "@ai-sdk/openai", opencodeThinks, `"reasoningEffort": "medium"`},
			"chat":      {"@ai-sdk/anthropic", "@ai-sdk/openai-compatible", opencodeThinks, `"reasoningEffort": "medium"`},
		},
		script: looking(files("read", "write", "filePath")),
	}, {
		name: "pi", section: "pi", program: "@earendil-works/pi-coding-agent/dist/cli.js",
		command: `pi --model cadenza/coder --print "$TASK"`,
		doors: map[string][]string{
			"messages":  nil,
			"responses": {"anthropic-messages", "openai-responses", ":8080", ":8080/v1"},
			"chat":      {"anthropic-messages", "openai-completions", ":8080", ":8080/v1"},
		},
		script: looking(files("read", "write", "path")),
	}, {
		name: "qwen", section: "Qwen Code", program: "@qwen-code/qwen-code/cli-entry.js",
		command: `qwen --approval-mode yolo "$TASK"`,
		doors:   map[string][]string{"chat": nil},
		script:  files("read_file", "write_file", "file_path"),
	},
	library("aisdk5", "ai5", `aisdk.mjs 5`, "chat", "messages", "responses"),
	library("aisdk6", "ai6", `aisdk.mjs 6`, "chat", "messages", "responses"),
	library("aisdk7", "ai7", `aisdk.mjs 7`, "chat", "messages", "responses"),
	library("openaiagents", "@openai/agents", `openaiagents.mjs`, "chat", "responses"),
	library("langgraph", "@langchain/langgraph", `langgraph.mjs`, "chat", "messages", "responses"),
	library("llamaindex", "@llamaindex/workflow", `llamaindex.mjs`, "chat", "messages", "responses").losing("messages/gemini", "messages/responses", "responses/gemini", "responses/responses"),
	library("mastra", "@mastra/core", `mastra.mjs`, "chat", "messages", "responses").losing("messages/gemini", "messages/responses"),
	library("genkit", "genkit", `genkit.mjs`, "chat", "messages"),
}

// library returns a library's loop: a script of testdata/agents with its arguments.
func library(name, module, script string, doors ...string) agent {
	a := agent{name: name, program: module + "/package.json", doors: map[string][]string{}, script: files("read", "write", "path")}
	a.command = `node "$AGENTS"/` + script
	for _, door := range doors {
		a.doors[door] = nil
	}
	return a
}

// losing returns the agent as one that loses signatures of thoughts in these doors with
// these upstreams: LlamaIndex never sends back thoughts, nor Mastra redacted ones of any
// answer but the first.
func (a agent) losing(cells ...string) agent {
	a.loses = cells
	return a
}

// nodePlatform is the end of the names of packages that have a program of this system.
var nodePlatform = runtime.GOOS + "-" + strings.ReplaceAll(runtime.GOARCH, "amd64", "x64")

// codexArguments have Codex work in a folder without Git, and ask nobody.
const codexArguments = "--skip-git-repo-check --dangerously-bypass-approvals-and-sandbox"

// opencodeThinks is the option that asks for thoughts, of one of its packages.
const opencodeThinks = `"thinking": { "type": "enabled", "budgetTokens": 8192 }`

// agentCell is one agent through one door to one upstream.
type agentCell struct {
	*agent
	door, upstream string
	key            string // of its endpoint
	work           string
	model          *scripted
}

// name is AGENT/DOOR/UPSTREAM.
func (c *agentCell) name() string { return c.agent.name + "/" + c.door + "/" + c.upstream }

// agentCells returns the cells of the agents that are there. Keys say nothing of what is
// behind them: agents know models by parts of their names.
func agentCells(dir string, there []string, agents []agent, talks func(c *agentCell) []*talk) (cells []*agentCell) {
	for i := range agents {
		if !slices.Contains(there, agents[i].name) {
			continue
		}
		for _, door := range slices.Sorted(maps.Keys(agents[i].doors)) {
			for _, upstream := range slices.Sorted(maps.Keys(agentUpstreams)) {
				c := &agentCell{agent: &agents[i], door: door, upstream: upstream, key: fmt.Sprint("coder", len(cells))}
				c.work = filepath.Join(dir, "work", c.key)
				c.model = &scripted{talks: talks(c), broken: make(chan struct{})}
				cells = append(cells, c)
			}
		}
	}
	return cells
}

// TestAgents runs coding agents against one gateway, side by side, with a model that
// follows a script behind it, through each API of the gateway and of the upstreams.
func TestAgents(t *testing.T) {
	runAgents(t, agents, "", func(c *agentCell) []*talk {
		return []*talk{{task: agentsTask, script: c.script(c.work)}}
	})
}

// runAgents runs those of the agents that are installed against a gateway whose endpoints
// have more lines than those of the page, each with the conversations of its model.
func runAgents(t *testing.T, agents []agent, endpoint string, talks func(c *agentCell) []*talk) {
	t.Helper()
	program := nodeProgram(t)
	text, err := os.ReadFile("../../docs/apis.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	dir := t.TempDir()
	cells := agentCells(dir, agentPrograms(t, dir, program, agents), agents, talks)
	if len(cells) == 0 {
		t.Skip("no agent is installed (set " + agentsRequired + "=all to fail instead)")
	}
	models := scriptedModels{}
	upstream := httptest.NewServer(models)
	defer upstream.Close()
	var providers strings.Builder
	definitions := regexp.MustCompile("(?s)```yaml\n# ((?:prompts|endpoints)/)coder.yaml\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(definitions) != 2 {
		t.Fatalf("docs/apis.md has %d files of coder.yaml", len(definitions))
	}
	for _, c := range cells {
		models[c.key] = c.model
		api := upstream.URL + "/" + c.key
		if c.upstream != "gemini" {
			api += "/v1"
		}
		module, option := c.upstream, ""
		switch module {
		case "openai":
			option = "\t\t\tapi chat\n"
		case "responses":
			module, option = "openai", "\t\t\tapi responses\n"
		}
		fmt.Fprintf(&providers, "\t\tprovider %s %s {\n\t\t\tapi_key {env.CADENZA_API_KEY}\n\t\t\tbase_url %s\n%s\t\t}\n", c.key, module, api, option)
		target := strings.Replace(agentUpstreams[c.upstream], "NAME", c.key, 1)
		if c.upstream == "anthropic" && c.door != "messages" {
			target += "    extra: { cache_control: { type: ephemeral } }\n"
		}
		for _, line := range append(strings.Split(target, "\n"), c.doors[c.door]...) {
			if strings.HasPrefix(line, "    extra") && !strings.Contains(page, strings.TrimSpace(line)) || strings.ContainsAny(line, "@\"") && !strings.Contains(page, line) {
				t.Errorf("docs/apis.md does not say: %s", line)
			}
		}
		for _, file := range definitions {
			text := strings.Replace(file[2], "prompt: coder", "prompt: "+c.key, 1)
			text = strings.Replace(text, "    provider: openai\n    model: gpt-6-luna\n", target, 1)
			if file[1] == "endpoints/" {
				text += endpoint
			}
			writeFile(t, filepath.Join(dir, "definitions", file[1], c.key+".yaml"), text)
		}
	}
	writeFile(t, filepath.Join(dir, "Caddyfile"), fmt.Sprintf(`{
	admin {$CADENZA_ADMIN}
	cadenza {
		definitions %s
		store sqlite %s
		api_key app {env.CADENZA_API_KEY}
%s	}
}

{$CADENZA_ADDRESS} {
	cadenza
}
`, filepath.Join(dir, "definitions"), filepath.Join(dir, "cadenza.db"), &providers))
	p := newProcess(t, dir)
	p.startWith(filepath.Join(dir, "Caddyfile"))
	outside := &outsideWorld{}
	proxy := httptest.NewServer(outside)
	defer proxy.Close()
	environ := append(agentsQuiet[:len(agentsQuiet):len(agentsQuiet)],
		"PATH="+filepath.Join(dir, "bin")+":"+filepath.Dir(program)+":/usr/local/bin:/usr/bin:/bin",
		"CADENZA_API_KEY="+demoKey, "CADENZA_URL="+p.url, "TASK="+agentsTask, "LANG=C.UTF-8",
		"HTTP_PROXY="+proxy.URL, "HTTPS_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "https_proxy="+proxy.URL,
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1",
	)
	t.Run("cells", func(t *testing.T) {
		for _, c := range cells {
			t.Run(c.name(), func(t *testing.T) {
				t.Parallel()
				home := filepath.Join(dir, "home", c.key)
				output, failure := c.run(t, page, p.url, home, environ)
				c.judge(t, output, failure)
			})
		}
	})
	t.Logf("what agents asked of others: %v", outside.hosts)
}

// run runs the agent in its work folder, with a home of its own, until it has ended or
// its conversation is broken.
func (c *agentCell) run(t *testing.T, page, base, home string, environ []string) (output []byte, err error) {
	t.Helper()
	writeFile(t, filepath.Join(c.work, "one.txt"), "The first file.\n")
	writeFile(t, filepath.Join(c.work, "two.txt"), "The second file.\n")
	pixel, err := base64.StdEncoding.DecodeString(agentsPixel)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(c.work, "pixel.png"), string(pixel))
	if err := os.MkdirAll(filepath.Join(home, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`\bcoder\b`)
	lines := ""
	if c.section != "" {
		lines = agentLines(t, page, c.section, home, func(text string) string {
			text = strings.NewReplacer(c.doors[c.door]...).Replace(text)
			return key.ReplaceAllString(strings.ReplaceAll(text, "http://localhost:8080", base), c.key)
		})
	}
	project, err := filepath.Abs(agentsProject)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), agentsPatience)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-c", lines+"\n"+key.ReplaceAllString(c.command, c.key))
	command.Dir = c.work
	command.Env = append(environ[:len(environ):len(environ)], "HOME="+home, "TMPDIR="+filepath.Join(home, "tmp"), "AGENTS="+project, "DOOR="+c.door, "MODEL="+c.key)
	// What an agent starts ends with it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = gatewaytest.Patience // what it started may outlive it for a while
	go func() {
		select {
		case <-c.model.broken:
			cancel()
		case <-ctx.Done():
		}
	}()
	return command.CombinedOutput()
}

// judge holds what a cell has to.
func (c *agentCell) judge(t *testing.T, output []byte, failure error) {
	t.Helper()
	s := c.model
	s.mu.Lock()
	defer s.mu.Unlock()
	written, _ := os.ReadFile(filepath.Join(c.work, "out.txt"))
	loop := len(s.mistakes) == 0 && s.ended() && failure == nil && string(written) == "Both.\n" && bytes.Contains(output, []byte(agentsEnd))
	own := s.talks[0]
	holds := map[string]bool{"loop": loop}
	if loop && c.door != "chat" {
		// In chat completions no agent sends back what it does not know. One that makes a
		// summary after the last calls has no need to.
		signed := own.signed
		if len(own.script[len(own.script)-1].calls) > 0 && len(signed) > 0 {
			signed = signed[:len(signed)-1]
		}
		holds["signatures"] = slices.Equal(signed, own.returned) != slices.Contains(c.loses, c.door+"/"+c.upstream)
	}
	if loop && c.section != "" {
		holds["thinking"] = s.thinks
	}
	if loop && slices.ContainsFunc(own.script, func(s scriptStep) bool { return s.say == agentsLook }) {
		holds["image"] = s.sees
	}
	// The others cache by themselves.
	if loop && c.section != "" && c.upstream == "anthropic" {
		holds["caching"] = s.caches
	}
	for what, ok := range holds {
		if !ok {
			t.Errorf("%s fails", what)
		}
	}
	if t.Failed() || !loop {
		t.Logf("%v, wrote %q, signed %q, returned %q, tools %q\nmistakes: %q\n%s", failure, written, own.signed, own.returned, s.tools, s.mistakes, output)
	}
}

// agentsQuiet has agents say nothing to those who make them, nor look for newer ones.
var agentsQuiet = []string{
	"CI=1", "NO_COLOR=1", "DO_NOT_TRACK=1",
	"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1",
	"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1", "OPENCODE_DISABLE_DEFAULT_PLUGINS=1",
	"PI_OFFLINE=1", "PI_TELEMETRY=0", "QWEN_TELEMETRY_ENABLED=0",
	"npm_config_offline=true", "npm_config_fetch_retries=0",
}

// agentPrograms puts the agents that are installed into a folder for PATH, and returns
// their names.
func agentPrograms(t *testing.T, dir, node string, agents []agent) (names []string) {
	t.Helper()
	project, err := filepath.Abs(agentsProject)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range agents {
		found, err := filepath.Glob(filepath.Join(project, "node_modules", a.program))
		if err != nil || len(found) != 1 {
			message := fmt.Sprintf("NOT TESTED: %s is not installed: .ci/agents does so", a.name)
			if required := strings.Fields(os.Getenv(agentsRequired)); slices.Contains(required, a.name) || slices.Contains(required, "all") {
				t.Error(message)
			}
			t.Log(message)
			continue
		}
		names = append(names, a.name)
		if a.section == "" {
			continue
		}
		start := `exec "` + found[0] + `" "$@"`
		if strings.HasSuffix(found[0], ".js") {
			start = `exec "` + node + `" "` + found[0] + `" "$@"`
		}
		writeFile(t, filepath.Join(dir, "bin", a.name), "#!/bin/sh\n"+start+"\n")
		if err := os.Chmod(filepath.Join(dir, "bin", a.name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// agentLines writes the files of an agent's section of the page, and returns its lines of
// a shell.
func agentLines(t *testing.T, page, section, home string, replaced func(string) string) (lines string) {
	t.Helper()
	_, text, found := strings.Cut(page, "\n#### "+section+"\n")
	if !found {
		t.Fatalf("docs/apis.md has no section %s", section)
	}
	text, _, _ = strings.Cut(text, "\n#")
	for _, match := range regexp.MustCompile("(?s)(?:`~/([^`\n]+)`:\n)?```(\\w+)\n(.*?)```").FindAllStringSubmatch(text, -1) {
		switch {
		case match[1] != "":
			writeFile(t, filepath.Join(home, match[1]), replaced(match[3]))
		case match[2] == "sh":
			lines += replaced(match[3])
		}
	}
	return lines
}

// outsideWorld is the proxy of the agents: it refuses what they ask of others.
type outsideWorld struct {
	mu    sync.Mutex
	hosts []string
}

func (o *outsideWorld) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.hosts, r.Host) {
		o.hosts = append(o.hosts, r.Host)
	}
	http.Error(w, "there is no world outside", http.StatusForbidden)
}

// TestAgentsTable compares the table of docs/apis.md with the versions that are tested.
func TestAgentsTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(agentsProject, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var project struct{ Dependencies map[string]string }
	if err := json.Unmarshal(text, &project); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/apis.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, row := range regexp.MustCompile("(?m)^\\| \\[[^|]*\\| `([^`]+)` ([0-9.]+) \\|").FindAllSubmatch(page, -1) {
		rows++
		if version := project.Dependencies[string(row[1])]; version != string(row[2]) {
			t.Errorf("the table of docs/apis.md has %s %s, but what is tested is %q", row[1], row[2], version)
		}
	}
	for _, a := range agents {
		if a.section != "" {
			rows--
		}
	}
	if rows != 0 {
		t.Errorf("the table of docs/apis.md has %+d agents", rows)
	}
}
