package caddymodule_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// niceThreads returns how many threads of the process have another nice value than its
// first one.
func niceThreads(t *testing.T) (n int) {
	files, err := filepath.Glob("/proc/self/task/*/stat")
	if err != nil {
		t.Error(err)
	}
	nice := func(file string) string {
		text, _ := os.ReadFile(file) // the thread may have ended
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 16 {
			return fields[16] // proc_pid_stat(5): the 19th, after the id and the name
		}
		return ""
	}
	usual := nice("/proc/self/stat")
	for _, file := range files {
		if value := nice(file); value != "" && value != usual {
			n++
		}
	}
	return n
}

// TestReadersGiveWay reads a page, by the console's API and by Caddy's admin API, each until
// a thread that gives way is seen. None of them is left.
func TestReadersGiveWay(t *testing.T) {
	g := startConsoleSite(t)
	session := g.signIn("our_viewer")
	gatewaytest.Eventually(t, "the threads of the start end", func() bool { return niceThreads(t) == 0 })
	for name, read := range map[string]func(){
		"a page":  func() { g.do("GET", "/console/traces", "", session).ok(t) },
		"the API": func() { g.do("GET", "/console/api/definitions", "", session).ok(t) },
		"the admin API": func() {
			for _, route := range new(adminapi.API).Routes() {
				if route.Pattern == "/cadenza/definitions" {
					if err := route.Handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", route.Pattern, nil)); err != nil {
						t.Error(err)
					}
				}
			}
		},
	} {
		gatewaytest.Eventually(t, name+" is read aside", func() (seen bool) {
			done := make(chan struct{})
			go func() { defer close(done); read() }()
			for {
				select {
				case <-done:
					return seen
				default:
					seen = seen || niceThreads(t) > 0
				}
			}
		})
	}
	gatewaytest.Eventually(t, "the threads end", func() bool { return niceThreads(t) == 0 })
}
