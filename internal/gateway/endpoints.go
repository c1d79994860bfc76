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
	"github.com/cadenza-gateway/cadenza/internal/dialect/messages"
	"github.com/cadenza-gateway/cadenza/internal/dialect/native"
	"github.com/cadenza-gateway/cadenza/internal/dialect/responses"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// statusClientGone is the status recorded for a call whose caller left before the
// answer was complete. It is never sent. nginx uses the same number.
const statusClientGone = 499

// endpoint answers a request for an endpoint: whole or as a stream.
func (c *call) endpoint() outcome {
	q, err := c.parseCall()
	if err != nil {
		return refused(err)
	}
	c.nameEnd(q.endpoint)
	if q.endpoint.Idempotency && !q.brought.Stream {
		if o := c.replayed(); o.end != underway {
			return o
		}
	}
	p, err := q.plan()
	if err != nil {
		return refused(err)
	}
	entered, err := p.enter()
	if err != nil {
		return refused(err)
	}
	i, err := entered.begin()
	if err != nil {
		return refused(err)
	}
	return i.run(entered.question)
}

// entered is an admitted call: it counts in flight, its limits have set aside what it may
// use, and the values beside its answer are decided.
type entered struct {
	plan
	question   cache.Question // zero: the endpoint's answers are not cached
	besideSize int            // in bytes
}

// enter sets aside what the call may use and counts it in flight, or refuses it. If the
// answer may be cached, nothing is set aside before the cache has missed: see
// enterAsLead.
func (p plan) enter() (e entered, err *wire.Error) {
	e.plan = p
	if e.besideSize, err = p.eval.pickBeside(p.brought.RemoteConfigs); err != nil {
		return e, err
	}
	if p.policy.CacheTTL <= 0 {
		if err := p.afford(p.targets, p.messages); err != nil {
			return e, err
		}
		return e, p.enterInFlight(p.targets)
	}
	e.question = p.cacheQuestion()
	// A remembered answer needs no call. A request that waits for the same question's
	// call counts as a call itself: it holds a connection meanwhile.
	if p.workspace.Memory.answers.Remembers(e.question) {
		return e, nil
	}
	return e, p.enterInFlight(nil)
}

// enterAsLead is enter for a request whose answer the cache lacks. Only such a request
// asks a model, and uses tokens and money.
func (i *invocation) enterAsLead() *wire.Error {
	err := i.afford(i.request.Targets, i.request.Messages)
	if err == nil && !i.entered {
		// The remembered answer has expired meanwhile.
		err = i.enterInFlight(nil)
	}
	switch {
	case err == nil:
		i.request.Purse = i.meter.purse()
		return nil
	case err.Limit != "":
		// As without a cache, it leaves no trace.
		trace.ReleaseRecord(i.record)
		i.forgetHeaders()
		return err
	default:
		return i.finishRefused(noResult, err)
	}
}

// begin makes the call's ids, its record and the values beside its answer. The request's
// body is not read afterwards.
func (e *entered) begin() (*invocation, *wire.Error) {
	// The writers of other APIs repeat parts of the request in their answers.
	keep := brings(e.brought) || e.route.dialect != native.Dialect
	policy := e.logs(&e.endpoint.Definition)
	if err := e.holdMessages(e.messages, policy, keep); err != nil {
		return nil, err
	}
	a := e.eval.begin(1 + e.eval.tracing)
	record := a.newCallRecord(&e.plan)
	beside := a.buildBeside(e.besideSize)
	a.nameIgnored(e.brought.Ignored, e.brought.MoreIgnored)
	if err := a.holdCall(e.messages, record, len(beside.member), keep); err != nil {
		trace.ReleaseRecord(record)
		return nil, err
	}
	a.setHeaders(record.ID, a.decisionID)
	i := &invocation{
		answers: a, plan: e.plan, record: record, policy: policy, beside: beside, keep: keep,
		thinks: e.route.dialect != native.Dialect || e.endpoint.Accept.History,
		request: &invoke.Call{
			Targets:   e.targets,
			Messages:  e.messages,
			Stream:    e.brought.Stream,
			Pieces:    e.brought.Stream && e.writer.Pieces(),
			Policy:    policyOf(e.policy),
			InFlight:  &e.gateway.process.calls,
			HostLimit: e.atHost(),
			Terse:     policy == definition.LogNone,
			Changed:   e.workspace.targetChanged,
			Purse:     e.meter.purse(),
		},
	}
	key := e.brought.Endpoint
	if e.named && e.brought.Version == "" {
		key += "@" + e.variant.Key
	}
	if e.brought.Embedding != nil {
		i.embedding = newEmbedding(i)
		i.request.Ask = i.embedding.ask
	}
	i.answer = dialect.Answer{TraceID: e.info.traceID[0], Key: key, Time: e.began, Revision: e.snapshot.Revision}
	if e.brought.Compacts {
		i.answer.Seal = func(summary string) string {
			return e.workspace.sealer().Seal(dialect.SummaryOrigin, summary)
		}
	}
	if beside.member != nil {
		i.answer.Extra = i.give
	}
	return i, nil
}

// newCallRecord returns the record of a call that begins.
func (a *answers) newCallRecord(p *plan) *trace.Record {
	d := &p.endpoint.Definition
	record := a.newRecord(d, p.endpoint.Prompt.Table(), p.decision)
	record.Variant, record.Arm = p.variant.Key, p.variant.Key
	record.Prompt, record.PromptVersion = p.endpoint.Prompt.Key, p.endpoint.Prompt.Version
	policy := a.logs(d)
	record.EndpointVariant = p.policy.Key
	if table := p.endpoint.Table(); table != nil {
		record.EndpointRow = rowOf(table, p.chosen)
		if policy != definition.LogNone {
			a.addEvidence(table)
		}
	}
	first := likelyTarget(p.targets)
	record.Provider, record.Model = first.Name, first.Model
	a.noteAlias(record, d, p.brought.Endpoint)
	a.noteVariables(record, d)
	if policy == definition.LogContent {
		addMessages(record, p.messages, a.recorded)
	}
	a.recordEvidence(record)
	if p.named {
		record.Notes = append(record.Notes, trace.NoteVariant+p.variant.Key)
	}
	if policy != definition.LogNone {
		record.Notes = noteBrought(record.Notes, p.brought)
		if p.pinned {
			record.Notes = append(record.Notes, "caller: data of "+first.String()+": asked alone")
		}
	}
	a.addRequest(record, policy, true)
	a.workspace.redactRequest(record)
	return record
}

// invocation is one call of an endpoint on its way to the caller.
type invocation struct {
	*answers
	plan   plan
	policy definition.LogPolicy
	keep   bool // keep the request's buffers: the messages are views of them
	thinks bool // send thoughts to the caller

	record  *trace.Record
	request *invoke.Call
	answer  dialect.Answer // for the writer
	beside  beside
	origin  string      // the target that answers
	full    *wire.Error // why a stream ends early: no room for what its writer keeps
	sharing sharing
	spans   *attemptSpans // nil: the request is not traced
	ended   callInfo      // for the request's placeholders

	embedding *embedding // nil: the request asks for an answer in words
}

// run makes the call, or answers it from an earlier one.
func (i *invocation) run(question cache.Question) outcome {
	// An upstream call ends with its caller and with the grace period, but it
	// outlives a reload: so it does not use Caddy's context, which a reload ends.
	ctx, cancel := context.WithCancelCause(i.r.Context())
	defer cancel(nil)
	defer context.AfterFunc(i.gateway.exiting, func() { cancel(errShutdown) })()

	defer i.trace()()
	if i.plan.policy.CacheTTL > 0 {
		if o := i.remembered(ctx, question); o.end != underway {
			return o
		}
		// Wakes the requests that wait for this answer if the call returns without
		// one.
		defer i.sharing.lead.Abandon()
		if err := i.enterAsLead(); err != nil {
			return refused(err)
		}
	}
	// After a crash from here on, the trace shows the call as interrupted.
	if i.policy != definition.LogNone {
		i.workspace.Store.Recorder.Start(ctx, i.record)
	}
	if i.request.Stream {
		return i.stream(ctx)
	}
	return i.whole(ctx)
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
	if i.embedding != nil {
		i.embedding.complete(&result)
	}
	i.served(result.Served, len(result.Attempts), result.LeftOut)
	i.sharing.add(content)
	i.answer.Content = content
	i.complete(&result)
	i.nameEstimate()
	i.tell(&result)
	return i.send(result)
}

// nameEstimate sets the header of an answer whose usage is an estimate. Only answers in
// one piece and cached answers have it: their usage is known before they begin.
func (i *invocation) nameEstimate() {
	if i.answer.Estimated {
		i.w.Header()[wire.HeaderUsage] = estimated
	}
}

var estimated = []string{"estimated"}

// adviseRepetition ends the error of an answer without room.
const adviseRepetition = "Send the request again."

// send records the call and sends its answer in one piece, unless there is no room
// for it. The answer was paid for: a repetition with the same idempotency key gets
// it in any case.
func (i *invocation) send(result invoke.Result) outcome {
	if i.plan.brought.Compacts && i.answer.Content == "" {
		return refused(i.finishRefused(result, responses.NoSummary()))
	}
	size := i.answer.Size() + len(i.beside.member)
	if keeper, keeps := i.writer.(dialect.Keeper); keeps {
		size += keeper.Held()
	}
	full := i.takeRoom(size, adviseRepetition)
	if full == nil || i.reply != nil {
		i.out = i.writer.Answer(slices.Grow(i.out[:0], size), &i.answer)
	}
	if full != nil {
		err := i.finishRefused(result, full)
		i.keepReply(http.StatusOK, "", i.out)
		return refused(err)
	}
	i.finish(result, http.StatusOK, "")
	i.nameLimits()
	i.keepReply(http.StatusOK, "", i.out)
	i.deliver(http.StatusOK, i.out, time.Now())
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
		i.sharing.add(d.Content)
		i.sharing.lost = i.sharing.lost || len(d.Logprobs) > 0 || d.Found != nil
		i.seal(&d)
		i.sharing.lead.Writing()
		defer i.sharing.lead.Written()
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
	case stream.Started():
	case stream.Refuse(failure):
		return outcome{failure, answered}
	default:
		return refused(failure)
	}
	stream.Fail(failure)
	return outcome{failure, cut}
}

// keepHeld makes the call's room fit what the stream's writer keeps.
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

// invoke calls the model. The request's buffers stay with a provider that panicked,
// which may still read them.
func (i *invocation) invoke(ctx context.Context, emit func(providers.Delta) error) (invoke.Result, error) {
	body := i.body
	i.body = nil
	result, err := i.workspace.Memory.engine.Invoke(ctx, i.request, emit)
	i.body = body
	return result, err
}

// nameLacking names the caller's parameters that the answering provider lacks.
func (i *invocation) nameLacking(lacking []string) {
	if len(lacking) > 0 {
		i.nameIgnored(leftOut(i.plan.brought, i.request.Messages, lacking), i.plan.brought.MoreIgnored)
	}
}

// served sets the headers that name the answering target, the number of attempts, and the
// caller's parameters that its provider lacks.
func (i *invocation) served(target, attempts int, lacking []string) {
	h := i.w.Header()
	i.nameLacking(lacking)
	i.origin = i.request.Targets[target].String()
	h[wire.HeaderServedBy] = []string{i.origin}
	h[wire.HeaderAttempts] = []string{strconv.Itoa(attempts)}
}

// complete adds a result to the caller's answer, except its content.
func (i *invocation) complete(result *invoke.Result) {
	i.answer.FinishReason, i.answer.Usage, i.answer.Estimated = result.FinishReason, result.Usage, result.Estimated
	i.answer.Refusal, i.answer.Refused = result.Refusal, result.Refused
	i.answer.Category, i.answer.Explanation = result.Category, result.Explanation
	i.answer.Logprobs, i.answer.Paused = result.Logprobs, result.Paused
	i.answer.ToolCalls = i.sealedCalls(result.ToolCalls)
	if i.thinks {
		thoughts := result.Thoughts
		if len(result.Found) > 0 {
			thoughts, i.answer.Found = i.searched(thoughts, result.Found)
		}
		i.answer.Thoughts = i.sealedThoughts(thoughts)
	}
	i.keepToolCalls(i.answer.ToolCalls)
}

// keepContent keeps content for the trace if the policy allows it.
func (i *invocation) keepContent(content string) {
	if i.policy == definition.LogContent && len(i.record.Response) < maxKeptResponse {
		i.record.Response = append(i.record.Response, content...)
	}
}

// keepToolCalls keeps tool calls for the trace if the policy allows it. If they are
// too large it keeps no call: half of the list would not be valid JSON.
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
		return i.finishRefused(result, full)
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
	code, message := failure.Code, failure.Message()
	param := blamed(failure, i.plan.brought, i.request.Targets)
	if param != "" {
		// After a 502 libraries would send the request again, which can't help here.
		code = wire.InvalidRequest
		if failure.Lacks == "" {
			message = strconv.Quote(param) + " is not valid to the model provider. Mend it, or leave it out; the gateway's log says more."
		}
	}
	if i.embedding != nil && code == wire.ContextLengthExceeded {
		param, message = i.embedding.tooLong(failure)
	}
	if code != wire.Overloaded {
		i.logFailure(failure, code, len(result.Attempts))
	}
	sent := i.sent(code, failure)
	i.finish(result, sent.Status, sent.Name)
	if i.plan.pinned && !failure.Committed {
		message += " No other target was asked, because the history has data (reasoning_details, encrypted_content, signatures) of this one. Without that data any target may answer."
	}
	refusal := wire.Errorf(sent, param, "%s", message)
	refusal.RetryAfter = failure.RetryAfter
	refusal.Tokens, refusal.Window = failure.Tokens, failure.Window
	refusal.Final = failure.Final || code == wire.UpstreamRateLimited && failure.RetryAfter > longestWait
	if code == wire.RateLimited {
		refusal = i.limited(i.meter.shortage())
	}
	refusal.TraceID = i.info.traceID[0]
	if len(result.Attempts) > 0 {
		i.keepFailure(refusal)
	}
	return refusal
}

// sent returns the code of a failed call as the route's API has it.
func (i *invocation) sent(code wire.Code, failure *invoke.Error) wire.Code {
	switch i.route.dialect {
	case native.Dialect:
		return code
	case messages.Dialect:
		if failure.Overloaded {
			code.Status = wire.StatusOverloaded
		}
	}
	return code.Foreign()
}

// logFailure logs a failed call. Error messages of providers quote prompts and answers,
// so the log gets only as much of them as the trace may keep.
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
	level := zap.ErrorLevel
	if code.Status/100 == 4 {
		level = zap.InfoLevel // the caller's to mend
	}
	i.workspace.Logger.Log(level, "an endpoint failed", fields...)
}

// shutDown ends a call because the gateway stops.
func (i *invocation) shutDown(result invoke.Result) *wire.Error {
	i.finish(result, http.StatusServiceUnavailable, wire.UpstreamInterrupted.Name)
	refusal := wire.Errorf(wire.Overloaded, "", "The gateway is shutting down. Send the request again.")
	refusal.TraceID = i.info.traceID[0]
	return refusal
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

// finishRefused records that the call ended with an error of the gateway's own, and names
// its trace in the error.
func (i *invocation) finishRefused(result invoke.Result, err *wire.Error) *wire.Error {
	i.finish(result, err.Status, err.Name)
	err.TraceID = i.info.traceID[0]
	return err
}

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
	i.meter.spend(&result)
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
