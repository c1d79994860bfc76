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

// allFlags stands for all remote configurations in the trace of an answer with them.
var allFlags = &definition.Definition{Kind: kind.RemoteConfig, Key: trace.AllFlags, Log: definition.LogNone}

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
	a, stale := e.begin(len(e.picked)), e.workspace.Source.Stale()
	for i := range a.picked {
		p := &a.picked[i]
		record := a.recordValue(p)
		flag := flagOf(p, stale)
		flag.TraceID = record.ID
		c.out = wire.AppendFlag(c.out, &flag)
		a.keep(record, p.definition)
	}
	if err := a.fits(recorded); err != nil {
		return err
	}
	return a.answerKeys("")
}

// flags answers OpenFeature's request for all flags. The answer is one trace, whose notes
// count its flags. Nothing in it differs from one request to the next unless a flag does:
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
	a, stale := e.begin(1), e.workspace.Source.Stale()
	record := a.newRecord(allFlags, nil, rules.Decision{Row: -1})
	record.Reason, record.Status = "", http.StatusOK // there is no single reason
	a.records = append(a.records, record)
	a.answered, a.lastTrace = 1, record.ID
	policy := definition.LogNone
	c.out = append(c.out, `{"flags":[`...)
	for i, d := range all {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		flag := flagOf(&picked{d.Key, d, a.decide(d)}, stale)
		c.out = wire.AppendFlag(c.out, &flag)
		if err := a.fits(0); err != nil {
			return err
		}
		if logs := a.logs(d); logs != definition.LogNone {
			policy = max(policy, logs)
			a.evidence.tables = append(a.evidence.tables, d.Table())
		}
	}
	c.out = append(c.out, ']')
	tag := c.tagFlags()
	c.w.Header()["Etag"] = []string{tag}
	if a.unchanged = wire.MatchesETag(c.r.Header["If-None-Match"], tag); a.unchanged {
		record.Status = http.StatusNotModified
	}
	if policy == definition.LogNone {
		a.dropRecords()
	} else {
		a.recordEvidence(record)
		record.Notes = append(record.Notes, "flags: "+strconv.Itoa(len(all)))
		record.SharesContent = policy == definition.LogContent
	}
	// The tag covers no address: its state changes with configurations that the answer lacks.
	c.out = append(c.appendEventStreams(append(c.out, ',')), '}')
	return a.answerKeys("")
}

// tagFlags returns the ETag of the flags in the answer. It covers the caller's key and the
// request, since a client may send the tag of an answer in another context. It also covers
// the day: a client gets the address of the events with a 200 alone, and its token ends.
func (h *holdings) tagFlags() string {
	var d xxhash.Digest
	d.Reset()
	for _, part := range [...][]byte{h.out, h.body.Body()} {
		_, _ = d.Write(part) // never fails
		_, _ = d.Write([]byte{0})
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
