package inspect

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// Comparison is the difference between two versions of a workspace.
type Comparison struct {
	// Old and New are the workspaces' revisions.
	Old string `json:"old"`
	New string `json:"new"`
	// Model reports whether the data model, context.yaml, differs.
	Model bool `json:"model_changed"`
	// Definitions are the changes of definitions, by kind and key, and after them those of
	// experiments.
	Definitions []Change `json:"definitions"`
}

// The kinds of changes of a definition.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
	// Affected is a definition that was not edited and answers differently, or
	// may do so: the data model has changed, or another configuration that the
	// definition asks for, or the prompt of an endpoint, or the split that an experiment
	// reads.
	Affected = "affected"
)

// Change is the difference of one definition.
type Change struct {
	Kind       string `json:"kind"`
	Key        string `json:"key"`
	Change     string `json:"change"`
	OldVersion string `json:"old_version,omitempty"`
	NewVersion string `json:"new_version,omitempty"`
	// NewAliases are names under which the definition now answers too. LostAliases are
	// its earlier aliases under which nothing answers any more.
	NewAliases  []string `json:"new_aliases,omitempty"`
	LostAliases []string `json:"lost_aliases,omitempty"`
	// AliasOf is the key of the definition that answers in place of a removed one.
	AliasOf string `json:"alias_of,omitempty"`
	// Members are the paths of the members that differ. Those of an experiment have both
	// values, such as "primary.goal: up -> down".
	Members []string `json:"members,omitempty"`
	// Texts show how messages among the Members differ.
	Texts []TextChange `json:"texts,omitempty"`
	// Prompt is the key of an endpoint's prompt, if that changed or is affected.
	Prompt string `json:"prompt,omitempty"`
	// Configs are the keys of the remote configurations from which a prompt's
	// variables get another text, or may get one.
	Configs []string `json:"configs,omitempty"`
	// Answers are contexts that get another answer. There is one example for
	// each pair of the row that answered and the row that answers now. The
	// answer of a prompt is the variant's name; its text is among the members.
	// The answer of an endpoint with variants is the name of the variant that calls.
	Answers []AnswerChange `json:"answers,omitempty"`
	// Units are the changes for the units of splits and ramps.
	Units []UnitChange `json:"units,omitempty"`
	// Undecided reports whether there may be other such contexts. Then the search
	// ended at its bound, or found neither an example nor a proof that no context
	// gets another answer.
	Undecided bool `json:"undecided,omitempty"`
}

// AnswerChange is a context that gets another answer.
type AnswerChange struct {
	// Context is the example, null for a request without a context.
	Context json.RawMessage `json:"context"`
	// At is the instant of the request, if the answer depends on it.
	At  *time.Time `json:"at,omitempty"`
	Old Side       `json:"old"`
	New Side       `json:"new"`
}

// Side is the answer of one of two versions.
type Side struct {
	Row string `json:"row,omitempty"`
	// Value is empty for an endpoint without variants.
	Value json.RawMessage `json:"value,omitempty"`
	// Refused is why the data model refuses the context.
	Refused string `json:"refused,omitempty"`
}

// Compare compares two versions of a workspace from the instant now on: schedules that
// ended before it do not count. For a workspace that can't be loaded the error is a
// *document.MultiError.
func Compare(older, newer definition.Place, now time.Time) (*Comparison, error) {
	before, after, err := definition.LoadVersions(older, newer)
	if err != nil {
		return nil, err
	}
	return CompareSnapshots(before, after, now), nil
}

// CompareSnapshots is Compare of versions that were loaded with one data model, if its
// file is the same in both.
func CompareSnapshots(before, after *definition.Snapshot, now time.Time) *Comparison {
	models := modelChanges(before.DataModel, after.DataModel)
	c := &Comparison{Old: before.Revision, New: after.Revision, Model: models.any, Definitions: []Change{}}
	configs := configsDiffer(before, after)
	seen := make(map[*kind.Kind]map[string]Change)
	byKind := make(map[*kind.Kind][]Change)
	for _, k := range kind.Referring {
		seen[k] = make(map[string]Change)
		olds, news := definitions(before, k), definitions(after, k)
		names := namesOf(news)
		for _, key := range unionKeys(olds, news) {
			o, n := olds[key], news[key]
			change := Change{Kind: k.String(), Key: key}
			switch {
			case o == nil:
				change.Change, change.NewVersion = Added, n.Version
			case n == nil:
				change.Change, change.OldVersion = Removed, o.Version
			default:
				change.OldVersion, change.NewVersion = o.Version, n.Version
				if o.Version != n.Version {
					change.Change = Changed
					change.Members, change.Texts = changedMembers(o.Content(), n.Content())
					change.Units = unitChanges(o, n, models, now)
				}
				if o.Version != n.Version || models.any || configs {
					d := newTableDiff(before, after, o, n, models, configs, now)
					if d != nil {
						change.Answers, change.Undecided = d.run()
					}
				}
				inspections[k].reads(&change, before, after, seen)
				if change.Change == "" && (len(change.Answers) > 0 || change.Undecided || change.Prompt != "" || len(change.Configs) > 0) {
					change.Change = Affected
				}
			}
			seen[k][key] = change
			change.addAliases(o, n, names)
			if change.Change != "" {
				byKind[k] = append(byKind[k], change)
			}
		}
	}
	for _, k := range kind.All {
		c.Definitions = append(c.Definitions, byKind[k]...)
	}
	for _, d := range experiment.Differences(before.Experiments, after.Experiments) {
		change := Change{Kind: kind.Experiment.String(), Key: d.Name, Change: Changed, Members: d.Edits}
		switch {
		case d.Before == nil:
			change.Change = Added
		case d.After == nil:
			change.Change = Removed
		case d.OfSplit:
			change.Change = Affected
		}
		c.Definitions = append(c.Definitions, change)
	}
	return c
}

// Empty reports whether nothing differs.
func (c *Comparison) Empty() bool { return !c.Model && len(c.Definitions) == 0 }

// definitions returns the definitions of a kind by key.
func definitions(s *definition.Snapshot, k *kind.Kind) map[string]*definition.Definition {
	m := make(map[string]*definition.Definition)
	for _, d := range s.Definitions {
		if d.Kind == k {
			m[d.Key] = d
		}
	}
	return m
}

// namesOf returns the keys of definitions by their names: keys and aliases.
func namesOf(definitions map[string]*definition.Definition) map[string]string {
	names := make(map[string]string, len(definitions))
	for key, d := range definitions {
		names[key] = key
		for _, alias := range d.Aliases {
			names[alias] = key
		}
	}
	return names
}

// addAliases adds the differences in the names of a definition. One side may be nil.
// names has the names of all later definitions. The caller adds them last, because an
// edit of nothing but aliases affects no other definition.
func (c *Change) addAliases(before, after *definition.Definition, names map[string]string) {
	if after == nil {
		c.AliasOf = names[c.Key]
	} else {
		for _, alias := range after.Aliases {
			if before == nil || !slices.Contains(before.Aliases, alias) {
				c.NewAliases = append(c.NewAliases, alias)
			}
		}
	}
	if before != nil {
		for _, alias := range before.Aliases {
			if names[alias] == "" {
				c.LostAliases = append(c.LostAliases, alias)
			}
		}
	}
	if c.Change == "" && len(c.NewAliases)+len(c.LostAliases) > 0 {
		c.Change = Changed
	}
}

// configsDiffer reports whether any remote configuration differs. Other
// definitions may ask for its value.
func configsDiffer(before, after *definition.Snapshot) bool {
	if len(before.RemoteConfigs) != len(after.RemoteConfigs) {
		return true
	}
	for key, c := range before.RemoteConfigs {
		if other := after.RemoteConfigs[key]; other == nil || other.Version != c.Version {
			return true
		}
	}
	return false
}

// maxMembers bounds how many paths of members are listed.
const maxMembers = 50

// changedMembers lists the paths of the members that differ, and the differences of
// the messages among them. It compares lists as a whole, because a row that moves
// moves all rows below it.
func changedMembers(before, after []byte) (paths []string, texts []TextChange) {
	var a, b any
	if json.Unmarshal(before, &a) != nil || json.Unmarshal(after, &b) != nil {
		return nil, nil
	}
	collectChanges("", a, b, func(path string, a, b any) {
		if paths = append(paths, path); len(paths) <= maxMembers {
			addText(&texts, path, a, b)
		}
	})
	slices.Sort(paths)
	if more := len(paths) - maxMembers; more > 0 {
		paths = append(paths[:maxMembers], "and "+strconv.Itoa(more)+" more")
	}
	return paths, texts
}

// collectChanges calls changed for each member that differs.
func collectChanges(path string, a, b any, changed func(path string, a, b any)) {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	if !isMap || !both {
		if !reflect.DeepEqual(a, b) {
			changed(path, a, b)
		}
		return
	}
	for _, key := range unionKeys(x, y) {
		inner := key
		if path != "" {
			inner = path + "." + key
		}
		collectChanges(inner, x[key], y[key], changed)
	}
}

// sameValue reports whether two values are equal, not their text: 1.0 is 1.
func sameValue(a, b json.RawMessage) bool {
	if string(a) == string(b) {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
