package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/bundle"
	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/regular"
)

// Signer keeps the signed bundle of the definitions that a source serves.
//
// The serial of a bundle is the time of its signing in seconds since 1970, or one more than
// that of the last bundle if that is later: a clock that was set back repeats none. File has
// the last serial and the last bundle. So after a restart, and in the configuration that
// takes this one's place, the same definitions are the same bytes, which nobody loads again.
type Signer struct {
	Source *definition.Source
	Key    bundle.SigningKey
	Scope  string
	File   string
	Logger *zap.Logger
	Latest bundle.Latest

	last   int64 // the last serial of this Signer
	cancel func()
}

// signing has the signers of a workspace take turns, such as those of two configurations
// during a reload: the second one finds in the file what the first one signed.
var signing sync.Mutex

// Start signs what the source serves, from now on after each change.
func (s *Signer) Start() {
	s.cancel = s.Source.Subscribe(func(_ *definition.Snapshot, err error) {
		if err == nil {
			s.sign()
		}
	}, func(*definition.Snapshot) { s.sign() })
	s.sign()
}

// Stop ends what Start began, if it was called.
func (s *Signer) Stop() {
	if s.cancel != nil {
		s.cancel()
	}
}

// sign makes the bundle of the served snapshot, unless the last bundle is that.
func (s *Signer) sign() {
	signing.Lock()
	defer signing.Unlock()
	snapshot := s.Source.Snapshot()
	wanted := bundle.Bundle{Manifest: bundle.Manifest{Revision: snapshot.Revision, Scope: s.Scope}, Files: snapshot.Bundled()}
	kept, packed := s.kept()
	if b, err := bundle.Read(packed, []bundle.PublicKey{s.Key.Public()}, s.Scope); err == nil && b.Revision == wanted.Revision && b.Contents() == wanted.Contents() {
		s.last = b.Serial
		s.Latest.Set(b)
		return
	}
	wanted.Serial = max(time.Now().Unix(), kept+1, s.last+1)
	b, err := bundle.Build(wanted.Files, wanted.Manifest, s.Key)
	if err != nil {
		s.Logger.Error("the bundle can't be signed: the last one stays", zap.Error(err))
		return
	}
	if err := s.keep(b); err != nil {
		// The clock still keeps the serials in order.
		s.Logger.Error("the bundle can't be kept for the next start", zap.String("file", s.File), zap.Error(err))
	}
	s.last = b.Serial
	// Whoever has the bundle finds this line in the log.
	s.Logger.Info("bundle signed", zap.String("revision", b.Revision), zap.Int64("serial", b.Serial), zap.Int("bytes", len(b.Packed)))
	s.Latest.Set(b)
}

// kept returns the last serial and the last bundle, as keep has written them.
func (s *Signer) kept() (serial int64, packed []byte) {
	file, err := regular.ReadFile(s.File, bundle.MaxPacked+64)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Logger.Error("the last bundle can't be read", zap.String("file", s.File), zap.Error(err))
	}
	first, packed, _ := bytes.Cut(file, []byte("\n"))
	serial, _ = strconv.ParseInt(string(first), 10, 64)
	return serial, packed
}

// keep writes the serial and the bundle.
func (s *Signer) keep(b *bundle.Bundle) error {
	if err := os.MkdirAll(filepath.Dir(s.File), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(s.File, os.O_CREATE|os.O_WRONLY, 0o600) // what replaces it has its mode
	if err != nil {
		return err
	}
	_ = file.Close()
	return regular.ReplaceFile(s.File, append(fmt.Appendf(nil, "%d\n", b.Serial), b.Packed...))
}
