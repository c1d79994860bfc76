package gateway

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/valyala/fastjson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Spans follow the semantic conventions of the version that the import of semconv
// names. Later versions have moved the names for GenAI elsewhere and changed some, so
// a change of the version is a change for users.

// tracerName is the instrumentation scope of all spans.
const tracerName = "github.com/cadenza-gateway/cadenza"

// tracer returns the tracer of the request's span. The gateway uses no global tracer.
func (in *incoming) tracer() oteltrace.Tracer {
	return in.span.TracerProvider().Tracer(tracerName, oteltrace.WithSchemaURL(semconv.SchemaURL))
}

// traced reports whether the spans of the request are kept. A request that was sampled out
// has no spans, and its calls pass that on to the providers.
func (in *incoming) traced() bool { return in.span != nil && in.span.IsRecording() }

// traceDecision adds the span of the request's decision. The span has an event for each
// evaluated table: first the tables of more, then the tables of the picked keys.
func (a *answers) traceDecision(more []decided) {
	if !a.traced() {
		return
	}
	_, span := a.tracer().Start(a.r.Context(), "cadenza.decide", oteltrace.WithTimestamp(a.began), oteltrace.WithAttributes(
		attribute.String("cadenza.workspace", a.workspace.Name),
		attribute.String("cadenza.route", a.route.name),
		attribute.String("cadenza.revision", a.snapshot.Revision),
	))
	defer span.End()
	if !span.IsRecording() {
		return
	}
	if decision := a.info.decisionID[0]; decision != "" {
		span.SetAttributes(attribute.String("cadenza.decision_id", decision))
	}
	traces := 0
	if len(more) > 0 {
		traces = 1 // the tables of a call share a trace
	}
	for i := range more {
		a.addEvaluation(span, &more[i], a.decision.Trace(trace.KindEndpoint, 0))
	}
	for i := range a.picked {
		p := &a.picked[i]
		d := decided{p.definition, p.definition.Table(), p.decision, p.arm()}
		if p.on != nil {
			a.addEvaluation(span, &d, p.on.Trace)
			continue
		}
		a.addEvaluation(span, &d, a.decision.Trace(p.definition.Kind.Trace, traces))
		traces++
	}
}

// decided is a decision of a table.
type decided struct {
	of       *definition.Definition
	table    *rules.Table
	decision rules.Decision
	variant  string // or arm
}

// addEvaluation adds the event of a decision. id is that of the trace that records it. The
// event's provider is the gateway. It has no value, because a value may be anything.
func (a *answers) addEvaluation(span oteltrace.Span, d *decided, id trace.ID) {
	row := rowOf(d.table, d.decision)
	variant := cmp.Or(d.variant, row, "default") // a row of a configuration has one value
	attributes := []attribute.KeyValue{
		semconv.FeatureFlagKey(d.of.Key),
		semconv.FeatureFlagProviderName("Cadenza"),
		semconv.FeatureFlagSetID(a.workspace.Name),
		semconv.FeatureFlagVersion(d.of.Version),
		semconv.FeatureFlagResultVariant(variant),
		semconv.FeatureFlagResultReasonKey.String(strings.ToLower(flagReason(d.table, d.decision))),
		attribute.String("cadenza.kind", d.of.Kind.String()),
		attribute.String("cadenza.reason", d.decision.Reason.String()),
		attribute.String("cadenza.trace_id", id.String()),
	}
	if row != "" {
		attributes = append(attributes, attribute.String("cadenza.row", row))
	}
	span.AddEvent("feature_flag.evaluation", oteltrace.WithAttributes(attributes...))
}

// attemptSpans are the spans of a call's attempts.
type attemptSpans struct {
	ctx     context.Context // of the request
	tracer  oteltrace.Tracer
	common  []attribute.KeyValue // of all of them
	content bool                 // they have messages and answers

	mu    sync.Mutex
	began time.Time    // the call, as its attempts count
	tried map[int]bool // by the index of the target
	open  []oteltrace.Span
}

// operationOf returns what the models of an endpoint do.
func operationOf(endpoint *definition.Endpoint) attribute.KeyValue {
	if endpoint.Embedding != nil {
		return semconv.GenAIOperationNameEmbeddings
	}
	return semconv.GenAIOperationNameChat
}

// trace adds the span of an endpoint's decision, and makes the engine trace the attempts of
// the call until the returned function is called. It does nothing for a request that is
// not traced.
func (i *invocation) trace() (ended func()) {
	endpoint := i.plan.endpoint
	if i.span == nil {
		return func() {}
	}
	if !i.traced() {
		sampledOut := i.span // its id goes to the providers
		i.request.StartSpan = func(int, *invoke.Attempt, time.Time) oteltrace.Span { return sampledOut }
		return func() {}
	}
	var evaluated []decided
	if endpoint.Embedding == nil {
		evaluated = append(evaluated, decided{&endpoint.Prompt.Definition, endpoint.Prompt.Table(), i.plan.decision, i.record.Variant})
	}
	if table := endpoint.Table(); table != nil {
		evaluated = append(evaluated, decided{&endpoint.Definition, table, i.plan.chosen, i.record.EndpointVariant})
	}
	i.traceDecision(evaluated)
	i.spans = &attemptSpans{
		ctx: i.r.Context(), tracer: i.tracer(), tried: make(map[int]bool), content: i.policy == definition.LogContent,
		common: []attribute.KeyValue{
			operationOf(endpoint),
			semconv.GenAIRequestStream(i.request.Stream),
			semconv.GenAIPromptName(endpoint.Prompt.Key),
			attribute.String("cadenza.workspace", i.workspace.Name),
			attribute.String("cadenza.key", endpoint.Key),
			attribute.String("cadenza.trace_id", i.record.ID.String()),
			attribute.String("cadenza.decision_id", i.decisionID.String()),
		},
	}
	spans, workspace, targets := i.spans, i.workspace, i.request.Targets
	i.request.StartSpan = func(target int, a *invoke.Attempt, began time.Time) oteltrace.Span {
		t := &targets[target]
		return spans.start(target, t, workspace.genAIName(t.Name), a, began)
	}
	return spans.end
}

// start starts the client span of an attempt: see invoke.Call.StartSpan.
func (s *attemptSpans) start(target int, t *invoke.Target, provider string, a *invoke.Attempt, began time.Time) oteltrace.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	attributes := append(make([]attribute.KeyValue, 0, len(s.common)+12), s.common...)
	attributes = append(attributes,
		semconv.GenAIProviderNameKey.String(provider), semconv.GenAIRequestModel(t.Model), attribute.String("cadenza.provider", t.Name))
	switch {
	case s.tried[target]:
		attributes = append(attributes, attribute.String("cadenza.attempt.cause", "retry"))
	case a.Hedge:
		attributes = append(attributes, attribute.String("cadenza.attempt.cause", "hedge"))
	case len(s.tried) > 0:
		attributes = append(attributes, attribute.String("cadenza.attempt.cause", "fallback"))
	}
	s.tried[target] = true
	s.began = began.Add(-a.Started)
	if host, port, err := net.SplitHostPort(t.Host); err == nil {
		number, _ := strconv.Atoi(port)
		attributes = append(attributes, semconv.ServerAddress(host), semconv.ServerPort(number))
	}
	attributes = appendParameters(attributes, t)
	_, span := s.tracer.Start(s.ctx, strings.TrimSuffix(s.common[0].Value.AsString()+" "+t.Model, " "),
		oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithTimestamp(began), oteltrace.WithAttributes(attributes...))
	s.open = append(s.open, span)
	return span
}

// end ends the open spans of a call that panicked. Other calls have no open spans.
func (s *attemptSpans) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.open {
		span.SetAttributes(semconv.ErrorTypeKey.String(wire.Internal.Name))
		span.SetStatus(codes.Error, "the gateway failed")
		span.End()
	}
	s.open = nil
}

// appendParameters appends the parameters of a target.
func appendParameters(attributes []attribute.KeyValue, t *invoke.Target) []attribute.KeyValue {
	p := &t.Parameters
	if p.MaxTokens != nil && *p.MaxTokens > 0 {
		attributes = append(attributes, semconv.GenAIRequestMaxTokens(int(*p.MaxTokens)))
	}
	if p.Temperature != nil {
		attributes = append(attributes, semconv.GenAIRequestTemperature(*p.Temperature))
	}
	if p.TopP != nil {
		attributes = append(attributes, semconv.GenAIRequestTopP(*p.TopP))
	}
	return attributes
}

// genAIName returns the conventions' name of a provider: the name of its module or, if the
// openai module calls another host, the provider's own name.
func (w *Workspace) genAIName(provider string) string {
	module := w.Modules[provider]
	known := providers.ModuleNamed(module)
	if module == "" || module == "openai" && !strings.HasSuffix("."+w.hosts[provider], "."+known.Host+":443") {
		module, known = provider, providers.ModuleNamed(provider)
	}
	return cmp.Or(known.Span, module)
}

// traceEnd ends the spans of a call's attempts.
func (i *invocation) traceEnd(result *invoke.Result) {
	s := i.spans
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = nil // attempts that were not made leave spans without an end
	last := len(result.Attempts) - 1
	for n := range result.Attempts {
		span, a := result.Attempts[n].Span, &i.record.Attempts[n]
		if span == nil {
			continue
		}
		if span.IsRecording() {
			span.SetAttributes(attemptAttributes(a)...)
			if a.Code == "" && result.Served >= 0 {
				i.addAnswer(span, result)
			}
			if s.content && (a.Code == "" || n == last) {
				i.addContent(span, a.Code == "")
			}
			if failed := a.Code != "" && a.Code != string(invoke.ClientGone) && a.Code != string(invoke.Superseded); failed {
				span.SetStatus(codes.Error, a.Error)
			}
		}
		span.End(oteltrace.WithTimestamp(s.began.Add(a.Started + a.Latency)))
	}
}

// attemptAttributes returns the attributes of an attempt that has ended.
func attemptAttributes(a *trace.Attempt) []attribute.KeyValue {
	attributes := []attribute.KeyValue{
		semconv.GenAIUsageInputTokens(int(a.PromptTokens)),
		semconv.GenAIUsageOutputTokens(int(a.CompletionTokens)),
		attribute.Bool("cadenza.usage.estimated", a.Estimated),
	}
	if a.CachedTokens > 0 {
		attributes = append(attributes, semconv.GenAIUsageCacheReadInputTokens(int(a.CachedTokens)))
	}
	if a.CacheWriteTokens > 0 {
		attributes = append(attributes, semconv.GenAIUsageCacheCreationInputTokens(int(a.CacheWriteTokens)))
	}
	if a.ReasoningTokens > 0 {
		attributes = append(attributes, semconv.GenAIUsageReasoningOutputTokens(int(a.ReasoningTokens)))
	}
	if a.Cost > 0 {
		attributes = append(attributes, attribute.Float64("cadenza.cost", a.Cost))
	}
	if a.FirstToken > 0 {
		attributes = append(attributes, semconv.GenAIResponseTimeToFirstChunk(a.FirstToken.Seconds()))
	}
	if a.Status > 0 {
		attributes = append(attributes, semconv.HTTPResponseStatusCode(a.Status))
	}
	if a.Wait > 0 {
		attributes = append(attributes, attribute.Float64("cadenza.attempt.wait", a.Wait.Seconds()))
	}
	if a.Code != "" {
		attributes = append(attributes, semconv.ErrorTypeKey.String(a.Code))
	}
	return attributes
}

// addAnswer adds the model and the finish reason of the provider's answer.
func (i *invocation) addAnswer(span oteltrace.Span, result *invoke.Result) {
	if result.Model != "" {
		span.SetAttributes(semconv.GenAIResponseModel(i.workspace.redactor.String(result.Model)))
	}
	if result.FinishReason != "" {
		span.SetAttributes(semconv.GenAIResponseFinishReasons(string(result.FinishReason)))
	}
}

// maxSpanContent bounds the messages, and the answer, of one span, in bytes: exporters
// send spans in batches, which receivers bound at a few MB.
const maxSpanContent = 32 << 10

// addContent adds the messages that were sent, and the answer to them, as the trace of
// the call records them: without secrets and media.
func (i *invocation) addContent(span oteltrace.Span, answered bool) {
	if input, err := fastjson.ParseBytes(i.record.Messages); err == nil {
		span.SetAttributes(semconv.GenAIInputMessagesKey.String(string(appendSpanMessages(nil, input.GetArray()))))
	}
	if !answered {
		return
	}
	left := maxSpanContent
	dst := []byte(`[{"role":"assistant","parts":[`)
	if response, _ := i.workspace.redactor.Text(i.record.Response); len(response) > 0 {
		dst = appendSpanText(dst, "text", response, &left)
	}
	calls, _ := i.workspace.redactor.JSON(i.record.ToolCalls)
	if list, err := fastjson.ParseBytes(calls); err == nil {
		for _, call := range list.GetArray() {
			dst = appendSpanPart(dst, call, &left)
		}
	}
	dst = append(dst, `],"finish_reason":`...)
	dst = append(jsontext.AppendString(dst, i.record.FinishReason), '}', ']')
	span.SetAttributes(semconv.GenAIOutputMessagesKey.String(string(dst)))
}

// appendSpanMessages appends the messages of a record in the format of the conventions.
func appendSpanMessages(dst []byte, messages []*fastjson.Value) []byte {
	left := maxSpanContent
	dst = append(dst, '[')
	for n, m := range messages {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"role":`...)
		dst = jsontext.AppendString(dst, m.GetStringBytes("role"))
		dst = append(dst, `,"parts":[`...)
		if content := m.Get("content"); content != nil && content.Type() == fastjson.TypeString {
			dst = appendSpanText(dst, "text", content.GetStringBytes(), &left)
		} else {
			for _, part := range content.GetArray() {
				dst = appendSpanPart(dst, part, &left)
			}
		}
		dst = append(dst, ']', '}')
		if left <= 0 {
			break
		}
	}
	return append(dst, ']')
}

// appendSpanPart appends a part of a message, or a tool call of an answer, which has no
// type. Media have their type alone.
func appendSpanPart(dst []byte, part *fastjson.Value, left *int) []byte {
	switch kind := string(part.GetStringBytes("type")); kind {
	case "", "tool_call":
		dst = append(appendSeparator(dst), `{"type":"tool_call","id":`...)
		dst = jsontext.AppendString(dst, part.GetStringBytes("id"))
		dst = append(dst, `,"name":`...)
		dst = jsontext.AppendString(dst, part.GetStringBytes("name"))
		dst = append(dst, `,"arguments":`...)
		return append(jsontext.AppendString(dst, clip(part.GetStringBytes("arguments"), left)), '}')
	case "text":
		return appendSpanText(dst, kind, part.GetStringBytes("text"), left)
	case "thinking":
		return appendSpanText(dst, "reasoning", part.GetStringBytes("text"), left)
	case "tool_result":
		dst = append(appendSeparator(dst), `{"type":"tool_call_response","id":`...)
		dst = jsontext.AppendString(dst, part.GetStringBytes("tool_call_id"))
		dst = append(dst, `,"response":`...)
		return append(jsontext.AppendString(dst, clip(jsontext.AppendValue(nil, part.Get("content")), left)), '}')
	default:
		dst = append(appendSeparator(dst), `{"type":`...)
		return append(jsontext.AppendString(dst, kind), '}')
	}
}

func appendSpanText(dst []byte, kind string, text []byte, left *int) []byte {
	dst = append(appendSeparator(dst), `{"type":"`...)
	dst = append(append(dst, kind...), `","content":`...)
	return append(jsontext.AppendString(dst, clip(text, left)), '}')
}

// appendSeparator appends a comma unless a list begins.
func appendSeparator(dst []byte) []byte {
	if dst[len(dst)-1] == '[' {
		return dst
	}
	return append(dst, ',')
}

// clip shortens a text to the bytes left, at whole characters, and subtracts its length from
// left.
func clip(text []byte, left *int) []byte {
	if len(text) <= *left {
		*left -= len(text)
		return text
	}
	end := *left
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	*left = 0
	return append(slices.Clip(text[:end]), "…"...)
}

// traceReport adds an event for each score of a report to the span of the report's request.
// The span of the scored answer has ended; its trace id is the link.
func (in *incoming) traceReport(record *wire.MetricsRecord) {
	if !in.traced() {
		return
	}
	about := attribute.String("cadenza.trace_id", record.TraceID.String())
	if !record.Decision.IsZero() && record.NamedDecision != nil {
		about = attribute.String("cadenza.decision_id", record.Decision.String())
	}
	score := func(name string, value float64) {
		attributes := []attribute.KeyValue{semconv.GenAIEvaluationName(name), semconv.GenAIEvaluationScoreValue(value), about}
		in.span.AddEvent("gen_ai.evaluation.result", oteltrace.WithAttributes(attributes...))
	}
	if record.Score != nil {
		score("score", *record.Score)
	}
	if values, err := fastjson.ParseBytes(record.Values); err == nil {
		values.GetObject().Visit(func(name []byte, v *fastjson.Value) { score(string(name), v.GetFloat64()) })
	}
}
