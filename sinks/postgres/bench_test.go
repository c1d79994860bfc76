//go:build unix

package postgres_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/postgrestest"
	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

// BenchmarkDrain copies from a store to a database that syncs, one row in ten of
// about a kilobyte and the others of 200 bytes. It reports the time of the
// gateway's own process.
func BenchmarkDrain(b *testing.B) {
	const rows = 20_000
	server := postgrestest.Start(b, "fsync=on")
	g := newGateway(b, nil)
	for i := range rows {
		g.recorder.Evaluation(g.answer(trace.KindPrompt))
		if i%10 == 0 {
			g.recorder.Evaluation(g.answer(trace.KindEndpoint))
		}
	}
	g.written.Store(rows + rows/10)
	g.flush()
	b.ReportAllocs()
	var used time.Duration
	delivered := uint64(0)
	for b.Loop() {
		b.StopTimer()
		server.Exec("DROP SCHEMA IF EXISTS cadenza CASCADE")
		b.StartTimer()
		before := processTime(b)
		d := sinks.Start(sinks.Config{Path: g.path, Workspace: "default", Name: "bench", Sink: newSink(b, server.DSN())})
		if err := d.Finish(context.Background()); err != nil {
			b.Fatal(err)
		}
		used += processTime(b) - before
		delivered += d.Stats().Delivered
	}
	b.ReportMetric(float64(delivered)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(used.Nanoseconds())/float64(delivered), "cpu-ns/row")
}

func processTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
