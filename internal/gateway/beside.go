package gateway

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// beside is the part of an endpoint's answer that no model makes: the values of the
// remote configurations that the request names. The gateway decides them when the
// request comes, by the caller's own context. It gives them with the model's answer,
// also with a shared one. A call that fails before gives none, and drops their traces.
type beside struct {
	member  []byte // of the answer, after a comma; empty unless the request has the list
	unknown string // the names of keys that no definition has
}

// pickBeside decides the remote configurations that go with an endpoint's answer. It
// returns the size of their member, and holds room for what buildBeside makes.
func (c *call) pickBeside(keys []string) (size int, err *wire.Error) {
	if keys == nil {
		return 0, nil
	}
	size, recorded := c.pickConfigs(keys, configsFolder)
	size += wire.BesideSize(len(c.picked))
	if most := c.workspace.MaxAnswerSize; int64(size) > most {
		return 0, wire.Errorf(wire.InvalidRequest, "remoteconfigs", "The values would have %d bytes, at most %d are allowed (max_answer_size). Ask for fewer keys at a time.", size, most)
	}
	if size+recorded > freeRequest {
		return size, c.hold(size + recorded)
	}
	return size, nil
}

// buildBeside makes the member and the traces of the configurations that pickBeside
// has picked. It reads the request's body, so it comes before holdCall.
func (c *call) buildBeside(size int) (b beside) {
	if size == 0 {
		return b
	}
	b.member = wire.AppendAnswersEnd(c.appendConfigs(wire.AppendBesideStart(make([]byte, 0, size))))
	if len(c.unknown) > 0 {
		b.unknown = c.tellUnknown()
	}
	// The configuration's own: with that of the model, statistics would show nothing
	// else.
	latency := time.Since(c.began)
	for _, record := range c.records {
		record.Latency = latency
	}
	c.completeRecords()
	return b
}

// give appends the member, and records its traces. It is called when the answer is
// given, so that no trace shows an answer without a caller.
func (i *invocation) give(dst []byte) []byte {
	if i.beside.unknown != "" {
		i.w.Header()[wire.HeaderUnknownKeys] = []string{i.beside.unknown}
	}
	i.giveRecords()
	i.countPicked()
	return append(dst, i.beside.member...)
}

// newStream prepares the answer's stream. Its first event has the member, which takes
// room until that event is sent, and so does an answer that is known already, in bytes,
// where the writer keeps it. newStream fails if there is none.
func (i *invocation) newStream(known int) (*dialect.Stream, *wire.Error) {
	size := len(i.beside.member)
	if _, keeps := i.writer.(dialect.Keeper); keeps {
		size += repeats * known
	}
	if full := i.takeRoom(size, adviseRepetition); full != nil {
		i.finish(noResult, full.Status, full.Name)
		full.TraceID = i.info.traceID[0]
		return nil, full
	}
	return dialect.NewStream(i.w, i.writer, &i.answer), nil
}
