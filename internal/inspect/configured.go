package inspect

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
)

// changedConfigs returns the keys of the remote configurations from which the
// prompt's variables get another text now, or may get one. changes are the changes of
// the configurations, by key.
func changedConfigs(p *definition.Prompt, changes map[string]Change) (keys []string) {
	for _, name := range p.Variables().Names() {
		from := p.Variables().Configured(name)
		if from == nil || slices.Contains(keys, from.Key) {
			continue
		}
		change := changes[from.Key]
		if change.Undecided || slices.ContainsFunc(change.Answers, func(a AnswerChange) bool {
			return !sameValue(valueAt(a.Old.Value, from.Path), valueAt(a.New.Value, from.Path))
		}) {
			keys = append(keys, from.Key)
		}
	}
	slices.Sort(keys)
	return keys
}

// valueAt returns the part of a value at a path, or null if the value has no such part.
func valueAt(value json.RawMessage, path string) json.RawMessage {
	if path == "" {
		return value
	}
	for name := range strings.SplitSeq(path, ".") {
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil || members[name] == nil {
			return json.RawMessage("null")
		}
		value = members[name]
	}
	return value
}
