package price

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// shippedModels holds facts about models that are not prices. Its head explains its
// lines and their sources.
//
//go:embed models.txt
var shippedModels string

// Model holds the facts about a model that are not prices. An unknown fact is
// zero.
type Model struct {
	// ContextWindow is the most tokens that a prompt and its answer have together.
	ContextWindow int64 `json:"context_window,omitempty"`
	// Deprecated is the day on which the provider announced the model's end.
	Deprecated Day `json:"deprecated,omitzero"`
	// Shutdown is the first day, in UTC, on which the provider does not serve the model.
	Shutdown Day `json:"shutdown,omitzero"`
	// Successor is the model that the provider recommends instead.
	Successor string `json:"successor,omitempty"`
}

// ModelMembers are the names of a Model's facts, in files and in a Caddyfile.
var ModelMembers = []string{"context_window", "deprecated", "shutdown", "successor"}

// Day is a day in UTC, in JSON as "2006-01-02".
type Day struct{ time.Time }

// MarshalJSON returns the day as text.
func (d Day) MarshalJSON() ([]byte, error) { return d.AppendFormat(nil, `"`+time.DateOnly+`"`), nil }

// UnmarshalJSON reads a day.
func (d *Day) UnmarshalJSON(text []byte) error {
	var day string
	if err := json.Unmarshal(text, &day); err != nil {
		return err
	}
	return d.set(day)
}

// String returns the day as text.
func (d Day) String() string { return d.Format(time.DateOnly) }

// Set sets a fact by its name. The error describes the form that the text
// lacks.
func (m *Model) Set(name, text string) (err error) {
	switch name {
	case "context_window":
		if m.ContextWindow, err = strconv.ParseInt(text, 10, 64); err != nil || m.ContextWindow <= 0 {
			return fmt.Errorf("%q is not a number of tokens, such as 128000", text)
		}
	case "deprecated":
		err = m.Deprecated.set(text)
	case "shutdown":
		err = m.Shutdown.set(text)
	default:
		m.Successor = text
	}
	return err
}

func (d *Day) set(text string) (err error) {
	if d.Time, err = time.Parse(time.DateOnly, text); err != nil {
		return fmt.Errorf("%q is not a day, such as 2027-01-14", text)
	}
	return nil
}

// Validate refuses a window that is none, and an end before its announcement.
func (m *Model) Validate() error {
	if m.ContextWindow < 0 {
		return fmt.Errorf("context_window %d must be a number of tokens, 1 or more", m.ContextWindow)
	}
	if !m.Shutdown.IsZero() && m.Shutdown.Before(m.Deprecated.Time) {
		return fmt.Errorf("shutdown %s is before deprecated %s", m.Shutdown, m.Deprecated)
	}
	return nil
}

// notice is how long before its end a model is ending.
const notice = 90 * 24 * time.Hour

// Ending returns a sentence about the end of the model and its successor if the model
// ends within 90 days or has ended; else an empty string:
//
//	ends on 2027-01-14, in 49 days; its successor is gpt-6-luna
func (m *Model) Ending(now time.Time) string {
	left := m.Shutdown.Sub(now)
	if m.Shutdown.IsZero() || left > notice {
		return ""
	}
	var text string
	switch days := (left + 24*time.Hour - 1) / (24 * time.Hour); {
	case left <= 0:
		text = "ended on " + m.Shutdown.String()
	case days == 1:
		text = "ends on " + m.Shutdown.String() + ", in 1 day"
	default:
		text = fmt.Sprintf("ends on %s, in %d days", m.Shutdown, days)
	}
	if m.Successor != "" {
		text += "; its successor is " + m.Successor
	}
	return text
}

// Model returns the facts about a provider's model, as Find finds its price: a fact
// given with a price wins over a shipped one. A fine-tuned model has the facts of its
// base model.
func (t *Table) Model(provider, host, model string) Model {
	var m Model
	if _, given := t.giving(provider, model); given != nil {
		m = given.Model
	}
	if !t.shipped {
		return m
	}
	name, _, _, ok := section(hostName(host))
	if !ok {
		return m
	}
	lines := sectionOf(shippedModels, name)
	for name := range versions(strings.TrimPrefix(strings.ToLower(model), "ft:")) {
		line := lineOf(lines, name)
		if line == "" {
			continue
		}
		shipped, _ := parseModel(line) // a test reads all lines
		if m.ContextWindow == 0 {
			m.ContextWindow = shipped.ContextWindow
		}
		if m.Shutdown.IsZero() { // with which the others go
			m.Deprecated, m.Shutdown, m.Successor = shipped.Deprecated, shipped.Shutdown, shipped.Successor
		}
		break
	}
	return m
}

// parseModel parses the part of a line after the name.
func parseModel(line string) (m Model, err error) {
	for field := range strings.FieldsSeq(line) {
		name, text, _ := strings.Cut(field, "=")
		if err := m.Set(name, text); err != nil {
			return m, fmt.Errorf("%s: %w", field, err)
		}
	}
	return m, m.Validate()
}
