package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// BenchmarkDecided shows what the members of a decision cost an inserted trace, in CPU and
// in bytes of the file, for a configuration that a split answered and for a prompt, at the
// log policy metadata.
func BenchmarkDecided(b *testing.B) {
	for _, kind := range []trace.Kind{trace.KindRemoteConfig, trace.KindPrompt} {
		for _, decided := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/decided=%t", kind, decided), func(b *testing.B) { benchmarkDecided(b, kind, decided) })
		}
	}
}

func benchmarkDecided(b *testing.B, kind trace.Kind, decided bool) {
	path := filepath.Join(b.TempDir(), "a.db")
	s := mustOpen(b, Config{Path: path})
	mustKeep(b, s) // the only writer
	authority, now := mustAuthority(b), time.Now()
	batch := recorder.Batch{}
	for range 256 {
		r := new(trace.Record)
		r.Time, r.Workspace, r.APIKey, r.Kind, r.Key = now, "default", "app", kind, "new_checkout"
		r.Version, r.Revision, r.Row, r.Status, r.Latency = "0123456789ab", "ba9876543210", "ramp", 200, 40*time.Microsecond
		r.Metadata = []byte(`{"session":"0123456789"}`)
		if kind == trace.KindPrompt {
			r.Variant, r.Provider, r.Model = "nl", "openai", "gpt-4o-mini"
		}
		batch.Records = append(batch.Records, r)
	}
	rows := 0
	b.ReportAllocs()
	before := processorTime(b)
	for b.Loop() {
		for _, r := range batch.Records {
			if decided {
				decide(r, authority, now)
			} else {
				r.ID = authority.New(kind, now)
			}
		}
		mustCommit(b, s, batch)
		rows += len(batch.Records)
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(rows), "cpu-ns/row")
	if _, err := s.conn.ExecContext(b.Context(), "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		b.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/float64(rows), "bytes/row")
}

// decide fills in what a decision with one split records.
func decide(r *trace.Record, authority *trace.Authority, now time.Time) {
	d := authority.Decide(now, 1)
	r.ID, r.Decision = d.Trace(r.Kind, 0), d.ID()
	definition := "remoteconfigs/" + r.Key
	r.Reason, r.Arm = "split", "1"
	if r.Kind == trace.KindPrompt {
		definition, r.Arm = "prompts/"+r.Key, r.Variant
	}
	r.Splits = fmt.Appendf(r.Splits[:0], `[{"experiment":{"definition":"%s","rule":"ramp","salt":"ramp"},"bucket":12000,"arm":"%s","share":0.2,"unit":"0123456789abcdef"}]`, definition, r.Arm)
	r.Inputs = append(r.Inputs[:0], `{"plan":"pro","customer_id":{"hash":"0123456789abcdef"}}`...)
}
