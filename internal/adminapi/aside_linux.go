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
	// maxAside bounds the threads of those who read: they may follow for hours, and Go ends a
	// process with ten thousand threads. Others read as callers do.
	maxAside = 64
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
	aside(answer)
}

// aside calls answer on a thread that gives way, if there is one to be had.
func aside(answer func()) {
	if !enterAside() {
		answer()
		return
	}
	defer leaveAside()
	if fault := onOwnThread(answer); fault != nil {
		panic(fault)
	}
}

// onOwnThread answers on a thread that gives way, and returns the value of a panic.
func onOwnThread(answer func()) (fault any) {
	done := make(chan any)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if syscall.Gettid() == syscall.Getpid() {
			// The main thread alone never ends. While it waits here, another one answers.
			defer runtime.UnlockOSThread()
			done <- onOwnThread(answer)
			return
		}
		defer func() { done <- recover() }()
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, asideNice) // of this thread; one with less keeps it
		answer()
	}()
	return <-done
}

// enterAside raises GOMAXPROCS, unless a quota or the operator keeps it below what the
// machine has. It reports false if too many read aside.
func enterAside() bool {
	readers.Lock()
	defer readers.Unlock()
	if readers.in >= maxAside {
		return false
	}
	readers.in++
	if now := runtime.GOMAXPROCS(0); readers.usual == 0 && now >= runtime.NumCPU() {
		readers.usual = now
		runtime.GOMAXPROCS(now + asideProcs)
	}
	return true
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
