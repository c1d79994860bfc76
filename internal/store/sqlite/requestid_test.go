package sqlite

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRequestIDIsThatOfEarlierVersions pins the text that is hashed to the id: the gateways
// of a fleet may have different versions.
func TestRequestIDIsThatOfEarlierVersions(t *testing.T) {
	for _, key := range []string{"", "order-1", "a \"quoted\" \\ key", "ключ\x00\x7f\xff\u2028", strings.Repeat("k", 300)} {
		reply := replyOf(key, 7, time.Now())
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %x", reply.Workspace, reply.Key, reply.Digest))
		if got := requestID(reply); got != [16]byte(sum[:]) {
			t.Errorf("key %q: %x, want %x", key, got, sum[:16])
		}
	}
}
