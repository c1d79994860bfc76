package limit

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/journaltest"
)

// TestMemoryOfSubjects fills a limiter with invented subjects, short and long, and compares
// their memory with the counted bytes.
func TestMemoryOfSubjects(t *testing.T) {
	if raceEnabled {
		t.Skip("counts bytes")
	}
	heap := func() int64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	three := []Ceiling{{Requests, 1 << 40, Window{time.Hour}}, {Tokens, 1 << 40, Window{time.Hour}}, {Money, 1 << 40, Month}}
	for name, test := range map[string]struct {
		ceilings []Ceiling
		length   int
	}{
		"a ceiling, short":      {three[:1], 8},
		"a ceiling, long":       {three[:1], 250},
		"three ceilings, long":  {three, 250},
		"three ceilings, short": {three, 8},
	} {
		t.Run(name, func(t *testing.T) {
			before := heap()
			l := opened(t, Options{MaxMemory: 16 << 20})
			limit := limitOf("l", test.ceilings...)
			n := 0
			for ; l.Stats().Shared == 0; n++ {
				subject := fmt.Sprintf("%0*d", test.length, n)
				mustReserve(t, l, noon, Amounts{1, 1, 1}, Ask{limit, subject}).Settle(noon, Amounts{1, 1, 1})
			}
			took, counted := heap()-before, l.bytes.Load()
			t.Logf("%d subjects: %d bytes each, counted as %d", n, took/int64(n), counted/int64(n))
			if counted > 17<<20 || counted < 12<<20 || float64(took) > 1.2*float64(counted) || float64(took) < 0.6*float64(counted) {
				t.Errorf("%d bytes of %d subjects, counted as %d", took, n, counted)
			}
			// Dropped subjects free the bytes counted for them.
			later := noon.Add(366 * 24 * time.Hour)
			for i := range 20_000 {
				mustReserve(t, l, later.Add(time.Duration(i)*time.Hour), Amounts{1, 1, 1}, Ask{limit, fmt.Sprint("later", i)}).Settle(later, Amounts{1, 1, 1})
			}
			runtime.KeepAlive(l)
			if left := l.bytes.Load(); left > counted/2 {
				t.Errorf("%d bytes are counted when the windows have ended", left)
			}
		})
	}
}

// TestUsedSubjectsStay checks that new subjects share one counter when the memory is full,
// and that subjects with use keep their own.
func TestUsedSubjectsStay(t *testing.T) {
	l := opened(t, Options{MaxMemory: 1 << 20})
	limit := limitOf("l", Ceiling{Requests, 2, Window{time.Hour}})
	ask := Ask{limit, "the customer with a name that is longer than what is kept of it as it is"}
	mustReserve(t, l, noon, Amounts{1, 0, 0}, ask).Settle(noon, Amounts{1, 0, 0})
	for i := range 50_000 {
		if r, _ := l.Reserve("w", noon, []Ask{{limit, fmt.Sprint("made up ", i)}}, Amounts{1, 0, 0}); r != nil {
			r.Settle(noon, Amounts{1, 0, 0})
		}
	}
	if s := l.AppendStandings(nil, "w", noon, ask); len(s) != 1 || s[0].Used != 1 {
		t.Errorf("%+v", s)
	}
	if s := l.Stats(); s.Subjects > 5000 || s.Shared < 40_000 {
		t.Errorf("%+v", s)
	}
	if found := l.Subjects("w", noon, limit, 9); len(found) == 0 {
		t.Error("no subject is shown")
	}
}

// TestReservationsWaitForTheFile checks that a call waits until the counters have been
// read, and is refused after a second.
func TestReservationsWaitForTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no disk is slow
		now := time.Now()
		path := filepath.Join(t.TempDir(), "limits")
		limit := limitOf("l", Ceiling{Requests, 2, Month})
		ask := Ask{limit, strings.Repeat("long", 50)}
		l := Open(Options{Path: path})
		mustReserve(t, l, now, Amounts{1, 0, 0}, ask).Settle(now, Amounts{1, 0, 0})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = Open(Options{Path: path, Background: true})
		defer l.Close()
		mustReserve(t, l, now, Amounts{1, 0, 0}, ask).Settle(now, Amounts{1, 0, 0})
		if refusal := mustRefuse(t, l, now, Amounts{1, 0, 0}, ask); refusal.Loading {
			t.Error("what was used is not counted")
		}

		// A limiter whose file takes long.
		disk := new(journaltest.Disk)
		answer := disk.Hang()
		slow := openOn(Options{Path: filepath.Join(t.TempDir(), "limits"), Background: true}, disk.Options())
		defer slow.Close()
		defer answer()
		began := time.Now()
		if _, refusal := slow.Reserve("w", now, []Ask{ask}, Amounts{1, 0, 0}); refusal == nil || !refusal.Loading || time.Since(began) < loadWait {
			t.Errorf("%+v after %s", refusal, time.Since(began))
		}
	})
}

// TestFullFile reopens a limiter whose subjects have filled Options.MaxMemory: Open returns
// before the file is read, and the counters are restored.
func TestFullFile(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("writes a file of some 20 MB")
	}
	now, path := time.Now(), filepath.Join(t.TempDir(), "limits")
	limit := limitOf("l", Ceiling{Requests, 2, Month}, Ceiling{Tokens, 100, Month})
	l := Open(Options{Path: path})
	n := 0
	for ; l.Stats().Shared == 0; n++ {
		r, refusal := l.Reserve("w", now, []Ask{{limit, fmt.Sprintf("customer %0250d", n)}}, Amounts{1, 1, 0})
		if refusal != nil {
			t.Fatal(refusal)
		}
		r.Settle(now, Amounts{1, 1, 0})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	l = Open(Options{Path: path, Background: true})
	defer l.Close()
	opened := time.Since(began)
	<-l.file.journal.Loaded()
	loaded := time.Since(began)
	t.Logf("%d subjects: opened after %s, read after %s", n, opened, loaded)
	if opened > loaded/2 {
		t.Errorf("opened after %s, read after %s", opened, loaded)
	}
	if s := l.AppendStandings(nil, "w", now, Ask{limit, fmt.Sprintf("customer %0250d", n/2)}); s[0].Used != 1 || s[1].Used != 1 {
		t.Errorf("%+v", s)
	}
}
