package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/recorder/calls"
	"github.com/cadenza-gateway/cadenza/trace"
)

func startOf(workspace string, n byte) *trace.Record {
	return &trace.Record{ID: trace.ID{n, 3}, Workspace: workspace, Kind: trace.KindEndpoint, Key: "k"}
}

func endOf(workspace string, n byte) *trace.Record {
	end := trace.AcquireRecord()
	end.CopyFrom(startOf(workspace, n))
	return end
}

// TestCallsStayUntilTheirEndIsStored: a crash after the end, and before its commit,
// finds the call.
func TestCallsStayUntilTheirEndIsStored(t *testing.T) {
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		open(t, r)
		record := startOf("w", 1)
		began := time.Now()
		if !r.Start(t.Context(), record) || time.Since(began) != 0 || record.State != trace.StateEnded {
			t.Errorf("after %s, the caller's is %s", time.Since(began), record.State)
		}
		settle(time.Minute)
		if len(s.log()) > 0 {
			t.Error("a start makes a commit")
		}
		onDisk := func() bool {
			text, err := os.ReadFile(r.options.Calls + "-calls")
			if err != nil {
				t.Fatal(err)
			}
			return bytes.Contains(text, record.ID[:])
		}
		s.set(func(s *memStore) {
			s.fail = func(*Batch) error {
				if !onDisk() {
					t.Error("the start is gone before the end is stored")
				}
				return errors.New("disk full")
			}
		})
		if !r.End(endOf("w", 1)) {
			t.Error("the end was dropped")
		}
		settle(time.Minute)
		if call := r.Call(record.ID); call == nil || call.State != trace.StateStarted {
			t.Errorf("%+v", call)
		}
		s.set(func(s *memStore) { s.fail = nil })
		settle(time.Minute)
		if r.Call(record.ID) != nil || onDisk() || s.records[record.ID] != trace.StateEnded {
			t.Errorf("after the end: %+v, on disk %v, stored as %s", r.Call(record.ID), onDisk(), s.records[record.ID])
		}
	})
}

// TestCallsOfADeadProcess are stored as interrupted, unless their end is stored,
// and then forgotten.
func TestCallsOfADeadProcess(t *testing.T) {
	var log strings.Builder
	run(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, r *Recorder, s *memStore) {
		dead := calls.New(r.options.Calls, slog.New(slog.DiscardHandler))
		dead.Open()
		for n := range byte(100) {
			dead.Start(t.Context(), calls.NewCall(startOf("w", n)))
		}
		if err := dead.Close(); err != nil {
			t.Fatal(err)
		}
		s.records[trace.ID{7, 3}] = trace.StateEnded
		s.openError = errors.New("permission denied")
		r.Open()
		settle(time.Minute)
		if !r.Start(t.Context(), startOf("w", 200)) {
			t.Error("without a store a start is not kept")
		}
		s.set(func(s *memStore) { s.openError = nil })
		settle(time.Minute)
		for n := range byte(100) {
			want := trace.StateInterrupted
			if n == 7 {
				want = trace.StateEnded
			}
			if got, ok := s.records[trace.ID{n, 3}]; !ok || got != want {
				t.Errorf("call %d is %s, %v", n, got, ok)
			}
		}
		if s.has(trace.ID{200, 3}) || r.Call(trace.ID{200, 3}) == nil {
			t.Error("a call that is under way is stored")
		}
		again := 0
		s.set(func(s *memStore) { s.seen = func(*trace.Record) { again++ } })
		r.End(endOf("w", 200))
		settle(time.Minute)
		if again != 1 || s.records[trace.ID{200, 3}] != trace.StateEnded {
			t.Errorf("%d records were written again", again)
		}
	})
	if said := log.String(); strings.Count(said, "the process had ended during upstream calls") != 1 || !strings.Contains(said, "count=100") {
		t.Errorf("the log: %s", said)
	}
}

// TestLostEndsShowAsInterrupted: if the end of a call does not fit into the queue,
// its start stays.
func TestLostEndsShowAsInterrupted(t *testing.T) {
	run(t, Options{MaxRecords: 4}, func(t *testing.T, r *Recorder, s *memStore) {
		for n := range byte(8) {
			r.Start(t.Context(), startOf("w", n))
			r.End(endOf("w", n))
		}
		big := endOf("w", 9)
		r.Start(t.Context(), big)
		big.Metadata = make([]byte, MaxRecordSize)
		r.End(big)
		if drops := r.Stats().Drops; drops.QueueFull != 3 || drops.TooLarge != 1 {
			t.Errorf("%+v", drops)
		}
		open(t, r)
		settle(time.Minute)
		states := map[trace.State]int{}
		for _, state := range s.records {
			states[state]++
		}
		if states[trace.StateEnded] != 5 || states[trace.StateInterrupted] != 4 {
			t.Errorf("%v", states)
		}
		if used := r.queue.shares.byWorkspace["w"].used; used != ([resources]int64{}) {
			t.Errorf("%v are held", used)
		}
	})
}

// TestLateStarts: a call whose start can't be written goes on, and is counted.
func TestLateStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		dir := filepath.Join(t.TempDir(), "dir")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		r := New(Options{Open: s.open, Calls: filepath.Join(dir, "a.db")})
		defer closeRecorder(t, r)
		open(t, r)
		for n := range byte(3) {
			if r.Start(t.Context(), startOf("w", n)) {
				t.Error("a start that was not written counts as written")
			}
		}
		if got := r.Stats(); got.LateStarts != 3 || got.Drops.Total() != 0 || r.Call(startOf("w", 1).ID) == nil {
			t.Errorf("%+v", got)
		}
		// A report does not wait for the next try of the file.
		began := time.Now()
		if err := r.Metrics(t.Context(), metricsOn(1)); err != nil || time.Since(began) != 0 {
			t.Errorf("a report takes %s, %v", time.Since(began), err)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		settle(2 * time.Second)
		if text, err := os.ReadFile(r.options.Calls + "-calls"); err != nil || !bytes.Contains(text, []byte{2, 3, 0, 0}) {
			t.Errorf("the starts are not written when it works again: %v", err)
		}
		for n := range byte(3) {
			r.End(endOf("w", n))
		}
	})
}

// TestCallsAreBounded: past the ceiling calls go on without a start record, and no
// workspace takes the part of another.
func TestCallsAreBounded(t *testing.T) {
	var hooked int
	run(t, Options{MaxCalls: 8 << 10, OnStart: func() { hooked++ }}, func(t *testing.T, r *Recorder, s *memStore) {
		r.Join("a")
		r.Join("b")
		open(t, r)
		taken := 0
		for n := range byte(20) {
			if r.Start(t.Context(), startOf("a", n)) {
				taken++
			}
		}
		if drops := r.Stats().Workspaces["a"]; taken != 6 || drops.QueueFull != 14 {
			t.Errorf("%d were taken, %+v", taken, drops)
		}
		if !r.Start(t.Context(), startOf("b", 101)) || !r.Start(t.Context(), startOf("b", 102)) || r.Start(t.Context(), startOf("b", 103)) {
			t.Error("b has not its part")
		}
		if hooked != 8 {
			t.Errorf("%d calls woke followers", hooked)
		}
		if r.End(endOf("a", 1)); r.Flush(t.Context()) != nil || !r.Start(t.Context(), startOf("a", 50)) {
			t.Error("an end gives no room back")
		}
		var marks []string
		r.Calls(func(record *trace.Record, begun int64) bool {
			marks = append(marks, fmt.Sprint(record.ID[0], begun <= r.Mark()))
			return true
		})
		if len(marks) != 8 || strings.Contains(fmt.Sprint(marks), "false") {
			t.Errorf("%q", marks)
		}
	})
}
