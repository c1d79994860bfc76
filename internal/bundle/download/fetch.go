package download

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

const (
	// maxSilence bounds the time until an answer begins, besides the time that the source was
	// asked to wait. maxFetch bounds the time until it ends.
	maxSilence   = 30 * time.Second
	maxFetch     = 5 * time.Minute
	maxRedirects = 5
)

// source is the URL or the mirror, with what is known of it.
type source struct {
	url   string
	shown string // without query and user
	id    string // a hash of url, which may have a secret

	// Run alone has these.
	failures  int       // in a row
	notBefore time.Time // of the next request
	mayWait   bool      // the last answer was good, and another one can be waited for

	// Downloader.mu guards these.
	tag     string // the ETag of what it had last; empty if it has none
	holds   string // Bundle.Tag of those bytes
	waits   bool   // it takes long polls
	damaged string // Bundle.Tag of bytes that came damaged
	failure error  // of the last request
	refused refusal
}

// refusal is what was refused last.
type refusal struct {
	tag, holds string
	reason     error
}

func newSource(address string) *source {
	hash := sha256.Sum256([]byte(address))
	s := &source{url: address, id: hex.EncodeToString(hash[:]), shown: "(a URL that can't be read)"}
	if u, err := url.Parse(address); err == nil {
		s.shown = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	}
	return s
}

// sends returns the tag of the next request: that of what is served, or of what was refused.
// Any other one would let a 304 speak of a bundle that is gone.
func (s *source) sends(served *bundle.Bundle) string {
	if s.tag == s.refused.tag || served != nil && s.holds == served.Tag() {
		return s.tag
	}
	return ""
}

// answer is a 200, or a 304 to a tag.
type answer struct {
	unchanged bool // a 304
	repeated  bool // a 200 with the tag of what was refused; its body was not read
	waits     bool // the source takes long polls
	tag       string
	age       time.Duration // in a cache
	packed    []byte
}

// badAnswer is the error for another answer.
type badAnswer struct {
	status     int
	retryAfter time.Duration
}

// refused reports whether the source refuses the credentials.
func (e *badAnswer) refused() bool { return e.status == 401 || e.status == 403 }

func (e *badAnswer) Error() string {
	if e.refused() {
		return fmt.Sprintf("the source answers %d: it refuses the credentials, or a bucket lacks the file", e.status)
	}
	return fmt.Sprintf("the source answers %d %s", e.status, http.StatusText(e.status))
}

// redirect sends credentials on to the same scheme, host and port alone. No host learns the
// URL before, which may have a token.
func (d *Downloader) redirect(r *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("the source redirects more than %d times", maxRedirects)
	case last.URL.Scheme == "https" && r.URL.Scheme != "https":
		return errors.New("the source redirects from https to " + r.URL.Scheme)
	}
	r.Header = make(http.Header)
	for _, name := range []string{"User-Agent", "Accept-Encoding", "If-None-Match", "Prefer"} {
		if values := first.Header[name]; values != nil {
			r.Header[name] = values
		}
	}
	if r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host {
		return nil
	}
	r.URL.User = first.URL.User
	return d.config.Authorize(r)
}

// fetch asks a source for what has another tag than the one that is sent, which the source may
// wait for. It does not read the body of what has the tag skip.
func (d *Downloader) fetch(ctx context.Context, s *source, tag, skip string, wait time.Duration) (a answer, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(wait+maxSilence, func() { cancel(errors.New("the source takes too long to answer")) })
	defer timer.Stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()

	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return a, errors.New("the URL can't be read")
	}
	r.Header.Set("User-Agent", upstream.UserAgent)
	r.Header.Set("Accept-Encoding", "identity") // the packed bytes are signed, and kept
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	if wait > 0 {
		r.Header.Set("Prefer", "wait="+strconv.Itoa(int(wait/time.Second)))
	}
	if err := d.config.Authorize(r); err != nil {
		return a, err
	}
	response, err := d.client.Do(r)
	if e, ok := errors.AsType[*url.Error](err); ok {
		return a, e.Err // without the URL, which may have a secret
	}
	defer response.Body.Close()
	seconds, _ := strconv.ParseUint(response.Header.Get("Age"), 10, 31)
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	a.age, a.waits = time.Duration(seconds)*time.Second, media == bundle.MediaType
	if t := response.Header.Get("ETag"); upstream.ValidHeaderValue(t) {
		a.tag = t // another one would fail the next request
	}
	switch a.unchanged = response.StatusCode == http.StatusNotModified; {
	case a.unchanged && tag != "":
		return a, nil
	case response.StatusCode != http.StatusOK:
		_, _ = io.CopyN(io.Discard, response.Body, 4<<10) // the connection can be used again
		return a, &badAnswer{response.StatusCode, upstream.RetryAfter(response.Header, time.Now())}
	case skip != "" && a.tag == skip:
		a.repeated = true
		return a, nil
	}
	timer.Reset(maxFetch)
	a.packed, err = io.ReadAll(io.LimitReader(response.Body, bundle.MaxPacked+1))
	return a, err
}

// ask asks a source, which may wait so long, and deals with its answer.
func (d *Downloader) ask(ctx context.Context, s *source, wait time.Duration, pull bool) (o Outcome, err error) {
	d.mu.Lock()
	sent, skip := s.sends(d.served), s.refused.tag
	d.mu.Unlock()
	if pull {
		if sent == skip {
			sent = ""
		}
		skip = ""
	}
	a, err := d.fetch(ctx, s, sent, skip, wait)
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil {
		return o, context.Cause(ctx) // another Downloader may have taken over
	}
	if err == nil {
		o, err = d.take(s, a, sent, pull)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.shown, err)
	}
	switch {
	case err != nil && s.failure == nil:
		d.config.Logger.Warn("a source of the bundle fails, and what is served stays", "error", err)
	case err == nil && s.failure != nil:
		d.config.Logger.Info("a source of the bundle answers again", "url", s.shown)
	}
	s.failure = err
	d.save()
	d.show()
	if d.config.Answered != nil {
		d.config.Answered(d.Status())
	}
	o.URL, o.Revision, o.Serial = s.shown, d.status.Revision, d.status.Serial
	o.waits = err == nil && s.waits && s.sends(d.served) != ""
	return o, err
}

// take deals with an answer to a request that sent a tag.
func (d *Downloader) take(s *source, a answer, sent string, pull bool) (Outcome, error) {
	switch {
	case a.unchanged && sent == s.refused.tag:
		return d.again(s), nil
	case a.unchanged && sent == s.tag && d.served != nil && s.holds == d.served.Tag():
		return d.has(s, a, Unchanged), nil
	case a.unchanged: // another request has brought another bundle meanwhile
		return Outcome{Result: Unchanged}, nil
	}
	s.tag, s.waits = a.tag, a.waits
	came := (&bundle.Bundle{Packed: a.packed}).Tag()
	switch {
	case a.repeated, !pull && came == s.refused.holds:
		s.refused.tag, s.holds = a.tag, s.refused.holds
		return d.again(s), nil
	case d.served != nil && came == d.served.Tag():
		return d.has(s, a, Unchanged), nil
	}
	b, err := bundle.Read(a.packed, d.config.Keys, d.config.Scope)
	if err != nil && came != s.damaged && !intact(a.packed) {
		// A connection has cut it, or the file is being written: the tag may be that of a
		// good one. The same bytes come twice only from a file.
		s.tag, s.damaged = "", came
		return Outcome{}, err
	}
	changed := true
	if err == nil && d.served != nil {
		err = b.Check(d.served, d.config.AllowRollback)
		changed = b.Contents() != d.served.Contents()
	}
	if err == nil && changed {
		err = d.config.Activate(b)
	}
	if err != nil {
		d.config.Logger.Error("a bundle is refused, and what is served stays", "url", s.shown, "tag", a.tag, "error", err)
		s.holds, s.refused = came, refusal{a.tag, came, err}
		return d.refuse(err.Error()), nil
	}
	d.serve(b)
	d.from, d.unsaved, d.status.Confirmed = s, true, time.Time{}
	d.config.Logger.Info("a new bundle is served", "url", s.shown, "revision", b.Revision, "serial", b.Serial)
	return d.has(s, a, Fresh), nil
}

func (d *Downloader) serve(b *bundle.Bundle) {
	d.served, d.status.Revision, d.status.Serial = b, b.Revision, b.Serial
	d.latest.Set(b)
}

// has notes that the tag of a source stands for what is served, as it says now. What a cache
// answers is as old as it says.
func (d *Downloader) has(s *source, a answer, result string) Outcome {
	s.holds = d.served.Tag()
	if s.holds == s.refused.holds || s.tag != "" && s.tag == s.refused.tag {
		s.refused = refusal{} // a pull found it good
	}
	if at := time.Now().Add(-a.age); at.After(d.status.Confirmed) {
		d.status.Confirmed = at
	}
	d.status.Refused = ""
	return Outcome{Result: result}
}

// again notes that a source has, again or still, what was refused last.
func (d *Downloader) again(s *source) Outcome {
	return d.refuse("the source has again what was refused, which is fetched when it has another one or pull asks: " + s.refused.reason.Error())
}

func (d *Downloader) refuse(reason string) Outcome {
	d.status.Refused = reason
	return Outcome{Result: Refused, Reason: reason}
}

// intact reports whether bytes are gzip that is whole by its checksum, or too large for it to
// matter.
func intact(packed []byte) bool {
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		_, err = io.CopyN(io.Discard, unzipped, 4*bundle.MaxPacked)
	}
	return err == nil || err == io.EOF || len(packed) > bundle.MaxPacked
}
