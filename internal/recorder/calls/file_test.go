package calls

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/internal/private"
	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is the start record of a call with so many bytes of content.
func call(n, size int) *trace.Record {
	id := trace.ID{1: byte(n >> 16), 2: byte(n >> 8), 3: byte(n), 15: 1}
	return &trace.Record{ID: id, Time: time.Unix(1790000000, 0), Workspace: "w", Kind: trace.KindEndpoint, Key: fmt.Sprint("call ", n),
		Messages: bytes.Repeat(fmt.Appendf(nil, "secret-%d.", n), 1+size/10)}
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// opened opens a file beside a store.
func opened(t testing.TB, store string) *File {
	t.Helper()
	f := New(store, quiet())
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	return f
}

// mustStart starts a call and waits until it is written: on a busy machine that may
// take longer than a call waits.
func mustStart(t testing.TB, f *File, r *trace.Record) {
	t.Helper()
	if _, kept := f.Start(t.Context(), NewCall(r)); !kept {
		t.Fatalf("%s was not kept", r.Key)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		unwritten := f.unwritten
		f.mu.Unlock()
		if unwritten == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s was not written", r.Key)
		}
	}
}

// die ends the process of a file: its lock goes, and nothing else is done.
func die(t testing.TB, f *File) {
	t.Helper()
	if err := f.file.Close(); err != nil {
		t.Fatal(err)
	}
}

// keysOf are those of what a file finds, and takes them for stored.
func keysOf(f *File) (keys []string) {
	for f.Lost() > 0 {
		for _, r := range f.Interrupted(3, 1<<20) {
			keys = append(keys, r.Key)
		}
		f.Forget()
	}
	slices.Sort(keys)
	return keys
}

func running(f *File) (keys []string) {
	f.Running(func(r *trace.Record, _ int64) bool {
		keys = append(keys, r.Key)
		return true
	})
	slices.Sort(keys)
	return keys
}

// TestCallsOutliveTheirProcess runs calls of all sizes through a file, kills the
// process now and then, and holds what the next one finds against the calls that
// had no end. Nothing of what has ended is left in the file.
func TestCallsOutliveTheirProcess(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		store := filepath.Join(t.TempDir(), "a.db")
		f := opened(t, store)
		under := map[string]*trace.Record{}
		check := func(got []string) {
			t.Helper()
			var want []string
			for key := range under {
				want = append(want, key)
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("found %q, want %q", got, want)
			}
		}
		for n := range 400 {
			switch what := random.IntN(20); {
			case what < 10:
				r := call(n, 10<<random.IntN(14))
				mustStart(t, f, r)
				under[r.Key] = r
			case what < 18 && len(under) > 0:
				var ids []trace.ID
				var sizes int64
				for key, r := range under {
					ids = append(ids, r.ID)
					c := NewCall(r)
					sizes += c.Size()
					delete(under, key)
					if random.IntN(2) == 0 {
						break
					}
				}
				var freed int64
				for _, size := range f.End(nil, append(ids, trace.ID{15: 9})) {
					freed += size
				}
				if freed != sizes {
					t.Fatalf("%d bytes were freed of %d", freed, sizes)
				}
			case what == 18:
				check(running(f))
				f.Shrink()
			case what == 19 && random.IntN(3) == 0:
				die(t, f)
				f = opened(t, store)
				if random.IntN(2) == 0 { // it dies before anything is stored
					die(t, f)
					f = opened(t, store)
				}
				f.Retry()
				mustStart(t, f, call(1<<20, 100))
				f.End(nil, []trace.ID{call(1<<20, 0).ID})
				check(keysOf(f))
				clear(under)
			}
		}
		check(running(f))
		text, err := os.ReadFile(pathOf(store, 0))
		if err != nil {
			t.Fatal(err)
		}
		for n := range 400 {
			r := call(n, 0)
			if secret := fmt.Sprintf("secret-%d.", n); under[r.Key] == nil && bytes.Contains(text, []byte(secret)) {
				t.Fatalf("the file has %s", secret)
			}
		}
		var ids []trace.ID
		for _, r := range under {
			ids = append(ids, r.ID)
		}
		f.End(nil, ids)
		if f.Shrink(); mustSize(t, store) > (1+spareSlots)*slotSize {
			t.Errorf("without calls the file has %d bytes", mustSize(t, store))
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(pathOf(store, 0)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after a clean end: %v", err)
		}
	}
}

func mustSize(t testing.TB, store string) int64 {
	t.Helper()
	info, err := os.Stat(pathOf(store, 0))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestCallsGoOnAfterClose: those without an end are found by the next process.
func TestCallsGoOnAfterClose(t *testing.T) {
	store := filepath.Join(t.TempDir(), "a.db")
	f := opened(t, store)
	mustStart(t, f, call(1, 10))
	mustStart(t, f, call(2, 10))
	f.End(nil, []trace.ID{call(1, 0).ID})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = opened(t, store)
	if got := keysOf(f); !slices.Equal(got, []string{"call 2"}) {
		t.Errorf("%q", got)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCallRead: a call is shown with its content, and a lost one is no longer
// under way.
func TestCallRead(t *testing.T) {
	f := opened(t, filepath.Join(t.TempDir(), "a.db"))
	defer f.Close()
	r := call(1, 5000)
	mustStart(t, f, r)
	if got := f.Call(r.ID); got == nil || !bytes.Equal(got.Messages, r.Messages) || got.State != trace.StateStarted {
		t.Errorf("%+v", got)
	}
	f.Running(func(got *trace.Record, _ int64) bool {
		if got.Key != r.Key || len(got.Messages) > 0 {
			t.Errorf("%+v", got)
		}
		return true
	})
	if f.Lose(r.ID) == 0 || f.Lose(r.ID) != 0 || f.Call(r.ID) != nil || f.Lost() != 1 {
		t.Error("a call that is lost is under way")
	}
	if got := f.Interrupted(10, 1<<20); len(got) != 1 || got[0].State != trace.StateInterrupted || !bytes.Equal(got[0].Messages, r.Messages) {
		t.Errorf("%+v", got)
	}
	f.Forget()
	if f.slots.end() != 1 {
		t.Error("it holds its slots")
	}
}

// TestCallsBeginWhileTheFileShrinks: their start records are written as ever, before
// what is cut off and behind.
func TestCallsBeginWhileTheFileShrinks(t *testing.T) {
	store := filepath.Join(t.TempDir(), "a.db")
	f := opened(t, store)
	defer f.Close()
	mustStart(t, f, call(1, 10))
	mustStart(t, f, call(2, 2*spareSlots*slotSize))
	f.End(nil, []trace.ID{call(2, 0).ID})
	f.truncate = func(file *os.File, size int64) error {
		mustStart(t, f, call(3, 2000))
		return file.Truncate(size)
	}
	before := mustSize(t, store)
	if f.Shrink(); mustSize(t, store) >= before {
		t.Error("the file did not shrink")
	}
	mustStart(t, f, call(4, 2*spareSlots*slotSize))
	if got := running(f); len(got) != 3 {
		t.Errorf("under way: %q", got)
	}
	f.End(nil, []trace.ID{call(1, 0).ID, call(3, 0).ID, call(4, 0).ID})
}

// TestLookAtACallThatEnds: a call that has ended while it was looked up is not shown
// by what another has in its slots.
func TestLookAtACallThatEnds(t *testing.T) {
	f := opened(t, filepath.Join(t.TempDir(), "a.db"))
	defer f.Close()
	mustStart(t, f, call(1, 10))
	one := f.calls[call(1, 0).ID]
	f.End(nil, []trace.ID{one.id})
	mustStart(t, f, call(2, 10))
	if two := f.calls[call(2, 0).ID]; two.slot != one.slot {
		t.Fatalf("the slots are %d and %d", one.slot, two.slot)
	}
	if got := f.look(one, true); got != nil {
		t.Errorf("it is shown as %s", got.Key)
	}
	f.End(nil, []trace.ID{call(2, 0).ID})
}

// TestCloseKeepsWhatIsBeingWritten: the next process finds a call that was given up
// during a write that hangs. What could not be cleared is removed: its end is stored.
func TestCloseKeepsWhatIsBeingWritten(t *testing.T) {
	hang, failing := make(chan struct{}), errors.New("the disk is full")
	for name, test := range map[string]struct {
		write func(*os.File, []byte, int64) error
		end   func(f *File, id trace.ID)
		kept  bool
	}{
		"hangs": {func(*os.File, []byte, int64) error { <-hang; return nil }, func(f *File, id trace.ID) { f.Lose(id) }, true},
		"can't be cleared": {func(file *os.File, text []byte, at int64) error {
			if bytes.Count(text, []byte{0}) == len(text) {
				return failing
			}
			return writeAt(file, text, at)
		}, func(f *File, id trace.ID) { f.End(nil, []trace.ID{id}) }, false},
	} {
		store := filepath.Join(t.TempDir(), "a.db")
		f := opened(t, store)
		f.write = test.write
		if test.kept {
			if written, _ := f.Start(t.Context(), NewCall(call(1, 10))); written {
				t.Errorf("%s: it is written", name)
			}
		} else {
			mustStart(t, f, call(1, 10))
		}
		test.end(f, call(1, 0).ID)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(pathOf(store, 0)); test.kept != (err == nil) {
			t.Errorf("%s: after the end the file is there: %v", name, err == nil)
		}
	}
	close(hang)
}

// TestDamagedRecordsAreCleared: what they say does not stay in the file.
func TestDamagedRecordsAreCleared(t *testing.T) {
	store := filepath.Join(t.TempDir(), "a.db")
	f := opened(t, store)
	mustStart(t, f, call(1, 10))
	mustStart(t, f, call(2, 10))
	if err := f.write(f.file, []byte{0xff}, slotSize+headerSize); err != nil {
		t.Fatal(err)
	}
	die(t, f)
	f = opened(t, store)
	defer f.Close()
	if f.Retry() {
		t.Error("there is more to do")
	}
	text, err := os.ReadFile(pathOf(store, 0))
	if err != nil || bytes.Contains(text, []byte("secret-1.")) || !bytes.Contains(text, []byte("secret-2.")) {
		t.Errorf("the file has %q, %v", bytes.Trim(text, "\x00"), err)
	}
	if got := keysOf(f); !slices.Equal(got, []string{"call 2"}) {
		t.Errorf("found %q", got)
	}
}

// TestSecondStartIsRefused: the first one of an id stays.
func TestSecondStartIsRefused(t *testing.T) {
	f := opened(t, filepath.Join(t.TempDir(), "a.db"))
	defer f.Close()
	mustStart(t, f, call(1, 10))
	if written, kept := f.Start(t.Context(), NewCall(call(1, 10))); written || kept {
		t.Errorf("%v, %v", written, kept)
	}
	f.End(nil, []trace.ID{call(1, 0).ID})
	if f.slots.end() != 1 {
		t.Error("slots are left")
	}
}

// TestDamagedRecordsArePassedOver changes each byte of a file in turn, and cuts it.
// What is not hit is found, and nothing that was not written.
func TestDamagedRecordsArePassedOver(t *testing.T) {
	store := filepath.Join(t.TempDir(), "a.db")
	f := opened(t, store)
	for n := range 3 {
		mustStart(t, f, call(n, 900))
	}
	die(t, f)
	sound, err := os.ReadFile(pathOf(store, 0))
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, text []byte, least int) {
		t.Helper()
		if err := os.WriteFile(pathOf(store, 0), text, 0o600); err != nil {
			t.Fatal(err)
		}
		f := opened(t, store)
		got := keysOf(f)
		if len(got) < least || slices.ContainsFunc(got, func(key string) bool { return key != "call 0" && key != "call 1" && key != "call 2" }) {
			t.Errorf("%s: %q", what, got)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for at := range sound {
		if at%7 > 0 && at%slotSize > headerSize {
			continue // nearly each is enough
		}
		changed := bytes.Clone(sound)
		changed[at] ^= 0x55
		least := 2
		if at < headerSize {
			least = 0
		}
		check(fmt.Sprint("byte ", at), changed, least)
	}
	for cut := 0; cut < len(sound); cut += 101 {
		check(fmt.Sprint("cut at ", cut), sound[:cut], 0)
	}
	check("as it was", sound, 3)
}

// TestContentIsNoRecord: a caller that knows the form can't write a record into
// the file of a call.
func TestContentIsNoRecord(t *testing.T) {
	store := filepath.Join(t.TempDir(), "a.db")
	f := opened(t, store)
	forged := NewCall(call(7, 10))
	binary.LittleEndian.PutUint64(forged.text[8:], sum(0, 3, forged.text[headerSize:])) // all but the seed is known
	r := call(1, 0)
	r.Messages = make([]byte, 3*slotSize) // a slot begins in it
	mustStart(t, f, r)
	inside := bytes.LastIndex(first(appendRecord(nil, r)), r.Messages) + headerSize
	copy(r.Messages[2*slotSize-inside:], forged.text)
	f.End(nil, []trace.ID{r.ID})
	mustStart(t, f, r)
	if err := f.write(f.file, make([]byte, slotSize), slotSize); err != nil { // its first page is lost
		t.Fatal(err)
	}
	die(t, f)
	text, err := os.ReadFile(pathOf(store, 0))
	if err != nil || !bytes.HasPrefix(text[3*slotSize:], recordMark[:]) {
		t.Fatalf("nothing was forged, %v", err)
	}
	f = opened(t, store)
	defer f.Close()
	if got := keysOf(f); len(got) > 0 {
		t.Errorf("found %q", got)
	}
}

// TestProcessesHaveFilesOfTheirOwn: the calls of one that lives are not touched,
// and those of a dead one are found by the next.
func TestProcessesHaveFilesOfTheirOwn(t *testing.T) {
	store := filepath.Join(t.TempDir(), "a.db")
	one, two := opened(t, store), opened(t, store)
	mustStart(t, one, call(1, 10))
	mustStart(t, two, call(2, 10))
	three := opened(t, store)
	if one.Lost()+two.Lost()+three.Lost() != 0 {
		t.Error("calls of a process that lives are found")
	}
	die(t, two)
	four := opened(t, store) // takes the file of the dead one
	if got := keysOf(four); !slices.Equal(got, []string{"call 2"}) {
		t.Errorf("found %q", got)
	}
	die(t, one)
	mustStart(t, four, call(4, 10))
	die(t, four)
	five := opened(t, store) // takes the first, and finds the other
	if got := keysOf(five); !slices.Equal(got, []string{"call 1", "call 4"}) {
		t.Errorf("found %q", got)
	}
	for _, f := range []*File{three, five} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(store + "*"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestFileIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes, and links for few")
	}
	dir := t.TempDir()
	target := filepath.Join(dir, "real", "b.db")
	if err := os.Mkdir(filepath.Dir(target), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "a.db")
	if err := os.Symlink(target, store); err != nil {
		t.Fatal(err)
	}
	f := opened(t, store)
	defer f.Close()
	info, err := os.Stat(target + "-calls")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// bubble runs a test of a file in a time of its own.
func bubble(t *testing.T, test func(t *testing.T, f *File, log *strings.Builder)) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f := New(filepath.Join(t.TempDir(), "a.db"), slog.New(slog.NewTextHandler(&log, nil)))
		test(t, f, &log)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStartWaitsNoLongerThan20ms for a write that hangs, whose record is written
// all the same, and for none where many hang.
func TestStartWaitsNoLongerThan20ms(t *testing.T) {
	bubble(t, func(t *testing.T, f *File, _ *strings.Builder) {
		if err := f.Open(); err != nil {
			t.Fatal(err)
		}
		writes := 0
		f.write = func(file *os.File, text []byte, at int64) error {
			f.mu.Lock()
			writes++
			f.mu.Unlock()
			time.Sleep(time.Minute)
			return writeAt(file, text, at)
		}
		began := time.Now()
		var ids []trace.ID
		for n := range maxWrites + 10 {
			r := call(n, 10)
			ids = append(ids, r.ID)
			if written, kept := f.Start(t.Context(), NewCall(r)); written || !kept {
				t.Errorf("written: %v, kept: %v", written, kept)
			}
		}
		if waited := time.Since(began); waited != maxWrites*maxWait {
			t.Errorf("waited %s", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if writes != maxWrites || len(running(f)) != maxWrites+10 {
			t.Errorf("%d writes, %d calls", writes, len(running(f)))
		}
		f.End(nil, ids[:1])                    // while it is being written
		if size := f.Lose(ids[1]); size == 0 { // too
			t.Error("a call that is being written is unknown")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		f.write = writeAt
		if f.Retry() || f.unwritten != 0 {
			t.Errorf("%d bytes are not written", f.unwritten)
		}
		if got := keysOf(f); !slices.Equal(got, []string{"call 1"}) {
			t.Errorf("lost: %q", got)
		}
		began = time.Now()
		f.write = func(file *os.File, text []byte, at int64) error {
			time.Sleep(5 * time.Millisecond)
			return writeAt(file, text, at)
		}
		if written, _ := f.Start(ctx, NewCall(call(500, 10))); written || time.Since(began) != 0 {
			t.Error("it waited for a caller who has gone")
		}
		synctest.Wait()
		if written, _ := f.Start(t.Context(), NewCall(call(501, 10))); !written {
			t.Error("it was not written")
		}
		if waited := time.Since(began); waited != 5*time.Millisecond {
			t.Errorf("a write of 5 ms took %s", waited)
		}
		synctest.Wait()
		f.write = writeAt
		f.End(nil, append(ids, call(500, 0).ID, call(501, 0).ID))
		if f.slots.end() != 1 {
			t.Errorf("slots up to %d are taken", f.slots.end())
		}
	})
}

// TestFileThatFails: calls go on, the log says so once, and all is written when it
// works again.
func TestFileThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *File, log *strings.Builder) {
		early := call(1, 10)
		if written, kept := f.Start(t.Context(), NewCall(early)); written || !kept {
			t.Errorf("before Open it is written: %v, kept: %v", written, kept)
		}
		if f.Retry() {
			t.Error("not all is written")
		}
		full := errors.New("no space left on device")
		f.write = func(*os.File, []byte, int64) error { return full }
		var ids []trace.ID
		for n := range 20 {
			r := call(n+2, 3000)
			ids = append(ids, r.ID)
			if written, kept := f.Start(t.Context(), NewCall(r)); written || !kept {
				t.Errorf("written: %v, kept: %v", written, kept)
			}
		}
		f.End(nil, append(slices.Clone(ids[:5]), early.ID))
		if f.Retry(); !f.Retry() {
			t.Error("nothing is left to do")
		}
		if got := running(f); len(got) != 15 {
			t.Errorf("under way: %q", got)
		}
		f.write = writeAt
		if f.Retry() {
			t.Error("something is left to do")
		}
		if f.unwritten != 0 || len(f.dirty) != 0 {
			t.Errorf("%d bytes are not written, %v not cleared", f.unwritten, f.dirty)
		}
		if said := log.String(); strings.Count(said, "are not kept") != 1 || strings.Count(said, "being kept again") != 1 {
			t.Errorf("the log: %s", said)
		}
		f.End(nil, ids)
		if f.slots.end() != 1 {
			t.Errorf("slots up to %d are taken", f.slots.end())
		}
	})
}

// TestFileThatFailsByTurns: what fills the disk by turns does not fill the log.
func TestFileThatFailsByTurns(t *testing.T) {
	bubble(t, func(t *testing.T, f *File, log *strings.Builder) {
		if err := f.Open(); err != nil {
			t.Fatal(err)
		}
		said := func(failures, ends int) {
			t.Helper()
			if got := log.String(); strings.Count(got, "are not kept") != failures || strings.Count(got, "being kept again") != ends {
				t.Errorf("want %d failures and %d ends in the log: %s", failures, ends, got)
			}
		}
		turn := func() {
			f.write = func(*os.File, []byte, int64) error { return errors.New("no space left on device") }
			r := call(1, 10)
			f.Start(t.Context(), NewCall(r))
			f.write = writeAt
			f.Retry()
			f.End(nil, []trace.ID{r.ID})
		}
		for range 5 {
			turn()
		}
		said(1, 1)
		time.Sleep(tellAgain)
		turn()
		said(2, 2)
	})
}

// TestRoomIsBounded: in memory, where the file can't be opened.
func TestRoomIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, f *File, log *strings.Builder) {
		parent := filepath.Dir(f.path)
		f.path = filepath.Join(parent, "file", "a.db")
		if err := os.WriteFile(filepath.Join(parent, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		kept := 0
		for n := range 40 {
			r := call(n, 0)
			r.Messages = make([]byte, 1<<20)
			if _, is := f.Start(t.Context(), NewCall(r)); is {
				kept++
			}
		}
		if !f.Retry() || kept != 15 {
			t.Errorf("%d MiB are kept", kept)
		}
		if strings.Count(log.String(), "level=ERROR") != 1 {
			t.Errorf("the log: %s", log)
		}
		if got := f.Call(call(3, 0).ID); got == nil || len(got.Messages) < 1<<20 {
			t.Error("a call that is not written is not shown")
		}
	})
}

// FuzzScan: whatever a file has, its records are found or passed over.
func FuzzScan(f *testing.F) {
	store := filepath.Join(f.TempDir(), "a.db")
	file := opened(f, store)
	for n := range 2 {
		file.Start(context.Background(), NewCall(call(n, 900)))
	}
	die(f, file)
	text, err := os.ReadFile(pathOf(store, 0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:1500])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		store := filepath.Join(t.TempDir(), "a.db")
		if err := os.WriteFile(pathOf(store, 0), text, 0o600); err != nil {
			t.Fatal(err)
		}
		f := opened(t, store)
		keysOf(f)
		if f.Lost() != 0 {
			t.Errorf("%d are left", f.Lost())
		}
		f.Retry()
		mustStart(t, f, call(9, 10))
		f.End(nil, []trace.ID{call(9, 0).ID})
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What a start and its end cost.
func BenchmarkStart(b *testing.B) {
	for name, size := range map[string]int{"metadata": 0, "content": 4000} {
		b.Run(name, func(b *testing.B) {
			f := opened(b, filepath.Join(b.TempDir(), "a.db"))
			defer f.Close()
			r := call(1, size)
			r.Metadata, r.Inputs = []byte(`{"user":"ada","n":7}`), []byte(`{"locale":"nl"}`)
			b.ReportAllocs()
			for b.Loop() {
				f.Start(context.Background(), NewCall(r))
				f.End(nil, []trace.ID{r.ID})
			}
		})
	}
}

// TestFileIsMovedOrDeleted: the calls that are under way are in a new file, also
// those that began before, and no other process's file is removed.
func TestFileIsMovedOrDeleted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file can be neither moved nor deleted")
	}
	for name, take := range map[string]func(path string) error{
		"deleted":  os.Remove,
		"moved":    func(path string) error { return os.Rename(path, path+".away") },
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
	} {
		t.Run(name, func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "a.db")
			f := opened(t, store)
			var log strings.Builder
			f.logger = slog.New(slog.NewTextHandler(&log, nil))
			mustStart(t, f, call(1, 3000))
			mustStart(t, f, call(2, 10))
			mustStart(t, f, call(3, 10))
			f.Lose(call(3, 10).ID)
			if err := take(store + "-calls"); err != nil {
				t.Fatal(err)
			}
			mustStart(t, f, call(4, 10))
			if f.Retry() || strings.Count(log.String(), "moved or deleted") != 1 {
				t.Errorf("not all is written, or the log lacks why: %s", log.String())
			}
			mustStart(t, f, call(5, 10))
			if got := running(f); !slices.Equal(got, []string{"call 1", "call 2", "call 4", "call 5"}) {
				t.Errorf("under way: %q", got)
			}
			if r := f.Call(call(1, 3000).ID); r == nil || !bytes.Equal(r.Messages, call(1, 3000).Messages) {
				t.Error("a call lost its content")
			}
			f.End(nil, []trace.ID{call(2, 10).ID})
			die(t, f)
			next := opened(t, store)
			if got := keysOf(next); !slices.Equal(got, []string{"call 1", "call 4", "call 5"}) {
				t.Errorf("the next process finds %q", got) // call 3 is to be stored by the first
			}
			if got := keysOf(f); !slices.Equal(got, []string{"call 3"}) {
				t.Errorf("to be stored as interrupted: %q", got)
			}
			if away, err := os.ReadFile(store + "-calls.away"); name == "moved" && (err != nil || len(away) > 0) {
				t.Errorf("%d bytes are in the moved file: %v", len(away), err)
			}

			// The file of another process has its place.
			if err := os.Rename(store+"-calls", store+"-calls.away"); err != nil {
				t.Fatal(err)
			}
			other := opened(t, store)
			if err := next.Close(); err != nil {
				t.Fatal(err)
			}
			if private.Moved(other.file) {
				t.Error("the file of another process was removed")
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestSparseFile: a file that somebody made gigabytes long, of which the disk has nothing,
// is looked through in a moment, and the calls in it are found.
func TestSparseFile(t *testing.T) {
	store := filepath.Join(t.TempDir(), "a.db")
	f := opened(t, store)
	for n := range 5 {
		mustStart(t, f, call(n, 3000))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(store+"-calls", 8<<30); err != nil {
		t.Skipf("the file system has no sparse files: %v", err)
	}
	file, err := os.Open(store + "-calls")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// The bytes alone, for comparison. Whoever reads them first waits for the system to
	// make pages of them, so each is timed at its best.
	piece := make([]byte, 1<<20)
	read, took := time.Hour, time.Hour
	for range 5 {
		began := time.Now()
		for at := int64(0); at < MaxBytes; at += int64(len(piece)) {
			if _, err := file.ReadAt(piece, at); err != nil {
				t.Fatal(err)
			}
		}
		read = min(read, time.Since(began))
		began = time.Now()
		found, _, damaged, err := scan(file)
		took = min(took, time.Since(began))
		if err != nil || len(found) != 5 || damaged != 0 {
			t.Fatalf("%d calls, %d damaged, %v", len(found), damaged, err)
		}
	}
	if took > 8*read+20*time.Millisecond {
		t.Errorf("looked through in %s, and read in %s", took, read)
	}
	again := opened(t, store)
	if got := again.Interrupted(10, 1<<20); len(got) != 5 {
		t.Errorf("%d calls are interrupted", len(got))
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
