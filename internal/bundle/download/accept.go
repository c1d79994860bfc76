package download

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
)

// ask asks a source, which may wait so long, and deals with its answer.
func (d *Downloader) ask(ctx context.Context, s *source, wait time.Duration, pull bool) (o Outcome, err error) {
	d.mu.Lock()
	sent, held, skip := s.sends(d.served), s.holds, s.refused.tag
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
		o, err = d.take(s, a, sent, held, pull)
	}
	switch {
	case err != nil && s.failure == nil:
		d.config.Logger.Warn("a source of the bundle fails, and what is served stays", "url", s.shown, "error", err)
	case err == nil && s.failure != nil:
		d.config.Logger.Info("a source of the bundle answers again", "url", s.shown)
	}
	s.failure = err
	d.save()
	d.show()
	o.URL, o.Revision, o.Serial = s.shown, d.status.Revision, d.status.Serial
	o.waits = err == nil && s.waits && s.sends(d.served) != ""
	return o, err
}

// take deals with an answer to a request that sent a tag, which stands for the bytes held.
func (d *Downloader) take(s *source, a answer, sent, held string, pull bool) (Outcome, error) {
	if a.unchanged {
		if sent == s.refused.tag {
			return d.again(s), nil
		}
		// Another request may have brought another bundle meanwhile.
		if d.served != nil && held == d.served.Tag() {
			d.confirm(a)
		}
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
	if err == nil && !changed && b.Manifest == d.served.Manifest && b.KeyID == d.served.KeyID {
		return d.has(s, a, Unchanged), nil // packed or signed once more
	}
	if err == nil && changed {
		err = d.config.Activate(b)
	}
	if err != nil {
		d.config.Logger.Error("a bundle is refused, and what is served stays", "url", s.shown, "tag", a.tag, "error", err)
		s.holds, s.refused = came, refusal{a.tag, came, err}
		return d.refuse(s, err), nil
	}
	d.serve(b)
	if changed {
		d.status.Activated = time.Now()
	}
	d.from, d.unsaved, d.status.Confirmed = s, true, time.Time{}
	d.config.Logger.Info("a new bundle is served", "url", s.shown, "revision", b.Revision, "serial", b.Serial)
	return d.has(s, a, Fresh), nil
}

func (d *Downloader) serve(b *bundle.Bundle) {
	d.served, d.status.Revision, d.status.Serial = b, b.Revision, b.Serial
	d.latest.Set(b)
}

// has notes that the tag of an answer stands for what is served.
func (d *Downloader) has(s *source, a answer, result string) Outcome {
	s.holds = d.served.Tag()
	if s.holds == s.refused.holds || s.tag != "" && s.tag == s.refused.tag {
		s.refused = refusal{} // a pull found it good
	}
	d.confirm(a)
	return Outcome{Result: result}
}

// confirm notes that a source has what is served. What a cache answers is as old as it says.
func (d *Downloader) confirm(a answer) {
	if at := time.Now().Add(-a.age); at.After(d.status.Confirmed) {
		d.status.Confirmed = at
	}
	d.status.Refused, d.status.RefusedTag = "", ""
}

// again notes that a source has, again or still, what was refused last.
func (d *Downloader) again(s *source) Outcome {
	return d.refuse(s, fmt.Errorf("the source has again what was refused, which is fetched when it has another one or pull asks: %w", s.refused.reason))
}

func (d *Downloader) refuse(s *source, reason error) Outcome {
	d.status.Refused, d.status.RefusedTag = reason.Error(), s.refused.tag
	return Outcome{Result: Refused, Reason: reason.Error()}
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
