package inspect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
	"github.com/valyala/fastjson"
)

// Traced has the members of a trace's JSON that a proof needs.
type Traced struct {
	TraceID       string    `json:"trace_id"`
	Time          time.Time `json:"time"`
	Workspace     string    `json:"workspace"`
	APIKey        string    `json:"api_key"`
	Kind          string    `json:"kind"`
	Key           string    `json:"key"`
	Version       string    `json:"version"`
	Revision      string    `json:"revision"`
	Prompt        string    `json:"prompt"`
	PromptVersion string    `json:"prompt_version"`
	Decided
	Variant string            `json:"variant"`
	Splits  []TracedSplit     `json:"splits"`
	Read    map[string]string `json:"read"`
	Inputs  json.RawMessage   `json:"inputs"`
	Context json.RawMessage   `json:"context"`
	Notes   []string          `json:"notes"`
	// Of a call: the model that answered, and what it took and cost.
	Provider string  `json:"provider"`
	Model    string  `json:"model"`
	Status   int     `json:"status"`
	Latency  float64 `json:"latency_ms"`
	Usage    *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
	Cost     float64 `json:"cost_usd"`
	Cached   bool    `json:"cached"`
	Attempts []struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Cached     int64 `json:"cached_tokens"`
	} `json:"attempts"`
	// ForeignHashes says that the hashes in the trace were made under another trace key than
	// that of PlanOptions.Hash.
	ForeignHashes bool `json:"-"`
	// Verification is the gateway's verdict on the trace's seal. It is empty if the
	// gateway was not asked.
	Verification trace.Verification `json:"-"`
	// Unreadable says which member has another type than this version writes; empty:
	// all can be read.
	Unreadable string `json:"-"`
}

// TracedSplit is a split or ramp of the decision's tables, as a trace has it.
type TracedSplit struct {
	Experiment struct {
		Definition string `json:"definition"`
		Rule       string `json:"rule"`
		Salt       string `json:"salt"`
	} `json:"experiment"`
	Bucket *uint32 `json:"bucket"`
	Arm    string  `json:"arm"`
	Share  float64 `json:"share"`
	Unit   string  `json:"unit"`
	// Arms are the shares of all arms; nil: there is one, or an earlier version wrote the
	// trace.
	Arms map[string]float64 `json:"arms,omitempty"`
	// Rollout is the number of the row that gave a guarded split its share, 0 where it was not
	// known. Compared is false where the guard compares the unit with nothing, and otherwise
	// absent.
	Rollout  int64 `json:"rollout,omitempty"`
	Compared *bool `json:"compared,omitempty"`
	// Consulted is false where the unit did not come to the split, and otherwise absent.
	Consulted *bool `json:"consulted,omitempty"`
}

// WasConsulted reports whether the unit came to the split. Only then is it an exposure.
func (s *TracedSplit) WasConsulted() bool { return s.Consulted == nil || *s.Consulted }

// WasCompared reports whether the unit is one that experiments compare.
func (s *TracedSplit) WasCompared() bool { return s.Compared == nil || *s.Compared }

// Decided is the outcome of a decision: a row and an arm.
type Decided struct {
	Reason          string `json:"reason,omitempty"`
	Row             string `json:"row,omitempty"` // empty: the default
	Arm             string `json:"arm,omitempty"`
	EndpointVariant string `json:"endpoint_variant,omitempty"`
	EndpointRow     string `json:"endpoint_row,omitempty"`
}

// Outcomes of a proof.
const (
	Same    = "same"    // the definitions decide as recorded
	Differs = "differs" // they decide otherwise
	Unknown = "unknown" // the trace does not have enough for a proof
)

// Proof is the comparison of a trace with the decision of its definitions.
type Proof struct {
	TraceID  string    `json:"trace_id"`
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"`
	Key      string    `json:"key"`
	Version  string    `json:"version"`
	Revision string    `json:"revision"`
	Result   string    `json:"result"` // one of Same, Differs and Unknown
	Recorded Decided   `json:"recorded"`
	// Verification is the verdict on the record's seal.
	Verification trace.Verification `json:"verification,omitzero"`
	// Possible are the decisions that the trace permits: one if it has all inputs.
	Possible []Decided `json:"possible,omitempty"`
	// Differences say how the record differs from the decision.
	Differences []string `json:"differences,omitempty"`
	// Missing says what a proof would need, and how to have it recorded.
	Missing []string `json:"missing,omitempty"`
	// Notes say what the proof rests on.
	Notes []string `json:"notes,omitempty"`
	// Tables explain the tables row by row.
	Tables []ProvedTable `json:"tables,omitempty"`
}

// ProvedTable explains how a table decides.
type ProvedTable struct {
	Definition string      `json:"definition"`
	Rows       []ProvedRow `json:"rows"`
}

// ProvedRow says whether a row matched, and why not.
type ProvedRow struct {
	Row     string `json:"row"`
	Matched string `json:"matched"` // yes, no or unknown
	Why     string `json:"why,omitempty"`
	// Position is the row's place in the files of the revision.
	Position string `json:"position,omitempty"`
}

// ReadTraced reads a trace. If a member has another type than this version writes, the
// proof has a difference for it.
func ReadTraced(text []byte) (*Traced, error) {
	t := new(Traced)
	err := json.Unmarshal(text, t)
	if odd, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		t.Unreadable = fmt.Sprintf("%s is a JSON %s, which no version of Cadenza writes there", cmp.Or(odd.Field, "the trace"), odd.Value)
		return t, nil
	}
	return t, err
}

// NoRevision says what a proof misses whose revision the store does not have.
func NoRevision(revision string) string {
	return fmt.Sprintf("the store has no revision %s any more: it is past the retention, or newer ones took its place", revision)
}

// Unproved returns the proof of a trace whose definitions can't be had.
func Unproved(t *Traced, missing string) *Proof {
	p := newProver(t)
	p.miss("%s", missing)
	return p.conclude()
}

func newProver(t *Traced) *prover {
	return &prover{t: t, Proof: &Proof{
		TraceID: t.TraceID, Time: t.Time, Kind: t.Kind, Key: t.Key, Version: t.Version, Revision: t.Revision,
		Recorded: t.Decided, Verification: t.Verification,
	}}
}

// prover proves one trace.
type prover struct {
	*Proof
	t      *Traced
	s      *definition.Snapshot
	replay *rules.Replay
	// tables are the tables that answered: of an endpoint its prompt's and its own.
	tables []proved
	read   []*rules.Table // of the configurations that were read
	// consulted are tables and read together. The inputs are the fields that these read.
	consulted []*rules.Table
}

// proved is a table that answered, with the part of the record that it decided.
type proved struct {
	table *rules.Table
	arm   func(rules.Decision) string
	into  func(d *Decided, reason, row, arm string)
}

// Prove evaluates the definitions of a trace's revision by the inputs and the context
// of the trace, and compares the decision with the record: reason, row and arm,
// versions, and the splits that were consulted, each with its bucket, arm and share.
// The record's seal says whether any other member was changed.
func Prove(s *definition.Snapshot, t *Traced) *Proof {
	p := newProver(t)
	p.s = s
	p.prove()
	return p.conclude()
}

// conclude adds the verdict on the seal, and returns the proof with its result.
func (p *prover) conclude() *Proof {
	switch v := p.Verification; v.Result {
	case trace.SealChanged:
		if len(v.Changed) > 0 {
			p.differ("changed after the record was made: %s", strings.Join(v.Changed, ", "))
			break
		}
		p.differ("the record was changed after it was made: its seal does not fit")
	case trace.SealOtherKey:
		p.miss("the record is sealed under the trace key %s, which the gateway does not have: it can't say whether the record was changed", v.Key)
	case trace.SealNone:
		p.miss("the record has no seal: somebody removed it")
	}
	if removed := p.Verification.Removed; len(removed) > 0 {
		p.Notes = append(p.Notes, "removed after the record was made: "+strings.Join(removed, ", "))
	}
	switch {
	case len(p.Differences) > 0:
		p.Result = Differs
	case len(p.Missing) > 0:
		p.Result = Unknown
	default:
		p.Result = Same
	}
	return p.Proof
}

func (p *prover) differ(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(p.Differences, text) {
		p.Differences = append(p.Differences, text)
	}
}

func (p *prover) miss(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(p.Missing, text) {
		p.Missing = append(p.Missing, text)
	}
}

func (p *prover) prove() {
	t := p.t
	if t.Unreadable != "" {
		p.differ("%s", t.Unreadable)
		return
	}
	if strings.HasPrefix(t.APIKey, trace.ConsoleKey) {
		p.miss("it is a call of the console's playground, whose visitor chose what the tables decide otherwise")
		return
	}
	if t.Reason == "" {
		p.miss("the trace has no reason: it was recorded before a decision was made")
		return
	}
	if t.Revision != p.s.Revision {
		p.differ("the trace is of revision %s, and not of %s", t.Revision, p.s.Revision)
		return
	}
	if !p.find() {
		return
	}
	if t.Variant != "" && t.Variant != t.Arm {
		p.differ("the variant is %s, and the arm %s", t.Variant, t.Arm)
	}
	noContext := t.Reason == rules.NoContext.String() || slices.Contains(t.Notes, rules.NoteNoContext)
	p.readTables()
	if noContext && !slices.ContainsFunc(p.consulted, (*rules.Table).ReadsGateway) {
		p.proveDefault()
		return
	}
	e := rules.Evidence{Tables: p.consulted, At: t.Time, NoContext: noContext, AllSplits: p.hasAllConsulted()}
	var ok bool
	if e.Inputs, ok = parsed(t.Inputs); !ok {
		p.differ("inputs is no JSON")
		return
	}
	if e.Context, ok = parsed(t.Context); !ok {
		p.Notes = append(p.Notes, "the context that was kept is no whole JSON, and was not used")
	}
	if e.Inputs == nil && e.Context == nil && slices.ContainsFunc(p.tables, func(t proved) bool { return len(t.table.Fields()) > 0 }) {
		p.miss("the trace has no inputs")
		return
	}
	var err error
	if p.replay, err = p.s.Model.Replay(e); err != nil {
		p.differ("%v", err)
		return
	}
	p.checkSplits()
	p.decide()
}

// parsed reads a member of a trace. It returns nil for an absent member.
func parsed(text json.RawMessage) (v *fastjson.Value, ok bool) {
	if len(text) == 0 || string(text) == "null" {
		return nil, true
	}
	v, err := fastjson.ParseBytes(text)
	return v, err == nil
}

// find finds the definitions and compares their versions.
func (p *prover) find() bool {
	t := p.t
	k := kind.Named(t.Kind)
	d := p.s.Find(k, t.Key)
	if d == nil {
		p.differ("revision %s has no %s %s", t.Revision, t.Kind, t.Key)
		return false
	}
	inspections[k].prove(p, t.Key)
	if d.Version != t.Version {
		p.differ("the %s %s has version %s in revision %s, and recorded is %s", t.Kind, t.Key, d.Version, t.Revision, t.Version)
	}
	return true
}

// decidedBy adds the table of the prompt that answered. A note says that the caller named a
// variant, which counts for calls: it takes the key, a prompt's version or the playground.
func (p *prover) decidedBy(prompt *definition.Prompt, callersName bool) {
	arm := func(d rules.Decision) string { return prompt.Variant(d).Key }
	for _, v := range prompt.Variants() {
		if callersName && slices.Contains(p.t.Notes, trace.NoteVariant+v.Key) {
			arm = func(rules.Decision) string { return v.Key }
			p.Notes = append(p.Notes, "the caller named the variant "+v.Key+": the table chose the row alone")
		}
	}
	p.tables = []proved{{prompt.Table(), arm, (*Decided).set}}
}

// set sets the decision of the table that picked the answer.
func (d *Decided) set(reason, row, arm string) { d.Reason, d.Row, d.Arm = reason, row, arm }

// readTables finds the tables of the configurations that were read, and compares
// their versions.
func (p *prover) readTables() {
	for _, name := range slices.Sorted(maps.Keys(p.t.Read)) {
		key, isConfig := strings.CutPrefix(name, kind.RemoteConfig.Folder+"/")
		c := p.s.RemoteConfigs[key]
		if !isConfig || c == nil {
			p.differ("%s was read, which revision %s does not have", name, p.t.Revision)
			continue
		}
		if version := p.t.Read[name]; c.Version != version {
			p.differ("%s has version %s in revision %s, and version %s was read", name, c.Version, p.t.Revision, version)
		}
		p.read = append(p.read, c.Table())
	}
	p.consulted = slices.Clone(p.read)
	for _, t := range p.tables {
		p.consulted = append(p.consulted, t.table)
	}
}

// proveDefault proves the answer to a request without a context.
func (p *prover) proveDefault() {
	var d Decided
	for _, t := range p.tables {
		t.into(&d, rules.NoContext.String(), "", t.arm(rules.Decision{Row: -1, Outcome: -1, Reason: rules.NoContext}))
	}
	p.Possible = []Decided{d}
	if d != p.t.Decided {
		p.differ("without a context, the answer is %s, and recorded is %s", d, p.t.Decided)
	}
	if len(p.t.Inputs) > 0 || len(p.t.Splits) > 0 {
		p.differ("without a context there are no inputs and splits, and the trace has some")
	}
	if v, ok := parsed(p.t.Context); ok && v != nil && string(v.MarshalTo(nil)) != "{}" {
		p.differ("the trace says that there was no context, and has one")
	}
}

// findSplit finds the row of a split by the names in the record.
func (p *prover) findSplit(c *TracedSplit) (*rules.Table, int, bool) {
	for _, table := range p.consulted {
		if table.Name() == c.Experiment.Definition {
			row := slices.IndexFunc(table.Rows(), func(r rules.Row) bool { return r.ID == c.Experiment.Rule })
			return table, row, row >= 0 && table.Salt(row) == c.Experiment.Salt
		}
	}
	return nil, 0, false
}

// checkSplits compares the recorded splits with the splits of the definitions, and
// takes over the recorded buckets.
func (p *prover) checkSplits() {
	for i := range p.t.Splits {
		c := &p.t.Splits[i]
		name := c.Experiment.Definition + " " + c.Experiment.Rule
		table, row, ok := p.findSplit(c)
		if !ok || c.Bucket == nil || !p.replay.SetBucket(table, row, *c.Bucket) {
			p.differ("%s (salt %s) is no split that the answer rests on by revision %s, or its bucket is none", name, c.Experiment.Salt, p.t.Revision)
			continue
		}
		want := p.replay.Consulted(table, row, *c.Bucket)
		if !c.WasConsulted() {
			want.Arm, want.Share = "", 0
		}
		if c.Arm != want.Arm || c.Share != want.Part() {
			p.differ("%s: bucket %d has arm %q and share %v, and recorded are %q and %v", name, *c.Bucket, want.Arm, want.Part(), c.Arm, c.Share)
		}
		if c.WasCompared() == want.Uncompared {
			p.differ("%s: that bucket %d is compared is %t, and recorded is %t", name, *c.Bucket, !want.Uncompared, c.WasCompared())
		}
		if c.Rollout != 0 && table.Divide(row, p.t.Time).Guard == nil {
			p.differ("%s is no rollout, and row %d of one is recorded", name, c.Rollout)
		}
		if arms := p.replay.Arms(table, row); (c.Arms != nil || !c.WasConsulted()) && !maps.Equal(arms, c.Arms) {
			p.differ("%s: the shares of its arms are %v, and recorded are %v", name, arms, c.Arms)
		}
	}
}

// hasAllConsulted reports whether the trace had room for every split that a unit came to,
// which are the first.
func (p *prover) hasAllConsulted() bool {
	return len(p.t.Splits) < rules.MaxSplits || !p.t.Splits[rules.MaxSplits-1].WasConsulted()
}

// decide evaluates the tables that answered, and compares.
func (p *prover) decide() {
	p.Possible = []Decided{{}}
	for _, t := range p.tables {
		v := p.replay.Table(t.table)
		explained := ProvedTable{Definition: t.table.Name(), Rows: []ProvedRow{}}
		places := make(map[string]string)
		for _, row := range t.table.Rows() {
			places[row.ID] = strings.TrimPrefix(row.Pos.String(), "revision:"+p.t.Revision+"/")
		}
		for _, row := range v.Rows {
			explained.Rows = append(explained.Rows, ProvedRow{row.ID, row.Matched, row.Why, places[row.ID]})
		}
		p.Tables = append(p.Tables, explained)
		possible := p.Possible
		p.Possible = nil
		for _, before := range possible {
			for _, d := range v.Possible {
				next, row := before, ""
				if d.Row >= 0 {
					row = t.table.Rows()[d.Row].ID
				}
				t.into(&next, d.Reason.String(), row, t.arm(d))
				p.Possible = append(p.Possible, next)
			}
		}
		if v.Doubt != nil {
			p.miss("%s, %s. %s", t.table.Name(), v.Doubt, v.Doubt.Remedy)
		}
		p.checkConsulted(t.table, v)
		for _, asked := range p.replay.Asked(t.table) {
			if _, read := p.t.Read[asked.Name()]; !read {
				p.differ("%s: a prerequisite asks %s, which is not among what was read", t.table.Name(), asked.Name())
			}
		}
	}
	for _, read := range p.read {
		p.checkConsulted(read, p.replay.Table(read))
	}
	for _, problem := range p.replay.Problems() {
		p.differ("%s", problem)
	}
	switch {
	case !slices.Contains(p.Possible, p.t.Decided):
		texts := make([]string, len(p.Possible))
		for i, d := range p.Possible {
			texts[i] = d.String()
		}
		p.differ("the definitions decide %s, and recorded is %s", strings.Join(texts, " or "), p.t.Decided)
	case p.replay.StoodIn():
		p.Notes = append(p.Notes, "a recorded bucket stands in for a unit that was not recorded")
	}
}

// checkConsulted compares the recorded splits of a table with the splits that its unit
// came to.
func (p *prover) checkConsulted(t *rules.Table, v *rules.Verdict) {
	recorded := make(map[int]bool)
	for i := range p.t.Splits {
		table, row, ok := p.findSplit(&p.t.Splits[i])
		if !ok || table != t {
			continue
		}
		switch {
		case recorded[row]:
			p.differ("%s: the split of row %s is recorded twice", t.Name(), t.Rows()[row].ID)
		case !p.t.Splits[i].WasConsulted():
			if slices.Contains(v.Consulted(), row) {
				p.differ("%s: the split of row %s is recorded as not consulted, and the unit came to it", t.Name(), t.Rows()[row].ID)
			}
		case !v.MayHaveConsulted(row):
			p.differ("%s: the split of row %s is recorded, to which no unit came", t.Name(), t.Rows()[row].ID)
		}
		recorded[row] = true
	}
	for _, row := range v.Consulted() {
		if !recorded[row] && p.hasAllConsulted() {
			p.differ("%s: the unit came to the split of row %s, which is not recorded", t.Name(), t.Rows()[row].ID)
		}
	}
}

// String names the row and the arm.
func (d Decided) String() string {
	s := d.Row + " (" + d.Reason + ")"
	switch {
	case d.Reason == "":
		return "no decision"
	case d.Reason == rules.Default.String() && d.Row == "":
		s = "the default"
	case d.Row == "":
		s = "the default (" + d.Reason + ")"
	}
	if d.Arm != "" {
		s += ", arm " + d.Arm
	}
	if d.EndpointVariant != "" {
		s += ", endpoint's " + cmp.Or(d.EndpointRow, "default") + ", variant " + d.EndpointVariant
	}
	return s
}
