package adminapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// Gateway is the part of the Caddy app "cadenza" that the admin API uses.
type Gateway interface {
	// Inspect returns the workspaces by name.
	Inspect() map[string]*Workspace
}

// Workspace is the part of a workspace that the admin API uses.
type Workspace struct {
	Name        string
	Definitions *definition.Source
	// Log is the policy for definitions without a policy of their own.
	Log definition.LogPolicy
	// Store is the path of the workspace's database.
	Store string
	// Flush waits until all records are stored, or the context ends.
	Flush func(context.Context) error
	// Calls calls yield for each call that is under way, in no order, until yield returns
	// false. The record has no content; begun is the mark of the call's begin.
	Calls func(yield func(record *trace.Record, begun int64) bool)
	// VerifySeal says whether a record from the store was changed.
	VerifySeal func(*trace.Record) trace.Verification
	// Report stores a report on a trace, and returns the members that the trace does not
	// take. by is who made it.
	Report func(ctx context.Context, by string, m *trace.Metrics) (ignored []string, err error)
	// HashInput returns the hash that traces have in place of a value of a field.
	HashInput func(field, text string) string
	// Call returns the record of a call that is under way, or nil.
	Call func(trace.ID) *trace.Record
	// Mark returns a mark that comes after the begin of all present calls.
	Mark func() int64
	// Committed returns a channel that the store's next commit closes, or the next
	// call that begins.
	Committed func() <-chan struct{}
	// Waiting returns how many records wait to be stored, and why the store takes no
	// records. The reason is empty while it takes them.
	Waiting func() (records int, reason string)
	// Targets returns the targets of the definitions that are served.
	Targets func() []gateway.Target
	// ModelFacts returns what the prices know of a provider's model.
	ModelFacts func(provider, model string) gateway.ModelFacts
	// Strangers counts the refused requests without a valid API key, of all workspaces.
	Strangers func(since, until time.Time) []gateway.Stranger
	// Status returns the present state of the workspace.
	Status func() gateway.Status
	// LimitStatus returns the use of the workspace's limits by their fullest subjects.
	LimitStatus func(subjects int) []gateway.LimitStatus
	// SubjectStatus returns how a subject stands with each limit of the workspace.
	SubjectStatus func(subject string) []gateway.SubjectStatus
	// EraseSubject erases a value of the metadata, given as JSON, from the counters of
	// the limits.
	EraseSubject func(ctx context.Context, member, value string) error
	// Playable returns what a visitor of the console may call, and Play calls it.
	Playable func(by string, p *gateway.Play) (gateway.Playable, *wire.Error)
	Play     func(ctx context.Context, w http.ResponseWriter, by string, p *gateway.Play) (gateway.Played, *wire.Error)
	// Hash returns the keyed hash that stands for a value of a caller's in the audit.
	Hash func(value string) string
	// KeysFile is the path of the workspace's keys file, or empty.
	KeysFile string
	// Keys returns the workspace's API keys.
	Keys func() []gateway.KeyInfo
	// EditKeys replaces the keys file by what edit makes of it.
	EditKeys func(edit func(file []byte) ([]byte, error)) error
	// Stopping is closed when Caddy begins to stop the configuration.
	Stopping <-chan struct{}
	Logger   *zap.Logger
}

// workspaces are the workspaces of a gateway by name.
type workspaces map[string]*Workspace

// running returns the workspaces of the configuration that runs. A visitor of the console
// gets the workspace of its key.
func running(ctx context.Context) (workspaces, error) {
	app, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, apiError(http.StatusNotFound, "cadenza is not part of the running configuration")
	}
	if err != nil {
		return nil, apiError(http.StatusServiceUnavailable, "%v", err)
	}
	all := workspaces(app.(Gateway).Inspect())
	if visitor, ok := ctx.Value(visitorKey{}).(*gateway.Visitor); ok {
		maps.DeleteFunc(all, func(name string, _ *Workspace) bool { return name != visitor.Workspace })
	}
	return all, nil
}

// names returns the names in ascending order.
func (all workspaces) names() []string { return slices.Sorted(maps.Keys(all)) }

// named finds a workspace. The empty name stands for the only workspace.
func (all workspaces) named(name string) (*Workspace, error) {
	names := all.names()
	if name == "" {
		if len(names) == 1 {
			return all[names[0]], nil
		}
		return nil, apiError(http.StatusBadRequest, "workspace is missing: one of %s", strings.Join(names, ", "))
	}
	w, ok := all[name]
	if !ok {
		return nil, apiError(http.StatusNotFound, "there is no workspace %q%s", name, document.DidYouMean(name, names))
	}
	return w, nil
}

// askedFor returns the workspaces of a request: all, or one with ?workspace=NAME.
func askedFor(r *http.Request) (workspaces, error) {
	all, err := running(r.Context())
	name := r.URL.Query().Get("workspace")
	if err != nil || name == "" {
		return all, err
	}
	one, err := all.named(name)
	return workspaces{name: one}, err
}

// workspaceNamed finds a workspace of the configuration that runs.
func workspaceNamed(ctx context.Context, name string) (*Workspace, error) {
	all, err := running(ctx)
	if err != nil {
		return nil, err
	}
	return all.named(name)
}
