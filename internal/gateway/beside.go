package gateway

import (
	"time"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// beside is the part of an endpoint's answer that the gateway makes: the values of the
// remote configurations that the request names. The gateway decides them when the
// request arrives, in the caller's context, and sends them with the model's answer, also
// with a shared one. A call that fails earlier sends no values and drops their traces.
type beside struct {
	member  []byte // of the answer, after a comma; empty unless the request has the list
	unknown string // the names of keys that no definition has
}

// pickBeside decides the remote configurations that go with an endpoint's answer. It
// returns the size of their member in bytes, and reserves the memory that buildBeside
// needs.
func (e *evaluation) pickBeside(keys []string) (size int, err *wire.Error) {
	if keys == nil {
		return 0, nil
	}
	size, recorded, err := e.pick(kind.RemoteConfig, keys, true)
	if err != nil {
		return 0, err
	}
	size += wire.ConfigsSize(len(e.picked))
	if most := e.workspace.MaxAnswerSize; int64(size) > most {
		return 0, wire.Errorf(wire.InvalidRequest, "remoteconfigs", "The values would have %d bytes, at most %d are allowed (max_answer_size). Ask for fewer keys at a time.", size, most)
	}
	if size+recorded > freeRequest {
		return size, e.hold(size + recorded)
	}
	return size, nil
}

// buildBeside makes the member and the traces of the configurations that pickBeside
// has picked. It reads the request's body, so it comes before holdCall.
func (a *answers) buildBeside(size int) (b beside) {
	if size == 0 {
		return b
	}
	out, _ := a.appendAnswers(wire.AppendConfigsStart(make([]byte, 0, size)), kind.RemoteConfig) // values do not fail
	b.member = wire.AppendAnswersEnd(out)
	if len(a.unknown) > 0 {
		b.unknown = a.tellUnknown()
	}
	// The latency of the decisions alone: the model's would hide it in the statistics.
	latency := time.Since(a.began)
	for _, record := range a.records {
		record.Latency = latency
	}
	a.completeRecords()
	return b
}

// give appends the member and records its traces. The answer's writer calls it when it
// writes the answer, so every recorded trace belongs to an answer that a caller got.
func (i *invocation) give(dst []byte) []byte {
	if i.beside.unknown != "" {
		i.w.Header()[wire.HeaderUnknownKeys] = []string{i.beside.unknown}
	}
	i.giveRecords()
	i.countPicked()
	return append(dst, i.beside.member...)
}

// newStream prepares the answer's stream. It takes room for the member, which the first
// event sends, and for an answer of known bytes if the writer keeps it. It fails if no
// room is left.
func (i *invocation) newStream(known int) (*dialect.Stream, *wire.Error) {
	size := len(i.beside.member)
	if _, keeps := i.writer.(dialect.Keeper); keeps {
		size += repeats * known
	}
	if full := i.takeRoom(size, adviseRepetition); full != nil {
		return nil, i.finishRefused(noResult, full)
	}
	return dialect.NewStream(i.w, i.writer, &i.answer), nil
}
