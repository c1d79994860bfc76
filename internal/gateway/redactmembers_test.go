package gateway

import (
	"bytes"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/redact"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestEveryTextOfATraceIsRedacted iterates over the table of a trace's members, so that
// no new one is stored without redaction.
func TestEveryTextOfATraceIsRedacted(t *testing.T) {
	const key = "cadenza-test-key-0001"
	w := &Workspace{redactor: redact.New(0, func(token []byte) bool { return string(token) == key }, nil)}
	for _, kind := range []trace.Kind{trace.KindPrompt, trace.KindEndpoint, trace.KindRemoteConfig} {
		record := &trace.Record{Kind: kind}
		texts := make(map[string]*[]byte)
		for _, f := range trace.RecordFields {
			if f.Name == "splits" || f.Name == "read" {
				continue // they contain nothing of a request: TestRawValuesAreNotRecorded
			}
			switch member := f.At(record).(type) {
			case *[]byte:
				*member = []byte(`{"text":"` + key + `"}`)
				texts[f.Name] = member
			case *[]string:
				*member = []string{key}
			}
		}
		w.redactRequest(record)
		w.redactAnswer(record)
		if len(texts) == 0 {
			t.Fatal("the table has no texts")
		}
		for name, text := range texts {
			if bytes.Contains(*text, []byte(key)) {
				t.Errorf("%s of a %s: %s", name, kind, *text)
			}
		}
		for _, note := range record.Notes {
			if note == key {
				t.Errorf("a note of a %s: %s", kind, note)
			}
		}
	}
}
