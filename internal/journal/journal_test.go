package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
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

	"github.com/cadenza-gateway/cadenza/internal/journal"
	"github.com/cadenza-gateway/cadenza/internal/journaltest"
	"github.com/cadenza-gateway/cadenza/internal/private"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keeper keeps values by name, a record each: "name=value".
type keeper struct {
	*journal.Journal
	log   *log
	alive bool // the last Restore was of a process that is

	mu     sync.Mutex
	values map[string]string
	places map[string]journal.Place // of what Snapshot has appended
}

// log is a log that may be written and read at the same time.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *log) count(text string) int {
	return strings.Count(l.String(), text)
}

func (k *keeper) Restore(records iter.Seq[[]byte], alive bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.alive = alive
	for record := range records {
		name, value, _ := strings.Cut(string(record), "=")
		k.values[name] = value
	}
}

// Snapshot has a part for each value.
func (k *keeper) Snapshot(j *journal.Journal, part int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	names := slices.Sorted(maps.Keys(k.values))
	if part < len(names) {
		k.places[names[part]] = j.Append([]byte(names[part] + "=" + k.values[names[part]]))
	}
	return part+1 < len(names)
}

// set appends a value, and returns its place.
func (k *keeper) set(name, value string) journal.Place {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.values[name] = value
	return k.Append([]byte(name + "=" + value))
}

// all returns the values, in the order of their names.
func (k *keeper) all() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(k.values)) {
		fmt.Fprintf(&text, "%s=%s ", name, k.values[name])
	}
	return text.String()
}

func opened(path string, o journal.Options) *keeper {
	k := &keeper{log: new(log), values: make(map[string]string), places: make(map[string]journal.Place)}
	o.Path, o.Mark, o.State = path, [4]byte{'T', 's', 't', 1}, k
	o.Logger = slog.New(slog.NewTextHandler(k.log, nil))
	o.Failed, o.Mended = "not kept", "kept again"
	k.Journal = journal.Open(o)
	<-k.Loaded()
	return k
}

func mustClose(t testing.TB, k *keeper) {
	t.Helper()
	if err := k.Close(false); err != nil {
		t.Error(err)
	}
}

func want(t testing.TB, k *keeper, values string) {
	t.Helper()
	if got := k.all(); got != values {
		t.Errorf("it has %q, want %q", got, values)
	}
}

// read returns the content of both files of a path.
func read(t testing.TB, path string) []byte {
	t.Helper()
	var all []byte
	for _, name := range []string{path, path + "-2"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return all
}

// TestWhatWasWrittenSurvives: a record that a caller waited for survives any death of
// the process, at any byte that it writes: in use, while the other file replaces the
// first, and at the beginning.
func TestWhatWasWrittenSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(80) {
			random := rand.New(rand.NewPCG(seed, 1))
			path := filepath.Join(t.TempDir(), "a")
			values := make(map[string][2]string) // the last that was written, and the one after it
			for process := range 6 {
				disk := new(journaltest.Disk)
				o := disk.Options()
				o.Growth = 1 + random.Int64N(2000)
				dead := random.IntN(3) == 0
				if dead {
					disk.Die(random.IntN(300)) // while it begins
				}
				k := opened(path, o)
				for name, value := range values {
					got := k.values[name]
					if got != value[0] && got != value[1] {
						t.Fatalf("seed %d, process %d: %s is %q, want one of %q", seed, process, name, got, value)
					}
					values[name] = [2]string{got, got}
				}
				dying := random.IntN(150)
				for n := 0; n < 100 && !dead; n++ {
					name := fmt.Sprint(random.IntN(8))
					value := fmt.Sprint(process, ".", n, strings.Repeat("x", random.IntN(100)))
					if n == dying {
						dead = true
						disk.Die(random.IntN(400))
						k.set(name, value)
						k.Wait(nil)
						values[name] = [2]string{values[name][0], value}
						continue
					}
					k.set(name, value)
					if !k.Wait(nil) {
						t.Fatalf("seed %d: not written: %v", seed, k.Err())
					}
					values[name] = [2]string{value, value}
				}
				if !dead {
					disk.Die(random.IntN(200))
				}
				mustClose(t, k)
			}
		}
	})
}

// A record that is cut or damaged costs itself alone, whichever byte it is.
func TestEveryCutAndEveryByte(t *testing.T) {
	names := []string{"a", "b", "c"}
	places := make(map[string]int)
	var text []byte
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		k := opened(path, journal.Options{})
		for _, name := range names {
			places[name] = len(read(t, path))
			k.set(name, strings.Repeat(name, 20))
			if !k.Wait(nil) {
				t.Fatal(k.Err())
			}
		}
		text = read(t, path)
		mustClose(t, k)
	})
	check := func(what string, text []byte, lost func(name string) bool, damaged int) {
		t.Helper()
		at := filepath.Join(t.TempDir(), "b")
		if err := os.WriteFile(at, text, 0o600); err != nil {
			t.Fatal(err)
		}
		k := opened(at, new(journaltest.Disk).Options())
		for _, name := range names {
			if got := k.values[name]; (got != strings.Repeat(name, 20)) != lost(name) || lost(name) && got != "" {
				t.Errorf("%s: %s is %q", what, name, got)
			}
		}
		if got := k.Damaged(); got != damaged {
			t.Errorf("%s: %d are damaged, want %d", what, got, damaged)
		}
		mustClose(t, k)
	}
	end := func(name string) int { return places[name] + 16 + len(name) + 1 + 20 }
	whole := func(size int) bool {
		return size == 0 || size == places["a"] || slices.Contains([]int{end("a"), end("b"), end("c")}, size)
	}
	for size := range len(text) + 1 {
		damaged := 1
		if whole(size) {
			damaged = 0
		}
		check(fmt.Sprint("cut at ", size), text[:size], func(name string) bool { return size < end(name) }, damaged)
	}
	for at := places["a"]; at < len(text); at++ {
		changed := bytes.Clone(text)
		changed[at] ^= 0x55
		check(fmt.Sprint("byte ", at), changed, func(name string) bool { return places[name] <= at && at < end(name) }, 1)
	}
}

// TestNoSeedHidesACut: a record that is cut after its first byte is damaged in each file,
// as no seed begins with the zero of a cleared record.
func TestNoSeedHidesACut(t *testing.T) {
	dir := t.TempDir()
	for n := range 1200 {
		path := filepath.Join(dir, fmt.Sprint(n))
		k := opened(path, new(journaltest.Disk).Options())
		k.set("a", "1")
		k.Wait(nil)
		mustClose(t, k)
		if text := read(t, path); text[len(text)-len("a=1")-16] == 0 {
			t.Fatalf("file %d: a frame begins with a zero", n)
		}
	}
}

// TestContentIsNoRecord: content that looks like a record is none, also if the record
// around it is damaged: its writer does not know the seed.
func TestContentIsNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		k := opened(path, journal.Options{})
		k.set("known", "yes")
		k.Wait(nil)
		text := read(t, path)
		frame := text[len(text)-len("known=yes")-16:]
		mustClose(t, k)
		k = opened(path, journal.Options{}) // of another seed
		k.set("forged", string(bytes.Replace(frame, []byte("known=yes"), []byte("known=no!"), 1)))
		k.Wait(nil)
		text = read(t, path)
		mustClose(t, k)
		text[bytes.LastIndex(text, []byte("forged"))] ^= 1
		again := filepath.Join(t.TempDir(), "b")
		if err := os.WriteFile(again, text, 0o600); err != nil {
			t.Fatal(err)
		}
		k = opened(again, journal.Options{})
		want(t, k, "known=yes ")
		mustClose(t, k)
	})
}

// TestFileOfAnotherFormat: a file of another format or of another program stays
// as it is.
func TestFileOfAnotherFormat(t *testing.T) {
	for _, text := range []string{"Tst\x02 of a later format", "SQLite format 3\x00", "Tst\x00"} {
		for i, suffix := range []string{"", "-2"} {
			path := filepath.Join(t.TempDir(), "a")
			if err := os.WriteFile(path+suffix, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			k := opened(path, journal.Options{Processes: i * 4})
			k.set("a", "1")
			if err := k.Err(); k.Wait(nil) || err == nil || !strings.Contains(err.Error(), path+suffix) || !strings.Contains(err.Error(), "another format") {
				t.Errorf("%v", err)
			}
			mustClose(t, k)
			if got, err := os.ReadFile(path + suffix); err != nil || string(got) != text {
				t.Errorf("it became %q, %v", got, err)
			}
		}
	}
}

// TestFilesTakeTurns: a file replaces the other one when that has grown or is mostly
// cleared, and has only the records that the state keeps.
func TestFilesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		k := opened(path, journal.Options{Growth: 4000})
		for n := range 500 {
			k.set(fmt.Sprint("name", n%10), fmt.Sprint("value", n))
			k.Wait(nil)
			synctest.Wait()
			if size := len(read(t, path)); size > 6000 {
				t.Fatalf("the files have %d bytes", size)
			}
		}
		k.set("large", strings.Repeat("x", 100_000))
		if err := k.Rewrite(t.Context()); err != nil {
			t.Fatal(err)
		}
		k.mu.Lock()
		delete(k.values, "large")
		k.mu.Unlock()
		k.Clear(len("large=")+100_000, k.places["large"])
		synctest.Wait()
		if size := len(read(t, path)); size > 6000 {
			t.Errorf("the files have %d bytes after what was large is cleared", size)
		}
		mustClose(t, k)
	})
}

// TestClear: a cleared record is gone from the file, and can be read until
// then.
func TestClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		k := opened(path, journal.Options{})
		defer mustClose(t, k)
		first, second := k.set("first", "secret"), k.set("second", "other")
		k.Wait(nil)
		text := make([]byte, len("first=sec"))
		if !k.Has(first) || !k.Read(first, text) || string(text) != "first=sec" {
			t.Errorf("%q", text)
		}
		k.Clear(len("first=secret"), first, journal.Place{})
		k.Wait(nil)
		k.Wait(nil) // the first call returns before anything is cleared
		if text := read(t, path); bytes.Contains(text, []byte("secret")) || !bytes.Contains(text, []byte("other")) {
			t.Errorf("the file has %q", text)
		}
		if err := k.Rewrite(t.Context()); err != nil {
			t.Fatal(err)
		}
		if k.Has(second) || k.Read(second, text) || k.Read(journal.Place{}, text) {
			t.Error("a place in a file that was begun anew is read")
		}
	})
}

// TestRewrite: Rewrite returns when no earlier record is left in the files.
func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	disk := new(journaltest.Disk)
	k := opened(path, disk.Options())
	k.set("name", "secret")
	k.Wait(nil)
	k.set("name", "other")
	if err := k.Rewrite(t.Context()); err != nil || bytes.Contains(read(t, path), []byte("secret")) {
		t.Errorf("%v, %q", err, read(t, path))
	}
	answer := disk.Hang()
	k.set("name", "third")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Rewrite(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	answer()
	mustClose(t, k)
	if err := k.Rewrite(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// TestRewritesInARow: a rewrite that is asked for while another one syncs its file is made,
// though nothing is appended.
func TestRewritesInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		syncs := make(chan struct{}, 10)
		syncs <- struct{}{} // of the file that Open begins
		o := new(journaltest.Disk).Options()
		o.Disk.Sync = func(*os.File) error { <-syncs; return nil }
		k := opened(filepath.Join(t.TempDir(), "a"), o)
		began := time.Now()
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				if err := k.Rewrite(t.Context()); err != nil || time.Since(began) != 0 {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
			synctest.Wait()
		}
		close(syncs)
		wait.Wait()
		mustClose(t, k)
	})
}

// TestDiskThatHangs: no caller waits longer than 20 ms for a disk that hangs, and none
// does once it has hung for a second. All records are written when the disk answers.
func TestDiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		disk := new(journaltest.Disk)
		k := opened(path, disk.Options())
		answer := disk.Hang()
		began := time.Now()
		gone := make(chan struct{})
		close(gone)
		k.set("gone", "1")
		if k.Wait(gone) || time.Since(began) != 0 {
			t.Error("it waits for a caller who has gone")
		}
		k.set("a", "1")
		if k.Wait(nil) || time.Since(began) != 20*time.Millisecond {
			t.Errorf("it waits %s", time.Since(began))
		}
		for range 100 {
			k.set("b", strings.Repeat("x", 100_000)) // 10 MB, of which 4 MiB are kept in memory
			if k.Wait(nil) {
				t.Fatal("a disk that hangs has a record")
			}
		}
		if waited := time.Since(began); waited != 20*time.Millisecond+time.Second {
			t.Errorf("callers wait %s", waited)
		}
		if err := k.Err(); !errors.Is(err, journal.ErrHangs) || !strings.Contains(err.Error(), path) {
			t.Error(err)
		}
		answer()
		time.Sleep(2 * time.Second)
		k.set("c", "1")
		if !k.Wait(nil) || k.Err() != nil {
			t.Error(k.Err())
		}
		values := k.all()
		disk.Die(0)
		mustClose(t, k)
		k = opened(path, disk.Options())
		want(t, k, values)
		mustClose(t, k)

		disk = new(journaltest.Disk)
		k = opened(path, disk.Options())
		answer = disk.Hang()
		k.set("d", "1")
		began = time.Now()
		if err := k.Close(false); !errors.Is(err, journal.ErrHangs) || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		answer()
		synctest.Wait()
	})
}

// TestDiskThatIsFull: a full disk delays no caller. The log has the failure once,
// and the recovery.
func TestDiskThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		disk, full := new(journaltest.Disk), errors.New("no space left on device")
		k := opened(path, disk.Options())
		began := time.Now()
		disk.Fail(full)
		for n := range 10 {
			k.set("a", fmt.Sprint(n))
			if k.Wait(nil) || !errors.Is(k.Err(), full) {
				t.Errorf("written, %v", k.Err())
			}
		}
		if time.Since(began) != 0 {
			t.Errorf("it waits %s", time.Since(began))
		}
		time.Sleep(time.Minute) // it fails again and again
		disk.Fail(nil)
		time.Sleep(16 * time.Second)
		if k.Err() != nil || k.log.count("not kept") != 1 || k.log.count("kept again") != 1 {
			t.Errorf("%v; %s", k.Err(), k.log)
		}
		disk.Die(0)
		mustClose(t, k)
		k = opened(path, journal.Options{})
		want(t, k, "a=9 ")
		mustClose(t, k)
	})
}

// A disk that fails by turns does not fill the log.
func TestDiskThatFailsByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(journaltest.Disk)
		k := opened(filepath.Join(t.TempDir(), "a"), disk.Options())
		turn := func() {
			disk.Fail(errors.New("no space left on device"))
			k.set("a", "1")
			k.Wait(nil)
			disk.Fail(nil)
			time.Sleep(2 * time.Second)
		}
		for range 5 {
			turn()
		}
		if k.log.count("not kept") != 1 || k.log.count("kept again") != 1 {
			t.Errorf("%s", k.log)
		}
		time.Sleep(time.Minute)
		if turn(); k.log.count("not kept") != 2 || k.log.count("kept again") != 2 {
			t.Errorf("%s", k.log)
		}
		mustClose(t, k)
	})
}

// Much text is written at once, and a record for which Soon is called waits 10 ms.
func TestSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		k := opened(path, journal.Options{})
		defer mustClose(t, k)
		has := func(text string) bool {
			synctest.Wait()
			return bytes.Contains(read(t, path), []byte(text))
		}
		k.set("a", "first")
		k.Soon()
		if time.Sleep(10*time.Millisecond - 1); has("first") {
			t.Error("it is written too soon")
		}
		if time.Sleep(time.Nanosecond); !has("first") {
			t.Error("it is not written")
		}
		k.set("a", "second")
		if k.Flush(); !has("second") {
			t.Error("it is not flushed")
		}
		for range 3 {
			k.set("a", "third"+strings.Repeat("x", 40_000))
		}
		if !has("third") {
			t.Error("much is not written")
		}
	})
}

// TestTwoProcesses: the second process has the first one's records so far, and all of
// them once that has ended.
func TestTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		first := opened(path, journal.Options{})
		first.set("a", "1")
		first.Wait(nil)
		second := opened(path, journal.Options{})
		want(t, second, "a=1 ")
		if !second.alive || !errors.Is(second.Err(), private.ErrLocked) {
			t.Errorf("alive: %t, %v", second.alive, second.Err())
		}
		first.set("a", "2")
		mustClose(t, first)
		time.Sleep(16 * time.Second)
		want(t, second, "a=2 ")
		if second.alive || second.Err() != nil {
			t.Errorf("alive: %t, %v", second.alive, second.Err())
		}
		mustClose(t, second)
	})
}

// Processes with files of their own restore those of dead ones.
func TestManyProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	many := journal.Options{Processes: 4}
	one, two, three := opened(path, many), opened(path, many), opened(path, many)
	one.set("one", "1")
	two.set("two", "2")
	three.set("three", "3")
	mustClose(t, two)
	mustClose(t, three)
	four := opened(path, many)
	want(t, four, "three=3 two=2 ")
	if left, _ := filepath.Glob(path + "*"); len(left) != 4 {
		t.Errorf("left: %q", left)
	}
	if err := errors.Join(one.Close(true), four.Close(true)); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// TestFilesThatAreMovedOrDeleted: files that were moved, deleted, replaced or emptied
// are made again, with all records that the state keeps; open files can be read until
// then.
func TestFilesThatAreMovedOrDeleted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file can be neither moved nor deleted")
	}
	for name, take := range map[string]func(path string) error{
		"deleted":  os.Remove,
		"moved":    func(path string) error { return os.Rename(path, path+".away") },
		"replaced": func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
		"emptied":  func(path string) error { return os.Truncate(path, 0) },
	} {
		for _, both := range []bool{false, true} {
			t.Run(fmt.Sprint(name, both), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "a")
					k := opened(path, journal.Options{})
					place := k.set("a", "1")
					k.Wait(nil)
					for _, file := range []string{path, path + "-2"} {
						info, err := os.Stat(file)
						if err != nil {
							t.Fatal(err)
						}
						if info.Size() > 0 || both {
							if err := take(file); err != nil {
								t.Fatal(err)
							}
						}
					}
					if text := make([]byte, 3); name != "emptied" && (!k.Read(place, text) || string(text) != "a=1") {
						t.Errorf("%q is read", text)
					}
					time.Sleep(time.Second)
					k.set("b", "2")
					k.Wait(nil)
					synctest.Wait()
					k.set("c", "3")
					if !k.Wait(nil) || k.log.count("not kept") != 1 || k.log.count("kept again") != 1 {
						t.Errorf("%v; %s", k.Err(), k.log)
					}
					if err := k.Rewrite(t.Context()); err != nil {
						t.Error(err)
					}
					mustClose(t, k)
					k = opened(path, journal.Options{})
					want(t, k, "a=1 b=2 c=3 ")
					mustClose(t, k)
				})
			})
		}
	}
}

// A file that somebody made gigabytes long is read in a moment, with little memory.
func TestSparseFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	k := opened(path, journal.Options{})
	k.set("a", "1")
	mustClose(t, k)
	used := path
	if info, err := os.Stat(used); err != nil || info.Size() == 0 {
		used += "-2"
	}
	if err := os.Truncate(used, 64<<30); err != nil {
		t.Skipf("the file system has no sparse files: %v", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	k = opened(path, journal.Options{})
	runtime.ReadMemStats(&after)
	want(t, k, "a=1 ")
	if took := after.TotalAlloc - before.TotalAlloc; took > 10<<20 || k.Damaged() != 0 {
		t.Errorf("%d bytes, %d damaged", took, k.Damaged())
	}
	mustClose(t, k)
}

// FuzzRestore reads any files: the written records are restored, and other bytes are
// passed over.
func FuzzRestore(f *testing.F) {
	path := filepath.Join(f.TempDir(), "a")
	k := opened(path, journal.Options{})
	k.set("a", "1")
	k.set("b", "2")
	mustClose(f, k)
	text := read(f, path)
	f.Add(text, []byte{})
	f.Add(text[:40], text)
	f.Add([]byte("Tst\x01"), text[:30])
	f.Fuzz(func(t *testing.T, one, two []byte) {
		synctest.Test(t, func(t *testing.T) { // in which Wait is as long as it takes
			path := filepath.Join(t.TempDir(), "a")
			if err := errors.Join(os.WriteFile(path, one, 0o600), os.WriteFile(path+"-2", two, 0o600)); err != nil {
				t.Fatal(err)
			}
			k := opened(path, new(journaltest.Disk).Options())
			k.set("c", "3")
			written := k.Wait(nil)
			values := k.all()
			mustClose(t, k)
			if !written {
				if got := append(bytes.Clone(one), two...); !bytes.Equal(read(t, path), got) {
					t.Error("a file that is not to be used has changed")
				}
				return
			}
			k = opened(path, new(journaltest.Disk).Options())
			want(t, k, values)
			mustClose(t, k)
		})
	})
}

// BenchmarkAppend is a caller that waits for each record by itself.
func BenchmarkAppend(b *testing.B) {
	k := opened(filepath.Join(b.TempDir(), "a"), journal.Options{})
	defer mustClose(b, k)
	record := bytes.Repeat([]byte("x"), 100)
	b.ReportAllocs()
	for b.Loop() {
		k.Append(record)
		k.Wait(nil)
	}
}
