package adminapi

import (
	"encoding/json"
	"net/http"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// keyless is the name of who plays by Caddy's admin address.
const keyless = "admin"

// servePlayable answers GET /cadenza/play: what may be called and, with ?endpoint=KEY or
// ?prompt=KEY, what a request to it may have.
func servePlayable(w http.ResponseWriter, r *http.Request) error {
	q, err := newTraceQuery(r, "endpoint", "prompt", "workspace")
	if err != nil {
		return err
	}
	playable, refused := q.workspace.Playable(callerName(r.Context(), keyless), &gateway.Play{Endpoint: q.values.Get("endpoint"), Prompt: q.values.Get("prompt")})
	if refused != nil {
		return refusedPlay(refused)
	}
	return writeJSON(w, playable)
}

// servePlay answers POST /cadenza/play: it calls an endpoint for a visitor. With "stream"
// the answer are the events of the native API and, after them, one of the type done, which
// says how the call went.
func servePlay(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Workspace string `json:"workspace"`
		gateway.Play
	}
	if err := readBody(w, r, maxBody, &body, "a JSON object with endpoint or prompt, and as wanted workspace, variant, texts, target, context, variables, messages, stream and dry_run"); err != nil {
		return err
	}
	workspace, err := workspaceNamed(r.Context(), body.Workspace)
	if err != nil {
		return err
	}
	play := &body.Play
	played, refused := workspace.Play(r.Context(), w, callerName(r.Context(), keyless), play)
	if !play.DryRun {
		subject := play.Endpoint + play.Prompt
		result := played.TraceID
		if refused != nil {
			result = refused.Name
		}
		workspace.audited(r.Context(), AuditPlay, subject, "", result)
	}
	switch {
	case refused != nil:
		return refusedPlay(refused)
	case !play.Stream || play.DryRun:
		return writeJSON(w, played)
	}
	w.Header().Set("Content-Type", "text/event-stream") // unless the stream has begun
	end, err := json.Marshal(played)
	if err != nil {
		return err
	}
	_, _ = w.Write(append(append([]byte("event: done\ndata: "), end...), "\n\n"...)) // a visitor who left has no use for it
	return nil
}

// refusedPlay returns the error of a request that called no model.
func refusedPlay(err *wire.Error) error { return apiError(err.Status, "%s", err.Message) }
