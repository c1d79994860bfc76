package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// crossDoors are the routes of endpoints: how each writes a conversation, and what it reads
// of an answer.
var crossDoors = []struct {
	path, key string
	write     func(d *drawing) object
	read      func(answer object) seen
	whole     func(events []object) object // of a stream
}{
	{"/v1/endpoints", "key", (*drawing).native, readNative, wholeNative},
	{"/v1/chat/completions", "model", (*drawing).chat, readChat, wholeChat},
	{"/v1/messages", "model", (*drawing).messages, readMessages, wholeMessages},
	{"/v1/responses", "model", (*drawing).responses, readResponses, wholeResponses},
}

// TestMustHoldCross has random conversations cross from each API of callers to each format
// of providers, and random answers back, whole and streamed. Each text, medium, call,
// parameter and member has a mark of its own: it reaches the model once, from who said it,
// in its turn and order, or it is named in Cadenza-Ignored, or a 400 names it.
func TestMustHoldCross(t *testing.T) {
	t.Parallel()
	seeds := gatewaytest.Random(t)
	for i := range crossTargets {
		to := &crossTargets[i]
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			u := &crossUpstream{t: t, write: to.write}
			server := httptest.NewServer(u)
			t.Cleanup(server.Close)
			quiet := func(_ *gateway, c *gw.Config) {
				c.Logger, c.Workspaces[0].Logger = zap.NewNop(), zap.NewNop()
			}
			g := startGateway(t, map[string]string{
				"definitions/prompts/p.yaml":   "provider: fake\nmodel: " + to.model + "\nmessages: [ { role: system, content: Own. }, { history: true } ]\n",
				"definitions/endpoints/p.yaml": "prompt: p\nmax_attempts: 1\naccept: { history: true, system: true, tools: { hosted: [web_search] }, parameters: [temperature, max_tokens, top_p, top_k, frequency_penalty, presence_penalty, seed, stop, reasoning_effort, response_format, parallel_tool_calls] }\n",
			}, withProvider("fake", to.connect(t, server.URL)), quiet)
			for door := range crossDoors {
				c := &crossing{t: t, r: r, g: g, u: u, to: to, door: door}
				n, tried, refused := gatewaytest.Full(10_000), 0, 0
				if buffers.Poisoned {
					n /= 10 // the race detector takes ten times as long
				}
				// A provider may lack what a third of them have. Where more are refused by chance,
				// more are tried.
				for tried < n || 3*refused > 2*tried && tried < 10*n {
					if c.cross(); t.Failed() {
						return
					}
					if tried++; c.refused != "" {
						refused++
					}
				}
				if 3*refused > 2*tried {
					t.Errorf("%s: %d of %d were refused", crossDoors[door].path, refused, tried)
				}
				t.Logf("%s: %d conversations, of which %d were refused", crossDoors[door].path, tried, refused)
			}
		})
	}
}

// crossing is a conversation on its way.
type crossing struct {
	t       *testing.T
	r       *rand.Rand
	g       *gateway
	u       *crossUpstream
	to      *crossTarget
	door    int
	marks   int    // of answers, so far
	refused string // the path that the refusal names
}

// cross asks for an answer, and has its message, as it is, in a second conversation.
func (c *crossing) cross() {
	first := c.draw(nil, reply{})
	answer, own := c.exchange(first)
	if answer == nil || c.r.IntN(3) > 0 {
		return
	}
	c.exchange(c.draw(answer, own))
}

// exchange sends a conversation, whole and streamed, and checks what the provider got and
// what the caller gets. It returns one of the answers; nil: the request was refused.
func (c *crossing) exchange(d *drawing) (object, reply) {
	door := &crossDoors[c.door]
	body := door.write(d)
	body[door.key] = "p"
	d.search(body)
	d.insert(body)
	sent := flatten(body)
	c.u.reply = c.reply(d)
	var answers [2]object
	c.refused = ""
	for i := range answers {
		if body["stream"] = i == 1; i == 1 && door.path == "/v1/chat/completions" {
			body["stream_options"] = object{"include_usage": true}
		}
		c.u.body, c.u.r = nil, rand.New(rand.NewPCG(c.r.Uint64(), 0))
		request := httptest.NewRequest(http.MethodPost, door.path, strings.NewReader(quote(body)))
		request.Header = bearer(testKey)
		w := httptest.NewRecorder()
		c.g.serve(w, request)
		fail := func(format string, a ...any) {
			c.t.Helper()
			c.t.Errorf("%s\n%s %s\nCadenza-Ignored: %s\nthe provider got %s\nit answered %s\nthe caller got %d %s", fmt.Sprintf(format, a...),
				door.path, quote(body), w.Header().Get("Cadenza-Ignored"), c.u.body, c.u.sent, w.Code, w.Body)
		}
		if w.Code == http.StatusBadRequest {
			if c.refused = refusedParam(w.Body.Bytes()); !d.mayRefuse(c.to, c.refused, sent) {
				fail("was refused for %q", c.refused)
			}
			return nil, reply{}
		}
		switch refused := strings.Contains(w.Body.String(), "upstream_refused"); {
		case w.Code == http.StatusBadGateway && refused && c.u.reply.refused:
			continue
		case w.Code != http.StatusOK || c.u.reply.refused:
			fail("not an answer")
			return nil, reply{}
		}
		for _, problem := range d.arrived(c.to, sent, c.u.body, w.Header().Get("Cadenza-Ignored")) {
			fail("%s", problem)
		}
		if i == 1 {
			answers[i] = door.whole(eventsOf(w.Body.String()))
		} else if err := json.Unmarshal(w.Body.Bytes(), &answers[i]); err != nil {
			fail("%v", err)
		}
		if diff := cmp.Diff(c.u.reply.seen(c.to, door.path), door.read(answers[i])); diff != "" {
			fail("the answer (-want +got):\n%s", diff)
		}
		if c.t.Failed() {
			return nil, reply{}
		}
	}
	if c.u.reply.refused {
		return nil, reply{}
	}
	if diff := cmp.Diff(lasting(answers[0]), lasting(answers[1])); diff != "" {
		c.t.Errorf("%s: the answer differs from the stream (-whole +streamed):\n%s\n%s", door.path, diff, c.u.sent)
		return nil, reply{}
	}
	return answers[c.r.IntN(2)], c.u.reply
}

// refusedParam is the path in an error of any API.
func refusedParam(body []byte) string {
	var refusal struct {
		Param string
		Error struct {
			Param   string
			Details struct{ Param string } // of Anthropic's API
		}
	}
	_ = json.Unmarshal(body, &refusal)
	return refusal.Param + refusal.Error.Param + refusal.Error.Details.Param
}

var passing = regexp.MustCompile(`[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|"created[^,]*,|call_[0-9a-f]{16}_`)

// lasting is an answer without what differs between two calls, and without what seen has:
// a stream has thoughts and texts in pieces, and where the model had them.
func lasting(answer object) object {
	all := jsonOf(passing.ReplaceAllString(quote(answer), "")).(object)
	delete(all, "reasoning_details")
	for _, choice := range list(all["choices"]) {
		message := choice["message"].(object)
		delete(message, "reasoning_details")
		for _, call := range list(message["tool_calls"]) {
			delete(call["function"].(object), "arguments")
		}
	}
	for _, name := range []string{"tool_calls", "content", "output"} {
		elements, ok := all[name].([]any)
		if !ok {
			continue
		}
		all[name] = slices.DeleteFunc(elements, func(e any) bool {
			kind := e.(object)["type"]
			return kind != nil && kind != "tool_use" && kind != "function_call"
		})
		for _, call := range list(all[name]) {
			delete(call, "arguments") // the provider may escape them otherwise
			if name == "output" {
				delete(call, "id") // which has the item's number
			}
		}
	}
	return all
}

// eventsOf returns the data of a stream's events.
func eventsOf(stream string) (all []object) {
	for line := range strings.Lines(stream) {
		var event object
		if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &event) == nil {
			all = append(all, event)
		}
	}
	return all
}

// spot is a text or a number somewhere in a body.
type spot struct {
	text, path string
	role       string // system, user, assistant, tool, tools or parameter
	id, name   string // of the nearest object that has one
}

// flatten returns the texts and numbers of a body in their order.
func flatten(body any) (all []spot) {
	var walk func(v any, at spot, member string)
	walk = func(v any, at spot, member string) {
		switch v := v.(type) {
		case []any:
			for i, element := range v {
				below := at
				below.path += fmt.Sprintf("[%d]", i)
				walk(element, below, member)
			}
		case object:
			at.enter(v)
			for _, name := range ordered(v) {
				below := at
				below.path = strings.TrimPrefix(at.path+"."+name, ".")
				if role := roleOf[name]; role != "" {
					below.role = role
				}
				walk(v[name], below, name)
			}
		case string:
			var inner any
			if (member == "arguments" || member == "schema") && json.Unmarshal([]byte(v), &inner) == nil {
				for _, s := range flatten(inner) {
					at.text = s.text
					all = append(all, at)
				}
				return
			}
			at.text = v
			all = append(all, at)
		case json.Number:
			at.text = v.String()
			all = append(all, at)
		case float64:
			at.text = strconv.FormatFloat(v, 'f', -1, 64)
			all = append(all, at)
		}
	}
	walk(body, spot{role: "parameter"}, "")
	return all
}

// enter learns whose an object is.
func (s *spot) enter(o object) {
	if role, ok := o["role"].(string); ok && roleOf[role] != "" {
		s.role = roleOf[role]
	}
	if kind, ok := o["type"].(string); ok && roleOf[kind] != "" {
		s.role = roleOf[kind]
	}
	for _, name := range []string{"id", "call_id", "tool_use_id", "toolUseId", "tool_call_id"} {
		if id, ok := o[name].(string); ok {
			s.id = id
		}
	}
	if name, ok := o["name"].(string); ok {
		s.name = name
	}
}

// roleOf has the roles, and the types and members of objects that tell them.
var roleOf = map[string]string{
	"system": "system", "developer": "system", "systemInstruction": "system", "instructions": "system",
	"user": "user", "assistant": "assistant", "model": "assistant", "reasoning": "assistant", "function_call": "assistant",
	"tool": "tool", "tool_result": "tool", "toolResult": "tool", "functionResponse": "tool", "function_call_output": "tool",
	"tools": "tools", "toolConfig": "tools",
}

// ordered returns the names of an object, in the order in which their
// values were said: Go has none.
func ordered(o object) []string {
	names := slices.Sorted(maps.Keys(o))
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	return names
}

func rank(name string) int {
	return 1 + slices.Index([]string{
		"functionCall", "text", "summary", "thinking", "reasoning_content", "reasoning_details", "content", "tool_calls", "signature", "encrypted_content",
	}, name)
}

// markPattern matches a mark, and a number, which is its own.
var markPattern = regexp.MustCompile(`m\d+z|^\d[\d.]+$`)

// covers reports whether a path of Cadenza-Ignored is that of a spot, or of one around it.
func covers(ignored, path string) bool {
	rest, ok := strings.CutPrefix(path, ignored)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// nameOf returns the path that names a leaf: the message's for a file's name.
func nameOf(path, kind string) string {
	if message, ok := strings.CutSuffix(path, ".filename"); ok && strings.HasPrefix(kind, "name") {
		return message
	}
	return path
}

// arrived returns what is wrong with the request that the provider got.
func (d *drawing) arrived(to *crossTarget, sent []spot, body []byte, header string) (problems []string) {
	var parsed any
	if err := json.Unmarshal(body, &parsed); err != nil {
		return []string{err.Error()}
	}
	wrong := func(l *leaf, format string, a ...any) {
		problems = append(problems, fmt.Sprintf("%s %q %s", l.kind, l.text, fmt.Sprintf(format, a...)))
	}
	got, paths, order := map[string][]spot{}, map[string]string{}, map[string]int{}
	for i, s := range flatten(parsed) {
		for _, m := range markPattern.FindAllString(s.text, -1) {
			got[m] = append(got[m], s)
			order[m] = i
		}
	}
	for _, s := range sent {
		for _, m := range markPattern.FindAllString(s.text, -1) {
			paths[m] = s.path
		}
	}
	ignored := strings.Split(strings.ReplaceAll(header, " ", ""), ",")
	last := map[string]*leaf{}
	turns := map[int][2]int{} // the first and the last of each
	for i := range d.leaves {
		l := &d.leaves[i]
		spots := got[l.mark]
		if strings.Contains(l.kind, "URL of") || strings.HasPrefix(l.kind, "name of") { // the result says where it was
			spots = slices.DeleteFunc(spots, func(s spot) bool { return strings.Contains(s.text, "[") })
		}
		named := slices.ContainsFunc(ignored, func(path string) bool { return covers(nameOf(path, l.kind), paths[l.mark]) })
		switch {
		case l.turn < 0 && paths[l.mark] == "", len(spots) == 0 && (named || l.kind == "thought"):
			continue // the API has no such parameter, or it is named, or documented
		case len(spots) == 0:
			wrong(l, "was dropped, which nothing says")
			continue
		case len(spots) > 1:
			wrong(l, "arrived %d times", len(spots))
		case !strings.Contains(spots[0].text, l.text):
			wrong(l, "arrived as %q", spots[0].text)
		case !strings.Contains(l.roles, spots[0].role):
			wrong(l, "arrived from %s, not %s", spots[0].role, l.roles)
		case l.name != "" && l.call == "" && spots[0].name != l.name:
			wrong(l, "arrived for the tool %q, not %q", spots[0].name, l.name)
		}
		if l.turn < 0 {
			continue
		}
		at, group := order[l.mark], l.group(to)
		if before := last[group]; before != nil && order[before.mark] > at {
			wrong(l, "arrived before %q", before.text)
		}
		last[group] = l
		if first, ok := turns[l.turn]; spots[0].role != "system" && ok {
			turns[l.turn] = [2]int{min(first[0], at), max(first[1], at)}
		} else if spots[0].role != "system" {
			turns[l.turn] = [2]int{at, at}
		}
		if l.call != "" && !to.noIDs && spots[0].id != got[l.call][0].id {
			wrong(l, "is of the call %s, but arrived as that of %s", got[l.call][0].id, spots[0].id)
		}
	}
	problems = append(problems, d.obeyed(to, string(body), parsed.(object), header)...)
	end := -1
	for _, turn := range slices.Sorted(maps.Keys(turns)) {
		if turns[turn][0] < end {
			problems = append(problems, fmt.Sprintf("turn %d did not arrive behind the ones before it", turn))
		}
		end = max(end, turns[turn][1])
	}
	return problems
}

// choices are the words for each choice of a tool.
var choices = map[any]*regexp.Regexp{
	"auto": regexp.MustCompile(`"?(auto|AUTO|VALIDATED)"`), "none": regexp.MustCompile(`"(none|NONE)"`),
	"required": regexp.MustCompile(`"(required|any|ANY)"`), "tool_0": regexp.MustCompile(`"tool_0"`),
}

var searchRuns, searchNamed = regexp.MustCompile(`"googleSearch"|"type":"web_search`), regexp.MustCompile(`(^|, )(web_search_options|tools\[\d+\])(,|$)`)

var namedMark, toolsNamed = regexp.MustCompile(`cache_control(,|$)`), regexp.MustCompile(`(^| )tools(,|$)`)

// obeyed returns what is wrong with members of a request that have no mark.
func (d *drawing) obeyed(to *crossTarget, text string, body object, ignored string) (problems []string) {
	holds := func(ok bool, what string, name string) {
		if !ok && !strings.Contains(ignored, name) {
			problems = append(problems, what+" has no effect, which nothing says")
		}
	}
	if to.cached != "" {
		marks := d.marks
		if toolsNamed.MatchString(ignored) { // which covers the marks on them
			for _, t := range d.tools {
				if t.cached {
					marks--
				}
			}
		}
		holds(strings.Count(text, to.cached)+len(namedMark.FindAllString(ignored, -1)) == marks, fmt.Sprint(marks, " marks for the cache"), "-")
	}
	if to.failed != "" {
		holds(strings.Count(text, to.failed) == d.failed, fmt.Sprint(d.failed, " failures of tools"), "-")
	}
	holds(!d.detail || strings.Contains(text, `"detail":"low"`), "detail", ".detail")
	for _, name := range []string{"messages", "contents", "input"} {
		delete(body, name)
	}
	rest := quote(body)
	holds(d.set["reasoning_effort"] == nil || d.set["reasoning_effort"] == "none" || regexp.MustCompile(`"effort"|reasoning_effort|[tT]hinking`).MatchString(rest), "the effort", "effort")
	choice := d.set["tool_choice"]
	if runs := searchRuns.MatchString(rest); d.searches && choice != "none" && runs == searchNamed.MatchString(ignored) {
		problems = append(problems, fmt.Sprintf("the search runs: %v, and is named in %q", runs, ignored))
	}
	if strings.Contains(rest, "googleSearch") && strings.Contains(rest, "functionDeclarations") != strings.Contains(rest, "includeServerSide") {
		problems = append(problems, "Gemini has no such tools beside a search")
	}
	chosen := body["tool_choice"]
	if config, ok := body["toolConfig"].(object); ok {
		delete(config, "tools")
		chosen = config
	}
	// Bedrock has no such choice: the gateway takes no call then.
	holds(choice == nil || choice == "none" && to.name == "bedrock" || choice == "auto" && chosen == nil || choices[choice].MatchString(quote(chosen)), fmt.Sprint("the choice ", choice), "tools")
	if d.set["parallel_tool_calls"] == false && choice != "none" && (d.path != "/v1/messages" || choice != nil) {
		holds(strings.Contains(rest, "parallel"), "parallel_tool_calls", "parallel")
	}
	return problems
}
