package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/edit"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
)

// EditedFile is the answer of GET /cadenza/edit: a file of a workspace, to be edited.
type EditedFile struct {
	File string `json:"file"`
	Base string `json:"base"` // the SHA-256 that an edit of it is based on
	Text string `json:"text"`
	// Value is the value at the line and column that were asked for, if it can be edited
	// in its place; Problem says why it can't.
	Value   *edit.Value `json:"value,omitempty"`
	Problem string      `json:"problem,omitempty"`
}

// Review is the answer of POST /cadenza/review: what an edit would change.
type Review struct {
	File string `json:"file"`           // after the edit, or the revision that is served again
	Base string `json:"base,omitempty"` // that the saving takes
	Way  string `json:"way"`            // off, files or branch: what POST /cadenza/edit does
	// Commit reports whether the way files also commits the file.
	Commit bool               `json:"commit,omitempty"`
	Branch string             `json:"branch,omitempty"` // that the way branch would push
	Diff   []inspect.TextLine `json:"diff"`             // of the first file
	// Patch is fit for git apply in the directory Root: that of the repository of the
	// definitions, or else that of the definitions.
	Patch string `json:"patch"`
	Root  string `json:"root"`
	// OK reports whether the gateway would serve the definitions with the edit. Errors are
	// their mistakes, failed tests among them (of the rule test), and Warnings those that
	// the served definitions have not.
	OK       bool              `json:"ok"`
	Errors   []inspect.Finding `json:"errors"`
	Warnings []inspect.Finding `json:"warnings"`
	Tests    int               `json:"tests"` // how many passed
	// Comparison is what differs from the served definitions, with a context for each
	// pair of rows whose answer changes.
	Comparison *inspect.Comparison `json:"comparison,omitempty"`
}

// Saved is the answer of POST /cadenza/edit.
type Saved struct {
	File     string       `json:"file"`
	Base     string       `json:"base,omitempty"`     // of the file as it is now
	Revision string       `json:"revision,omitempty"` // that is served now
	Commit   string       `json:"commit,omitempty"`
	Pushed   *edit.Pushed `json:"pushed,omitempty"`
	// Problem is what failed after the file was written.
	Problem string `json:"problem,omitempty"`
}

// Conflict is the answer to an edit of a file that is not the one that the edit is based
// on: 409, with both texts.
type Conflict struct {
	Error string `json:"error"`
	edit.ConflictError
}

// refusedEdit is the answer to the saving of definitions that would not be served: 422.
type refusedEdit struct {
	Error  string  `json:"error"`
	Review *Review `json:"review"`
}

// maxEdit bounds the body of an edit, in bytes.
const maxEdit = 8 << 20

// saving is held while an edit is written.
var saving sync.Mutex

// serveEditedFile answers GET /cadenza/edit?file=PATH, also with a line and a column.
func serveEditedFile(w http.ResponseWriter, r *http.Request) error {
	values := r.URL.Query()
	if err := knownParameters(values, []string{"workspace", "file", "line", "column"}); err != nil {
		return err
	}
	workspace, err := editable(r.Context(), values.Get("workspace"))
	if err != nil {
		return err
	}
	file := values.Get("file")
	data, err := edit.Read(workspace.Definitions.Dir(), file)
	if err != nil {
		return editError(err)
	}
	answer := EditedFile{File: file, Base: edit.Hash(data), Text: string(data)}
	if values.Has("line") {
		line, e1 := strconv.Atoi(values.Get("line"))
		column, e2 := strconv.Atoi(values.Get("column"))
		if err := errors.Join(e1, e2); err != nil {
			return apiError(http.StatusBadRequest, "line and column are numbers: %v", err)
		}
		if answer.Value, err = edit.At(file, data, line, column); err != nil {
			answer.Problem = err.Error()
		}
	}
	return writeJSON(w, answer)
}

// editable finds a workspace, whose definitions must be in a directory.
func editable(ctx context.Context, name string) (*Workspace, error) {
	w, err := workspaceNamed(ctx, name)
	if err == nil && w.Bundle != nil {
		err = apiError(http.StatusConflict, "these definitions come as a bundle from %s: edit them where the bundle is built", w.Definitions.Dir())
	}
	return w, err
}

// proposal is what a request wants to change.
type proposal struct {
	*Workspace
	changes edit.Changes
	name    string // of the file or the revision
	base    string
	before  string // what is there, for the audit
	did     string // what it does
	message string // of its commit
}

// editOf reads the edit of a request, and what it changes. It is nil if the request was
// answered, because of a conflict.
func editOf(w http.ResponseWriter, r *http.Request) (*proposal, error) {
	var body struct {
		Workspace string `json:"workspace"`
		edit.Edit
	}
	if err := readBody(w, r, maxEdit, &body, "a JSON object with action, file and base, and as the action wants line, column, text and to"); err != nil {
		return nil, err
	}
	workspace, err := editable(r.Context(), body.Workspace)
	if err != nil {
		return nil, err
	}
	c, err := body.Of(workspace.Definitions.Dir())
	if err != nil {
		return nil, answerConflict(w, err)
	}
	return &proposal{workspace, edit.Changes{c}, c.Name(), body.Base, cmp.Or(body.Base, "no file"), body.Action, describe(c)}, nil
}

// answerConflict answers a request whose error is a conflict, and returns any other error
// as one of the API.
func answerConflict(w http.ResponseWriter, err error) error {
	if conflict, ok := errors.AsType[*edit.ConflictError](err); ok {
		return writeStatus(w, http.StatusConflict, Conflict{conflict.Error(), *conflict})
	}
	return editError(err)
}

// editError returns the error of the API for an edit that can't be made.
func editError(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return apiError(http.StatusNotFound, "%v", err)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) {
		return apiError(http.StatusInternalServerError, "the gateway can't write its definitions here: %v", err)
	}
	return apiError(http.StatusBadRequest, "%v", err)
}

// Editing is how the edits of a request are saved.
type Editing struct {
	Way    string // off, files or branch
	Commit bool   // files are committed, too
}

// editingKey is the key of an Editing in a request's context.
type editingKey struct{}

// WithEditing returns a context whose requests save edits in a way. Without it none are
// saved: so it is by Caddy's admin address, where nobody signs in.
func WithEditing(ctx context.Context, e Editing) context.Context {
	return context.WithValue(ctx, editingKey{}, e)
}

// editing returns how the edits of a request are saved, and in whose name.
func editing(ctx context.Context) (e Editing, author string) {
	e, _ = ctx.Value(editingKey{}).(Editing)
	visitor, ok := ctx.Value(visitorKey{}).(*gateway.Visitor)
	if !ok {
		return Editing{Way: "off"}, ""
	}
	e.Way = cmp.Or(e.Way, "off")
	return e, visitor.Key
}

// review loads the definitions with the changes, and changes nothing.
func (p *proposal) review(ctx context.Context) (*Review, error) {
	first := p.changes[0]
	answer := &Review{File: p.name, Diff: inspect.CompareTexts(string(first.Before), string(first.After)), Root: p.Definitions.Dir(), Errors: []inspect.Finding{}, Warnings: []inspect.Finding{}}
	prefix := ""
	if repository := edit.FindRepository(p.Definitions.Dir()); repository != nil {
		prefix, answer.Root = repository.Prefix, repository.Top
	}
	answer.Base, answer.Patch = p.base, p.changes.Patch(prefix)
	how, author := editing(ctx)
	if answer.Way, answer.Commit = how.Way, how.Commit; how.Way == "branch" {
		answer.Branch = p.changes.Branch(author, p.name)
	}
	served, proposed, err := p.propose(ctx)
	if mistakes, ok := inspect.Mistakes(err); ok {
		answer.Errors = mistakes
		if e, ok := errors.AsType[*definition.LoadError](err); ok {
			answer.Warnings = p.newWarnings(e.Warnings)
		}
		return answer, nil
	}
	if err != nil {
		return nil, err
	}
	answer.OK, answer.Tests, answer.Warnings = true, proposed.Tests, p.newWarnings(proposed.Warnings)
	answer.Comparison = inspect.CompareSnapshots(served, proposed, time.Now())
	return answer, nil
}

// propose loads the definitions with the changes.
func (p *proposal) propose(ctx context.Context) (served, proposed *definition.Snapshot, err error) {
	files := map[string][]byte{}
	for _, c := range p.changes {
		if c.Old != "" {
			files[c.Old] = nil
		}
		if c.New != "" {
			files[c.New] = c.After
		}
	}
	return p.Definitions.Propose(ctx, files)
}

// newWarnings returns the warnings that the served definitions have not.
func (w *Workspace) newWarnings(list []definition.Warning) []inspect.Finding {
	old := w.Definitions.Snapshot().Warnings
	return inspect.Findings(slices.DeleteFunc(slices.Clone(list), func(n definition.Warning) bool {
		return slices.ContainsFunc(old, func(o definition.Warning) bool { return o.Message == n.Message && o.Pos.File == n.Pos.File })
	}))
}

// serveReview answers POST /cadenza/review: what an edit would change. It saves nothing.
func serveReview(w http.ResponseWriter, r *http.Request) error { return review(w, r, editOf) }

// reader reads what a request wants to change. It is nil if the request was answered.
type reader func(http.ResponseWriter, *http.Request) (*proposal, error)

func review(w http.ResponseWriter, r *http.Request, read reader) error {
	p, err := read(w, r)
	if p == nil {
		return err
	}
	review, err := p.review(r.Context())
	if err != nil {
		return err
	}
	return writeJSON(w, review)
}

// serveEdit answers POST /cadenza/edit.
func serveEdit(w http.ResponseWriter, r *http.Request) error { return save(w, r, editOf) }

// save saves what a request wants to change in the way that the console is set to, if the
// gateway would serve the definitions with it.
func save(w http.ResponseWriter, r *http.Request, read reader) error {
	how, author := editing(r.Context())
	if how.Way == "off" {
		return apiError(http.StatusForbidden, "edits are not saved here: apply the patch of the review, or have ops set `edit files` or `edit branch` in the block of cadenza_console")
	}
	if how.Way == "files" {
		saving.Lock()
		defer saving.Unlock()
	}
	p, err := read(w, r)
	if p == nil {
		return err
	}
	review, err := p.review(r.Context())
	if err != nil {
		return err
	}
	if !review.OK {
		first := review.Errors[0]
		message := fmt.Sprintf("the gateway would not serve these definitions: %s", (&document.Error{Pos: document.Position{File: first.File, Line: first.Line, Column: first.Column}, Message: first.Message}).Error())
		return writeStatus(w, http.StatusUnprocessableEntity, refusedEdit{message, review})
	}
	// What was begun is ended, also if the visitor leaves.
	ctx := context.WithoutCancel(r.Context())
	saved := &Saved{File: review.File}
	var prepared *edit.Commit
	if how.Way == "branch" || how.Commit {
		prepared, err = p.prepare(ctx, how.Way, author)
	}
	switch {
	case err != nil:
	case how.Way == "branch":
		saved.Commit = prepared.ID
		saved.Pushed, err = prepared.Push(ctx, review.Branch)
	default:
		err = p.write(ctx, saved, prepared)
	}
	if err != nil {
		return answerConflict(w, err)
	}
	after := p.did + " by " + how.Way
	if saved.Base != "" {
		after = saved.Base + ", " + after
	}
	if c := review.Comparison; c.New != c.Old {
		after += editedTo + c.New
	}
	p.audited(r.Context(), AuditEdit, p.name, p.before, after)
	return writeJSON(w, saved)
}

// editedTo is before the revision in the audit of an edit that makes another one.
const editedTo = ", revision "

// describe returns the message of a commit.
func describe(c *edit.Change) string {
	switch {
	case c.Old == "":
		return "Add " + c.New
	case c.New == "":
		return "Delete " + c.Old
	case c.Old != c.New:
		return "Rename " + c.Old + " to " + c.New
	}
	return "Edit " + c.New
}

// prepare makes the commit of the changes, which a way of saving pushes or puts on the branch
// of the work tree.
func (p *proposal) prepare(ctx context.Context, way, author string) (*edit.Commit, error) {
	repository := edit.FindRepository(p.Definitions.Dir())
	if repository == nil {
		return nil, errors.New("the definitions are in no work tree of git: have ops set `edit files` without commit, or `edit off`")
	}
	if way == "files" {
		if err := repository.Ready(ctx, p.changes); err != nil {
			return nil, err
		}
	}
	return repository.Prepare(ctx, p.changes, author, p.message)
}

// write writes the changes into the directory, puts their commit on its branch if there is
// one, and has the gateway serve them.
func (p *proposal) write(ctx context.Context, saved *Saved, prepared *edit.Commit) error {
	if err := p.Definitions.Hold(func() error { return p.changes.Write(p.Definitions.Dir()) }); err != nil {
		return err
	}
	if c := p.changes[0]; p.name == c.New {
		saved.Base = edit.Hash(c.After)
	}
	var problem error
	if prepared != nil {
		saved.Commit, problem = prepared.Advance(ctx)
	}
	if err := p.Definitions.Reload(); err != nil {
		problem = errors.Join(problem, fmt.Errorf("it is written, and not served: %w", err))
	}
	saved.Revision = p.Definitions.Snapshot().Revision
	if problem != nil {
		saved.Problem = problem.Error()
	}
	return nil
}
