package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// noLog logs nothing.
var noLog = zap.NewNop()

// signed is a folder of definitions whose bundle is signed.
type signed struct {
	t       *testing.T
	dir     string
	source  *definition.Source
	key     bundle.SigningKey
	changes int
}

func newSigned(t *testing.T) *signed {
	s := &signed{t: t, dir: t.TempDir(), key: gatewaytest.NewBundleKeys(t).Signing}
	s.write("flag.yaml", "type: boolean\ndefault: true\n")
	s.write("other.yaml", "type: boolean\ndefault: true\n")
	var err error
	if s.source, err = definition.Open(filepath.Join(s.dir, "definitions")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.source.Close() })
	return s
}

func (s *signed) write(name, text string) {
	gatewaytest.Write(s.t, s.dir, "definitions/remoteconfigs/"+name, text)
}

// edit changes the definitions as nothing before did.
func (s *signed) edit() {
	s.changes++
	s.write("flag.yaml", "type: string\ndefault: "+strings.Repeat("x", s.changes)+"\n")
	if err := s.source.Reload(); err != nil {
		s.t.Fatal(err)
	}
}

// start starts a signer.
func (s *signed) start(key bundle.SigningKey, scope string) *Signer {
	signer := &Signer{Source: s.source, Key: key, Scope: scope, File: filepath.Join(s.dir, "kept"), Logger: noLog}
	signer.Start()
	s.t.Cleanup(signer.Stop)
	return signer
}

// newest returns the newest bundle, read again from its bytes.
func newest(t *testing.T, s *Signer) *bundle.Bundle {
	t.Helper()
	b, _ := s.Latest.Get()
	if b == nil {
		t.Fatal("there is no bundle")
	}
	read, err := bundle.Read(b.Packed, []bundle.PublicKey{s.Key.Public()}, s.Scope)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// paths returns the paths of a bundle's files.
func paths(b *bundle.Bundle) string {
	var all []string
	for _, f := range b.Files {
		all = append(all, f.Path)
	}
	return strings.Join(all, " ")
}

func TestSigner(t *testing.T) {
	s := newSigned(t)
	signer := s.start(s.key, "production")
	first := newest(t, signer)
	if first.Revision != s.source.Snapshot().Revision || first.Scope != "production" || paths(first) != "remoteconfigs/flag.yaml remoteconfigs/other.yaml" {
		t.Errorf("%+v with %s", first.Manifest, paths(first))
	}

	_, next := signer.Latest.Get()
	s.edit()
	<-next
	second := newest(t, signer)
	if second.Revision == first.Revision || second.Serial <= first.Serial {
		t.Errorf("%+v after %+v", second.Manifest, first.Manifest)
	}

	// A comment makes other bytes of the same revision.
	s.write("other.yaml", "# why\ntype: boolean\ndefault: true\n")
	if err := s.source.Reload(); err != nil {
		t.Fatal(err)
	}
	third := newest(t, signer)
	if third.Revision != second.Revision || third.Serial <= second.Serial || third.Tag() == second.Tag() {
		t.Errorf("%+v after %+v", third.Manifest, second.Manifest)
	}

	// Nothing changes by a mistake, and by a loading without a change.
	s.write("other.yaml", "type: boolean\n")
	if err := s.source.Reload(); err == nil {
		t.Fatal("no mistake is found")
	}
	s.write("other.yaml", "# why\ntype: boolean\ndefault: true\n")
	if err := s.source.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := newest(t, signer); got.Serial != third.Serial || got.Tag() != third.Tag() {
		t.Errorf("%+v without a change", got.Manifest)
	}

	// What may remove definitions goes along, so that those who follow accept it.
	gatewaytest.Write(t, s.dir, "definitions/.cadenza-allow-empty", "")
	if err := s.source.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := newest(t, signer); paths(got) != ".cadenza-allow-empty remoteconfigs/flag.yaml remoteconfigs/other.yaml" {
		t.Errorf("the files are %s", paths(got))
	}

	signer.Stop()
	before := newest(t, signer)
	s.edit()
	if got := newest(t, signer); got.Serial != before.Serial {
		t.Error("a signer signs after its end")
	}
}

// TestSerials starts signers one after another, by clocks that go on and back.
func TestSerials(t *testing.T) {
	s := newSigned(t)
	other := gatewaytest.NewBundleKeys(t).Signing
	for _, test := range []struct {
		name      string
		kept      func(file string) // changes what the last signer kept
		edit      bool
		key       bundle.SigningKey
		scope     string
		same      bool // the bytes are those of the last bundle
		at        time.Duration
		lastAdded int64 // 0: the serial is the time; else it is the last one and this
	}{
		{name: "the first one", key: s.key},
		{name: "again", key: s.key, at: time.Hour, same: true},
		{name: "an edit", key: s.key, edit: true, at: time.Hour},
		{name: "an edit, the clock was set back", key: s.key, edit: true, lastAdded: 1},
		{name: "again, the clock was set back", key: s.key, same: true},
		{name: "another key, the clock was set back", key: other, lastAdded: 1},
		{name: "another scope, the clock was set back", key: other, scope: "staging", lastAdded: 1},
		{name: "half a bundle was kept", kept: truncate, key: other, scope: "staging", lastAdded: 1},
		{name: "nothing was kept", kept: func(file string) { os.Remove(file) }, key: other, scope: "staging", at: 2 * time.Hour},
		{name: "a folder is in its place", kept: func(file string) { os.Remove(file); os.Mkdir(file, 0o700) }, key: other, scope: "staging", at: 3 * time.Hour},
	} {
		var last, got *bundle.Bundle
		file := filepath.Join(s.dir, "kept")
		if serial, packed := (&Signer{File: file, Logger: noLog}).kept(); serial > 0 {
			last = &bundle.Bundle{Manifest: bundle.Manifest{Serial: serial}, Packed: packed}
		}
		if test.kept != nil {
			test.kept(file)
		}
		if test.edit {
			s.edit()
		}
		var now int64
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(test.at)
			now = time.Now().Unix()
			signer := &Signer{Source: s.source, Key: test.key, Scope: test.scope, File: file, Logger: noLog}
			signer.Start()
			signer.Stop()
			got = newest(t, signer)
		})
		want := now
		if test.lastAdded > 0 {
			want = last.Serial + test.lastAdded
		}
		if test.same {
			want = last.Serial
		}
		if same := last != nil && string(last.Packed) == string(got.Packed); got.Serial != want || same != test.same {
			t.Errorf("%s: serial %d, want %d; the same bytes: %t", test.name, got.Serial, want, same)
		}
		if got.Scope != test.scope {
			t.Errorf("%s: scope %q", test.name, got.Scope)
		}
	}
}

// truncate leaves half of a file.
func truncate(file string) {
	info, err := os.Stat(file)
	if err == nil {
		err = os.Truncate(file, info.Size()/2)
	}
	if err != nil {
		panic(err)
	}
}

// TestTwoSigners has the configuration of before and of after a reload sign an edit: both
// serve the same bytes.
func TestTwoSigners(t *testing.T) {
	s := newSigned(t)
	before, after := s.start(s.key, ""), s.start(s.key, "")
	for range 3 {
		if a, b := newest(t, before), newest(t, after); a.Tag() != b.Tag() {
			t.Errorf("%+v and %+v", a.Manifest, b.Manifest)
		}
		s.edit()
	}
}

// TestUnkept has edits while the file can't be written: they are served, with a serial each.
func TestUnkept(t *testing.T) {
	s := newSigned(t)
	core, logs := observer.New(zap.ErrorLevel)
	signer := &Signer{Source: s.source, Key: s.key, File: filepath.Join(s.dir, "definitions/remoteconfigs/flag.yaml", "kept"), Logger: zap.New(core)}
	synctest.Test(t, func(t *testing.T) {
		signer.sign()
		first := newest(t, signer)
		s.edit()
		signer.sign()
		if second := newest(t, signer); second.Serial != first.Serial+1 || second.Revision == first.Revision {
			t.Errorf("%+v after %+v", second.Manifest, first.Manifest)
		}
	})
	if logs.FilterMessage("the bundle can't be kept for the next start").Len() != 2 {
		t.Errorf("the log has %v", logs.All())
	}
}
