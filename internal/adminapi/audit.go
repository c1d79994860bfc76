package adminapi

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// The actions of the audit.
const (
	AuditSignIn    = "sign_in"
	AuditRefused   = sqlite.AuditRefused // a sign-in
	AuditSignOut   = "sign_out"
	AuditLook      = "look" // at content
	AuditEdit      = "edit"
	AuditPlay      = "play"
	AuditLabel     = "label"
	AuditRollout   = "rollout"
	AuditErase     = "erase"
	AuditExport    = "export"
	AuditMakeKey   = "make_key"
	AuditRevokeKey = "revoke_key"
)

// auditTimeout bounds how long an answer waits for its entry.
const auditTimeout = 5 * time.Second

// audited stores what a visitor of the console did, and returns when it is on the disk.
// subject names what it was done to, such as a file or a trace; before and after say what
// the subject was and is, if that can be said in a line. None of them may have a value that
// a caller sent, because erasing the caller would leave it here: see Hash. What comes by
// Caddy's admin address has no visitor, and its looks aren't noted.
//
// An entry that can't be stored is in the log.
func (w *Workspace) audited(ctx context.Context, action, subject, before, after string) {
	visitor, ok := ctx.Value(visitorKey{}).(*gateway.Visitor)
	if !ok {
		if action == AuditLook {
			return
		}
		visitor = new(gateway.Visitor)
	}
	entry := sqlite.AuditEntry{
		Time: time.Now(), Workspace: w.Name, By: visitor.Key, Role: string(visitor.Role), From: visitor.From,
		Action: action, Subject: subject, Before: before, After: after,
	}
	// A visitor who leaves has done it nevertheless.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	if err := sqlite.KeepAudit(ctx, w.Store.Path, &entry); err != nil {
		w.Logger.Error("an entry of the audit can't be stored", zap.Any("entry", entry), zap.Error(err))
	}
}

// Audited stores what a visitor did outside of the API, such as signing in. A visitor
// without a workspace, whose sign-in was refused, is noted in all.
func Audited(ctx context.Context, visitor *gateway.Visitor, action, subject string) {
	all, err := running(ctx)
	if err != nil {
		return // no gateway runs
	}
	ctx = context.WithValue(ctx, visitorKey{}, visitor)
	for name, w := range all {
		if visitor.Workspace == "" || visitor.Workspace == name {
			w.audited(ctx, action, subject, "", "")
		}
	}
}

// hashedQuery returns the parameters of a request that choose traces, with hashes of those
// that identify a person.
func (w *Workspace) hashedQuery(values url.Values) string {
	shown := make(url.Values)
	for name, list := range values {
		for _, value := range list {
			if slices.Contains([]string{"conversation_id", "chain_id", "decision"}, name) || strings.HasPrefix(name, MetadataParameter) || strings.HasPrefix(name, InputParameter) || strings.HasPrefix(name, UnitParameter) {
				value = w.Hash(value)
			}
			shown.Add(name, value)
		}
	}
	for _, name := range []string{"workspace", "dry_run"} {
		shown.Del(name)
	}
	text, err := url.QueryUnescape(shown.Encode())
	if err != nil {
		return shown.Encode()
	}
	return text
}

// Audit is the answer of GET /cadenza/audit.
type Audit struct {
	Workspace string              `json:"workspace"`
	Entries   []sqlite.AuditEntry `json:"entries"` // the newest first
	Next      int64               `json:"next,omitempty"`
}

// serveAudit answers GET /cadenza/audit: what visitors of the console did, the newest
// first. With format=jsonl it is all of it, as JSON lines.
func serveAudit(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error {
	f := sqlite.AuditFilter{Workspace: q.workspace.Name, Since: q.filter.Since, Until: q.filter.Until, By: q.values.Get("by"), Action: q.values.Get("action")}
	limit, err := q.limit(sqlite.MaxAudit)
	if err != nil {
		return err
	}
	if text := q.values.Get("before"); text != "" {
		if f.Before, err = strconv.ParseInt(text, 10, 64); err != nil || f.Before < 1 {
			return apiError(http.StatusBadRequest, "before must be the next of the page before it, this is %q", text)
		}
	}
	switch format := q.values.Get("format"); format {
	case "", "json":
	case "jsonl":
		return q.workspace.exportAudit(w, r, reader, &f)
	default:
		return apiError(http.StatusBadRequest, "format must be json or jsonl, this is %q", format)
	}
	answer := Audit{Workspace: q.workspace.Name}
	if answer.Entries, err = reader.Audit(r.Context(), &f, limit+1); err != nil {
		return q.workspace.unreadable(err)
	}
	if len(answer.Entries) > limit {
		answer.Entries = answer.Entries[:limit]
		answer.Next = answer.Entries[limit-1].Seq
	}
	if answer.Entries == nil {
		answer.Entries = []sqlite.AuditEntry{}
	}
	return writeJSON(w, answer)
}

// exportAudit writes all entries that pass a filter as JSON lines, the newest first.
func (w *Workspace) exportAudit(to http.ResponseWriter, r *http.Request, reader *sqlite.Reader, f *sqlite.AuditFilter) error {
	w.audited(r.Context(), AuditExport, "audit", "", "")
	to.Header().Set("Content-Type", wire.LinesType)
	to.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
	out := bufio.NewWriter(to)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		entries, err := reader.Audit(r.Context(), f, sqlite.MaxAudit)
		for i := range entries {
			if err == nil {
				err = encoder.Encode(&entries[i])
			}
		}
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			w.Logger.Error("the export of the audit broke off", zap.Error(err))
			panic(http.ErrAbortHandler) // only a cut connection shows that lines are missing
		}
		if len(entries) < sqlite.MaxAudit {
			return nil
		}
		f.Before = entries[len(entries)-1].Seq
	}
}
