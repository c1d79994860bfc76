package inflight

import (
	"testing"
	"testing/synctest"
	"time"
)

// fill has keys take places in turn until none gets one more, and returns how many each
// has. A key wants as many as wants says, 0 for any number.
func fill(p *places, most int, wants map[byte]int) map[byte]int {
	for let := true; let; {
		let = false
		for key := byte(1); key < 10; key++ {
			want, asks := wants[key]
			if asks && (want == 0 || p.keys[Key{key}] < want) && p.refuses(Key{key}, most, OfHost) == None {
				p.enter(Key{key})
				let = true
			}
		}
	}
	have := make(map[byte]int)
	for key, n := range p.keys {
		have[key[0]] = n
	}
	return have
}

// settle ends calls, one of each key in turn, and has the keys ask again, until each call
// of the beginning has ended.
func settle(p *places, most int, wants map[byte]int) map[byte]int {
	var have map[byte]int
	for range most {
		for key := range p.keys {
			p.leave(key)
		}
		have = fill(p, most, wants)
	}
	return have
}

func TestPlacesAreShared(t *testing.T) {
	for _, test := range []struct {
		name  string
		most  int
		wants map[byte]int
		least map[byte]int // that each key gets
	}{
		{"one alone has all", 80, map[byte]int{1: 0}, map[byte]int{1: 80}},
		{"two want all", 80, map[byte]int{1: 0, 2: 0}, map[byte]int{1: 37, 2: 37}},
		{"what one does not use is the other's", 80, map[byte]int{1: 0, 2: 10}, map[byte]int{1: 65, 2: 10}},
		{"three, one of which wants little", 90, map[byte]int{1: 0, 2: 0, 3: 5}, map[byte]int{1: 40, 2: 40, 3: 5}},
		{"a small ceiling", 4, map[byte]int{1: 0, 2: 1}, map[byte]int{1: 2, 2: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p places
				if first := fill(&p, test.most, map[byte]int{1: 0}); first[1] != test.most {
					t.Fatalf("a key that is alone has %d of %d", first[1], test.most)
				}
				have := settle(&p, test.most, test.wants)
				for key, least := range test.least {
					if have[key] < least {
						t.Errorf("key %d has %d, want %d: %v", key, have[key], least, have)
					}
				}
				if p.calls > test.most {
					t.Errorf("%d calls of %d", p.calls, test.most)
				}
				// The others leave.
				for key := range test.wants {
					for key != 1 && p.keys[Key{key}] > 0 {
						p.leave(Key{key})
					}
				}
				time.Sleep(sharedFor)
				if have := fill(&p, test.most, map[byte]int{1: 0}); have[1] != test.most {
					t.Errorf("alone again it has %d of %d", have[1], test.most)
				}
			})
		})
	}
}

// TestCeilingsAreShared: each ceiling of several keys keeps places for the one that has
// less than its share.
func TestCeilingsAreShared(t *testing.T) {
	for name, limits := range map[string]Limits{
		"process":   {Process: 32, Workspace: 100, Key: 100, Host: 100},
		"workspace": {Process: 100, Workspace: 32, Key: 100, Host: 100},
		"host":      {Process: 100, Workspace: 100, Key: 100, Host: 32},
		"adaptive":  {Process: 100, Workspace: 100, Key: 100, Host: 32, Adaptive: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c Calls
				enter := func(key Key) Ceiling {
					if by := c.Enter("w", key, &limits); by != None {
						return by
					}
					if by := c.HostRefuses(testHost, limits.AtHost("w", key)); by != None {
						c.Leave("w", key)
						return by
					}
					if !c.EnterHost(testHost, limits.AtHost("w", key)) {
						t.Fatal("refused, though it was not")
					}
					return None
				}
				leave := func(key Key) {
					c.LeaveHost(testHost, limits.AtHost("w", key))
					c.Leave("w", key)
				}
				heavy, light := Key{1}, Key{2}
				for range 32 {
					if by := enter(heavy); by != None {
						t.Fatalf("refused by that of the %s", by)
					}
				}
				if by := enter(light); by == None || by == OfShare {
					t.Fatalf("beyond the ceiling: %s", by)
				}
				leave(heavy)
				if by := enter(heavy); by != OfShare {
					t.Errorf("the heavy key's next: %s", by)
				}
				if by := enter(light); by != None {
					t.Errorf("the light key's: %s", by)
				}
			})
		})
	}
}

// hear reports twenty tries of each key in each of so many windows: the given number of
// them fail, and the others are answered after took.
func hear(c *Calls, windows int, failing map[byte]int, took time.Duration) {
	for n := range 20 * windows {
		time.Sleep(minWindow / 20)
		for key, fails := range failing {
			o := Outcome{Overloaded: n%20 < fails, Began: time.Now()}
			if !o.Overloaded {
				o.Began = o.Began.Add(-took)
			}
			c.Report(testHost, HostLimit{Max: 100, Key: Key{key}}, o)
		}
	}
}

func TestAnOverloadedHostIsShared(t *testing.T) {
	for _, test := range []struct {
		name    string
		failing map[byte]int // tries of twenty, by key
		shared  bool
	}{
		{"two keys fail", map[byte]int{1: 18, 2: 18}, true},
		{"one is alone", map[byte]int{1: 18}, false},
		{"the other is answered", map[byte]int{1: 18, 2: 0}, false},
		{"fewer than half fail", map[byte]int{1: 9, 2: 9}, false},
		{"nothing is answered", map[byte]int{1: 20, 2: 20}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c Calls
				for range 60 {
					c.EnterHost(testHost, HostLimit{Max: 100, Key: Key{1}})
				}
				for range 30 {
					c.EnterHost(testHost, HostLimit{Max: 100, Key: Key{3}})
				}
				hear(&c, 3, test.failing, 5*time.Second)
				if got := c.HostShared(testHost) > 0; got != test.shared {
					t.Errorf("shared: %v", got)
				}
				refuses := func(key byte) bool { return c.HostRefuses(testHost, HostLimit{Max: 100, Key: Key{key}}) != None }
				if refuses(1) != test.shared || refuses(2) || refuses(3) {
					t.Errorf("refused: %v, %v, and one that is answered %v", refuses(1), refuses(2), refuses(3))
				}
				if full, light := c.Standing(testHost, HostLimit{Max: 100, Key: Key{1}}); full != test.shared || light {
					t.Errorf("the heavy key: full %v, light %v", full, light)
				}
				c.EnterHost(testHost, HostLimit{Max: 100, Key: Key{2}})
				if full, light := c.Standing(testHost, HostLimit{Max: 100, Key: Key{2}}); full || !light {
					t.Errorf("the light key: full %v, light %v", full, light)
				}
			})
		})
	}
}

// TestSharingEnds: sharing ends when the host is no longer overloaded, a key is alone,
// it does not help, or no outcome was reported for long.
func TestSharingEnds(t *testing.T) {
	for name, then := range map[string]func(*Calls){
		"the host answers": func(c *Calls) {
			for range 59 {
				c.LeaveHost(testHost, HostLimit{Max: 100, Key: Key{1}})
			}
			hear(c, 2, map[byte]int{1: 0, 2: 0}, 0)
		},
		"one is alone": func(c *Calls) {
			hear(c, 2, map[byte]int{1: 18}, 0)
		},
		"it does not help": func(c *Calls) {
			for range 59 {
				c.LeaveHost(testHost, HostLimit{Max: 100, Key: Key{1}})
			}
			hear(c, 6, map[byte]int{1: 18, 2: 18}, 0)
		},
		"nothing is heard": func(c *Calls) {
			time.Sleep(2 * staleAfter)
			hear(c, 1, map[byte]int{1: 0}, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c Calls
				for range 60 {
					c.EnterHost(testHost, HostLimit{Max: 100, Key: Key{1}})
				}
				hear(&c, 3, map[byte]int{1: 18, 2: 18}, 5*time.Second)
				if c.HostShared(testHost) == 0 {
					t.Fatal("it is not shared")
				}
				then(&c)
				if got := c.HostShared(testHost); got != 0 {
					t.Errorf("%d calls are shared", got)
				}
				if by := c.HostRefuses(testHost, HostLimit{Max: 100, Key: Key{1}}); by != None {
					t.Errorf("the key is refused by that of the %s", by)
				}
			})
		})
	}
}

func BenchmarkTell(b *testing.B) {
	var c Calls
	limits := Limits{Host: 1000}
	began := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		c.Report("api.example.com:443", limits.AtHost("w", Key{1}), Outcome{Began: began, Model: "m"})
	}
}

// BenchmarkRefuseShare is about a host that a hundred keys share.
func BenchmarkRefuseShare(b *testing.B) {
	var c Calls
	limits := Limits{Host: 1000}
	h := named(&c.hosts, testHost)
	h.strain.places, h.strained = 300, make(map[Key]bool)
	for key := range byte(100) {
		h.strained[Key{key}] = true
		for range 4 {
			c.EnterHost(testHost, limits.AtHost("w", Key{key}))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if c.HostRefuses(testHost, limits.AtHost("w", Key{1})) != OfShare {
			b.Fatal("let in")
		}
	}
}
