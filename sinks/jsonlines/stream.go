package jsonlines

import (
	"context"
	"fmt"
	"io"

	"github.com/cadenza-gateway/cadenza/sinks"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Stream is a sink that writes to an open writer, such as the standard output. It
// depends on the reader whether the lines are kept.
type Stream struct {
	to   io.Writer
	busy chan struct{} // holds one while a write is under way
}

// NewStream returns a sink that writes to the given writer and never closes it.
func NewStream(to io.Writer) *Stream { return &Stream{to: to, busy: make(chan struct{}, 1)} }

// Resume implements [sinks.Sink].
func (s *Stream) Resume(_ context.Context, _ sinks.Source, kept trace.Position) (trace.Position, error) {
	return kept, nil
}

// Deliver implements [sinks.Sink]. Nothing can cancel a write that its reader
// blocks: the next delivery waits for its end.
func (s *Stream) Deliver(ctx context.Context, delivery *trace.Delivery) error {
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("the output has no reader: %w", ctx.Err())
	}
	lines, err := appendLines(nil, delivery)
	if err != nil {
		<-s.busy
		return err
	}
	result := make(chan error, 1)
	go func() {
		_, err := s.to.Write(lines)
		<-s.busy
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the output has no reader: %w", ctx.Err())
	}
}

// Shared implements [sinks.Sink].
func (s *Stream) Shared() bool { return false }

// Close implements [sinks.Sink].
func (s *Stream) Close() error { return nil }

var _ sinks.Sink = (*Stream)(nil)
