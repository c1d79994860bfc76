package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Outcome is the result of an answer.
type Outcome uint8

// The outcomes. An answer that has not ended has none of them.
const (
	AnyOutcome Outcome = iota
	OK                 // it ended without an error code
	Failed             // it ended with an error code, or was interrupted
)

// ParseOutcome reads "ok" and "error". It is false for any other name.
func ParseOutcome(name string) (Outcome, bool) {
	switch name {
	case "ok":
		return OK, true
	case "error":
		return Failed, true
	}
	return AnyOutcome, false
}

// ScoreRange is a range of scores, which includes both ends.
type ScoreRange struct{ Least, Most float64 }

// AllScores includes every score.
var AllScores = ScoreRange{0, 100}

// ParseScoreRange parses a range in the syntax of table cells, or one score:
//
//	..20      at most 20
//	80..      at least 80
//	20..<40   from 20 on, less than 40
//	0         this score
func ParseScoreRange(text string) (ScoreRange, error) {
	wrong := fmt.Errorf("score must be a range of 0 to 100, such as ..20, 80.., 20..40 or 20..<40, or one score; this is %q", text)
	scores := AllScores
	low, high, ranged := strings.Cut(text, "..")
	below := false
	if !ranged {
		high = low
	} else if high, below = strings.CutPrefix(high, "<"); low == "" && high == "" || below && high == "" {
		return scores, wrong
	}
	for _, end := range [...]struct {
		text string
		into *float64
	}{{low, &scores.Least}, {high, &scores.Most}} {
		if end.text == "" && ranged {
			continue
		}
		if json.Unmarshal([]byte(end.text), end.into) != nil || end.text == "null" || *end.into < 0 || *end.into > 100 {
			return scores, wrong
		}
	}
	if below {
		scores.Most = math.Nextafter(scores.Most, -1)
	}
	if scores.Least > scores.Most {
		return scores, fmt.Errorf("score selects nothing: no score lies in the range %s", text)
	}
	return scores, nil
}

// Filter selects traces of one workspace. Workspace is required. Other members that
// are zero do not restrict the selection.
type Filter struct {
	Workspace string

	// Since (inclusive) and Until (exclusive) bound the times of the trace ids, which
	// differ from the times of the requests by a few milliseconds at most.
	Since, Until time.Time

	Kind     Kind
	Key      string
	APIKey   string // the name of the caller's key
	Status   int
	Outcome  Outcome
	State    *State
	Provider string // the one that answered
	Model    string
	Code     string // the error code

	FinishReason string // one of FinishReasons

	Version  string // of the definition, or of the prompt sent by an endpoint
	Revision string
	Variant  string
	Arm      string
	Row      string // "default": no row matched
	Decision ID

	Slower   time.Duration // the minimum latency
	Attempts int           // the minimum number of attempts
	// Fallback selects calls that did not only use their first target: they tried
	// another one, or skipped one.
	Fallback bool

	// Score selects traces whose last reported score is in the range. A report on a
	// decision counts for each of its traces whose kind takes a score.
	Score *ScoreRange

	// These select a trace if its metadata has them as chain_id and conversation_id,
	// or if a report on it has them and its kind takes them.
	ChainID, ConversationID string

	// Label selects traces that a visitor of the console gave this label.
	Label string

	Metadata []MetadataMatch // all of them
	Inputs   []InputMatch    // all of them
}

// InputMatch selects traces by a field of the data model that their decision read: its
// recorded value as a MetadataMatch does, or the hash that was recorded in its place.
type InputMatch struct {
	MetadataMatch
	Hashes []string // any of them
}

// MetadataMatch selects traces by a top-level member of their metadata with a
// scalar value.
type MetadataMatch struct {
	Name  string
	Value string // as JSON: "text", 1.5, true, null

	// OrText also selects a string with the same text: "1.5" in addition to 1.5.
	OrText bool
}

// maxMetadataMatches bounds the work per trace.
const maxMetadataMatches = 8

// Validate returns an error if a member is unknown, or the filter selects nothing.
func (f *Filter) Validate() error {
	switch {
	case f.Workspace == "":
		return errors.New("a filter of traces needs a workspace")
	case f.Kind != 0 && !f.Kind.valid():
		return errors.New("the filter's kind is unknown; there are prompt, endpoint, remoteconfig and metrics")
	case f.FinishReason != "" && !slices.Contains(FinishReasons, f.FinishReason):
		return fmt.Errorf("the filter's finish reason is unknown; there are %s", strings.Join(FinishReasons, ", "))
	case !f.Decision.IsZero() && f.Decision.Kind() != KindDecision:
		return errors.New("the filter's decision is no id of a decision: it is the decision_id of a trace, or the header Cadenza-Decision-Id of an answer")
	case f.Slower < 0 || f.Attempts < 0:
		return errors.New("the filter asks for a time or a number of attempts below 0")
	case f.Score != nil && !(f.Score.Least <= f.Score.Most):
		return errors.New("the filter selects nothing: no score lies in its range")
	case f.Outcome > Failed:
		return errors.New("the filter's outcome is unknown; there are ok and error")
	case !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until):
		return errors.New("the filter selects nothing: since must be before until")
	case len(f.Metadata) > maxMetadataMatches:
		return fmt.Errorf("the filter names %d members of the metadata; at most %d may be", len(f.Metadata), maxMetadataMatches)
	}
	if len(f.Inputs) > maxMetadataMatches {
		return fmt.Errorf("the filter names %d fields; at most %d may be", len(f.Inputs), maxMetadataMatches)
	}
	matches := slices.Clone(f.Metadata)
	for _, match := range f.Inputs {
		matches = append(matches, match.MetadataMatch)
	}
	for _, match := range matches {
		if match.Name == "" {
			return errors.New("the filter asks for a member of the metadata, or a field, without a name")
		}
		if _, err := match.Scalar(); err != nil {
			return err
		}
	}
	return nil
}

// Scalar returns the value as a string, json.Number, bool or nil.
func (m MetadataMatch) Scalar() (any, error) {
	decoder := json.NewDecoder(strings.NewReader(m.Value))
	decoder.UseNumber()
	var value any
	if !json.Valid([]byte(m.Value)) || decoder.Decode(&value) != nil {
		return nil, fmt.Errorf("the filter's value of metadata %q must be JSON; write text as %q", m.Name, `"text"`)
	}
	switch value.(type) {
	case map[string]any, []any:
		return nil, fmt.Errorf("the filter's value of metadata %q must be text, a number, true, false or null", m.Name)
	}
	return value, nil
}
