// Package serve answers requests for the bundle of a workspace, and signs that of a
// workspace whose definitions are in a folder.
package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/secret"
)

const (
	// maxWait bounds how long a request waits for another bundle than the one it names.
	maxWait = 10 * time.Minute
	// firstWait is how long a request waits for the first bundle: a gateway that starts
	// accepts requests a little earlier than it has one.
	firstWait = 2 * time.Second
	// retryNone is the Retry-After of a request that found none.
	retryNone = 5 * time.Second
	// writeTimeout bounds the time for a caller to take a bundle that it waited for.
	writeTimeout = 2 * time.Minute
)

// Handler answers GET and HEAD with the newest bundle of a workspace, byte for byte as it
// was signed.
//
// A request whose If-None-Match names the newest bundle is answered 304. With Prefer: wait=N
// (RFC 7240) it first waits for another one, for N seconds at most, as bundle servers of
// Open Policy Agent do.
type Handler struct {
	Latest *bundle.Latest
	// Bearer are the tokens of callers. ClientCertificate lets in those whose certificate
	// the TLS of the site has verified, and Open everyone.
	Bearer            []*secret.Rotating
	ClientCertificate bool
	Open              bool
	// Stopping ends the waiting.
	Stopping <-chan struct{}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		wire.WriteError(w, err)
	}
}

// serve answers a request, or returns the error to answer.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) *wire.Error {
	if err := h.refuse(r); err != nil {
		return err
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		err := wire.Errorf(wire.MethodNotAllowed, "", "A bundle is read by GET.")
		err.Allow = "GET, HEAD"
		return err
	}
	wait := waitOf(r.Header["Prefer"])
	b, known := h.await(w, r, wait)
	if b == nil {
		err := wire.Errorf(wire.Overloaded, "", "The gateway has no bundle of the workspace yet. Try again later.")
		err.RetryAfter = retryNone
		return err
	}
	header := w.Header()
	header.Set("Etag", b.Tag())
	header.Set("Vary", "Prefer")
	header.Set(wire.HeaderRevision, b.Revision)
	switch {
	case !h.Open:
		header.Set("Cache-Control", "private, no-cache, no-transform")
	case wait > 0:
		// The next one has to wait at the gateway too.
		header.Set("Cache-Control", "no-store, no-transform")
	default:
		// A cache answers all who poll within some seconds, and asks again after them.
		header.Set("Cache-Control", "public, max-age=5, must-revalidate, no-transform")
	}
	if known {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	header.Set("Content-Type", bundle.MediaType)
	header.Set("Content-Length", strconv.Itoa(len(b.Packed)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write(b.Packed)
	}
	return nil
}

// await returns the newest bundle, nil where there is none, and whether the request names
// it. If it does, await first waits for another one, for the given time at most.
func (h *Handler) await(w http.ResponseWriter, r *http.Request, wait time.Duration) (*bundle.Bundle, bool) {
	var ended <-chan struct{} // when the waiting ends; nil before it begins
	for {
		b, next := h.Latest.Get()
		known := b != nil && wire.MatchesETag(r.Header["If-None-Match"], b.Tag())
		limit := wait
		if b == nil {
			limit = firstWait
		}
		if b != nil && !known || limit == 0 {
			return b, known
		}
		if ended == nil {
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			ended = ctx.Done()
			// The write timeout of the site is for requests that don't wait.
			control := http.NewResponseController(w)
			_ = control.SetWriteDeadline(time.Time{})
			defer func() { _ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) }()
		}
		select {
		case <-next:
		case <-ended:
			return b, known
		case <-h.Stopping:
			return b, known
		}
	}
}

// refuse returns the error for a caller who may not have the bundle.
func (h *Handler) refuse(r *http.Request) *wire.Error {
	if h.Open || h.ClientCertificate && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return nil
	}
	if len(h.Bearer) == 0 {
		return wire.Errorf(wire.KeyNotAllowed, "", "The connection has no client certificate that this site trusts.")
	}
	token, sent, ok := wire.BearerToken(r.Header)
	sum, same := sha256.Sum256([]byte(token)), 0
	for _, bearer := range h.Bearer {
		value, err := bearer.Value()
		if right := sha256.Sum256([]byte(value)); err == nil {
			same |= subtle.ConstantTimeCompare(sum[:], right[:])
		}
	}
	if !ok || same != 1 {
		return wire.Unauthorized(sent)
	}
	return nil
}

// Bearer returns the token of a reference. It is an error if no caller could send it.
func Bearer(reference secret.Reference) (*secret.Rotating, error) {
	token := reference.Rotating(func(token string) error {
		if !wire.LegalToken(token) {
			return fmt.Errorf("must be %d to %d visible ASCII characters, it has %d bytes", wire.MinTokenLength, wire.MaxTokenLength, len(token))
		}
		return nil
	})
	_, err := token.Value()
	return token, err
}

// waitOf returns how long a request would wait, by its Prefer headers. Open Policy Agent
// sends "modes=snapshot,delta;wait=60", where wait is a parameter of another preference.
func waitOf(prefer []string) time.Duration {
	for _, value := range prefer {
		for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ';' }) {
			name, text, _ := strings.Cut(part, "=")
			if strings.EqualFold(strings.TrimSpace(name), "wait") {
				seconds, _ := strconv.ParseUint(strings.Trim(text, ` "`), 10, 31)
				return min(time.Duration(seconds)*time.Second, maxWait)
			}
		}
	}
	return 0
}
