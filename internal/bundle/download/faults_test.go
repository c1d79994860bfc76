package download

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// life is a process that is killed at one of its points.
type life struct{ points, last int }

// killed is the panic of a process that is killed, which does nothing from then on.
type killed struct{}

func (l *life) point() {
	if l.points++; l.points > l.last {
		panic(killed{})
	}
}

// live reports whether the process outlived the function.
func (l *life) live(f func()) (alive bool) {
	defer func() {
		if r := recover(); r != nil && r != (killed{}) {
			panic(r)
		}
	}()
	f()
	return true
}

// disk is one whose process is killed before, within and after each step. Its power goes at
// the same time: what was not synced is not there.
func (l *life) disk(t *testing.T) disk {
	synced := make(map[string]bool)
	return disk{
		write: func(f *os.File, content []byte) (n int, err error) {
			for _, part := range [][]byte{content[:len(content)/3], content[len(content)/3:]} {
				l.point()
				written, err := f.Write(part)
				if n += written; err != nil {
					return n, err
				}
			}
			l.point()
			return n, nil
		},
		sync: func(f *os.File) error {
			l.point()
			synced[f.Name()] = true
			l.point()
			return nil
		},
		rename: func(from, to string) error {
			l.point()
			if !synced[from] {
				t.Error("a file that was not synced is renamed")
			}
			err := os.Rename(from, to)
			l.point()
			return err
		},
	}
}

// RoundTrip answers with a bundle, of which each 500 bytes are a point.
func (l *life) transport(one *site) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		l.point()
		response, err := one.RoundTrip(r)
		l.point()
		if err == nil {
			response.Body = io.NopCloser(&pieces{l, response.Body})
		}
		return response, err
	})
}

type pieces struct {
	life *life
	body io.Reader
}

func (p *pieces) Read(b []byte) (int, error) {
	p.life.point()
	return p.body.Read(b[:min(len(b), 100)])
}

// A process is killed at each point of fetching, writing and swapping. The next start serves
// a whole set: the new one or, while there was one, the old one.
func TestKilledAtEachPoint(t *testing.T) {
	for _, first := range []bool{true, false} {
		t.Run(fmt.Sprintf("first=%t", first), func(t *testing.T) {
			key, points := signer(t), 0
			for last := 0; ; last++ {
				alive := false
				synctest.Test(t, func(t *testing.T) {
					one := new(site)
					g := follow(t, key, one, nil)
					if !first {
						one.set(pack(t, key, 1, "old"), `"1"`)
						g.pulled(t, Fresh)
					}
					one.set(pack(t, key, 2, "new"), `"2"`)

					l := &life{last: last}
					client := g.config.Client
					g.config.Client = &http.Client{Transport: l.transport(one)}
					g.start()
					g.disk = l.disk(t)
					activate := g.Downloader.config.Activate
					g.Downloader.config.Activate = func(b *bundle.Bundle) error {
						l.point()
						err := activate(b)
						l.point()
						return err
					}
					alive = l.live(func() {
						g.restored(t)
						g.pulled(t, Fresh)
					})
					points = l.points

					one.change(func() { one.down = errDown })
					g.served, g.config.Client = nil, client
					g.start()
					g.restored(t)
					switch {
					case alive:
						g.serves(t, "new")
					case len(g.served) == 0 && first:
					case len(g.served) != 1 || g.served[0] != "new" && (first || g.served[0] != "old"):
						t.Errorf("killed at point %d: served %q", last, g.served)
					}
					if left, _ := os.ReadDir(filepath.Dir(g.config.File)); len(left) > 1 {
						t.Errorf("killed at point %d: %v", last, left)
					}
					one.change(func() { one.down = nil })
					if o, err := g.Pull(t.Context()); err != nil || o.Serial != 2 || g.served[len(g.served)-1] != "new" {
						t.Errorf("killed at point %d: %+v, %v", last, o, err)
					}
				})
				if alive {
					break
				}
			}
			if points < 20 {
				t.Errorf("%d points", points)
			}
		})
	}
}

// The environment of a process that follows a URL until it is killed: the URL, the file, and
// the public key.
const childURL, childFile, childKey = "CADENZA_TEST_URL", "CADENZA_TEST_FILE", "CADENZA_TEST_KEY"

func TestMain(m *testing.M) {
	if address := os.Getenv(childURL); address != "" {
		key, err := bundle.ParsePublicKey([]byte(os.Getenv(childKey)))
		if err != nil {
			panic(err)
		}
		d := New(Config{
			URL: address, File: os.Getenv(childFile), Keys: []bundle.PublicKey{key}, PollMin: 1, PollMax: 1,
			Activate: func(*bundle.Bundle) error { return nil },
		})
		if err := d.Restore(); err != nil {
			panic(err)
		}
		for {
			if o, err := d.Pull(context.Background()); err != nil || o.Result == Refused {
				panic(fmt.Sprint(o, err))
			}
		}
	}
	os.Exit(m.Run())
}

// Processes that write all the time are killed, and a whole bundle is left, none older than
// before.
func TestKilledProcesses(t *testing.T) {
	keys := gatewaytest.NewBundleKeys(t)
	var serial atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := serial.Add(1)
		_, _ = w.Write(pack(t, keys.Signing, n, strconv.FormatInt(n, 10)+string(bytes.Repeat([]byte("x"), 100_000))))
	}))
	defer server.Close()
	file, before := filepath.Join(t.TempDir(), "bundle"), int64(0)
	for round := range 10 {
		child := exec.CommandContext(t.Context(), os.Args[0])
		child.Env = append(os.Environ(), childURL+"="+server.URL, childFile+"="+file, childKey+"="+keys.Public)
		output := new(bytes.Buffer)
		child.Stdout, child.Stderr = output, output
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		from := serial.Load()
		for wait := time.Now().Add(time.Minute); serial.Load() < from+5 && time.Now().Before(wait); {
			time.Sleep(time.Duration(round) * 300 * time.Microsecond)
		}
		_ = child.Process.Kill()
		_ = child.Wait()
		d := New(Config{URL: server.URL, File: file, Keys: []bundle.PublicKey{keys.Signing.Public()}, Activate: func(b *bundle.Bundle) error {
			if b.Files[0].Content[:len(b.Revision)-1] != b.Revision[1:] {
				t.Errorf("%s has %.10s", b.Revision, b.Files[0].Content)
			}
			return nil
		}})
		if err := d.Restore(); err != nil || output.Len() > 0 {
			t.Fatalf("round %d: %v\n%s", round, err, output)
		}
		if s := d.Status(); s.Serial < before || s.Serial < from {
			t.Errorf("round %d: serial %d after %d, %d were sent", round, s.Serial, before, serial.Load())
		} else {
			before = s.Serial
		}
	}
}
