package adminapi

import (
	"net/http"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// asideNice is the priority of those who read: the least.
	asideNice = 19
	// asideProcs is what readers add to GOMAXPROCS. Go lets a goroutine keep one of its
	// processors for ten milliseconds, whatever the priority of the thread: callers need
	// one that no reader keeps.
	asideProcs = 1
	// asideLasts is how long GOMAXPROCS stays raised. Each change stops the world.
	asideLasts = 10 * time.Second
)

// readers are those who read aside.
var readers struct {
	sync.Mutex
	in    int
	last  time.Time // when one left
	usual int       // GOMAXPROCS before it was raised; 0: it is not
}

// Aside answers a request. If the request only reads, a thread of its own does it, which
// gives way to those that answer callers.
func Aside(r *http.Request, answer func()) {
	if r.Method != http.MethodGet {
		answer()
		return
	}
	enterAside()
	defer leaveAside()
	done := make(chan any)
	go func() {
		defer func() { done <- recover() }()
		runtime.LockOSThread()                                      // for good: the thread ends with the goroutine
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, asideNice) // of this thread; one with less keeps it
		answer()
	}()
	if fault := <-done; fault != nil {
		panic(fault)
	}
}

// enterAside raises GOMAXPROCS, unless a quota or the operator keeps it below what the
// machine has.
func enterAside() {
	readers.Lock()
	defer readers.Unlock()
	readers.in++
	if now := runtime.GOMAXPROCS(0); readers.usual == 0 && now >= runtime.NumCPU() {
		readers.usual = now
		runtime.GOMAXPROCS(now + asideProcs)
	}
}

func leaveAside() {
	readers.Lock()
	defer readers.Unlock()
	readers.in--
	readers.last = time.Now()
	if readers.in == 0 {
		time.AfterFunc(asideLasts, endAside)
	}
}

// endAside sets GOMAXPROCS back when the last reader has been gone for a while.
func endAside() {
	readers.Lock()
	defer readers.Unlock()
	if readers.in > 0 || readers.usual == 0 || time.Since(readers.last) < asideLasts {
		return
	}
	runtime.GOMAXPROCS(readers.usual)
	readers.usual = 0
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.SetDefaultGOMAXPROCS() // so that Go follows the machine again
	}
}
