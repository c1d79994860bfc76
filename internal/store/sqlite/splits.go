package sqlite

import (
	"bytes"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/trace"
)

// The split of the row that decided is most of what a trace records of its
// decision, and most of that is in the trace's other columns. So the column splits
// has it without its experiment and arm. Of the row "ramp" of remoteconfigs/new:
//
//	recorded  [{"experiment":{"definition":"remoteconfigs/new","rule":"ramp","salt":"ramp"},"bucket":7,"arm":"1","share":0.2}]
//	stored    [{"bucket":7,"share":0.2}]
//
// A split with a salt of its own is stored whole, and so are those that passed the
// unit on and those of other tables.

const bucketMember = `"bucket":`

// withoutExperiment is the start of a split that is stored without its experiment.
// It has quotes, so it is no part of a string.
var withoutExperiment = []byte(`{` + bucketMember)

// storedSplits is a record's splits as their column has them.
type storedSplits struct{ of *trace.Record }

func splitsOf(r *trace.Record) any { return storedSplits{r} }

func (s storedSplits) text() []byte {
	splits := s.of.Splits
	if len(splits) == 0 {
		return nil
	}
	var experimentRoom, armRoom [512]byte
	experiment, arm := decidingSplit(experimentRoom[:0], armRoom[:0], s.of)
	before, after, found := bytes.Cut(splits, experiment)
	if !found || s.of.Row == "" {
		return splits
	}
	bucket := bucketLen(after)
	rest, found := bytes.CutPrefix(after[bucket:], arm)
	if !found {
		return splits
	}
	return slices.Concat(before, after[:bucket], rest)
}

// completeSplits makes the splits of a record that was read as they were recorded.
func completeSplits(r *trace.Record) {
	at := bytes.Index(r.Splits, withoutExperiment) + 1
	if at == 0 {
		return
	}
	experiment, arm := decidingSplit(nil, nil, r)
	end := at + bucketLen(r.Splits[at:])
	if end == at+len(bucketMember) {
		return // no bucket as this version writes it
	}
	r.Splits = slices.Concat(r.Splits[:at], experiment, r.Splits[at:end], arm, r.Splits[end:])
}

// decidingSplit appends the members, as they are recorded, that the split of a
// record's row has from the record.
func decidingSplit(experiment, arm []byte, r *trace.Record) (_, _ []byte) {
	kind, key := r.Kind, r.Key
	if kind == trace.KindEndpoint { // the row is of its prompt's table
		kind, key = trace.KindPrompt, r.Prompt
	}
	experiment = append(append(experiment, `"experiment":{"definition":"`...), kind.Folder()...)
	experiment = append(jsontext.AppendEscaped(append(experiment, '/'), key), `","rule":`...)
	experiment = append(jsontext.AppendString(experiment, r.Row), `,"salt":`...)
	experiment = append(jsontext.AppendString(experiment, r.Row), `},`...)
	return experiment, jsontext.AppendString(append(arm, `,"arm":`...), r.Arm)
}

// bucketLen returns the length of the member bucket at the start of text.
func bucketLen(text []byte) int {
	n := len(bucketMember)
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n
}
