package trace

import (
	"errors"
	"time"
)

// ErrMoved is wrapped by the error of a position that is no longer the stored
// one: another process or sink moved it.
var ErrMoved = errors.New("the position was moved meanwhile")

// Position is how far a sink has got in a store: the greatest seq of each table
// that the sink has taken. The store gives out each seq once, in the order of its
// commits. A record that replaces another has a new seq.
type Position struct{ Traces, Metrics, Versions, Erasures int64 }

// Min returns the lesser of each member: how far both have got.
func (p Position) Min(q Position) Position {
	return Position{
		Traces:   min(p.Traces, q.Traces),
		Metrics:  min(p.Metrics, q.Metrics),
		Versions: min(p.Versions, q.Versions),
		Erasures: min(p.Erasures, q.Erasures),
	}
}

// Delivery is what a sink takes at once, whole or not at all.
type Delivery struct {
	Records  []*Record  // ended or interrupted; each with what it shares as its own
	Metrics  []*Metrics // each with its UUID
	Versions []Version

	// Erasures are applied after the rest of this delivery. They concern all that
	// was delivered up to then, and nothing that is delivered later.
	Erasures []Erasure

	// Position is the sink's after the delivery. It may move although there is
	// nothing to take: the rows in between are of other workspaces.
	Position Position
}

// Len returns how many things the delivery holds.
func (d *Delivery) Len() int {
	return len(d.Records) + len(d.Metrics) + len(d.Versions) + len(d.Erasures)
}

// Version is one version of a definition: the text that the records naming it
// were answered from.
type Version struct {
	Workspace string
	Kind      Kind
	Key       string
	Version   string
	Content   []byte
	Time      time.Time // when it was first seen
}

// File is a file of a set of definitions that was served.
type File struct {
	Path    string `json:"path"`   // below the directory, with slashes
	Hash    string `json:"sha256"` // of the content, in hexadecimal digits
	Content string `json:"content"`
}

// Erasure is a selector whose traces were erased, and when. One that chose many
// by reports comes in several parts.
type Erasure struct {
	Time time.Time
	Selector

	// ReportedOn are traces and decisions that a report chose. The report is
	// erased, so a place that has yet to get it can't find them by the selector.
	ReportedOn []ID
}

// Erased counts what an erasure deleted.
type Erased struct{ Traces, Metrics, Replies int64 }

// Selector chooses the traces of a workspace that are about one person: by a
// conversation id, by a member of the metadata, or by the id of a decision.
//
// A conversation id chooses a trace that has a report with this id, or whose
// metadata has a member conversation_id with this text. A member of the metadata
// chooses a trace whose metadata, or that of a report on it, has this member. All
// reports on a chosen trace and all replies that name it are chosen with it.
// Metrics that were reported without a trace count as the reports of one. A report on
// a decision is one on each of its traces: it chooses them all, and is chosen with
// any of them.
type Selector struct {
	Workspace      string `json:"workspace"`
	ConversationID string `json:"conversation_id,omitempty"` // or
	MetadataName   string `json:"metadata_name,omitempty"`   // of a top-level member
	MetadataValue  string `json:"metadata_value,omitempty"`  // its JSON: a string, number, true, false or null; or
	Decision       ID     `json:"decision_id,omitzero"`
}

// Validate returns an error if the selector chooses nothing, or by two things.
func (s Selector) Validate() error {
	if s.Workspace == "" {
		return errors.New("name a workspace")
	}
	by := 0
	for _, given := range []bool{s.ConversationID != "", s.MetadataName != "" || s.MetadataValue != "", !s.Decision.IsZero()} {
		if given {
			by++
		}
	}
	switch {
	case by == 0, s.MetadataName == "" && s.MetadataValue != "" && by == 1:
		return errors.New("name a conversation id or a member of the metadata, or a decision")
	case by > 1:
		return errors.New("name either a conversation id or a member of the metadata, or a decision")
	case s.MetadataName == "":
		return nil
	}
	_, err := s.Match().Scalar()
	return err
}

// Match returns the selector's member of the metadata.
func (s Selector) Match() MetadataMatch {
	return MetadataMatch{Name: s.MetadataName, Value: s.MetadataValue}
}
