package limit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// mortal is a disk under a process that can die: nothing reaches the disk from then on,
// or only the first bytes.
type mortal struct {
	mu   sync.Mutex
	dead bool
	left int // bytes that still reach the disk
	err  error
}

func (m *mortal) disk() disk {
	return disk{
		write: func(file *os.File, text []byte, at int64) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.dead {
				text = text[:min(len(text), m.left)]
				m.left -= len(text)
			}
			if m.err != nil {
				text = text[:len(text)/2]
			}
			if _, err := file.WriteAt(text, at); err != nil {
				return err
			}
			return m.err
		},
		truncate: func(file *os.File, size int64) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.dead {
				return nil
			}
			return file.Truncate(size)
		},
		sync: func(*os.File) error { return nil },
	}
}

// die ends the process, but for so many bytes of what it writes.
func (m *mortal) die(left int) {
	m.mu.Lock()
	m.dead, m.left = true, left
	m.mu.Unlock()
}

// fail makes writes fail; with nil they don't.
func (m *mortal) fail(err error) {
	m.mu.Lock()
	m.err = err
	m.mu.Unlock()
}

// filed opens a limiter with a file.
func filed(t testing.TB, path string) *Limiter {
	t.Helper()
	l := Open(Options{Path: path})
	return l
}

// written waits, in a bubble of synctest, until the file has all that is counted.
func written() {
	time.Sleep(settleWait)
	synctest.Wait()
}

func mustClose(t testing.TB, l *Limiter) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

var (
	hourly = limitOf("hourly", Ceiling{Money, 1000, Window{time.Hour}}, Ceiling{Requests, 50, Month}, Ceiling{InFlight, 3, Window{}})
	daily  = limitOf("daily", Ceiling{Tokens, 1000, Window{24 * time.Hour}})
)

func TestStateOutlivesItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "folder", "limits")
		now := time.Now()
		asks := []Ask{{hourly, "ada"}, {daily, ""}}
		l := filed(t, path)
		mustReserve(t, l, now, Amounts{1, 500, 400}, asks...).Settle(now, Amounts{1, 300, 200})
		mustClose(t, l)

		disk := new(mortal)
		l = openOn(Options{Path: path}, disk.disk())
		if got := used(l, now, asks[0], 0) + " " + used(l, now, asks[0], 1) + " " + used(l, now, asks[1], 0); got != "200+0 1+0 300+0" {
			t.Error(got)
		}
		r := mustReserve(t, l, now, Amounts{1, 100, 70}, asks...)
		if !r.More(now, Amounts{0, 11, 7}) {
			t.Error("there is no room for more")
		}
		r.Return(Amounts{0, 1, 0})
		mustReserve(t, l, now, Amounts{1, 10, 10}, asks...).Settle(now, Amounts{1, 5, 5})
		written()
		disk.die(0)
		r.Settle(now, Amounts{})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}

		// What had not ended counts in full, and nothing stays set aside.
		for range 2 {
			l = filed(t, path)
			if got := used(l, now, asks[0], 0) + " " + used(l, now, asks[0], 1) + " " + used(l, now, asks[0], 2) + " " + used(l, now, asks[1], 0); got != "282+0 3+0 0+0 415+0" {
				t.Error(got)
			}
			if s := l.AppendStandings(nil, "w", now, asks[0])[0]; s.Crashed != 77 {
				t.Errorf("%+v", s)
			}
			if err := l.Err(); err != nil {
				t.Error(err)
			}
			mustClose(t, l)
		}
		l = filed(t, path)
		if s := l.Stats(); s.Crashed != 0 || s.Damaged != 0 || s.Subjects != 2 {
			t.Errorf("%+v: the crash is over", s)
		}
		// Windows that have ended are not written again.
		later := now.AddDate(0, 2, 0)
		time.Sleep(later.Sub(now))
		mustClose(t, l)
		l = filed(t, path)
		if s := l.Stats(); s.Subjects != 0 {
			t.Errorf("%+v", s)
		}
		mustClose(t, l)
	})
}

// A subject that was dropped and came again has what it counted last.
func TestSubjectThatCameAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits")
	now := time.Now()
	l := filed(t, path)
	for i := range 60 {
		ask := Ask{daily, fmt.Sprint("s", i)}
		mustReserve(t, l, now, Amounts{1, 0, 0}, ask).Settle(now, Amounts{1, 0, 0})
		b := l.book("w", "daily", false)
		shard := l.shard(b, ask.Subject)
		if a := b.accounts[shard][ask.Subject]; !l.drop(a, now.UnixNano()) {
			t.Fatal("it counts something")
		}
		mustReserve(t, l, now, Amounts{1, 5, 0}, ask).Settle(now, Amounts{1, 5, 0})
	}
	mustClose(t, l)
	l = filed(t, path)
	for i := range 60 {
		if got := used(l, now, Ask{daily, fmt.Sprint("s", i)}, 0); got != "5+0" {
			t.Errorf("s%d: %s", i, got)
		}
	}
	mustClose(t, l)
}

// load makes calls at random, one after the other, and returns how all subjects stand.
func load(t testing.TB, l *Limiter, random *rand.Rand, now time.Time, open *[]*Reservation) {
	t.Helper()
	asks := []Ask{{hourly, fmt.Sprint("s", random.IntN(5))}, {daily, fmt.Sprint("d", random.IntN(3))}}
	switch n := random.IntN(4); {
	case n < 2 && len(*open) < 8:
		r, refusal := l.Reserve("w", now, asks[:1+random.IntN(2)], Amounts{1, random.Int64N(20), random.Int64N(20)})
		if refusal == nil {
			*open = append(*open, r)
		}
	case len(*open) == 0:
	case n == 2:
		(*open)[random.IntN(len(*open))].More(now, Amounts{0, random.Int64N(9), random.Int64N(9)})
	default:
		i := random.IntN(len(*open))
		(*open)[i].Settle(now, Amounts{1, random.Int64N(20), random.Int64N(20)})
		*open = append((*open)[:i], (*open)[i+1:]...)
	}
}

// standings returns what each subject of load has used, once what is set aside counts.
func standings(l *Limiter, now time.Time) string {
	var all strings.Builder
	for _, limit := range []*Limit{hourly, daily} {
		for i := range 5 {
			subject := fmt.Sprint(map[*Limit]string{hourly: "s", daily: "d"}[limit], i)
			for _, s := range l.AppendStandings(nil, "w", now, Ask{limit, subject}) {
				if s.Ceiling.Measure != InFlight {
					fmt.Fprintf(&all, "%s %s %d: %d\n", limit.Name, subject, s.Ceiling.Measure, s.Used+s.Reserved)
				}
			}
		}
	}
	return all.String()
}

// A file that is cut anywhere has what was written before, and a byte that is damaged
// costs a record and no more.
func TestTornAndDamagedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		folder := t.TempDir()
		path := filepath.Join(folder, "limits")
		now := time.Now()
		l := filed(t, path)
		f := l.file
		type moment struct {
			size int64
			all  string
		}
		synctest.Wait()
		history := []moment{{f.ends[f.used], standings(l, now)}}
		var open []*Reservation
		for range 300 {
			load(t, l, random, now, &open)
			written()
			history = append(history, moment{f.ends[f.used], standings(l, now)})
		}
		text, err := os.ReadFile(f.name(f.used))
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, l)
		for range 60 {
			size := headerSize + frameSize + random.IntN(len(text)-headerSize-frameSize+1)
			want := history[0].all
			for _, m := range history {
				if m.size <= int64(size) {
					want = m.all
				}
			}
			cut := filepath.Join(t.TempDir(), "limits")
			if err := os.WriteFile(cut, text[:size], 0o600); err != nil {
				t.Fatal(err)
			}
			l := filed(t, cut)
			if got := standings(l, now); got != want {
				t.Errorf("cut at %d of %d:\n%s\nwant\n%s", size, len(text), got, want)
			}
			mustClose(t, l)
		}
		for range 60 {
			damaged := bytes.Clone(text)
			damaged[headerSize+frameSize+random.IntN(len(text)-headerSize-frameSize)] ^= 1 << random.IntN(8)
			at := filepath.Join(t.TempDir(), "limits")
			if err := os.WriteFile(at, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			l := filed(t, at)
			if s := l.Stats(); s.Damaged == 0 {
				t.Errorf("%+v: the damage was not noticed", s)
			}
			// All but the accounts of one record are right.
			differ := 0
			got, want := strings.Split(standings(l, now), "\n"), strings.Split(history[len(history)-1].all, "\n")
			for i := range want {
				if got[i] != want[i] {
					differ++
				}
			}
			if differ > 3 {
				t.Errorf("%d counters differ", differ)
			}
			mustClose(t, l)
		}
	})
}

// A file that grows is written anew, and meanwhile every change is in both.
func TestFileIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		now := time.Now()
		disk := new(mortal)
		l := openOn(Options{Path: path}, disk.disk())
		limit := limitOf("l", Ceiling{Tokens, 1 << 50, Month})
		var wait sync.WaitGroup
		const callers, calls = 8, 2500
		for n := range callers {
			wait.Go(func() {
				var r Reservation
				for i := range calls {
					ask := Ask{limit, fmt.Sprint("s", (i*callers+n)%997)}
					if refusal := l.ReserveInto(&r, "w", now, []Ask{ask}, Amounts{1, 3, 0}); refusal != nil {
						t.Errorf("%+v", refusal)
						return
					}
					r.Settle(now, Amounts{1, 2, 0})
				}
			})
		}
		wait.Wait()
		written()
		if generation := l.file.generation; generation < 2 {
			t.Errorf("generation %d: the file was never written anew", generation)
		}
		for i := range 2 {
			info, err := os.Stat(l.file.name(i))
			if err != nil || info.Size() > minGrowth+minGrowth/2 {
				t.Errorf("%v, %v", info.Size(), err)
			}
		}
		disk.die(0)
		mustClose(t, l)
		l = filed(t, path)
		total := int64(0)
		for _, s := range l.Subjects("w", now, limit, 2000) {
			total += s.Used
		}
		if total != callers*calls*2 {
			t.Errorf("%d tokens are left of %d", total, callers*calls*2)
		}
		if s := l.Stats(); s.Subjects != 997 || s.Crashed != 0 || s.Damaged != 0 {
			t.Errorf("%+v", s)
		}
		mustClose(t, l)
	})
}

// A disk that is full costs no call: the limiter counts in memory, says so, and writes
// all of it when there is room.
func TestDiskThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		now := time.Now()
		disk := new(mortal)
		var logged bytes.Buffer
		l := openOn(Options{Path: path, Logger: slog.New(slog.NewTextHandler(&logged, nil))}, disk.disk())
		ask := Ask{daily, "a"}
		spend := func(at time.Time) {
			mustReserve(t, l, at, Amounts{1, 10, 0}, ask).Settle(at, Amounts{1, 10, 0})
			synctest.Wait()
		}
		spend(now)
		if err := l.Err(); err != nil {
			t.Fatal(err)
		}
		disk.fail(syscall.ENOSPC)
		open := mustReserve(t, l, now, Amounts{1, 5, 0}, ask)
		spend(now)
		if err := l.Err(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v", err)
		}
		time.Sleep(5 * longestPause) // tries that fail
		spend(now)
		if time.Since(now) != 5*longestPause {
			t.Error("calls waited for a disk that is full")
		}
		disk.fail(nil)
		time.Sleep(longestPause)
		synctest.Wait()
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		open.Settle(now, Amounts{1, 4, 0})
		spend(now)
		written()
		disk.die(0)
		mustClose(t, l)
		again := filed(t, path)
		if got := used(again, now, ask, 0); got != "44+0" {
			t.Error(got)
		}
		mustClose(t, again)
		if got := strings.Count(logged.String(), "level=ERROR"); got != 1 || !strings.Contains(logged.String(), "kept again") {
			t.Errorf("%s", logged.String())
		}
	})
}

// A disk that hangs holds a call for 20 ms, and the next ones not at all.
func TestDiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits")
		now := time.Now()
		disk := new(mortal)
		hangs, gate := make(chan bool, 1), make(chan bool)
		d := disk.disk()
		write := d.write
		d.write = func(file *os.File, text []byte, at int64) error {
			select {
			case <-hangs:
				<-gate
			default:
			}
			return write(file, text, at)
		}
		l := openOn(Options{Path: path}, d)
		ceilings := []Ceiling{{Tokens, 1 << 50, Month}}
		for n := range 20 {
			ceilings = append(ceilings, Ceiling{Tokens, 1 << 50, Window{time.Duration(n+1) * time.Hour}})
		}
		ask := Ask{limitOf("l", ceilings...), "a"}
		hangs <- true
		r := mustReserve(t, l, now, Amounts{1, 10, 0}, ask)
		if waited := time.Since(now); waited != maxWait {
			t.Errorf("the call waited %s", waited)
		}
		if err := l.Err(); !errors.Is(err, errHangs) {
			t.Error(err)
		}
		r.Settle(now, Amounts{1, 10, 0})
		for range maxUnwritten / 400 {
			mustReserve(t, l, now, Amounts{1, 1, 0}, ask).Settle(now, Amounts{1, 1, 0})
		}
		if waited := time.Since(now); waited != maxWait {
			t.Errorf("all calls waited %s", waited)
		}
		if left := len(l.file.out); left > maxUnwritten+1024 {
			t.Errorf("%d bytes wait", left)
		}
		gate <- true
		time.Sleep(longestPause)
		synctest.Wait()
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		want := used(l, now, ask, 0)
		disk.die(0)
		mustClose(t, l)
		l = filed(t, path)
		if got := used(l, now, ask, 0); got != want || got != fmt.Sprintf("%d+0", 10+maxUnwritten/400) {
			t.Errorf("%s, want %s", got, want)
		}
		// One that never comes back does not hold the end of the process for long.
		mustClose(t, l)
		l = openOn(Options{Path: path}, d)
		hangs <- true
		mustReserve(t, l, now, Amounts{1, 10, 0}, ask)
		now = time.Now()
		if err := l.Close(); !errors.Is(err, errHangs) || time.Since(now) != closeWait {
			t.Errorf("%v after %s", err, time.Since(now))
		}
		gate <- true
		synctest.Wait()
	})
}
