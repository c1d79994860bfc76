package trace

import (
	"errors"
	"time"
)

// ErrMoved is wrapped by the error for a position that differs from the stored
// one, because another process or sink has moved it.
var ErrMoved = errors.New("the position was moved meanwhile")

// Position is the progress of a sink in a store: the highest seq of each table
// that the sink has taken. The store assigns each seq once, in the order of its
// commits. A record that replaces another one has a new seq.
type Position struct{ Traces, Metrics, Versions, Erasures, Exposures int64 }

// Min returns the smaller one of each member: the progress that both have made.
func (p Position) Min(q Position) Position {
	return Position{
		Traces:    min(p.Traces, q.Traces),
		Metrics:   min(p.Metrics, q.Metrics),
		Versions:  min(p.Versions, q.Versions),
		Erasures:  min(p.Erasures, q.Erasures),
		Exposures: min(p.Exposures, q.Exposures),
	}
}

// Delivery is a unit of work for a sink, which takes all of it or nothing.
type Delivery struct {
	Records  []*Record  // ended or interrupted; each includes its shared members
	Metrics  []*Metrics // each with its UUID
	Versions []Version

	// Exposures say how many answers records stand for by now. Such a record may come in a
	// later delivery, with the number of then.
	Exposures []Exposure

	// Erasures are applied after the other members of this delivery. They apply to
	// all rows delivered up to then, and to no later ones.
	Erasures []Erasure

	// Position is the sink's position after the delivery. It may advance although
	// the delivery is empty, if the rows in between are of other workspaces.
	Position Position
}

// Len returns the number of records, metrics, versions, exposures and erasures.
func (d *Delivery) Len() int {
	return len(d.Records) + len(d.Metrics) + len(d.Versions) + len(d.Exposures) + len(d.Erasures)
}

// Version is one version of a definition: the text from which the records that
// name it were answered.
type Version struct {
	Workspace string
	Kind      Kind
	Key       string
	Version   string
	Content   []byte
	Time      time.Time // when it was first seen
}

// Exposure is how many answers a record stands for.
type Exposure struct {
	TraceID ID  `json:"trace_id"`
	Answers int `json:"answers"` // see Record
}

// File is a file of a set of definitions.
type File struct {
	Path    string `json:"path"`   // below the directory, with slashes
	Hash    string `json:"sha256"` // of the content, in hexadecimal digits
	Content string `json:"content"`
}

// Erasure is the time and the selector of an erasure. An erasure that chose many
// traces by reports comes as several Erasures.
type Erasure struct {
	Time time.Time
	Selector

	// ReportedOn are the traces and decisions that a report chose. The report is
	// erased, so a sink that has not received it can't find them by the selector.
	ReportedOn []ID
}

// Erased counts the rows that an erasure deleted.
type Erased struct{ Traces, Metrics, Replies int64 }

// Selector chooses the traces of a workspace that are about one person: by a
// conversation id, by a member of the metadata, by the id of a decision, or by a unit.
//
// A conversation id chooses a trace that has a report with this id, or whose
// metadata has a member conversation_id with this text. A member of the metadata
// chooses a trace if the trace's metadata, or a report's metadata, has this member.
// A chosen trace includes all reports on it and all replies that name it. Metrics
// reported without a trace are treated as a report on a trace of their own. A report
// on a decision is a report on each of its traces: it chooses all of them, and is
// chosen with any of them.
//
// A unit chooses the reports on it, and the traces whose splits have its hash, or whose
// inputs its hash or value, with all traces of their decisions: a request is about one.
type Selector struct {
	Workspace      string `json:"workspace"`
	ConversationID string `json:"conversation_id,omitempty"` // or
	MetadataName   string `json:"metadata_name,omitempty"`   // of a top-level member
	MetadataValue  string `json:"metadata_value,omitempty"`  // its JSON: a string, number, true, false or null; or
	Decision       ID     `json:"decision_id,omitzero"`      // or
	UnitField      string `json:"unit_field,omitempty"`
	Unit           string `json:"unit,omitempty"`       // the keyed hash of a value of the field
	UnitValue      string `json:"unit_value,omitempty"` // its JSON, where traces may have it

	// UnitHashed keeps UnitValue from the sinks: traces have only the hash now.
	UnitHashed bool `json:"-"`
}

// Validate returns an error unless the selector has a workspace and exactly one
// criterion.
func (s Selector) Validate() error {
	if s.Workspace == "" {
		return errors.New("name a workspace")
	}
	criteria := 0
	for _, set := range []bool{s.ConversationID != "", s.MetadataName != "" || s.MetadataValue != "", !s.Decision.IsZero(), s.UnitField != "" && s.Unit != ""} {
		if set {
			criteria++
		}
	}
	switch {
	case criteria == 0, s.MetadataName == "" && s.MetadataValue != "" && criteria == 1:
		return errors.New("name a conversation id or a member of the metadata, a decision or a unit")
	case criteria > 1:
		return errors.New("name either a conversation id or a member of the metadata, a decision or a unit")
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
