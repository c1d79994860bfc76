package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

type object = map[string]any

// leaf is a text with a mark: m12z. No other text of its conversation has the mark.
type leaf struct {
	mark, text string
	kind       string
	roles      string // those from whom it may arrive
	name, call string // of its tool; the mark of the arguments of the call that it is a result of
	turn       int    // -1: it is no part of a turn
	own        bool   // the target itself said it before, with thoughts
}

// group returns the leaves among which a leaf has its order: the model's own, between its
// thoughts, and others of its kind in its turn.
func (l *leaf) group(to *crossTarget) string {
	if l.own && to.thinks {
		return "own"
	}
	if l.turn < 0 || l.kind == "system" {
		return l.kind
	}
	return fmt.Sprint(l.kind, l.turn)
}

// drawing is a random conversation with random parameters.
type drawing struct {
	r      *rand.Rand
	path   string // the door's
	leaves []leaf
	turns  []turn
	turn   int
	own    any      // the gateway's own answer, for the second turn
	ids    []string // of calls
	set    object   // parameters, by their names in definitions
	tools  []block
	marks  int  // for the provider's cache
	failed int  // results of tools
	detail bool // an image says how closely to look at it
	// searches reports that the provider may search the web.
	searches bool
}

// turn is what one of them says: system, developer, user, assistant, or tool for results.
type turn struct {
	role   string
	blocks []block
}

// block is a text, an image, a file, a sound, a call, a result or a tool.
type block struct {
	kind, text, url, name, id string
	mark                      string // of a call's arguments
	content                   []block
	failed, cached, detailed  bool
}

// around are texts around a mark.
var around = []string{"", "", "", " ", "\n", "é", "😀", "\u2028", `"`, `\`, "\x01", "</script>", "data: [DONE]\n\n", "{}", "\u200d", "<&>", `\u00e9`, "\t"}

// newMark returns the next mark.
func (d *drawing) newMark() string { return fmt.Sprintf("m%dz", len(d.leaves)) }

func (d *drawing) say(l leaf) string {
	l.mark, l.turn = d.newMark(), d.turn
	if l.text == "" {
		l.text = around[d.r.IntN(len(around))] + l.mark + around[d.r.IntN(len(around))]
	}
	d.leaves = append(d.leaves, l)
	return l.text
}

// data returns base64 with a mark.
func (d *drawing) data(kind, roles string) string {
	return d.say(leaf{kind: kind, roles: roles, text: padded(d.newMark())})
}

func padded(mark string) string { return mark + strings.Repeat("A", 3-(len(mark)+3)%4) }

func (d *drawing) chance(n int) bool { return d.r.IntN(n) == 0 }

// draw draws a conversation. answer is the gateway's own, which it begins with.
func (c *crossing) draw(answer object, own reply) *drawing {
	d := &drawing{r: c.r, path: crossDoors[c.door].path, set: object{}}
	if d.chance(3) {
		d.add([]string{"system", "developer"}[d.r.IntN(2)], d.text("system"))
	}
	if answer != nil {
		d.add("user", d.text("user"))
		d.begin(c.to, answer, own)
	}
	for range 1 + d.r.IntN(3) {
		d.add("user", d.content("user")...)
		if d.chance(8) {
			d.add("system", d.text("system"))
			d.add("user", d.content("user")...)
		}
		if d.chance(3) {
			d.add("assistant", d.thought(3, d.text("assistant"))...)
		}
		for d.chance(2) {
			d.calls()
		}
	}
	if last := d.turns[len(d.turns)-1].role; last != "user" && last != "tool" {
		d.add("user", d.text("user"))
	}
	d.turn = -1
	d.parameters()
	return d
}

// add adds a turn. The leaves of its blocks have its number already.
func (d *drawing) add(role string, blocks ...block) {
	d.turns = append(d.turns, turn{role, blocks})
	d.turn++
}

func (d *drawing) text(role string) block {
	b := block{kind: "text", text: d.say(leaf{kind: role, roles: role})}
	b.cached = role != "tool" && d.cache() // one within a result is that of the result
	return b
}

// cache reports whether a block is marked for the provider's cache.
func (d *drawing) cache() bool {
	if d.path != "/v1/messages" || d.marks == 4 || !d.chance(12) {
		return false
	}
	d.marks++
	return true
}

// content draws what a user says, or a tool's result has.
func (d *drawing) content(role string) (all []block) {
	roles := "user"
	if role == "tool" {
		roles = "tool user" // media follow the results where a provider wants that
	}
	for range 1 + d.r.IntN(3) {
		b := block{kind: []string{"text", "text", "text", "image", "file", "imageURL", "fileURL", "audio", "document"}[d.r.IntN(9)]}
		rare := strings.HasSuffix(b.kind, "URL") || b.kind == "audio" // not every provider has it
		chat := d.path != "/v1/messages" && d.path != "/v1/responses"
		switch {
		case rare && !d.chance(6), b.kind == "text",
			b.kind == "audio" && (role == "tool" || d.path == "/v1/messages"),
			(b.kind == "file" || b.kind == "fileURL") && role == "tool" && d.path != "/v1/messages",
			b.kind == "fileURL" && chat, b.kind == "document" && d.path != "/v1/messages":
			b = d.text(role)
		case b.kind == "document":
			b.text = d.say(leaf{kind: role, roles: role})
		case strings.HasSuffix(b.kind, "URL"):
			b.url = d.say(leaf{kind: b.kind, roles: roles, text: "https://example.com/" + d.newMark() + "?a=b&c=%20"})
		default:
			b.text = d.data(b.kind, roles)
		}
		if strings.HasPrefix(b.kind, "file") && d.chance(2) {
			b.name = d.say(leaf{kind: "name", roles: roles, text: d.newMark()}) + ".pdf"
		}
		if b.kind == "image" && role == "user" && d.path != "/v1/messages" && d.chance(4) {
			b.detailed, d.detail = true, true
		}
		all = append(all, b)
	}
	return all
}

// thought adds a thought of nobody's before blocks, one time in n.
func (d *drawing) thought(n int, blocks ...block) []block {
	if !d.chance(n) {
		return blocks
	}
	b := block{kind: "thought", text: d.say(leaf{kind: "thought", roles: "assistant"})}
	if d.chance(2) && d.path != "/v1/endpoints" && d.path != "/v1/chat/completions" {
		b.id = d.say(leaf{kind: "signature", roles: "assistant", text: padded(d.newMark())})
	}
	return append([]block{b}, blocks...)
}

// calls draws parallel calls and their results. Ids repeat.
func (d *drawing) calls() {
	var said, results []block
	if d.chance(2) {
		said = d.thought(4, d.text("assistant"))
	}
	repeated := false
	for range 1 + d.r.IntN(3) {
		b := block{kind: "call", id: fmt.Sprintf("call_%d", d.r.IntN(1000)), name: []string{"find", "read_file", "do-it"}[d.r.IntN(3)]}
		if len(d.ids) > 0 && d.chance(5) {
			b.id = d.ids[d.r.IntN(len(d.ids))]
		} else if d.chance(10) {
			b.id = strings.Repeat("long.id!", 9) + b.id
		}
		repeated = repeated || slices.ContainsFunc(said, func(o block) bool { return o.id == b.id })
		d.ids = append(d.ids, b.id)
		b.mark = d.newMark()
		b.text = quote(object{"a": d.say(leaf{kind: "arguments", roles: "assistant", name: b.name}), "b": []any{1, nil, object{}, "é"}})
		said = append(said, b)
	}
	d.add("assistant", said...)
	for _, call := range said {
		if call.kind != "call" {
			continue
		}
		b := block{kind: "result", id: call.id, mark: call.mark}
		from := len(d.leaves)
		if !d.chance(8) {
			b.content = d.content("tool")
		}
		for i := range d.leaves[from:] {
			l := &d.leaves[from+i]
			if l.kind == "tool" {
				l.call, l.name = call.mark, call.name
			}
			l.kind += " of " + call.mark // media may follow all results
		}
		b.failed, b.cached = d.path == "/v1/messages" && d.chance(5), d.cache()
		if b.failed {
			d.failed++
		}
		results = append(results, b)
	}
	if !repeated {
		d.r.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
	}
	d.add("tool", results...)
}

// begin adds the gateway's own answer as it came, and results of its calls.
func (d *drawing) begin(to *crossTarget, answer object, own reply) {
	d.own = answer
	var results []block
	ids := callIDsOf(answer)
	add := func(text string, l leaf) {
		l.mark, l.text, l.turn, l.own, l.roles = markPattern.FindString(text), text, d.turn, own.thinks(), "assistant"
		d.leaves = append(d.leaves, l)
	}
	calls := 0
	for _, b := range own.blocks {
		switch b.kind {
		case "text", "refusal":
			add(b.text, leaf{kind: "assistant"})
		case "thought":
			if b.text != "" {
				add(b.text, leaf{kind: "thought"})
			}
			add(b.id, leaf{kind: "signature"})
		case "call":
			mark := markPattern.FindString(b.text)
			add(mark, leaf{kind: "arguments", name: b.name})
			results = append(results, block{kind: "result", id: ids[calls], mark: mark, name: b.name})
			calls++
		}
	}
	d.turns = append(d.turns, turn{role: "own"})
	d.turn++
	if results == nil {
		return
	}
	for i := range results {
		b := d.text("tool")
		l := &d.leaves[len(d.leaves)-1]
		l.call, l.name = results[i].mark, results[i].name
		results[i].content = []block{b}
	}
	d.add("tool", results...)
}

// parameters draws tools and parameters.
func (d *drawing) parameters() {
	if !d.chance(4) {
		for i := range 1 + d.r.IntN(3) {
			t := block{name: fmt.Sprintf("tool_%d", i), cached: d.cache()}
			if !d.chance(4) {
				t.text = d.say(leaf{kind: "description", roles: "tools", name: t.name})
			}
			if !d.chance(4) {
				t.id = d.say(leaf{kind: "schema", roles: "tools", name: t.name})
			}
			d.tools = append(d.tools, t)
		}
		if d.chance(2) {
			d.set["tool_choice"] = []string{"auto", "none", "required", "tool_0"}[d.r.IntN(4)]
		}
		if d.chance(3) {
			d.set["parallel_tool_calls"] = d.chance(2)
		}
	}
	number := func(name string, format string) {
		if d.chance(4) {
			text := fmt.Sprintf(format, 100+len(d.leaves))
			d.leaves = append(d.leaves, leaf{mark: text, text: text, kind: name, turn: -1, roles: "parameter"})
			d.set[name] = rawNumber(text)
		}
	}
	number("temperature", "0.7%d1")
	number("top_p", "0.9%d1")
	number("top_k", "7%d1")
	number("max_tokens", "9%d1")
	number("seed", "555%d1")
	number("frequency_penalty", "0.3%d1")
	number("presence_penalty", "0.4%d1")
	if d.chance(12) {
		d.set["stop"] = d.say(leaf{kind: "stop", roles: "parameter"})
	}
	if d.chance(6) {
		d.set["reasoning_effort"] = []string{"none", "minimal", "low", "medium", "high"}[d.r.IntN(5)]
	}
	if d.chance(6) {
		d.set["response_format"] = d.say(leaf{kind: "format", roles: "parameter"})
	}
}

// schemaOf returns a JSON Schema with a text.
func schemaOf(text string) object {
	return object{
		"type": "object", "additionalProperties": false, "required": []any{"a"},
		"properties": object{"a": object{"type": "string", "description": text}},
	}
}

// insert adds members that no API has, or that are null, to objects of a request.
func (d *drawing) insert(body object) {
	var objects []object
	var walk func(v any, top bool)
	walk = func(v any, top bool) {
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				walk(element, false)
			}
		case object:
			if !top || d.path != "/v1/endpoints" {
				objects = append(objects, v)
			}
			for _, name := range ordered(v) {
				// Schemas and arguments have members of their callers.
				if !slices.Contains([]string{"parameters", "schema", "input_schema", "arguments"}, name) && (name != "input" || d.path == "/v1/responses") || top {
					walk(v[name], false)
				}
			}
		}
	}
	walk(body, true)
	if !d.chance(6) {
		return
	}
	o := objects[d.r.IntN(len(objects))]
	if d.chance(3) {
		o[unheardOf] = nil
		return
	}
	d.turn = -1
	o[unheardOf] = d.say(leaf{kind: unheardOf, roles: "-"})
}

// unheardOf is a member that no API has.
const unheardOf = "unheard_of"

// search has the provider search the web, for some requests.
func (d *drawing) search(body object) {
	if d.searches = d.path != "/v1/endpoints" && d.chance(4); !d.searches {
		return
	}
	tools, _ := body["tools"].([]any)
	switch d.path {
	case "/v1/chat/completions":
		body["web_search_options"] = object{}
	case "/v1/messages":
		body["tools"] = append(tools, object{"type": "web_search_20250305", "name": "web_search"})
	default:
		body["tools"] = append(tools, object{"type": "web_search"})
	}
}
