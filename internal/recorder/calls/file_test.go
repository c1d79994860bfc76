package calls

import (
	"bytes"
	"context"
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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/internal/journaltest"
	"github.com/cadenza-gateway/cadenza/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is the start record of a call with so many bytes of content.
func call(n, size int) *trace.Record {
	id := trace.ID{1: byte(n >> 16), 2: byte(n >> 8), 3: byte(n), 15: 1}
	return &trace.Record{ID: id, Time: time.Unix(1790000000, 0), Workspace: "w", Kind: trace.KindEndpoint, Key: fmt.Sprint("call ", n),
		Messages: bytes.Repeat(fmt.Appendf(nil, "secret-%d.", n), 1+size/10)}
}

// mortal is a file on a disk whose process can die.
type mortal struct {
	*File
	disk *journaltest.Disk
}

// created returns a file next to a store; it is not open yet.
func created(store string, log io.Writer) mortal {
	f := mortal{New(store, slog.New(slog.NewTextHandler(log, nil))), new(journaltest.Disk)}
	f.options.Disk = f.disk.Options().Disk
	return f
}

// opened opens a file next to a store.
func opened(store string) mortal {
	f := created(store, io.Discard)
	f.Open()
	return f
}

// die ends the process of a file: its lock goes, and nothing else is done.
func (f mortal) die(t testing.TB) {
	t.Helper()
	f.disk.Die(0)
	if err := f.journal.Close(false); err != nil {
		t.Fatal(err)
	}
}

// mustStart starts a call, which is written.
func mustStart(t testing.TB, f mortal, r *trace.Record) {
	t.Helper()
	if written, kept := f.Start(t.Context(), NewCall(r)); !written || !kept {
		t.Fatalf("%s: written: %t, kept: %t", r.Key, written, kept)
	}
}

func mustClose(t testing.TB, f mortal) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// keysOf returns the keys of the calls that a file finds, and takes them for stored.
func keysOf(f mortal) (keys []string) {
	for f.Lost() > 0 {
		for _, r := range f.Interrupted(3, 1<<20) {
			keys = append(keys, r.Key)
		}
		f.Forget()
	}
	slices.Sort(keys)
	return keys
}

func running(f mortal) (keys []string) {
	f.Running(func(r *trace.Record, _ int64) bool {
		keys = append(keys, r.Key)
		return true
	})
	slices.Sort(keys)
	return keys
}

// content returns the content of the files of a store's first process.
func content(t testing.TB, store string) []byte {
	t.Helper()
	var all []byte
	for _, name := range []string{store + "-calls", store + "-calls-2"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return all
}

// bubble runs a test of a file in a time of its own.
func bubble(t *testing.T, test func(t *testing.T, f mortal, log *strings.Builder)) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f := created(filepath.Join(t.TempDir(), "a.db"), &log)
		test(t, f, &log)
		mustClose(t, f)
	})
}

// TestCallsOutliveTheirProcess runs calls of all sizes through a file, kills the
// process now and then, and compares the records that the next one finds with
// the calls that had no end. No byte of an ended call is left in the file.
func TestCallsOutliveTheirProcess(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) { outlive(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func outlive(t *testing.T, random *rand.Rand) {
	store := filepath.Join(t.TempDir(), "a.db")
	open := func() mortal {
		f := created(store, io.Discard)
		f.options.Growth = 1 + random.Int64N(200_000)
		f.Open()
		return f
	}
	f := open()
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
			for _, r := range under {
				if got := f.Call(r.ID); got == nil || !bytes.Equal(got.Messages, r.Messages) {
					t.Fatalf("%s is shown as %v", r.Key, got)
				}
			}
		case what == 19 && random.IntN(3) == 0:
			synctest.Wait() // until the ended calls are cleared
			f.die(t)
			f = open()
			if random.IntN(2) == 0 { // it dies before anything is stored
				f.die(t)
				f = open()
			}
			mustStart(t, f, call(1<<20, 100))
			f.End(nil, []trace.ID{call(1<<20, 0).ID})
			check(keysOf(f))
			clear(under)
		}
	}
	check(running(f))
	synctest.Wait()
	text := content(t, store)
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
	mustClose(t, f)
	if left, _ := filepath.Glob(store + "*"); len(left) > 0 {
		t.Errorf("after a clean end: %q", left)
	}
}

// TestCallsAreReadWhileFilesTakeTurns: a call that is under way is always shown, whole.
func TestCallsAreReadWhileFilesTakeTurns(t *testing.T) {
	f := created(filepath.Join(t.TempDir(), "a.db"), io.Discard)
	f.options.Growth = 1
	f.Open()
	long := call(0, 20_000)
	f.Start(t.Context(), NewCall(long))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if got := f.Call(long.ID); got == nil || !bytes.Equal(got.Messages, long.Messages) {
					t.Errorf("it is shown as %v", got)
					return
				}
				if keys := running(f); !slices.Contains(keys, long.Key) {
					t.Errorf("under way: %q", keys)
					return
				}
			}
		})
	}
	for n := range 2000 {
		r := call(n+1, 1000)
		f.Start(t.Context(), NewCall(r))
		f.End(nil, []trace.ID{r.ID})
	}
	close(done)
	readers.Wait()
	f.End(nil, []trace.ID{long.ID})
	mustClose(t, f)
}

// TestMemoryIsUsedAgain: the texts of large calls use the same memory one after another,
// and what the files have of a call is its own, also while they take turns.
func TestMemoryIsUsedAgain(t *testing.T) {
	f := created(filepath.Join(t.TempDir(), "a.db"), io.Discard)
	f.options.Growth = 1
	f.Open()
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for n := range 50 {
				r := call(1000*caller+n, 100_000)
				f.Start(t.Context(), NewCall(r))
				for range 3 {
					if got := f.Call(r.ID); got == nil || !bytes.Equal(got.Messages, r.Messages) {
						t.Errorf("%s is shown as %.100v", r.Key, got)
						return
					}
				}
				f.End(nil, []trace.ID{r.ID})
			}
		})
	}
	callers.Wait()
	mustClose(t, f)
	if n := f.journal.Damaged(); n > 0 {
		t.Errorf("%d places are damaged", n)
	}
}

// TestCallsGoOnAfterClose: the next process finds the calls without an end.
func TestCallsGoOnAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "a.db")
		f := opened(store)
		mustStart(t, f, call(1, 10))
		mustStart(t, f, call(2, 10))
		f.End(nil, []trace.ID{call(1, 0).ID})
		mustClose(t, f)
		f = opened(store)
		if got := keysOf(f); !slices.Equal(got, []string{"call 2"}) {
			t.Errorf("%q", got)
		}
		mustClose(t, f)
	})
}

// TestCallRead: a call is shown with its content, and a lost one is no longer under
// way.
func TestCallRead(t *testing.T) {
	bubble(t, func(t *testing.T, f mortal, _ *strings.Builder) {
		f.Open()
		r := call(1, 5000)
		mustStart(t, f, r)
		if f.unwritten != 0 {
			t.Errorf("%d bytes are in memory", f.unwritten)
		}
		if got := f.Call(r.ID); got == nil || !bytes.Equal(got.Messages, r.Messages) || got.State != trace.StateStarted {
			t.Errorf("%+v", got)
		}
		f.Running(func(got *trace.Record, _ int64) bool {
			if got.Key != r.Key || len(got.Messages) > 0 {
				t.Errorf("%+v", got)
			}
			return true
		})
		one := f.calls[r.ID]
		if f.Lose(r.ID) == 0 || f.Lose(r.ID) != 0 || f.Call(r.ID) != nil || f.look(one, one.size) != nil || f.Lost() != 1 {
			t.Error("a call that is lost is under way")
		}
		if got := f.Interrupted(10, 1<<20); len(got) != 1 || got[0].State != trace.StateInterrupted || !bytes.Equal(got[0].Messages, r.Messages) {
			t.Errorf("%+v", got)
		}
		f.Forget()
		synctest.Wait()
		if bytes.Contains(content(t, f.options.Path), []byte("secret")) {
			t.Error("the file still has a stored call")
		}
	})
}

// TestDamagedRecordsAreCleared: their content does not stay in the file.
func TestDamagedRecordsAreCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "a.db")
		f := opened(store)
		mustStart(t, f, call(1, 10))
		mustStart(t, f, call(2, 10))
		f.die(t)
		text, err := os.ReadFile(store + "-calls")
		if err != nil {
			t.Fatal(err)
		}
		text[bytes.Index(text, []byte("secret-1."))] ^= 0x55
		text = bytes.Replace(text, []byte("call 1"), []byte("secret"), 1)
		if err := os.WriteFile(store+"-calls", text, 0o600); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		f = created(store, &log)
		f.Open()
		if text := content(t, store); bytes.Contains(text, []byte("ecret-1.")) || !bytes.Contains(text, []byte("secret-2.")) {
			t.Errorf("the file has %q", text)
		}
		if got := keysOf(f); !slices.Equal(got, []string{"call 2"}) || !strings.Contains(log.String(), "damaged records were passed over") {
			t.Errorf("found %q; the log: %s", got, log.String())
		}
		mustClose(t, f)
	})
}

// TestSecondStartIsRefused: the first one of an id stays.
func TestSecondStartIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := opened(filepath.Join(t.TempDir(), "a.db"))
		mustStart(t, f, call(1, 10))
		if written, kept := f.Start(t.Context(), NewCall(call(1, 10))); written || kept {
			t.Errorf("%v, %v", written, kept)
		}
		f.End(nil, []trace.ID{call(1, 0).ID})
		mustClose(t, f)
	})
}

// TestProcessesHaveFilesOfTheirOwn: the calls of a living process are not
// touched, and the next process finds the calls of a dead one.
func TestProcessesHaveFilesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "a.db")
		one, two := opened(store), opened(store)
		mustStart(t, one, call(1, 10))
		mustStart(t, two, call(2, 10))
		three := opened(store)
		if one.Lost()+two.Lost()+three.Lost() != 0 {
			t.Error("calls of a process that lives are found")
		}
		two.die(t)
		four := opened(store) // takes the file of the dead one
		if got := keysOf(four); !slices.Equal(got, []string{"call 2"}) {
			t.Errorf("found %q", got)
		}
		one.die(t)
		mustStart(t, four, call(4, 10))
		mustStart(t, four, call(5, 10)) // and what was forgotten is overwritten
		four.die(t)
		five := opened(store) // takes the first, and finds the others
		if got := keysOf(five); !slices.Equal(got, []string{"call 1", "call 4", "call 5"}) {
			t.Errorf("found %q", got)
		}
		mustClose(t, three)
		mustClose(t, five)
		if left, _ := filepath.Glob(store + "*"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestFileOfAnotherFormat: it stays as it is, and start records are kept in memory.
func TestFileOfAnotherFormat(t *testing.T) {
	bubble(t, func(t *testing.T, f mortal, log *strings.Builder) {
		path, text := f.options.Path+"-calls", "CzF\x01 of another format"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.Open()
		if written, kept := f.Start(t.Context(), NewCall(call(1, 10))); written || !kept {
			t.Errorf("written: %t, kept: %t", written, kept)
		}
		if got := running(f); !slices.Equal(got, []string{"call 1"}) {
			t.Errorf("under way: %q", got)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text || !strings.Contains(log.String(), "another format") {
			t.Errorf("it became %q, %v; the log: %s", got, err, log.String())
		}
	})
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
	f := opened(store)
	defer mustClose(t, f)
	for _, name := range []string{target + "-calls", target + "-calls-2"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
}

// TestStartWaitsNoLongerThan20ms for a write that hangs, whose record is written all
// the same. Starts don't wait once it has hung for a second.
func TestStartWaitsNoLongerThan20ms(t *testing.T) {
	bubble(t, func(t *testing.T, f mortal, _ *strings.Builder) {
		f.Open()
		answer := f.disk.Hang()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		if written, _ := f.Start(ctx, NewCall(call(500, 10))); written || time.Since(began) != 0 {
			t.Error("it waits for a caller who has gone")
		}
		var ids []trace.ID
		for n := range 70 {
			r := call(n, 10)
			ids = append(ids, r.ID)
			if written, kept := f.Start(t.Context(), NewCall(r)); written || !kept {
				t.Errorf("written: %v, kept: %v", written, kept)
			}
		}
		if waited := time.Since(began); waited != 20*time.Millisecond+time.Second {
			t.Errorf("waited %s", waited)
		}
		if got := running(f); len(got) != 71 {
			t.Errorf("under way: %q", got)
		}
		f.End(nil, ids[:1])                    // while it is being written
		if size := f.Lose(ids[1]); size == 0 { // too
			t.Error("a call that is being written is unknown")
		}
		answer()
		synctest.Wait()
		if text := content(t, f.options.Path); bytes.Contains(text, []byte("secret-0.")) || !bytes.Contains(text, []byte("secret-69.")) {
			t.Errorf("the file has %q", text)
		}
		if got := keysOf(f); !slices.Equal(got, []string{"call 1"}) {
			t.Errorf("lost: %q", got)
		}
		mustStart(t, f, call(501, 10))
		f.End(nil, append(ids, call(500, 0).ID, call(501, 0).ID))
		if f.unwritten != 0 {
			t.Errorf("%d bytes are in memory", f.unwritten)
		}
	})
}

// TestTextsAreGivenUp once they can be read, also those of calls that begin while the next
// file is made, which is whole later. That file takes large texts through one buffer.
func TestTextsAreGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, f mortal, _ *strings.Builder) {
		turns := make(chan struct{}, 1)
		turns <- struct{}{}
		f.options.Growth = 1
		f.options.Disk.Sync = func(*os.File) error { <-turns; return nil }
		f.Open()
		var all []*trace.Record
		for n, size := range []int{20_000, 30_000, 10, 25_000} {
			all = append(all, call(n, size))
			mustStart(t, f, all[n])
			synctest.Wait()
		}
		if f.unwritten == 0 {
			t.Error("no file is made")
		}
		close(turns)
		synctest.Wait()
		if f.unwritten != 0 {
			t.Errorf("%d bytes are in memory", f.unwritten)
		}
		for range 2 {
			if err := f.journal.Rewrite(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range all {
			if got := f.Call(r.ID); got == nil || !bytes.Equal(got.Messages, r.Messages) {
				t.Errorf("%s is shown as %v", r.Key, got)
			}
			f.End(nil, []trace.ID{r.ID})
		}
	})
}

// TestFileThatFails: calls go on, the log says so once, and all is written when it
// works again.
func TestFileThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, f mortal, log *strings.Builder) {
		early := call(1, 10)
		if written, kept := f.Start(t.Context(), NewCall(early)); written || !kept {
			t.Errorf("before Open it is written: %v, kept: %v", written, kept)
		}
		f.Open()
		if !bytes.Contains(content(t, f.options.Path), []byte("secret-1.")) {
			t.Error("what began before Open is not written")
		}
		f.disk.Fail(errors.New("no space left on device"))
		var ids []trace.ID
		for n := range 20 {
			r := call(n+2, 3000)
			ids = append(ids, r.ID)
			if written, kept := f.Start(t.Context(), NewCall(r)); written || !kept {
				t.Errorf("written: %v, kept: %v", written, kept)
			}
		}
		f.End(nil, append(slices.Clone(ids[:5]), early.ID))
		time.Sleep(time.Minute)
		if got := running(f); len(got) != 15 {
			t.Errorf("under way: %q", got)
		}
		f.disk.Fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		text := content(t, f.options.Path)
		for n := range 20 {
			if got := bytes.Contains(text, fmt.Appendf(nil, "secret-%d.", n+2)); got != (n >= 5) {
				t.Errorf("call %d is in the file: %t", n+2, got)
			}
		}
		if said := log.String(); strings.Count(said, "are not kept") != 1 || strings.Count(said, "being kept again") != 1 {
			t.Errorf("the log: %s", said)
		}
		f.End(nil, ids)
	})
}

// TestRoomIsBounded: memory is bounded if the file can't be opened.
func TestRoomIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, f mortal, log *strings.Builder) {
		parent := filepath.Dir(f.options.Path)
		f.options.Path = filepath.Join(parent, "file", "a.db")
		if err := os.WriteFile(filepath.Join(parent, "file"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		f.Open()
		kept := 0
		for n := range 40 {
			r := call(n, 0)
			r.Messages = make([]byte, 1<<20)
			if _, is := f.Start(t.Context(), NewCall(r)); is {
				kept++
			}
		}
		if kept != 15 {
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

// TestCloseRemovesWhatCannotBeCleared: the ends of these calls are stored.
func TestCloseRemovesWhatCannotBeCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "a.db")
		f := opened(store)
		mustStart(t, f, call(1, 10))
		f.disk.Fail(errors.New("no space left on device"))
		f.End(nil, []trace.ID{call(1, 0).ID})
		mustClose(t, f)
		if left, _ := filepath.Glob(store + "*"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TestFileIsMovedOrDeleted: the calls that are under way are in a new file, also
// the ones that began before.
func TestFileIsMovedOrDeleted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file can be neither moved nor deleted")
	}
	for name, take := range map[string]func(path string) error{
		"deleted": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".away") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := filepath.Join(t.TempDir(), "a.db")
				var log strings.Builder
				f := created(store, &log)
				f.Open()
				mustStart(t, f, call(1, 3000))
				mustStart(t, f, call(2, 10))
				mustStart(t, f, call(3, 10))
				f.Lose(call(3, 10).ID)
				if err := errors.Join(take(store+"-calls"), take(store+"-calls-2")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				f.Start(t.Context(), NewCall(call(4, 10)))
				synctest.Wait()
				if strings.Count(log.String(), "moved or deleted") != 1 {
					t.Errorf("the log: %s", log.String())
				}
				mustStart(t, f, call(5, 10))
				if got := running(f); !slices.Equal(got, []string{"call 1", "call 2", "call 4", "call 5"}) {
					t.Errorf("under way: %q", got)
				}
				if r := f.Call(call(1, 3000).ID); r == nil || !bytes.Equal(r.Messages, call(1, 3000).Messages) {
					t.Error("a call lost its content")
				}
				f.End(nil, []trace.ID{call(2, 10).ID})
				synctest.Wait()
				f.disk.Die(0)
				mustClose(t, f)
				next := opened(store)
				if got := keysOf(next); !slices.Equal(got, []string{"call 1", "call 3", "call 4", "call 5"}) {
					t.Errorf("the next process finds %q", got)
				}
				mustClose(t, next)
			})
		})
	}
}

// BenchmarkStart measures the cost of a start and its end.
func BenchmarkStart(b *testing.B) {
	for name, size := range map[string]int{"metadata": 0, "content": 4000} {
		b.Run(name, func(b *testing.B) {
			f := New(filepath.Join(b.TempDir(), "a.db"), slog.New(slog.DiscardHandler))
			f.Open()
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
