package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/trace"
)

func recordOf(workspace string, n byte, size int) *trace.Record {
	r := evaluation(n)
	r.Workspace, r.Context = workspace, make([]byte, size)
	return r
}

// TestWorkspacesHaveTheirShare has one workspace fill the queue to its ceiling
// while the writer is stalled. The part of another is still free: for
// evaluations, starts, ends, versions and metrics, by number and by bytes.
func TestWorkspacesHaveTheirShare(t *testing.T) {
	const records, metrics, size = 80, 40, 64 << 10
	for name, test := range map[string]struct {
		record int // bytes
		report string
	}{
		"by number": {0, ""},
		"by bytes":  {4 << 10, strings.Repeat("x", 4<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			log := new(bytes.Buffer)
			options := Options{MaxRecords: records, MaxMetrics: metrics, MaxBytes: size, Logger: slog.New(slog.NewTextHandler(log, nil))}
			if test.record == 0 {
				options.MaxBytes = 0
			}
			run(t, options, func(t *testing.T, r *Recorder, s *memStore) {
				r.Join("attacker")
				r.Join("victim")
				open(t, r)
				s.set(func(s *memStore) { s.delay = 9 * time.Second })
				var group sync.WaitGroup
				defer group.Wait()
				report := func(workspace string) (err error) {
					m := metricsOn(1)
					if m.Workspace = workspace; workspace == "attacker" {
						m.LLMResponse = &test.report
					}
					done := make(chan error, 1)
					group.Go(func() { done <- r.Metrics(t.Context(), m) })
					synctest.Wait()
					select {
					case err = <-done:
					default: // it waits
					}
					return err
				}
				if err := report("attacker"); err != nil { // stalls the writer
					t.Fatal(err)
				}
				taken, reports := 0, 0
				for n := range 2 * records {
					for _, ok := range []bool{
						r.Evaluation(recordOf("attacker", byte(n), test.record)), r.End(recordOf("attacker", byte(n), test.record)),
					} {
						if ok {
							taken++
						}
					}
					_ = report("attacker")
				}
				for n := range 2 * records { // their waits would else outlast the writer's
					r.Versions([]trace.Version{{Workspace: "attacker", Version: fmt.Sprint(n), Content: make([]byte, test.record)}})
				}
				if err := report("attacker"); !errors.Is(err, ErrUnavailable) {
					t.Fatalf("the queue is not full: %v", err)
				}
				dropped := r.Stats().Workspaces["attacker"].QueueFull
				if taken == 0 || dropped == 0 {
					t.Fatalf("%d were taken and %d dropped of the attacker", taken, dropped)
				}

				for n := range 5 {
					for what, ok := range map[string]bool{
						"evaluation": r.Evaluation(recordOf("victim", byte(n), 0)),
						"end":        r.End(recordOf("victim", byte(n), 0)),
					} {
						if !ok {
							t.Errorf("%s %d of the victim was dropped", what, n)
						}
					}
					start := recordOf("victim", byte(n), 0)
					group.Go(func() { r.Start(t.Context(), start) })
					if err := report("victim"); err != nil {
						t.Errorf("metrics %d of the victim: %v", n, err)
					} else {
						reports++
					}
				}
				r.Versions([]trace.Version{{Workspace: "victim", Version: "v"}})
				synctest.Wait()
				if drops := r.Stats().Workspaces["victim"]; drops != (Drops{}) {
					t.Errorf("of the victim were dropped: %+v", drops)
				}
				if reports != 5 {
					t.Errorf("%d reports of the victim wait", reports)
				}
			})
			if text := log.String(); !strings.Contains(text, "workspace=attacker reason=queue_full") || strings.Contains(text, "workspace=victim") {
				t.Errorf("the log tells: %s", text)
			}
		})
	}
}

// A workspace that is alone has all of the queue.
func TestOneWorkspaceHasAll(t *testing.T) {
	for joined, want := range map[int]int{0: 8, 1: 8, 2: 6, 4: 5} {
		run(t, Options{MaxRecords: 8}, func(t *testing.T, r *Recorder, _ *memStore) {
			for n := range joined {
				r.Join(fmt.Sprint(n))
			}
			taken := 0
			for n := range byte(20) {
				if r.Evaluation(recordOf("0", n, 0)) {
					taken++
				}
			}
			if taken != want {
				t.Errorf("%d workspaces joined: one takes %d of 8 places, want %d", joined, taken, want)
			}
			// It keeps the part that the others left; new ones get theirs all the same.
			r.Join("new")
			if joined > 0 && !r.Evaluation(recordOf("new", 1, 0)) && joined < 4 {
				t.Errorf("%d workspaces joined: a new one gets nothing", joined)
			}
			r.Open()
		})
	}
}

// TestSharesAddUp makes all changes of the shares, in any order: the sums hold,
// the ceilings hold, and each workspace that joined gets at least its part.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 200).Draw(t, "most")
		s := shares{byWorkspace: make(map[string]*share)}
		for what := range resources {
			s.max[what] = most
		}
		workspace := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		amount := rapid.Int64Range(1, 40)
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) { s.join(workspace.Draw(t, "workspace")) },
			"leave": func(t *rapid.T) {
				if name := workspace.Draw(t, "workspace"); s.byWorkspace[name] != nil && s.byWorkspace[name].joins > 0 {
					s.leave(name)
				}
			},
			"take": func(t *rapid.T) {
				sh, n, extra := s.share(workspace.Draw(t, "workspace")), amount.Draw(t, "amount"), rapid.Bool().Draw(t, "extra")
				admitted := s.admits(sh, recordBytes, n, extra)
				if !admitted && sh.used[recordBytes]+n <= s.own(sh, recordBytes) {
					t.Fatalf("%d more of %d were refused, and %d are its own", n, sh.used[recordBytes], s.own(sh, recordBytes))
				}
				if admitted {
					s.add(sh, recordBytes, n)
				}
			},
			"give": func(t *rapid.T) {
				if sh := s.share(workspace.Draw(t, "workspace")); sh.used[recordBytes] > 0 {
					s.add(sh, recordBytes, -rapid.Int64Range(1, sh.used[recordBytes]).Draw(t, "amount"))
				}
			},
			"": func(t *rapid.T) {
				common := s.common
				s.divide()
				if common != s.common {
					t.Fatalf("beyond the parts are %v, by the sums %v", s.common, common)
				}
				joined := int64(0)
				for _, sh := range s.byWorkspace {
					if sh.joins > 0 {
						joined++
					}
				}
				if joined != s.joined {
					t.Fatalf("%d joined, counted %d", joined, s.joined)
				}
			},
		})
	})
}

// Without workspaces coming and going, the queue never exceeds its ceiling, or
// one and a half times its ceiling with the items that are worth more.
func TestSharesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 1000).Draw(t, "most")
		s := shares{byWorkspace: make(map[string]*share)}
		s.max[recordBytes] = most
		for n := range rapid.IntRange(0, 5).Draw(t, "joined") {
			s.join(fmt.Sprint(n))
		}
		total, atMost := int64(0), most
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			sh := s.share(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "workspace")))
			n, extra := rapid.Int64Range(1, 50).Draw(t, "amount"), rapid.Bool().Draw(t, "extra")
			if !s.admits(sh, recordBytes, n, extra) {
				continue
			}
			s.add(sh, recordBytes, n)
			if total += n; extra {
				atMost = most + most/2
			}
			if total > atMost {
				t.Fatalf("%d of %d are taken", total, most)
			}
		}
	})
}

// TestLossesAreTold has each workspace's losses in the log: the first at once,
// the others once a minute.
func TestLossesAreTold(t *testing.T) {
	log := new(bytes.Buffer)
	run(t, Options{MaxRecords: 1, Logger: slog.New(slog.NewTextHandler(log, nil))}, func(t *testing.T, r *Recorder, s *memStore) {
		lose := func(workspace string, count int) {
			for range count {
				r.Evaluation(recordOf(workspace, 1, 0))
			}
		}
		told := func(what string, want ...string) {
			t.Helper()
			for _, line := range want {
				if !strings.Contains(log.String(), line+"\n") {
					t.Errorf("%s: the log lacks %s: %s", what, line, log)
				}
			}
			if got := strings.Count(log.String(), "records were lost"); got != len(want) {
				t.Errorf("%s: %d lines of losses: %s", what, got, log)
			}
			log.Reset()
		}
		lose("a", 11) // one of them waits
		lose("b", 5)
		told("at once", "workspace=a reason=queue_full count=1", "workspace=b reason=queue_full count=1")
		open(t, r)
		settle(maintainEvery)
		told("after a minute", "workspace=a reason=queue_full count=9", "workspace=b reason=queue_full count=4")
		settle(maintainEvery)
		told("when nothing more is lost")
		s.set(func(s *memStore) { s.fail = func(*Batch) error { return errors.New("full") } })
		lose("a", 1)
		settle(time.Second)
		lose("a", 4)
		told("later", "workspace=a reason=queue_full count=1")
		if stats := r.Stats(); stats.Workspaces["a"].QueueFull < 13 || stats.Workspaces["b"].QueueFull != 5 || stats.Drops.QueueFull != stats.Workspaces["a"].QueueFull+5 {
			t.Errorf("%+v", stats)
		}
	})
}

// TestQueueIsGivenBack has all waiting items stored, refused, abandoned or
// dropped: no place is taken any more.
func TestQueueIsGivenBack(t *testing.T) {
	check := func(t *testing.T, what string, r *Recorder) {
		t.Helper()
		synctest.Wait()
		r.queue.mu.Lock()
		defer r.queue.mu.Unlock()
		for workspace, sh := range r.queue.shares.byWorkspace {
			if sh.used != ([resources]int64{}) {
				t.Errorf("%s: %q still has %v", what, workspace, sh.used)
			}
		}
		if q := &r.queue; q.bytes != 0 || q.durableBytes != 0 || q.shares.common != ([resources]int64{}) {
			t.Errorf("%s: %d and %d bytes, %v beyond the parts", what, q.bytes, q.durableBytes, q.shares.common)
		}
	}
	var last *Recorder
	run(t, Options{}, func(t *testing.T, r *Recorder, s *memStore) {
		last = r
		r.Join("w")
		open(t, r)
		var group sync.WaitGroup
		fill := func() {
			for n := range byte(3) {
				call := recordOf("w", n, 10)
				r.Start(t.Context(), call)
				r.End(call)
				r.Evaluation(recordOf("w", n+100, 10))
				r.End(recordOf("other", n, 10))
				r.Versions([]trace.Version{{Workspace: "w", Version: fmt.Sprint(n)}})
				group.Go(func() {
					m := metricsOn(n)
					m.Workspace = "w"
					_ = r.Metrics(t.Context(), m)
				})
				group.Go(func() { _ = r.Keep(t.Context(), &trace.Reply{ReplyKey: trace.ReplyKey{Workspace: "w"}}) })
			}
		}
		fill()
		settle(time.Second)
		check(t, "stored", r)

		s.set(func(s *memStore) { s.delay = 2 * maxDurableWait })
		fill()
		fill()
		settle(10 * maxDurableWait)
		group.Wait()
		check(t, "given up", r)

		s.set(func(s *memStore) { s.delay, s.fail = time.Second, func(*Batch) error { return errors.New("full") } })
		fill()
		fill()
		settle(time.Minute)
		group.Wait()
		fill() // for Close to drop
		group.Wait()
	})
	if drops := last.Stats().Workspaces["w"]; drops.Failed == 0 {
		t.Errorf("%+v", drops)
	}
	last.queue.mu.Lock()
	defer last.queue.mu.Unlock()
	for workspace, sh := range last.queue.shares.byWorkspace {
		sh.used[callBytes] = 0 // of calls whose ends were dropped: the next process finds them
		if sh.used != ([resources]int64{}) {
			t.Errorf("closed: %q still has %v", workspace, sh.used)
		}
	}
}
