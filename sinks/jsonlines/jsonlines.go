// Package jsonlines has two sinks that write one JSON object a line: to the standard
// output, and to a file. The format is https://jsonlines.org.
//
// Each line has a member type first, which is trace, metrics, version, answers or erasure. A
// trace and metrics have the members of [trace.Record.AppendJSON] and
// [trace.Metrics.AppendJSON]. A version has workspace, kind, key, version, first_seen
// and content. Answers have trace_id and the answers that the trace stands for by then. An
// erasure has time, workspace, and conversation_id, decision_id, or
// metadata_name and metadata_value (as JSON), and reported_on, the ids of traces and
// decisions that reports on them chose. An upstream call has a line for its start and
// one for its end, under the same trace_id.
//
// Lines come at least once: the lines of a delivery that failed, or after which the
// process was killed, come again. A line repeats an earlier one if it has the same
// trace_id and state of a trace, or the same id of metrics. An erasure does not
// change lines that were written: the programs that keep the lines must delete by its
// line.
package jsonlines

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// maxKeptBuffer bounds the buffer that a sink keeps, in bytes.
const maxKeptBuffer = 1 << 20

// appendLines appends a delivery.
func appendLines(dst []byte, d *trace.Delivery) ([]byte, error) {
	for i := range d.Versions {
		v := &d.Versions[i]
		var err error
		if dst, err = appendLine(dst, version{
			Type: "version", Workspace: v.Workspace, Kind: v.Kind.String(), Key: v.Key, Version: v.Version,
			FirstSeen: v.Time.UTC(), Content: raw(v.Content),
		}); err != nil {
			return nil, err
		}
	}
	for _, r := range d.Records {
		dst = appendTyped(dst, "trace", r.AppendJSON)
	}
	for _, m := range d.Metrics {
		dst = appendTyped(dst, "metrics", m.AppendJSON)
	}
	for _, e := range d.Exposures {
		var err error
		if dst, err = appendLine(dst, exposure{"answers", e}); err != nil {
			return nil, err
		}
	}
	for _, e := range d.Erasures {
		var err error
		if dst, err = appendLine(dst, erasure{Type: "erasure", Time: e.Time.UTC(), Selector: e.Selector, ReportedOn: e.ReportedOn}); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// appendTyped inserts a member before the members of the object that
// appendObject appends, which must have some.
func appendTyped(dst []byte, name string, appendObject func([]byte) []byte) []byte {
	dst = append(append(append(dst, `{"type":"`...), name...), '"')
	brace := len(dst)
	dst = appendObject(dst)
	dst[brace] = ','
	return append(dst, '\n')
}

type version struct {
	Type      string          `json:"type"`
	Workspace string          `json:"workspace"`
	Kind      string          `json:"kind"`
	Key       string          `json:"key"`
	Version   string          `json:"version"`
	FirstSeen time.Time       `json:"first_seen"`
	Content   json.RawMessage `json:"content"`
}

// raw returns the content of a version as JSON: verbatim if it is JSON, as a
// definition's is, and otherwise as a text. A row that can't be written would block
// all rows after it.
func raw(content []byte) json.RawMessage {
	if json.Valid(content) {
		return content
	}
	return jsontext.AppendString(nil, content)
}

type exposure struct {
	Type string `json:"type"`
	trace.Exposure
}

type erasure struct {
	Type string    `json:"type"`
	Time time.Time `json:"time"`
	trace.Selector
	ReportedOn []trace.ID `json:"reported_on,omitempty"`
}

func appendLine(dst []byte, value any) ([]byte, error) {
	line := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return line.Bytes(), err
}

// kept returns a buffer's memory for its next use, nil for a large one.
func kept(buffer []byte) []byte {
	if cap(buffer) > maxKeptBuffer {
		return nil
	}
	return buffer[:0]
}
