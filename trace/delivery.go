package trace

import (
	"errors"
	"time"
)

// ErrMoved is wrapped by the error of a position that is not the stored one any
// more: somebody else moved it.
var ErrMoved = errors.New("the position was moved meanwhile")

// Position is how far a sink has got in what a store holds: the greatest seq of
// each table that it is done with. A seq is given out once, in the order of the
// commits; a record that replaces its start has a new one.
type Position struct{ Traces, Metrics, Versions, Erasures int64 }

// Min is the memberwise lesser of two positions: what both have got to.
func (p Position) Min(q Position) Position {
	return Position{
		Traces:   min(p.Traces, q.Traces),
		Metrics:  min(p.Metrics, q.Metrics),
		Versions: min(p.Versions, q.Versions),
		Erasures: min(p.Erasures, q.Erasures),
	}
}

// Delivery is what a sink is to take at once, whole or not at all.
type Delivery struct {
	Records  []*Record  // started, ended or interrupted; each with what it shares as its own
	Metrics  []*Metrics // each with its UUID
	Versions []Version

	// Erasures are to be applied after the rest of this delivery. They concern
	// all that was delivered by then, and nothing that is delivered later.
	Erasures []Erasure

	// Position is the sink's once it took the delivery. It may be further on
	// although there is nothing to take: what lay between was not for this sink.
	Position Position
}

// Len counts what is to be taken.
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

// Erasure is a selector whose traces were erased, and when.
type Erasure struct {
	Time time.Time
	Selector
}

// Erased counts what an erasure deleted.
type Erased struct{ Traces, Metrics, Replies int64 }

// Selector chooses traces of a workspace by who they are about: by a
// conversation id, or by a member of the metadata.
//
// A trace is chosen by its conversation id where a report on it bears that, or
// where its metadata has a member conversation_id that is this text; it is
// chosen by metadata where its own or that of a report on it has such a member.
// With a trace go all reports on it and all replies that name it. Metrics that
// were reported without a trace count as the reports of one.
type Selector struct {
	Workspace      string `json:"workspace"`
	ConversationID string `json:"conversation_id,omitempty"` // or
	MetadataName   string `json:"metadata_name,omitempty"`   // of a top-level member
	MetadataValue  string `json:"metadata_value,omitempty"`  // its JSON: a string, number, true, false or null
}

// Validate tells what is wrong with a selector.
func (s Selector) Validate() error {
	switch {
	case s.Workspace == "":
		return errors.New("name a workspace")
	case s.ConversationID == "" && s.MetadataName == "":
		return errors.New("name a conversation id or a member of the metadata")
	case s.ConversationID != "" && (s.MetadataName != "" || s.MetadataValue != ""):
		return errors.New("name either a conversation id or a member of the metadata")
	case s.ConversationID != "":
		return nil
	}
	_, err := s.Match().Scalar()
	return err
}

// Match is the selector's member of the metadata.
func (s Selector) Match() MetadataMatch {
	return MetadataMatch{Name: s.MetadataName, Value: s.MetadataValue}
}
