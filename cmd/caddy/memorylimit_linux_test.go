package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// requireCgroup is the environment variable that makes TestMemoryLimitOfCgroup
// fail, rather than skip, if it can't make a cgroup.
const requireCgroup = "CADENZA_REQUIRE_CGROUP"

// newCgroup makes a cgroup with a memory limit, and returns its directory.
func newCgroup(t *testing.T, limit int64) string {
	t.Helper()
	var problems []error
	for _, kind := range []struct{ root, limit string }{
		{"/sys/fs/cgroup", "memory.max"},
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, // version 1
	} {
		folder := filepath.Join(kind.root, fmt.Sprintf("cadenza-test-%d", os.Getpid()))
		if _, err := os.Stat(filepath.Join(kind.root, "cgroup.procs")); err != nil {
			problems = append(problems, err)
			continue
		}
		err := os.Mkdir(folder, 0o755)
		if err == nil {
			t.Cleanup(func() {
				// The kernel takes a moment to notice that a process has ended.
				if err := until(gatewaytest.Patience, func() bool { return os.Remove(folder) == nil }); err != nil {
					t.Errorf("removing %s: %v", folder, err)
				}
			})
			err = os.WriteFile(filepath.Join(folder, kind.limit), fmt.Append(nil, limit), 0)
		}
		if err == nil {
			return folder
		}
		problems = append(problems, err)
	}
	problem := fmt.Sprintf("a cgroup with a limit can't be made, which takes the rights of root: %v", errors.Join(problems...))
	if os.Getenv(requireCgroup) != "" {
		t.Fatal(problem)
	}
	t.Skipf("%s (set %s to fail instead)", problem, requireCgroup)
	return ""
}

// TestMemoryLimitOfCgroup runs the gateway in a cgroup with a memory limit of 256 MiB.
// Caddy sets Go's memory limit from it at the start. So the kernel does not kill the
// gateway under a load whose garbage would soon exceed the limit.
func TestMemoryLimitOfCgroup(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's memory is not the gateway's")
	}
	const limit = 256 << 20
	binary := gatewayBinary(t)
	cgroup := newCgroup(t, limit)
	s := newSiege(t, besieged())
	s.around = fmt.Sprintf("echo $$ > %s/cgroup.procs && ", cgroup)
	s.begin(t, binary, "")

	if text := s.output.String(); !strings.Contains(text, "GOMEMLIMIT is updated") {
		t.Errorf("the log doesn't say that Go's limit was set:\n%s", text)
	}
	if have, want := s.metric(t, "go_gc_gomemlimit_bytes"), 0.9*limit; have < want-1 || have > want+1 {
		t.Errorf("Go's limit is %.0f bytes, want nine tenths of the cgroup's: %.0f", have, want)
	}

	w := s.watch(t)
	defer w.stop()
	body := `{"keys":` + keysOf("once", 3) + `,"variables":{"text":"` + strings.Repeat("a", 512<<10) + `"}}`
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 50 {
				r, err := s.send(t.Context(), attackerKey, "/v1/prompts", strings.NewReader(body))
				if err != nil || r.status != http.StatusOK {
					t.Errorf("under load: %v %s", err, r)
					return
				}
			}
		})
	}
	wait.Wait()
	w.served(t)
	s.holds(t)
}
