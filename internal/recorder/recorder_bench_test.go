package recorder

import (
	"context"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// discard is a store that keeps nothing, to measure the callers' side.
type discard struct{}

func (discard) Commit(context.Context, *Batch) error              { return nil }
func (discard) Maintain(context.Context, time.Time) (bool, error) { return false, nil }
func (discard) Reply(context.Context, trace.ReplyKey, time.Time) (*trace.Reply, error) {
	return nil, nil
}
func (discard) TraceKey(context.Context) ([]byte, error) {
	return make([]byte, trace.MinKeyLength), nil
}
func (discard) Broken() <-chan struct{} { return nil }
func (discard) Close() error            { return nil }

func benchmarkRecorder(b *testing.B) *Recorder {
	r := New(Options{Open: func(context.Context) (Store, error) { return discard{}, nil }})
	r.Open()
	if _, err := r.TraceKey(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

var (
	sampleContext   = []byte(`{"environment":"production","locale":"nl-BE","plan":"pro","seats":12,"customer_id":"c-4711"}`)
	sampleVariables = []byte(`{"company":"Acme","question":"Where is my order?"}`)
	sampleMetadata  = []byte(`{"session":"0123456789"}`)
)

func fillSample(record *trace.Record, id trace.ID, now time.Time) {
	record.ID, record.Time, record.Workspace, record.APIKey = id, now, "default", "app"
	record.Kind, record.Key, record.Version, record.Revision = trace.KindPrompt, "support_reply", "0123456789ab", "ba9876543210"
	record.Row, record.Variant, record.Status, record.Latency = "dutch", "nl", 200, 40*time.Microsecond
	record.Context = append(record.Context[:0], sampleContext...)
	record.Variables = append(record.Variables[:0], sampleVariables...)
	record.Metadata = append(record.Metadata[:0], sampleMetadata...)
}

// BenchmarkEvaluation measures the cost of recording for the request: filling a
// record and handing it over. It reports the records that were dropped because
// the writer could not keep up.
func BenchmarkEvaluation(b *testing.B) {
	r, now, dropped := benchmarkRecorder(b), time.Now(), 0
	b.ReportAllocs()
	for b.Loop() {
		record := trace.AcquireRecord()
		fillSample(record, trace.ID{1}, now)
		if !r.Evaluation(record) {
			dropped++
		}
	}
	b.ReportMetric(float64(dropped)/float64(b.N), "dropped/op")
}

func BenchmarkEvaluationParallel(b *testing.B) {
	r, now := benchmarkRecorder(b), time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			record := trace.AcquireRecord()
			fillSample(record, trace.ID{1}, now)
			r.Evaluation(record)
		}
	})
}

// At the ceiling, as when the disk hangs.
func BenchmarkEvaluationDropped(b *testing.B) {
	r, now := New(Options{Open: nil, MaxRecords: 1}), time.Now()
	r.Evaluation(trace.AcquireRecord())
	b.ReportAllocs()
	for b.Loop() {
		record := trace.AcquireRecord()
		fillSample(record, trace.ID{1}, now)
		if r.Evaluation(record) {
			b.Fatal("it was not dropped")
		}
	}
}

func BenchmarkMetrics(b *testing.B) {
	r := benchmarkRecorder(b)
	m := &trace.Metrics{TraceID: trace.ID{1}, Workspace: "default", Score: new(90.0), Metadata: sampleMetadata}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Metrics(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}
