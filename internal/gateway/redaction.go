package gateway

import "github.com/cadenza-gateway/cadenza/trace"

// contains reports whether a text is an API key of any workspace, or was before it
// expired or was revoked.
func (k *keyring) contains(text []byte) bool { return k.find(string(text)) != nil }

// redactRequest takes secrets out of what a record keeps of the request.
func (w *Workspace) redactRequest(record *trace.Record) {
	for _, text := range [...]*[]byte{&record.Metadata, &record.Context, &record.Variables, &record.Messages} {
		*text, _ = w.redactor.JSON(*text)
	}
	w.redactNotes(record)
}

// redactNotes takes secrets out of notes: they name members of the context as
// the caller sent them.
func (w *Workspace) redactNotes(record *trace.Record) {
	for i, note := range record.Notes {
		record.Notes[i] = w.redactor.String(note)
	}
}

// redactAnswer takes secrets out of what a record keeps of the answer.
func (w *Workspace) redactAnswer(record *trace.Record) {
	if record.Kind == trace.KindEndpoint {
		record.Response, _ = w.redactor.Text(record.Response)
		// The name is as the upstream sent it, and some of the notes are of the call.
		record.Model = w.redactor.String(record.Model)
		w.redactNotes(record)
	} else {
		record.Response, _ = w.redactor.JSON(record.Response)
	}
	record.ToolCalls, _ = w.redactor.JSON(record.ToolCalls)
}

// redactReport takes secrets out of a report. Chain and conversation ids are
// what traces are found by, and stay.
func (w *Workspace) redactReport(m *trace.Metrics) {
	m.Metadata, _ = w.redactor.JSON(m.Metadata)
	if m.LLMResponse != nil {
		m.LLMResponse = new(w.redactor.String(*m.LLMResponse))
	}
}
