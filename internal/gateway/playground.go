package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/native"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Play is what a visitor of the console tries in the playground.
type Play struct {
	// Endpoint is the key of the endpoint to call, or Prompt that of a prompt alone.
	Endpoint string `json:"endpoint,omitempty"`
	Prompt   string `json:"prompt,omitempty"`
	// Variant is the prompt's variant. Default: the one that the context decides.
	Variant string `json:"variant,omitempty"`
	// Texts replace the texts of the variant's messages, by their index, without being
	// saved. Null leaves a text as it is.
	Texts []*string `json:"texts,omitempty"`
	// Target is PROVIDER/MODEL of one target of the definitions, which is asked alone.
	// Default: the endpoint's own targets.
	Target string `json:"target,omitempty"`
	// Context, Variables and Messages are those of a request to the endpoint.
	Context   json.RawMessage `json:"context,omitempty"`
	Variables json.RawMessage `json:"variables,omitempty"`
	Messages  json.RawMessage `json:"messages,omitempty"`
	// Stream has the answer come as server-sent events.
	Stream bool `json:"stream,omitempty"`
	// DryRun asks what the call would be, and calls no model.
	DryRun bool `json:"dry_run,omitempty"`
}

// Played is how a call of the playground went.
type Played struct {
	TraceID   string          `json:"trace_id,omitempty"` // empty: it leaves no trace
	Variant   string          `json:"variant"`
	Row       string          `json:"row,omitempty"` // of the prompt's table; empty: the default
	Target    string          `json:"target"`
	Content   string          `json:"content,omitempty"`    // a stream has sent it
	ToolCalls json.RawMessage `json:"tool_calls,omitempty"` // so are these
	Finish    string          `json:"finish_reason,omitempty"`
	// The tokens and the cost are those of all attempts. Cost is null if the target has no
	// price.
	PromptTokens     int64    `json:"prompt_tokens"`
	CompletionTokens int64    `json:"completion_tokens"`
	Estimated        bool     `json:"estimated,omitempty"`
	Cost             *float64 `json:"cost_usd"`
	FirstToken       float64  `json:"first_token_ms,omitempty"` // of a stream
	Took             float64  `json:"took_ms"`
	// Code and Error are why the call failed.
	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"`

	// Of a dry run: the most that an attempt may use, as limits set it aside. Targets are
	// all that may be asked.
	Targets    []string `json:"targets,omitempty"`
	MostTokens int64    `json:"most_tokens,omitempty"`
	MostCost   *float64 `json:"most_cost_usd,omitempty"`
}

// playRoute is the route of endpoints, under whose limits the playground calls.
var playRoute, _ = find("/v1/endpoints")

// PlaysAs returns the name under which a visitor with an API key of that name calls.
func PlaysAs(key string) string { return trace.ConsoleKey + key }

// Play calls an endpoint for the visitor whose API key has the name by: under the limits of
// PlaysAs(by), recorded as any call, with the request's values of the key. The call ends
// with ctx. A stream goes to out as that of the native API, without what comes after its
// last event. The error is of a request that called no model and has no trace; nothing was
// written then.
func (w *Workspace) Play(ctx context.Context, out http.ResponseWriter, by string, p *Play) (played Played, err *wire.Error) {
	g, answer := w.gateway, &playAnswer{ResponseWriter: out, began: time.Now()}
	if !p.Stream {
		answer.ResponseWriter = &bufferedAnswer{header: make(http.Header)}
	}
	defer func() {
		problem := recover()
		switch {
		case problem == http.ErrAbortHandler:
			panic(problem)
		case problem != nil:
			g.logPanic(playRoute, problem)
			err = panicked()
		}
		if err != nil && (answer.wrote || err.TraceID != "") {
			played.Code, played.Error, err = err.Name, err.Message, nil
		}
	}()
	if err := g.notStarted(ctx); err != nil {
		return played, err
	}
	snapshot := w.Source.Snapshot()
	endpoint, err := w.played(snapshot, p)
	if err != nil {
		return played, err
	}
	r, err := p.request(ctx, endpoint.Key)
	if err != nil {
		return played, err
	}

	c := calls.Get().(*call)
	defer c.release()
	c.w, c.r, c.gateway, c.workspace, c.route, c.began, c.snapshot = answer, r, g, w, playRoute, answer.began, snapshot
	c.key = g.playing(w, by)
	c.body = wire.AcquireRequest()
	w.Store.leases.acquire()
	w.Memory.leases.acquire()
	defer w.Memory.leases.release()
	defer w.Store.leases.release()
	c.info = &requestInfo{route: playRoute.name}
	c.info.identify(c.key)
	c.findSpan()
	if err := c.body.ReadBody(answer, r, playRoute.bodyLimit(w), 0, playRoute.copies(), c.reserve); err != nil {
		return played, err
	}
	defer w.forgetTargets(snapshot, endpoint)
	err = c.play(endpoint, p, &played)
	played.Took = time.Since(answer.began).Seconds() * 1000
	if p.Stream && answer.wrote {
		played.FirstToken = answer.first.Seconds() * 1000
	}
	if buffered, ok := answer.ResponseWriter.(*bufferedAnswer); ok && buffered.Len() > 0 {
		var said struct {
			Content   string          `json:"content"`
			ToolCalls json.RawMessage `json:"tool_calls"`
		}
		_ = json.Unmarshal(buffered.Bytes(), &said) // the gateway wrote it
		played.Content, played.ToolCalls = said.Content, said.ToolCalls
	}
	return played, err
}

// playing returns the caller of a visitor's calls. It has the values of the context that
// the visitor's key is bound to.
func (g *Gateway) playing(w *Workspace, by string) *principal {
	p := &principal{digest: sha256.Sum256([]byte(w.Name + "\x00" + PlaysAs(by))), name: PlaysAs(by), workspace: w}
	if key := g.keys.named(w.Name, by); key != nil {
		p.bound = key.bound
	}
	return p
}

// played returns the endpoint as a play calls it.
func (w *Workspace) played(s *definition.Snapshot, p *Play) (*definition.Endpoint, *wire.Error) {
	var endpoint *definition.Endpoint
	switch {
	case (p.Endpoint == "") == (p.Prompt == ""):
		return nil, wire.Errorf(wire.InvalidRequest, "endpoint", "Name an endpoint, or a prompt.")
	case p.Endpoint != "":
		if endpoint = s.Endpoints[p.Endpoint]; endpoint == nil {
			return nil, wire.Errorf(wire.UnknownEndpoint, "endpoint", "There is no endpoint %s.", printable(p.Endpoint))
		}
		if endpoint.Embedding != nil {
			return nil, wire.Errorf(wire.InvalidRequest, "endpoint", "The endpoint %s makes vectors: ask it by POST /v1/embeddings.", printable(p.Endpoint))
		}
	default:
		prompt := s.Prompts[p.Prompt]
		if prompt == nil {
			return nil, wire.Errorf(wire.NotFound, "prompt", "There is no prompt %s.", printable(p.Prompt))
		}
		endpoint = prompt.Alone()
	}
	provider, model, err := w.playTarget(s, p.Target)
	switch {
	case err != nil:
		return nil, err
	case p.Variant != "" && variantOf(endpoint.Prompt, p.Variant) == nil:
		return nil, wire.Errorf(wire.InvalidRequest, "variant", "The prompt %s has no variant %s.", endpoint.Prompt.Key, printable(p.Variant))
	case p.Variant == "" && len(p.Texts) > 0:
		return nil, wire.Errorf(wire.InvalidRequest, "texts", "Texts are those of a variant: name it.")
	}
	played, problem := endpoint.Played(provider != "", func(v *definition.Variant) (_ *definition.Variant, err error) {
		changed := v
		if provider != "" {
			changed = endpoint.Aimed(v, provider, model)
		}
		if v.Key == p.Variant {
			return endpoint.Prompt.Edited(changed, p.Texts)
		}
		return changed, nil
	})
	if problem != nil {
		return nil, wire.Errorf(wire.InvalidRequest, "texts", "%v", problem)
	}
	return played, nil
}

// playTarget finds a target among those that endpoints name and that are configured.
func (w *Workspace) playTarget(s *definition.Snapshot, name string) (provider, model string, err *wire.Error) {
	if name == "" {
		return "", "", nil
	}
	for _, t := range w.callTargets(s).named {
		if w.Providers[t.Provider] != nil && targetName(t.Provider, t.Model) == name {
			return t.Provider, t.Model, nil
		}
	}
	return "", "", wire.Errorf(wire.InvalidRequest, "target", "No endpoint of the workspace has the target %s, or its provider is not configured.", printable(name))
}

func targetName(provider, model string) string {
	t := invoke.Target{Name: provider, Model: model}
	return t.String()
}

// request returns the request for an endpoint that an app would send.
func (p *Play) request(ctx context.Context, key string) (*http.Request, *wire.Error) {
	if p.Variant != "" {
		key += "@" + p.Variant
	}
	body, err := json.Marshal(struct {
		Key       string          `json:"key"`
		Stream    bool            `json:"stream"`
		Context   json.RawMessage `json:"context,omitempty"`
		Variables json.RawMessage `json:"variables,omitempty"`
		Messages  json.RawMessage `json:"messages,omitempty"`
	}{key, p.Stream, p.Context, p.Variables, p.Messages})
	if err != nil {
		return nil, wire.Errorf(wire.InvalidJSON, "", "context, variables and messages must be JSON: %v", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, playRoute.path, bytes.NewReader(body))
	if err != nil {
		return nil, panicked() // the path is legal
	}
	return r, nil
}

// play takes the request through the phases of a call.
func (c *call) play(endpoint *definition.Endpoint, p *Play, played *Played) (err *wire.Error) {
	if !p.DryRun {
		if err := c.admitEarly(); err != nil {
			return err
		}
	}
	q := asked{call: c, endpoint: endpoint}
	if q.brought, c.writer, err = dialect.Parse(native.Dialect, c.body); err != nil {
		return err
	}
	q.context, q.metadata, q.variables = q.brought.Context, q.brought.Metadata, q.brought.Variables
	q.brought.Endpoint, c.info.endpoint = endpoint.Key, endpoint
	if err := c.admitLate(endpoint.Key, true); err != nil {
		return err
	}
	distinctCalls(q.brought.Turns)
	if err := c.checkBrought(endpoint, q.brought); err != nil {
		return err
	}
	plan, err := q.plan()
	if err != nil {
		return err
	}
	played.Variant = plan.variant.Key
	played.Row = rowOf(endpoint.Prompt.Table(), plan.decision)
	if plan.variant.Provider == "" {
		return wire.Errorf(wire.InvalidRequest, "target", "The variant %s names no target: choose one.", plan.variant.Key)
	}
	if err := refuseAddresses(plan.messages); err != nil {
		return err
	}
	if p.DryRun {
		c.weighPlay(&plan, played)
		return nil
	}
	entered, err := plan.enter()
	if err != nil {
		return err
	}
	i, err := entered.begin()
	if err != nil {
		return err
	}
	if i.policy != definition.LogNone {
		played.TraceID = c.info.traceID[0]
		if slices.ContainsFunc(p.Texts, func(text *string) bool { return text != nil }) {
			i.record.Notes = append(i.record.Notes, "playground: texts that are not saved")
		}
		if p.Target != "" {
			i.record.Notes = append(i.record.Notes, "playground: "+p.Target+" was asked for")
		}
		if p.Prompt != "" {
			i.record.Notes = append(i.record.Notes, "playground: the prompt without an endpoint")
		}
	}
	err = i.run(entered.question).err
	played.describe(c.workspace, c.info.ended())
	if err != nil {
		err.TraceID = cmp.Or(err.TraceID, c.info.traceID[0]) // it went on after its trace began
	}
	return err
}

// describe takes over how a call ended.
func (p *Played) describe(w *Workspace, info *callInfo) {
	p.Finish, p.Code, p.Estimated = info.finish, info.code, info.estimated
	p.PromptTokens, p.CompletionTokens = info.prompt, info.completion
	if info.provider != "" {
		p.Target = targetName(info.provider, info.model)
	}
	if info.cost > 0 || w.priced(info.provider, info.model) {
		p.Cost = &info.cost
	}
}

// weighPlay finds the most that an attempt of a planned call may use.
func (c *call) weighPlay(plan *plan, played *Played) {
	prompt := invoke.TightTokens(plan.messages, nil)
	priced, most := true, 0.0
	for i := range plan.targets {
		t := &plan.targets[i]
		a := c.workspace.mostOf(t, prompt+t.Beside(invoke.TightTokens))
		played.Targets = append(played.Targets, t.String())
		played.MostTokens = max(played.MostTokens, a.Of(limit.Tokens))
		most = max(most, float64(a.Of(limit.Money))/limit.Dollar)
		priced = priced && c.workspace.priced(t.Name, t.Model)
	}
	if priced {
		played.MostCost = &most
	}
}

// priced reports whether it is known what a target costs. A provider that calls no host,
// such as canned, costs nothing.
func (w *Workspace) priced(provider, model string) bool {
	return w.hosts[provider] == "" || w.prices.Find(provider, w.hosts[provider], model) != nil
}

// refuseAddresses refuses media that a provider would fetch: a visitor's text must not have
// it open an address.
func refuseAddresses(messages []providers.Message) *wire.Error {
	for i := range messages {
		for j := range messages[i].Parts {
			part := &messages[i].Parts[j]
			if part.Media.URL != "" || slices.ContainsFunc(part.Result.Content, func(p providers.Part) bool { return p.Media.URL != "" }) {
				return wire.Errorf(wire.InvalidRequest, "messages", "The playground sends no media by address. Send it as a data: URL.")
			}
		}
	}
	return nil
}

// forgetTargets drops the targets that were prepared for an endpoint of one play.
func (w *Workspace) forgetTargets(s *definition.Snapshot, endpoint *definition.Endpoint) {
	lists := &w.callTargets(s).lists
	lists.Range(func(way, _ any) bool {
		if endpoint.Calls(way.(wayToCall).how) {
			lists.Delete(way)
		}
		return true
	})
}

// playAnswer notes when the first bytes of an answer are written.
type playAnswer struct {
	http.ResponseWriter
	began time.Time
	first time.Duration
	wrote bool
}

func (a *playAnswer) Write(text []byte) (int, error) {
	if !a.wrote {
		a.wrote, a.first = true, time.Since(a.began)
	}
	return a.ResponseWriter.Write(text)
}

// Unwrap is for http.ResponseController.
func (a *playAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// bufferedAnswer keeps an answer in one piece.
type bufferedAnswer struct {
	header http.Header
	bytes.Buffer
}

func (b *bufferedAnswer) Header() http.Header { return b.header }
func (b *bufferedAnswer) WriteHeader(int)     {}
