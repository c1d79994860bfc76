package adminapi

import (
	"errors"
	"net/http"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// niceness returns the nice value of the thread.
func niceness(t *testing.T) int {
	t.Helper()
	raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Error(err)
	}
	return 20 - raw // https://man7.org/linux/man-pages/man2/getpriority.2.html#NOTES
}

// TestAside answers requests that read and that change something, and looks at the thread
// and at GOMAXPROCS.
func TestAside(t *testing.T) {
	t.Setenv("GOMAXPROCS", "1") // so that the test's value comes back
	synctest.Test(t, func(t *testing.T) {
		readers.last = time.Time{}
		endAside() // of other tests
		before := runtime.GOMAXPROCS(runtime.NumCPU())
		defer runtime.GOMAXPROCS(before)
		usual, nice := runtime.NumCPU(), niceness(t)
		look := func(method string, wantNice, wantProcs int) {
			t.Helper()
			called := false
			Aside(&http.Request{Method: method}, func() {
				called = true
				if got := niceness(t); got != wantNice {
					t.Errorf("%s: the nice value is %d, not %d", method, got, wantNice)
				}
				if got := runtime.GOMAXPROCS(0); got != wantProcs {
					t.Errorf("%s: GOMAXPROCS is %d, not %d", method, got, wantProcs)
				}
			})
			if !called {
				t.Errorf("%s is not answered", method)
			}
		}
		now := func(want int) {
			t.Helper()
			synctest.Wait()
			if got := runtime.GOMAXPROCS(0); got != want {
				t.Errorf("GOMAXPROCS is %d, not %d", got, want)
			}
		}
		look(http.MethodPost, nice, usual)
		readers.in += maxAside
		look(http.MethodGet, nice, usual)
		readers.in -= maxAside
		look(http.MethodGet, max(nice, asideNice), usual+asideProcs)
		time.Sleep(asideLasts - time.Second)
		look(http.MethodGet, max(nice, asideNice), usual+asideProcs)
		time.Sleep(asideLasts - time.Second)
		now(usual + asideProcs) // the second is gone for less
		Aside(&http.Request{Method: http.MethodGet}, func() {
			time.Sleep(2 * asideLasts)
			now(usual + asideProcs) // one is in
		})
		time.Sleep(asideLasts)
		now(usual)
		if got := niceness(t); got != nice {
			t.Errorf("the nice value of others became %d", got)
		}

		if usual > 1 { // a quota
			runtime.GOMAXPROCS(usual - 1)
			look(http.MethodGet, max(nice, asideNice), usual-1)
			time.Sleep(asideLasts)
			now(usual - 1)
		}

		fault := errors.New("cut")
		defer func() {
			if got := recover(); got != fault {
				t.Errorf("the panic is %v", got)
			}
			readers.last = time.Time{}
			endAside()
		}()
		Aside(&http.Request{Method: http.MethodGet}, func() { panic(fault) })
	})
}
