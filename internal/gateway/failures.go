package gateway

import (
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// maxAttemptError bounds the text of an attempt's failure in its trace, in bytes.
const maxAttemptError = 500

// failureText returns a text about a failure for logs and traces: without secrets, in one
// line of at most maxAttemptError bytes.
func (w *Workspace) failureText(text string) string {
	// Redact first: the redactor does not recognise a secret that was cut.
	text = visible.Line(w.redactor.String(text))
	if len(text) <= maxAttemptError {
		return text
	}
	const more = "…"
	end := maxAttemptError - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// errorOf returns why an attempt failed, with as much of the provider's text as the trace
// may keep. It returns the empty text for an attempt that its caller or another attempt
// ended.
func (i *invocation) errorOf(a *invoke.Attempt) string {
	switch {
	case a.Code == "" || a.Code == string(invoke.ClientGone) || a.Code == string(invoke.Superseded):
		return ""
	case i.policy == definition.LogContent:
		return i.workspace.failureText(a.Text())
	}
	return i.workspace.failureText(a.Error)
}

// targetChanged counts and logs a change of a target's health.
func (w *Workspace) targetChanged(c *invoke.Change) {
	if served := w.countedBy(); c.Kind == invoke.ChangeLeftAlone && c.New && served != uncounted {
		w.gateway.metrics.leftAlone.WithLabelValues(w.Name, served.provider(c.Provider), string(c.State)).Inc()
	}
	if !c.Log {
		return
	}
	target := invoke.Target{Name: c.Provider, Model: c.Model}
	fields := []zap.Field{zap.String("target", visible.Line(target.String())), zap.Int("failures", c.Failures)}
	failure := &c.Last
	if c.Kind == invoke.ChangeLeftAlone {
		failure = &c.Why
		fields = append(fields, zap.String("until", timestamp(c.Until)), zap.String("state", string(c.State)))
	}
	if c.Kind != invoke.ChangeFailed {
		fields = append(fields, zap.String("since", timestamp(c.Since)))
	}
	fields = append(fields, zap.String("class", string(failure.Class)), zap.String("error", w.failureText(failure.Text)))
	if c.Unlogged > 0 {
		fields = append(fields, zap.Int("unlogged", c.Unlogged))
	}
	switch c.Kind {
	case invoke.ChangeFailed:
		w.Logger.Warn("target failed", fields...)
	case invoke.ChangeLeftAlone:
		w.Logger.Error("target left alone", fields...)
		w.emitTarget(EventTargetEjected, c)
	case invoke.ChangeAnswers:
		w.Logger.Info("target answers again", fields...)
		w.emitTarget(EventTargetRestored, c)
	}
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// countTargets counts the targets that a call skipped, and a fallback: an answer after
// another target failed or was skipped.
func (i *invocation) countTargets(served *servedSeries, result *invoke.Result) {
	m := i.gateway.metrics
	fallback := false
	for _, skipped := range result.Skipped {
		m.skips.WithLabelValues(i.workspace.Name, served.provider(i.request.Targets[skipped.Target].Name), string(skipped.Kind())).Inc()
		fallback = fallback || skipped.Target < result.Served
	}
	if result.Served < 0 {
		return
	}
	answered := &i.request.Targets[result.Served]
	for n := range result.Attempts {
		a := &result.Attempts[n]
		other := a.Provider != answered.Name || a.Model != answered.Model
		fallback = fallback || other && a.Code != "" && a.Code != string(invoke.Superseded)
	}
	if fallback {
		m.fallbacks.WithLabelValues(i.workspace.Name, served.provider(answered.Name)).Inc()
	}
}
