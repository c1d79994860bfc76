package definition

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Load reads, checks and compiles the workspace in dir: its data model in
// context.yaml, the definitions in the folders prompts, endpoints and
// remoteconfigs, and the experiments that read them. The error is a *document.MultiError with every mistake found and
// its position.
//
// What definitions name of a gateway's configuration is checked for one of the
// gateways that known describes; without any, as CheckConfigured does where nothing is
// known.
func Load(dir string, known ...Configuration) (*Snapshot, error) {
	return Place{Dir: dir}.Load(known...)
}

// Place is where definitions are: in a directory or, as if they were in it, in a Past.
type Place struct {
	Dir  string
	Past *Past // nil: they are in the directory
}

// Load is Load of a place.
func (p Place) Load(known ...Configuration) (*Snapshot, error) { return p.load(new(memory), known...) }

func (p Place) load(m *memory, known ...Configuration) (*Snapshot, error) {
	var errs document.Errors
	if p.Past == nil {
		return load(context.Background(), readDirectory(p.Dir, &errs), m, known, &errs)
	}
	d, err := p.Past.directory(p.Dir)
	if err != nil {
		return nil, err
	}
	return load(context.Background(), d, m, known, &errs)
}

// loadAgain is Load with the memory of the last loading in m. It replaces that
// memory, also when it fails, and ends early when the context does.
func loadAgain(ctx context.Context, dir string, m *memory, known ...Configuration) (*Snapshot, error) {
	var errs document.Errors
	d := readDirectory(dir, &errs)
	return load(ctx, d, m, known, &errs)
}

// load builds a snapshot from the files of a workspace when its turn comes. It leaves one
// processor to the requests that the process answers.
func load(ctx context.Context, d *directory, m *memory, known []Configuration, errs *document.Errors) (*Snapshot, error) {
	done, err := turn(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: loading the definitions did not begin: %w", d.dir, err)
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, longestLoad)
	defer cancel()
	return compile(ctx, d, m, besides(), known, errs)
}

// compile builds a snapshot from the files of a workspace, by so many workers at a
// time. errs holds the mistakes found while the files were read.
func compile(ctx context.Context, d *directory, m *memory, workers int, known []Configuration, errs *document.Errors) (*Snapshot, error) {
	s := &Snapshot{Warnings: d.warnings, emptying: d.emptying}
	l := &loader{directory: d, ctx: ctx, workers: workers, errs: errs, snapshot: s, last: *m}
	l.effort.begun = time.Now()
	// From here on a definition may be changed in place. So nothing is remembered
	// after a panic, and where the loading is given up.
	*m = memory{}
	now := time.Now()
	errs.Name("files")
	// Each step has the rule of its mistakes that have no other.
	for _, step := range []struct {
		rule string
		do   func()
	}{
		{"syntax", l.parse},
		{"data-model", func() { s.Model, s.DataModel = l.decodeModel(), l.model }},
		{"", l.buildAll},
		{"experiment", func() {
			r := l.readExperiments(known, now)
			s.Experiments, s.Rollouts = r.experiments(), r.rollouts()
			r.warn()
		}},
		{"endpoint", func() {
			if !l.past {
				l.checkConfigured(known)
				l.warnUncalled()
			}
		}},
		{"", func() {
			l.keepWarnings()
			*m = l.next
		}},
		{"overlap", func() {
			if errs.Len() == 0 && !l.past {
				l.runTests()
				errs.Name("test")
				l.analyse(now)
				l.unused()
			}
		}},
	} {
		if step.do(); l.stopped() {
			*m = memory{}
			return nil, l.gaveUp()
		}
		errs.Name(step.rule)
	}
	if l.nameCauses(); errs.Len() > 0 {
		return nil, &LoadError{&document.MultiError{List: errs.List()}, sortWarnings(append(l.warnings, l.found...))}
	}
	if len(l.files) == 0 {
		l.warn("no-definitions", ".", "there are no definitions here")
	}
	s.Warnings = sortWarnings(append(l.warnings, l.found...))
	for _, e := range s.Endpoints {
		s.Remembers = s.Remembers || e.remembers()
	}
	s.Revision = l.revision()
	s.Loaded, s.Tests = now, int(l.tests.Load())
	if l.context != nil {
		s.Files = append(s.Files, l.next.context.File)
	}
	for _, f := range l.files {
		s.Files = append(s.Files, l.next.files[f.path].File)
	}
	for _, f := range l.csv {
		s.Files = append(s.Files, f.File)
	}
	return s, nil
}

// loader is the state of one loading.
type loader struct {
	*directory
	ctx      context.Context
	workers  int
	errs     *document.Errors
	snapshot *Snapshot
	last     memory // of the last loading
	next     memory // for the next one
	csv      []*file
	model    *document.Node
	docs     map[*kind.Kind][]*doc // sorted by key
	byKey    map[*kind.Kind]map[string]*doc
	broken   map[*kind.Kind]map[string]bool   // keys of files with a mistake
	aliases  map[*kind.Kind]map[string]string // the keys by the aliases
	configs  map[string]*RemoteConfig
	building []string      // the configurations being built, each for the one before
	others   time.Duration // the part of the last one's time that others took, which it refers to

	mu    sync.Mutex // guards found and leads
	found []Warning
	leads map[configuredKey]func() *leads
	tests atomic.Int64 // how many were run

	effort effort
	// The sizes of all definitions together, and the ceiling that was exceeded.
	nodes, text, content, patterns atomic.Int64
	full                           atomic.Bool
	overfull                       atomic.Pointer[string]
}

// doc is a definition's parsed file.
type doc struct {
	kind    *kind.Kind
	key     string
	aliases []string
	// promptIDs are those of the aliases that have versions.
	promptIDs []promptID
	node      *document.Node
	file      *file
	// How the definition was built: newly or taken over, with these references,
	// of which one may name a definition that does not exist.
	definition *Definition // nil before it is built
	fresh      bool
	refs       []ref
	unresolved bool
	patterns   int // bytes of its table's regular expressions
	rollouts   []readRollout
	// The texts that its variables read of remote configurations, and their
	// bytes.
	reads map[*prompt.Configured]bool
	texts int
}

// parse parses the files in parallel and finds every definition's key.
func (l *loader) parse() {
	files := make([]*file, len(l.files))
	place := func(i int) document.Position { return l.position(l.files[i].path) }
	l.parallel("reading this file", len(l.files), place, func(i int, errs *document.Errors) {
		f := l.files[i]
		files[i] = l.last.remembered(f, func(text string, errs *document.Errors) *document.Node { return l.parseFile(f, text, errs) })
		f.data = nil
		errs.Merge(&files[i].errs)
		l.grow(files[i].nodes, files[i].bytes)
	})
	if l.stopped() {
		return
	}
	l.next.files = make(map[string]*file, len(l.files)+1)
	if c := l.context; c != nil {
		l.next.context = l.last.remembered(c, func(text string, errs *document.Errors) *document.Node {
			return l.parseText(c, text, errs)
		})
		l.next.files[c.path] = l.next.context
		l.grow(l.next.context.nodes, l.next.context.bytes)
		l.errs.Merge(&l.next.context.errs)
		l.model = l.next.context.node
	}
	l.docs = make(map[*kind.Kind][]*doc)
	l.byKey, l.broken = make(map[*kind.Kind]map[string]*doc), make(map[*kind.Kind]map[string]bool)
	for _, folder := range kind.Folders() {
		k := kind.InFolder(folder)
		l.byKey[k], l.broken[k] = make(map[string]*doc), make(map[string]bool)
	}
	if l.readTables(files); l.stopped() {
		return
	}
	for i, f := range l.files {
		l.next.files[f.path] = files[i]
		if files[i].whole == nil {
			l.broken[f.kind][f.key] = true
			if key := files[i].node.Get("key"); key != nil {
				l.broken[f.kind][key.Text] = true
			}
			for _, key := range files[i].keys {
				l.broken[f.kind][key] = true
			}
			continue
		}
		l.add(&doc{kind: f.kind, key: f.key, node: files[i].whole, file: files[i]})
	}
	for _, docs := range l.docs {
		slices.SortFunc(docs, func(a, b *doc) int { return cmp.Compare(a.key, b.key) })
	}
	l.readAliases()
}

// parseText parses a file. The directory keeps no more of the text than is needed to
// know that there is too much.
func (l *loader) parseText(f *source, text string, errs *document.Errors) *document.Node {
	name := l.file(f.path)
	if document.TooLarge(name, f.size, errs) {
		return nil
	}
	return document.ParseText(name, text, errs)
}

func (l *loader) parseFile(f *source, text string, errs *document.Errors) *document.Node {
	before := errs.Len()
	n := l.parseText(f, text, errs)
	switch {
	case n == nil && errs.Len() == before:
		errs.AddAt(l.position(f.path), "the file is empty: it should hold one %s", f.kind.Noun)
	case n != nil && n.Shape != document.Mapping:
		errs.Add(n, "a %s must be a mapping, this is %s", f.kind.Noun, n.Shape)
		return nil
	}
	return n
}

// add adds a definition under its key.
func (l *loader) add(d *doc) {
	at := d.node
	if n := d.node.Get("key"); n != nil {
		key, ok := n.ReadString(l.errs, "key")
		if !ok {
			l.broken[d.kind][d.key] = true
			return
		}
		d.key, at = key, n
	}
	if !ValidKey(d.key) {
		l.errs.Add(at, "%q can't be a key: 1 to 256 letters, digits and . _ : / - (give one by key:)", d.key)
		return
	}
	if other := l.byKey[d.kind][d.key]; other != nil {
		l.errs.Add(at, "the key %q is taken: %s is the %s %q too", d.key, other.node.Pos, d.kind.Noun, d.key)
		return
	}
	l.byKey[d.kind][d.key] = d
	l.docs[d.kind] = append(l.docs[d.kind], d)
}

// missing reports whether a definition that is referred to does not exist, as far
// as can be known: one with a mistake, or in a file that can't be read, may.
func (l *loader) missing(k *kind.Kind, key string) bool {
	return l.byKey[k][key] == nil && !l.broken[k][key] && !l.isLost(k, key)
}

// keys returns the known keys of a kind for messages.
func (l *loader) keys(k *kind.Kind) []string {
	keys := make([]string, len(l.docs[k]))
	for i, d := range l.docs[k] {
		keys[i] = d.key
	}
	return keys
}

// parallel calls f for 0 to n-1 by the loader's workers and collects the mistakes in
// the order of the calls. what and the position of a call are for the message
// if it takes too long. Calls that have not begun when the loading must end are
// left out. parallel panics where f does.
func (l *loader) parallel(what string, n int, place func(i int) document.Position, f func(i int, errs *document.Errors)) {
	var (
		next     atomic.Int64
		wg       sync.WaitGroup
		panicked atomic.Pointer[string]
		lists    = make([]document.Errors, n)
	)
	work := func() {
		defer func() {
			if p := recover(); p != nil {
				text := fmt.Sprintf("%v\n%s", p, debug.Stack())
				panicked.Store(&text)
			}
		}()
		for i := int(next.Add(1)) - 1; i < n && !l.stopped(); i = int(next.Add(1)) - 1 {
			begun := time.Now()
			f(i, &lists[i])
			l.effort.spent(time.Since(begun), place(i), what)
		}
	}
	for range min(l.workers, n) {
		wg.Go(work)
	}
	wg.Wait()
	if text := panicked.Load(); text != nil {
		panic(*text)
	}
	for i := range lists {
		l.errs.Merge(&lists[i])
	}
}

// loadings are the steps of a loading for the definitions of each kind: to build all
// of them into the snapshot, and to test one.
var loadings = map[*kind.Kind]struct {
	build func(*loader)
	test  func(*loader, *doc, *document.Errors)
}{
	kind.Prompt: {
		func(l *loader) { l.snapshot.Prompts = build(l, kind.Prompt, decodePrompt) },
		(*loader).testPrompt,
	},
	kind.Endpoint: {
		func(l *loader) { l.snapshot.Endpoints = build(l, kind.Endpoint, decodeEndpoint) },
		(*loader).testEndpoint,
	},
	kind.RemoteConfig: {
		func(l *loader) { l.snapshot.RemoteConfigs = l.remoteConfigs() },
		(*loader).testRemoteConfig,
	},
}

// buildAll builds the definitions of all kinds, each after the ones that it refers
// to.
func (l *loader) buildAll() {
	for _, k := range kind.Referring {
		if loadings[k].build(l); l.stopped() {
			return
		}
		l.errs.Name(k.String())
	}
	l.snapshot.clients = sync.OnceValue(l.snapshot.forClients)
	l.snapshot.names = make(map[*kind.Kind]map[string]*Definition, len(kind.All))
	l.snapshot.ofKind = make(map[*kind.Kind][]*Definition, len(kind.All))
	for _, k := range kind.All {
		first := len(l.snapshot.Definitions)
		names := make(map[string]*Definition, len(l.docs[k]))
		for _, d := range l.docs[k] {
			l.snapshot.Definitions = append(l.snapshot.Definitions, d.definition)
			names[d.key] = d.definition
			for _, alias := range d.aliases {
				if p, ok := patternOf(alias); ok {
					p.endpoint = d.definition
					l.snapshot.patterns = append(l.snapshot.patterns, p)
				} else {
					names[alias] = d.definition
				}
			}
		}
		l.snapshot.names[k], l.snapshot.ofKind[k] = names, l.snapshot.Definitions[first:]
	}
	slices.SortStableFunc(l.snapshot.patterns, func(a, b pattern) int { return b.len() - a.len() })
}

// build decodes all definitions of a kind.
func build[T any](l *loader, k *kind.Kind, decode func(*loader, *doc, *document.Errors) *T) map[string]*T {
	docs := l.docs[k]
	out := make([]*T, len(docs))
	place := func(i int) document.Position { return docs[i].node.Pos }
	l.parallel("compiling this "+k.Noun, len(docs), place, func(i int, errs *document.Errors) {
		out[i] = buildOne(l, docs[i], errs, decode)
	})
	m := make(map[string]*T, len(docs))
	for i, d := range docs {
		m[d.key] = out[i]
	}
	return m
}

// warnAt adds a warning. It may be called in parallel.
func (l *loader) warnAt(kind string, n *document.Node, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found = append(l.found, Warning{Pos: n.Pos, Message: fmt.Sprintf(format, args...), Kind: kind})
}

// revision identifies the whole workspace, with the plans of its experiments. Aliases decide which definition
// answers, and not its content: they are no part of a version.
func (l *loader) revision() string {
	type entry struct {
		Kind    trace.Kind
		Key     string
		V       string
		Aliases []string `json:",omitempty"`
	}
	var entries []entry
	for _, d := range l.snapshot.Definitions {
		entries = append(entries, entry{d.Kind.Trace, d.Key, d.Version, d.Aliases})
	}
	all := []any{cellValue(l.model), entries}
	if plans := l.snapshot.Experiments; plans != nil {
		all = append(all, plans)
	}
	return version(canonicalJSON(all))
}

// commonMembers are the members every definition has.
var commonMembers = []string{"key", "aliases", "description", "log", "tests"}

// common decodes the members every definition has.
func (d *doc) common(errs *document.Errors) Definition {
	def := Definition{Kind: d.kind, Key: d.key, Aliases: d.aliases, Pos: d.node.Pos, node: d.node}
	if n := d.node.Get("description"); n != nil {
		n.ReadString(errs, "description")
	}
	if n := d.node.Get("log"); n != nil {
		word, _ := n.ReadWord(errs, "log", LogPolicies()...)
		def.Log, _ = ParseLogPolicy(word)
	}
	return def
}

// seal gives a definition its content and version.
func (d *Definition) seal(c content) {
	if d.Log != Unset {
		c["log"] = d.Log.String()
	}
	if d.Window > 0 {
		c["record"] = "exposures"
		c["window"] = d.Window.String()
	}
	c["kind"] = d.Kind.Noun
	d.content = canonicalJSON(c)
	d.Version = version(d.content)
}
