package definition

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
)

// maxPrerequisites bounds a chain of remote configurations of which each has a
// condition on the next one's value.
const maxPrerequisites = 100

// table compiles the table of a definition.
func (l *loader) table(d *doc, errs *document.Errors) *rules.Table {
	known := make(map[string]*rules.Prerequisite) // many rows have the same one
	name := d.kind.Folder + "/" + d.key
	opts := rules.Options{Key: d.key, Name: name, Variants: d.kind.Variants, Config: func(key, value *document.Node, errs *document.Errors) *rules.Prerequisite {
		asked, err := json.Marshal([]any{key.Text, cellValue(value)})
		if p := known[string(asked)]; p != nil && err == nil {
			return p
		}
		before := errs.Len()
		p := l.prerequisite(key, value, errs)
		if errs.Len() == before {
			known[string(asked)] = p
		}
		c := l.configs[key.Text]
		l.refer(d, kind.RemoteConfig, key, p != nil && c != nil)
		return p
	}}
	var found document.Errors
	t := rules.DecodeTable(l.snapshot.Model, d.node, opts, &found)
	found.Name("table")
	errs.Merge(&found)
	l.remark(t.Remarks())
	d.patterns = t.PatternSize()
	d.rollouts = d.readRollouts(t, errs)
	return t
}

// remark takes over the remarks of decoding. It may be called in parallel.
func (l *loader) remark(remarks []rules.Remark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range remarks {
		l.found = append(l.found, Warning{Pos: r.Pos, Message: r.Message, Kind: "quoted-cell"})
	}
}

// unused warns of fields and segments of the data model that no table uses.
func (l *loader) unused() {
	if len(l.files) == 0 {
		return
	}
	for _, r := range l.snapshot.Model.Unused(func(yield func(*rules.Table) bool) {
		for _, t := range l.snapshot.tabled() {
			if !yield(t.table) {
				return
			}
		}
	}) {
		l.found = append(l.found, Warning{Pos: r.Pos, Message: r.Message, Kind: "unused"})
	}
}

// prerequisite resolves the condition that a remote configuration has a value, or
// one of a list of values.
func (l *loader) prerequisite(key, value *document.Node, errs *document.Errors) *rules.Prerequisite {
	d := l.byKey[kind.RemoteConfig][key.Text]
	if d == nil && !l.missing(kind.RemoteConfig, key.Text) {
		return nil
	}
	if d == nil {
		errs.Report("unknown-config", key.Pos, "there is no remote configuration %q%s", key.Text, l.didYouMean(kind.RemoteConfig, key.Text))
		return nil
	}
	if cycle := l.cycle(d.key); cycle != "" {
		errs.Add(key, "remote configurations depend on each other in a circle: %s", cycle)
		return nil
	}
	c := l.config(d, l.errs)
	reader := valueReader{typ: c.typ}
	wanted := []*document.Node{value}
	if c.typ != typeList && value.Shape == document.Sequence {
		wanted = value.Items
	}
	if c.table.Depth() >= maxPrerequisites {
		errs.Add(key, "remote configurations depend on each other over more than %d steps, %s is the last", maxPrerequisites, d.key)
		return nil
	}
	p := &rules.Prerequisite{Table: c.table}
	for _, n := range wanted {
		want := reader.read(n, "the value of "+d.key, errs)
		if want == nil {
			continue
		}
		p.Accept = append(p.Accept, c.outcomesOf(want)...)
		p.AcceptDefault = p.AcceptDefault || sameJSON(want, c.fallback)
	}
	slices.Sort(p.Accept)
	p.Accept = slices.Compact(p.Accept)
	return p
}

// remoteConfigs builds all remote configurations. The ones whose tables refer
// to others are built after these, one at a time; all others in parallel.
func (l *loader) remoteConfigs() map[string]*RemoteConfig {
	all := l.docs[kind.RemoteConfig]
	var free, bound []*doc
	for _, d := range all {
		if refersToConfigs(d.node) {
			bound = append(bound, d)
		} else {
			free = append(free, d)
		}
	}
	built := make([]*RemoteConfig, len(free))
	place := func(i int) document.Position { return free[i].node.Pos }
	l.parallel("compiling this "+kind.RemoteConfig.Noun, len(free), place, func(i int, errs *document.Errors) {
		built[i] = buildOne(l, free[i], errs, decodeRemoteConfig)
	})
	l.configs = make(map[string]*RemoteConfig, len(all))
	for i, d := range free {
		l.configs[d.key] = built[i]
	}
	for _, d := range bound {
		if l.stopped() {
			break
		}
		l.config(d, l.errs)
	}
	return l.configs
}

// config builds a remote configuration, unless it is built, after the ones that
// it refers to.
func (l *loader) config(d *doc, errs *document.Errors) *RemoteConfig {
	if c, ok := l.configs[d.key]; ok {
		return c
	}
	l.building = append(l.building, d.key)
	begun, others := time.Now(), l.others
	l.others = 0
	c := buildOne(l, d, errs, decodeRemoteConfig)
	took := time.Since(begun)
	l.effort.spent(took-l.others, d.node.Pos, "compiling this remote configuration")
	l.others = others + took
	l.building = l.building[:len(l.building)-1]
	l.configs[d.key] = c
	return c
}

// cycle returns the text for a chain of conditions that comes back to its begin.
func (l *loader) cycle(key string) string {
	for i, k := range l.building {
		if k == key {
			return strings.Join(append(l.building[i:len(l.building):len(l.building)], key), " -> ")
		}
	}
	return ""
}

// refersToConfigs reports whether a table may have a config: condition.
func refersToConfigs(def *document.Node) bool {
	for _, name := range []string{"columns", "matrix", "rules"} {
		if mentionsConfig(def.Get(name)) {
			return true
		}
	}
	return false
}

func mentionsConfig(n *document.Node) bool {
	if n == nil {
		return false
	}
	for _, item := range n.Items {
		if item.Shape == document.Scalar && item.Text == "config" || mentionsConfig(item) {
			return true
		}
	}
	for _, m := range n.Members {
		if m.Key.Text == "config" || mentionsConfig(m.Value) {
			return true
		}
	}
	return false
}
