package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

func TestEraseChooses(t *testing.T) {
	t.Parallel()
	conversation := trace.Selector{Workspace: "default", ConversationID: "c1"}
	member := func(value string) trace.Selector {
		return trace.Selector{Workspace: "default", MetadataName: "user", MetadataValue: value}
	}
	tests := map[string]struct {
		selector trace.Selector
		record   string // its metadata, unless empty
		reports  []trace.Metrics
		want     bool // whether it is erased
	}{
		"a report's conversation":         {conversation, `{}`, []trace.Metrics{{}, {ConversationID: new("c1")}}, true},
		"another conversation":            {conversation, `{"a":"c1"}`, []trace.Metrics{{ConversationID: new("c2")}}, false},
		"a chain of that name":            {conversation, ``, []trace.Metrics{{ChainID: new("c1")}}, false},
		"a conversation in the metadata":  {conversation, `{"conversation_id":"c1"}`, []trace.Metrics{{}}, true},
		"it is escaped there":             {conversation, `{"conversation\u005fid":"c\u0031"}`, nil, true},
		"it is deeper there":              {conversation, `{"a":{"conversation_id":"c1"}}`, nil, false},
		"the metadata are no JSON":        {conversation, `{"conversation_id":"c1"`, nil, false},
		"metrics without a trace":         {conversation, ``, []trace.Metrics{{ConversationID: new("c1")}}, true},
		"a text":                          {member(`"u"`), `{"user":"u"}`, []trace.Metrics{{}}, true},
		"another text":                    {member(`"u"`), `{"user":"U","u":"u"}`, nil, false},
		"a report's metadata":             {member(`"u"`), ``, []trace.Metrics{{}, {Metadata: []byte(`{"user":"u"}`)}}, true},
		"a number":                        {member(`42`), `{"user":42}`, nil, true},
		"a number, written differently":   {member(`42`), `{"user":4.2e1}`, nil, true},
		"the number as a text":            {member(`42`), `{"user":"42"}`, nil, false},
		"true":                            {member(`true`), `{"user":true}`, nil, true},
		"true is not 1":                   {member(`1`), `{"user":true}`, nil, false},
		"null":                            {member(`null`), `{"user":null}`, nil, true},
		"null is not absence":             {member(`null`), `{}`, nil, false},
		"an odd name":                     {trace.Selector{Workspace: "default", MetadataName: `a."b'`, MetadataValue: `"x"`}, `{"a.\"b'":"x"}`, nil, true},
		"a conversation's selector alone": {trace.Selector{Workspace: "default", MetadataName: "conversation_id", MetadataValue: `"c1"`}, ``, []trace.Metrics{{ConversationID: new("c1")}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.db")
			s := mustOpen(t, Config{Path: path})
			authority, now := mustAuthority(t), time.Now()
			build := func(workspace string) (batch recorder.Batch, id trace.ID) {
				id = authority.New(trace.KindPrompt, now)
				if test.record != "" {
					record := fullRecord(id, now)
					record.Workspace, record.Metadata = workspace, []byte(test.record)
					batch.Records = append(batch.Records, record)
				}
				for _, m := range test.reports {
					m.TraceID, m.Workspace, m.Time = id, workspace, now
					batch.Metrics = append(batch.Metrics, &m)
				}
				reply := replyOf("key", 1, now)
				reply.Workspace, reply.TraceID = workspace, id
				batch.Replies = append(batch.Replies, reply)
				return batch, id
			}
			chosen, id := build("default")
			others, otherID := build("other")
			bystander := fullRecord(authority.New(trace.KindPrompt, now), now)
			mustCommit(t, s, chosen)
			mustCommit(t, s, others)
			mustCommit(t, s, recorder.Batch{Records: []*trace.Record{bystander}, Metrics: []*trace.Metrics{metricsOf(bystander.ID)}})

			found, err := CountErasure(t.Context(), path, test.selector)
			if err != nil {
				t.Fatal(err)
			}
			announced, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM erasures")
			if err != nil || announced != 0 {
				t.Errorf("a count tells the sinks of %d erasures, %v", announced, err)
			}
			got, err := Erase(t.Context(), path, test.selector)
			if err != nil {
				t.Fatal(err)
			}
			if found != got {
				t.Errorf("counted %+v, erased %+v", found, got)
			}
			var want trace.Erased
			if test.want {
				want = trace.Erased{Traces: int64(len(chosen.Records)), Metrics: int64(len(chosen.Metrics)), Replies: 1}
			}
			if got != want {
				t.Errorf("erased %+v, want %+v", got, want)
			}
			left := func(id trace.ID, key trace.ReplyKey, batch recorder.Batch) {
				t.Helper()
				_, err := s.Trace(t.Context(), id)
				if (err == nil) != (len(batch.Records) == 1) {
					t.Errorf("the trace: %v, want %d", err, len(batch.Records))
				}
				if metrics, err := s.MetricsFor(t.Context(), id); err != nil || len(metrics) != len(batch.Metrics) {
					t.Errorf("%d reports (%v), want %d", len(metrics), err, len(batch.Metrics))
				}
				if _, err := s.Reader.Reply(t.Context(), key); (err == nil) != (len(batch.Replies) == 1) {
					t.Errorf("the reply: %v, want %d", err, len(batch.Replies))
				}
			}
			left(otherID, others.Replies[0].ReplyKey, others)
			if test.want {
				left(id, chosen.Replies[0].ReplyKey, recorder.Batch{})
			} else {
				left(id, chosen.Replies[0].ReplyKey, chosen)
			}
			left(bystander.ID, chosen.Replies[0].ReplyKey, recorder.Batch{
				Records: []*trace.Record{bystander}, Metrics: []*trace.Metrics{nil}, Replies: chosen.Replies[:min(1, btoi(!test.want))],
			})

			d, err := mustOutbox(t, path).Next(t.Context(), trace.Position{}, 100)
			if err != nil || len(d.Erasures) != 1 || d.Erasures[0].Selector != test.selector || time.Since(d.Erasures[0].Time) > time.Minute {
				t.Errorf("the sinks are told %+v, %v", d, err)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestEraseRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	mustOpen(t, Config{Path: path})
	for name, test := range map[string]struct {
		path     string
		selector trace.Selector
		want     string
	}{
		"no workspace": {path, trace.Selector{ConversationID: "c"}, "workspace"},
		"everything":   {path, trace.Selector{Workspace: "default"}, "conversation id"},
		"both":         {path, trace.Selector{Workspace: "default", ConversationID: "c", MetadataName: "a", MetadataValue: "1"}, "either"},
		"bare text":    {path, trace.Selector{Workspace: "default", MetadataName: "a", MetadataValue: "x"}, "JSON"},
		"an object":    {path, trace.Selector{Workspace: "default", MetadataName: "a", MetadataValue: "{}"}, "text, a number"},
		"no file":      {filepath.Join(dir, "b.db"), trace.Selector{Workspace: "default", ConversationID: "c"}, "b.db"},
	} {
		if _, err := Erase(t.Context(), test.path, test.selector); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "b.db")); err == nil {
		t.Error("the erasure made a file")
	}
}

// An erasure concerns earlier rows, also if a sink learns of it late.
func TestErasureIsDeliveredInItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, now := mustAuthority(t), time.Now()
	commit := func() trace.ID {
		m := metricsOf(authority.New(trace.KindPrompt, now))
		m.ConversationID = new("c1")
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{fullRecord(m.TraceID, now)}, Metrics: []*trace.Metrics{m}})
		return m.TraceID
	}
	o := mustOutbox(t, path)
	sink := newCopySink()
	commit()
	sink.drain(t, o, 10)
	commit()
	for range 2 {
		if _, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: "c1"}); err != nil {
			t.Fatal(err)
		}
	}
	kept := commit()
	sink.drain(t, o, 10)
	sink.check(t, s)
	if len(sink.records) != 1 || sink.records[kept] == nil {
		t.Errorf("the sink has %d records, want the one that came after the erasure", len(sink.records))
	}
}

// An erasure comes after all rows that were written before it, also if that takes many
// deliveries and most of them are reports.
func TestErasureComesAfterItsMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, now := mustAuthority(t), time.Now()
	const reports = 7
	for n := range reports {
		m := metricsOf(authority.New(trace.KindPrompt, now))
		m.ConversationID = new("c1")
		batch := recorder.Batch{Metrics: []*trace.Metrics{m}}
		if n == 0 {
			batch.Records = append(batch.Records, fullRecord(m.TraceID, now))
		}
		mustCommit(t, s, batch)
	}
	if _, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: "another"}); err != nil {
		t.Fatal(err)
	}
	o := mustOutbox(t, path)
	for at, taken, erasures := (trace.Position{}), 0, 0; ; {
		d, err := o.Next(t.Context(), at, 2)
		if err != nil {
			t.Fatal(err)
		}
		if d == nil {
			if taken != reports || erasures != 1 {
				t.Errorf("%d reports and %d erasures were delivered", taken, erasures)
			}
			return
		}
		at, taken, erasures = d.Position, taken+len(d.Metrics), erasures+len(d.Erasures)
		if len(d.Erasures) > 0 && taken != reports {
			t.Errorf("the erasure was delivered after %d of %d reports", taken, reports)
		}
	}
}

// Traces that are written during an erasure stay: no sink has to erase them.
func TestEraseLeavesWhatIsWrittenMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, now := mustAuthority(t), time.Now()
	commit := func(id trace.ID) {
		record, m := fullRecord(id, now), metricsOf(id)
		record.Metadata, m.ConversationID = []byte(`{"conversation_id":"c1"}`), new("c1")
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{record}, Metrics: []*trace.Metrics{m}})
	}
	before, after := authority.New(trace.KindPrompt, now), authority.New(trace.KindPrompt, now)
	commit(before)
	db, err := openDatabase(secondWriterDSN(path), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	e := &erasure{conn: conn, turn: turnOf(path), selector: trace.Selector{Workspace: "default", ConversationID: "c1"}}
	if err := e.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(after)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{fullRecord(before, now)}}) // its end, say
	if err := errors.Join(e.find(t.Context()), e.delete(t.Context())); err != nil {
		t.Fatal(err)
	}
	if want := (trace.Erased{Metrics: 1}); e.erased != want {
		t.Errorf("erased %+v, want %+v", e.erased, want)
	}
	for _, id := range []trace.ID{before, after} {
		if _, err := s.Trace(t.Context(), id); err != nil {
			t.Errorf("what was written meanwhile: %v", err)
		}
	}
}

// rawBytes returns the bytes of the file, of its log and of the other files next to it.
func rawBytes(t *testing.T, path string) (content []byte) {
	t.Helper()
	names, err := filepath.Glob(path + "*")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		file, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		content = append(content, file...)
	}
	return content
}

// secretOf returns the beginning of each content that TestMustHoldErasedContentIsGone looks
// for.
const secretOf = "secret of "

// secretsIn returns the ids whose content is in a file. One pass finds them all:
// a search for each would take most of the test's time.
func secretsIn(file []byte) map[string]bool {
	found := make(map[string]bool)
	for {
		_, after, more := bytes.Cut(file, []byte(secretOf))
		if !more {
			return found
		}
		if id := len(trace.ID{}.String()); len(after) > id && after[id] == '.' {
			found[string(after[:id])] = true
		}
		file = after
	}
}

// TestMustHoldErasedContentIsGone looks for erased content in the bytes of a file that has
// seen everything that leaves copies: starts that were replaced, rows of all sizes,
// deletions that moved their neighbours. Without CADENZA_FULL=1 it does that with three
// seeds, and in full with 100.
func TestMustHoldErasedContentIsGone(t *testing.T) {
	t.Parallel()
	seeds := uint64(1 + 2/fewer)
	if os.Getenv("CADENZA_FULL") != "" {
		seeds = 100
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			path := filepath.Join(t.TempDir(), "a.db")
			now := time.Now()
			s := mustOpen(t, Config{Path: path, CurrentRetention: always(time.Hour)})
			authority := mustAuthority(t)
			secret := func(id trace.ID) []byte { return fmt.Appendf(nil, "%s%s.", secretOf, id) }
			var calls []*trace.Record
			doomed, others := map[trace.ID]bool{}, map[trace.ID]bool{}
			for n := range 1500 {
				at := now.Add(time.Duration(n-1000) * 6 * time.Second) // a third is older than an hour
				r := fullRecord(authority.New(trace.KindEndpoint, at), at)
				r.Messages = bytes.Repeat(secret(r.ID), 1+random.IntN(10))
				if random.IntN(20) == 0 {
					r.Messages = bytes.Repeat(secret(r.ID), 500) // many pages
				}
				var batch recorder.Batch
				if random.IntN(2) == 0 {
					start := *r
					start.State = trace.StateInterrupted
					batch.Interrupted = append(batch.Interrupted, &start)
					calls = append(calls, r)
				} else {
					batch.Records = append(batch.Records, r)
				}
				if len(calls) > 50 {
					i := random.IntN(len(calls))
					batch.Records = append(batch.Records, calls[i])
					calls[i] = calls[len(calls)-1]
					calls = calls[:len(calls)-1]
				}
				m := metricsOf(r.ID)
				m.LLMResponse = new(string(bytes.Repeat(secret(r.ID), random.IntN(30))))
				if random.IntN(4) == 0 {
					m.ConversationID = new("c1")
					doomed[r.ID] = true
				} else {
					others[r.ID] = true
				}
				batch.Metrics = append(batch.Metrics, m)
				if now.Sub(at) < time.Hour { // otherwise no row would name it after the retention
					reply := replyOf(r.ID.String(), 1, now)
					reply.TraceID, reply.Body = r.ID, secret(r.ID)
					batch.Replies = append(batch.Replies, reply)
				}
				mustCommit(t, s, batch)
			}
			for more := true; more; {
				var err error
				if more, err = s.Maintain(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			if raw := rawBytes(t, path); !bytes.Contains(raw, []byte(secretOf)) {
				t.Fatal("the content does not stand in the file as it is: the test shows nothing")
			}
			erased, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", ConversationID: "c1"})
			if err != nil {
				t.Fatal(err)
			}
			if erased.Traces < 100 || erased.Metrics < 100 || erased.Replies < 100 {
				t.Errorf("erased %+v", erased)
			}
			found, kept := secretsIn(rawBytes(t, path)), 0
			for id := range doomed {
				if found[id.String()] {
					t.Errorf("the content of %s is still there", id)
				}
			}
			for id := range others {
				if found[id.String()] {
					kept++
				}
			}
			if kept < 500 {
				t.Errorf("of the others only %d are there", kept)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEraseSaysWhenTheLogIsInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	m := metricsOf(mustAuthority(t).New(trace.KindPrompt, time.Now()))
	m.ConversationID, m.LLMResponse = new("c1"), new("the secret")
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{m}})
	tx, err := s.Reader.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readGreatest(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // the rows are deleted long before
	defer cancel()
	selector := trace.Selector{Workspace: "default", ConversationID: "c1"}
	if erased, err := Erase(ctx, path, selector); err == nil || !strings.Contains(err.Error(), "still stand in the file") || erased.Metrics != 1 {
		t.Errorf("%+v, %v", erased, err)
	}
	mustCommit(t, s, recorder.Batch{Metrics: []*trace.Metrics{metricsOf(m.TraceID)}}) // the writer goes on
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := Erase(t.Context(), path, selector); err != nil {
		t.Error(err)
	}
	if bytes.Contains(rawBytes(t, path), []byte("the secret")) {
		t.Error("the content is still there")
	}
}

// TestEraseBesideAWriter erases many traces while calls are recorded: none may have to go
// on before its start is written.
func TestEraseBesideAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	r := openRecorder(t, Config{Path: path})
	other := mustOpen(t, Config{Path: path})
	authority := mustAuthority(t)
	const count = 5000
	for n := 0; n < count; n += 500 {
		var batch recorder.Batch
		for range 500 {
			now := time.Now()
			record := fullRecord(authority.New(trace.KindEndpoint, now), now)
			record.Metadata = []byte(`{"user":"u"}`)
			batch.Records = append(batch.Records, record)
		}
		mustCommit(t, other, batch)
	}
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			now := time.Now()
			record := trace.AcquireRecord()
			fillBare(record, authority.New(trace.KindEndpoint, now), now)
			if !r.Start(context.Background(), record) {
				// Once a disk has hung for a second, no start waits: without a pause thousands
				// would go on in a moment, more than all others.
				time.Sleep(20 * time.Millisecond)
			}
			r.End(record)
		}
		written <- n
	}()
	erased, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", MetadataName: "user", MetadataValue: `"u"`})
	cancel()
	calls := <-written
	if err != nil || erased.Traces != count {
		t.Errorf("%+v, %v; want %d traces", erased, err, count)
	}
	late := r.Stats().LateStarts
	t.Logf("%d calls meanwhile, %d went on before their start was written", calls, late)
	if calls == 0 || !raceEnabled && testing.CoverMode() == "" && late > uint64(max(calls/20, 3)) { // both make all of it slow
		t.Errorf("%d of %d calls went on before their start was written", late, calls)
	}
}
