package upstream

import (
	"crypto/sha256"
	"encoding/hex"
)

// toolIDSize bounds the id of a tool call, in bytes: Bedrock takes no longer ones.
const toolIDSize = 64

// ToolID returns the id of a tool call for a service that takes letters, digits, _ and
// - alone. The history of a conversation has calls of other services, too, whose ids
// have other characters or are longer. These become a digest, always the same one, so
// that a call and its result still belong together.
func ToolID(id string) string {
	plain := id != "" && len(id) <= toolIDSize
	for i := 0; plain && i < len(id); i++ {
		c := id[i]
		plain = 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-'
	}
	if plain {
		return id
	}
	digest := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(digest[:16])
}
