package gateway

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// maxFlags is how many remote configurations an answer with all of them may have.
const maxFlags = 1000

// flag answers OpenFeature's request for one flag, which is a remote configuration. The
// key is in the path.
func (c *call) flag() *wire.Error {
	if err := c.readFlags(); err != nil {
		return err
	}
	keys := []string{c.pathID}
	e, err := c.admitKeys(keyList{kind.RemoteConfig, keys})
	if err != nil {
		return err
	}
	_, recorded, _ := e.pick(kind.RemoteConfig, keys, false) // values do not fail
	a, stale := e.begin(e.tracing), e.workspace.Source.Stale()
	for i := range a.picked {
		flag := flagOf(&a.picked[i], stale)
		c.out = wire.AppendFlag(c.out, &flag)
		c.out = wire.AppendFlagTrace(c.out, a.recordFlag(&a.picked[i]))
	}
	if err := a.fits(recorded); err != nil {
		return err
	}
	return a.answerKeys("")
}

// recordFlag makes the trace of a flag, unless another stands for it, and returns its id.
func (a *answers) recordFlag(p *picked) trace.ID {
	if p.on != nil {
		a.countOn(p.on)
		return p.on.Trace
	}
	record := a.recordValue(p)
	id := record.ID
	a.keep(record, p)
	return id
}

// flags answers OpenFeature's request for all flags. Each flag is an exposure. Nothing else
// in the answer than their ids differs from one request to the next unless a flag does:
// callers send its ETag, and get it again only if it has changed.
func (c *call) flags() *wire.Error {
	if err := c.readFlags(); err != nil {
		return err
	}
	if err := c.admitLate("", true); err != nil {
		return err
	}
	e, err := c.bind(c.context)
	if err != nil {
		return err
	}
	all := c.snapshot.Of(kind.RemoteConfig)
	if len(all) > maxFlags {
		return wire.Errorf(wire.InvalidRequest, "", "There are %d configurations, and an answer with all of them has at most %d. Ask for each flag by its key.", len(all), maxFlags)
	}
	a, stale := e.begin(len(all)), e.workspace.Source.Stale()
	c.out = append(c.out, `{"flags":[`...)
	recorded := 0
	var digest xxhash.Digest
	digest.Reset()
	for i, d := range all {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		p := &picked{name: d.Key, definition: d, decision: a.decide(d)}
		from := len(c.out)
		flag := flagOf(p, stale)
		c.out = wire.AppendFlag(c.out, &flag)
		_, _ = digest.Write(c.out[from:]) // never fails
		if a.expose(p, cmp.Or(d.Window, definition.DefaultWindow)); p.on == nil && a.logs(d) == definition.LogContent {
			recorded += len(d.Answer(p.decision))
		}
		c.out = wire.AppendFlagTrace(c.out, a.recordFlag(p))
		if err := a.fits(recorded); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	tag := c.tagFlags(&digest)
	c.w.Header()["Etag"] = []string{"W/" + tag}
	if a.unchanged = wire.MatchesETag(c.r.Header["If-None-Match"], tag); a.unchanged {
		for _, record := range a.records {
			record.Status = http.StatusNotModified
		}
	}
	// The tag covers no address: its state changes with configurations that the answer lacks.
	c.out = append(c.appendEventStreams(append(c.out, ',')), '}')
	return a.answerKeys("")
}

// tagFlags returns the ETag of the flags in the answer, which the digest has taken without
// their ids. It covers the caller's key and the request, since a client may send the tag of an answer in another context. It also covers
// the day: a client gets the address of the events with a 200 alone, and its token ends.
func (h *holdings) tagFlags(d *xxhash.Digest) string {
	for _, part := range [...][]byte{{0}, h.body.Body(), {0}} {
		_, _ = d.Write(part) // never fails
	}
	_, _ = d.WriteString(h.key.name)
	var buffer [20]byte
	_, _ = d.Write(strconv.AppendInt(buffer[:0], tokenEnd(h.began).Unix(), 36))
	tag := append(buffer[:0], '"')
	tag = strconv.AppendUint(tag, d.Sum64(), 16)
	return string(append(tag, '"'))
}

// readFlags reads the body of a request of OpenFeature's protocol.
func (c *call) readFlags() *wire.Error {
	facts, err := c.body.Flags()
	c.context, c.metadata = facts.Context, facts.Metadata
	return err
}

// flagOf returns the answer to a flag, without its trace. stale reports that the served
// definitions are those of before an edit with a mistake.
func flagOf(p *picked, stale bool) wire.Flag {
	flag := wire.Flag{Key: p.name, Value: p.definition.Answer(p.decision), Version: p.definition.Version, Reason: "STALE"}
	flag.Variant = cmp.Or(p.arm(), rowOf(p.definition.Table(), p.decision), "default")
	if !stale {
		flag.Reason = flagReason(p.definition.Table(), p.decision)
	}
	return flag
}

// flagReason returns OpenFeature's word for why a table answered as it did.
func flagReason(table *rules.Table, decision rules.Decision) string {
	switch {
	case decision.Reason == rules.Match:
		return "TARGETING_MATCH"
	case decision.Reason == rules.Split:
		return "SPLIT"
	case len(table.Rows()) == 0:
		return "STATIC"
	}
	return "DEFAULT"
}

// fits takes room for the answer so far, and for recorded bytes in its traces.
func (h *holdings) fits(recorded int) *wire.Error {
	if most := h.workspace.MaxAnswerSize; int64(len(h.out)) > most {
		return wire.Errorf(wire.InvalidRequest, "", "The answer would have more than %d bytes (max_answer_size). Ask for each flag by its key.", most)
	}
	return h.growRoom(len(h.out) + recorded)
}
