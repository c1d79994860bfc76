package providers

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/buffers"
)

// checkNothingHeld fails if an answer did not release its memory.
func checkNothingHeld(t *testing.T) {
	t.Helper()
	if n := HeldBytes(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

func TestHeldUpToTheCeiling(t *testing.T) {
	var one, other, small Held
	if err := errors.Join(one.Take(freeHeld+maxHeld/2), other.Take(freeHeld+maxHeld/2)); err != nil {
		t.Fatal(err)
	}
	if n := HeldBytes(); n != maxHeld {
		t.Errorf("%d bytes are held", n)
	}
	if err := other.Take(1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("beyond the ceiling: %v", err)
	}
	if err := small.Take(freeHeld); err != nil {
		t.Errorf("a small answer: %v", err)
	}
	if err := small.Take(1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("one that is no longer small: %v", err)
	}
	if err := errors.Join(other.Take(-2), small.Take(1), other.Take(1)); err != nil {
		t.Errorf("what was given back: %v", err)
	}
	one.Release()
	if err := other.Take(maxHeld / 4); err != nil {
		t.Errorf("what was released: %v", err)
	}
	other.Release()
	other.Release()
	if err := other.Take(1); err == nil || errors.Is(err, ErrNoRoom) {
		t.Errorf("after its release: %v", err)
	}
	small.Release()
	checkNothingHeld(t)
}

func TestOneAnswerAloneIsNeverRefused(t *testing.T) {
	var one, other Held
	defer checkNothingHeld(t)
	defer one.Release()
	defer other.Release()
	if err := errors.Join(one.Take(freeHeld), other.Take(maxHeld), other.Take(maxHeld)); err != nil {
		t.Fatal(err)
	}
	if err := one.Take(1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("beside it: %v", err)
	}
}

func TestHeldIsGivenBack(t *testing.T) {
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 100 {
				var h Held
				var closing sync.WaitGroup
				mine := 0
				for n := range 20 {
					if bytes := rand.IntN(maxHeld / 32); h.Take(bytes) == nil {
						mine += bytes
					}
					if back := rand.IntN(mine + 1); h.Take(-back) == nil {
						mine -= back
					}
					if n == 18 {
						closing.Go(h.Release) // as a call's end does, while it is read
					}
				}
				closing.Wait()
			}
		})
	}
	wait.Wait()
	checkNothingHeld(t)
}

// TestLend holds that a buffer is given back at the release, once.
func TestLend(t *testing.T) {
	// A pool keeps a value for the processor that gave it, and this goroutine may wake on another.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	kept := func() bool { return buffers.Kept(buffers.Largest) != nil }
	// The pool may drop one: it is the garbage collector's.
	given := false
	for range 20 {
		var h Held
		h.Lend(buffers.Get(buffers.Largest))
		if kept() {
			t.Fatal("the buffer is given back before the release")
		}
		h.Release()
		h.Release()
		given = kept() || given
		if h.Lend(make([]byte, buffers.Largest)); kept() {
			t.Fatal("the buffer is given back twice, or after the release")
		}
	}
	if !given {
		t.Error("the buffer is never given back")
	}
}

// TestGrowingAnswersAreCollected has answers make more memory than is collected at a time.
func TestGrowingAnswersAreCollected(t *testing.T) {
	collections := func() uint32 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.NumForcedGC
	}
	before := collections()
	for range 5 {
		var h Held
		if err := h.Take(buffers.Garbage); err != nil {
			t.Fatal(err)
		}
		h.Release()
	}
	if n := collections() - before; n < 2 {
		t.Errorf("%d collections", n)
	}
	checkNothingHeld(t)
}
