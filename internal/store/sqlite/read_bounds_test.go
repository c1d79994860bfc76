package sqlite

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestGetTakesTheFirstMetrics reads a trace with more reports than an answer has.
func TestGetTakesTheFirstMetrics(t *testing.T) {
	t.Parallel()
	large := new(strings.Repeat("x", getMetricsBytes/4))
	for name, test := range map[string]struct {
		stored int
		text   *string
		want   int
	}{
		"none":        {0, nil, 0},
		"all":         {getMetrics, nil, getMetrics},
		"one more":    {getMetrics + 1, nil, getMetrics},
		"many more":   {getMetrics + 500, nil, getMetrics},
		"large":       {3, large, 3},
		"more bytes":  {20, large, 4},
		"a large one": {2, new(strings.Repeat("x", 2*getMetricsBytes)), 1},
	} {
		for _, attached := range []bool{true, false} {
			if test.stored == 0 && !attached {
				continue // there is nothing to get
			}
			t.Run(fmt.Sprintf("%s, with a trace: %t", name, attached), func(t *testing.T) {
				s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
				authority, now := mustAuthority(t), time.Now()
				id := authority.New(trace.KindEndpoint, now)
				var batch recorder.Batch
				if attached {
					batch.Records = append(batch.Records, fullRecord(id, now))
				}
				for n := range test.stored {
					m := metricsOf(id)
					m.Score, m.LLMResponse = new(float64(n)), test.text
					batch.Metrics = append(batch.Metrics, m, metricsOf(authority.New(trace.KindEndpoint, now)))
				}
				mustCommit(t, s, batch)
				got, err := s.Get(t.Context(), "default", id)
				if err != nil {
					t.Fatal(err)
				}
				if (got.Record != nil) != attached || len(got.Metrics) != test.want || got.MetricsTotal != int64(test.stored) {
					t.Errorf("a record: %t, %d of %d reports; want %d of %d", got.Record != nil, len(got.Metrics), got.MetricsTotal, test.want, test.stored)
				}
				for n := range got.Metrics {
					if *got.Metrics[n].Score != float64(n) {
						t.Fatalf("report %d stands at %d", int(*got.Metrics[n].Score), n)
					}
				}
			})
		}
	}
}

// TestExportReadsLittleAtOnce exports traces with much metadata, many reports and large
// ones, and checks the sizes of the parts that it reads.
func TestExportReadsLittleAtOnce(t *testing.T) {
	t.Parallel()
	const traces, size = 60, 512 << 10
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority := mustAuthority(t)
	metadata := fmt.Appendf(nil, `{"x":%q}`, bytes.Repeat([]byte("x"), size))
	text := new(strings.Repeat("x", size))
	reports := map[trace.ID]int{}
	var ids []trace.ID
	for n := range traces {
		at := base.Add(time.Duration(n) * time.Second)
		r := fullRecord(authority.New(trace.KindPrompt, at), at)
		ids = append(ids, r.ID)
		batch := recorder.Batch{Records: []*trace.Record{r}}
		add := func(count int, of trace.Metrics) {
			for range count {
				m := of
				m.TraceID, m.Workspace, m.Time = r.ID, "default", at
				batch.Metrics = append(batch.Metrics, &m)
			}
			reports[r.ID] += count
		}
		switch {
		case n < 20:
			r.Metadata = metadata
		case n < 40:
			add(n%3, trace.Metrics{LLMResponse: text})
			add(n%2, trace.Metrics{Metadata: metadata})
		case n == 50:
			add(exportBytes/new(trace.Metrics).Size()+5000, trace.Metrics{Score: new(1.0)})
		default:
			add(n%4, trace.Metrics{Score: new(1.0)})
		}
		mustCommit(t, s, batch)
	}

	var exported []trace.ID
	if err := s.Export(t.Context(), trace.Filter{Workspace: "default"}, func(r *trace.Record, metrics []trace.Metrics) error {
		exported = append(exported, r.ID)
		if len(metrics) != reports[r.ID] {
			t.Errorf("trace %d has %d reports, want %d", len(exported), len(metrics), reports[r.ID])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(exported, ids) {
		t.Errorf("%d traces were exported, want %d in their order", len(exported), len(ids))
	}

	var all []*trace.Record
	filter := trace.Filter{Workspace: "default"}
	where, err := conditions(&filter)
	if err != nil {
		t.Fatal(err)
	}
	reader := exportedRecords{Reader: s.Reader, sources: listSources{index: sourceOf(&filter), order: oldestFirst}, where: where, limit: lastID}
	for from, more := (trace.ID{}), true; more; {
		var records []*trace.Record
		if records, from, more, err = reader.read(t.Context(), from); err != nil {
			t.Fatal(err)
		}
		read := 0
		for _, r := range records {
			read += len(r.Metadata) + len(r.Messages)
		}
		if read > exportBytes+size+1000 {
			t.Errorf("%d bytes of %d traces were read at once", read, len(records))
		}
		all = append(all, records...)
	}
	for len(all) > 0 {
		metrics, ready, err := s.metricsOf(t.Context(), all)
		if err != nil || ready < 1 {
			t.Fatal(ready, err)
		}
		read, largest := 0, 0
		for id, of := range metrics {
			size := 0
			for i := range of {
				size += of[i].Size()
			}
			if read, largest = read+size, max(largest, size); len(of) != reports[id] {
				t.Errorf("%d of the %d reports on a trace were read", len(of), reports[id])
			}
		}
		if read-largest > exportBytes {
			t.Errorf("%d bytes of the reports on %d traces were read at once", read, ready)
		}
		all = all[ready:]
	}
}
