package gatewaytest

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"testing"
	"time"
)

// FlagToken makes the token of a stream of flags' changes, as a gateway makes it under a
// trace key for the API key of a name.
func FlagToken(t testing.TB, traceKey, workspace, name, key string, end time.Time) string {
	t.Helper()
	seal, err := hkdf.Key(sha256.New, []byte(traceKey), nil, "cadenza flag stream v1\x00"+workspace, sha256.Size)
	if err != nil {
		t.Fatal(err)
	}
	text := binary.BigEndian.AppendUint64(nil, uint64(end.Unix()))
	text = append(append(append(text, byte(len(workspace))), workspace...), name...)
	sum, mac := sha256.Sum256([]byte(key)), hmac.New(sha256.New, seal)
	mac.Write(text)
	mac.Write(sum[:])
	return base64.RawURLEncoding.EncodeToString(mac.Sum(text))
}
