package adminapi

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// PlanLine is a line of the answer of POST /cadenza/plan.
type PlanLine struct {
	// Progress is how much was looked at. The last line has none.
	Progress *PlanProgress `json:"progress,omitempty"`
	Plan     *inspect.Plan `json:"plan,omitempty"`
	Error    string        `json:"error,omitempty"` // why the plan broke off, in the last line
}

// PlanProgress counts traces of the store.
type PlanProgress struct {
	Seen int64 `json:"seen"`
	Of   int64 `json:"of"`
}

// refusedPlan is the answer to definitions that would not be served: 422.
type refusedPlan struct {
	Error  string            `json:"error"`
	Errors []inspect.Finding `json:"errors"`
}

const (
	// maxPlan bounds the body of a request for a plan, in bytes, and its files together.
	maxPlan = definition.MaxBytes
	// planBodyTimeout bounds the time for it to come.
	planBodyTimeout = time.Minute
	// planLineTimeout bounds the time for the caller to take a line of the answer, and what is
	// before it.
	planLineTimeout = time.Minute
	// usualReplay is how far back a plan looks without a word.
	usualReplay = "7d"
)

// planStep is how often a line of the answer says what is known so far; less in tests.
var planStep = time.Second

// planning has the workspaces of which a plan is being made, by the store's path and name.
var planning sync.Map

// servePlan answers POST /cadenza/plan: what the definitions of the body would have answered
// to the recorded decisions. The body is a tar of them or, as that of POST /cadenza/review, an
// edit. Its thread gives way to those that answer callers.
func servePlan(w http.ResponseWriter, r *http.Request) (err error) {
	aside(func() { err = plan(w, r) })
	return err
}

func plan(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := knownParameters(values, []string{"workspace", "replay", "against", "format"}); err != nil {
		return err
	}
	since, err := ParsePast("replay", cmp.Or(values.Get("replay"), usualReplay), time.Now())
	if err != nil {
		return apiError(http.StatusBadRequest, "%v", err)
	}
	if given := values.Get("against"); given != "" && given != "served" {
		return apiError(http.StatusBadRequest, "against must be served or left out, this is %q", given)
	}
	if given := values.Get("format"); given != "" && given != "markdown" && given != "json" {
		return apiError(http.StatusBadRequest, "format must be markdown or json, this is %q", given)
	}
	var workspace *Workspace
	var load func() (against, next *definition.Snapshot, err error)
	if r.Header.Get("Content-Type") == tarType {
		if workspace, err = workspaceNamed(r.Context(), values.Get("workspace")); err != nil {
			return err
		}
		files, old, err := readTar(w, r)
		if err != nil {
			return err
		}
		load = func() (against, next *definition.Snapshot, err error) {
			return workspace.unpack(r.Context(), files, old)
		}
	} else {
		p, err := editOf(w, r)
		if bad, ok := errors.AsType[caddy.APIError](err); ok && bad.HTTPStatus == http.StatusBadRequest {
			return apiError(http.StatusBadRequest, "%v; of a tar, the Content-Type is %s", err, tarType)
		}
		if p == nil {
			return err
		}
		workspace = p.Workspace
		load = func() (against, next *definition.Snapshot, err error) {
			_, next, err = p.propose(r.Context())
			return nil, next, err
		}
	}
	p := planAnswer{w: w, control: http.NewResponseController(w), markdown: values.Get("format") == "markdown"}
	made, err := workspace.planOne(r.Context(), &p, values.Get("against") != "", since, load)
	switch mistakes, ok := inspect.Mistakes(err); {
	case ok:
		return writeStatus(w, http.StatusUnprocessableEntity, refusedPlan{"the gateway would not serve these definitions:\n" + err.Error(), mistakes})
	case err == nil && made.Decisions == 0:
		err = apiError(http.StatusNotFound, "no decisions were recorded since %s: ask for a longer replay, or wait until there are some", since.UTC().Format(time.RFC3339))
	case err == nil && p.markdown:
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
		return made.Markdown(w)
	case err == nil:
		return p.line(&PlanLine{Plan: made})
	}
	if p.begun {
		return p.line(&PlanLine{Error: err.Error()})
	}
	return err
}

// planOne makes a plan of the definitions that load returns, unless another one is being made.
func (w *Workspace) planOne(ctx context.Context, p *planAnswer, served bool, since time.Time, load func() (against, next *definition.Snapshot, err error)) (*inspect.Plan, error) {
	id := w.Store.Path + "\x00" + w.Name
	if _, busy := planning.LoadOrStore(id, true); busy {
		return nil, apiError(http.StatusTooManyRequests, "a plan of this workspace is being made: ask again when it is done")
	}
	defer planning.Delete(id)
	against, next, err := load()
	if err != nil {
		return nil, err
	}
	if served {
		against = w.Definitions.Snapshot()
	}
	reader, err := w.openTraces(ctx)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return w.replay(ctx, reader, w.planner(ctx, reader, against, next), w.HasKeyOf, since, p)
}

// planAnswer writes the lines of a plan.
type planAnswer struct {
	w               http.ResponseWriter
	control         *http.ResponseController
	markdown, begun bool
}

func (p *planAnswer) line(l *PlanLine) error {
	p.w.Header().Set("Content-Type", wire.LinesType)
	p.begun = true
	_ = p.control.SetWriteDeadline(time.Now().Add(planLineTimeout))
	defer func() { _ = p.control.SetWriteDeadline(time.Time{}) }() // of the next request
	encoder := json.NewEncoder(p.w)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(l)
	_ = p.control.Flush() // a page of the console reads the whole answer
	return err
}

// planner returns what plans next. Without against, next is compared with what was recorded.
func (w *Workspace) planner(ctx context.Context, reader *sqlite.Reader, against, next *definition.Snapshot) *inspect.Planner {
	served := w.Definitions.Snapshot()
	var pasts definition.Pasts
	return inspect.NewPlanner(func(revision string) (*definition.Snapshot, error) {
		if revision == served.Revision {
			return served, nil
		}
		stored, err := reader.Revision(ctx, w.Name, revision)
		if errors.Is(err, sqlite.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return pasts.Load(&definition.Past{Revision: revision, Files: stored.Files})
	}, against, next, inspect.PlanOptions{Hash: func(dst []byte, field, text string) []byte { return append(dst, w.HashInput(field, text)...) }, Cost: w.Cost})
}

// replay adds the decisions since a time to a plan. hasKeyOf is that of the workspace.
func (w *Workspace) replay(ctx context.Context, reader *sqlite.Reader, planner *inspect.Planner, hasKeyOf func(trace.ID) bool, since time.Time, p *planAnswer) (*inspect.Plan, error) {
	recorded, err := reader.Recorded(ctx, w.Name, since)
	batch := replayedBatch{hasKeyOf: hasKeyOf}
	step := time.Now().Add(planStep)
	for more := true; more && err == nil; {
		if more, err = recorded.Next(ctx, batch.add); err != nil {
			break
		}
		if err := batch.replay(planner); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		select {
		case <-w.Stopping:
			return nil, apiError(http.StatusServiceUnavailable, "the gateway loads another configuration or stops: ask again")
		default:
		}
		if now := time.Now(); more && !p.markdown && !now.Before(step) {
			step = now.Add(planStep)
			if err := p.line(&PlanLine{Progress: &PlanProgress{recorded.Seen, recorded.Of}, Plan: planner.Report()}); err != nil {
				return nil, err
			}
		}
	}
	if err != nil {
		return nil, w.unreadable(err)
	}
	return planner.Report(), nil
}

// replayedBatch has the decisions of one read. What many traces have in common is there once.
type replayedBatch struct {
	hasKeyOf func(trace.ID) bool // see gateway.Workspace.HasKeyOf
	list     []inspect.Traced
	answers  []int64
	bytes    []byte
	parser   fastjson.Parser
	texts    map[string]string
	reads    map[string]map[string]string
	notes    map[string][]string
	arms     map[string]map[string]float64
	scratch  []byte
}

// maxKeptTexts bounds the texts that a batch keeps for the next one.
const maxKeptTexts = 10_000

// text returns a text that others have too.
func (b *replayedBatch) text(of []byte) string {
	text, known := b.texts[string(of)]
	if !known {
		text = string(of)
		b.texts[text] = text
	}
	return text
}

// own returns a text that is there until the batch is replayed.
func (b *replayedBatch) own(of []byte) []byte {
	from := len(b.bytes)
	b.bytes = append(b.bytes, of...)
	return b.bytes[from:len(b.bytes):len(b.bytes)]
}

func (b *replayedBatch) add(d *sqlite.RecordedDecision) {
	if b.texts == nil || len(b.texts)+len(b.reads)+len(b.notes)+len(b.arms) > maxKeptTexts {
		b.texts, b.reads, b.notes, b.arms = make(map[string]string), make(map[string]map[string]string), make(map[string][]string), make(map[string]map[string]float64)
	}
	b.list, b.answers = append(b.list, inspect.Traced{
		TraceID: d.ID.String(), Time: d.Time, Kind: b.text(d.Kind), Key: b.text(d.Key), APIKey: b.text(d.APIKey), Revision: b.text(d.Revision), Variant: b.text(d.Variant),
		Decided: inspect.Decided{Reason: b.text(d.Reason), Row: b.text(d.Row), Arm: b.text(d.Arm), EndpointVariant: b.text(d.EndpointVariant), EndpointRow: b.text(d.EndpointRow)},
		Inputs:  b.own(d.Inputs), Context: b.own(d.Context), ForeignHashes: !b.hasKeyOf(d.ID),
	}), append(b.answers, d.Answers)
	t := &b.list[len(b.list)-1]
	var errs [4]error
	if len(d.Splits) > 0 {
		t.Splits, errs[0] = b.splits(d.Splits)
	}
	t.Read, errs[1] = decoded(b.reads, d.Read)
	if len(d.Call) > 0 {
		errs[3] = json.Unmarshal(d.Call, t)
	}
	for i := range d.Notes {
		var notes []string
		if notes, errs[2] = decoded(b.notes, d.Notes[i]); len(notes) > 0 {
			t.Notes = slices.Concat(notes, t.Notes)
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Unreadable = err.Error()
	}
}

// splits decodes the splits of a trace: json.Unmarshal would take as long as all else.
func (b *replayedBatch) splits(text []byte) ([]inspect.TracedSplit, error) {
	array, err := b.parser.ParseBytes(text)
	if err != nil {
		return nil, err
	}
	list, err := array.Array()
	if err != nil {
		return nil, err
	}
	splits := make([]inspect.TracedSplit, len(list))
	for i, from := range list {
		to := &splits[i]
		experiment := from.Get("experiment")
		to.Experiment.Definition, to.Experiment.Rule = b.text(experiment.GetStringBytes("definition")), b.text(experiment.GetStringBytes("rule"))
		to.Experiment.Salt, to.Arm = b.text(experiment.GetStringBytes("salt")), b.text(from.GetStringBytes("arm"))
		to.Share, to.Unit = from.GetFloat64("share"), string(from.GetStringBytes("unit"))
		if came := from.Get("consulted"); came != nil {
			consulted := came.Type() == fastjson.TypeTrue
			to.Consulted = &consulted
		}
		if arms := from.Get("arms"); arms != nil {
			b.scratch = arms.MarshalTo(b.scratch[:0])
			if to.Arms, err = decoded(b.arms, b.scratch); err != nil {
				return nil, err
			}
		}
		if n := from.Get("bucket"); n != nil {
			bucket := uint32(n.GetUint())
			to.Bucket = &bucket
		}
	}
	return splits, nil
}

// decoded decodes JSON that others have too.
func decoded[T any](known map[string]T, text []byte) (value T, err error) {
	if len(text) == 0 {
		return value, nil
	}
	value, ok := known[string(text)]
	if !ok {
		if err = json.Unmarshal(text, &value); err == nil {
			known[string(text)] = value
		}
	}
	return value, err
}

// replay adds the decisions to a plan, and empties the batch.
func (b *replayedBatch) replay(planner *inspect.Planner) error {
	for i := range b.list {
		if err := planner.Add(&b.list[i], b.answers[i]); err != nil {
			return err
		}
	}
	b.list, b.answers, b.bytes = b.list[:0], b.answers[:0], b.bytes[:0]
	return nil
}

// tarType is the type of a body that is a tar.
const tarType = "application/x-tar"

// readTar reads the body before the plan begins: others need not wait for a slow caller.
func readTar(w http.ResponseWriter, r *http.Request) (next, against []trace.File, err error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(planBodyTimeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }() // a server's own would look as if the caller had left
	next, against, err = untar(http.MaxBytesReader(w, r.Body, maxPlan))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, nil, apiError(http.StatusRequestEntityTooLarge, "the tar, or what it has, is larger than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, nil, apiError(http.StatusBadRequest, "%v", err)
	}
	return next, against, nil
}

// unpack loads the sets of a tar. against is nil if it has one.
func (w *Workspace) unpack(ctx context.Context, files, old []trace.File) (against, next *definition.Snapshot, err error) {
	folder := ""
	if old != nil {
		folder = "new"
		if against, err = w.Definitions.Unpack(ctx, "against", old); err != nil {
			return nil, nil, err
		}
	}
	if next, err = w.Definitions.Unpack(ctx, folder, files); err == nil && len(next.Definitions) == 0 {
		err = apiError(http.StatusBadRequest, "the tar has no definition: they are in its folders endpoints, prompts and remoteconfigs")
	}
	return against, next, err
}

// untar reads the files of a tar that definitions may have. Those in a folder against are
// apart, and then the others are those in the folder new.
func untar(from io.Reader) (next, against []trace.File, err error) {
	archive := tar.NewReader(from)
	sets := map[string][]trace.File{}
	for left := int64(maxPlan); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the body is no tar that is whole and not compressed: %w", err)
		}
		name := path.Clean(header.Name)
		switch left -= header.Size; {
		case header.Typeflag == tar.TypeDir, header.Typeflag == tar.TypeXGlobalHeader:
			continue
		case header.Typeflag != tar.TypeReg, path.IsAbs(name), strings.HasPrefix(name, ".."):
			return nil, nil, fmt.Errorf("the tar has %.100q, which is no file below its folder: tar -C DIR -chf - . makes one", header.Name)
		case left < 0: // a file may have more bytes than its archive
			return nil, nil, &http.MaxBytesError{Limit: maxPlan}
		}
		var text bytes.Buffer
		if _, err := io.Copy(&text, archive); err != nil {
			return nil, nil, fmt.Errorf("the body is no tar that is whole and not compressed: %w", err)
		}
		folder, rest, nested := strings.Cut(name, "/")
		if !nested || folder != "new" && folder != "against" {
			folder, rest = "", name
		}
		sets[folder] = append(sets[folder], trace.File{Path: rest, Content: text.String()})
	}
	// To its end, so that net/http notices when the caller leaves.
	if _, err := io.Copy(io.Discard, from); err != nil {
		return nil, nil, err
	}
	switch {
	case sets["against"] == nil && sets["new"] == nil:
		return sets[""], nil, nil
	case sets["against"] == nil || sets["new"] == nil || sets[""] != nil:
		return nil, nil, errors.New("the tar must have the files of one workspace, or those of two in the folders new and against")
	}
	return sets["new"], sets["against"], nil
}
