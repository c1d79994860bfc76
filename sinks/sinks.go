// Package sinks copies the trace store's rows to places where others read them:
// a database that a fleet shares, a file, the standard output. The store's file
// is the queue; a sink that is slow or unavailable delays only itself.
//
// Sinks have their own folders.
package sinks

import (
	"context"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Sink takes traces, metrics, versions of definitions and erasures. One Drain
// calls it, from one goroutine.
type Sink interface {
	// Resume prepares for deliveries. The drain calls it before the first delivery
	// and after every failure, until it succeeds. kept is the store's position for
	// the sink. Resume returns the position to go on from: kept or, in any member,
	// an earlier one. A place that lost rows it had taken returns an earlier one,
	// and gets the rows again that the store still has. The source is another one
	// when the store's file was replaced.
	Resume(ctx context.Context, source Source, kept trace.Position) (trace.Position, error)

	// Deliver takes a delivery whole or not at all. When it returns nil, the
	// delivery is as safe as the sink can make it. A delivery may come again, alone
	// or within others: a sink must not double anything if it can avoid that.
	// Content that its place will always refuse must not fail Deliver, or nothing
	// could be delivered after it. Deliver must not change the delivery.
	Deliver(ctx context.Context, delivery *trace.Delivery) error

	// Shared reports whether other gateways write to the same place, so that trace
	// ids must be made under one configured key.
	Shared() bool

	// Close releases the sink's resources. No method is called after it.
	Close() error
}

// Source is the key of a position. A place that keeps positions itself must keep
// one for each Source, with all its members: a workspace may have several sinks
// that write to one place.
type Source struct {
	StoreID   [16]byte // given to the store when it was made
	Workspace string
	Sink      string // its name within the workspace
}

// Refusals counts the rows that a sink's place refused as they were. A sink that
// counts them has a method Refusals() Refusals, which may be called concurrently
// with all others.
type Refusals struct {
	Stripped uint64 // stored without their content
	Dropped  uint64 // not stored at all
}

// refusals returns the refusals of s, if it counts them.
func refusals(s Sink) Refusals {
	if counter, ok := s.(interface{ Refusals() Refusals }); ok {
		return counter.Refusals()
	}
	return Refusals{}
}
