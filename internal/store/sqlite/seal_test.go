package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// oddTexts are texts that a form of a record may write differently, and oddJSON values of
// members that are JSON. JSON can't have the last of each.
var (
	oddTexts = []string{"a", "é\u2028", "\x00", "a \"b\"\\\n", "<&>", "\xff", "a\xed\xa0\x80\xfe"}
	oddJSON  = []string{`{"a":1}`, "{\n  \"a\": \"\\n\\u00e9\",\r\n\t\"b\" : [1.50, 1e400]\n}", `[ ]`, `{"a":`, "{\"a\":\"\xff\"}", "\n"}
)

// randomRecord gives each member, or not, a random value, that JSON may not have if any.
func randomRecord(t *testing.T, r *rand.Rand, authority *trace.Authority, anyValue bool) *trace.Record {
	t.Helper()
	oddTexts, oddJSON := oddTexts, oddJSON
	if !anyValue {
		oddTexts, oddJSON = oddTexts[:5], oddJSON[:3]
	}
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	at := time.UnixMicro(1790000000000000 + r.Int64N(1e15))
	record := trace.AcquireRecord()
	fill := func(at any) {
		switch at := at.(type) {
		case *string:
			*at = pick(oddTexts)
		case *[]byte:
			*at = []byte(pick(oddJSON))
		case *int:
			*at = r.IntN(1000)
		case *int64:
			*at = r.Int64()
		case *float64:
			*at = []float64{r.Float64(), 0.1, 1e300, math.NaN(), math.Inf(1), -5e-324}[r.IntN(6)]
		case *bool:
			*at = true
		case *[]string:
			*at = []string{pick(oddTexts), pick(oddTexts)}
		case *time.Duration:
			*at = time.Duration(r.Int64N(5000))
		case *[]trace.Attempt:
			*at = []trace.Attempt{{Provider: pick(oddTexts), Error: pick(oddTexts), Latency: time.Duration(r.Int64N(1e7)), Cost: r.Float64(), UsageDetails: trace.UsageDetails{WebSearches: 1}}}
		}
	}
	for _, f := range trace.RecordFields {
		if r.IntN(3) > 0 {
			fill(f.At(record))
			if f.Known != nil {
				*f.Known(record) = true
			}
		}
	}
	// The inputs of a decision are JSON: a reader makes them so.
	for _, text := range []*[]byte{&record.Splits, &record.Read, &record.Inputs} {
		if !json.Valid(*text) {
			*text = nil
		}
	}
	record.Time, record.Workspace, record.Seal = at, "default", ""
	kinds := []trace.Kind{trace.KindPrompt, trace.KindEndpoint, trace.KindRemoteConfig}
	d := authority.Decide(at, 1)
	record.Kind = kinds[r.IntN(3)]
	record.ID, record.Decision = d.Trace(record.Kind, 0), d.ID()
	if r.IntN(2) == 0 {
		record.Splits = []byte(`[{"experiment":{"definition":"prompts/k","rule":"r","salt":"r"},"bucket":12000,"arm":"b","share":0.2}]`)
	}
	if r.IntN(2) == 0 {
		record.SharesContent = r.IntN(2) == 0
		record.Shared = &trace.Shared{Notes: []string{pick(oddTexts)}, Metadata: []byte(pick(oddJSON)), Context: []byte(pick(oddJSON)), Variables: []byte(pick(oddJSON))}
		record.Metadata, record.Context, record.Variables = nil, nil, nil
	}
	return record
}

func mustSealer(t testing.TB) *trace.Sealer {
	t.Helper()
	s, err := trace.NewSealer(bytes.Repeat([]byte{7}, 32), "default")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSealsHold verifies the seals of random records that went through the recorder and the
// store: of one read alone, of an export, and of a line of the export that is read again.
func TestSealsHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	r, authority, sealer := openRecorder(t, Config{Path: path}), mustAuthority(t), mustSealer(t)
	random := rand.New(rand.NewPCG(1, 1))
	const records = 1000
	ids, inJSON := make([]trace.ID, records), make(map[trace.ID]bool)
	for i := range ids {
		record := randomRecord(t, random, authority, i%2 == 0)
		inJSON[record.ID] = i%2 != 0
		ids[i], record.Sealer = record.ID, sealer
		if record.Kind == trace.KindEndpoint && i%7 == 0 {
			r.Start(t.Context(), record)
		}
		if !r.Evaluation(record) {
			t.Fatal("dropped")
		}
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	reader, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	holds := func(form string, record *trace.Record) {
		t.Helper()
		if v := sealer.Verify(record); v.Result != trace.SealValid || v.Removed != nil {
			t.Fatalf("%s: %+v of %s", form, v, record.AppendJSON(nil))
		}
	}
	for _, id := range ids {
		record, err := reader.Trace(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		holds("alone", record)
	}
	exported := 0
	if err := reader.Export(t.Context(), trace.Filter{Workspace: "default"}, func(record *trace.Record, _ []trace.Metrics) error {
		exported++
		holds("exported", record)
		parsed := new(trace.Record)
		if err := json.Unmarshal(record.AppendJSON(nil), parsed); err != nil {
			return err
		}
		if inJSON[record.ID] {
			holds("parsed", parsed)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if exported != records {
		t.Errorf("%d were exported", exported)
	}
}

// TestSealsOfInterruptedCalls: the end of a call is not known yet when it starts.
func TestSealsOfInterruptedCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	dead, authority, sealer := openRecorder(t, Config{Path: path}), mustAuthority(t), mustSealer(t)
	random := rand.New(rand.NewPCG(2, 2))
	var ids []trace.ID
	for range 50 {
		record := randomRecord(t, random, authority, true)
		record.Sealer = sealer
		if dead.Start(t.Context(), record); record.State != trace.StateEnded {
			t.Errorf("the caller's record is %s", record.State)
		}
		if call := dead.Call(record.ID); call == nil || call.Seal != "" {
			t.Errorf("under way: %+v", call)
		}
		ids = append(ids, record.ID)
	}
	if err := dead.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	openRecorder(t, Config{Path: path})
	reader, err := OpenReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, id := range ids {
		var record *trace.Record
		waitFor(t, "the call to be stored", func() bool { record, err = reader.Trace(t.Context(), id); return err == nil })
		if v := sealer.Verify(record); v.Result != trace.SealValid || record.State != trace.StateInterrupted || v.Removed != nil {
			t.Errorf("%s: %+v", record.State, v)
		}
		record.State = trace.StateEnded
		if v := sealer.Verify(record); v.Result != trace.SealChanged {
			t.Errorf("as if it had ended: %+v", v)
		}
	}
}
