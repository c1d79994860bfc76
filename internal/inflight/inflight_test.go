package inflight

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestEachCeilingRefusesByItsName(t *testing.T) {
	plenty := Limits{Process: 9, Workspace: 9, Key: 9, Host: 9}
	with := func(change func(*Limits)) Limits { l := plenty; change(&l); return l }
	for _, test := range []struct {
		name   string
		limits Limits
		want   Ceiling
		// A call of another key, of another workspace.
		otherKey, otherWorkspace Ceiling
	}{
		{"plenty", plenty, None, None, None},
		{"key", with(func(l *Limits) { l.Key = 2 }), OfKey, None, None},
		{"workspace", with(func(l *Limits) { l.Workspace = 2 }), OfWorkspace, OfWorkspace, None},
		{"process", with(func(l *Limits) { l.Process = 2 }), OfProcess, OfProcess, OfProcess},
		// The caller hears of the ceiling that is most its own.
		{"all", Limits{Process: 2, Workspace: 2, Key: 2}, OfKey, OfWorkspace, OfProcess},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c Calls
				for range 2 {
					if got := c.Enter("w", Key{1}, &test.limits); got != None {
						t.Fatalf("below the ceiling: refused by that of the %s", got)
					}
				}
				for _, next := range []struct {
					workspace string
					key       Key
					want      Ceiling
				}{{"w", Key{1}, test.want}, {"w", Key{2}, test.otherKey}, {"x", Key{3}, test.otherWorkspace}} {
					full := c.Full(next.workspace, next.key, &test.limits)
					got := c.Enter(next.workspace, next.key, &test.limits)
					if full != got {
						t.Errorf("a call of %s %d: %s would refuse it, and %s does", next.workspace, next.key[0], full, got)
					}
					if got != next.want {
						t.Errorf("a call of %s %d: %s, want %s", next.workspace, next.key[0], got, next.want)
					}
					if got == None {
						c.Leave(next.workspace, next.key)
					}
				}
				c.Leave("w", Key{1})
				time.Sleep(sharedFor) // before, the place is for the keys that were refused
				if got := c.Enter("w", Key{1}, &test.limits); got != None {
					t.Errorf("after one has left: refused by that of the %s", got)
				}
			})
		})
	}
}

func TestHosts(t *testing.T) {
	var c Calls
	if !c.EnterHost("a:443", HostLimit{Max: 1}) || c.EnterHost("a:443", HostLimit{Max: 1}) || !c.EnterHost("b:443", HostLimit{Max: 1}) {
		t.Error("each host has its own count")
	}
	// The next configuration allows more.
	if c.HostRefuses("a:443", HostLimit{Max: 2}) != None || !c.EnterHost("a:443", HostLimit{Max: 2}) {
		t.Error("a higher limit does not apply to the calls under way")
	}
	if c.HostRefuses("a:443", HostLimit{Max: 1}) != OfHost {
		t.Error("a lower limit does not apply to the calls under way")
	}
	if c.Host("a:443") != 2 {
		t.Errorf("%d calls at a", c.Host("a:443"))
	}
}

func TestWhatIsIdleTakesNoMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type entered struct {
			name string
			key  Key
		}
		var c Calls
		var calls []entered
		type visit struct {
			host  string
			limit HostLimit
		}
		var hosts []visit
		limits := Limits{
			Process:   rapid.IntRange(1, 8).Draw(t, "process"),
			Workspace: rapid.IntRange(1, 8).Draw(t, "workspace"),
			Key:       rapid.IntRange(1, 8).Draw(t, "key"),
			Host:      rapid.IntRange(1, 8).Draw(t, "host"),
		}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"enter": func(t *rapid.T) {
				e := entered{name.Draw(t, "workspace"), Key{byte(rapid.IntRange(0, 3).Draw(t, "key"))}}
				if c.Enter(e.name, e.key, &limits) == None {
					calls = append(calls, e)
				}
			},
			"leave": func(t *rapid.T) {
				if len(calls) == 0 {
					t.Skip("no call is in flight")
				}
				i := rapid.IntRange(0, len(calls)-1).Draw(t, "which")
				c.Leave(calls[i].name, calls[i].key)
				calls = append(calls[:i], calls[i+1:]...)
			},
			"enter host": func(t *rapid.T) {
				limits := limits
				limits.Adaptive = rapid.Bool().Draw(t, "adaptive")
				v := visit{name.Draw(t, "host"), limits.AtHost(name.Draw(t, "workspace"), Key{byte(rapid.IntRange(0, 3).Draw(t, "key"))})}
				if c.EnterHost(v.host, v.limit) {
					hosts = append(hosts, v)
				}
			},
			"leave host": func(t *rapid.T) {
				if len(hosts) == 0 {
					t.Skip("no call is at a host")
				}
				i := rapid.IntRange(0, len(hosts)-1).Draw(t, "which")
				c.LeaveHost(hosts[i].host, hosts[i].limit)
				hosts = append(hosts[:i], hosts[i+1:]...)
			},
			"": func(t *rapid.T) {
				if c.Process() != len(calls) || len(calls) > limits.Process {
					t.Fatalf("%d calls counted of %d, at most %d", c.Process(), len(calls), limits.Process)
				}
				of := make(map[string]int)
				for _, e := range calls {
					of[e.name]++
				}
				for name, n := range of {
					if c.Workspace(name) != n || n > limits.Workspace {
						t.Fatalf("%d calls of workspace %s counted of %d, at most %d", c.Workspace(name), name, n, limits.Workspace)
					}
				}
			},
		})
		for _, e := range calls {
			c.Leave(e.name, e.key)
		}
		for _, v := range hosts {
			c.LeaveHost(v.host, v.limit)
		}
		checkEmpty(t, &c)
	})
}

// checkEmpty checks that no call is counted and no key remembered.
func checkEmpty(t rapid.TB, c *Calls) {
	t.Helper()
	all := []*places{&c.process}
	all = slices.AppendSeq(all, maps.Values(c.workspaces))
	all = slices.AppendSeq(all, maps.Values(c.own))
	for _, h := range c.hosts {
		all = append(all, &h.places)
	}
	for _, p := range all {
		if p.calls != 0 || len(p.keys) != 0 {
			t.Errorf("left over: %d calls, %v", p.calls, p.keys)
		}
	}
}

func TestNoCeilingIsOverdrawnByCallsAtOnce(t *testing.T) {
	var c Calls
	limits := Limits{Process: 5, Workspace: 4, Key: 3, Host: 2}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			key := Key{byte(i % 2)}
			for range 2000 {
				if c.Enter("w", key, &limits) != None {
					continue
				}
				if n := c.Workspace("w"); n > limits.Workspace {
					t.Errorf("%d calls", n)
				}
				if c.EnterHost("h", limits.AtHost("w", Key{})) {
					if n := c.Host("h"); n > limits.Host {
						t.Errorf("%d calls at the host", n)
					}
					c.LeaveHost("h", HostLimit{})
				}
				c.Leave("w", key)
			}
		})
	}
	group.Wait()
	checkEmpty(t, &c)
}

func TestDefaultsFitTheDescriptors(t *testing.T) {
	for _, test := range []struct{ descriptors, want int }{
		{0, 1}, {16, 4}, {64, 16}, {256, 64}, {512, 192}, {1024, 384}, {4096, 1536}, {20_000, 4096}, {1 << 30, 4096},
	} {
		if got := DefaultProcess(test.descriptors); got != test.want {
			t.Errorf("%d descriptors: %d calls, want %d", test.descriptors, got, test.want)
		}
	}
	if got, want := (Limits{}).WithDefaults(1024), (Limits{Process: 384, Workspace: 288, Key: 192, Host: 144}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := (Limits{Process: 1}).WithDefaults(1024), (Limits{Process: 1, Workspace: 1, Key: 1, Host: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := (Limits{Process: 100, Key: 7}).WithDefaults(1024), (Limits{Process: 100, Workspace: 75, Key: 7, Host: 37}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// What calls take at both ends, and connections, leave some for files.
	for descriptors := 8; descriptors < 1<<20; descriptors += 1 + descriptors/7 {
		process := DefaultProcess(descriptors)
		connections := MaxConnections(descriptors, process)
		if left := descriptors - process - connections; connections < process || left < descriptors/9 {
			t.Errorf("of %d descriptors %d calls and %d connections leave %d", descriptors, process, connections, left)
		}
	}
	if n := MaxConnections(1024, 384); n != 512 {
		t.Errorf("%d connections of 1024 descriptors", n)
	}
	if n := MaxConnections(1024, 5000); n != 256 {
		t.Errorf("%d connections of 1024 descriptors for too many calls", n)
	}
	if n := Descriptors(); n < 16 {
		t.Errorf("this process may hold %d descriptors", n)
	}
}

func BenchmarkEnter(b *testing.B) {
	var c Calls
	limits := Limits{Process: 1000, Workspace: 1000, Key: 1000, Host: 1000}
	key := Key{1}
	b.ReportAllocs()
	for b.Loop() {
		c.Enter("default", key, &limits)
		c.EnterHost("api.example.com:443", limits.AtHost("w", Key{}))
		c.LeaveHost("api.example.com:443", HostLimit{})
		c.Leave("default", key)
	}
}

func BenchmarkRefuse(b *testing.B) {
	var c Calls
	limits := Limits{Process: 1000, Workspace: 1000, Key: 1}
	key := Key{1}
	c.Enter("default", key, &limits)
	b.ReportAllocs()
	for b.Loop() {
		c.Enter("default", key, &limits)
	}
}
