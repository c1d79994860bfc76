package gateway

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// evaluates returns the function of a route that answers keys of a kind, whose requests
// parse reads.
func evaluates(k *kind.Kind, parse func(*wire.Request) (wire.Evaluation, *wire.Error)) func(*call) outcome {
	return allOrNothing(func(c *call) *wire.Error { return c.evaluate(k, parse) })
}

func (c *call) evaluate(k *kind.Kind, parse func(*wire.Request) (wire.Evaluation, *wire.Error)) *wire.Error {
	request, err := parse(c.body)
	if err != nil {
		return err
	}
	c.context, c.metadata, c.variables = request.Context, request.Metadata, request.Variables
	e, err := c.admitKeys(keyList{k, request.Keys})
	if err != nil {
		return err
	}
	size, recorded, err := e.pick(k, request.Keys, false)
	if err != nil {
		return err
	}
	a, err := e.beginKeys(wire.AnswersSize+size, recorded, "keys")
	if err != nil {
		return err
	}
	out, err := a.appendAnswers(wire.AppendAnswersStart(c.out), k)
	if err != nil {
		return err
	}
	c.out = wire.AppendAnswersEnd(out)
	return a.answerKeys("keys")
}

// admitKeys counts a request for keys, also for its limits, and binds its context.
func (c *call) admitKeys(lists ...keyList) (*evaluation, *wire.Error) {
	if err := c.admitLate("", c.asksKeys(lists...)); err != nil {
		return nil, err
	}
	return c.bind(c.context)
}

// picked is the definition that answers one key of a request, with its decision.
type picked struct {
	name       string // in the request: the definition's key, or an alias
	definition *definition.Definition
	decision   rules.Decision
	exposed
}

// pick finds and decides the definitions of the keys. It returns the bytes that their
// values add to the answer, and those that their traces record. several reports whether
// the request has keys of several kinds. pick can fail for prompts only.
func (e *evaluation) pick(k *kind.Kind, keys []string, several bool) (size, recorded int, err *wire.Error) {
	for _, key := range keys {
		d := e.snapshot.Named(k, key)
		if d == nil {
			missing := wire.MissingKey{Key: key}
			if several {
				missing.Folder = k.Folder + "/"
			}
			e.unknown = append(e.unknown, missing)
			continue
		}
		decision := e.decide(d)
		value := 0
		if p := d.Rendered(); p == nil {
			value = len(d.Answer(decision))
		} else if value, err = e.rendered(p, p.Variant(decision), key); err != nil {
			return 0, 0, err
		}
		size += wire.AnswerSize(key, value, d.Type())
		p := picked{name: d.AskedAs(key), definition: d, decision: decision}
		if d.Window > 0 {
			e.expose(&p, d.Window)
		}
		if p.on == nil {
			e.tracing++
			if e.logs(d) == definition.LogContent {
				recorded += value
			}
		}
		e.picked = append(e.picked, p)
	}
	return size, recorded, nil
}

// rendered returns how many bytes a variant has with the caller's variables.
func (e *evaluation) rendered(p *definition.Prompt, variant *definition.Variant, key string) (int, *wire.Error) {
	if err := e.bindVariables(p, variant); err != nil {
		return 0, err
	}
	size, tooLarge := variant.Size(&e.values)
	if tooLarge != nil {
		return 0, refuseMessages(tooLarge, "The prompt "+key, "")
	}
	return size, nil
}

// appendAnswers appends the answers of the definitions of a kind that were picked, and
// begins their traces. It can fail for prompts only.
func (a *answers) appendAnswers(out []byte, k *kind.Kind) ([]byte, *wire.Error) {
	for i := range a.picked {
		picked := &a.picked[i]
		d, decision := picked.definition, picked.decision
		if d.Kind != k {
			continue
		}
		out = wire.AppendAnswerStart(out, picked.name)
		valueAt := len(out)
		p := d.Rendered()
		if p == nil {
			out = append(out, d.Answer(decision)...)
		} else {
			variant := p.Variant(decision)
			if err := a.bindVariables(p, variant); err != nil {
				return nil, err
			}
			out, _ = variant.AppendJSON(out, &a.values) // Size has checked that it fits
		}
		if picked.on != nil {
			a.countOn(picked.on)
			out = wire.AppendAnswerEnd(out, d.Type(), picked.on.Trace)
			continue
		}
		record := a.newRecord(d, d.Table(), decision)
		if a.logs(d) == definition.LogContent {
			record.Response = append(record.Response[:0], out[valueAt:]...)
		}
		a.noteAlias(record, d, picked.name)
		if p != nil {
			variant := p.Variant(decision)
			record.Variant, record.Arm, record.Provider, record.Model = variant.Key, variant.Key, variant.Provider, variant.Model
			a.noteVariables(record, d)
		}
		out = wire.AppendAnswerEnd(out, d.Type(), record.ID)
		a.keep(record, picked)
	}
	return out, nil
}

// bindVariables binds the caller's variables to the variables of a prompt, for a variant
// of it, unless they are bound already.
func (e *evaluation) bindVariables(p *definition.Prompt, variant *definition.Variant) *wire.Error {
	if e.values.BoundTo(p.Variables()) {
		return nil
	}
	err := p.Bind(variant, e.variables, &e.binding, &e.values)
	if err == nil {
		return nil
	}
	if missing, ok := errors.AsType[*prompt.MissingError](err); ok {
		return wire.Errorf(wire.MissingVariable, "variables."+missing.Name,
			"The prompt %s requires the variable %q. Send it in \"variables\".", p.Key, missing.Name)
	}
	return wire.Errorf(wire.InvalidRequest, "variables", "%v", err)
}

// beginKeys begins the answers to the picked keys. It takes room for an answer of size
// bytes and for recorded bytes in its traces, before anything is rendered: a request of a
// few bytes may ask for many megabytes. param is the member that names the keys, or empty
// if several members do.
func (e *evaluation) beginKeys(size, recorded int, param string) (*answers, *wire.Error) {
	if most := e.workspace.MaxAnswerSize; int64(size) > most {
		return nil, wire.Errorf(wire.InvalidRequest, param, "The answer would have %d bytes, at most %d are allowed (max_answer_size). Ask for fewer keys at a time, or send shorter variables.", size, most)
	}
	if err := e.takeRoom(size+recorded, "Try again, or ask for fewer keys at a time."); err != nil {
		return nil, err
	}
	e.out = slices.Grow(e.out[:0], size)
	return e.begin(e.tracing), nil
}

// answerKeys sends the answer that was built for a request's keys and records
// its traces. param is as in beginKeys.
func (a *answers) answerKeys(param string) *wire.Error {
	if len(a.unknown) > 0 {
		names := a.tellUnknown()
		a.w.Header()[wire.HeaderUnknownKeys] = []string{names}
		if a.answered == 0 {
			return wire.Errorf(wire.UnknownKey, param, "No definition has any of these keys: %s.", names)
		}
	}
	var id trace.ID
	if a.answered == 1 {
		id = a.lastTrace
	}
	decision := a.decisionID
	if len(a.exposures.counted) > 0 {
		decision = a.named(a.answered)
	}
	a.setHeaders(id, decision)
	if status := a.cacheStatus(a.answered); status != nil {
		a.w.Header()[wire.HeaderCacheStatus] = status
	}
	a.describeAnswers()
	now := time.Now()
	for _, record := range a.records {
		record.Latency = now.Sub(a.began)
	}
	a.completeRecords()
	a.giveRecords()
	a.countPicked()
	a.keepRoom(len(a.out)) // the recorder owns the traces
	if a.unchanged {
		a.w.Header()["Cache-Control"] = cacheControlNoStore
		a.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	a.deliver(http.StatusOK, a.out, now)
	return nil
}

// tellUnknown counts and logs the keys that no definition has, and returns their
// names for the answer's header.
func (e *evaluation) tellUnknown() string {
	e.gateway.metrics.unknownKeys.WithLabelValues(e.route.name).Add(float64(len(e.unknown)))
	names := e.nameUnknown()
	e.workspace.Logger.Debug("a request named keys that no definition has",
		zap.String("route", e.route.name), zap.String("api_key", e.key.name), zap.String("keys", names))
	return names
}

// nameUnknown lists the keys that no definition has. It counts a key that looks like a
// secret instead of naming it: somebody may keep the headers and logs.
func (e *evaluation) nameUnknown() string {
	for i := range e.unknown {
		if key := e.unknown[i].Key; e.workspace.redactor.String(key) != key {
			e.unknown[i].Key = "" // not a legal key: wire counts it
		}
	}
	return wire.UnknownKeys(e.unknown)
}
