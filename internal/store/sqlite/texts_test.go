package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/recorder"
	"github.com/cadenza-gateway/cadenza/trace"
)

// turnsOf returns the messages of each turn of a conversation. They have size bytes more
// with each.
func turnsOf(name string, turns, size int) (all [][]byte) {
	var text strings.Builder
	text.WriteString("[")
	for n := range turns {
		begin := text.Len()
		fmt.Fprintf(&text, `{"role":"user","content":"%s %d: `, name, n)
		for text.Len() < begin+size {
			fmt.Fprintf(&text, "né %x ", sha256.Sum256([]byte(text.String()[begin:])))
		}
		text.WriteString(`"},`)
		all = append(all, []byte(strings.TrimSuffix(text.String(), ",")+"]"))
	}
	return all
}

// withMessages returns a record with messages, and what tells it from others in a file.
func withMessages(authority *trace.Authority, at time.Time, workspace string, messages []byte) *trace.Record {
	r := fullRecord(authority.New(trace.KindEndpoint, at), at)
	r.Workspace, r.Messages, r.Code = workspace, messages, ""
	return r
}

// wantRecord compares records. The library that compares the others looks at single bytes.
func wantRecord(t testing.TB, by string, want, got *trace.Record) {
	t.Helper()
	if got == nil || !bytes.Equal(want.Messages, got.Messages) {
		t.Fatalf("%s has other messages: %v", by, got != nil)
	}
	want, shown := shownAs(want), shownAs(got)
	want.Messages, shown.Messages = nil, nil
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", by, diff)
	}
}

// wantTexts checks that the store has the texts of the records and no others, and that each
// record is read as it was written, by whatever reads content.
func wantTexts(t testing.TB, s *Store, records map[trace.ID]*trace.Record) {
	t.Helper()
	left, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM histories WHERE trace_id NOT IN (SELECT id FROM traces)")
	if err != nil || left != 0 {
		t.Fatalf("%d histories have no trace (%v)", left, err)
	}
	check := func(by string, got *trace.Record) {
		if want := records[got.ID]; want == nil {
			t.Fatalf("%s is left of %s", by, got.Time)
		} else {
			wantRecord(t, by, want, got)
		}
	}
	exported, perWorkspace := 0, make(map[string]bool)
	for id, r := range records {
		perWorkspace[r.Workspace] = true
		got, err := s.Trace(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		check("the trace", got)
	}
	for workspace := range perWorkspace {
		err := s.Export(t.Context(), trace.Filter{Workspace: workspace, Kind: trace.KindEndpoint}, func(r *trace.Record, _ []trace.Metrics) error {
			check("the export", r)
			exported++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if exported != len(records) {
		t.Fatalf("%d traces were exported, want %d", exported, len(records))
	}
	want := make(map[string]string)
	for _, r := range records {
		hash, begin := sha256.Sum256([]byte(r.Workspace)), 0
		for _, end := range ends(r.Messages) {
			hash = sha256.Sum256(append(hash[:], r.Messages[begin:end]...))
			want[hex.EncodeToString(hash[:])], begin = string(r.Messages[begin:end]), end
		}
	}
	got := make(map[string]string)
	_, err = collect(t.Context(), s.conn, func(scan func(...any) error) (struct{}, error) {
		var hash, text string
		err := scan(&hash, &text)
		got[hash] = text
		return struct{}{}, err
	}, "SELECT lower(hex(hash)), text FROM texts")
	if err != nil || !maps.Equal(got, want) {
		t.Fatalf("the store has %d texts (%v), want %d", len(got), err, len(want))
	}
}

// A session takes about as much as its last turn, not as all of them.
func TestSessionIsStoredOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, at, sealer := mustAuthority(t), time.UnixMilli(1790000000123), mustSealer(t)
	records, total := make(map[trace.ID]*trace.Record), 0
	for _, messages := range turnsOf("session", 100, 10<<10) {
		r := withMessages(authority, at, "default", messages)
		r.Seal, r.Sealer = "", sealer
		r.SealAs(trace.StateEnded)
		r.Sealer = nil
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
		records[r.ID], total = r, total+len(messages)
	}
	wantTexts(t, s, records)
	if used, err := queryInt(t.Context(), s.conn, usedSQL); err != nil || used*20 > int64(total) {
		t.Errorf("%d bytes of messages take %d (%v), want a twentieth at most", total, used, err)
	} else {
		t.Logf("%d bytes of messages take %d", total, used)
	}
	copied := newCopySink()
	copied.drain(t, mustOutbox(t, path), 30)
	for id, want := range records {
		wantRecord(t, "a sink", want, copied.records[id])
		if v := sealer.Verify(copied.records[id]); v.Result != trace.SealValid {
			t.Fatalf("the seal of a trace: %+v", v)
		}
	}
}

// TestTextsAgreeWithTheirTraces stores, replaces and deletes random turns of random
// conversations. The store then has what one without shared texts would show, and no text
// that no trace has.
func TestTextsAgreeWithTheirTraces(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 27))
			path := filepath.Join(t.TempDir(), "a.db")
			config := Config{Path: path, CurrentRetention: func() time.Duration { return 24 * time.Hour }}
			s := mustOpen(t, config)
			records := make(map[trace.ID]*trace.Record)
			conversations := [][][]byte{
				turnsOf("a", 9, 11<<10), turnsOf("b", 5, 40<<10),
				{bytes.Repeat([]byte("\xa9"), 6*textSize+9), bytes.Repeat([]byte("\xa9"), 5*textSize), bytes.Repeat([]byte("é\x00"), textSize)},
				{nil, make([]byte, textSize-1), make([]byte, textSize), make([]byte, textSize+1)},
			}
			// Another end of a.
			fork := append(bytes.Clone(conversations[0][5]), turnsOf("fork", 1, 50<<10)[0]...)
			conversations[0] = append(conversations[0], fork)
			draw := func() []byte {
				c := conversations[random.IntN(len(conversations))]
				return c[random.IntN(len(c))]
			}
			now := time.Now().Truncate(time.Millisecond)
			for range 40 {
				switch random.IntN(8) {
				default: // some are of the day before
					var batch recorder.Batch
					for range 1 + random.IntN(6) {
						r := withMessages(mustAuthority(t), now.Add(-time.Duration(random.IntN(47))*time.Hour), []string{"default", "other"}[random.IntN(2)], draw())
						r.Metadata = fmt.Appendf(nil, `{"user":%d}`, random.IntN(4))
						if random.IntN(3) == 0 {
							r.State = trace.StateInterrupted
							batch.Interrupted = append(batch.Interrupted, r)
						} else {
							batch.Records = append(batch.Records, r)
						}
						records[r.ID] = r
					}
					mustCommit(t, s, batch)
				case 0: // calls end that were taken for interrupted, and a batch is written again
					var batch recorder.Batch
					for _, r := range records {
						if random.IntN(3) > 0 {
							continue
						}
						end := *r
						if r.State == trace.StateInterrupted {
							end.State, end.Messages = trace.StateEnded, draw()
						}
						batch.Records = append(batch.Records, &end)
						records[r.ID] = &end
					}
					mustCommit(t, s, batch)
				case 1:
					user := random.IntN(4)
					erased, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", MetadataName: "user", MetadataValue: fmt.Sprint(user)})
					if err != nil {
						t.Fatal(err)
					}
					before := len(records)
					maps.DeleteFunc(records, func(_ trace.ID, r *trace.Record) bool {
						return r.Workspace == "default" && string(r.Metadata) == fmt.Sprintf(`{"user":%d}`, user)
					})
					if erased.Traces != int64(before-len(records)) {
						t.Fatalf("erased %+v of %d traces, want %d", erased, before, before-len(records))
					}
				case 2: // by the retention
					maintain(t, s, now)
					maps.DeleteFunc(records, func(_ trace.ID, r *trace.Record) bool { return r.Time.Before(now.Add(-24 * time.Hour)) })
				case 3: // by hand
					for id := range records {
						if random.IntN(3) == 0 {
							if _, err := s.conn.ExecContext(t.Context(), "DELETE FROM traces WHERE id = ?", id[:]); err != nil {
								t.Fatal(err)
							}
							delete(records, id)
						}
					}
				}
				wantTexts(t, s, records)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A text that is erased with its last trace leaves no byte behind; one that another trace
// has stays.
func TestErasedTextIsGone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	turns := turnsOf("first", 6, 12<<10)
	records := make(map[trace.ID]*trace.Record)
	for n, messages := range turns {
		r := withMessages(authority, at, "default", messages)
		r.Metadata = fmt.Appendf(nil, `{"user":"u%d"}`, min(n/3, 1))
		records[r.ID] = r
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
	}
	// What of the messages is in the file: any two lines of 16 bytes in each KiB.
	remains := func(from, to int) (found int) {
		file, last := rawBytes(t, path), turns[len(turns)-1]
		for begin := from; begin+16 <= to; begin += 1 << 10 {
			if bytes.Contains(file, last[begin:begin+16]) {
				found++
			}
		}
		return found
	}
	erase := func(user string) {
		t.Helper()
		if got, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", MetadataName: "user", MetadataValue: `"` + user + `"`}); err != nil || got.Traces != 3 {
			t.Fatal(got, err)
		}
		maps.DeleteFunc(records, func(_ trace.ID, r *trace.Record) bool { return strings.Contains(string(r.Metadata), user) })
		wantTexts(t, s, records)
	}
	whole, shared := len(turns[5]), len(turns[2])
	if remains(0, whole) < whole>>10 {
		t.Fatal("the test does not find what is stored")
	}
	erase("u1")
	if n := remains(shared+1<<10, whole); n > 0 {
		t.Errorf("%d parts of the last turns are left", n)
	}
	erase("u0")
	if n := remains(0, whole); n > 0 {
		t.Errorf("%d parts of the conversation are left", n)
	}
}

// The size counts what is stored: deleting the oldest turns of a session frees little, and
// the newest stay whole.
func TestSizeOfSharedTexts(t *testing.T) {
	t.Parallel()
	limit := int64(0)
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db"), CurrentMaxSize: func() int64 { return limit }})
	authority, now := mustAuthority(t), time.Now().Truncate(time.Millisecond)
	records := make(map[trace.ID]*trace.Record)
	for session := range 4 {
		for n, messages := range turnsOf(fmt.Sprint(session), 20, 20<<10) {
			at := now.Add(time.Duration(20*session+n-100) * time.Second)
			r := withMessages(authority, at, "default", messages)
			records[r.ID] = r
			mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
		}
	}
	used, err := queryInt(t.Context(), s.conn, usedSQL)
	if err != nil {
		t.Fatal(err)
	}
	limit = used * 6 / 10
	maintain(t, s, now)
	var left []trace.ID
	for id := range records {
		if _, err := s.Trace(t.Context(), id); err == nil {
			left = append(left, id)
		}
	}
	maps.DeleteFunc(records, func(id trace.ID, _ *trace.Record) bool { return !slices.Contains(left, id) })
	wantTexts(t, s, records)
	if n := len(records); n < 20 || n > 60 {
		t.Errorf("%d of 80 traces are left in six tenths of the size", n)
	}
}

// Messages that are removed or changed by hand are so as a whole, and the seal tells which.
func TestMessagesChangedByHand(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Config{Path: filepath.Join(t.TempDir(), "a.db")})
	authority, at, sealer := mustAuthority(t), time.UnixMilli(1790000000123), mustSealer(t)
	for value, want := range map[string]string{"": "removed", "[]": "changed"} {
		r := withMessages(authority, at, "default", turnsOf("a", 3, 20<<10)[2])
		r.Sealer = sealer
		r.SealAs(trace.StateEnded)
		mustCommit(t, s, recorder.Batch{Records: []*trace.Record{r}})
		if _, err := s.conn.ExecContext(t.Context(), "UPDATE traces SET messages = ? WHERE id = ?", text(value), r.ID[:]); err != nil {
			t.Fatal(err)
		}
		r.Messages = []byte(value)
		got, err := s.Trace(t.Context(), r.ID)
		if err != nil || string(got.Messages) != value {
			t.Fatalf("%d bytes are left (%v), want %q", len(got.Messages), err, value)
		}
		v := sealer.Verify(got)
		if told := map[string][]string{"removed": v.Removed, "changed": v.Changed}[want]; !slices.Equal(told, []string{"messages"}) {
			t.Errorf("the seal says %+v, want messages as %s", v, want)
		}
	}
	wantNone, err := queryInt(t.Context(), s.conn, "SELECT count(*) FROM texts")
	if err != nil || wantNone != 0 {
		t.Errorf("%d texts are left (%v)", wantNone, err)
	}
}

// An older file gets the texts; until a gateway has opened it, it is read as it is.
func TestFileWithoutTexts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	authority, at := mustAuthority(t), time.UnixMilli(1790000000123)
	old := withMessages(authority, at, "default", turnsOf("a", 3, 20<<10)[2])
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{old}})
	for _, change := range []string{"DROP TRIGGER traces_history_deleted", "DROP TRIGGER traces_messages_changed", "DROP VIEW whole_messages", "DROP TABLE histories", "DROP TABLE texts"} {
		if _, err := s.conn.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.conn.ExecContext(t.Context(), "UPDATE traces SET messages = ?", string(old.Messages)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	read := func() {
		t.Helper()
		reader, err := OpenReader(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		got, err := reader.Trace(t.Context(), old.ID)
		if err != nil {
			t.Fatal(err)
		}
		wantRecord(t, "the old file", old, got)
	}
	read()
	if found, err := CountErasure(t.Context(), path, trace.Selector{Workspace: "default", MetadataName: "a", MetadataValue: "1"}); err != nil || found.Traces != 1 {
		t.Error(found, err)
	}
	if got, err := Erase(t.Context(), path, trace.Selector{Workspace: "default", MetadataName: "a", MetadataValue: "2"}); err != nil || got.Traces != 0 {
		t.Error(got, err)
	}
	read()
	s = mustOpen(t, Config{Path: path})
	more := withMessages(authority, at, "default", old.Messages)
	mustCommit(t, s, recorder.Batch{Records: []*trace.Record{more}})
	read()
	wantTexts(t, s, map[trace.ID]*trace.Record{old.ID: old, more.ID: more})
	for _, match := range regexp.MustCompile(`CREATE \w+ IF NOT EXISTS (\w+)`).FindAllStringSubmatch(textsSchema, -1) {
		if !slices.Contains(objectsOf(t, s), match[1]) {
			t.Errorf("the file has no %s", match[1])
		}
	}
}
