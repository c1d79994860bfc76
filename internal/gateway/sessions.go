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

// session is what the sealed text of a visitor's session says. The text is, in base64url,
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

// sessionKeyInfo separates the derived keys from other uses of the trace key.
const sessionKeyInfo = "cadenza console session v1\x00"

// The sizes of a session, in bytes. The length of a workspace's name has one of them.
const (
	minSession = 8 + 1 + sha256.Size
	maxSession = minSession + math.MaxUint8 + wire.MaxKeyName
)

// sessionKey derives the key of a workspace's sessions from a trace key.
func sessionKey(traceKey []byte, workspace string) []byte {
	return made(hkdf.Key(sha256.New, traceKey, nil, sessionKeyInfo+workspace, sha256.Size))
}

// NewSession returns a sealed text that names a visitor's key and when the session ends.
// It fails if the key has lost its role, or if the workspace has not started.
func (g *Gateway) NewSession(v Visitor, until time.Time) (string, bool) {
	p := g.keys.visitor(v.Workspace, v.Key)
	if p == nil || len(v.Workspace) > math.MaxUint8 {
		return "", false
	}
	ids := p.workspace.ids.Load()
	if ids == nil {
		return "", false
	}
	s := session{until.Unix(), v.Workspace, v.Key}
	return base64.RawURLEncoding.EncodeToString(s.seal(ids.sessions, p.digest)), true
}

// Session returns the visitor of a session that has not ended and whose key is still
// valid, with the role that the key has now.
func (g *Gateway) Session(sealed string, now time.Time) (Visitor, bool) {
	s, ok := parseSession(sealed)
	if !ok || now.Unix() >= s.end {
		return Visitor{}, false
	}
	p := g.keys.visitor(s.workspace, s.key)
	if p == nil || !p.validAt(now) {
		return Visitor{}, false
	}
	ids := p.workspace.ids.Load()
	if ids == nil || !s.sealedBy(ids.sessions, p.digest, sealed) && (ids.formerSessions == nil || !s.sealedBy(ids.formerSessions, p.digest, sealed)) {
		return Visitor{}, false
	}
	p.use(now)
	return p.visitor()
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
