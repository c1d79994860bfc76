package download

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
)

// A source that answers with the media type of bundles is asked to wait, from the second
// request on, and an edit is served at once.
func TestLongPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), &site{media: bundle.MediaType + "; charset=x"}
		one.set(pack(t, key, 1, "a"), `"1"`)
		one.media = bundle.MediaType
		g := follow(t, key, one, nil)
		stop := g.run(t)
		g.serves(t, "a")
		if one.last().header.Get("Prefer") != "" {
			t.Error("the first request waits")
		}
		elapse(10 * time.Minute)
		// Each wait is 30 to 45 s.
		if n := one.count(); n < 13 || n > 22 {
			t.Errorf("%d requests in 10 minutes", n)
		}
		if age := time.Since(g.Status().Confirmed); age > 46*time.Second {
			t.Errorf("age %s", age)
		}
		for serial := range int64(5) {
			one.set(pack(t, key, 2+serial, strconv.FormatInt(serial, 10)), strconv.FormatInt(serial, 10))
			synctest.Wait()
			if s := g.Status(); s.Serial != 2+serial {
				t.Errorf("%+v", s)
			}
			elapse(2 * time.Second)
		}
		// A restart asks once without a wait, which confirms what is on disk, and then waits.
		stop()
		g.start()
		g.restored(t)
		asked, bodies := one.count(), one.bodies()
		defer g.run(t)()
		synctest.Wait()
		if one.last().header.Get("Prefer") != "" || !g.Status().Confirmed.Equal(time.Now()) {
			t.Errorf("%v", one.last().header)
		}
		elapse(2 * time.Second)
		wait, err := strconv.Atoi(strings.TrimPrefix(one.last().header.Get("Prefer"), "wait="))
		if one.count() != asked+2 || one.bodies() != bodies || err != nil || wait < 30 || wait > 45 {
			t.Errorf("%d requests, the last has %v", one.count()-asked, one.last().header)
		}
	})
}

// A source that is asked to wait and can't is polled.
func TestASourceThatDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		packed := pack(t, key, 1, "a")
		one.answer = func(r *http.Request) *http.Response {
			response := reply(http.StatusOK, packed)
			if r.Header.Get("If-None-Match") == `"1"` {
				response = reply(http.StatusNotModified, nil)
			}
			response.Header.Set("ETag", `"1"`)
			response.Header.Set("Content-Type", bundle.MediaType)
			return response
		}
		g := follow(t, key, one, nil)
		defer g.run(t)()
		elapse(time.Hour)
		if n := one.count(); n < 120 || n > 370 {
			t.Errorf("%d requests in an hour", n)
		}
	})
}

// A source with the media type and without tags has nothing to wait with.
func TestASourceWithoutTagsIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), &site{media: bundle.MediaType}
		one.set(pack(t, key, 1, "a"), "")
		g := follow(t, key, one, nil)
		defer g.run(t)()
		elapse(time.Hour)
		g.serves(t, "a")
		if n := one.count(); n < 120 || n > 370 || one.last().header.Get("Prefer") != "" {
			t.Errorf("%d requests in an hour, the last with %v", n, one.last().header)
		}
	})
}

// A proxy that cuts long polls leaves a source that is polled.
func TestLongPollsThatAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), &site{media: bundle.MediaType}
		one.set(pack(t, key, 1, "a"), `"1"`)
		cut := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Prefer") != "" {
				return nil, io.ErrUnexpectedEOF
			}
			return one.RoundTrip(r)
		})
		g := follow(t, key, cut, nil)
		defer g.run(t)()
		elapse(time.Hour)
		if n := one.count(); n < 60 || n > 370 || time.Since(g.Status().Confirmed) > time.Minute {
			t.Errorf("%d requests in an hour, %+v", n, g.Status())
		}
	})
}

// After an outage the source is asked to wait again, the backoff starts anew, and no
// connection of before is used.
func TestLongPollsAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), &closing{site: &site{media: bundle.MediaType}}
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, nil, nil, func(c *Config) { c.Client = &http.Client{Transport: one} })
		defer g.run(t)()
		for range 3 {
			elapse(time.Minute)
			if one.last().header.Get("Prefer") == "" {
				t.Error("it is polled")
			}
			one.change(func() { one.down = errDown })
			failed := time.Now()
			synctest.Wait()
			elapse(5 * time.Second)
			if n := one.count(); one.requests[n-1].at.Sub(failed) < time.Second || one.requests[n-3].at.Sub(failed) > 5*time.Second {
				t.Errorf("%d requests, the last after %s", n, one.last().at.Sub(failed))
			}
			one.change(func() { one.down = nil })
			elapse(time.Minute)
		}
		if one.closed < 3 {
			t.Errorf("idle connections were closed %d times", one.closed)
		}
	})
}

// closing counts how often idle connections are closed.
type closing struct {
	*site
	closed int
}

func (c *closing) CloseIdleConnections() { c.closed++ }

// What was refused can be waited with, and Pull doesn't wait for that.
func TestALongPollWithWhatWasRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), &site{media: bundle.MediaType}
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		defer g.run(t)()
		synctest.Wait()
		one.set(pack(t, signer(t), 2, "b"), `"2"`)
		elapse(time.Hour)
		if n := one.bodies(); n != 2 {
			t.Errorf("%d bodies", n)
		}
		if r := one.last(); r.header.Get("If-None-Match") != `"2"` || r.header.Get("Prefer") == "" {
			t.Errorf("asked with %v", r.header)
		}
		before := time.Now()
		g.pulled(t, Refused)
		one.set(pack(t, key, 3, "c"), `"3"`)
		g.serves(t, "a", "c")
		if !before.Equal(time.Now()) {
			t.Error("it took time")
		}
	})
}

// A pull while a long poll waits wakes nothing, and what the long poll brings then is known.
func TestAPullDuringALongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), &site{media: bundle.MediaType}
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		defer g.run(t)()
		elapse(5 * time.Second)
		asked := one.count()
		g.pulled(t, Unchanged)
		if one.count() != asked+1 || one.last().header.Get("Prefer") != "" {
			t.Errorf("%d requests, the last with %v", one.count()-asked, one.last().header)
		}
		// The source changes, and wakes nobody.
		one.mu.Lock()
		one.packed, one.tag = pack(t, key, 2, "b"), `"2"`
		one.mu.Unlock()
		g.pulled(t, Fresh)
		elapse(2 * time.Minute)
		g.serves(t, "a", "b")
		if s := g.Status(); s.Refused != "" || time.Since(s.Confirmed) > 46*time.Second {
			t.Errorf("%+v", s)
		}
	})
}

// The 304 of a long poll speaks of the tag that was sent, and not of what a pull brought
// meanwhile.
func TestA304ThatIsLateConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), &site{media: bundle.MediaType}
		one.set(pack(t, key, 1, "a"), `"1"`)
		var late atomic.Int64
		g := follow(t, key, roundTripper(func(r *http.Request) (*http.Response, error) {
			if wait := time.Duration(late.Load()); wait > 0 && r.Header.Get("Prefer") != "" {
				time.Sleep(wait)
				late.Store(0)
				return reply(http.StatusNotModified, nil), nil
			}
			return one.RoundTrip(r)
		}), nil)
		late.Store(int64(20 * time.Second))
		defer g.run(t)()
		elapse(5 * time.Second)
		one.set(pack(t, key, 2, "b"), `"2"`)
		g.pulled(t, Fresh)
		was := g.Status().Confirmed
		elapse(17 * time.Second)
		if s := g.Status(); late.Load() != 0 || !s.Confirmed.Equal(was) || strings.Contains(g.logs.String(), "fails") {
			t.Errorf("%+v, want %s\n%s", s, was, g.logs)
		}
	})
}

// Neither does it confirm what a pull brought from the mirror meanwhile.
func TestA304OfASourceThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one, two := signer(t), &site{media: bundle.MediaType}, new(site)
		one.set(pack(t, key, 1, "a"), `"1"`)
		var down atomic.Bool
		g := follow(t, key, roundTripper(func(r *http.Request) (*http.Response, error) {
			if down.Load() && r.Header.Get("Prefer") == "" {
				return nil, errDown
			}
			return one.RoundTrip(r)
		}), two)
		defer g.run(t)()
		elapse(5 * time.Second) // the long poll waits
		down.Store(true)
		two.set(pack(t, key, 2, "b"), `"2"`)
		g.pulled(t, Fresh)
		was := g.Status().Confirmed
		asked := one.count()
		elapse(45 * time.Second)
		g.serves(t, "a", "b")
		if s := g.Status(); one.count() > asked || s.Confirmed.Sub(was) > 0 && two.count() == 1 {
			t.Errorf("%+v, want %s; %d and %d requests", s, was, one.count()-asked, two.count())
		}
	})
}

// A source that says nothing is given up, and the mirror is asked.
func TestSilence(t *testing.T) {
	for name, quiet := range map[string]func(*http.Request) (*http.Response, error){
		"no answer": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"no end": func(r *http.Request) (*http.Response, error) {
			response := reply(http.StatusOK, nil)
			response.Body = io.NopCloser(drip{r.Context()})
			return response, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				key, two := signer(t), new(site)
				two.set(pack(t, key, 1, "a"), `"1"`)
				g := follow(t, key, roundTripper(quiet), two)
				defer g.run(t)()
				elapse(6 * time.Minute)
				g.serves(t, "a")
				if s := g.Status(); !strings.Contains(s.Error, "too long") {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// drip is a body that never ends: a byte a second.
type drip struct{ ctx context.Context }

func (d drip) Read(b []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(time.Second):
		return copy(b, "x"), nil
	}
}

// A bundle that is too large is read up to the bound, once.
func TestABundleThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one, read := signer(t), new(site), 0
		one.answer = func(r *http.Request) *http.Response {
			if r.Header.Get("If-None-Match") == `"huge"` {
				return reply(http.StatusNotModified, nil)
			}
			response := reply(http.StatusOK, nil)
			response.ContentLength = -1
			response.Header.Set("ETag", `"huge"`)
			response.Body = io.NopCloser(endless{&read})
			return response
		}
		g := follow(t, key, one, nil)
		defer g.run(t)()
		elapse(time.Hour)
		if s := g.Status(); !strings.Contains(s.Refused, "64 MiB") || read > bundle.MaxPacked+1<<20 || one.bodies() != 1 {
			t.Errorf("%+v, %d bytes read", s, read)
		}
	})
}

type endless struct{ read *int }

func (e endless) Read(b []byte) (int, error) {
	*e.read += len(b)
	return len(b), nil
}

// Credentials go to the host of the URL alone, over what the URL says.
func TestRedirects(t *testing.T) {
	const token = "Bearer geheim-1"
	key := signer(t)
	packed := pack(t, key, 1, "a")
	for _, test := range []struct {
		name, from, to string
		authorized     bool
		want           string // in the error
	}{
		{"same host", "https://one.example/a?token=geheim-2", "/b", true, ""},
		{"other host", "https://one.example/a?token=geheim-2", "https://two.example/b", false, ""},
		{"subdomain", "https://example/a?token=geheim-2", "https://two.example/b", false, ""},
		{"other port", "https://one.example/a", "https://one.example:8443/b", false, ""},
		{"upgrade", "http://one.example/a", "https://one.example/b", false, ""},
		{"downgrade", "https://one.example/a", "http://one.example/b", false, "from https to http"},
		{"loop", "https://one.example/a?token=geheim-2", "/a", true, "more than 5"},
		{"user of the same host", "https://ops:geheim-3@one.example/a", "https://one.example/b", true, ""},
		{"no http", "https://one.example/a", "file:///etc/passwd", false, "from https to file"},
		{"user", "https://ops:geheim-3@one.example/a", "https://two.example/b", false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last *http.Request
				all := roundTripper(func(r *http.Request) (*http.Response, error) {
					last = r
					if r.URL.Path == "/a" {
						response := reply(http.StatusFound, nil)
						response.Header.Set("Location", test.to)
						return response, nil
					}
					return reply(http.StatusOK, packed), nil
				})
				g := follow(t, key, nil, nil, func(c *Config) {
					c.URL, c.Client = test.from, &http.Client{Transport: all}
					c.Authorize = func(r *http.Request) error {
						r.Header.Set("Authorization", token)
						r.Header.Set("X-Api-Key", token)
						return nil
					}
				})
				_, err := g.Pull(t.Context())
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Fatal(err)
				}
				if got := last.Header.Get("Authorization") == token && last.Header.Get("X-Api-Key") == token; err == nil && got != test.authorized {
					t.Errorf("sent %v", last.Header)
				}
				if from, _, _ := strings.Cut(test.from, "@"); err == nil && test.authorized && strings.HasPrefix(test.name, "user") && !strings.HasPrefix(last.URL.String(), from+"@") {
					t.Errorf("asked %s", last.URL)
				}
				if sent := last.Header.Get("Authorization") + last.Header.Get("X-Api-Key") + last.Header.Get("Referer"); err == nil && !test.authorized && sent != "" {
					t.Errorf("sent %s", sent)
				}
				if err == nil && last.Header.Get("Accept-Encoding") != "identity" {
					t.Errorf("sent %v", last.Header)
				}
				if s := g.Status(); strings.Contains(s.URL+s.Error+g.logs.String(), "geheim") {
					t.Errorf("a secret is in %+v or\n%s", s, g.logs)
				}
			})
		})
	}
}

func TestFiveRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, left := signer(t), 5
		packed := pack(t, key, 1, "a")
		g := follow(t, key, roundTripper(func(*http.Request) (*http.Response, error) {
			if left == 0 {
				return reply(http.StatusOK, packed), nil
			}
			left--
			response := reply(http.StatusTemporaryRedirect, nil)
			response.Header.Set("Location", "/next")
			return response, nil
		}), nil)
		g.pulled(t, Fresh)
	})
}

// Neither errors nor the log have what a URL hides.
func TestNoSecretIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, address := range []string{"https://ops:geheim@one.example/x?token=geheim", "https://one.example/%zz?token=geheim", "one.example?geheim"} {
			one := &site{down: errDown}
			g := follow(t, signer(t), one, nil, func(c *Config) { c.URL = address })
			o, err := g.Pull(t.Context())
			if s := g.Status(); err == nil || s.Error == "" || strings.Contains(err.Error()+s.URL+s.Error+o.URL+g.logs.String(), "geheim") {
				t.Errorf("%v, %+v, %+v\n%s", err, o, s, g.logs)
			}
		}
	})
}

func TestAuthorize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, key, 1, "a"), `"1"`)
		missing := errors.New("the environment variable BUNDLES is not set")
		g := follow(t, key, one, nil, func(c *Config) {
			c.Authorize = func(r *http.Request) error {
				r.Header.Set("Authorization", "Bearer x")
				return missing
			}
		})
		if _, err := g.Pull(t.Context()); !errors.Is(err, missing) || one.count() != 0 {
			t.Errorf("%v, %d requests", err, one.count())
		}
		missing = nil
		g.pulled(t, Fresh)
		if got := one.last().header.Get("Authorization"); got != "Bearer x" {
			t.Errorf("sent %q", got)
		}
	})
}

// A body that breaks off is no bundle and refuses none.
func TestABodyThatBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		packed := pack(t, key, 1, "a")
		one.answer = func(*http.Request) *http.Response {
			response := reply(http.StatusOK, nil)
			response.Header.Set("ETag", `"1"`)
			response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(packed[:100]), broken{}))
			return response
		}
		g := follow(t, key, one, nil)
		defer g.run(t)()
		elapse(time.Minute)
		if s := g.Status(); s.Refused != "" || !strings.Contains(s.Error, "unexpected EOF") {
			t.Errorf("%+v", s)
		}
		one.change(func() { one.answer = nil })
		one.set(packed, `"1"`)
		elapse(time.Minute)
		g.serves(t, "a")
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
