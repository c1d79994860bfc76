// Package bundle reads, verifies and builds the form in which definitions travel to
// gateways: the bundles of Open Policy Agent, which are a gzipped tarball with a
// manifest and one signature over the hashes of all files. docs/bundles.md says what of
// it is Open Policy Agent's, and what is added.
package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/cadenza-gateway/cadenza/trace"
)

// MediaType is the media type of a bundle. A source that answers with it takes long
// polls.
const MediaType = "application/vnd.openpolicyagent.bundles"

// The ceilings of a bundle.
const (
	// MaxPacked is how many bytes a bundle may have as it travels.
	MaxPacked = 64 << 20
	// maxUnpacked is how many bytes its tarball, and its files, may have.
	maxUnpacked = 256 << 20
	// maxFiles is how many files and folders it may have besides the manifest and the
	// signature.
	maxFiles = 20_000
	// maxFile is how many bytes one of them, or the signature, may have. The signature
	// is read before anything is known to be signed.
	maxFile = 16 << 20
	// maxManifest is how many bytes the manifest may have, which is parsed before its
	// hash is known.
	maxManifest = 64 << 10
)

// Manifest is what a bundle says about itself, below its signature.
type Manifest struct {
	// Revision is a text for people, such as a commit. Nothing compares it.
	Revision string
	// Serial is at least 1, and larger in each later bundle. It is the member serial of
	// the manifest's metadata.
	Serial int64
	// Scope is the name of the gateways that the bundle is for, or empty. It is the
	// member scope of the manifest's metadata, and of the signature's payload.
	Scope string
}

// Bundle is a bundle that was read.
type Bundle struct {
	Manifest
	// Files are sorted by path, without the manifest and the signature.
	Files []trace.File
	// KeyID is the id of the public key that the signature is of (PublicKey.ID). From
	// Inspect it is what the signature claims.
	KeyID string
	// Packed is the bundle as it came. It must not be changed.
	Packed []byte

	tag string // what Tag returns, or empty
}

// Tag returns a strong entity tag of the packed bytes, in quotes.
func (b *Bundle) Tag() string {
	if b.tag != "" {
		return b.tag
	}
	sum := sha256.Sum256(b.Packed)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// Contents returns a hash over the paths and hashes of the files. Two bundles with the
// same files have the same, however they are packed and signed.
func (b *Bundle) Contents() string {
	sum := sha256.New()
	for _, f := range b.Files {
		_, _ = io.WriteString(sum, f.Path+"\x00"+f.Hash+"\n") // a path has no zero byte
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Check returns why the bundle may not follow last, which may be nil: its serial is
// older, unless a rollback is allowed, or the same with other files.
func (b *Bundle) Check(last *Bundle, allowRollback bool) error {
	switch {
	case last == nil:
		return nil
	case b.Serial < last.Serial && !allowRollback:
		return fmt.Errorf("the bundle's serial %d is older than %d, which is served: to go back, build the old definitions with a serial above %[2]d, or set allow_rollback", b.Serial, last.Serial)
	case b.Serial == last.Serial && b.Contents() != last.Contents():
		return fmt.Errorf("the bundle has the serial %d of the one that is served, and other files: build it with a serial above %[1]d", b.Serial)
	}
	return nil
}
