package sinks_test

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

// lines is a sink that writes a line for each trace.
type lines struct{ to io.Writer }

// Resume returns the position that the store has: lines has nothing to lose.
func (lines) Resume(_ context.Context, _ sinks.Source, kept trace.Position) (trace.Position, error) {
	return kept, nil
}

// Deliver writes all records, or returns an error: then it gets them again.
func (l lines) Deliver(_ context.Context, delivery *trace.Delivery) error {
	for _, r := range delivery.Records {
		if _, err := fmt.Fprintf(l.to, "%s %s took %s\n", r.Kind, r.Key, r.Latency); err != nil {
			return err
		}
	}
	return nil
}

func (lines) Shared() bool { return false }
func (lines) Close() error { return nil }

// A sink takes deliveries. sinks.Start makes a Drain, which calls it, for as
// long as the gateway runs.
func ExampleSink() {
	var sink sinks.Sink = lines{os.Stdout}
	source := sinks.Source{Workspace: "default", Sink: "lines"}
	position, err := sink.Resume(context.Background(), source, trace.Position{})
	if err != nil {
		panic(err)
	}
	delivery := &trace.Delivery{
		Records:  []*trace.Record{{Kind: trace.KindPrompt, Key: "support_chat", Latency: 42_000}},
		Position: trace.Position{Traces: position.Traces + 1},
	}
	if err := sink.Deliver(context.Background(), delivery); err != nil {
		panic(err)
	}
	// Output:
	// prompt support_chat took 42µs
}
