package adminapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/rules"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 1 << 20

// serveEvaluate answers POST /cadenza/evaluate: the answer that a request would
// get, and why. It records nothing.
func serveEvaluate(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Workspace string          `json:"workspace"`
		Key       string          `json:"key"`
		Kind      string          `json:"kind"`
		Context   json.RawMessage `json:"context"`
		Variables json.RawMessage `json:"variables"`
		At        string          `json:"at"`
		Explain   bool            `json:"explain"`
	}
	if err := readBody(w, r, maxBody, &body, "a JSON object with key, and as wanted workspace, kind, context, variables, at and explain"); err != nil {
		return err
	}
	if body.Key == "" {
		return apiError(http.StatusBadRequest, "key is missing: it names the definition to evaluate")
	}
	q := inspect.Query{Key: body.Key, Explain: body.Explain}
	var errs [4]error
	q.Kind, errs[0] = inspect.ParseKind(body.Kind)
	q.At, errs[1] = inspect.ParseInstant(body.At)
	q.Context, errs[2] = inspect.ParseObject("context", body.Context)
	q.Variables, errs[3] = inspect.ParseObject("variables", body.Variables)
	if err := cmp.Or(errs[:]...); err != nil {
		return apiError(http.StatusBadRequest, "%v", err)
	}
	workspace, err := workspaceNamed(r.Context(), body.Workspace)
	if err != nil {
		return err
	}
	answer, err := inspect.Evaluate(workspace.Definitions.Snapshot(), q)
	if err != nil {
		if _, ok := errors.AsType[*rules.BindError](err); ok {
			return apiError(http.StatusBadRequest, "%v", err)
		}
		return apiError(http.StatusNotFound, "%v", err)
	}
	return writeJSON(w, answer)
}
