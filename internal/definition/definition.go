// Package definition reads a workspace, a directory of prompts, endpoints and
// remote configurations, into one immutable snapshot, and keeps it up to date
// while the files change.
package definition

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/rollout"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// LogPolicy says how much of an answer its trace keeps.
type LogPolicy uint8

// The log policies. Unset leaves the choice to the workspace.
const (
	Unset LogPolicy = iota
	LogNone
	LogMetadata
	LogContent
)

// logPolicies are the words for log policies, by value.
var logPolicies = []string{"", "none", "metadata", "content"}

// LogPolicies returns the words for log policies, from the one that records the
// least.
func LogPolicies() []string { return logPolicies[1:] }

// ParseLogPolicy returns the policy with the word, and whether there is one.
func ParseLogPolicy(word string) (policy LogPolicy, known bool) {
	i := slices.Index(LogPolicies(), word)
	return LogPolicy(i + 1), i >= 0
}

// String returns the policy's word in definitions. It is empty for Unset.
func (p LogPolicy) String() string {
	if int(p) < len(logPolicies) {
		return logPolicies[p]
	}
	return ""
}

// Warning is something in a workspace that is allowed and probably unintended.
type Warning struct {
	Pos     document.Position
	Message string
	// More is the number of warnings of one kind that were left out; the first
	// of them was at Pos. It is 0 for a warning itself.
	More int
	// Kind is a stable name for warnings of the same cause, as document.Error.Rule
	// is for mistakes.
	Kind string
	// Suggestion is what to write at Pos instead, where the message does not ask
	// whether that was meant.
	Suggestion string
	// Witness is a context, as JSON, that proves the warning at the instant At, or now
	// where that is zero. It is empty for a warning without one.
	Witness string
	At      time.Time
}

// String returns file:line:column: message, without line and column where the
// warning is about the whole file.
func (w Warning) String() string {
	return w.Pos.String() + ": " + w.Message
}

// Snapshot is a whole workspace at one moment. It is immutable and safe for
// concurrent use.
type Snapshot struct {
	// Revision identifies the content of the workspace: 12 hexadecimal digits,
	// the same on every node that serves the same definitions.
	Revision string
	// Awaited reports whether there are no definitions yet: the snapshot stands for those
	// that Source.Serve will have given, and has none and no revision.
	Awaited bool
	Model   *rules.Model
	// DataModel is the data model as its file has it, nil without one. It must not be
	// changed.
	DataModel     *document.Node
	Prompts       map[string]*Prompt
	Endpoints     map[string]*Endpoint
	RemoteConfigs map[string]*RemoteConfig
	// Remembers reports whether an endpoint may give a remembered answer.
	Remembers bool
	// Warnings are sorted by file and line, at most MaxWarnings of a kind.
	Warnings []Warning
	// Tests is how many tests the definitions have; all passed.
	Tests int
	// Loaded is when the files were read.
	Loaded time.Time
	// Definitions are all of them, by kind and key.
	Definitions []*Definition
	// Experiments are the plans of the experiments, by name. They answer nothing, and are no
	// definitions of Definitions.
	Experiments []experiment.Plan
	// Rollouts are those of the guarded splits, by name.
	Rollouts []rollout.Plan
	// Files are all files that were read, that of the data model first if there is
	// one. They must not be changed.
	Files []trace.File

	clients  func() *Snapshot                      // ForClients
	whole    *Snapshot                             // Whole; nil: the snapshot itself
	emptying bool                                  // the directory has the file allowEmpty
	names    map[*kind.Kind]map[string]*Definition // by key and by alias without a star
	ofKind   map[*kind.Kind][]*Definition
	patterns []pattern // aliases with a star, the longest first
	// gateway are the gateway's fields that files name, each where a file does first.
	gateway []*document.Node
}

// Context returns the content of context.yaml, or "".
func (s *Snapshot) Context() string {
	if len(s.Files) > 0 && !strings.Contains(s.Files[0].Path, "/") {
		return s.Files[0].Content
	}
	return ""
}

// Bundled returns the files that a bundle of the workspace has, by path: all that were read,
// and the one that allows edits to remove most of the workspace, if it is there.
func (s *Snapshot) Bundled() []trace.File {
	files := slices.Clone(s.Files)
	if s.emptying {
		files = append(files, trace.File{Path: allowEmpty, Hash: hashOf(nil)})
	}
	slices.SortFunc(files, func(a, b trace.File) int { return strings.Compare(a.Path, b.Path) })
	return files
}

// Definition is the part that all kinds have in common.
type Definition struct {
	Kind *kind.Kind
	Key  string
	// Aliases are other names under which callers may ask for the definition, sorted.
	Aliases []string
	// Version is the first 12 hexadecimal digits of the SHA-256 of Content.
	Version string
	Log     LogPolicy
	// Window is how long an answer that was recorded stands for further ones of the same
	// unit, which are counted on it. Zero: each answer is recorded.
	Window time.Duration
	// Pos is where the definition begins.
	Pos     document.Position
	node    *document.Node
	content []byte
	prompt  *Prompt
	typ     string
	client  bool
	table   *rules.Table
	answer  func(rules.Decision) []byte
	same    func(a, b int) bool // reports whether two outcomes of the table are the same answer
}

// Rendered returns the prompt of which the definition answers a variant: a prompt itself,
// or an endpoint's. It is nil for a definition that answers with a value.
func (d *Definition) Rendered() *Prompt { return d.prompt }

// Type returns the type of a remote configuration's value: boolean, string, number, list
// or object. It is empty for another kind.
func (d *Definition) Type() string { return d.typ }

// Client reports whether API keys of the kind client, which are public, may read the
// definition.
func (d *Definition) Client() bool { return d.client }

// Table returns the table that picks the answer. It is nil for an endpoint without
// variants, which has one policy.
func (d *Definition) Table() *rules.Table { return d.table }

// Answer returns what tools show of the answer to a decision of Table, as JSON: the key
// of the variant, or the value.
func (d *Definition) Answer(decision rules.Decision) []byte { return d.answer(decision) }

// Cost returns the estimate of rules.Table for picking an answer by the context, in
// nanoseconds.
func (d *Definition) Cost() int {
	if d.table == nil {
		return 0
	}
	return d.table.Cost()
}

// Content returns the definition as canonical JSON. It does not depend on the
// file's name, formatting, comments or order of members. Variants are in it with
// all they inherit. It must not be changed.
func (d *Definition) Content() []byte { return d.content }

// Node returns the definition as its file has it, with the rows of its CSV file. It must
// not be changed.
func (d *Definition) Node() *document.Node { return d.node }

func (d *Definition) base() *Definition { return d }

// size returns the length of the content in bytes.
func (d *Definition) size() int { return len(d.content) }

// Of returns the definitions of a kind, by key. The list must not be changed.
func (s *Snapshot) Of(k *kind.Kind) []*Definition { return s.ofKind[k] }

// Find returns the definition of a kind with the key, or nil.
func (s *Snapshot) Find(k *kind.Kind, key string) *Definition {
	if d := s.names[k][key]; d != nil && d.Key == key {
		return d
	}
	return nil
}

// Named returns the definition of a kind that has the name as its key or as an alias, or
// the endpoint with the longest alias with a star that matches it, or nil.
func (s *Snapshot) Named(k *kind.Kind, name string) *Definition {
	if d := s.names[k][name]; d != nil || k != kind.Endpoint {
		return d
	}
	return s.matching(name)
}

// ForClients returns the snapshot as API keys of the kind client see it: by Find, Named, Of,
// Definitions, Experiments and Rollouts it has the remote configurations with the mark client and
// nothing else. Its maps have all, because tables ask what their callers do not see.
func (s *Snapshot) ForClients() *Snapshot { return s.clients() }

func (s *Snapshot) forClients() *Snapshot {
	view := *s
	shown := maps.Clone(s.names[kind.RemoteConfig])
	maps.DeleteFunc(shown, func(_ string, d *Definition) bool { return !d.client })
	view.names = make(map[*kind.Kind]map[string]*Definition)
	view.ofKind = make(map[*kind.Kind][]*Definition)
	view.Definitions = slices.DeleteFunc(slices.Clone(s.Definitions), func(d *Definition) bool { return !d.client })
	view.names[kind.RemoteConfig], view.ofKind[kind.RemoteConfig] = shown, view.Definitions
	view.patterns, view.Experiments, view.Rollouts, view.whole = nil, nil, nil, s
	return &view
}

// Whole returns the snapshot that a view of ForClients is of, and any other itself.
func (s *Snapshot) Whole() *Snapshot { return cmp.Or(s.whole, s) }

// ValidKey reports whether s has the form of a key: [A-Za-z0-9._:/-]{1,256}.
func ValidKey(s string) bool {
	if s == "" || len(s) > 256 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.' || c == '_' || c == ':' || c == '/' || c == '-':
		default:
			return false
		}
	}
	return true
}
