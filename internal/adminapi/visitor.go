package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/trace"
)

// visitorKey is the key of the *gateway.Visitor in a request's context. A request without
// one came by Caddy's admin address, and may see everything.
type visitorKey struct{}

// callerName returns the name of the API key of a request's visitor or, of one that came by
// Caddy's admin address, another.
func callerName(ctx context.Context, without string) string {
	if visitor, ok := ctx.Value(visitorKey{}).(*gateway.Visitor); ok {
		return visitor.Key
	}
	return without
}

// Serve answers a request of a visitor of the console. path is the path of the API without
// /cadenza/, such as "traces/ID". The visitor sees the workspace of its key alone.
func Serve(w http.ResponseWriter, r *http.Request, visitor *gateway.Visitor, path string) {
	to := path
	if directory, _, found := strings.Cut(path, "/"); found {
		to = directory + "/"
	}
	// The handlers cut what follows off a path of the admin API.
	inner := r.WithContext(context.WithValue(r.Context(), visitorKey{}, visitor))
	inner.URL = &url.URL{Path: "/cadenza/" + path, RawQuery: r.URL.RawQuery}
	err := serve(w, inner, to, visitor.Role)
	if err == nil {
		return
	}
	status := http.StatusInternalServerError
	if answer, ok := errors.AsType[caddy.APIError](err); ok {
		status = answer.HTTPStatus
	}
	_ = writeStatus(w, status, map[string]string{"error": err.Error()})
}

// AskError is an answer of the API that is an error.
type AskError struct {
	Status  int // of HTTP
	Message string
	Body    []byte // the whole answer, as JSON
}

func (e *AskError) Error() string { return e.Message }

// Ask asks the API for a page of the console, and decodes the answer. So a page shows and
// does what its visitor's role lets the API do. body becomes JSON, nil an empty body. JSON
// lines are decoded as a list. The error of an answer is an *AskError.
func Ask(ctx context.Context, visitor *gateway.Visitor, method, path string, query url.Values, body, answer any) error {
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "/?"+query.Encode(), bytes.NewReader(sent))
	if err != nil {
		return err
	}
	w := &answerBuffer{header: make(http.Header), status: http.StatusOK}
	Serve(w, r, visitor, path)
	if w.status != http.StatusOK {
		var refusal struct {
			Error string `json:"error"`
		}
		if err := json.Unmarshal(w.body.Bytes(), &refusal); err != nil {
			return fmt.Errorf("the answer is no JSON: %w", err)
		}
		return &AskError{w.status, refusal.Error, w.body.Bytes()}
	}
	text := w.body.Bytes()
	if w.header.Get("Content-Type") == wire.LinesType {
		text = slices.Concat([]byte("["), bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte(",")), []byte("]"))
	}
	return json.Unmarshal(text, answer)
}

// answerBuffer keeps an answer.
type answerBuffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *answerBuffer) Header() http.Header            { return b.header }
func (b *answerBuffer) WriteHeader(status int)         { b.status = status }
func (b *answerBuffer) Write(text []byte) (int, error) { return b.body.Write(text) }

// seesContent reports whether a request may see content.
func seesContent(ctx context.Context) bool {
	visitor, ok := ctx.Value(visitorKey{}).(*gateway.Visitor)
	return !ok || visitor.Role.Covers(gateway.RoleEditor)
}

// withoutContent takes what only editors may see out of a trace and the reports on it. For
// a request that may see it, withoutContent only reports whether there is any.
func withoutContent(ctx context.Context, record *trace.Record, metrics []trace.Metrics) (shown bool) {
	if seesContent(ctx) {
		return record != nil && record.HasContent() || slices.ContainsFunc(metrics, func(m trace.Metrics) bool { return m.LLMResponse != nil })
	}
	if record != nil {
		record.DropContent()
	}
	for i := range metrics {
		metrics[i].LLMResponse = nil
	}
	return false
}
