package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/native"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// statusClientGone is the status recorded for a call whose caller left before the
// answer was complete. It is never sent. nginx uses the same number.
const statusClientGone = 499

// endpoint answers a request for an endpoint: whole or as a stream.
func (c *call) endpoint() outcome {
	endpoint, request, err := c.parseCall()
	if err != nil {
		return refused(err)
	}
	c.nameEnd(endpoint)
	if endpoint.Idempotency && !request.Stream {
		if o := c.replayed(); o.end != underway {
			return o
		}
	}
	p, err := c.plan(endpoint, request)
	if err != nil {
		return refused(err)
	}
	besideSize, err := c.pickBeside(request.RemoteConfigs)
	if err != nil {
		return refused(err)
	}
	question, err := c.enterCall(endpoint, &p, request)
	if err != nil {
		return refused(err)
	}
	// The writers of other APIs repeat parts of the request.
	keep := brings(request) || c.route.dialect != native.Dialect
	if err := c.holdMessages(p.messages, c.logs(&endpoint.Definition), keep); err != nil {
		return refused(err)
	}
	c.beginDecision(1 + len(c.picked))
	record := c.newCallRecord(endpoint, &p, request)
	extra := c.buildBeside(besideSize)
	c.nameIgnored(request.Ignored)
	if err := c.holdCall(p.messages, record, len(extra.member), keep); err != nil {
		trace.ReleaseRecord(record)
		return refused(err)
	}

	// An upstream call ends with its caller and with the grace period, but it
	// outlives a reload: so it does not use Caddy's context, which a reload ends.
	ctx, cancel := context.WithCancelCause(c.r.Context())
	defer cancel(nil)
	defer context.AfterFunc(c.gateway.exiting, func() { cancel(errShutdown) })()

	c.setHeaders(record.ID)
	i := c.newInvocation(endpoint, &p, request, record)
	i.beside, i.keep = extra, keep
	defer i.trace(endpoint, p.decision, p.chosen)()
	if extra.member != nil {
		i.answer.Beside = i.give
	}
	if i.ttl > 0 {
		if o := i.remembered(ctx, question); o.end != underway {
			return o
		}
		// Wakes the requests that wait for this answer if the call returns without
		// one.
		defer i.lead.Abandon()
		if err := i.enterAsLead(); err != nil {
			return refused(err)
		}
	}
	// After a crash from here on, the trace shows the call as interrupted.
	if i.policy != definition.LogNone {
		c.workspace.Store.Recorder.Start(ctx, record)
	}
	if request.Stream {
		return i.stream(ctx)
	}
	return i.whole(ctx)
}

// enterCall sets aside what the call may use and counts it in flight, or refuses it. A
// call whose answer may be remembered uses nothing before it is known that it is not: see
// enterAsLead. Its question is returned.
func (c *call) enterCall(endpoint *definition.Endpoint, p *plan, request *dialect.Call) (question cache.Question, err *wire.Error) {
	if p.policy.CacheTTL <= 0 {
		if err := c.afford(p.targets, p.messages); err != nil {
			return question, err
		}
		return question, c.enter(p.targets)
	}
	question = c.question(endpoint, p.policy, p.variant, p.messages, request, p.targets)
	// A remembered answer needs no call. A request that waits for the same question's
	// call counts as a call itself: it holds a connection meanwhile.
	if c.workspace.Memory.answers.Remembers(question) {
		return question, nil
	}
	return question, c.enter(nil)
}

// enterAsLead is enterCall for a request that asks a model itself, because no answer to
// its question is remembered: only such a one uses tokens and money.
func (i *invocation) enterAsLead() *wire.Error {
	err := i.afford(i.request.Targets, i.request.Messages)
	if err == nil && !i.entered {
		// The remembered answer has expired meanwhile.
		err = i.enter(nil)
	}
	switch {
	case err == nil:
		i.request.Purse = i.purse()
	case err.Limit != "":
		// As without a cache, it leaves no trace.
		trace.ReleaseRecord(i.record)
		i.forgetHeaders()
	default:
		i.finish(noResult, err.Status, err.Name)
		told := *err // which others are told, too
		told.TraceID = i.info.traceID[0]
		err = &told
	}
	return err
}

// newCallRecord returns the record of a call that begins.
func (c *call) newCallRecord(endpoint *definition.Endpoint, p *plan, request *dialect.Call) *trace.Record {
	record := c.newRecord(trace.KindEndpoint, &endpoint.Definition, endpoint.Prompt.Table(), p.decision)
	record.Variant, record.Arm = p.variant.Key, p.variant.Key
	record.Prompt, record.PromptVersion = endpoint.Prompt.Key, endpoint.Prompt.Version
	c.addChoice(record, endpoint, p.policy, p.chosen)
	first := likelyTarget(p.targets)
	record.Provider, record.Model = first.Name, first.Model
	c.noteAlias(record, &endpoint.Definition, request.Endpoint)
	c.noteVariables(record, &endpoint.Definition)
	policy := c.logs(&endpoint.Definition)
	if policy == definition.LogContent {
		addMessages(record, p.messages, c.recorded)
	}
	c.recordEvidence(record)
	if policy != definition.LogNone {
		record.Notes = noteBrought(record.Notes, request)
		if p.pinned {
			record.Notes = append(record.Notes, "caller: data of "+first.String()+": asked alone")
		}
	}
	c.addRequest(record, policy)
	c.workspace.redactRequest(record)
	return record
}

// newInvocation returns a call that is ready to be made.
func (c *call) newInvocation(endpoint *definition.Endpoint, p *plan, request *dialect.Call, record *trace.Record) *invocation {
	policy := c.logs(&endpoint.Definition)
	i := &invocation{
		call: c, record: record, policy: policy, ttl: p.policy.CacheTTL, brought: request, pinned: p.pinned,
		thinks: c.route.dialect != native.Dialect || endpoint.Accept.History,
		request: &invoke.Call{
			Targets:   p.targets,
			Messages:  p.messages,
			Stream:    request.Stream,
			Pieces:    request.Stream && c.writer.Pieces(),
			Policy:    policyOf(p.policy),
			InFlight:  &c.gateway.process.calls,
			HostLimit: c.atHost(),
			Terse:     policy == definition.LogNone,
			Changed:   c.workspace.targetChanged,
			Purse:     c.purse(),
		},
	}
	key := request.Endpoint
	if p.named {
		key += "@" + p.variant.Key
	}
	i.answer = dialect.Answer{TraceID: c.info.traceID[0], Key: key, Time: c.began, Revision: c.snapshot.Revision}
	return i
}

// invocation is one call of an endpoint on its way to the caller.
type invocation struct {
	*call
	record  *trace.Record
	request *invoke.Call
	policy  definition.LogPolicy
	beside  beside
	brought *dialect.Call
	origin  string // the target that answers
	keep    bool   // the request's buffers are kept: the messages are views of them
	pinned  bool   // the caller's messages have data of the one target that is asked
	thinks  bool   // the caller gets thoughts, too

	// full is why a stream ends early: there is no room for what its writer keeps.
	full *wire.Error

	// For an endpoint whose answers are cached.
	ttl    time.Duration
	lead   *cache.Lead // not nil: others may wait for this call's answer
	pieces []string    // of the answer
	size   int         // of the answer, in bytes
	lost   bool        // pieces does not have all of the answer

	spans *attemptSpans // nil: the request is not traced
	told  callInfo      // for the request's placeholders
}

// whole answers in one piece.
func (i *invocation) whole(ctx context.Context) outcome {
	var content string
	result, err := i.invoke(ctx, func(d providers.Delta) error {
		content = d.Content
		return nil
	})
	i.keepContent(content)
	if err != nil {
		if failure := i.failed(ctx, result, err); failure != nil {
			return refused(failure)
		}
		return outcome{end: cut}
	}
	i.served(result.Served, len(result.Attempts), result.LeftOut)
	i.remember(content)
	i.answer.Content = content
	i.complete(&result)
	i.nameEstimate()
	i.tell(&result)
	return i.send(result)
}

// nameEstimate sets the header of an answer whose usage is an estimate, where that is
// known before the answer begins.
func (i *invocation) nameEstimate() {
	if i.answer.Estimated {
		i.w.Header()[wire.HeaderUsage] = estimated
	}
}

var estimated = []string{"estimated"}

// adviseRepetition tells the caller what to do if its answer has no room.
const adviseRepetition = "Send the request again."

// send records the call and sends its answer in one piece, unless there is no room
// for it. The answer was paid for: a repetition with the same idempotency key gets
// it in any case.
func (i *invocation) send(result invoke.Result) outcome {
	size := i.writer.Size(&i.answer) + len(i.beside.member)
	full := i.takeRoom(size, adviseRepetition)
	if full == nil || i.reply != nil {
		i.out = i.writer.Answer(slices.Grow(i.out[:0], size), &i.answer)
	}
	if full != nil {
		i.finish(result, full.Status, full.Name)
		i.keepReply(http.StatusOK, "", i.out)
		full.TraceID = i.info.traceID[0]
		return refused(full)
	}
	i.finish(result, http.StatusOK, "")
	i.nameLimits()
	i.write(i.out)
	return outcome{end: answered}
}

// stream answers piece by piece.
func (i *invocation) stream(ctx context.Context) outcome {
	stream, full := i.newStream(0)
	if full != nil {
		return refused(full)
	}
	defer stream.Close()
	defer i.endPanicked(stream)
	gauge := i.workspace.calls.streams
	gauge.Inc()
	defer gauge.Dec()

	i.request.Committed = i.served
	result, err := i.invoke(ctx, func(d providers.Delta) error {
		i.keepContent(d.Content)
		i.remember(d.Content)
		i.lost = i.lost || len(d.Logprobs) > 0
		i.seal(&d)
		i.lead.Writing()
		defer i.lead.Written()
		err := stream.Delta(d, !d.More)
		i.keepHeld() // the first event, which may be large, is sent by now
		if err == nil && i.full != nil {
			return i.full
		}
		return err
	})
	if err == nil {
		if !stream.Started() {
			i.served(result.Served, len(result.Attempts), result.LeftOut) // the answer is empty
		}
		i.complete(&result)
		i.tell(&result)
		// The record comes first: a crash must not mark an answer as interrupted
		// that its caller has seen complete.
		i.finish(result, http.StatusOK, "")
		if stream.Finish() != nil {
			i.workspace.Logger.Debug("a caller left during its stream", zap.String("trace_id", i.info.traceID[0]))
		}
		return outcome{end: answered}
	}
	failure := i.failed(ctx, result, err)
	switch {
	case failure == nil:
		return outcome{end: cut}
	case !stream.Started():
		return refused(failure)
	}
	stream.Fail(failure)
	return outcome{failure, cut}
}

// keepHeld has room for what the stream's writer keeps, and for nothing else.
func (i *invocation) keepHeld() {
	writer, keeps := i.writer.(dialect.Keeper)
	if !keeps {
		i.keepRoom(0)
		return
	}
	held := writer.Held()
	i.keepRoom(held)
	i.full = i.growRoom(held)
}

// invoke calls the model. The request's buffers stay with a provider that may still
// read them: one that was abandoned, or panicked.
func (i *invocation) invoke(ctx context.Context, emit func(providers.Delta) error) (invoke.Result, error) {
	request := i.call.request
	i.call.request = nil
	result, err := i.workspace.Memory.engine.Invoke(ctx, i.request, emit)
	if !slices.ContainsFunc(result.Attempts, func(a invoke.Attempt) bool { return a.Abandoned }) {
		i.call.request = request
	}
	return result, err
}

// nameLacking names what the provider that answers has left out of the caller's.
func (i *invocation) nameLacking(lacking []string) {
	if len(lacking) > 0 {
		i.nameIgnored(leftOut(i.brought, lacking))
	}
}

// served sets the headers that name the target that answered, the number of attempts,
// and what its provider has left out of the caller's.
func (i *invocation) served(target, attempts int, lacking []string) {
	h := i.w.Header()
	i.nameLacking(lacking)
	i.origin = i.request.Targets[target].String()
	h[wire.HeaderServedBy] = []string{i.origin}
	h[wire.HeaderAttempts] = []string{strconv.Itoa(attempts)}
}

// complete adds what a result says beside the content to the caller's answer.
func (i *invocation) complete(result *invoke.Result) {
	i.answer.FinishReason, i.answer.Usage, i.answer.Estimated = result.FinishReason, result.Usage, result.Estimated
	i.answer.Refusal, i.answer.Logprobs = result.Refusal, result.Logprobs
	i.answer.ToolCalls = i.sealedCalls(result.ToolCalls)
	if i.thinks {
		i.answer.Thoughts = i.sealedThoughts(result.Thoughts)
	}
	i.keepToolCalls(result.ToolCalls)
}

// keepContent keeps content for the trace if the policy allows it.
func (i *invocation) keepContent(content string) {
	if i.policy == definition.LogContent && len(i.record.Response) < maxKeptResponse {
		i.record.Response = append(i.record.Response, content...)
	}
}

// keepToolCalls keeps tool calls for the trace if the policy allows it. If they are
// too large it keeps none of them: half of the list would not be valid JSON.
func (i *invocation) keepToolCalls(calls []providers.ToolCall) {
	if i.policy != definition.LogContent || len(calls) == 0 {
		return
	}
	list := dialect.AppendToolCalls(i.record.ToolCalls[:0], calls)
	if i.record.ToolCalls = list; len(list) > maxKeptResponse {
		i.record.ToolCalls = nil
	}
}

// maxKeptResponse bounds the part of an answer that its trace keeps, in bytes.
const maxKeptResponse = 1 << 20

// failed records a failed call and returns the caller's error, nil if the caller has
// left.
func (i *invocation) failed(ctx context.Context, result invoke.Result, err error) *wire.Error {
	if full := i.full; full != nil {
		i.finish(result, full.Status, full.Name)
		full.TraceID = i.info.traceID[0]
		return full
	}
	failure, ok := errors.AsType[*invoke.Error](err)
	if !ok {
		failure = &invoke.Error{Code: wire.Internal, Err: err}
	}
	if errors.Is(context.Cause(ctx), errShutdown) {
		return i.shutDown(result)
	}
	if failure.Class == invoke.ClientGone {
		i.finish(result, statusClientGone, string(invoke.ClientGone))
		return nil
	}
	code, param := failure.Code, ""
	if failure.Lacks != "" && bringsParts(i.brought) {
		// No repetition mends it, which libraries would try after a 502.
		code, param = wire.InvalidRequest, i.brought.TurnsParam
	}
	if code != wire.Overloaded {
		i.logFailure(failure, code, len(result.Attempts))
	}
	i.finish(result, code.Status, code.Name)
	message := failure.Message()
	if i.pinned && !failure.Committed {
		message += " No other target was asked, because the history has data (reasoning_details, encrypted_content, signatures) of this one. Without that data any target may answer."
	}
	told := wire.Errorf(code, param, "%s", message)
	told.RetryAfter = failure.RetryAfter
	told.Final = failure.Final || code == wire.UpstreamRateLimited && failure.RetryAfter > longestWait
	if code == wire.RateLimited {
		told = i.limited(i.meter.shortage())
	}
	told.TraceID = i.info.traceID[0]
	if len(result.Attempts) > 0 {
		i.keepFailure(told)
	}
	return told
}

// logFailure logs a failed call. It logs as much of the providers' error messages
// as the trace may keep, because they quote prompts and answers.
func (i *invocation) logFailure(failure *invoke.Error, code wire.Code, attempts int) {
	fields := []zap.Field{
		zap.String("endpoint", i.record.Key), zap.String("trace_id", i.info.traceID[0]),
		zap.String("code", code.Name), zap.String("class", string(failure.Class)), zap.Int("attempts", attempts),
	}
	switch i.policy {
	case definition.LogContent:
		fields = append(fields, zap.String("error", i.workspace.redactor.String(failure.Error())))
	case definition.LogMetadata:
		fields = append(fields, zap.String("error", i.workspace.redactor.String(failure.Brief())))
	}
	i.workspace.Logger.Error("an endpoint failed", fields...)
}

// shutDown ends a call because the gateway stops.
func (i *invocation) shutDown(result invoke.Result) *wire.Error {
	i.finish(result, http.StatusServiceUnavailable, wire.UpstreamInterrupted.Name)
	told := wire.Errorf(wire.Overloaded, "", "The gateway is shutting down. Send the request again.")
	told.TraceID = i.info.traceID[0]
	return told
}

// interrupted ends a call that waited for another call's answer, because its caller
// left or the gateway stops.
func (i *invocation) interrupted(ctx context.Context) outcome {
	if errors.Is(context.Cause(ctx), errShutdown) {
		return refused(i.shutDown(noResult))
	}
	i.finish(noResult, statusClientGone, string(invoke.ClientGone))
	return outcome{end: cut}
}

// noResult is the result of a call that asked no provider.
var noResult = invoke.Result{Served: -1}

// finish records how the call ended.
func (i *invocation) finish(result invoke.Result, status int, code string) {
	record := i.record
	record.Status, record.Code = status, code
	record.Latency, record.FirstToken = time.Since(i.began), result.FirstToken
	if result.Served >= 0 {
		served := &i.request.Targets[result.Served]
		record.Provider, record.Model = served.Name, served.Model
		record.FinishReason = string(result.FinishReason)
		if result.Model != "" {
			record.Model = result.Model
		}
	}
	if n := len(result.Attempts); n > 0 && result.Served < 0 {
		last := &result.Attempts[n-1]
		record.Provider, record.Model = last.Provider, last.Model
	}
	if usage := result.Usage; usage.Counted() && !result.Estimated {
		record.HasUsage = true
		record.PromptTokens, record.CompletionTokens, record.TotalTokens = usage.PromptTokens, usage.CompletionTokens, usage.TotalTokens
	}
	record.Cost = i.workspace.cost(&result)
	i.spend(&result)
	for _, a := range result.Attempts {
		if i.policy != definition.LogNone {
			a.Error = i.errorOf(&a)
		}
		record.Attempts = append(record.Attempts, a.Attempt)
	}
	i.count(&result)
	i.describeEnd(&result)
	if i.policy == definition.LogNone {
		trace.ReleaseRecord(record)
		return
	}
	for _, skipped := range result.Skipped {
		record.Notes = append(record.Notes, "skipped "+i.request.Targets[skipped.Target].String()+": "+skipped.Reason.Error())
	}
	if result.Served >= 0 && len(result.LeftOut) > 0 {
		record.Notes = append(record.Notes, i.request.Targets[result.Served].Name+" has no "+strings.Join(result.LeftOut, ", ")+": left out")
	}
	i.workspace.redactAnswer(record)
	i.workspace.Store.Recorder.End(record)
}

// likelyTarget returns the target that a call will probably ask first, for the
// call's start record. Weights, cool-downs and breakers may choose another.
func likelyTarget(targets []invoke.Target) *invoke.Target {
	for i := range targets {
		if provider := targets[i].Provider; provider != nil && providers.Availability(provider) == nil {
			return &targets[i]
		}
	}
	return &targets[0]
}

// addChoice adds the endpoint's own decision to the record of a call.
func (c *call) addChoice(record *trace.Record, endpoint *definition.Endpoint, how *definition.Policy, chosen rules.Decision) {
	record.EndpointVariant = how.Key
	table := endpoint.Table()
	if table == nil {
		return
	}
	record.EndpointRow = rowOf(table, chosen)
	if c.logs(&endpoint.Definition) != definition.LogNone {
		c.addEvidence(table, chosen)
	}
}

// policyOf returns the bounds of an endpoint's calls.
func policyOf(how *definition.Policy) invoke.Policy {
	return invoke.Policy{
		MaxAttempts: how.MaxAttempts,
		Retries:     how.Retry.Count,
		OnCodes:     how.Retry.OnCodes,
		Total:       how.Timeout.Total,
		FirstToken:  how.Timeout.FirstToken,
		Idle:        how.Timeout.Idle,
		Hedge:       how.HedgeAfter,
	}
}
