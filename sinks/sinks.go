// Package sinks copies what the trace store keeps to where others read it: a
// database that a fleet shares, a file, the standard output. The store's file is
// the queue; a sink that is slow or away delays nothing but itself.
//
// Sinks live in folders of their own.
package sinks

import (
	"context"

	"github.com/cadenza-gateway/cadenza/trace"
)

// Sink takes traces, metrics, versions of definitions and erasures. One Drain
// calls it, from one goroutine.
type Sink interface {
	// Resume prepares for deliveries: it is called before the first one and
	// after every failure, again and again until it succeeds. kept is the
	// position that the store has for the sink; Resume returns that to go on
	// from, which is kept or, in any member, before it: a place that lost what
	// it had taken says so here, and gets it again as far as the store still
	// has it. The source is another one when the store's file was replaced.
	Resume(ctx context.Context, source Source, kept trace.Position) (trace.Position, error)

	// Deliver takes a delivery whole or not at all. When it returns nil, what it
	// took is as safe as it gets with the sink. A delivery may come again, alone
	// or within others: a sink that can must not double anything. Content that
	// its place refuses for good must not fail it, or nothing would come after.
	// What is delivered must not be changed.
	Deliver(ctx context.Context, delivery *trace.Delivery) error

	// Shared reports whether other gateways write to the same place, so that trace
	// ids must be made under one configured key.
	Shared() bool

	// Close gives up what the sink holds. Nothing is called after it.
	Close() error
}

// Source says whose position it is that a sink is at. A place that keeps
// positions itself must tell them apart by all of it: a workspace may have
// several sinks that write to one place.
type Source struct {
	StoreID   [16]byte // given to the store when it was made
	Workspace string
	Sink      string // its name within the workspace
}

// Refusals counts the rows that a sink's place refused as they were. A sink that
// knows such a thing says so by a method Refusals() Refusals, which may be called
// at any time.
type Refusals struct {
	Stripped uint64 // stored without their content
	Dropped  uint64 // not stored at all
}

// refusals are those of s, if it counts them.
func refusals(s Sink) Refusals {
	if counter, ok := s.(interface{ Refusals() Refusals }); ok {
		return counter.Refusals()
	}
	return Refusals{}
}
