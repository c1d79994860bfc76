package sqlite

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadersOfOneProcessorRest has readers work for longer than they may at a time.
func TestReadersOfOneProcessorRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, fault := time.Now(), errors.New("no row")
		for range 4 { // each longer than a turn, so that the next one rests first
			if err := gently(func() error { time.Sleep(2 * readerWorks); return fault }); err != fault {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 8*readerWorks+3*readerRests {
			t.Errorf("four rows took %v", took)
		}
		pace.worked = 0
	})
}

// TestWhoIsGentle reads a file by itself, and beside a store with one processor and two.
func TestWhoIsGentle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := mustOpen(t, Config{Path: path})
	works := func() bool {
		pace.Lock()
		pace.worked = 0
		pace.Unlock()
		r, err := OpenReader(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if _, err := r.Workspaces(t.Context()); err != nil {
			t.Fatal(err)
		}
		pace.Lock()
		defer pace.Unlock()
		return pace.worked > 0
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	if works() {
		t.Error("a reader takes turns although there are two processors")
	}
	runtime.GOMAXPROCS(1)
	if !works() {
		t.Error("a reader beside the store takes no turn on the only processor")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if works() {
		t.Error("a reader by itself takes turns")
	}
}
