package gateway

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// session is what the sealed text of a visitor's session, or the token of a stream, says.
// The text is, in base64url,
//
//	end (8 bytes, Unix seconds), length of the workspace (1 byte), workspace, key, HMAC-SHA-256
//
// The HMAC is over the bytes before it and the digest of the API key, which is not part of
// the text: so a session ends with its key, also if another key gets the name. HKDF-SHA256
// (RFC 5869) derives the key of the HMAC from the trace key and the workspace's name, so
// that sessions survive a restart, and gateways that share a trace key accept the sessions
// of each other.
type session struct {
	end            int64
	workspace, key string
}

// What separates the derived keys from other uses of the trace key: those of the console's
// sessions, and those of the tokens of streams, which are sealed in the same way.
const (
	sessionKeyInfo = "cadenza console session v1\x00"
	tokenKeyInfo   = "cadenza flag stream v1\x00"
)

// The sizes of a session, in bytes. The length of a workspace's name has one of them.
const (
	minSession = 8 + 1 + sha256.Size
	maxSession = minSession + math.MaxUint8 + wire.MaxKeyName
)

// sealKeys are the keys under which texts of a workspace are sealed.
type sealKeys struct{ sessions, tokens []byte }

// newSealKeys derives the keys of a workspace from a trace key.
func newSealKeys(traceKey []byte, workspace string) *sealKeys {
	return &sealKeys{
		sessions: made(hkdf.Key(sha256.New, traceKey, nil, sessionKeyInfo+workspace, sha256.Size)),
		tokens:   made(hkdf.Key(sha256.New, traceKey, nil, tokenKeyInfo+workspace, sha256.Size)),
	}
}

// The two uses of sealed texts.
func (k *sealKeys) ofSessions() []byte { return k.sessions }
func (k *sealKeys) ofTokens() []byte   { return k.tokens }

// NewSession returns a sealed text that names a visitor's key and when the session ends.
// It fails if the key has lost its role, or if the workspace has not started.
func (g *Gateway) NewSession(v Visitor, until time.Time) (string, bool) {
	p := g.keys.named(v.Workspace, v.Key)
	if p == nil || p.Role == RoleNone {
		return "", false
	}
	return p.sealed(until, (*sealKeys).ofSessions)
}

// Session returns the visitor of a session that has not ended and whose key is still
// valid, with the role that the key has now.
func (g *Gateway) Session(sealed string, now time.Time) (Visitor, bool) {
	p, _ := g.unseal(sealed, now, (*sealKeys).ofSessions)
	visitor, ok := p.visitor()
	if ok {
		p.use(now)
	}
	return visitor, ok
}

// sealed returns a sealed text that names the key and its end.
func (p *principal) sealed(until time.Time, of func(*sealKeys) []byte) (string, bool) {
	ids := p.workspace.ids.Load()
	if ids == nil || len(p.workspace.Name) > math.MaxUint8 {
		return "", false
	}
	s := session{until.Unix(), p.workspace.Name, p.name}
	return base64.RawURLEncoding.EncodeToString(s.seal(of(ids.seals), p.digest)), true
}

// unseal returns the key that a text names and the text's end. It returns nil unless the
// workspace sealed the text for this use, the text has not ended, and the key is valid.
func (g *Gateway) unseal(sealed string, now time.Time, of func(*sealKeys) []byte) (*principal, time.Time) {
	s, ok := parseSession(sealed)
	if !ok || now.Unix() >= s.end {
		return nil, time.Time{}
	}
	p := g.keys.named(s.workspace, s.key)
	if p == nil || !p.validAt(now) {
		return nil, time.Time{}
	}
	ids := p.workspace.ids.Load()
	if ids == nil || !s.sealedBy(of(ids.seals), p.digest, sealed) && (ids.formerSeals == nil || !s.sealedBy(of(ids.formerSeals), p.digest, sealed)) {
		return nil, time.Time{}
	}
	return p, time.Unix(s.end, 0)
}

// seal returns the bytes of the session's text.
func (s *session) seal(key []byte, sum digest) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, maxSession), uint64(s.end))
	b = append(append(append(b, byte(len(s.workspace))), s.workspace...), s.key...)
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(b) // never fails
	_, _ = mac.Write(sum[:])
	return mac.Sum(b)
}

// sealedBy reports whether a text is the session's, sealed under key.
func (s *session) sealedBy(key []byte, sum digest, sealed string) bool {
	return hmac.Equal([]byte(base64.RawURLEncoding.EncodeToString(s.seal(key, sum))), []byte(sealed))
}

// parseSession reads what a text says, whoever made it.
func parseSession(sealed string) (s session, ok bool) {
	if len(sealed) > base64.RawURLEncoding.EncodedLen(maxSession) {
		return s, false
	}
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil || len(b) < minSession {
		return s, false
	}
	named, size := b[9:len(b)-sha256.Size], int(b[8])
	if size > len(named) {
		return s, false
	}
	return session{int64(binary.BigEndian.Uint64(b)), string(named[:size]), string(named[size:])}, true
}
