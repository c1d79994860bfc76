package adminapi

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/store/sqlite"
)

// maxKeyRequest bounds the body of a request that makes a key, in bytes.
const maxKeyRequest = 16 << 10

// Keys is the answer of GET /cadenza/keys.
type Keys struct {
	Workspace string            `json:"workspace"`
	File      string            `json:"file,omitempty"` // the keys file; empty: the workspace has none
	Keys      []gateway.KeyInfo `json:"keys"`           // by name
}

// serveKeys answers GET /cadenza/keys: the API keys of a workspace without their secrets,
// and when each was used last.
func serveKeys(w http.ResponseWriter, r *http.Request, q *traceQuery, reader *sqlite.Reader) error {
	answer := Keys{Workspace: q.workspace.Name, File: q.workspace.KeysFile, Keys: q.workspace.Keys()}
	uses, err := reader.KeyUses(r.Context(), q.workspace.Name)
	if err != nil {
		return q.workspace.unreadable(err)
	}
	for i := range answer.Keys {
		key := &answer.Keys[i]
		if at := uses[key.Name]; at.After(key.LastUsed) {
			key.LastUsed = at
		}
	}
	return writeJSON(w, answer)
}

// KeyRequest asks for a new key.
type KeyRequest struct {
	Workspace string    `json:"workspace,omitempty"`
	Name      string    `json:"name"`
	NotAfter  time.Time `json:"not_after,omitzero"`
	gateway.Access
}

// MadeKey is the answer of POST /cadenza/keys. The key is nowhere else.
type MadeKey struct {
	Key   string           `json:"key"`
	Entry gateway.KeyEntry `json:"entry"`
}

// serveMakeKey answers POST /cadenza/keys: it makes a key and adds it to the keys file.
func serveMakeKey(w http.ResponseWriter, r *http.Request) error {
	var request KeyRequest
	if err := readBody(w, r, maxKeyRequest, &request, `JSON such as {"name": "mobile-app"}`); err != nil {
		return err
	}
	workspace, err := workspaceNamed(r.Context(), request.Workspace)
	if err != nil {
		return err
	}
	key, entry, err := gateway.MakeKey(request.Name, request.Access)
	if err == nil && !request.NotAfter.IsZero() && !request.NotAfter.After(time.Now()) {
		err = errors.New("not_after has passed: the key would be of no use")
	}
	if err != nil {
		return apiError(http.StatusBadRequest, "%v", err)
	}
	entry.NotAfter = request.NotAfter
	if workspace.KeysFile == "" {
		return apiError(http.StatusConflict, "the workspace has no keys file, which new keys go into: give its block `keys FILE`, with a first key of `caddy cadenza key`")
	}
	if workspace.key(entry.Name) != nil {
		return apiError(http.StatusConflict, "there is a key %q already", entry.Name)
	}
	if err := workspace.EditKeys(func(file []byte) ([]byte, error) { return gateway.AddKey(file, &entry) }); err != nil {
		return apiError(http.StatusInternalServerError, "the key can't be added: %v", err)
	}
	workspace.audited(r.Context(), AuditMakeKey, entry.Name, "", describeKey(entry.Access, entry.NotAfter))
	return writeJSON(w, MadeKey{key, entry})
}

// serveRevokeKey answers DELETE /cadenza/keys/NAME: it revokes a key of the keys file.
func serveRevokeKey(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimPrefix(r.URL.Path, "/cadenza/keys/")
	q, err := newTraceQuery(r, "workspace")
	if err != nil {
		return err
	}
	key := q.workspace.key(name)
	switch {
	case key == nil:
		var names []string
		for _, k := range q.workspace.Keys() {
			names = append(names, k.Name)
		}
		return apiError(http.StatusNotFound, "there is no key %q that is not revoked%s", name, document.DidYouMean(name, names))
	case key.File == "":
		return apiError(http.StatusConflict, "the key %q is in the configuration: take it out there", name)
	}
	err = q.workspace.EditKeys(func(file []byte) ([]byte, error) { return gateway.RevokeKey(file, name) })
	if err != nil {
		return apiError(http.StatusInternalServerError, "the key can't be revoked: %v", err)
	}
	q.workspace.audited(r.Context(), AuditRevokeKey, name, describeKey(key.Access, key.NotAfter), "revoked")
	return writeJSON(w, map[string]string{"revoked": name})
}

// key returns the key of a name that is not revoked, or nil.
func (w *Workspace) key(name string) *gateway.KeyInfo {
	keys := w.Keys()
	i := slices.IndexFunc(keys, func(k gateway.KeyInfo) bool { return k.Name == name && !k.Revoked })
	if i < 0 {
		return nil
	}
	return &keys[i]
}

// describeKey returns in a line what a key opens.
func describeKey(a gateway.Access, notAfter time.Time) string {
	text := cmp.Or(string(a.Role), a.Kind, "app")
	if len(a.Origins) > 0 {
		text += ", origins " + strings.Join(a.Origins, " ")
	}
	if a.Role != gateway.RoleNone && a.App {
		text += ", app"
	}
	if a.Loopback {
		text += ", loopback"
	}
	if !notAfter.IsZero() {
		text += fmt.Sprintf(", until %s", notAfter.UTC().Format(time.RFC3339))
	}
	return text
}
