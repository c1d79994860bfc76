package gateway

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/messages"
	"github.com/cadenza-gateway/cadenza/internal/dialect/responses"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// brings reports whether the request has messages or parameters of the caller. They are
// views of the request's buffer.
func brings(request *dialect.Call) bool { return len(request.Turns) > 0 || len(request.Given) > 0 }

// checkBrought refuses messages and parameters of the caller that the endpoint does not
// accept.
func (in *incoming) checkBrought(endpoint *definition.Endpoint, request *dialect.Call) *wire.Error {
	accept := &endpoint.Accept
	if size, limit := int64(len(in.body.Body())), accept.BodyLimit(in.workspace.MaxBodySize); size > limit {
		return wire.TooLarge(limit)
	}
	if request.Variant != "" && !accept.Variants {
		return notAccepted(request.EndpointParam, "names a variant, which "+definition.NotAccepted("variants: true"))
	}
	if len(request.Turns) > 0 && !accept.History {
		return notAccepted(request.TurnsParam, definition.NotAccepted("history: true"))
	}
	for i := range request.Turns {
		if role := request.Turns[i].Role; !accept.System && (role == "system" || role == "developer") {
			where := request.Turn(i)
			if !strings.HasSuffix(where, "]") {
				return notAccepted(where, "is a message with the role "+role+", which "+definition.NotAccepted("system: true"))
			}
			return notAccepted(where+".role", "is "+role+", which "+definition.NotAccepted("system: true"))
		}
	}
	if accept.RefuseUnknown && request.Unknown != "" {
		return dialect.NotKnown(request.Unknown)
	}
	if accept.RefuseHosted && request.Hosted != "" {
		return notAccepted(request.Hosted, "is of a tool that the service of this API runs, which this endpoint refuses: its definition says accept: { tools: { hosted: refuse } }. Leave it out")
	}
	if err := responses.OpenSummaries(in.workspace.sealer(), request); err != nil {
		return err
	}
	for _, name := range request.Betas {
		if !slices.Contains(accept.Betas, name) {
			request.Ignore(betaHeader + ":" + name)
			continue
		}
		caller := request.Parameters.FromCaller()
		if len(caller.Betas) == 0 {
			request.Given = append(request.Given, dialect.Given{Name: "betas", Param: betaHeader})
		}
		caller.Betas = append(caller.Betas, name)
		request.Parameters.Caller = &caller
	}
	acceptSearch(accept.WebSearch, request)
	kept := request.Given[:0]
	for _, given := range request.Given {
		switch problem := accept.Check(given.Name, &request.Parameters); {
		case problem == "":
			kept = append(kept, given)
		case accept.Optional(given.Name, &request.Parameters):
			if given.Name == "service_tier" {
				request.Parameters.Caller.Tier = ""
			}
			request.Ignore(given.Param)
		default:
			return notAccepted(given.Param, problem)
		}
	}
	request.Given = kept
	return nil
}

// betaHeader is the header with the previews that callers of Anthropic's API ask for.
const betaHeader = "anthropic-beta"

// notAccepted returns the error for a member. problem is the end of a sentence.
func notAccepted(param, problem string) *wire.Error {
	return wire.Errorf(wire.InvalidRequest, param, "%q %s.", param, problem)
}

// bodyLimit returns the largest body, in bytes, that the route reads. The body names the
// endpoint, so the limit is the largest one of all endpoints.
func (to *route) bodyLimit(w *Workspace) int64 {
	limit := w.MaxBodySize
	if to.dialect != nil {
		limit = max(limit, w.callTargets(w.Source.Snapshot()).largestBody)
	}
	return limit
}

// merged returns copies of the targets in which the caller's parameters replace the
// target's, and the caller's tools follow the target's.
func merged(targets []invoke.Target, request *dialect.Call) ([]invoke.Target, *wire.Error) {
	if len(request.Given) == 0 && len(request.Marks) == 0 && request.Parameters.Caller == nil {
		return targets, nil
	}
	dropMarks(targets, request)
	caller := request.Parameters.Caller
	if len(request.Marks) > 0 {
		with := request.Parameters.FromCaller()
		with.Marks, caller = true, &with
	}
	targets = slices.Clone(targets)
	for i := range targets {
		t := &targets[i]
		t.Prepared = nil
		if t.Parameters.Caller = caller; caller != nil && t.Bounds.Tier == "" {
			t.Bounds.Tier = caller.Tier // extra wins
		}
		for _, given := range request.Given {
			if given.Name == "tools" || given.Name == "response_format" {
				t.Bounds.Beside = 0 // it counts the definition's tools and schema alone
			}
			if given.Name != "tools" {
				setParameter(&t.Parameters, &request.Parameters, given.Name)
				continue
			}
			tools := t.Parameters.Tools
			for n := range request.Parameters.Tools {
				if name := request.Parameters.Tools[n].Name; hasTool(tools, name) {
					return nil, notAccepted(request.ToolParams[n], "is named "+wire.Clip(name)+", as a tool of the endpoint is. Give it another name")
				}
			}
			t.Parameters.Tools = slices.Concat(tools, request.Parameters.Tools)
		}
	}
	for _, given := range request.Given {
		if given.Name != "tool_choice" {
			continue
		}
		choice := request.Parameters.ToolChoice
		for i := range targets {
			tools := targets[i].Parameters.Tools
			switch {
			case choice == nil || choice.Mode == providers.ToolsNone || choice.Mode == providers.ToolsAuto || choice.Mode == providers.ToolsSearch:
			case choice.Mode == providers.ToolsRequired && targets[i].Parameters.FromCaller().Search != nil:
			case len(tools) == 0:
				return nil, notAccepted(given.Param, "wants a tool to be called, but there are none. Send tools with it")
			case choice.Mode == providers.ToolsNamed && !hasTool(tools, choice.Name):
				return nil, notAccepted(given.Param, "names the tool "+wire.Clip(choice.Name)+", which there is none of")
			}
		}
	}
	return targets, nil
}

// dropMarks removes the oldest of the caller's marks for the cache that are too many with
// those of the definition's own parameters: later ones are of longer prefixes.
func dropMarks(targets []invoke.Target, request *dialect.Call) {
	own := 0
	for i := range targets {
		marks := 0
		for name, value := range targets[i].Extra {
			marks += strings.Count(name, "cache_control") + bytes.Count(value, []byte("cache_control")) + bytes.Count(value, []byte("cachePoint"))
		}
		own = max(own, marks)
	}
	drop := len(request.Marks) - max(providers.MaxCacheMarks-own, 0)
	if len(request.Marks) == 0 || drop <= 0 {
		return
	}
	request.Ignored = append(request.Ignored, request.Marks[:drop]...)
	request.Marks = request.Marks[drop:]
	for i := range request.Parameters.Tools {
		if t := &request.Parameters.Tools[i]; t.Cache > 0 && drop > 0 {
			t.Cache = 0
			drop--
		}
	}
	for i := range request.Turns {
		for j := range request.Turns[i].Parts {
			if p := &request.Turns[i].Parts[j]; p.Cache > 0 && drop > 0 {
				p.Cache = 0
				drop--
			}
		}
	}
}

// acceptSearch gives the request's web search its effect, which was ignored so far, or
// removes it.
func acceptSearch(accepted bool, request *dialect.Call) {
	of := request.Search
	if of == nil {
		return
	}
	if !accepted {
		request.Turns = providers.Unsearched(request.Turns)
		return
	}
	effective := make(map[string]bool, len(of.Paths)+len(of.History))
	for _, path := range slices.Concat(of.Paths, of.History) {
		effective[path] = true
	}
	before := len(request.Ignored)
	request.Ignored = slices.DeleteFunc(request.Ignored, func(path string) bool { return effective[path] })
	request.MoreIgnored -= min(len(effective)-(before-len(request.Ignored)), request.MoreIgnored)
	caller := request.Parameters.FromCaller()
	caller.Search = of.Tool
	if len(of.History) > 0 {
		caller.Searched = of.API
	}
	request.Parameters.Caller = &caller
	request.Given = append(request.Given, of.Given...)
	if of.Choice != nil {
		request.Parameters.ToolChoice = of.Choice
		request.Given = append(request.Given, dialect.Given{Name: "tool_choice", Param: "tool_choice"})
	}
}

func hasTool(tools []providers.Tool, name string) bool {
	return slices.ContainsFunc(tools, func(t providers.Tool) bool { return t.Name == name })
}

// setParameter sets the parameter with the name to what the caller has set.
func setParameter(to, from *providers.Parameters, name string) {
	switch name {
	case "temperature":
		to.Temperature = from.Temperature
	case "max_tokens":
		to.MaxTokens = from.MaxTokens
	case "top_p":
		to.TopP = from.TopP
	case "top_k":
		to.TopK = from.TopK
	case "frequency_penalty":
		to.FrequencyPenalty = from.FrequencyPenalty
	case "presence_penalty":
		to.PresencePenalty = from.PresencePenalty
	case "seed":
		to.Seed = from.Seed
	case "stop":
		to.Stop = from.Stop
	case "reasoning_effort":
		to.ReasoningEffort, to.Thinking = from.ReasoningEffort, from.Thinking
	case "thinking":
		to.Thinking = from.Thinking
	case "response_format":
		to.ResponseFormat = from.ResponseFormat
	case "tool_choice":
		to.ToolChoice = from.ToolChoice
	case "parallel_tool_calls":
		to.ParallelToolCalls = from.ParallelToolCalls
	case "logprobs":
		to.Logprobs = from.Logprobs
	case "prompt_cache_key", "prompt_cache_retention", "service_tier", "betas", "attribution",
		"web_search", "max_uses", "user_location", "search_context_size": // in Caller
	default:
		panic("a parameter without a place: " + name)
	}
}

// pin unseals the opaque data in the caller's messages. Only the target that made such
// data understands it. So if the target that made the newest data is among targets, pin
// returns this target alone; pinned reports whether it left out others. It removes the
// data of other targets from the messages, and names their paths as ignored.
func pin(sealer dialect.Sealer, targets []invoke.Target, request *dialect.Call) (to []invoke.Target, pinned bool) {
	made := unseal(sealer, request.Turns)
	at := -1
	for _, m := range slices.Backward(made) {
		if at = slices.IndexFunc(targets, func(t invoke.Target) bool { return t.String() == m.origin }); at >= 0 {
			break
		}
	}
	last := -1
	for _, m := range made {
		if at >= 0 && m.origin == targets[at].String() {
			continue
		}
		turn := &request.Turns[m.turn]
		turn.Parts[m.part].Opaque = ""
		if m.turn != last {
			last = m.turn
			where := request.Turn(m.turn)
			if request.TurnParams == nil {
				where += ".reasoning_details"
			}
			request.Ignore(where)
		}
	}
	for i := range request.Turns {
		m := &request.Turns[i]
		m.Parts = slices.DeleteFunc(m.Parts, func(p providers.Part) bool {
			return p.Kind == providers.PartThinking && p.Text == "" && p.Opaque == ""
		})
	}
	if at < 0 {
		return targets, false
	}
	return targets[at : at+1 : at+1], len(targets) > 1
}

// sealer returns the sealer of the opaque data that providers want back. Its key is the
// trace key.
func (w *Workspace) sealer() dialect.Sealer { return w.ids.Load().hasher.Append }

// withOwnData returns the turns with copies of the parts that unseal and pin change.
func withOwnData(turns []providers.Message) []providers.Message {
	changes := func(p providers.Part) bool { return p.Opaque != "" || p.Kind == providers.PartThinking }
	var own []providers.Message
	for i := range turns {
		if !slices.ContainsFunc(turns[i].Parts, changes) {
			continue
		}
		if own == nil {
			own = slices.Clone(turns)
		}
		own[i].Parts = slices.Clone(turns[i].Parts)
	}
	if own == nil {
		return turns
	}
	return own
}

// madeBy is the place of a part with opaque data, and the target that made the data.
type madeBy struct {
	turn, part int
	origin     string // the target; empty if the data is not sealed
}

// unseal unseals the opaque data of the turns, and returns the parts that have any.
func unseal(sealer dialect.Sealer, turns []providers.Message) (made []madeBy) {
	for i := range turns {
		for j := range turns[i].Parts {
			p := &turns[i].Parts[j]
			if p.Opaque == "" {
				continue
			}
			m := madeBy{turn: i, part: j}
			m.origin, p.Opaque, _ = sealer.Unseal(p.Opaque)
			made = append(made, m)
		}
	}
	return made
}

// distinctCalls gives tool calls another id whose id an earlier call of the conversation
// has, as calls of older conversations do: providers take an id once. Their results get
// it too. Each belongs to the first call of the message before it that has its id and no
// result yet.
//
// For example, the ids call_1, call_2, call_1 become call_1, call_2, call_1_2. What comes
// later changes none of them, so that the messages stay in the provider's cache.
func distinctCalls(turns []providers.Message) {
	type named struct{ from, to string }
	var seen map[string]int // of each id: the last number that was tried with it
	var open []named        // the calls of the last message of the assistant, without a result
	for i := range turns {
		m := &turns[i]
		if m.Role == "assistant" {
			open = open[:0]
		}
		for j := range m.Parts {
			switch p := &m.Parts[j]; p.Kind {
			case providers.PartToolCall:
				if seen == nil {
					seen = make(map[string]int)
				}
				id := p.Call.ID
				for n := seen[id]; seen[p.Call.ID] > 0; n++ {
					p.Call.ID = id + "_" + strconv.Itoa(n+1)
					seen[id] = n + 1
				}
				seen[p.Call.ID] = 1
				open = append(open, named{id, p.Call.ID})
			case providers.PartToolResult:
				if at := slices.IndexFunc(open, func(c named) bool { return c.from == p.Result.Call }); at >= 0 {
					p.Result.Call = open[at].to
					open = slices.Delete(open, at, at+1)
				}
			}
		}
	}
}

// blamed returns the path of what the caller brings and a provider calls invalid, or no
// target has. It is empty if the definition brings it, or nobody knows what it is. The
// caller's tools follow the definition's.
func blamed(failure *invoke.Error, request *dialect.Call, targets []invoke.Target) string {
	switch failure.Member {
	case "":
		return ""
	case invoke.MemberMedia:
		if !bringsParts(request) {
			return ""
		}
		return request.TurnsParam
	case invoke.MemberMessages:
		return request.TurnsParam
	}
	if request.Embedding != nil && failure.Member == "dimensions" && request.Embedding.Dimensions > 0 {
		return failure.Member
	}
	for _, given := range request.Given {
		tools := len(request.Parameters.Tools)
		switch {
		case given.Name == "web_search" && failure.Member == "tools" && len(targets[0].Parameters.Tools) == 0:
			return given.Param
		case given.Name != failure.Member:
		case given.Name != "tools" || failure.Lacks != "":
			return given.Param
		case failure.Tool > 0 && failure.Tool <= tools:
			return request.ToolParams[tools-failure.Tool]
		case failure.Tool == 0 && tools == len(targets[0].Parameters.Tools):
			return given.Param
		}
	}
	return ""
}

// bringsParts reports whether the caller's messages have an image, a sound or a file, or
// a tool's result, which may have one.
func bringsParts(request *dialect.Call) bool {
	return slices.ContainsFunc(request.Turns, func(m providers.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p providers.Part) bool {
			switch p.Kind {
			case providers.PartImage, providers.PartAudio, providers.PartFile, providers.PartToolResult:
				return true
			}
			return false
		})
	})
}

// callID returns the id of the answer's call n, from 0, for a call whose provider gives
// none. Clients drop calls and results whose id they have seen before, so it is unique in
// any conversation: call_, the second half of the trace id, and the number from 1, as in
// call_94560123456789ab_1. It is short enough for every provider.
func (i *invocation) callID(n int) string {
	id := i.answer.TraceID
	return "call_" + id[19:23] + id[24:] + "_" + strconv.Itoa(n+1)
}

// sealedCalls returns the tool calls with their ids and sealed opaque data. It removes the
// data for callers that can't send a history back.
func (i *invocation) sealedCalls(calls []providers.ToolCall) []providers.ToolCall {
	if !slices.ContainsFunc(calls, func(c providers.ToolCall) bool { return c.Opaque != "" || c.ID == "" }) {
		return calls
	}
	calls = slices.Clone(calls)
	for n := range calls {
		if calls[n].ID == "" {
			calls[n].ID = i.callID(n)
		}
		if calls[n].Opaque = i.workspace.sealer().Seal(i.origin, calls[n].Opaque); !i.thinks {
			calls[n].Opaque = ""
		}
	}
	return calls
}

func (i *invocation) sealedThoughts(thoughts []providers.Thought) []providers.Thought {
	if !slices.ContainsFunc(thoughts, func(t providers.Thought) bool { return t.Opaque != "" }) {
		return thoughts
	}
	thoughts = slices.Clone(thoughts)
	for n := range thoughts {
		thoughts[n].Opaque = i.workspace.sealer().Seal(i.origin, thoughts[n].Opaque)
	}
	return thoughts
}

// ownSearch reports whether callers of the route's API send what a search left back as it is.
func (i *invocation) ownSearch(f *providers.Found) bool {
	switch i.route.dialect {
	case messages.Dialect:
		return f.API == providers.APIMessages
	case responses.Dialect:
		return f.API == providers.APIResponses
	}
	return false
}

// searched returns the thoughts of an answer, among them what searches left for a history of
// another API than theirs, and what they found.
func (i *invocation) searched(thoughts []providers.Thought, found []providers.Found) ([]providers.Thought, []providers.Found) {
	found = slices.Clone(found)
	more := 0
	for n := range found {
		f := &found[n]
		if f.Thoughts += more; f.Opaque != "" && !i.ownSearch(f) {
			// Thoughts that are too large are not kept.
			f.Thoughts = min(f.Thoughts, len(thoughts))
			thoughts = slices.Insert(slices.Clip(thoughts), f.Thoughts, providers.Thought{Opaque: f.Opaque})
			more++
			f.Thoughts++
		}
	}
	return thoughts, found
}

// seal seals the opaque data of a piece of the answer, and gives calls their ids.
func (i *invocation) seal(d *providers.Delta) {
	if f := d.Found; f != nil && f.Opaque != "" && !i.ownSearch(f) {
		d.Thought = &providers.Thought{Opaque: f.Opaque}
	}
	if d.Thought != nil && d.Thought.Opaque != "" {
		d.Thought = &providers.Thought{Text: d.Thought.Text, Opaque: i.workspace.sealer().Seal(i.origin, d.Thought.Opaque)}
	}
	begins := func(p *providers.CallPiece) bool { return p.ID == "" && p.Name != "" }
	if slices.ContainsFunc(d.Calls, func(p providers.CallPiece) bool { return p.Opaque != "" || begins(&p) }) {
		d.Calls = slices.Clone(d.Calls)
		for n := range d.Calls {
			p := &d.Calls[n]
			if p.Opaque = i.workspace.sealer().Seal(i.origin, p.Opaque); begins(p) {
				p.ID = i.callID(p.Index)
			}
		}
	}
}

// noteBrought adds notes of the caller's messages, tools and parameters. The notes have
// names and counts only, so every log policy may keep them.
func noteBrought(notes []string, request *dialect.Call) []string {
	if n := len(request.Turns); n > 0 {
		notes = append(notes, "caller: messages: "+strconv.Itoa(n))
	}
	var names []string
	for _, given := range request.Given {
		if given.Name == "tools" {
			notes = append(notes, "caller: tools: "+strconv.Itoa(len(request.Parameters.Tools)))
			continue
		}
		names = append(names, given.Name)
	}
	if len(names) > 0 {
		notes = append(notes, "caller: parameters: "+strings.Join(names, ", "))
	}
	return notes
}

// nameIgnored sets the header that lists the members of the request that had no effect: by
// their paths, and so many more.
func (in *incoming) nameIgnored(paths []string, more int) {
	if len(paths) > 0 {
		in.w.Header()[wire.HeaderIgnored] = []string{wire.Ignored(paths, more)}
	}
}

// leftOut returns the paths of the members that had no effect: request.Ignored, the
// caller's parameters that the answering provider lacks, the caller's messages of whose
// results it was not shown all media, and the members of media that it lacks, by their
// message. names are these, as in providers.Result, and messages those that the provider
// got.
func leftOut(request *dialect.Call, messages []providers.Message, names []string) []string {
	paths := request.Ignored
	for _, name := range names {
		at, ok := providers.MessageOfMedia(name)
		if !ok || at >= len(messages) {
			continue
		}
		// Not all of the caller's messages go to a provider, and not its alone, but each
		// keeps its parts.
		if i := slices.IndexFunc(request.Turns, func(m providers.Message) bool {
			return len(m.Parts) > 0 && len(messages[at].Parts) > 0 && &m.Parts[0] == &messages[at].Parts[0]
		}); i >= 0 {
			paths = append(paths, request.Turn(i))
		}
	}
	for i := range request.Turns {
		for _, name := range names {
			if hasMember(request.Turns[i].Parts, name) {
				member, _, _ := strings.Cut(name, " ")
				paths = append(paths, request.Turn(i)+"."+member)
			}
		}
	}
	if slices.Contains(names, "cache_control") {
		paths = append(paths, request.Marks...)
	}
	if slices.Contains(names, "web_search_results") {
		paths = append(paths, request.Search.History...)
	}
	for _, given := range request.Given {
		if slices.Contains(names, given.Name) {
			paths = append(paths, given.Param)
		}
	}
	return paths
}

// hasMember reports whether media among parts, or in results among them, have the member
// that a provider left out.
func hasMember(parts []providers.Part, name string) bool {
	return slices.ContainsFunc(parts, func(p providers.Part) bool {
		m := &p.Media
		return name == "detail" && m.Detail != "" && m.Detail != "auto" ||
			m.Name != "" && (name == "filename" || name == "filename of a URL" && m.URL != "") || hasMember(p.Result.Content, name)
	})
}

// addUser copies the request's user into the metadata. If the metadata has another user
// already, the request's user is listed as ignored.
func (in *incoming) addUser(request *dialect.Call) {
	if request.User == "" {
		return
	}
	if user := in.metadata.Get("user"); user != nil {
		if user.Type() != fastjson.TypeString || string(user.GetStringBytes()) != request.User {
			request.Ignore(request.UserParam)
		}
		return
	}
	var arena fastjson.Arena
	before := in.metadata
	if before == nil || before == in.context {
		// The metadata is the context too, which rules match: the copy leaves it as it is.
		in.metadata = arena.NewObject()
		before.GetObject().Visit(func(name []byte, v *fastjson.Value) { in.metadata.Set(string(name), v) })
	}
	in.metadata.Set("user", arena.NewString(request.User))
}

// ofPrompt makes an error of the variables name those of a prompt at OpenAI, if the
// request has them there.
func ofPrompt(err *wire.Error, request *dialect.Call) *wire.Error {
	if request.EndpointParam == "prompt.id" {
		err.Param = "prompt." + err.Param
		err.Message = strings.Replace(err.Message, "\"variables", "\"prompt.variables", 1)
	}
	return err
}

// ofMetadata makes an error of the context name the metadata, if the request's metadata
// is its context.
func ofMetadata(err *wire.Error, request *dialect.Call) *wire.Error {
	if request.Context != nil && request.Context == request.Metadata {
		err.Param = strings.Replace(err.Param, "context", "metadata", 1)
		err.Message = strings.Replace(err.Message, "context", "metadata", 1)
	}
	return err
}
