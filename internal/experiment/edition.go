package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
)

// Edition returns a name, a hash, for what the guard of a row's split says and for what its
// new answer is: the value, or all of the variant but its name. The field of the units and
// the salt are part of it, since another one draws the units anew, and so are the keys of the
// variants, by which traces call the arms. An edit of anything else leaves it as it is: of
// what the control answers, of the row's conditions, of other rows. It is empty where the row
// has no guard.
//
// It is made of what content says, and of no default, so that another version of the gateway
// has the same one.
func Edition(content []byte, rule string) string {
	c, row, _ := rowOf(content, rule)
	split, _ := row["split"].(map[string]any)
	guard, ok := split["guard"].(map[string]any)
	if !ok {
		return ""
	}
	salt, given := split["salt"]
	if !given {
		salt = row["id"]
	}
	answer := c.answer(guard["new"])
	if guard = maps.Clone(guard); c["variants"] == nil {
		delete(guard, "new")
		delete(guard, "control")
	}
	// Marshal sorts members, and can't fail on what came from JSON.
	whole, _ := json.Marshal([]any{textOf(split["by"]), textOf(salt), guard, answer})
	sum := sha256.Sum256(whole)
	return hex.EncodeToString(sum[:6])
}
