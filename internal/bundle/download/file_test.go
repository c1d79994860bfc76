package download

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
)

func TestTheFileIsTheBundleAsItCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		packed := pack(t, key, 1, "a")
		one.set(packed, `"1"`)
		g := follow(t, key, one, nil, func(c *Config) { c.URL += "?token=geheim" })
		g.pulled(t, Fresh)
		file, err := os.ReadFile(g.config.File)
		if err != nil {
			t.Fatal(err)
		}
		line, rest, _ := bytes.Cut(file, []byte("\n"))
		if !bytes.Equal(rest, packed) || !bytes.Contains(line, []byte(`"serial":1`)) || bytes.Contains(line, []byte("geheim")) {
			t.Errorf("%s, and %d bytes", line, len(rest))
		}
		info, err := os.Stat(g.config.File)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("mode %s", mode)
		}
		g.start()
		g.restored(t)
		g.serves(t, "a", "a")
		if b, _ := g.Latest().Get(); b == nil || !bytes.Equal(b.Packed, packed) {
			t.Error("what was restored is not relayed")
		}
		// An older bundle is refused after a restart as before.
		one.set(pack(t, key, 0+1, "b"), `"2"`)
		if o := g.pulled(t, Refused); !strings.Contains(o.Reason, "serial 1") {
			t.Errorf("%+v", o)
		}
	})
}

// A file that can't be believed is passed over, and what is fetched takes its place.
func TestAFileThatIsPassedOver(t *testing.T) {
	key, other := signer(t), signer(t)
	whole := func(t *testing.T) []byte {
		one := new(site)
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		g.pulled(t, Fresh)
		file, err := os.ReadFile(g.config.File)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}(t)
	line, packed, _ := bytes.Cut(whole, []byte("\n"))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, []byte("\n")) }
	flipped := bytes.Clone(whole)
	flipped[len(whole)-8] ^= 1 // of the checksum: others may unpack to the same
	tests := map[string]struct {
		file   []byte
		change func(*Config)
	}{
		"empty":         {file: nil},
		"a line":        {file: line},
		"cut":           {file: whole[:len(whole)-9]},
		"a bit":         {file: flipped},
		"no line":       {file: packed},
		"another line":  {file: join([]byte(`{"serial":`), packed)},
		"other serial":  {file: join([]byte(`{"serial":2}`), packed)},
		"longer":        {file: append(bytes.Clone(whole), "more"...)},
		"another key":   {file: whole, change: func(c *Config) { c.Keys = []bundle.PublicKey{other.Public()} }},
		"another scope": {file: whole, change: func(c *Config) { c.Scope = "bank" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := &site{down: errDown}
				g := follow(t, key, one, nil, func(c *Config) {
					if test.change != nil {
						test.change(c)
					}
				})
				if err := os.MkdirAll(filepath.Dir(g.config.File), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(g.config.File, test.file, 0o600); err != nil {
					t.Fatal(err)
				}
				err := g.Restore()
				if s := g.Status(); err == nil || s.FileError != err.Error() || !strings.Contains(s.FileError, g.config.File) || s.Serial != 0 || !s.Confirmed.IsZero() {
					t.Errorf("%v, %+v", err, s)
				}
				g.serves(t)
				// The file's tag is not believed either.
				by, m := key, bundle.Manifest{Serial: 1, Scope: g.config.Scope}
				if name == "another key" {
					by = other
				}
				one.set(packFor(t, by, m, "a"), `"1"`)
				one.change(func() { one.down = nil })
				g.pulled(t, Fresh)
				if s := g.Status(); s.FileError != "" {
					t.Errorf("%+v", s)
				}
				g.start()
				g.restored(t)
				g.serves(t, "a", "a")
			})
		})
	}
	t.Run("a folder", func(t *testing.T) {
		g := follow(t, key, nil, nil, func(c *Config) { c.File = t.TempDir() })
		if err := g.Restore(); err == nil {
			t.Error("a folder was restored")
		}
	})
	t.Run("what is not served", func(t *testing.T) {
		g := follow(t, key, nil, nil)
		if err := os.MkdirAll(filepath.Dir(g.config.File), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(g.config.File, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		g.refusing = errors.New("no such model")
		if err := g.Restore(); !errors.Is(err, g.refusing) || g.Status().Serial != 0 {
			t.Errorf("%v, %+v", err, g.Status())
		}
	})
}

// The keys rotate: two are known, the new one signs the same files, and then the old one goes.
func TestRotationOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next, one := signer(t), signer(t), &site{}
		one.set(pack(t, old, 1, "a"), `"1"`)
		g := follow(t, old, one, nil, func(c *Config) { c.Keys = append(c.Keys, next.Public()) })
		g.pulled(t, Fresh)
		one.set(pack(t, next, 1, "a"), `"2"`)
		g.pulled(t, Fresh)
		g.serves(t, "a")
		g.config.Keys = []bundle.PublicKey{next.Public()}
		one.change(func() { one.down = errDown })
		g.start()
		g.restored(t)
		g.serves(t, "a", "a")
	})
}

// A tag is of one URL: another one that has the same tag is asked for its bundle.
func TestTheTagOfAnotherURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		g.pulled(t, Fresh)
		g.config.URL = "https://two.example/bundle"
		two := new(site)
		two.set(pack(t, key, 2, "b"), `"1"`)
		g.config.Client = &http.Client{Transport: hosts{"two.example": two}}
		g.start()
		g.restored(t)
		g.pulled(t, Fresh)
		g.serves(t, "a", "a", "b")
		// The mirror by now is the URL of before, which is behind.
		g.config.Mirror = address
	})
}

// A bundle that can't be written is served, the status says so, and the next confirmation
// tries again. The tag that goes with it is its own, and not of what was refused since.
func TestAFileThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		var full atomic.Bool
		full.Store(true)
		g.disk.write = func(f *os.File, content []byte) (int, error) {
			if full.Load() {
				return 0, errors.New("no space left on device")
			}
			return f.Write(content)
		}
		defer g.run(t)()
		g.serves(t, "a")
		elapse(10 * time.Minute)
		if s := g.Status(); s.Serial != 1 || !strings.Contains(s.FileError, "no space left") {
			t.Errorf("%+v", s)
		}
		if n := strings.Count(g.logs.String(), "no space left"); n != 1 {
			t.Errorf("%d messages:\n%s", n, g.logs)
		}
		if left, _ := os.ReadDir(filepath.Dir(g.config.File)); len(left) != 0 {
			t.Errorf("%v is left", left)
		}
		one.set(pack(t, signer(t), 2, "b"), `"2"`)
		elapse(time.Minute)
		full.Store(false)
		elapse(time.Minute)
		if s := g.Status(); s.FileError != "" || s.Refused == "" {
			t.Errorf("%+v", s)
		}
		confirmed := g.Status().Confirmed
		again := &gateway{config: g.config, logs: g.logs}
		again.start()
		again.restored(t)
		again.serves(t, "a")
		asked := one.bodies()
		if again.pulled(t, Refused); one.bodies() != asked+1 || !again.Status().Confirmed.Equal(confirmed) {
			t.Errorf("%d bodies, %+v", one.bodies()-asked, again.Status())
		}
	})
}

// Somebody removes the file, and it is written again. What the mirror sent is asked of the
// mirror again.
func TestAFileThatIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one, two := signer(t), &site{down: errDown}, new(site)
		two.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, two)
		for range 2 {
			stop := g.run(t)
			synctest.Wait()
			if err := os.Remove(g.config.File); err != nil {
				t.Fatal(err)
			}
			elapse(time.Minute + time.Second)
			stop()
			g.start()
			g.restored(t)
		}
		g.serves(t, "a", "a", "a")
		g.pulled(t, Unchanged)
		if two.bodies() != 1 {
			t.Errorf("%d bodies", two.bodies())
		}
	})
}

// A tag that no request can carry, by damage or by a source, would fail each request after.
func TestATagThatCannotBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, key, 1, "a"), "\"\x01\"")
		g := follow(t, key, one, nil)
		g.pulled(t, Fresh)
		g.pulled(t, Unchanged)
		one.set(pack(t, key, 2, "b"), `"bcd"`)
		g.pulled(t, Fresh)
		file, err := os.ReadFile(g.config.File)
		if err != nil {
			t.Fatal(err)
		}
		damaged := bytes.Replace(file, []byte(`\"bcd`), []byte(`\bbcd`), 1)
		if bytes.Equal(damaged, file) {
			t.Fatalf("%.100q", file)
		}
		if err := os.WriteFile(g.config.File, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		g.start()
		g.restored(t)
		g.pulled(t, Unchanged)
		g.serves(t, "a", "b", "b")
	})
}

// A time of the file that is to come would hide the age.
func TestATimeToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, one := signer(t), new(site)
		one.set(pack(t, key, 1, "a"), `"1"`)
		g := follow(t, key, one, nil)
		g.pulled(t, Fresh)
		if err := os.Chtimes(g.config.File, time.Time{}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		g.start()
		g.restored(t)
		if s := g.Status(); s.Confirmed.After(time.Now()) {
			t.Errorf("%+v", s)
		}
	})
}
