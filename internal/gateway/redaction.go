package gateway

import (
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// contains reports whether a text is an API key of any workspace, including expired and
// revoked keys.
func (k *keyring) contains(text []byte) bool { return k.find(string(text)) != nil }

// redactRequest removes secrets from the parts of a record that come from the request. It
// leaves Splits and Read as they are: they have keys, ids, names and versions of
// definitions, numbers and keyed hashes.
func (w *Workspace) redactRequest(record *trace.Record) {
	record.Inputs, _ = w.redactor.Inputs(record.Inputs)
	for _, text := range [...]*[]byte{
		&record.Metadata, &record.Context, &record.Variables, &record.Messages,
	} {
		*text, _ = w.redactor.JSON(*text)
	}
	w.redactNotes(record)
}

// redactNotes removes secrets from notes: they name members of the context as the
// caller sent them.
func (w *Workspace) redactNotes(record *trace.Record) {
	for i, note := range record.Notes {
		record.Notes[i] = w.redactor.String(note)
	}
}

// redactAnswer removes secrets from a record's parts of the answer.
func (w *Workspace) redactAnswer(record *trace.Record) {
	if record.Kind == trace.KindEndpoint {
		record.Response, _ = w.redactor.Text(record.Response)
		// The upstream sent the model's name, and the call added some of the notes.
		record.Model = w.redactor.String(record.Model)
		w.redactNotes(record)
	} else {
		record.Response, _ = w.redactor.JSON(record.Response)
	}
	record.ToolCalls, _ = w.redactor.JSON(record.ToolCalls)
}

// redactReport removes secrets from a report. Chain and conversation ids stay,
// because traces are found by them.
func (w *Workspace) redactReport(m *trace.Metrics) {
	m.Metadata, _ = w.redactor.JSON(m.Metadata)
	m.Values = w.redactValues(m.Values)
	if m.LLMResponse != nil {
		m.LLMResponse = new(w.redactor.String(*m.LLMResponse))
	}
}

// redactValues removes the values whose names or numbers look like secrets, such as card
// numbers. The result is an object of numbers, or nil.
func (w *Workspace) redactValues(values []byte) []byte {
	redacted, n := w.redactor.JSON(values)
	if n == 0 {
		return values
	}
	parsed, err := fastjson.ParseBytes(redacted)
	if err != nil {
		return nil // unreachable: redacted JSON is JSON
	}
	object := parsed.GetObject()
	var secret []string
	object.Visit(func(name []byte, v *fastjson.Value) {
		if v.Type() != fastjson.TypeNumber || !wire.LegalKey(string(name)) {
			secret = append(secret, string(name))
		}
	})
	for _, name := range secret {
		object.Del(name)
	}
	if object.Len() == 0 {
		return nil
	}
	return jsontext.AppendValue(nil, parsed)
}
