package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Selects reports whether a filter selects a record that the store does not have,
// such as that of a call which is under way, by the same rules as a list. What the
// filter asks of reports is looked up.
func (r *Reader) Selects(ctx context.Context, f *trace.Filter, record *trace.Record) (bool, error) {
	if !selects(f, record) {
		return false, nil
	}
	for _, n := range namedBy(f) {
		value, err := json.Marshal(n.value)
		if err != nil {
			return false, err
		}
		if hasMember(record.Metadata, trace.MetadataMatch{Name: n.column, Value: string(value)}) {
			continue
		}
		found, err := r.eachReport(ctx, record.Workspace, record.ID, record, func(m trace.Metrics) bool {
			given := m.ConversationID
			if n.column == "chain_id" {
				given = m.ChainID
			}
			return given == nil || *given != n.value
		})
		if err != nil || !found {
			return false, err
		}
	}
	if f.Score == nil {
		return true, nil
	}
	var last *float64
	_, err := r.eachReport(ctx, record.Workspace, record.ID, record, func(m trace.Metrics) bool {
		last = cmp.Or(m.Score, last)
		return true
	})
	return err == nil && last != nil && *last >= f.Score.Least && *last <= f.Score.Most, err
}

// selects is Selects without what only the store knows: see conditions.
func selects(f *trace.Filter, r *trace.Record) bool {
	from, floor := bounds(f, trace.ID{})
	kind := f.Kind
	if kind == 0 && (f.Attempts > 0 || f.Fallback) {
		kind = trace.KindEndpoint
	}
	for _, equal := range [...]struct{ want, got string }{
		{f.Workspace, r.Workspace}, {f.Key, r.Key}, {f.APIKey, r.APIKey}, {f.Provider, r.Provider}, {f.Model, r.Model},
		{f.Code, r.Code}, {f.FinishReason, r.FinishReason}, {f.Revision, r.Revision}, {f.Variant, r.Variant}, {f.Arm, r.Arm},
	} {
		if equal.want != "" && equal.want != equal.got {
			return false
		}
	}
	failed := r.Code != "" || r.State == trace.StateInterrupted
	switch {
	case bytes.Compare(r.ID[:], floor[:]) < 0, bytes.Compare(r.ID[:], from[:]) >= 0,
		kind != 0 && r.Kind != kind,
		f.Version != "" && r.Version != f.Version && r.PromptVersion != f.Version,
		f.Slower > 0 && (r.Latency == 0 || r.Latency.Microseconds() < f.Slower.Microseconds()),
		len(r.Attempts) < f.Attempts,
		f.Fallback && !fellBackIn(r),
		f.State != nil && r.State != *f.State,
		f.Status != 0 && r.Status != f.Status,
		f.Outcome == trace.OK && (failed || r.State != trace.StateEnded),
		f.Outcome == trace.Failed && !failed,
		!f.Decision.IsZero() && r.Decision != f.Decision:
		return false
	}
	return !slices.ContainsFunc(f.Metadata, func(m trace.MetadataMatch) bool { return !hasMember(r.Metadata, m) })
}

// fellBackIn is the condition fellBack.
func fellBackIn(r *trace.Record) bool {
	return slices.ContainsFunc(r.Notes, func(note string) bool { return strings.HasPrefix(note, "skipped ") }) ||
		slices.ContainsFunc(r.Attempts, func(a trace.Attempt) bool {
			return a.Provider != r.Attempts[0].Provider || a.Model != r.Attempts[0].Model
		})
}

// hasMember reports whether metadata has what a match asks for, as
// clauses.metadata does.
func hasMember(metadata []byte, match trace.MetadataMatch) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(metadata, &members) != nil || members[match.Name] == nil {
		return false
	}
	var got any
	decoder := json.NewDecoder(bytes.NewReader(members[match.Name]))
	decoder.UseNumber()
	want, err := match.Scalar()
	if err != nil || decoder.Decode(&got) != nil {
		return false
	}
	if text, isText := got.(string); isText && match.OrText && text == match.Value {
		return true
	}
	switch want := want.(type) {
	case json.Number:
		n, isNumber := got.(json.Number)
		return isNumber && sameNumber(number(want), number(n))
	case nil:
		return got == nil
	}
	return got == want
}

// sameNumber compares an int64 or float64 with another.
func sameNumber(a, b any) bool {
	x, xWhole := a.(int64)
	y, yWhole := b.(int64)
	if xWhole && yWhole {
		return x == y
	}
	return asFloat(a) == asFloat(b)
}

func asFloat(n any) float64 {
	if whole, ok := n.(int64); ok {
		return float64(whole)
	}
	return n.(float64)
}

// Around returns a record that the store does not have, with what the store holds
// of it, as Get does.
func (r *Reader) Around(ctx context.Context, record *trace.Record) (*Details, error) {
	d := Details{Record: record}
	var err error
	if d.Metrics, d.MetricsTotal, err = r.firstMetrics(ctx, record.Workspace, record.ID, record); err != nil {
		return nil, err
	}
	if record.Version != "" {
		if d.Version, err = r.keptVersion(ctx, record.Workspace, record.Kind, record.Key, record.Version); err != nil {
			return nil, err
		}
	}
	if record.PromptVersion != "" {
		d.Prompt, err = r.keptVersion(ctx, record.Workspace, trace.KindPrompt, record.Prompt, record.PromptVersion)
	}
	return &d, err
}
