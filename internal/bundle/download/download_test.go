package download

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
)

func TestNewShowsWhatItWillFollow(t *testing.T) {
	s := New(Config{URL: "https://ops:geheim@one.example/b?x=1", Mirror: "http://two.example:81/m#x"}).Status()
	if want := (Status{URL: "https://one.example/b", Mirror: "http://two.example:81/m"}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
}

// Requests are 10 to 30 s apart, or as the configuration says.
func TestPolls(t *testing.T) {
	for _, bounds := range [][4]time.Duration{{0, 0, 10 * time.Second, 30 * time.Second}, {time.Minute, 0, time.Minute, time.Minute}, {0, 12 * time.Second, 10 * time.Second, 12 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			key, one := signer(t), new(site)
			one.set(pack(t, key, 1, "a"), `"1"`)
			g := follow(t, key, one, nil, func(c *Config) { c.PollMin, c.PollMax = bounds[0], bounds[1] })
			defer g.run(t)()
			elapse(2 * time.Hour)
			least, most := time.Hour, time.Duration(0)
			for i, r := range one.requests[1:] {
				least, most = min(least, r.at.Sub(one.requests[i].at)), max(most, r.at.Sub(one.requests[i].at))
			}
			edge := (bounds[3] - bounds[2]) / 10
			if least < bounds[2] || least > bounds[2]+edge || most > bounds[3] || most < bounds[3]-edge {
				t.Errorf("%s to %s apart, want %s to %s", least, most, bounds[2], bounds[3])
			}
		})
	}
}

func TestABundleIsServedAndFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		g.restored(t) // there is no file
		defer g.run(t)()
		g.serves(t, "a")
		began := time.Now()
		if s := g.Status(); s.URL != address || s.Revision != "r1" || s.Serial != 1 || !s.Confirmed.Equal(began) || s.Error+s.Refused+s.FileError != "" {
			t.Errorf("%+v", s)
		}
		if b, _ := g.Latest().Get(); b == nil || b.Serial != 1 {
			t.Errorf("the latest is %+v", b)
		}
		elapse(10 * time.Minute)
		g.serves(t, "a")
		s := g.Status()
		if age := time.Since(s.Confirmed); age > 30*time.Second {
			t.Errorf("age %s", age)
		}
		if n := one.count(); n < 20 || n > 61 || one.bodies() != 1 {
			t.Errorf("%d requests in 10 minutes, %d answered with a body", n, one.bodies())
		}
		if r := one.last(); r.header.Get("If-None-Match") != `"1"` || r.header.Get("Accept-Encoding") != "identity" || r.header.Get("Prefer") != "" {
			t.Errorf("asked with %v", r.header)
		}
		one.set(pack(t, key, 2, "b"), `"2"`)
		elapse(30 * time.Second)
		g.serves(t, "a", "b")
		if s := g.Status(); s.Serial != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// A 304 may come without the tag, which stays (Google's storage and Azure's answer so).
func TestA304WithoutATagKeepsTheTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), &site{bare304: true}
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		defer g.run(t)()
		elapse(10 * time.Minute)
		if one.bodies() != 1 || one.last().header.Get("If-None-Match") != `"1"` || time.Since(g.Status().Confirmed) > 30*time.Second {
			t.Errorf("%d bodies, last asked with %v", one.bodies(), one.last().header)
		}
	})
}

// A 304 to a request without a tag says nothing.
func TestA304WithoutAQuestionIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := &site{answer: func(*http.Request) *http.Response { return reply(http.StatusNotModified, nil) }}
		g := follow(t, signer(t), one, nil)
		if _, err := g.Pull(t.Context()); err == nil || !strings.Contains(err.Error(), "304") {
			t.Error(err)
		}
	})
}

// What a compiler refuses is not fetched again while its tag stays; a good one that comes
// after is.
func TestARefusedBundleIsNotFetchedAgain(t *testing.T) {
	for _, tags := range []bool{true, false} {
		t.Run(fmt.Sprint(tags), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tag := func(s string) string {
					if !tags {
						return ""
					}
					return s
				}
				key, one := signer(t), new(site)
				one.set(pack(t, key, 1, "a"), tag(`"1"`))
				g := follow(t, key, one, nil)
				defer g.run(t)()
				g.serves(t, "a")
				g.refusing = errors.New("prompts/a.yaml: no such model")
				one.set(pack(t, key, 2, "b"), tag(`"2"`))
				elapse(time.Hour)
				g.serves(t, "a")
				if tags && one.bodies() != 2 {
					t.Errorf("%d bodies were sent", one.bodies())
				}
				if n := strings.Count(g.logs.String(), "a bundle is refused"); n != 1 {
					t.Errorf("%d refusals in the log:\n%s", n, g.logs)
				}
				s := g.Status()
				if !strings.Contains(s.Refused, "no such model") || !strings.Contains(s.Refused, "has again") || s.Serial != 1 {
					t.Errorf("%+v", s)
				}
				// The source has something else than what is served.
				if age := time.Since(s.Confirmed); age < 59*time.Minute {
					t.Errorf("what is served is confirmed, age %s", age)
				}
				g.refusing = nil
				elapse(time.Hour)
				g.serves(t, "a")
				// A tag that repeats after another one is known still.
				one.set(pack(t, key, 1, "a"), tag(`"1"`))
				elapse(time.Minute)
				if s := g.Status(); s.Refused != "" || time.Since(s.Confirmed) > time.Minute {
					t.Errorf("%+v", s)
				}
				one.set(pack(t, key, 2, "b"), tag(`"2"`))
				elapse(time.Minute)
				g.serves(t, "a")
				if s := g.Status(); s.Refused == "" {
					t.Errorf("%+v", s)
				}
				o := g.pulled(t, Fresh)
				if s := g.Status(); o.Serial != 2 || o.URL != address || s.Refused != "" {
					t.Errorf("%+v, %+v", o, s)
				}
				g.serves(t, "a", "b")
				elapse(time.Minute) // and it is confirmed from now on
				if s := g.Status(); s.Refused != "" || time.Since(s.Confirmed) > time.Minute {
					t.Errorf("%+v", s)
				}
				one.set(pack(t, key, 3, "c"), tag(`"3"`))
				elapse(time.Minute)
				g.serves(t, "a", "b", "c")
			})
		})
	}
}

// What was refused is known by its bytes where it gets another tag, and by that tag from then
// on.
func TestWhatWasRefusedGetsAnotherTag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		bad := pack(t, signer(t), 1, "a")
		one.set(bad, `"1"`)
		g := follow(t, key, one, nil)
		defer g.run(t)()
		synctest.Wait()
		one.set(bad, `"2"`)
		elapse(time.Hour)
		if s := g.Status(); one.bodies() != 2 || strings.Count(g.logs.String(), "refused") != 1 {
			t.Errorf("%d bodies, %+v\n%s", one.bodies(), s, g.logs)
		}
	})
}

// A pull finds other bytes under the tag of what was refused, and that tag is a good one's from
// then on.
func TestATagThatIsGoodByNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, signer(t), 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		defer g.run(t)()
		synctest.Wait()
		one.set(pack(t, key, 1, "a"), `"1"`)
		elapse(time.Minute)
		g.serves(t)
		g.pulled(t, Fresh)
		elapse(time.Minute)
		if s := g.Status(); s.Refused != "" || time.Since(s.Confirmed) > 30*time.Second || one.bodies() != 2 {
			t.Errorf("%+v, %d bodies", s, one.bodies())
		}
	})
}

// A source that goes back to what is served is believed, also where the refused one's tag was
// sent.
func TestTheGoodOneComesBackAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		good := pack(t, key, 1, "a")
		one.set(good, `"1"`)
		g := follow(t, key, one, nil)
		defer g.run(t)()
		synctest.Wait()
		one.set(pack(t, signer(t), 2, "b"), `"2"`)
		elapse(time.Minute)
		if s := g.Status(); !strings.Contains(s.Refused, "another key") {
			t.Errorf("%+v", s)
		}
		one.set(good, `"1"`)
		elapse(time.Minute)
		g.serves(t, "a")
		if s := g.Status(); s.Refused != "" || time.Since(s.Confirmed) > 30*time.Second {
			t.Errorf("%+v", s)
		}
	})
}

// Each reason to refuse has its own sentence, and nothing of it is served.
func TestWhatIsRefused(t *testing.T) {
	key, other := signer(t), signer(t)
	good := pack(t, key, 5, "a")
	for _, test := range []struct {
		name, want string
		packed     []byte
	}{
		{"another key", "another key", pack(t, other, 6, "b")},
		{"an older serial", "older than 5", pack(t, key, 4, "b")},
		{"the same serial", "the serial 5", pack(t, key, 5, "b")},
		{"another scope", "for the scope", packFor(t, key, bundle.Manifest{Serial: 6, Scope: "bank"}, "b")},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := new(site)
				one.set(good, `"5"`)
				g := follow(t, key, one, nil)
				g.pulled(t, Fresh)
				one.set(test.packed, `"6"`)
				o := g.pulled(t, Refused)
				if s := g.Status(); !strings.Contains(o.Reason, test.want) || s.Refused != o.Reason || s.Serial != 5 || o.Serial != 5 {
					t.Errorf("%+v, %+v", o, s)
				}
				g.serves(t, "a")
			})
		})
	}
}

func TestARollbackThatIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, key, 5, "a"), `"5"`)
		g := follow(t, key, one, nil, func(c *Config) { c.AllowRollback = true })
		g.pulled(t, Fresh)
		one.set(pack(t, key, 4, "b"), `"4"`)
		g.pulled(t, Fresh)
		g.serves(t, "a", "b")
	})
}

// Bytes that a connection cut are fetched again though they had the tag of the good ones. The
// same damaged bytes twice are refused.
func TestDamagedBytesAreFetchedOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		good := pack(t, key, 1, "a")
		one.set(good[:len(good)/2], `"1"`)
		g := follow(t, key, one, nil)
		defer g.run(t)()
		synctest.Wait()
		if s := g.Status(); s.Error == "" || s.Refused != "" {
			t.Errorf("%+v", s)
		}
		one.set(good, `"1"`)
		elapse(30 * time.Second)
		g.serves(t, "a")

		one.set(good[:len(good)/3], `"2"`)
		elapse(10 * time.Minute)
		if s := g.Status(); s.Refused == "" || s.Error != "" || one.bodies() != 4 {
			t.Errorf("%+v, %d bodies", s, one.bodies())
		}
		one.set(pack(t, key, 3, "c"), `"3"`)
		elapse(time.Minute)
		g.serves(t, "a", "c")
	})
}

// What is refused and then damaged, with nothing served, leaves a source that is asked.
func TestDamageAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, signer(t), 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		defer g.run(t)()
		synctest.Wait()
		good := pack(t, key, 2, "b")
		one.set(good[:99], `"2"`)
		for one.bodies() < 2 {
			elapse(time.Second)
		}
		one.set(good, `"2"`)
		elapse(time.Minute)
		g.serves(t, "b")
	})
}

// The same files, packed or signed once more, or with other words about them, are not
// activated.
func TestTheSameFilesAreNotActivated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, next, one := signer(t), signer(t), new(site)
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, nil, func(c *Config) { c.Keys = append(c.Keys, next.Public()) })
		g.pulled(t, Fresh)
		elapse(time.Minute)
		one.set(pack(t, key, 1, "a"), `"same bytes"`)
		g.pulled(t, Unchanged)
		for serial := range int64(2) {
			one.set(pack(t, next, 1+serial, "a"), fmt.Sprint(serial))
			g.pulled(t, Fresh)
		}
		g.serves(t, "a")
		if s := g.Status(); s.Serial != 2 || time.Since(s.Confirmed) != 0 {
			t.Errorf("%+v", s)
		}
		if b, _ := g.Latest().Get(); b.KeyID != next.Public().ID() {
			t.Error("what is relayed and kept is by the old key")
		}
	})
}

// Thirty days without any source change no answer, and the status says the age.
func TestThirtyDaysWithoutASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const month = 30 * 24 * time.Hour
		key, one, two := signer(t), new(site), &site{down: errDown}
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, two)
		defer g.run(t)()
		synctest.Wait()
		began := time.Now()
		one.change(func() { one.down = errDown })
		elapse(month)
		g.serves(t, "a")
		s := g.Status()
		if s.Serial != 1 || !s.Confirmed.Equal(began) || strings.Count(s.Error, "connection refused") != 2 {
			t.Errorf("%+v", s)
		}
		if b, _ := g.Latest().Get(); b == nil || b.Serial != 1 {
			t.Error("nothing is served")
		}
		// 30 to 60 s apart.
		if n := one.count(); n < int(month/time.Minute) || n > int(month/(30*time.Second)) {
			t.Errorf("%d requests in 30 days", n)
		}
		if lines := strings.Count(g.logs.String(), "\n"); lines > 4 {
			t.Errorf("%d lines of log:\n%s", lines, g.logs)
		}
		one.change(func() { one.down = nil })
		elapse(time.Minute)
		if s := g.Status(); time.Since(s.Confirmed) > time.Minute || strings.Contains(s.Error, address) {
			t.Errorf("%+v", s)
		}
	})
}

// A start from disk without a source says the age as well.
func TestAStartWithoutASource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		stop := g.run(t)
		synctest.Wait()
		elapse(24 * time.Hour)
		stop()
		confirmed := g.Status().Confirmed
		one.change(func() { one.down = errDown })
		elapse(time.Hour)
		g.start()
		g.restored(t)
		defer g.run(t)()
		elapse(time.Hour)
		g.serves(t, "a", "a")
		if s := g.Status(); !s.Confirmed.Equal(confirmed) || s.Serial != 1 {
			t.Errorf("%+v, want %s", s, confirmed)
		}
		if age := time.Since(confirmed); age < 2*time.Hour || age > 2*time.Hour+30*time.Second {
			t.Errorf("age %s", age)
		}
		// The tag outlives the restart, so a fleet that restarts fetches nothing.
		one.change(func() { one.down = nil })
		elapse(2 * time.Minute)
		if one.bodies() != 1 || time.Since(g.Status().Confirmed) > 30*time.Second {
			t.Errorf("%d bodies, %+v", one.bodies(), g.Status())
		}
	})
}

func TestRefusedCredentialsBackOffAndNeverStop(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		synctest.Test(t, func(t *testing.T) {
			key, one := signer(t), new(site)
			one.answer = func(*http.Request) *http.Response { return reply(status, []byte("who?")) }
			g := follow(t, key, one, nil)
			defer g.run(t)()
			elapse(24 * time.Hour)
			if s := g.Status(); !strings.Contains(s.Error, fmt.Sprint(status)) || !strings.Contains(s.Error, "credentials") {
				t.Errorf("%+v", s)
			}
			if n := one.count(); n < 24*4 || n > 24*9 {
				t.Errorf("%d requests in a day", n)
			}
			one.change(func() { one.answer = nil })
			one.set(pack(t, key, 1, "a"), `"1"`)
			elapse(16 * time.Minute)
			g.serves(t, "a")
			if s := g.Status(); s.Error != "" {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestRetryAfterCountsWithinBounds(t *testing.T) {
	for text, bounds := range map[string][2]time.Duration{
		"120": {120 * time.Second, 150 * time.Second}, "0": {0, time.Second}, "86400000": {time.Hour, 75 * time.Minute}, "soon": {0, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			one := &site{answer: func(*http.Request) *http.Response {
				response := reply(http.StatusServiceUnavailable, nil)
				response.Header.Set("Retry-After", text)
				return response
			}}
			g := follow(t, signer(t), one, nil)
			defer g.run(t)()
			began := time.Now()
			for one.count() < 2 {
				elapse(100 * time.Millisecond)
			}
			if took := one.last().at.Sub(began); took < bounds[0] || took > bounds[1] {
				t.Errorf("Retry-After: %s: asked again after %s", text, took)
			}
		})
	}
}

// The source is asked first each time, and each one is left alone after it failed.
func TestTheMirrorIsTriedNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one, two := signer(t), &site{down: errDown}, new(site)
		two.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, two)
		defer g.run(t)()
		g.serves(t, "a")
		elapse(10 * time.Minute)
		s := g.Status()
		if time.Since(s.Confirmed) > 30*time.Second || !strings.HasPrefix(s.Error, address+": ") || strings.Contains(s.Error, "two.example") {
			t.Errorf("%+v", s)
		}
		if n := two.count(); n < 15 || n > 61 {
			t.Errorf("the mirror was asked %d times", n)
		}
		if n := one.count(); n < 10 || n > 30 {
			t.Errorf("the source was asked %d times", n)
		}
		// The tag of the mirror is not the source's, though they look alike.
		one.set(pack(t, key, 2, "b"), `"1"`)
		one.change(func() { one.down = nil })
		asked := two.count()
		elapse(2 * time.Minute)
		g.serves(t, "a", "b")
		if n := two.count(); n > asked+5 {
			t.Errorf("the mirror was asked %d times though the source answers", n-asked)
		}
		// A mirror that lags behind confirms nothing, by a 304 to its own tag either.
		one.change(func() { one.down = errDown })
		was := g.Status().Confirmed
		elapse(time.Hour)
		g.serves(t, "a", "b")
		if s := g.Status(); s.Confirmed.Sub(was) > time.Minute || !strings.Contains(s.Refused, "older") {
			t.Errorf("%+v", s)
		}
		if two.bodies() != 2 {
			t.Errorf("the mirror sent %d bodies", two.bodies())
		}
		two.set(pack(t, key, 3, "c"), `"3"`)
		elapse(time.Minute)
		g.serves(t, "a", "b", "c")
		// What failed at the mirror is shown until the source answers: it is not asked then.
		two.change(func() { two.down = errDown })
		elapse(2 * time.Minute)
		if s := g.Status(); strings.Count(s.Error, errDown.Error()) != 2 {
			t.Errorf("both are away: %+v", s)
		}
		one.set(pack(t, key, 4, "d"), `"4"`)
		one.change(func() { one.down = nil })
		elapse(2 * time.Minute)
		if s := g.Status(); s.Serial != 4 || s.Error != "" {
			t.Errorf("%+v", s)
		}
	})
}

// A source that comes and goes: each bundle is served once, and all is well in the end.
func TestASourceThatFlaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, key, 1, "1"), `"1"`)
		g := follow(t, key, one, nil)
		defer g.run(t)()
		want := []string{"1"}
		g.serves(t, want...)
		for i := range 50 {
			switch i % 3 {
			case 0:
				one.change(func() { one.down = errDown })
			case 1:
				one.change(func() {
					one.down = nil
					one.answer = func(*http.Request) *http.Response { return reply(http.StatusBadGateway, []byte("<html>")) }
				})
			case 2:
				one.change(func() { one.answer = nil })
				one.set(pack(t, key, int64(i), fmt.Sprint(i)), fmt.Sprintf(`"%d"`, i))
				want = append(want, fmt.Sprint(i))
			}
			elapse(2 * time.Minute)
			g.serves(t, want...)
		}
		one.change(func() { one.answer, one.down = nil, nil })
		elapse(2 * time.Minute)
		if s := g.Status(); s.Error != "" || time.Since(s.Confirmed) > 30*time.Second {
			t.Errorf("%+v", s)
		}
		for text, want := range map[string]int{"a source of the bundle fails": 17, "answers again": 17, "a new bundle is served": len(want), "level=": 34 + len(want)} {
			if n := strings.Count(g.logs.String(), text); n != want {
				t.Errorf("%d lines of the log have %q, want %d:\n%s", n, text, want, g.logs)
			}
		}
	})
}

// Replicas behind one name that have different tags, and bundles, are polled and not asked
// all the time.
func TestReplicasThatDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one, n := signer(t), new(site), 0
		packed := [][]byte{pack(t, key, 1, "a"), pack(t, key, 2, "b")}
		one.answer = func(*http.Request) *http.Response {
			n++
			response := reply(http.StatusOK, packed[n%2])
			response.Header.Set("ETag", fmt.Sprintf(`"%d"`, n%2))
			response.Header.Set("Content-Type", bundle.MediaType)
			return response
		}
		g := follow(t, key, one, nil)
		defer g.run(t)()
		elapse(time.Hour)
		g.serves(t, "b")
		if one.count() > 370 {
			t.Errorf("%d requests in an hour", one.count())
		}
		if lines := strings.Count(g.logs.String(), "a bundle is refused"); lines != 1 {
			t.Errorf("%d refusals in the log", lines)
		}
	})
}

// A Downloader whose context ends while it fetches serves nothing any more.
func TestWhatIsFetchedTooLateIsNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, key, 1, "a"), `"1"`)
		ctx, cancel := context.WithCancel(t.Context())
		g := follow(t, key, roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := one.RoundTrip(r)
			cancel()
			return response, err
		}), nil)
		g.Run(ctx)
		g.serves(t)
		if s := g.Status(); s.Serial != 0 || s.Error != "" || g.logs.Len() > 0 {
			t.Errorf("%+v\n%s", s, g.logs)
		}
	})
}

func TestPullReportsWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := &site{down: errDown}, &site{down: errDown}
		g := follow(t, signer(t), one, two)
		_, err := g.Pull(t.Context())
		if err == nil || strings.Count(err.Error(), "connection refused") != 2 || !strings.Contains(err.Error(), "two.example") {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.Pull(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// What a cache answers is as old as it says.
func TestTheAgeOfACacheCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := signer(t)
		one := &site{answer: func(*http.Request) *http.Response {
			response := reply(http.StatusOK, pack(t, key, 1, "a"))
			response.Header.Set("Age", "7200")
			return response
		}}
		g := follow(t, key, one, nil)
		g.pulled(t, Fresh)
		if age := time.Since(g.Status().Confirmed); age != 2*time.Hour {
			t.Errorf("age %s", age)
		}
	})
}

// The requests of a fleet that starts at once are spread evenly, each time anew.
func TestAFleetIsSpreadEvenly(t *testing.T) {
	const nodes, slots = 10_000, 20
	var all [4][slots]int
	for n := range nodes {
		d := New(Config{Node: fmt.Sprintf("gateway-%d.eu.example", n)})
		for i := range len(all) - 1 {
			all[i][d.draw(slots)]++
		}
		// After an outage, from 30 s to a minute.
		wait := d.backoff(9, errDown) - 30*time.Second
		all[len(all)-1][wait*slots/(30*time.Second)]++
	}
	for i, counts := range all {
		for slot, n := range counts {
			// Five deviations of the 500 that are expected.
			if n < 390 || n > 610 {
				t.Errorf("draw %d: %d nodes in slot %d", i, n, slot)
			}
		}
	}
}
