package adminapi

import (
	"bytes"
	"encoding/json"
)

// Member is a member of a JSON object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// MembersOf returns the members of a recorded object in their order, or nil for other text.
func MembersOf(text []byte) (all []Member) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for decoder.More() {
		var m Member
		name, err := decoder.Token()
		if err != nil || decoder.Decode(&m.Value) != nil {
			return nil
		}
		m.Name, _ = name.(string) // as every name is
		all = append(all, m)
	}
	return all
}

// PlainText returns a text without its quotes, and any other value as JSON.
func PlainText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
}
